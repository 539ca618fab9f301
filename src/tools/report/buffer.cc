#include "tools/report/buffer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "network/network.h"
#include "report/buffer_curve.h"
#include "report/buffer_page.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

nlohmann::json curve_json(const report::BufferCurve& curve) {
  nlohmann::json points = nlohmann::json::array();
  for (const report::BufferPoint& point : curve.points) {
    nlohmann::json row = {{"bytes_per_partition", point.bytes}};
    if (point.error.empty()) {
      row["cycles"] = point.cycles;
      row["dram_bytes"] = point.dram_bytes;
      row["spilled_tensors"] = point.spilled;
      row["spilled_bytes"] = point.spilled_bytes;
    } else {
      row["error"] = point.error;
    }
    points.push_back(std::move(row));
  }
  return points;
}

std::string curve_text(const report::BufferCurve& curve) {
  TextTable table({"bytes a partition", "cycles", "DRAM bytes", "spilled", "their bytes"});
  std::string refused;
  for (const report::BufferPoint& point : curve.points) {
    if (!point.error.empty()) {
      refused = fmt::format("{} bytes: {}\n", with_separators(point.bytes),
                            visible_text(point.error, LineBreaks::kIndented));
      continue;
    }
    table.add({with_separators(point.bytes), with_separators(point.cycles),
               with_separators(point.dram_bytes), with_separators(point.spilled),
               with_separators(point.spilled_bytes)});
  }
  return table.text() + refused;
}

}  // namespace

std::string buffer_use_text(const NetworkState& state) {
  const report::BufferUse use = report::buffer_use(state.package);
  const compile::TightPlacement& tight = use.tightest;
  return fmt::format(
      "state buffer: peak {} of {} bytes a partition\n"
      "  lower bound {}, tightest placement {} ({}), gap {}{}\n",
      with_separators(use.peak), with_separators(state.chip.state_buffer.bytes_per_partition),
      with_separators(tight.bound), with_separators(tight.peak), tight.found_by,
      with_separators(tight.gap()), tight.proved ? ", proved" : "");
}

nlohmann::json buffer_use_json(const NetworkState& state) {
  const report::BufferUse use = report::buffer_use(state.package);
  return {{"peak", use.peak},
          {"bytes_per_partition", state.chip.state_buffer.bytes_per_partition},
          {"lower_bound", use.tightest.bound},
          {"tightest", use.tightest.peak},
          {"gap", use.tightest.gap()},
          {"found_by", use.tightest.found_by},
          {"search_steps", use.tightest.steps},
          {"proved", use.tightest.proved}};
}

Status min_buffer_report(const ModelArguments& arguments, const std::string& html,
                         FileRoles roles) {
  TESSERA_TRY(const LoadOptions options, arguments.load_options());
  if (options.tile_budget_bytes != 0 || !options.resident) {
    return Error{ErrorCode::kInvalidArgument,
                 "--min-buffer asks what the compiler can do by itself; leave out --tile-budget "
                 "and --through-dram"};
  }
  if (package::kind_of_file(arguments.model) == package::FileKind::kPackage) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is a package, compiled for one buffer; give --min-buffer the "
                             "ONNX model",
                             arguments.model)};
  }
  TESSERA_TRY(const ChipConfig chip, load_chip_config(options.arch));
  TESSERA_TRY(const auto graph, network::load_graph(arguments.model, chip, options));
  TESSERA_RETURN_IF_ERROR(check_external(*graph, roles));
  TESSERA_TRY(const report::BufferCurve curve, report::buffer_curve(graph, chip));
  if (!html.empty()) {
    TESSERA_RETURN_IF_ERROR(report::write_buffer_page(html, arguments.model, curve));
  }
  if (arguments.json) {
    const nlohmann::json document = {{"model", arguments.model},
                                     {"arch", chip.name},
                                     {"min_buffer_bytes_per_partition", curve.smallest},
                                     {"partitions", chip.state_buffer.partitions},
                                     {"points", curve_json(curve)}};
    show_lines(json_text(document) + "\n");
    return {};
  }
  show_lines(
      fmt::format("{}\nsmallest state buffer without spilling: {} bytes a partition, {} KiB\n",
                  curve_text(curve), with_separators(curve.smallest),
                  with_separators(curve.smallest * chip.state_buffer.partitions / 1024)));
  if (!html.empty()) show("wrote {}\n", html);
  return {};
}

}  // namespace tessera::tools

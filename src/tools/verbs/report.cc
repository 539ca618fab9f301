// tessera report: the layers' table (cycles, what bounds them, utilisation, bytes) and HTML.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "arch/chip_config.h"
#include "link/link.h"
#include "network/network.h"
#include "package/weight_use.h"
#include "report/layer_json.h"
#include "report/roofline.h"
#include "tools/files/tensor_file.h"
#include "tools/report/accuracy.h"
#include "tools/report/buffer.h"
#include "tools/report/cores.h"
#include "tools/report/formats.h"
#include "tools/report/roofline_text.h"
#include "tools/report/transpositions.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

using report::Cause;
using report::LayerBound;
using report::LayerTime;
using report::RooflineReport;

constexpr std::size_t kReportWidth = 100;

struct ReportArguments {
  ModelArguments model;
  CoresArguments cores;
  std::string html, trace;
  bool serial = false;
  bool min_buffer = false;
  bool formats = false;
  bool accuracy = false;
  FormatReportArguments format_study;
};

// Useful multiply-accumulates against what the array could have done in `cycles`.
double array_use(std::int64_t macs, double cycles, const ChipConfig& chip) {
  const double peak =
      cycles * static_cast<double>(chip.neural.rows * chip.neural.columns * chip.neural.count);
  return peak > 0 ? static_cast<double>(macs) / peak : 0;
}

nlohmann::json causes_json(const LayerTime& time) {
  nlohmann::json causes;
  for (int cause = 0; cause < report::kCauseCount; ++cause) {
    causes[cause_name(static_cast<Cause>(cause))] = time[static_cast<Cause>(cause)];
  }
  return causes;
}

nlohmann::json layers_json(const RunResult& run, const RooflineReport& roofline,
                           const NetworkState& network) {
  const std::vector<package::WeightUse> weights = package::weight_use_by_layer(network.package);
  nlohmann::json layers = nlohmann::json::array();
  for (std::size_t i = 0; i < run.layers.size(); ++i) {
    const LayerUse& layer = run.layers[i];
    const LayerTime& time = roofline.times[i];
    const LayerBound& bound = roofline.bounds[i];
    const auto cycles = static_cast<double>(time.total());
    layers.push_back(report::layer_json(layer));
    layers.back().update({{"cycles", time.total()},
                          {"cycles_by_cause", causes_json(time)},
                          {"bound", bound_name(time)},
                          {"array_use", array_use(layer.macs, cycles, network.chip)},
                          {"idle_share", idle_share(time)},
                          {"idle_cause", idle_cause_name(time)},
                          {"dram_bytes", time.dram_bytes},
                          {"weight_bytes_moved", weights[i].moved_bytes},
                          {"weight_bytes_saved", weights[i].saved_bytes()},
                          {"compulsory_bytes", bound.bytes},
                          {"roofline_cycles", bound.cycles()}});
  }
  return layers;
}

nlohmann::json roofline_json(const RooflineReport& roofline) {
  nlohmann::json losses;
  for (int cause = 0; cause < report::kCauseCount; ++cause) {
    losses[cause_name(static_cast<Cause>(cause))] = roofline.distance[static_cast<Cause>(cause)];
  }
  return {
      {"cycles", roofline.roofline_cycles},      {"share", roofline.share},
      {"macs", roofline.total_bound.macs},       {"compulsory_bytes", roofline.total_bound.bytes},
      {"dram_bytes", roofline.total.dram_bytes}, {"losses", losses},
      {"overlap", roofline.distance.overlap},    {"cycles_by_cause", causes_json(roofline.total)}};
}

void print_layers(const Network& network, const RunResult& run, const RooflineReport& roofline) {
  const ChipConfig& chip = network.state().chip;
  TextTable table({"layer", "output", "MACs", "cycles", "roofline", "bound", "use", "idle", "cause",
                   "DRAM bytes"});
  for (std::size_t i = 0; i < run.layers.size(); ++i) {
    const LayerUse& layer = run.layers[i];
    const LayerTime& time = roofline.times[i];
    const double use = array_use(layer.macs, static_cast<double>(time.total()), chip);
    table.add({layer.name, dims_text(layer.output_dims), with_separators(layer.macs),
               with_separators(time.total()),
               with_separators(std::llround(roofline.bounds[i].cycles())), bound_name(time),
               layer.macs > 0 && time.total() > 0 ? percent(use) : "-",
               time.total() > 0 ? percent(idle_share(time)) : "-", idle_cause_name(time),
               with_separators(time.dram_bytes)});
  }
  show_lines(table.text(kReportWidth));
}

void print_text(const Network& network, const RunResult& run, const RooflineReport& roofline) {
  print_layers(network, run, roofline);
  show(
      "\ncycles: every cycle of the run belongs to one layer; bound: what most of them went to\n"
      "use: of the array's cells in those cycles; idle: cycles in which the array does not run\n"
      "roofline: max(MACs / peak, compulsory bytes / bandwidth); compulsory: constants once,\n"
      "          the network's inputs and outputs\n");
  show_lines(fmt::format(
      "\n{}{} cycles, {:.1f} us at {} MHz\n{}\n{}", placement_text(network.placement()),
      with_separators(run.cycles),
      static_cast<double>(run.cycles) * 1e6 / static_cast<double>(run.clock_hertz),
      run.clock_hertz / 1'000'000, roofline_text(roofline, run.cycles), engine_table(run)));
}

std::int64_t dropped_at_link(const Network& network, const isa::Program& program) {
  return program.dependencies_dropped - network.state().package.dependencies_dropped;
}

nlohmann::json report_json(const ReportArguments& arguments, const Network& network,
                           const isa::Program& program, const RunResult& run,
                           const RooflineReport& roofline) {
  const package::WeightUse weights = package::weight_use(network.state().package);
  return {{"model", arguments.model.model},
          {"arch", network.state().chip.name},
          {"cycles", run.cycles},
          {"nodes_on_processor", network.placement().nodes_on_processor},
          {"nodes_on_host", network.placement().nodes_on_host},
          {"notes", network.placement().notes},
          {"state_buffer", buffer_use_json(network.state())},
          {"roofline", roofline_json(roofline)},
          {"weight_bytes_moved", weights.moved_bytes},
          {"weight_bytes_saved", weights.saved_bytes()},
          {"dependencies", program.dependency_count()},
          {"dependencies_dropped", program.dependencies_dropped},
          {"dependencies_dropped_at_link", dropped_at_link(network, program)},
          {"layers", layers_json(run, roofline, network.state())},
          {"transpositions", transposition_json(network.state().package, run)}};
}

// What belongs to a study of accuracy is an error without one.
Status check_studies(const ReportArguments& arguments) {
  const FormatReportArguments& study = arguments.format_study;
  const bool studied = arguments.formats || arguments.accuracy;
  const bool fed = !study.cases.inputs.empty() || !study.cases.preprocess.empty();
  const bool used = studied || (arguments.model.chooses_formats() && study.cases.folder.empty());
  if (used || (!fed && study.cases.folder.empty() && study.threads == 0)) return {};
  return Error{ErrorCode::kInvalidArgument,
               "--input, --preprocess, --cases and --threads are for --formats and --accuracy (and "
               "--input for --format auto); a report of cycles does not depend on values"};
}

Status report(const ReportArguments& arguments) {
  FileRoles roles = arguments.model.file_roles();
  roles.read_inputs(arguments.format_study.cases.inputs);
  roles.write("--html", arguments.html);
  roles.write("--trace", arguments.trace);
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_RETURN_IF_ERROR(arguments.cores.check_without(arguments.accuracy     ? "--accuracy"
                                                        : arguments.formats    ? "--formats"
                                                        : arguments.min_buffer ? "--min-buffer"
                                                        : arguments.serial     ? "--serial"
                                                                               : nullptr));
  if (arguments.accuracy) {
    return accuracy_report(arguments.model, arguments.format_study, arguments.html, roles);
  }
  if (arguments.formats) {
    return format_report(arguments.model, arguments.format_study, arguments.html, roles);
  }
  if (arguments.min_buffer) return min_buffer_report(arguments.model, arguments.html, roles);
  if (arguments.cores.several()) {
    return cores_report({arguments.model, arguments.cores, arguments.html, arguments.trace}, roles);
  }
  TESSERA_TRY(const Network network, arguments.model.load(roles));
  SessionOptions options;
  options.timing_only = true;  // cycles do not depend on values
  options.serial = arguments.serial;
  options.trace = true;
  TESSERA_TRY(Session session, Session::open(network, options));
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    inputs.push_back(random_tensor(network.inputs()[i], 0, i));
  }
  TESSERA_TRY(const RunResult run, session.run(inputs));
  TESSERA_TRY(const isa::Program program, link::link(network.state().package, network.state().chip,
                                                     {.serial = arguments.serial}));
  const RooflineReport roofline = report::roofline_report(network, program, run);
  if (!arguments.html.empty()) {
    TESSERA_RETURN_IF_ERROR(write_html_report(arguments.html, arguments.model.model, network, run));
  }
  if (!arguments.trace.empty()) TESSERA_RETURN_IF_ERROR(write_perfetto(arguments.trace, run));
  const package::WeightUse weights = package::weight_use(network.state().package);
  if (arguments.model.json) {
    show_lines(json_text(report_json(arguments, network, program, run, roofline)) + "\n");
    return {};
  }
  print_text(network, run, roofline);
  show_lines(transposition_text(network.state().package, run));
  show_lines(buffer_use_text(network.state()));
  show("{}\n", package::weight_use_text(weights));
  const std::int64_t at_link = dropped_at_link(network, program);
  show("dependencies: {}; redundant ones dropped: {} when compiling, {} when linking\n",
       with_separators(program.dependency_count()),
       with_separators(program.dependencies_dropped - at_link), with_separators(at_link));
  for (const std::string& path : {arguments.html, arguments.trace}) {
    if (!path.empty()) show("wrote {}\n", path);
  }
  return {};
}

}  // namespace

Action report_verb(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();  // shared with the returned action
  arguments->model.add_to(app);
  arguments->cores.add_to(app);
  arguments->cores.add_images_to(app);
  app.add_option("--html", arguments->html, "write a self-contained HTML report");
  app.add_option("--trace", arguments->trace, "write the timeline (Perfetto JSON)");
  app.add_flag("--serial", arguments->serial, "one task at a time");
  app.add_flag("--min-buffer", arguments->min_buffer,
               "the smallest state buffer without spilling, and the cost of smaller ones")
      ->excludes("--trace")
      ->excludes("--serial");
  FormatReportArguments& study = arguments->format_study;
  CLI::Option* const formats =
      app.add_flag(
             "--formats", arguments->formats,
             "accuracy against float32, bytes and cycles in one number format after the other")
          ->excludes("--trace")
          ->excludes("--serial")
          ->excludes("--min-buffer");
  app.add_option("--only", study.formats, "with --formats: these formats alone")->needs(formats);
  CLI::Option* const accuracy =
      app.add_flag("--accuracy", arguments->accuracy,
                   "layer by layer how far values are from float32, and what would help")
          ->excludes(formats)
          ->excludes("--trace")
          ->excludes("--serial")
          ->excludes("--min-buffer");
  CLI::Option* const input = app.add_option(
      "--input", study.cases.inputs,
      "with --formats, --accuracy and --format auto: NAME=FILE (.npy, .pb, .png, .jpg) "
      "or NAME=random[:seed]");
  app.add_option(
         "--cases", study.cases.folder,
         "with --formats and --accuracy: a folder of inputs, a file each, or of folders with "
         "NAME.npy")
      ->excludes(input)
      ->check(CLI::ExistingDirectory);
  app.add_option("--preprocess", study.cases.preprocess, "for pictures, as in 'tessera run'");
  app.add_option("--layers", study.layers,
                 "with --accuracy: how many layers are tried (default 12)")
      ->needs(accuracy)
      ->check(CLI::Range(0, 1000));
  app.add_flag("--texts", study.texts,
               "with --formats: the first output has scores of characters (CTC); compare the texts")
      ->needs(formats);
  app.add_option("--threads", study.threads,
                 "with --formats and --accuracy: threads of the host (0: all)");
  return [arguments]() -> Status {
    StudyCases& cases = arguments->format_study.cases;
    TESSERA_RETURN_IF_ERROR(check_studies(*arguments));
    if (arguments->formats || arguments->accuracy) {
      arguments->model.fed = cases.inputs;
    } else {
      TESSERA_RETURN_IF_ERROR(arguments->model.feed(cases.inputs, cases.preprocess));
    }
    return report(*arguments);
  };
}

}  // namespace tessera::tools

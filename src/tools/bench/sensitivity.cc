#include "tools/bench/sensitivity.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "tools/bench/zoo_run.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using report::Cause;

constexpr const char* kNetworks = "mobilenet_v1,resnet50,yolov3_tiny,vit_tiny,bert_base";

// One change of a processor.
struct Change {
  const char* name;
  void (*apply)(ChipConfig&);
};

constexpr Change kChanges[] = {
    {"as it is", [](ChipConfig& /*chip*/) {}},
    {"core clock x 2", [](ChipConfig& chip) { chip.clock_hertz *= 2; }},
    {"memory channels x 2", [](ChipConfig& chip) { chip.dram.channels *= 2; }},
    {"no refresh", [](ChipConfig& chip) { chip.dram.refresh = 0; }},
    {"1 bank", [](ChipConfig& chip) { chip.state_buffer.banks = 1; }},
    {"ports never meet", [](ChipConfig& chip) { chip.state_buffer.banks = 0; }},
    {"2 read ports", [](ChipConfig& chip) { chip.state_buffer.read_ports = 2; }},
    {"2 write ports", [](ChipConfig& chip) { chip.state_buffer.write_ports = 2; }},
    {"ports / 4", [](ChipConfig& chip) { chip.state_buffer.port_bytes /= 4; }},
    {"1 neural engine", [](ChipConfig& chip) { chip.neural.count = 1; }},
    {"2 neural engines", [](ChipConfig& chip) { chip.neural.count = 2; }},
    {"4 neural engines", [](ChipConfig& chip) { chip.neural.count = 4; }},
    {"8 neural engines", [](ChipConfig& chip) { chip.neural.count = 8; }},
    {"2 planar engines", [](ChipConfig& chip) { chip.planar.count = 2; }},
    {"filters of 2 taps", [](ChipConfig& chip) { chip.planar.filter_taps = 2; }},
    {"scatter 1 element", [](ChipConfig& chip) { chip.dma.scatter_elements = 1; }},
};

struct Row {
  const char* change;
  ZooRun run;
  double milliseconds = 0;
};

// The cause whose cycles changed most, with that change: "weights -12,345".
struct Reason {
  Cause cause = Cause::kArray;
  std::int64_t cycles = 0;
};
Reason reason(const ZooRun& base, const ZooRun& changed) {
  Reason most;
  for (int c = 0; c < report::kCauseCount; ++c) {
    const auto cause = static_cast<Cause>(c);
    const std::int64_t cycles = changed.roofline.total[cause] - base.roofline.total[cause];
    if (std::abs(cycles) > std::abs(most.cycles)) most = {cause, cycles};
  }
  return most;
}
std::string reason_text(const Reason& reason) {
  if (reason.cycles == 0) return "-";
  return fmt::format("{} {}{}", report::cause_name(reason.cause), reason.cycles > 0 ? "+" : "",
                     with_separators(reason.cycles));
}

Result<std::vector<Row>> measure(const ZooRunner& runner, const zoo::ZooNetwork& network,
                                 const ChipConfig& base) {
  std::vector<Row> rows;
  for (const Change& change : kChanges) {
    ChipConfig chip = base;
    change.apply(chip);
    auto run = runner.run(network, chip);
    if (!run.ok()) {
      return run.error().with_context(fmt::format("{}, {}", network.name, change.name));
    }
    const double milliseconds =
        static_cast<double>(run->cycles) * 1e3 / static_cast<double>(chip.clock_hertz);
    rows.push_back({change.name, std::move(run).value(), milliseconds});
  }
  return rows;
}

nlohmann::json to_json(const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json causes;
    for (int c = 0; c < report::kCauseCount; ++c) {
      const auto cause = static_cast<Cause>(c);
      causes[report::cause_name(cause)] = row.run.roofline.total[cause];
    }
    const Reason why = reason(rows.front().run, row.run);
    list.push_back({{"change", row.change},
                    {"cycles", row.run.cycles},
                    {"milliseconds", row.milliseconds},
                    {"idle_engine_cycles", row.run.idle_engine_cycles},
                    {"cycles_by_cause", causes},
                    {"reason", report::cause_name(why.cause)},
                    {"reason_cycles", why.cycles}});
  }
  return list;
}

void print(const std::vector<Row>& rows) {
  TextTable table({rows.front().run.name, "cycles", "ms", "time", "most changed"});
  const Row& base = rows.front();
  for (const Row& row : rows) {
    table.add({row.change, with_separators(row.run.cycles), fmt::format("{:.3f}", row.milliseconds),
               fmt::format("x {:.3f}", row.milliseconds / base.milliseconds),
               reason_text(reason(base.run, row.run))});
  }
  show_lines(table.text(100) + "\n");
}

}  // namespace

Status run_sensitivity_suite(const SensitivitySuite& suite) {
  TESSERA_TRY(const std::vector<zoo::ZooNetwork> networks,
              zoo_networks(suite.networks.empty() ? kNetworks : suite.networks));
  TESSERA_TRY(const ChipConfig chip, load_chip_config(suite.arch));
  TESSERA_TRY(const ZooRunner runner, ZooRunner::make());
  nlohmann::json all;
  for (const zoo::ZooNetwork& network : networks) {
    TESSERA_TRY(const std::vector<Row> rows, measure(runner, network, chip));
    if (suite.json) {
      all[network.name] = to_json(rows);
    } else {
      print(rows);
    }
  }
  if (suite.json) show_lines(json_text({{"arch", suite.arch}, {"networks", all}}) + "\n");
  return {};
}

}  // namespace tessera::tools

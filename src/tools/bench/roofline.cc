// Each network is written into a folder of its own, compiled and run for its timing alone; the
// folder goes when the suite ends.
#include "tools/bench/roofline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "link/link.h"
#include "network/network.h"
#include "report/roofline.h"
#include "tools/files/tensor_file.h"
#include "tools/report/roofline_text.h"
#include "tools/terminal/console.h"
#include "zoo/zoo.h"

namespace tessera::tools {
namespace {

using report::Cause;

class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error) / "tessera-roofline-XXXXXX";
    if (error || mkdtemp(path.data()) == nullptr) {
      return Error{ErrorCode::kUnavailable, fmt::format("cannot make the folder '{}'", path)};
    }
    return TemporaryFolder(path);
  }
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Row {
  std::string name;
  std::int64_t cycles = 0, nodes_on_host = 0;
  double cpu_seconds = 0;  // of the timing-only run, without compilation
  report::RooflineReport roofline;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Result<Row> measure(const zoo::ZooNetwork& network, const RooflineSuite& suite,
                    const std::string& folder) {
  const std::string path = fmt::format("{}/{}.onnx", folder, network.name);
  if (const auto written = zoo::write_network(network, 0, path); !written.ok()) {
    return written.error();
  }
  LoadOptions load;
  load.arch = suite.arch;
  load.progress = progress_bar();
  auto loaded = Network::load(path, load);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (!loaded.ok()) return loaded.error();
  TESSERA_TRY(const isa::Program program,
              link::link(loaded->state().package, loaded->state().chip));
  SessionOptions options;
  options.timing_only = true;
  options.trace = true;
  TESSERA_TRY(Session session, Session::open(*loaded, options));
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < loaded->inputs().size(); ++i) {
    inputs.push_back(random_tensor(loaded->inputs()[i], 0, i));
  }
  const double begin = cpu_seconds();
  TESSERA_TRY(const RunResult run, session.run(inputs));
  Row row{network.name, run.cycles, loaded->placement().nodes_on_host, cpu_seconds() - begin, {}};
  row.roofline = report::roofline_report(*loaded, program, run);
  return row;
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json losses;
  for (int cause = 0; cause < report::kCauseCount; ++cause) {
    losses[cause_name(static_cast<Cause>(cause))] =
        row.roofline.distance[static_cast<Cause>(cause)];
  }
  return {{"network", row.name},
          {"cycles", row.cycles},
          {"roofline_cycles", row.roofline.roofline_cycles},
          {"share", row.roofline.share},
          {"losses", losses},
          {"overlap", row.roofline.distance.overlap},
          {"macs", row.roofline.total_bound.macs},
          {"compulsory_bytes", row.roofline.total_bound.bytes},
          {"dram_bytes", row.roofline.total.dram_bytes},
          {"nodes_on_host", row.nodes_on_host},
          {"cpu_seconds", row.cpu_seconds}};
}

void print(const std::vector<Row>& rows, double mean, const std::string& arch) {
  TextTable table({"network", "cycles", "roofline", "share", "cells", "planar", "weights",
                   "transf.", "depend.", "start", "ports", "overlap", "CPU ms"});
  for (const Row& row : rows) {
    const report::Distance& lost = row.roofline.distance;
    const auto part = [&](double value) {
      return fmt::format("{:.1f}", 100 * value / static_cast<double>(row.cycles));
    };
    table.add({row.name, with_separators(row.cycles),
               with_separators(std::llround(row.roofline.roofline_cycles)),
               percent(row.roofline.share), part(lost[Cause::kArray]), part(lost[Cause::kPlanar]),
               part(lost[Cause::kWeights]), part(lost[Cause::kTransfers]),
               part(lost[Cause::kDependency]), part(lost[Cause::kStartUp]),
               part(lost[Cause::kPorts]), part(lost.overlap),
               fmt::format("{:.0f}", row.cpu_seconds * 1e3)});
  }
  show_lines(fmt::format(
      "{}\ngeometric mean of the shares on {}: {}\n\n"
      "roofline: sum over layers of max(MACs / peak, compulsory bytes / bandwidth); compulsory:\n"
      "          constants once, the network's inputs and outputs\n"
      "cells to start: percent of the run that went beyond it, by cause: empty cells of the "
      "array,\n"
      "          waiting for the planar engine, weights, transfers, results in the pipeline,\n"
      "          start-up, ports of the state buffer; overlap: what layers saved in the shadow of "
      "others\n",
      table.text(100), visible_text(arch), percent(mean)));
}

Result<std::vector<zoo::ZooNetwork>> chosen(const std::string& names) {
  const std::span<const zoo::ZooNetwork> all = zoo::networks();
  if (names.empty()) return std::vector<zoo::ZooNetwork>(all.begin(), all.end());
  std::vector<zoo::ZooNetwork> list;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    TESSERA_TRY(const zoo::ZooNetwork network, zoo::find_network(names.substr(begin, end - begin)));
    list.push_back(network);
    begin = end + 1;
  }
  return list;
}

}  // namespace

Status run_roofline_suite(const RooflineSuite& suite) {
  TESSERA_TRY(const std::vector<zoo::ZooNetwork> networks, chosen(suite.networks));
  TESSERA_TRY(const TemporaryFolder folder, TemporaryFolder::make());
  std::vector<Row> rows;
  double logarithms = 0;
  for (const zoo::ZooNetwork& network : networks) {
    auto row = measure(network, suite, folder.path());
    if (!row.ok()) return row.error().with_context(network.name);
    rows.push_back(std::move(row).value());
    logarithms += std::log(rows.back().roofline.share);
  }
  const double mean = std::exp(logarithms / static_cast<double>(rows.size()));
  if (!suite.json) {
    print(rows, mean, suite.arch);
    return {};
  }
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  show_lines(json_text({{"arch", suite.arch}, {"geomean_share", mean}, {"networks", list}}) + "\n");
  return {};
}

}  // namespace tessera::tools

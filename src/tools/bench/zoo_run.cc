#include "tools/bench/zoo_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "arch/architecture_file.h"
#include "link/link.h"
#include "network/network.h"
#include "tools/files/tensor_file.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

Result<std::vector<zoo::ZooNetwork>> zoo_networks(const std::string& names) {
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

Result<ZooRun> run_for_timing(const std::string& name, const Network& network) {
  TESSERA_TRY(const isa::Program program,
              link::link(network.state().package, network.state().chip));
  SessionOptions options;
  options.timing_only = true;
  options.trace = true;
  TESSERA_TRY(Session session, Session::open(network, options));
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    inputs.push_back(random_tensor(network.inputs()[i], 0, i));
  }
  const double begin = cpu_seconds();
  TESSERA_TRY(const RunResult run, session.run(inputs));
  ZooRun result{.name = name,
                .cycles = run.cycles,
                .nodes_on_host = network.placement().nodes_on_host,
                .idle_engine_cycles = idle_engine_cycles(run.engines),
                .cpu_seconds = cpu_seconds() - begin,
                .roofline = {}};
  result.roofline = report::roofline_report(network, program, run);
  return result;
}

Result<ZooRunner> ZooRunner::make() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error) / "tessera-zoo-XXXXXX";
  if (error || mkdtemp(path.data()) == nullptr) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot make the folder '{}'", path)};
  }
  return ZooRunner(path);
}

ZooRunner::~ZooRunner() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Result<ZooRun> ZooRunner::run(const zoo::ZooNetwork& network, const std::string& arch) const {
  const std::string path = fmt::format("{}/{}.onnx", folder_, network.name);
  if (const auto written = zoo::write_network(network, 0, path); !written.ok()) {
    return written.error();
  }
  LoadOptions load;
  load.arch = arch;
  load.progress = progress_bar();
  auto loaded = Network::load(path, load);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (!loaded.ok()) return loaded.error();
  return run_for_timing(std::string(network.name), *loaded);
}

Result<ZooRun> ZooRunner::run(const zoo::ZooNetwork& network, const ChipConfig& chip) const {
  const std::string path = folder_ + "/processor.toml";
  std::ofstream file(path);
  file << describe(chip);
  file.close();
  if (!file) return Error{ErrorCode::kUnavailable, fmt::format("cannot write '{}'", path)};
  return run(network, path);
}

}  // namespace tessera::tools

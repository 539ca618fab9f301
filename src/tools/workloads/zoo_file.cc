#include "tools/workloads/zoo_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "arch/architecture_file.h"
#include "arith/tensor.h"
#include "host/executor.h"
#include "model/import.h"
#include "network/network.h"
#include "zoo/weights.h"

namespace tessera::tools {
namespace {

constexpr const char* kExact = "f32";  // the architecture whose values are those of the model
constexpr std::uint64_t kInputStreams = std::uint64_t{1} << 32;  // behind those of the weights

Tensor normal_input(const graph::TensorInfo& of, std::uint64_t seed, std::uint64_t stream) {
  Tensor input = Tensor::zeros(Format::kF32, of.dims);
  std::string bytes;
  zoo::fill_weights({.seed = seed, .stream = stream},
                    static_cast<std::int64_t>(input.bytes.size() / sizeof(float)), bytes);
  std::memcpy(input.bytes.data(), bytes.data(), bytes.size());
  return input;
}

void widen(const Tensor& tensor, zoo::ValueRange& range) {
  for (const float value : tensor.as<float>()) {
    range.lowest = std::min(range.lowest, value);
    range.highest = std::max(range.highest, value);
  }
}

// The file's rounded values on one input.
Result<zoo::ValueRanges> ranges_of(const std::string& path, const zoo::ZooNetwork& network,
                                   std::uint64_t seed) {
  TESSERA_TRY(model::Model model, model::import_file(path));
  const std::vector<std::vector<std::string>> groups = zoo::rounded_values(network);
  const auto is_input = [&](const std::string& name) {
    return std::ranges::any_of(model.graph.inputs,
                               [&](const auto& input) { return input.name == name; });
  };
  model.graph.outputs.clear();
  for (const auto& group : groups) {
    for (const std::string& name : group) {
      if (!is_input(name)) {
        model.graph.outputs.push_back({.name = name, .dims = {}, .has_format = false});
      }
    }
  }
  TESSERA_TRY(const ChipConfig chip, load_chip_config(kExact));
  LoadOptions load;
  load.arch = kExact;
  TESSERA_TRY(const auto graph, network::graph_of_model(model, chip, load));
  TESSERA_TRY(const auto executor, host::make_host_executor(graph));
  std::vector<Tensor> inputs;
  zoo::ValueRanges found;
  for (std::size_t i = 0; i < graph->inputs.size(); ++i) {
    const graph::TensorInfo& info = graph->tensor(graph->inputs[i]);
    inputs.push_back(normal_input(info, seed, kInputStreams + i));
    widen(inputs.back(), found[info.name]);
  }
  TESSERA_TRY(const std::vector<Tensor> outputs, executor->run(inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    widen(outputs[i], found[graph->tensor(graph->outputs[i]).name]);
  }
  for (const auto& group : groups) {
    zoo::ValueRange all;
    for (const std::string& name : group) {
      all.lowest = std::min(all.lowest, found[name].lowest);
      all.highest = std::max(all.highest, found[name].highest);
    }
    for (const std::string& name : group) found[name] = all;
  }
  return found;
}

}  // namespace

Result<zoo::Summary> write_zoo_file(const zoo::ZooNetwork& network, const ZooForm& form,
                                    const std::string& path) {
  if (form.bits == 16) return zoo::write_network(network, form.seed, path);
  if (form.bits != 8) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("networks of {} bits; the zoo's have 8 or 16", form.bits)};
  }
  TESSERA_TRY(const TemporaryFile file, TemporaryFile::make());
  TESSERA_TRY(const zoo::Summary summary, zoo::write_network(network, form.seed, file.path()));
  (void)summary;
  TESSERA_TRY(const zoo::ValueRanges ranges, ranges_of(file.path(), network, form.seed));
  return zoo::write_network_in_8_bits(network, form.seed, ranges, path);
}

Result<TemporaryFile> TemporaryFile::make() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error) / "tessera-workload-XXXXXX.onnx";
  const int file = error ? -1 : mkstemps(path.data(), 5);
  if (file < 0) {
    return Error{ErrorCode::kUnavailable, fmt::format("cannot make the file '{}'", path)};
  }
  close(file);
  return TemporaryFile(path);
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) std::remove(path_.c_str());
}

}  // namespace tessera::tools

#include "model_target.h"

#include <array>
#include <cstring>
#include <memory>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "base/check.h"
#include "compile/compile.h"
#include "concord/lift/lift.h"
#include "device/program_run.h"
#include "host/executor.h"
#include "isa/verify.h"
#include "link/link.h"
#include "model/import.h"
#include "network/network.h"
#include "package/container.h"

namespace tessera::fuzz {
namespace {

using GraphPointer = std::shared_ptr<const graph::Graph>;

constexpr std::int64_t kElementsMax = 1 << 15;  // of all tensors of a graph that is run
constexpr std::int64_t kMacsMax = 1 << 18;
constexpr std::int64_t kMacsOnSimMax = 1 << 15;
constexpr std::size_t kNodesOnSimMax = 24;

constexpr model::ImportLimits kLimits = {.file_bytes_max = 1 << 18,
                                         .nodes_max = 64,
                                         .tensor_bytes_max = 1 << 16,
                                         .external_bytes_max = 0,
                                         .function_bytes_max = 1 << 16};

const ChipConfig& profile(std::size_t index) {
  static const std::array<ChipConfig, 4> kProfiles = {
      load_chip_config("tessera128").value(), load_chip_config("f32").value(),
      load_chip_config("tessera128+f16").value(), load_chip_config("tessera128+mxfp8e4m3").value()};
  return kProfiles[index % kProfiles.size()];
}

// Small enough that running it takes no time worth mentioning.
bool is_small(const graph::Graph& graph) {
  std::int64_t elements = 0, work = 0;
  for (const graph::TensorInfo& tensor : graph.tensors) {
    std::int64_t count = 1;
    for (const std::int64_t extent : tensor.dims) {
      if (__builtin_mul_overflow(count, extent, &count)) return false;
    }
    if (count > kElementsMax) return false;
    elements += count;
    if (elements > kElementsMax) return false;
  }
  for (const graph::Node& node : graph.nodes) {
    std::int64_t steps = graph::node_macs(graph, node);
    if (node.kind() == graph::NodeKind::kHostStep) {
      // An Einsum may go over all pairs of its operands' elements.
      steps = 1;
      for (const graph::TensorId id : node.inputs) {
        const std::int64_t count = std::max<std::int64_t>(1, element_count(graph.tensor(id).dims));
        if (__builtin_mul_overflow(steps, count, &steps)) return false;
      }
      steps /= 16;
    }
    if (steps > kMacsMax) return false;
    work += steps;
    if (work > kMacsMax) return false;
  }
  return true;
}

std::int64_t macs_of(const graph::Graph& graph) {
  std::int64_t macs = 0;
  for (const graph::Node& node : graph.nodes) macs += graph::node_macs(graph, node);
  return macs;
}

std::vector<Tensor> inputs_of(const graph::Graph& graph, std::uint64_t seed) {
  std::vector<std::byte> bytes(16);
  std::memcpy(bytes.data() + 1, &seed, sizeof(seed));
  std::vector<Tensor> inputs;
  for (const graph::TensorId id : graph.inputs) {
    bytes[0] = static_cast<std::byte>(seed >> inputs.size());
    Choices choices(bytes);
    inputs.push_back(choices.tensor(graph.tensor(id).format, graph.tensor(id).dims));
  }
  return inputs;
}

using Outputs = Result<std::vector<Tensor>>;

void check_same(const Outputs& expected, const Outputs& found, const char* who) {
  TESSERA_CHECK(expected.ok() == found.ok(), "ref: {}; {}: {}",
                expected.ok() ? "runs" : expected.error().to_string(), who,
                found.ok() ? "runs" : found.error().to_string());
  if (!expected.ok()) return;
  TESSERA_CHECK(expected->size() == found->size(), "{} outputs, {} of {}", expected->size(),
                found->size(), who);
  for (std::size_t i = 0; i < expected->size(); ++i) {
    TESSERA_CHECK((*expected)[i] == (*found)[i], "output {} of {} differs", i, who);
  }
}

// An error that says it is the library's own fault is one.
template <typename T>
bool is_there(const Result<T>& result) {
  if (result.ok()) return true;
  TESSERA_CHECK(result.error().code != ErrorCode::kInternal, "{}", result.error().to_string());
  return false;
}

Outputs run_on_sim(const isa::Program& program, const ChipConfig& chip,
                   const std::vector<Tensor>& inputs) {
  TESSERA_TRY(const auto run, device::ProgramRun::create(program, chip, {.check_hazards = true}));
  TESSERA_TRY(RunResult result, run->run(inputs));
  return std::move(result.outputs);
}

// Compiled, linked, proved, written to bytes and back, and run; the layers read back out of the
// program are the graph's.
bool check_program(const GraphPointer& graph, const ChipConfig& chip,
                   const std::vector<Tensor>& inputs, const Outputs& expected) {
  const auto package = compile::compile(graph, chip, {});
  if (!is_there(package)) return false;
  const auto again = package::parse_package(package::serialise(*package), "again.tpkg");
  TESSERA_CHECK(again.ok(), "{}", again.error().to_string());
  const auto program = link::link(*again, chip, {});
  TESSERA_CHECK(program.ok(), "{}", program.error().to_string());
  const Status proved = isa::verify_program(*program, chip);
  TESSERA_CHECK(proved.ok(), "{}", proved.error().to_string());
  if (macs_of(*graph) > kMacsOnSimMax || graph->nodes.size() > kNodesOnSimMax) return false;
  check_same(expected, run_on_sim(*program, chip, inputs), "sim");
  const auto lifted = concord::lift(*program, chip);
  if (!is_there(lifted)) return true;
  auto executor = host::make_reference_executor(*lifted);
  TESSERA_CHECK(executor.ok(), "{}", executor.error().to_string());
  check_same(expected, (*executor)->run(inputs), "the lifted graph");
  return true;
}

}  // namespace

ModelOutcome model_target(std::span<const std::byte> bytes) {
  Choices choices(bytes);
  const std::uint8_t first = choices.byte();
  const ChipConfig& chip = profile(first & 3U);
  const std::uint64_t seed = choices.word();
  const bool is_file = (first & 4U) != 0;
  const std::string grown = is_file ? "" : grown_model(choices);
  const auto file = is_file ? choices.rest() : std::as_bytes(std::span(grown));
  const auto model = model::import_bytes(file, "fuzz", "", kLimits);
  if (!is_there(model)) return ModelOutcome::kRefused;
  const auto graph = network::graph_of_model(*model, chip, {});
  if (!is_there(graph) || !is_small(**graph)) return ModelOutcome::kRefused;
  const std::vector<Tensor> inputs = inputs_of(**graph, seed);
  const auto reference = host::make_reference_executor(*graph);
  if (!is_there(reference)) return ModelOutcome::kBuilt;
  const Outputs expected = (*reference)->run(inputs);
  const auto host = host::make_host_executor(*graph, {.threads = 1});
  TESSERA_CHECK(host.ok(), "{}", host.error().to_string());
  check_same(expected, (*host)->run(inputs), "host");
  return check_program(*graph, chip, inputs, expected) ? ModelOutcome::kRanOnAll
                                                       : ModelOutcome::kRanOnHost;
}

}  // namespace tessera::fuzz

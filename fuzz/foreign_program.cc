#include "foreign_program.h"

#include <memory>
#include <vector>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "choices.h"
#include "concord/expand/expand.h"
#include "concord/fold/fold.h"
#include "concord/interpret.h"
#include "concord/lift/lift.h"
#include "concord/write/cpp.h"
#include "concord/write/onnx.h"
#include "concord/write/pytorch.h"
#include "device/program_run.h"
#include "host/executor.h"
#include "isa/verify.h"
#include "model/import.h"

namespace tessera::fuzz {
namespace {

constexpr std::int64_t kElementsMax = 1 << 14;  // of all tensors of a graph that is run
constexpr std::int64_t kMacsMax = 1 << 17;
constexpr std::int64_t kRegionBytesMax = 1 << 26;  // of a program that is lifted
constexpr std::size_t kTasksMax = 64;
constexpr std::size_t kOperationsMax = 1024;

template <typename T>
bool is_there(const Result<T>& result) {
  if (result.ok()) return true;
  TESSERA_CHECK(result.error().code != ErrorCode::kInternal, "{}", result.error().to_string());
  return false;
}

bool is_small(const isa::Program& program, const graph::Graph& graph) {
  if (program.tasks.size() > kTasksMax) return false;
  std::int64_t elements = 0, macs = 0;
  for (const graph::TensorInfo& tensor : graph.tensors) {
    elements += element_count(tensor.dims);
    if (elements > kElementsMax) return false;
  }
  for (const graph::Node& node : graph.nodes) {
    macs += graph::node_macs(graph, node);
    if (node.kind() == graph::NodeKind::kHostStep || macs > kMacsMax) return false;
  }
  return true;
}

// All writers; what is written as ONNX is a model.
void write_everywhere(const concord::Software& software) {
  (void)is_there(concord::write_cpp(software));
  (void)is_there(concord::write_pytorch(software, "weights.bin"));
  const auto onnx = concord::write_onnx(software);
  if (!is_there(onnx)) return;
  const auto model = model::import_bytes(*onnx, "written.onnx");
  TESSERA_CHECK(model.ok(), "{}", model.error().to_string());
}

std::vector<Tensor> inputs_of(const isa::Program& program) {
  static constexpr std::byte kLook[] = {std::byte{1}, std::byte{77}};
  std::vector<Tensor> inputs;
  for (const isa::TensorSlot& slot : program.inputs) {
    Choices choices(kLook);
    inputs.push_back(choices.tensor(slot.format, slot.dims));
  }
  return inputs;
}

void run_everywhere(const isa::Program& program, const ChipConfig& chip,
                    const std::shared_ptr<const graph::Graph>& graph,
                    const concord::Software* software) {
  const std::vector<Tensor> inputs = inputs_of(program);
  const auto reference = host::make_reference_executor(graph);
  TESSERA_CHECK(reference.ok(), "{}", reference.error().to_string());
  const auto expected = (*reference)->run(inputs);
  TESSERA_CHECK(expected.ok(), "{}", expected.error().to_string());
  const auto host = host::make_host_executor(graph, {.threads = 1});
  TESSERA_CHECK(host.ok(), "{}", host.error().to_string());
  const auto on_host = (*host)->run(inputs);
  TESSERA_CHECK(on_host.ok() && *on_host == *expected, "host differs from ref");
  const auto run = device::ProgramRun::create(program, chip, {});
  // Nothing says which processor it is for: it is for none.
  const bool of_this_chip = program.chip_fingerprint == fingerprint(chip);
  TESSERA_CHECK(run.ok() == of_this_chip, "{}", run.ok() ? "it ran" : run.error().to_string());
  if (!run.ok()) return;
  const auto on_sim = (*run)->run(inputs);
  if (is_there(on_sim)) TESSERA_CHECK(on_sim->outputs == *expected, "sim differs from ref");
  if (software == nullptr) return;
  const auto interpreted = concord::interpret(*software, inputs);
  TESSERA_CHECK(interpreted.ok(), "{}", interpreted.error().to_string());
  TESSERA_CHECK(*interpreted == *expected, "the derived software differs from ref");
}

}  // namespace

ForeignOutcome foreign_program(const isa::Program& program, const ChipConfig& chip) {
  if (!isa::verify_program(program, chip).ok()) return ForeignOutcome::kRefused;
  const auto plain =
      concord::lift(program, chip, {.use_hints = false, .region_bytes_max = kRegionBytesMax});
  (void)is_there(plain);
  const auto lifted = concord::lift(program, chip, {.region_bytes_max = kRegionBytesMax});
  if (!is_there(lifted)) return ForeignOutcome::kNotLifted;
  const auto expanded = concord::expand(**lifted);
  const concord::Software* software = nullptr;
  concord::Software folded;
  if (is_there(expanded)) {
    folded = concord::folded(*expanded);
    software = &folded;
    write_everywhere(folded);
  }
  if (!is_small(program, **lifted)) return ForeignOutcome::kLifted;
  const bool interprets = software != nullptr && software->operations.size() <= kOperationsMax;
  run_everywhere(program, chip, *lifted, interprets ? software : nullptr);
  return ForeignOutcome::kRan;
}

}  // namespace tessera::fuzz

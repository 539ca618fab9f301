#include "tools/workloads/run_workload.h"

#include <mutex>
#include <optional>

#include "card/core.h"
#include "link/link.h"
#include "network/network.h"
#include "tools/workloads/workload_model.h"
#include "tools/workloads/zoo_graph.h"

namespace tessera::tools {
namespace {

using repro::Workload;
using repro::WorkloadRun;

// Weights of workloads that take a gigabyte while they are compiled.
constexpr std::int64_t kLarge = std::int64_t{1} << 26;

Result<std::shared_ptr<const graph::Graph>> graph_of(const Workload& workload,
                                                     const ChipConfig& chip,
                                                     const LoadOptions& options,
                                                     std::int64_t parts) {
  if (workload.kind != repro::WorkloadKind::kNetwork) {
    return network::graph_of_model(workload_model(workload, chip.formats.vector, parts), chip,
                                   options);
  }
  return zoo_graph(workload.name, chip, options);
}

// The graph, with its weights, goes when the program is there.
Result<isa::Program> program_of(const Workload& workload, const ChipConfig& chip,
                                std::int64_t parts) {
  LoadOptions options;
  options.compress_weights = false;
  options.require_full_offload = true;
  TESSERA_TRY(std::shared_ptr<const graph::Graph> graph, graph_of(workload, chip, options, parts));
  TESSERA_TRY(const Network network, network::network_from_graph(std::move(graph), chip, options));
  return link::link(network.state().package, chip);
}

void add(const card::RunStatistics& run, WorkloadRun& sum) {
  sum.cycles += run.cycles;
  for (const card::EngineStatistics& engine : run.engines) {
    sum.macs += engine.macs;
    if (engine.name == "dram") sum.dram_bytes += engine.bytes_read + engine.bytes_written;
  }
}

Result<WorkloadRun> run_in_parts(const Workload& workload, const ChipConfig& chip,
                                 std::int64_t parts) {
  TESSERA_TRY(const isa::Program program, program_of(workload, chip, parts));
  TESSERA_TRY(const std::unique_ptr<card::Core> core, card::Core::create(chip));
  TESSERA_RETURN_IF_ERROR(core->load(program));
  WorkloadRun sum;
  for (std::size_t segment = 0; segment < program.segments.size(); ++segment) {
    TESSERA_TRY(const card::RunStatistics run, core->run_segment(segment, {.timing_only = true}));
    add(run, sum);
  }
  return sum;
}

// Parts of a sum: one, unless its weights leave arrays or columns of them empty; as many as let a
// half of kernel memory hold a block of output channels, and as many as let it hold one for each
// array.
std::vector<std::int64_t> choices_of_sums(const Workload& workload, const ChipConfig& chip) {
  const std::int64_t depth = workload_depth(workload);
  const std::int64_t row_bytes = chip.neural.columns * format_bytes(chip.formats.vector);
  const std::int64_t block =
      chip.neural.kernel_bytes_per_partition / 2 / row_bytes * chip.neural.rows;  // the deepest sum
  const std::int64_t shared = std::max<std::int64_t>(chip.neural.rows, block / chip.neural.count);
  if (depth <= shared) return {1};
  if (depth > block && workload_weights(workload) >= kLarge) return {ceil_div(depth, shared)};
  return {ceil_div(depth, block), ceil_div(depth, shared)};
}

// Parts whose intermediate results take a half of the state buffer, a quarter and an eighth; and
// none.
std::vector<std::int64_t> choices_of_parts(const Workload& workload, const ChipConfig& chip) {
  if (workload_depth(workload) > 0) return choices_of_sums(workload, chip);
  const std::int64_t elements = workload_intermediates(workload);
  if (elements == 0) return {1};
  const std::int64_t buffer =
      std::int64_t{chip.state_buffer.bytes_per_partition} * chip.state_buffer.partitions;
  std::int64_t parts = 1;
  while (2 * elements * format_bytes(chip.formats.vector) > parts * buffer) parts *= 2;
  constexpr std::int64_t kPartsMax = 128;  // more take long to compile
  if (4 * parts > kPartsMax) return {std::min(2 * parts, kPartsMax)};
  std::vector<std::int64_t> choices;
  if (parts < 16) choices.push_back(1);  // else the whole goes through memory many times
  for (const std::int64_t choice : {parts, 2 * parts, 4 * parts}) {
    if (choices.empty() || choice > choices.back()) choices.push_back(choice);
  }
  return choices;
}

}  // namespace

Result<WorkloadRun> run_workload(const Workload& workload, const ChipConfig& chip) {
  static std::mutex one_large;
  std::unique_lock<std::mutex> alone(one_large, std::defer_lock);
  if (workload_weights(workload) >= kLarge) alone.lock();
  std::optional<WorkloadRun> best;
  for (const std::int64_t parts : choices_of_parts(workload, chip)) {
    TESSERA_TRY(const WorkloadRun run, run_in_parts(workload, chip, parts));
    if (!best || run.cycles < best->cycles) best = run;
  }
  return *best;
}

}  // namespace tessera::tools

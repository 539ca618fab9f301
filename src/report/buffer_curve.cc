#include "report/buffer_curve.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/quantity.h"
#include "compile/compile.h"
#include "network/network.h"
#include "tessera/session.h"

namespace tessera::report {
namespace {

constexpr std::int64_t kGrainBytes = 64;          // sizes are multiples of this
constexpr std::int64_t kSmallestBytes = 1024;     // that an architecture file may ask for
constexpr std::int64_t kLargestBytes = 16777216;  // taken as without end

class CurveFinder {
 public:
  CurveFinder(std::shared_ptr<const graph::Graph> graph, const ChipConfig& chip)
      : graph_(std::move(graph)), chip_(chip) {}

  Result<BufferCurve> run() {
    TESSERA_TRY(const package::Package unlimited, compiled(kLargestBytes));
    for (const package::PlacementRecord& record : unlimited.placements) {
      if (!record.in_state_buffer) always_in_dram_.insert(record.name);
    }
    BufferCurve curve;
    curve.smallest = smallest(unlimited.state_buffer_peak_bytes);
    for (const std::int64_t bytes : sizes(curve.smallest)) {
      TESSERA_TRY(BufferPoint point, measure(bytes));
      const bool compiles = point.error.empty();
      curve.points.push_back(std::move(point));
      if (!compiles) break;
    }
    return curve;
  }

 private:
  ChipConfig chip_with(std::int64_t bytes) const {
    ChipConfig chip = chip_;
    chip.state_buffer.bytes_per_partition = static_cast<std::int32_t>(bytes);
    return chip;
  }
  Result<package::Package> compiled(std::int64_t bytes) const {
    return compile::compile(graph_, chip_with(bytes));
  }

  void count_spills(const package::Package& package, BufferPoint& point) const {
    for (const package::PlacementRecord& record : package.placements) {
      if (record.in_state_buffer || always_in_dram_.contains(record.name)) continue;
      ++point.spilled;
      point.spilled_bytes += record.bytes;
    }
  }

  bool holds_all(std::int64_t bytes) const {
    const auto package = compiled(bytes);
    if (!package.ok()) return false;
    BufferPoint point;
    count_spills(*package, point);
    return point.spilled == 0;
  }

  // By bisection: this size holds everything, 64 bytes less do not.
  std::int64_t smallest(std::int64_t peak) const {
    std::int64_t enough = std::max(kSmallestBytes, round_up(peak, kGrainBytes));
    if (!holds_all(enough)) enough = kLargestBytes;
    std::int64_t too_small = kSmallestBytes - kGrainBytes;
    while (enough - too_small > kGrainBytes) {
      const std::int64_t middle = round_up((enough + too_small) / 2, kGrainBytes);
      if (middle == enough) break;
      (holds_all(middle) ? enough : too_small) = middle;
    }
    return enough;
  }

  // The architecture's own, some between it and the smallest, then below.
  std::vector<std::int64_t> sizes(std::int64_t smallest) const {
    std::set<std::int64_t, std::greater<>> sizes;
    const std::int64_t own = chip_.state_buffer.bytes_per_partition;
    sizes.insert(own);
    for (const std::int64_t times : {4, 2, 1}) {
      if (times == 1 || times * smallest < own) sizes.insert(times * smallest);
    }
    for (const double share : {0.75, 0.5, 0.35, 0.25, 0.18, 0.125, 0.0625, 0.03125}) {
      const auto bytes = static_cast<std::int64_t>(static_cast<double>(smallest) * share);
      if (bytes >= kSmallestBytes) sizes.insert(round_up(bytes, kGrainBytes));
    }
    return {sizes.begin(), sizes.end()};
  }

  Result<BufferPoint> measure(std::int64_t bytes) const {
    BufferPoint point{.bytes = bytes, .error = {}};
    const ChipConfig chip = chip_with(bytes);
    auto package = compiled(bytes);
    if (!package.ok()) {
      if (package.error().code != ErrorCode::kDoesNotFit) return package.error();
      point.error = package.error().message;
      return point;
    }
    count_spills(*package, point);
    TESSERA_TRY(const Network network, network::network_from_package(std::move(*package), chip));
    SessionOptions options;
    options.timing_only = true;
    TESSERA_TRY(Session session, Session::open(network, options));
    std::vector<Tensor> inputs;
    for (const TensorDescription& input : network.inputs()) {
      inputs.push_back(Tensor::zeros(input.format, input.dims));
    }
    TESSERA_TRY(const RunResult run, session.run(inputs));
    point.cycles = run.cycles;
    for (const EngineUse& engine : run.engines) {
      if (engine.name == "dram") continue;
      point.dram_bytes += engine.dram_bytes_read + engine.dram_bytes_written;
    }
    return point;
  }

  std::shared_ptr<const graph::Graph> graph_;  // shared with the packages compiled from it
  const ChipConfig& chip_;
  std::set<std::string> always_in_dram_;
};

}  // namespace

BufferUse buffer_use(const package::Package& package) {
  BufferUse use{.peak = package.state_buffer_peak_bytes, .tightest = {}};
  std::vector<compile::PlacedBlock> blocks;
  for (const package::PlacementRecord& record : package.placements) {
    if (!record.in_state_buffer) continue;
    blocks.push_back({.name = record.name,
                      .bytes = record.bytes,
                      .first = record.first_use,
                      .last = record.last_use});
  }
  use.tightest = compile::place_tightly(blocks);
  return use;
}

Result<BufferCurve> buffer_curve(const std::shared_ptr<const graph::Graph>& graph,
                                 const ChipConfig& chip) {
  return CurveFinder(graph, chip).run();
}

}  // namespace tessera::report

#include "package/weight_use.h"

#include <fmt/format.h>

namespace tessera::package {
namespace {

using isa::Frame;
using isa::FrameTask;
using isa::KernelTask;

WeightUse use_of(const KernelTask& task) {
  WeightUse use;
  use.expanded_bytes = task.expanded_bytes();
  use.moved_bytes = task.stored_bytes();
  use.loads = 1;
  if (!task.stream.compressed()) return use;
  if (task.stream.palette_bits == 0) {
    use.mask_loads = 1;
  } else if (task.stream.zero_mask) {
    use.both_loads = 1;
  } else {
    use.palette_loads = 1;
  }
  return use;
}

std::string kibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
}

}  // namespace

void WeightUse::add(const WeightUse& other) {
  expanded_bytes += other.expanded_bytes;
  moved_bytes += other.moved_bytes;
  loads += other.loads;
  palette_loads += other.palette_loads;
  mask_loads += other.mask_loads;
  both_loads += other.both_loads;
}

std::vector<WeightUse> weight_use_by_layer(const Package& package) {
  std::vector<WeightUse> layers(package.hints.size());
  for (const Frame& frame : package.frames) {
    for (const FrameTask& task : frame.tasks) {
      const auto* kernel = std::get_if<KernelTask>(&task.descriptor.config);
      if (kernel != nullptr) layers[frame.layer].add(use_of(*kernel));
    }
  }
  return layers;
}

WeightUse weight_use(const Package& package) {
  WeightUse sum;
  for (const WeightUse& layer : weight_use_by_layer(package)) sum.add(layer);
  return sum;
}

std::string weight_use_text(const WeightUse& use) {
  return fmt::format(
      "weights: {} loads of {} move {}; compression saves {} ({} by palette, {} by zero mask, "
      "{} by both)",
      use.loads, kibibytes(use.expanded_bytes), kibibytes(use.moved_bytes),
      kibibytes(use.saved_bytes()), use.palette_loads, use.mask_loads, use.both_loads);
}

}  // namespace tessera::package

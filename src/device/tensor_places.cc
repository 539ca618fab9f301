#include "device/tensor_places.h"

#include <algorithm>

#include "isa/accesses.h"

namespace tessera::device {

std::int64_t slot_bytes(const isa::TensorSlot& slot) {
  return element_count(slot.dims) * format_bytes(slot.format);
}

bool slots_can_move(const isa::Program& program, const ChipConfig& chip, isa::BaseIndex base,
                    const std::vector<isa::TensorSlot>& slots) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const isa::TensorSlot& slot : slots) {
    if (slot.address.base != base) return false;
    const auto first = static_cast<std::int64_t>(slot.address.offset);
    if (slot_bytes(slot) > 0) ranges.emplace_back(first, first + slot_bytes(slot));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) return false;
  }
  const auto inside = [&](std::int64_t first, std::int64_t last) {
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), first,
                                        [](std::int64_t x, const auto& r) { return x < r.first; });
    return after != ranges.begin() && last <= std::prev(after)->second;
  };
  std::vector<isa::Access> accesses;
  for (const isa::TaskDescriptor& task : program.tasks) {
    for (std::int64_t step = 0; step < task.steps(); ++step) {
      accesses.clear();
      isa::step_accesses(task, chip, step, accesses);
      for (const isa::Access& access : accesses) {
        if (access.memory != isa::MemoryKind::kDram || access.base != base) continue;
        if (access.first < access.last && !inside(access.first, access.last)) return false;
      }
    }
  }
  return true;
}

Status place_tensors(NetworkDram& dram, const std::vector<isa::TensorSlot>& slots,
                     std::span<const std::span<std::byte>> views, bool in_place, TensorRole role) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (views[i].empty()) continue;
    if (in_place) {
      TESSERA_RETURN_IF_ERROR(dram.bind(slots[i].address, views[i]));
    } else if (role == TensorRole::kInput) {
      TESSERA_RETURN_IF_ERROR(dram.write(slots[i].address, views[i]));
    }
  }
  return {};
}

}  // namespace tessera::device

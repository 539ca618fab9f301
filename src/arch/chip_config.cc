#include "arch/chip_config.h"

#include <algorithm>

namespace tessera {

std::int64_t descriptor_request_bytes(const ChipConfig& chip) {
  constexpr std::int32_t kUnsaidMax = 4096;
  if (chip.task_manager.fetch_bytes != 0) return chip.task_manager.fetch_bytes;
  return std::min(chip.dma.request_bytes, kUnsaidMax);
}

arith::WeightGrid FormatsConfig::weight_grid() const {
  if (fixed_weight_bits > 0) return {arith::WeightGridKind::kFixedRange, fixed_weight_bits};
  if (logarithmic_weight_bits > 0) {
    return {arith::WeightGridKind::kLogarithmic, logarithmic_weight_bits};
  }
  return {};
}

}  // namespace tessera

#include "arch/chip_config.h"

namespace tessera {

arith::WeightGrid FormatsConfig::weight_grid() const {
  if (fixed_weight_bits > 0) return {arith::WeightGridKind::kFixedRange, fixed_weight_bits};
  if (logarithmic_weight_bits > 0) {
    return {arith::WeightGridKind::kLogarithmic, logarithmic_weight_bits};
  }
  return {};
}

}  // namespace tessera

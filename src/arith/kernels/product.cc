#include "arith/kernels/product.h"

#include <algorithm>

#include "arith/kernels/taps.h"

namespace tessera {

RowRange input_rows_needed(const ProductConfig& config, std::int64_t input_rows, RowRange rows) {
  const kernels::TapAxis axis = kernels::TapAxis::rows(config);
  std::int64_t first = INT64_MAX;
  std::int64_t last = INT64_MIN;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      const std::int64_t sample = axis.sample(row, k, input_rows);
      if (sample < 0) continue;
      first = std::min(first, sample);
      last = std::max(last, sample + 1);
    }
  }
  return first > last ? RowRange{0, 0} : RowRange{first, last};
}

}  // namespace tessera

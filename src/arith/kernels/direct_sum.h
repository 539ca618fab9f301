// The sum of one output element, tap by tap and channel by channel: what float and channel-wise
// products fall back to where their fast forms do not hold (weights that are infinite or NaN next
// to padding, where "contributes nothing" is not the same as adding zero).
#pragma once

#include <cmath>
#include <cstdint>

#include "arith/kernels/product_parts.h"
#include "arith/kernels/taps.h"
#include "arith/rounding.h"

namespace tessera::kernels {

struct OutputElement {
  std::int64_t group, output_channel;  // output channel of all groups
  std::int64_t row, column;
};

// Calls add(x, w) for each term that has an input sample, in kernel order.
template <typename Add>
void for_each_term(const ProductConfig& config, const PlainWeights& weights, const Surface& input,
                   const OutputElement& element, Add&& add) {
  const TapAxis rows = TapAxis::rows(config);
  const TapAxis columns = TapAxis::columns(config);
  const std::int64_t channels = config.image.channels;
  for (std::int64_t ky = 0; ky < config.kernel_h; ++ky) {
    const std::int64_t row = rows.sample(element.row, ky, input.rows);
    if (row < 0) continue;
    for (std::int64_t kx = 0; kx < config.kernel_w; ++kx) {
      const std::int64_t column = columns.sample(element.column, kx, input.columns);
      if (column < 0) continue;
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t term = (ky * config.kernel_w + kx) * channels + c;
        add(arith::read_element(input.format, input.at(element.group * channels + c, row, column)),
            arith::read_element(weights.format, weights.at(element.output_channel, term)));
      }
    }
  }
}

inline bool all_finite(const PlainWeights& weights) {
  const std::int64_t element = format_bytes(weights.format);
  for (std::size_t i = 0; i < weights.bytes.size(); i += static_cast<std::size_t>(element)) {
    if (!std::isfinite(arith::read_element(weights.format, weights.bytes.data() + i))) return false;
  }
  return true;
}

}  // namespace tessera::kernels

// The filters of a convolution over a line whose channels are neighbouring samples (lower_conv.cc): each
// output channel has a filter, tap by tap and channel by channel, with zeros before its first weight and
// behind its last. Several outputs have the same filter, further down.
#pragma once

#include <cstdint>

#include "arith/tensor.h"

namespace tessera::graph {

struct FilterTerms {
  std::int64_t all = 0;       // of all output channels, from the first weight of each to its last
  std::int64_t distinct = 0;  // of filters that are alike once
};

// Whether weights [output channels, channels, KH, KW] (null where they are no constant) of a convolution
// with `output` are counted so: over one row, with several channels and several taps.
bool are_line_filters(const Tensor* weights, const Shape& output);
// Of such weights.
FilterTerms filter_terms(const Tensor& weights);

}  // namespace tessera::graph

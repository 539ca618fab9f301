// The filters of a convolution whose channels are neighbouring samples or pixels (lower_conv.cc,
// passes/group_pixels.cc): each output channel has a filter with zeros around and between its weights, and
// several outputs have the same filter in another place. Such zeros are no work, and such a filter is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "arith/tensor.h"

namespace tessera::graph {

struct FilterTerms {
  std::int64_t all = 0;       // of all output channels, without those zeros
  std::int64_t distinct = 0;  // of filters that are alike once
  std::size_t content = 0;    // the same for the same distinct filters, in whatever places
};

// Of weights [output channels, channels, KH, KW] (null where they are no constant) of a convolution
// with `output`. None where they are counted as they are:
//
//   over one row, with several channels and several taps: from each filter's first weight to its last
//   else, of floats: weights that are not zero, where a sixteenth are at least and each filter is there
//   twice, or all of them three times, ...
std::optional<FilterTerms> filter_terms(const Tensor* weights, const Shape& output);

}  // namespace tessera::graph

// One axis of an image made larger by a whole factor: a channel-wise convolution with gaps in its input,
// beside which the positions near the border are convolutions of their own.
//
//   linear, factor 2      outputs   0 | 1 2 3 4 ... | 2 n - 1
//
//     0            the first sample
//     1, 2, ...    the samples with a gap behind each, by the taps 1/4 3/4 3/4 1/4
//     2 n - 1      the last sample
//
// Every output is one sum with one rounding, of the terms whose weights are not 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/composer.h"

namespace tessera::graph {

// The weights of consecutive inputs from `first` on, for one output.
struct ResizeTaps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

struct ResizeFilter {
  std::int64_t input = 1, output = 1;
  std::int64_t factor = 2;
  // Outputs [begin, end) are the filter's, by y[o] = sum over k of weights[k] * x[i] with
  // factor * i = o - reach + k.
  std::int64_t begin = 0, end = 0;
  std::int64_t reach = 0;
  std::vector<double> weights;
  std::vector<ResizeTaps> before, behind;  // of the outputs before `begin`, and from `end` on
};

// Of a matrix [input, output] of weights; none where the outputs are not a whole multiple of the inputs, or
// too many of them are not the filter's.
std::optional<ResizeFilter> find_resize_filter(const Tensor& weights);

// An axis, 2 or 3, of an image [N, C, H, W] with C > 1.
struct ImageAxis {
  TensorId image;
  std::size_t axis = 2;
};
TensorId emit_resize_filter(Op& op, Composer& make, const ImageAxis& of,
                            const ResizeFilter& filter);

}  // namespace tessera::graph

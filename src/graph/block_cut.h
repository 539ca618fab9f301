// What the cut of a convolution's sum into blocks costs: matrices of N x N times the vectors that each
// takes, which are about the cycles of an array of that size.
//
// Blocks across taps belong to one output pixel. Blocks along the channels of a tap belong to an input
// pixel, which neighbouring output pixels share (arch/array_fold.h).
#pragma once

#include <cstdint>

#include "arith/format.h"

namespace tessera::graph {

// What the choice of a cut looks at.
struct SumShape {
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t channels = 1, output_channels = 1;  // a group
  std::int64_t pixels = 1;                         // of the output
  std::int64_t native_dimension = 1;               // N
};

// Few output channels leave room in a matrix of N x N for several pixels. Whether blocks along the
// channels of a tap then take a fifth less than blocks across taps. Output channels are N at most.
bool sharing_takes_less(const SumShape& of);

// Of any number of output channels. Blocks across taps count what comes through the port of a partition,
// too.
double cut_cost(const SumShape& of, BlockCut cut);

}  // namespace tessera::graph

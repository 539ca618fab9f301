// Graphs of layers whose weights can be trained, for the tests of derived modules.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace tessera::concord::testing {

// x [2, 4, 5, 6] of `format` (f16 or f32): the channel-wise convolution 'wide', the convolution
// 'plain' in two groups and the matrix product 'matrix', none of them in blocks. Result [2, 4, 4, 3].
graph::Graph float_layers(Format format, std::uint32_t seed);

// x [2, 4, 5, 6] of u8: the integer convolutions 'conv', 'wide' (channel-wise) and 'grouped', the
// matrix product 'matrix', re-quantised, and 'sums', which is not. Result [2, 4, 5, 3] of f32.
graph::Graph integer_layers(std::uint32_t seed);

}  // namespace tessera::concord::testing

// What the expansions of all products share: windows, constant operands, the end. Internal to
// src/concord.
#pragma once

#include <cstdint>
#include <vector>

#include "concord/expand/expansion.h"
#include "concord/expand/node_expansions.h"

namespace tessera::concord {

// Constant numbers in four bytes per element, exact for those of at most 24 bits; f64.
ValueId write_weights(Steps& steps, const std::vector<double>& values, Shape dims);

WindowAxis rows_of(const graph::ConvAttributes& conv, const Shape& x, const Shape& w,
                   const Shape& y);
WindowAxis columns_of(const graph::ConvAttributes& conv, const Shape& x, const Shape& w,
                      const Shape& y);

// The operand of a convolution as a matrix [images, (groups,) K, pixels] with K = (tap, channel).
ValueId taps_matrix(Steps& steps, ValueId x, const graph::ConvAttributes& conv, const Shape& w,
                    const Shape& y);

// The post-processor's function, as a layer of its own.
Result<Carried> finish_product(Expansion& at, const graph::Node& node, ValueId y,
                               const Traits& traits, const graph::PostProcess& post);

// --- Of plain numbers: no block has an exponent of its own ---------------------------------------

Result<Carried> expand_channel_wise(Expansion& at, const graph::Node& node);
Result<Carried> expand_plain_conv(Expansion& at, const graph::Node& node);
Result<Carried> expand_plain_matmul(Expansion& at, const graph::Node& node);

}  // namespace tessera::concord

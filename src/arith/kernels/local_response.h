// Local response normalisation, in place on a surface.
//
//   q = x * x                f32
//   m = sum of the q of channels [c - before, c + behind] / size     f32, one rounding
//   s = m * alpha            f32
//   l = log(s + bias)        f32, both rounded
//   p = exp(l * -beta)       f32, both rounded
//   y = x * p                the surface's format
//
// Channels that are not there count as 0. The sum is that of arith::ElementSum over f32, in the order
// of the channels.
#pragma once

#include "arith/kernels/surface.h"
#include "arith/operation.h"

namespace tessera {

// Rows [rows.first, rows.last) of `channels`, which are all that there are. The surface is f16, bf16
// or f32; the configuration is enabled.
void local_response(const LocalResponse& config, const Surface& surface, ChannelRange channels,
                    RowRange rows);

}  // namespace tessera

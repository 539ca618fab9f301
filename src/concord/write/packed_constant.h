// Constants in the smallest format that holds every element bit for bit.
//
//   f64 1.0 2.0 -3.0 ──► i8        f32 0.5 -0.0 ──► f16        i64 0 1 70000 ──► i32
//
// Quantised weights are numbers of few bits: most take one or two bytes per element.
#pragma once

#include "concord/software.h"

namespace tessera::concord {

// The same numbers in another format; `tensor` itself where none is smaller.
Tensor packed(const Tensor& tensor);

}  // namespace tessera::concord

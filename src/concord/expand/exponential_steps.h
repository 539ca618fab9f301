// Functions of f32 elements that are made of the exponential, and the logarithm.
#pragma once

#include <optional>

#include "arith/operation.h"
#include "concord/expand/rounding_steps.h"
#include "concord/steps.h"

namespace tessera::concord {

// activation(x) rounded once to `format` (f16 or f32); x are f32 elements in f64. Nothing where the
// function has no such steps.
std::optional<ValueId> exponential_steps(Steps& steps, const Activation& activation, ValueId x,
                                         const Traits& traits, Format format);

// a^b, f64 numbers of at most 24 bits that broadcast, infinities and NaN as in C's pow, rounded once
// to `format` (f16, bf16 or f32).
ValueId power_steps(Steps& steps, ValueId a, ValueId b, Format format);

}  // namespace tessera::concord

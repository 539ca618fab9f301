// How far values reach: the largest magnitude of many, and what it is in their format.
//
//   f16   0000  0001 .. 03FF   0400 .. 7BFE   7BFF   7C00       7C01 ..
//         zero  tiny           normal         end    infinite   not a number
//
// Magnitudes of a float format are ordered as their bits without the sign, so one maximum of whole
// numbers says all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "arith/operation.h"
#include "tessera/format.h"
#include "tessera/value_note.h"

namespace tessera::arith {

// What a function makes of the numbers at both ends of a format, where that is not at an end itself:
// a sum that saturated before its root was taken shows as the root of 65504. Bits of results.
struct HiddenEnds {
  std::array<std::uint32_t, 2> bits = {};
  int count = 0;
};
// Of `activation` behind a rounding to `format`. None of a function that is bounded (its results are the same
// whether its operand saturates or not) and of one that keeps the ends.
HiddenEnds hidden_ends(Format format, const Activation& activation);

// Of `count` elements that lie one behind the other. kUnknown of none, and of formats other than f16, bf16
// and f32. An element that is one of `hidden` counts as one at the end.
ValueExtent value_extent(Format format, const std::byte* values, std::int64_t count,
                         const HiddenEnds& hidden = {});

inline ValueExtent further(ValueExtent a, ValueExtent b) { return std::max(a, b); }

namespace ref {
// The same, element by element.
ValueExtent value_extent(Format format, const std::byte* values, std::int64_t count,
                         const HiddenEnds& hidden = {});
}  // namespace ref

}  // namespace tessera::arith

// What befell the values of a run: layers whose results left the range of their format although
// what they read was sound.
//
//   re^2 + im^2 in f16 ─► 65504, 65504, ...        a note: "saturates in f16", with the layer
//   logarithm of that   ─► 11.09, 11.09, ...        no note: it reads what is at the end already
//
// The same notes come from every device, since all give the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/format.h"

namespace tessera {

// How far the largest magnitude of a layer's results reaches, in their format.
enum class ValueExtent : std::uint8_t {
  kUnknown,    // nothing was looked at: no results, or integers
  kZero,       // all are zero
  kTiny,       // below the smallest normal number, not all zero
  kNormal,     //
  kEnd,        // the largest number of the format, where it saturates
  kInfinite,   // an infinity
  kNotNumber,  // a NaN
};

// What befell the results of a layer.
enum class ValueTrouble : std::uint8_t {
  kSaturated,  // results at the end of the format's range
  kInfinite,   // an infinity among the results
  kNotNumber,  // a NaN among the results
  kLost,  // a product or the like of normal numbers, all of whose bits, or all but a few, are lost
  kAccumulator,  // a sum of 2^33 or more units in an accumulator of the array (docs/numbers.md)
};

// "saturated", "infinite", "not_number", "lost", "accumulator".
std::string_view value_trouble_name(ValueTrouble trouble);

// A layer, and what befell its results in a run.
struct ValueNote {
  std::string layer;
  ValueTrouble trouble = ValueTrouble::kSaturated;
  Format format = Format::kF16;  // of the layer's results
  friend bool operator==(const ValueNote&, const ValueNote&) = default;
};

// "layer 'spectrum/Add': results reach 65504, the end of f16".
std::string value_note_text(const ValueNote& note);

}  // namespace tessera

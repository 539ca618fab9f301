#include "arith/value_extent.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "arith/format.h"
#include "arith/function.h"
#include "arith/rounding.h"
#include "base/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/value_extent.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The greatest of the elements' bits without the sign. Bits without a sign are the same order as
// whole numbers with one, of which all instruction sets have a maximum.
template <typename T>
T greatest_magnitude(const std::byte* values, std::int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto mask = hn::Set(d, hwy::LimitsMax<T>());
  const auto* const at = reinterpret_cast<const T*>(values);
  auto first = hn::Zero(d), second = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    first = hn::Max(first, hn::And(hn::LoadU(d, at + i), mask));
    second = hn::Max(second, hn::And(hn::LoadU(d, at + i + lanes), mask));
  }
  T greatest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(first, second)));
  for (; i < count; ++i) {
    T bits;
    std::memcpy(&bits, at + i, sizeof bits);
    greatest = std::max<T>(greatest, bits & hwy::LimitsMax<T>());
  }
  return greatest;
}

// Whether one of the elements has these bits.
template <typename T>
bool has_bits(const std::byte* values, std::int64_t count, std::uint32_t bits) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T wanted = static_cast<T>(bits);
  const auto* const at = reinterpret_cast<const T*>(values);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    if (!hn::AllFalse(d, hn::Eq(hn::LoadU(d, at + i), hn::Set(d, wanted)))) return true;
  }
  for (; i < count; ++i) {
    T own;
    std::memcpy(&own, at + i, sizeof own);
    if (own == wanted) return true;
  }
  return false;
}

bool has_two_bytes(const std::byte* values, std::int64_t count, std::uint32_t bits) {
  return has_bits<std::uint16_t>(values, count, bits);
}
bool has_four_bytes(const std::byte* values, std::int64_t count, std::uint32_t bits) {
  return has_bits<std::uint32_t>(values, count, bits);
}

std::int32_t greatest_of_two_bytes(const std::byte* values, std::int64_t count) {
  return greatest_magnitude<std::int16_t>(values, count);
}
std::int32_t greatest_of_four_bytes(const std::byte* values, std::int64_t count) {
  return greatest_magnitude<std::int32_t>(values, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(greatest_of_two_bytes);
HWY_EXPORT(greatest_of_four_bytes);
HWY_EXPORT(has_two_bytes);
HWY_EXPORT(has_four_bytes);

namespace {

// Of a format's magnitudes, as bits.
struct Marks {
  std::int32_t normal, infinite;  // the smallest normal number; behind the largest finite one
};

Marks marks_of(Format format) {
  switch (format) {
    case Format::kF16:
      return {0x0400, 0x7C00};
    case Format::kBf16:
      return {0x0080, 0x7F80};
    default:
      return {0x0080'0000, 0x7F80'0000};
  }
}

ValueExtent extent_of_magnitude(Format format, std::int32_t bits) {
  const Marks marks = marks_of(format);
  if (bits == 0) return ValueExtent::kZero;
  if (bits < marks.normal) return ValueExtent::kTiny;
  if (bits < marks.infinite - 1) return ValueExtent::kNormal;
  if (bits == marks.infinite - 1) return ValueExtent::kEnd;
  return bits == marks.infinite ? ValueExtent::kInfinite : ValueExtent::kNotNumber;
}

double largest_of(Format format) {
  const FloatShape shape = float_shape(format);
  return std::ldexp(2 - std::ldexp(1.0, 1 - shape.significand_bits), shape.exponent_max);
}

// Functions whose results say nothing of an operand at the end, and are not the same for all large ones.
bool hides_ends(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kSquareRoot:
    case UnaryFunction::kReciprocal:
    case UnaryFunction::kLog:
    case UnaryFunction::kAsinh:
    case UnaryFunction::kAcosh:
    case UnaryFunction::kScale:
      return true;
    default:
      return false;
  }
}

bool is_hidden_end(Format format, const std::byte* element, const HiddenEnds& hidden) {
  const auto bits = static_cast<std::uint32_t>(read_bits(format, element));
  return std::find(hidden.bits.begin(), hidden.bits.begin() + hidden.count, bits) !=
         hidden.bits.begin() + hidden.count;
}

}  // namespace

HiddenEnds hidden_ends(Format format, const Activation& activation) {
  HiddenEnds hidden;
  if (!format_is_vector(format) || !hides_ends(activation.function)) return hidden;
  for (const double end : {largest_of(format), -largest_of(format)}) {
    const double made = evaluate(activation, end, format);
    if (!std::isfinite(made) || made == 0 || std::abs(made) >= largest_of(format)) continue;
    hidden.bits[static_cast<std::size_t>(hidden.count++)] =
        static_cast<std::uint32_t>(round_to(format, made));
  }
  return hidden;
}

ValueExtent value_extent(Format format, const std::byte* values, std::int64_t count,
                         const HiddenEnds& hidden) {
  if (count <= 0 || !format_is_vector(format)) return ValueExtent::kUnknown;
  const bool narrow = format_bytes(format) == 2;
  const std::int32_t bits = narrow ? HWY_DYNAMIC_DISPATCH(greatest_of_two_bytes)(values, count)
                                   : HWY_DYNAMIC_DISPATCH(greatest_of_four_bytes)(values, count);
  const ValueExtent extent = extent_of_magnitude(format, bits);
  for (int i = 0; i < hidden.count && extent < ValueExtent::kEnd; ++i) {
    const std::uint32_t wanted = hidden.bits[static_cast<std::size_t>(i)];
    if (narrow ? HWY_DYNAMIC_DISPATCH(has_two_bytes)(values, count, wanted)
               : HWY_DYNAMIC_DISPATCH(has_four_bytes)(values, count, wanted)) {
      return ValueExtent::kEnd;
    }
  }
  return extent;
}

namespace ref {

ValueExtent value_extent(Format format, const std::byte* values, std::int64_t count,
                         const HiddenEnds& hidden) {
  if (!format_is_vector(format)) return ValueExtent::kUnknown;
  const double normal = std::ldexp(1.0, float_shape(format).exponent_min);
  ValueExtent extent = ValueExtent::kUnknown;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* const element = values + i * format_bytes(format);
    const double value = std::abs(read_element(format, element));
    const ValueExtent own = std::isnan(value)                        ? ValueExtent::kNotNumber
                            : std::isinf(value)                      ? ValueExtent::kInfinite
                            : value == largest_of(format)            ? ValueExtent::kEnd
                            : is_hidden_end(format, element, hidden) ? ValueExtent::kEnd
                            : value >= normal                        ? ValueExtent::kNormal
                            : value > 0                              ? ValueExtent::kTiny
                                                                     : ValueExtent::kZero;
    extent = further(extent, own);
  }
  return extent;
}

}  // namespace ref
}  // namespace tessera::arith

namespace tessera {

std::string_view value_trouble_name(ValueTrouble trouble) {
  switch (trouble) {
    case ValueTrouble::kSaturated:
      return "saturated";
    case ValueTrouble::kInfinite:
      return "infinite";
    case ValueTrouble::kNotNumber:
      return "not_number";
    case ValueTrouble::kLost:
      return "lost";
    case ValueTrouble::kAccumulator:
      break;
  }
  return "accumulator";
}

std::string value_note_text(const ValueNote& note) {
  const std::string_view format = format_name(note.format);
  switch (note.trouble) {
    case ValueTrouble::kSaturated: {
      const double end = note.format == Format::kF16 ? 65504 : 3.4e38;
      return fmt::format("layer '{}': results reach {}, the end of {}", note.layer, end, format);
    }
    case ValueTrouble::kInfinite:
      return fmt::format("layer '{}': an infinity among its results, in {}", note.layer, format);
    case ValueTrouble::kNotNumber:
      return fmt::format("layer '{}': a NaN among its results, in {}", note.layer, format);
    case ValueTrouble::kLost:
      return fmt::format("layer '{}': all results are below the normal numbers of {}", note.layer,
                         format);
    case ValueTrouble::kAccumulator:
      break;
  }
  return fmt::format("layer '{}': a sum of 2^33 or more units in an accumulator", note.layer);
}

}  // namespace tessera
#endif  // HWY_ONCE

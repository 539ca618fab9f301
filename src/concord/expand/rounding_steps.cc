#include "concord/expand/rounding_steps.h"

#include <limits>

#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::concord {
namespace {

// M of the head comment: |x| times `shift`, at least `floor`.
struct Grid {
  double shift = 0, floor = 0;
};

Grid grid_of(Format format) {
  switch (format) {
    case Format::kF16:
      return {0x1p42 * (1 + 0x1p-12), 1.25 * 0x1p28};
    case Format::kBf16:
      return {0x1p45 * (1 + 0x1p-9), 1.25 * 0x1p-81};
    default:
      TESSERA_CHECK(false, "no steps that round to {}", format_name(format));
      return {};
  }
}

constexpr double kF32Shift = 0x1p29 * (1 + 0x1p-25);
constexpr double kF32ShiftFloor = 1.25 * 0x1p-97;
// Raises any nonzero product, quotient or sum of elements above 1.
constexpr double kUp = 0x1p400;

// M of the head comment, for |x| = magnitude.
ValueId narrow_shift(Steps& steps, ValueId magnitude, Format format) {
  const Grid grid = grid_of(format);
  return steps.max(steps.mul(magnitude, grid.shift), grid.floor);
}

ValueId round_narrow(Steps& steps, ValueId x, Format format, const Traits& traits) {
  const double largest = largest_element(format);
  ValueId y = traits.may_be_nan ? steps.max(steps.min(x, largest), -largest)
                                : steps.clip(x, -largest, largest);
  if (traits.non_negative) {
    const ValueId shift = narrow_shift(steps, y, format);
    return steps.sub(steps.add(y, shift), shift);
  }
  const ValueId magnitude = steps.abs(y);
  const ValueId shift = narrow_shift(steps, magnitude, format);
  const ValueId rounded = steps.sub(steps.add(magnitude, shift), shift);
  // 1 or -1; of a zero that zero, so that -0 stays.
  return steps.mul(rounded, steps.clip(steps.mul(y, kUp), -1.0, 1.0));
}

}  // namespace

double largest_element(Format format) {
  switch (format) {
    case Format::kF16:
      return arith::kF16Largest;
    case Format::kBf16:
      return 0x1.FEp127;
    default:
      return static_cast<double>(std::numeric_limits<float>::max());
  }
}

ValueId leading_power(Steps& steps, ValueId magnitude, double scale) {
  const ValueId q = steps.mul(magnitude, (0x1p52 + 1) * scale);
  return steps.sub(q, steps.sub(q, steps.mul(q, 0x1p-53)));
}

ValueId round_to_format(Steps& steps, ValueId x, Format format, const Traits& traits) {
  if (format == Format::kF32) return steps.cast(x, Format::kF32);
  return round_narrow(steps, x, format, traits);
}

ValueId round_parameter(Steps& steps, ValueId x, Format format) {
  // f32 is what it is trained in. Adding +0 makes that of a zero.
  if (format == Format::kF32) return steps.add(x, 0.0);
  x = steps.clip(x, -largest_element(format), largest_element(format));
  const ValueId shift = narrow_shift(steps, steps.abs(x), format);
  return steps.sub(steps.add(x, shift), shift);
}

ValueId round_to_whole(Steps& steps, ValueId x) {
  constexpr double kWhole = 0x1.8p52;
  return steps.sub(steps.add(x, kWhole), kWhole);
}

ValueId upper_bits(Steps& steps, ValueId x) {
  const ValueId large = steps.mul(x, 0x1p27 + 1);
  return steps.sub(large, steps.sub(large, x));
}

Pair add_fast(Steps& steps, ValueId high, ValueId low) {
  const ValueId sum = steps.add(high, low);
  return {sum, steps.sub(low, steps.sub(sum, high))};
}

Pair add_exact(Steps& steps, ValueId a, ValueId b) {
  const ValueId sum = steps.add(a, b);
  const ValueId part = steps.sub(sum, a);
  const ValueId rest = steps.add(steps.sub(a, steps.sub(sum, part)), steps.sub(b, part));
  return {sum, rest};
}

ValueId round_pair(Steps& steps, const Pair& pair, const PairRounding& rounding) {
  const bool narrow = rounding.format != Format::kF32;
  const ValueId magnitude = steps.abs(pair.sum);
  if (!narrow && !pair.rest.valid()) return steps.cast(pair.sum, Format::kF32);
  ValueId shift =
      narrow ? narrow_shift(steps, magnitude, rounding.format) : steps.mul(magnitude, kF32Shift);
  if (!narrow && rounding.subnormal) shift = steps.max(shift, kF32ShiftFloor);
  const ValueId near = steps.sub(steps.add(pair.sum, shift), shift);
  ValueId result = near;
  if (pair.rest.valid()) {
    // Only where the sum is a tie can the rest change the result: the difference is then half a
    // step, and the rest must be visible beside it.
    const bool visible = rounding.format == Format::kF16 && rounding.unit >= -49;
    const ValueId rest =
        visible ? pair.rest : steps.mul(steps.sign(pair.rest), steps.mul(magnitude, 0x1p-54));
    const ValueId beyond = steps.add(steps.sub(pair.sum, near), rest);
    result = steps.add(near, steps.sub(steps.add(beyond, shift), shift));
  }
  if (!narrow) return steps.cast(result, Format::kF32);
  const double largest = largest_element(rounding.format);
  result = steps.clip(result, -largest, largest);
  if (!rounding.zero_sign) return result;
  return steps.mul(steps.abs(result), steps.sign(pair.sum));
}

}  // namespace tessera::concord

#include "concord/expand/quantise_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "arith/block_float.h"
#include "arith/microscaling.h"
#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::concord {
namespace {

bool is_micro(const MatrixFormat& matrix) { return matrix.kind == MatrixKind::kMicroscaling; }

ValueId largest_of_block(Steps& steps, ValueId x, const BlockOperand& operand) {
  const ValueId magnitude = operand.traits.non_negative ? x : steps.abs(x);
  return steps.reduce(Operator::kReduceMaximum, magnitude,
                      {static_cast<std::int64_t>(operand.axis)});
}

// The elements of blocks along the axis, each block being the whole axis.
ValueId quantise_block_float(Steps& steps, ValueId x, const BlockOperand& operand) {
  const int m = operand.stationary ? operand.matrix.mantissa_bits_stationary
                                   : operand.matrix.mantissa_bits_moving;
  const bool f16 = operand.source == Format::kF16;
  const int exponent_min = f16 ? -14 : -126;
  const ValueId largest = largest_of_block(steps, x, operand);
  if (f16 && m >= 11) {
    // No element of the largest binade needs rounding, so nothing can reach 2^m: one shift rounds
    // all elements to the block's step (see expand/rounding_steps.h).
    const ValueId shift = steps.max(steps.mul(largest, std::ldexp(1 + 0x1p-12, 53 - m)),
                                    std::ldexp(1.25, exponent_min + 53 - m));
    return steps.sub(steps.add(x, shift), shift);
  }
  const ValueId step = steps.max(leading_power(steps, largest, std::ldexp(1.0, 1 - m)),
                                 std::ldexp(1.0, exponent_min + 1 - m));
  const double limit = std::ldexp(1.0, m) - 1;
  return steps.mul(steps.clip(steps.round(steps.div(x, step)), -limit, limit), step);
}

// The scale of a block from its largest magnitude: 2^(floor(log2(largest * c)) - emax), where c is
// such that largest * c reaches the next power of two exactly where the mode rounds up. Magnitudes
// have at most 24 bits, so that c need not be exact.
ValueId micro_scale(Steps& steps, ValueId largest, const arith::MicroShape& shape,
                    MicroScale mode) {
  if (mode == MicroScale::kCeil) largest = steps.mul(largest, 2 - 0x1p-25);
  if (mode == MicroScale::kEven) {
    // Halfway between the last significand, 2 - 2^-f, and 2 goes up.
    largest = steps.mul(largest, (1 + 0x1p-40) / (1 - std::ldexp(1.0, -shape.fraction_bits - 2)));
  }
  const ValueId scale = leading_power(steps, largest, std::ldexp(1.0, -shape.exponent_max));
  return steps.max(scale, std::ldexp(1.0, -arith::kMicroScaleBias));
}

// Whether an element can come out beyond the largest number of the format.
bool may_saturate(const arith::MicroShape& shape, MicroScale mode) {
  const double significand = std::ldexp(shape.largest, -shape.exponent_max);
  switch (mode) {
    case MicroScale::kFloor:
      return true;  // 2 - epsilon rounds to 2
    case MicroScale::kCeil:
      return false;  // at most 1
    case MicroScale::kEven:
      return significand < 2 - std::ldexp(1.0, -shape.fraction_bits);
  }
  return true;
}

ValueId quantise_micro(Steps& steps, ValueId x, const BlockOperand& operand) {
  const MatrixFormat& matrix = operand.matrix;
  const arith::MicroShape shape =
      arith::micro_shape(operand.stationary ? matrix.element_stationary : matrix.element_moving);
  const ValueId magnitude = operand.traits.non_negative ? x : steps.abs(x);
  const ValueId largest =
      steps.reduce(Operator::kReduceMaximum, magnitude, {static_cast<std::int64_t>(operand.axis)});
  const ValueId scale = micro_scale(steps, largest, shape, matrix.micro_scale);
  // Keeps multiples of the smallest element.
  ValueId shift = steps.mul(scale, std::ldexp(1.25, 52 + shape.exponent_min - shape.fraction_bits));
  if (shape.exponent_max > shape.exponent_min) {
    // Keeps an element's leading bits.
    const double leading = std::ldexp(1 + 0x1p-12, 52 - shape.fraction_bits);
    shift = steps.max(steps.mul(magnitude, leading), shift);
  }
  const ValueId y = steps.sub(steps.add(x, shift), shift);
  if (!may_saturate(shape, matrix.micro_scale)) return y;
  const ValueId limit = steps.mul(scale, shape.largest);
  const ValueId below = steps.min(y, limit);
  if (operand.traits.non_negative) return below;
  return steps.max(below, steps.unary(Operator::kNegate, limit));
}

// x padded and cut along the axis into blocks: [..., blocks, length, ...].
ValueId cut_axis(Steps& steps, ValueId x, std::size_t axis, std::int64_t length) {
  const Shape whole = steps.dims(x);
  const std::int64_t run = whole[axis];
  const std::int64_t count = (run + length - 1) / length;
  std::vector<std::int64_t> before(whole.size(), 0), behind(whole.size(), 0);
  behind[axis] = count * length - run;
  x = steps.pad(x, before, behind, 0.0);
  Shape cut = whole;
  cut[axis] = length;
  cut.insert(cut.begin() + static_cast<std::ptrdiff_t>(axis), count);
  return steps.reshape(x, cut);
}

// x without NaN and infinities; in `spoilt`, which elements were such.
ValueId take_out_specials(Steps& steps, ValueId x, const BlockOperand& operand, ValueId& spoilt) {
  if (is_micro(operand.matrix)) {
    if (!operand.traits.may_be_nan && !operand.traits.may_be_infinite) return x;
    const ValueId number = steps.binary(Operator::kLessOrEqual, steps.abs(x),
                                        steps.f64(largest_element(operand.source)));
    spoilt = steps.cast(steps.unary(Operator::kNot, number), Format::kF64);
    return steps.where(steps.unary(Operator::kNot, number), steps.f64(0), x);
  }
  if (operand.traits.may_be_nan) x = steps.where(steps.is_nan(x), steps.f64(0), x);
  if (operand.traits.may_be_infinite) {
    x = steps.clip(x, -largest_element(operand.source), largest_element(operand.source));
  }
  return x;
}

void append_micro_block(const std::byte* bytes, Format format, std::int64_t length,
                        const MatrixFormat& matrix, std::vector<double>& result) {
  arith::StickyFlags flags;
  const arith::MicroBlock block = arith::ref::quantise_micro_block(
      {format, bytes, length, 1}, matrix.element_stationary, matrix.micro_scale, flags);
  const double scale = arith::micro_scale_value(block.scale);
  for (const std::uint8_t code : block.codes) {
    result.push_back(arith::micro_element_value(matrix.element_stationary, code) * scale);
  }
}

void append_float_block(const std::byte* bytes, Format format, std::int64_t length,
                        const MatrixFormat& matrix, std::vector<double>& result) {
  arith::StickyFlags flags;
  const arith::BlockFloat block = arith::ref::quantise_block(
      {format, bytes, length, 1}, matrix.mantissa_bits_stationary, flags);
  for (const std::int16_t mantissa : block.mantissas) {
    result.push_back(arith::ref::block_value(mantissa, block.exponent, arith::exponent_bias(format),
                                             matrix.mantissa_bits_stationary));
  }
}

// Bits of the largest element, counted in units of the smallest.
int element_bits(MicroElement element) {
  const arith::MicroShape shape = arith::micro_shape(element);
  return shape.exponent_max - (shape.exponent_min - shape.fraction_bits) + 1;
}

}  // namespace

std::int64_t block_length(const MatrixFormat& matrix) {
  return is_micro(matrix) ? arith::kMicroBlock : matrix.native_dimension;
}

Quantised quantise_blocks(Steps& steps, ValueId x, const BlockOperand& operand) {
  Quantised result;
  x = take_out_specials(steps, x, operand, result.spoilt);
  const auto quantise = is_micro(operand.matrix) ? quantise_micro : quantise_block_float;
  const auto axis = static_cast<std::int64_t>(operand.axis);
  const Shape whole = steps.dims(x);
  const std::int64_t run = whole[operand.axis], length = block_length(operand.matrix);
  if (run <= length) {
    result.value = quantise(steps, x, operand);
    if (result.spoilt.valid()) {
      result.spoilt = steps.reduce(Operator::kReduceMaximum, result.spoilt, {axis});
    }
    return result;
  }
  BlockOperand inner = operand;
  ++inner.axis;
  const ValueId cut = cut_axis(steps, x, operand.axis, length);
  Shape padded = whole;
  padded[operand.axis] = (run + length - 1) / length * length;
  result.value = steps.reshape(quantise(steps, cut, inner), padded);
  if (!operand.keep_padding) result.value = steps.slice(result.value, axis, 0, run);
  if (result.spoilt.valid()) {
    const ValueId blocks = cut_axis(steps, result.spoilt, operand.axis, length);
    Shape counted = whole;
    counted[operand.axis] = padded[operand.axis] / length;
    result.spoilt =
        steps.reshape(steps.reduce(Operator::kReduceMaximum, blocks, {axis + 1}), counted);
  }
  return result;
}

std::vector<double> quantise_row(const std::vector<double>& terms, Format format, std::int64_t run,
                                 const MatrixFormat& matrix) {
  std::vector<double> result;
  const auto element = static_cast<std::size_t>(format_bytes(format));
  std::vector<std::byte> bytes(terms.size() * element);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    arith::write_element(format, terms[i], &bytes[i * element]);
  }
  const auto append = is_micro(matrix) ? append_micro_block : append_float_block;
  const auto count = static_cast<std::int64_t>(terms.size());
  const std::int64_t length = block_length(matrix);
  for (std::int64_t begin = 0; begin < count; begin += run) {
    for (std::int64_t k = begin; k < begin + run; k += length) {
      append(&bytes[static_cast<std::size_t>(k) * element], format,
             std::min(length, begin + run - k), matrix, result);
    }
  }
  return result;
}

bool block_product_is_exact(const MatrixFormat& matrix) {
  if (!is_micro(matrix)) return true;  // docs/numbers.md, the bounds
  constexpr int kTermBits = 5;         // of 32 terms
  return element_bits(matrix.element_moving) + element_bits(matrix.element_stationary) +
             kTermBits <=
         53;
}

BlockHalves split_block(Steps& steps, ValueId x, std::int64_t axis) {
  // Elements have at most 32 bits (E5M2); the high half keeps the upper 16.
  const ValueId largest = steps.reduce(Operator::kReduceMaximum, steps.abs(x), {axis});
  const ValueId shift = steps.mul(leading_power(steps, largest, 0x1p-15), 0x1.8p52);
  const ValueId high = steps.sub(steps.add(x, shift), shift);
  return {high, steps.sub(x, high)};
}

}  // namespace tessera::concord

// Element-wise nodes: operands as numbers, the function in float64 (or a table), one rounding; then
// the activation with its own rounding; then quantisation.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "arith/function.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "concord/expand/expansion.h"
#include "concord/expand/exponential_steps.h"
#include "concord/expand/node_expansions.h"

namespace tessera::concord {
namespace {

using graph::ElementwiseAttributes;
using graph::Node;

bool is_small_integer(Format format) {
  return format_is_integer(format) && format_bytes(format) <= 4;
}

struct Operand {
  ValueId value;  // f64
  Traits traits;
  Format format = Format::kF16;  // f32 once it is de-quantised
};

Result<Operand> read_operand(Expansion& at, const Node& node, std::size_t i) {
  Steps& steps = at.steps();
  const auto& attributes = node.as<ElementwiseAttributes>();
  const Format format = at.info(node.inputs[i]).format;
  const Carried& carried = at.operand(node.inputs[i]);
  if (attributes.inputs[i].enabled) {
    const ValueId real = dequantise(steps, carried.value, attributes.inputs[i]);
    return Operand{steps.cast(real, Format::kF64), Traits::finite(), Format::kF32};
  }
  // 64-bit integers are read as binary64, rounded beyond 2^53.
  return Operand{steps.cast(carried.value, Format::kF64), carried.traits, format};
}

// maximum(a, b) with -0 below +0; minimum by maximum(-a, -b).
ValueId ordered_maximum(Steps& steps, ValueId a, ValueId b, bool infinite) {
  // Where both are zeros the sum has the right sign; times 0 it is a zero of that sign elsewhere,
  // too, and adding it changes nothing.
  const ValueId larger = steps.max(a, b);
  if (infinite) {
    a = steps.clip(a, -1.0, 1.0);
    b = steps.clip(b, -1.0, 1.0);
  }
  return steps.add(larger, steps.mul(steps.add(a, b), 0.0));
}

ValueId ordered_extreme(Steps& steps, const Operand& a, const Operand& b, bool maximum) {
  if (a.traits.non_negative || b.traits.non_negative) {
    if (maximum) return steps.abs(steps.max(a.value, b.value));
    if (a.traits.non_negative && b.traits.non_negative) return steps.min(a.value, b.value);
  }
  const bool infinite = a.traits.may_be_infinite || b.traits.may_be_infinite;
  if (maximum) return ordered_maximum(steps, a.value, b.value, infinite);
  const auto negative = [&](ValueId x) { return steps.unary(Operator::kNegate, x); };
  return negative(ordered_maximum(steps, negative(a.value), negative(b.value), infinite));
}

// a where `keep` (1 or 0 in f64, `kept` its bool), else -0. A choice by Where would lose the sign
// of a zero.
ValueId keep_or_minus_zero(Steps& steps, ValueId a, ValueId dropped) {
  const ValueId factor =  // 1 or -0
      steps.unary(Operator::kNegate, steps.sub(steps.cast(dropped, Format::kF64), 1.0));
  return steps.mul(steps.where(dropped, steps.f64(1), a), factor);
}

ValueId is_nonzero(Steps& steps, const Operand& b) {
  const ValueId beyond = steps.less(steps.f64(0), steps.abs(b.value));
  if (!b.traits.may_be_nan) return beyond;
  return steps.binary(Operator::kOr, beyond, steps.is_nan(b.value));
}

// Whether an integer format takes the function modulo its range, and not saturated.
bool is_modular(BinaryFunction function) {
  return function == BinaryFunction::kAdd || function == BinaryFunction::kSubtract ||
         function == BinaryFunction::kMultiply;
}

// The function in float64 before the rounding: exact, or such that the rounding makes it right.
Result<ValueId> binary_steps(Expansion& at, const Node& node, const Operand& a, const Operand& b) {
  Steps& steps = at.steps();
  const ValueId x = a.value, y = b.value;
  switch (node.as<ElementwiseAttributes>().function) {
    case BinaryFunction::kAdd:
      return steps.add(x, y);
    case BinaryFunction::kSubtract:
      return steps.sub(x, y);
    case BinaryFunction::kMultiply:
      return steps.mul(x, y);
    case BinaryFunction::kDivide:
      return steps.div(x, y);
    case BinaryFunction::kMaximum:
      return ordered_extreme(steps, a, b, true);
    case BinaryFunction::kMinimum:
      return ordered_extreme(steps, a, b, false);
    case BinaryFunction::kPRelu: {
      // max(a, 0) + min(a, 0) * b, but for the sign of zero: one of the two is a zero.
      const ValueId slope = steps.where(steps.less(x, 0.0), y, steps.f64(1));
      return steps.mul(x, slope);
    }
    case BinaryFunction::kEqual:
      return steps.cast(steps.equal(x, y), Format::kF64);
    case BinaryFunction::kLess:
      return steps.cast(steps.less(x, y), Format::kF64);
    case BinaryFunction::kLessOrEqual:
      return steps.cast(steps.binary(Operator::kLessOrEqual, x, y), Format::kF64);
    case BinaryFunction::kWhen:
      return keep_or_minus_zero(steps, x, steps.equal(y, 0.0));
    case BinaryFunction::kUnless:
      return keep_or_minus_zero(steps, x, is_nonzero(steps, b));
    case BinaryFunction::kPower:
      break;
  }
  return refuse(node, "a power to an integer format; let it have a vector format");
}

Traits traits_after(BinaryFunction function, const Traits& a, const Traits& b, Format format) {
  Traits traits = {.may_be_nan = a.may_be_nan || b.may_be_nan,
                   .may_be_infinite = format == Format::kF32,
                   .non_negative = a.non_negative && b.non_negative};
  const bool infinite = a.may_be_infinite || b.may_be_infinite;
  switch (function) {
    case BinaryFunction::kAdd:
    case BinaryFunction::kMultiply:
      traits.may_be_nan |= infinite;
      break;
    case BinaryFunction::kSubtract:
      traits.may_be_nan |= infinite;
      traits.non_negative = false;
      break;
    case BinaryFunction::kPRelu:
      traits.may_be_nan |= infinite;
      break;
    case BinaryFunction::kMaximum:
      traits.non_negative = a.non_negative || b.non_negative;
      break;
    case BinaryFunction::kMinimum:
      break;
    case BinaryFunction::kEqual:
    case BinaryFunction::kLess:
    case BinaryFunction::kLessOrEqual:
      return {.may_be_nan = false, .may_be_infinite = false, .non_negative = true};
    case BinaryFunction::kWhen:
    case BinaryFunction::kUnless:
      traits.non_negative = false;
      break;
    default:
      traits.may_be_nan = true;
  }
  return traits;
}

// f16 or bf16 to a fixed power: one more function of one number.
std::optional<Carried> constant_power(Expansion& at, const Node& node, Format format) {
  const auto& attributes = node.as<ElementwiseAttributes>();
  if (attributes.function != BinaryFunction::kPower) return std::nullopt;
  const graph::TensorInfo& base = at.info(node.inputs[0]);
  const Tensor* exponent = at.info(node.inputs[1]).constant.get();
  if (exponent == nullptr || element_count(exponent->dims) != 1 || !is_narrow_float(base.format) ||
      at.info(node.outputs[0]).dims != base.dims) {
    return std::nullopt;
  }
  const double power = arith::read_element(exponent->format, exponent->bytes.data());
  const TableFunction function = {fmt::format("power/{}", power), [&](double element) {
                                    return arith::evaluate(BinaryFunction::kPower, element, power,
                                                           format);
                                  }};
  const Carried& x = at.operand(node.inputs[0]);
  if (power == 0 || std::isnan(power)) return std::nullopt;  // NaN^0 is 1
  Traits traits;
  traits.may_be_infinite = format == Format::kF32;
  return Carried{look_up(at, x, base.format, format, function), traits, false};
}

// Elements of i64 from f64: half to even, saturating, NaN gives 0.
ValueId round_to_i64(Steps& steps, ValueId x, bool may_be_nan) {
  if (may_be_nan) x = steps.where(steps.is_nan(x), steps.f64(0), x);
  constexpr double kBelow = 0x1p63 - 0x1p10;  // the largest float64 that is an i64
  const ValueId y = steps.cast(steps.clip(steps.round(x), -0x1p63, kBelow), Format::kI64);
  return steps.where(steps.less(x, 0x1p63), y,
                     steps.i64s({std::numeric_limits<std::int64_t>::max()}, {}));
}

// x without its fraction.
ValueId cut_fraction(Steps& steps, ValueId x) {
  return steps.where(steps.less(x, 0.0), steps.unary(Operator::kCeil, x),
                     steps.unary(Operator::kFloor, x));
}

Result<Carried> to_format(Expansion& at, const Node& node, ValueId value, const Traits& traits,
                          Format format) {
  Steps& steps = at.steps();
  if (format == Format::kBool) {
    // NaN is true.
    const Operand operand = {value, traits, Format::kF64};
    return Carried{is_nonzero(steps, operand), Traits::finite(), false};
  }
  if (is_small_integer(format)) {
    return Carried{round_to_integer(steps, value, format, traits.may_be_nan), Traits::finite(),
                   false};
  }
  if (format == Format::kI64) {
    return Carried{round_to_i64(steps, value, traits.may_be_nan), Traits::finite(), false};
  }
  if (format == Format::kF64) return Carried{value, traits, false};
  if (!format_is_float(format)) {
    return refuse(node, fmt::format("a result in {}", format_name(format)));
  }
  Traits unrounded = traits;
  unrounded.may_be_infinite = true;
  Traits after = traits;
  after.may_be_infinite = format == Format::kF32;
  return Carried{round_to_format(steps, value, format, unrounded), after, false};
}

// a^b to a vector format, of operands whose numbers have at most 24 bits.
Result<Carried> computed_power(Expansion& at, const Node& node, const Operand& a, const Operand& b,
                               Format format) {
  for (const Operand* operand : {&a, &b}) {
    const bool narrow = is_small_integer(operand->format) && format_bytes(operand->format) <= 2;
    if (format_is_vector(operand->format) || narrow) continue;
    return refuse(
        node, fmt::format("a power of {} and {}", format_name(a.format), format_name(b.format)));
  }
  Traits traits;
  traits.may_be_infinite = format == Format::kF32;
  return Carried{power_steps(at.steps(), a.value, b.value, format), traits, false};
}

// x + 0 of i64 in a smaller integer format: a conversion.
bool converts_i64(Expansion& at, const Node& node, const Operand& a, Format format) {
  const Tensor* const zero = at.info(node.inputs[1]).constant.get();
  return a.format == Format::kI64 && is_small_integer(format) && zero != nullptr &&
         node.as<ElementwiseAttributes>().function == BinaryFunction::kAdd &&
         element_count(zero->dims) == 1 &&
         arith::read_element(zero->format, zero->bytes.data()) == 0;
}

// Modulo 2^bits of any whole number in float64: division by a power of two, floor and the difference are exact.
ValueId remainder_in(Steps& steps, ValueId x, Format format) {
  const arith::IntegerRange range = arith::integer_range(format);
  const double modulus = static_cast<double>(range.highest - range.lowest + 1);
  const ValueId turns = steps.unary(Operator::kFloor, steps.mul(x, 1 / modulus));
  const ValueId rest = steps.sub(x, steps.mul(turns, modulus));
  const double above = static_cast<double>(range.highest) + 1;
  return steps.where(steps.less(rest, above), rest, steps.sub(rest, modulus));
}

// Sums, differences and products of whole numbers in an integer format: modulo 2^bits.
Result<Carried> wrapped(Expansion& at, const Node& node, const Operand& a, const Operand& b,
                        Format format) {
  Steps& steps = at.steps();
  const BinaryFunction function = node.as<ElementwiseAttributes>().function;
  const bool whole = is_small_integer(a.format) && is_small_integer(b.format);
  const bool narrow = format_bytes(a.format) + format_bytes(b.format) <= 6;
  const bool sum = function != BinaryFunction::kMultiply;
  // Sums and differences that i64 would take modulo 2^64 are not exact in float64 in the first
  // place, which arithmetic in binary64 rounds and saturates.
  const bool wide = format == Format::kI64;
  if (!(whole || (sum && wide)) || !(sum || narrow)) {
    return refuse(node,
                  fmt::format("'{}' of {} and {} to {}", binary_function_name(function),
                              format_name(a.format), format_name(b.format), format_name(format)));
  }
  TESSERA_TRY(const ValueId plain, binary_steps(at, node, a, b));
  if (wide)
    return to_format(at, node, plain, traits_after(function, a.traits, b.traits, format), format);
  const arith::IntegerRange range = arith::integer_range(format);
  const double modulus = static_cast<double>(range.highest - range.lowest + 1);
  const ValueId turns = steps.unary(
      Operator::kFloor,
      steps.mul(steps.sub(plain, static_cast<double>(range.lowest) - 0.5), 1 / modulus));
  const ValueId result = steps.sub(plain, steps.mul(turns, modulus));
  return Carried{round_to_whole(steps, result), Traits::finite(), false};
}

// round(round(x * gain) + bias), carried as elements of `working`.
Result<Carried> gain_and_bias(Expansion& at, const Node& node, Format working) {
  Steps& steps = at.steps();
  const Format between = node.as<ElementwiseAttributes>().gain_format;
  TESSERA_TRY(const Operand x, read_operand(at, node, 0));
  TESSERA_TRY(const Operand gain, read_operand(at, node, 1));
  TESSERA_TRY(
      const Carried scaled,
      to_format(at, node, steps.mul(x.value, gain.value),
                traits_after(BinaryFunction::kMultiply, x.traits, gain.traits, between), between));
  const Carried& bias = at.operand(node.inputs[2]);
  const ValueId sum =
      steps.add(steps.cast(scaled.value, Format::kF64), steps.cast(bias.value, Format::kF64));
  return to_format(at, node, sum,
                   traits_after(BinaryFunction::kAdd, scaled.traits, bias.traits, working),
                   working);
}

// a' or round(binary(a', b')), carried as elements of `working` (or, without a second operand, of
// the operand's own format, which comes back in `source`).
Result<Carried> first_step(Expansion& at, const Node& node, Format working, Format& source) {
  Steps& steps = at.steps();
  const auto& attributes = node.as<ElementwiseAttributes>();
  if (attributes.gain_bias) {
    source = working;
    return gain_and_bias(at, node, working);
  }
  TESSERA_TRY(const Operand a, read_operand(at, node, 0));
  if (!attributes.binary) {
    source = a.format;
    // Not by way of f64, which has not every i64.
    if (carrier(source) == source && source != Format::kF32) {
      return Carried{at.operand(node.inputs[0]).value, a.traits, false};
    }
    return Carried{steps.cast(a.value, carrier(source)), a.traits, false};
  }
  source = working;
  TESSERA_TRY(const Operand b, read_operand(at, node, 1));
  const bool to_integer = is_small_integer(working) || working == Format::kI64;
  if (converts_i64(at, node, a, working)) {
    return Carried{remainder_in(at.steps(), a.value, working), Traits::finite(), false};
  }
  if (to_integer && is_modular(attributes.function)) return wrapped(at, node, a, b, working);
  if (attributes.function == BinaryFunction::kPower && format_is_vector(working)) {
    return computed_power(at, node, a, b, working);
  }
  TESSERA_TRY(ValueId plain, binary_steps(at, node, a, b));
  if (to_integer && attributes.function == BinaryFunction::kDivide) {
    plain = cut_fraction(at.steps(), plain);
  }
  return to_format(at, node, plain, traits_after(attributes.function, a.traits, b.traits, working),
                   working);
}

// activation(x) as an integer: the function in float64, rounded once; of an f16 from a table where
// it has no such steps.
Result<Carried> function_to_integer(Expansion& at, const Node& node, const Carried& x,
                                    Format source, Format format) {
  Steps& steps = at.steps();
  const Activation& activation = node.as<ElementwiseAttributes>().activation;
  const ValueId wide = steps.cast(x.value, Format::kF64);
  if (const auto plain = plain_function(steps, activation, wide, x.traits)) {
    return to_format(at, node, *plain, {}, format);
  }
  if (!is_narrow_float(source)) {
    return refuse(node, fmt::format("'{}' from {} to {} has no exact steps; f16 vectors take it "
                                    "from a table",
                                    unary_function_name(activation.function), format_name(source),
                                    format_name(format)));
  }
  const TableFunction function = {
      fmt::format("{}/{}/{}", unary_function_name(activation.function), activation.alpha,
                  activation.beta),
      [&](double element) { return arith::evaluate(activation, element, format); }};
  Carried number = x;
  number.traits.may_be_nan = false;
  if (!x.traits.may_be_nan)
    return Carried{look_up(at, x, source, format, function), Traits::finite(), false};
  const ValueId is_nan = steps.is_nan(x.value);
  number.value = steps.where(is_nan, steps.f64(1), x.value);
  const ValueId found = look_up(at, number, source, format, function);
  const ValueId zero = steps.scalar(steps.format(found), 0);
  return Carried{steps.where(is_nan, zero, found), Traits::finite(), false};
}

// activation(0 or 1) as a truth value.
Result<Carried> function_of_truth(Expansion& at, const Node& node, const Carried& x) {
  const Activation& activation = node.as<ElementwiseAttributes>().activation;
  const ValueId number = at.steps().cast(x.value, Format::kF64);
  if (const auto plain = plain_function(at.steps(), activation, number, Traits::finite())) {
    return to_format(at, node, *plain, {}, Format::kBool);
  }
  return refuse(node,
                fmt::format("'{}' from bool to bool", unary_function_name(activation.function)));
}

}  // namespace

ValueId round_to_integer(Steps& steps, ValueId x, Format format, bool may_be_nan) {
  if (may_be_nan) x = steps.where(steps.is_nan(x), steps.f64(0), x);
  const arith::IntegerRange range = arith::integer_range(format);
  const ValueId whole = round_to_whole(steps, x);
  return steps.clip(whole, static_cast<double>(range.lowest), static_cast<double>(range.highest));
}

ValueId dequantise(Steps& steps, ValueId q, const Affine& affine) {
  if (affine.zero_point != 0) q = steps.sub(q, static_cast<double>(affine.zero_point));
  return steps.mul(steps.cast(q, Format::kF32), static_cast<double>(affine.scale));
}

ValueId quantise(Steps& steps, ValueId x, const Affine& affine, Format format, bool may_be_nan) {
  ValueId scaled = steps.cast(steps.div(x, static_cast<double>(affine.scale)), Format::kF64);
  if (may_be_nan) scaled = steps.where(steps.is_nan(scaled), steps.f64(0), scaled);
  ValueId whole = round_to_whole(steps, scaled);
  if (affine.zero_point != 0) whole = steps.add(whole, static_cast<double>(affine.zero_point));
  const arith::IntegerRange range = arith::integer_range(format);
  return steps.clip(whole, static_cast<double>(range.lowest), static_cast<double>(range.highest));
}

Result<Carried> expand_elementwise(Expansion& at, const Node& node) {
  const auto& attributes = node.as<ElementwiseAttributes>();
  const Format format = at.info(node.outputs[0]).format;
  const Format working = attributes.output.enabled ? Format::kF32 : format;
  if (const auto power = constant_power(at, node, working)) {
    return expand_activation(at, node, attributes.activation, *power, working, working);
  }
  Format source = working;
  TESSERA_TRY(Carried value, first_step(at, node, working, source));
  const bool identity = attributes.activation.function == UnaryFunction::kIdentity;
  if (format_is_vector(source) && format_is_vector(working)) {
    TESSERA_TRY(value, expand_activation(at, node, attributes.activation, value, source, working));
  } else if (!identity && format_is_integer(working)) {
    TESSERA_TRY(value, function_to_integer(at, node, value, source, working));
  } else if (!identity && source == Format::kBool && working == Format::kBool) {
    TESSERA_TRY(value, function_of_truth(at, node, value));
  } else if (!identity) {
    // Integers are numbers like any other, exact in f32 up to 16 bits.
    const bool small =
        is_small_integer(source) && format_bytes(source) <= 2 && format_is_vector(working);
    if (!small) {
      return refuse(node, fmt::format("'{}' from {} to {}",
                                      unary_function_name(attributes.activation.function),
                                      format_name(source), format_name(working)));
    }
    const Carried real = {at.steps().cast(value.value, Format::kF32), value.traits, false};
    TESSERA_TRY(value,
                expand_activation(at, node, attributes.activation, real, Format::kF32, working));
  } else if (working == Format::kI64 && is_small_integer(source)) {
    value = {at.steps().cast(value.value, Format::kI64), Traits::finite(), false};
  } else if (source != working) {
    const ValueId wide = at.steps().cast(value.value, Format::kF64);
    TESSERA_TRY(value, to_format(at, node, wide, value.traits, working));
  }
  if (!attributes.output.enabled) return value;
  const bool may_be_nan = value.traits.may_be_nan || value.traits.may_be_infinite;
  return Carried{quantise(at.steps(), value.value, attributes.output, format, may_be_nan),
                 Traits::finite(), false};
}

}  // namespace tessera::concord

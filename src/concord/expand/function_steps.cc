// Unary functions.
//
//   algebraic (relu, clip, hard_swish, square root, ...)   their own float64 steps, one rounding
//   all others, of an f16 or bf16                          a table of all 65,536 results
//   exp and what is made of it, of an f32                  two float64 (expand/exponential_steps.h)
//
// The place of an f16 in its table is found by arithmetic: |x|^(1/16), four square roots, grows by
// at least one 2^-16 from one f16 to the next, so that times 2^16 it distinguishes all of them. Of a
// bf16 it is |x|^(1/256), eight square roots, times 2^17.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "arith/function.h"
#include "arith/rounding.h"
#include "arith/unary_functions.h"
#include "base/check.h"
#include "concord/expand/expansion.h"
#include "concord/expand/exponential_steps.h"
#include "concord/expand/node_expansions.h"

namespace tessera::concord {
namespace {

// How elements of a format find their places: by so many square roots, times `places`.
struct Key {
  int roots = 4;
  double places = 0x1p16;   // of |x| = 1
  double largest = 0x1p16;  // infinity looks up the place of this number
  double up = 0x1p20;       // raises the reciprocal of every element to 1
  double zero_place = 0;    // below the smallest subnormal number there is only 0
  double last_place = 0;    // of `largest`
};
constexpr Key kF16Key = {.roots = 4,
                         .places = 0x1p16,
                         .largest = 0x1p16,
                         .up = 0x1p20,
                         .zero_place = 23169,
                         .last_place = 0x1p17};
// 2^-133 ... 2^128, with 8 bits: |x|^(1/256) is 0.6975 ... 1.4142, and grows by 1.06 * 2^-17 at least.
constexpr Key kBf16Key = {.roots = 8,
                          .places = 0x1p17,
                          .largest = 0x1p128,
                          .up = 0x1p140,
                          .zero_place = 91434,
                          .last_place = 185364};
const Key& key_of(Format source) { return source == Format::kBf16 ? kBf16Key : kF16Key; }

struct TableShape {
  Format source = Format::kF16;
  Format format = Format::kF16;
  bool signed_zero = false;
  bool one_sided = false;
  // Of |x|: up to the first place, and from the last one on, the function does not change (of either sign).
  double first = key_of(source).zero_place, last = key_of(source).last_place;
  const Key& key() const { return key_of(source); }
  std::int64_t side_places() const { return static_cast<std::int64_t>(last - first) + 3; }
};

double root_place(double x, const Key& key) {
  double root = std::abs(x);
  for (int i = 0; i < key.roots; ++i) root = std::sqrt(root);
  return root * key.places;
}

double element_of_bits(Format source, std::uint32_t bits) {
  const auto element = static_cast<std::uint16_t>(bits);
  return arith::read_element(source, reinterpret_cast<const std::byte*>(&element));
}

// The place of a number that is at most the largest key, exactly as the derived steps compute it.
std::int64_t place_of(double x, const TableShape& shape) {
  const double place =
      std::clamp(root_place(x, shape.key()), shape.first, shape.last) - (shape.first - 1);
  if (shape.one_sided) return static_cast<std::int64_t>(place);
  const double sign = shape.signed_zero ? (std::signbit(x) ? -1.0 : 1.0) : (x > 0) - (x < 0);
  return static_cast<std::int64_t>(place * sign + static_cast<double>(shape.side_places()));
}

bool same_bits(double a, double b) { return arith::bits_of_f64(a) == arith::bits_of_f64(b); }

// Where the function begins and ends to change: of numbers from 0 on, and from there on. NaN counts as any other result.
void narrow(TableShape& shape, const std::function<double(double)>& function) {
  const auto at = [&](std::uint32_t bits, bool negative) {
    return function(element_of_bits(shape.source, bits | (negative ? 0x8000u : 0u)));
  };
  const std::uint32_t infinity = shape.source == Format::kBf16 ? 0x7F80 : 0x7C00;
  std::uint32_t low = infinity, high = 0;
  for (const bool negative : {false, true}) {
    if (negative && shape.one_sided) continue;
    std::uint32_t same = 1;
    while (same < infinity && same_bits(at(same + 1, negative), at(1, negative))) ++same;
    // 0 has a place of its own only where its sign is that of neither side.
    const bool shares = shape.one_sided || shape.signed_zero;
    if (shares && !same_bits(at(0, negative), at(1, negative))) same = 0;
    low = std::min(low, same);
    same = infinity;
    while (same > 1 && same_bits(at(same - 1, negative), at(infinity, negative))) --same;
    high = std::max(high, same);
  }
  if (low > high) return;
  const auto place = [&](std::uint32_t bits) {
    return root_place(std::min(element_of_bits(shape.source, bits), shape.key().largest),
                      shape.key());
  };
  if (low > 0) shape.first = std::max(shape.key().zero_place, std::floor(place(low)));
  shape.last = std::min(shape.key().last_place, std::ceil(place(high)));
}

Tensor make_table(const TableShape& shape, const std::function<double(double)>& function) {
  const std::int64_t places = shape.one_sided ? shape.side_places() : 2 * shape.side_places();
  // Nothing that software is written for has bf16 tensors: they have no format of their own there.
  const Format stored = shape.format == Format::kBf16 ? Format::kF32 : shape.format;
  Tensor table = Tensor::zeros(stored, {places});
  std::vector<bool> taken(static_cast<std::size_t>(places), false);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double x = element_of_bits(shape.source, bits);
    if (std::isnan(x) || (shape.one_sided && std::signbit(x))) continue;
    if (!shape.signed_zero && bits == 0x8000) continue;
    const double key = std::clamp(x, -shape.key().largest, shape.key().largest);
    const std::int64_t place = place_of(key, shape);
    std::byte* const entry = table.bytes.data() + place * format_bytes(stored);
    const double value = function(x);
    const bool is_shared = place >= 0 && place < places && taken[static_cast<std::size_t>(place)];
    TESSERA_CHECK(place >= 0 && place < places &&
                      (!is_shared || same_bits(arith::read_element(stored, entry), value)),
                  "two numbers with different results share place {}", place);
    taken[static_cast<std::size_t>(place)] = true;
    arith::write_element(stored, value, entry);
  }
  // Places that no number has are like those before them: longer runs (short_form.cc).
  const auto size = static_cast<std::size_t>(format_bytes(stored));
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (!taken[i]) std::memcpy(&table.bytes[i * size], &table.bytes[(i - 1) * size], size);
  }
  return table;
}

ValueId places_of(Steps& steps, ValueId x, const TableShape& shape) {
  ValueId root = shape.one_sided ? x : steps.abs(x);
  for (int i = 0; i < shape.key().roots; ++i) root = steps.unary(Operator::kSquareRoot, root);
  ValueId place = steps.max(steps.mul(root, shape.key().places), shape.first);
  if (shape.last < shape.key().last_place) place = steps.min(place, shape.last);
  place = steps.sub(place, shape.first - 1);
  if (!shape.one_sided) {
    ValueId sign = x;
    if (shape.signed_zero) {
      // 1 / x distinguishes -0 from +0.
      sign =
          steps.clip(steps.mul(steps.unary(Operator::kReciprocal, x), shape.key().up), -1.0, 1.0);
    } else {
      sign = steps.sign(x);
    }
    place = steps.add(steps.mul(place, sign), static_cast<double>(shape.side_places()));
  }
  return steps.cast(steps.unary(Operator::kFloor, place), Format::kI64);
}

bool keeps_grid(const Activation& activation, Format format) {
  switch (activation.function) {
    case UnaryFunction::kIdentity:
    case UnaryFunction::kRelu:
    case UnaryFunction::kAbs:
    case UnaryFunction::kNegate:
    case UnaryFunction::kFloor:
    case UnaryFunction::kCeil:
    case UnaryFunction::kRound:
      return true;
    case UnaryFunction::kClip: {
      const auto on_grid = [&](float x) {
        return arith::round_value(format, static_cast<double>(x)) == static_cast<double>(x);
      };
      return on_grid(activation.alpha) && on_grid(activation.beta);
    }
    default:
      return false;
  }
}

Traits traits_after(const Activation& activation, const Traits& x, Format format) {
  const UnaryRange range = unary_row(activation.function).range;
  Traits traits = {.may_be_nan = x.may_be_nan || range == UnaryRange::kAny,
                   .may_be_infinite = format == Format::kF32,
                   .non_negative = range == UnaryRange::kNonNegative};
  switch (activation.function) {
    case UnaryFunction::kIdentity:
      traits.non_negative = x.non_negative;
      break;
    case UnaryFunction::kClip:
      traits.non_negative = activation.alpha >= 0;
      break;
    case UnaryFunction::kSquareRoot:
      traits.non_negative = x.non_negative;
      traits.may_be_nan = x.may_be_nan || !x.non_negative;
      break;
    case UnaryFunction::kHardSwish:
      traits.may_be_nan |= x.may_be_infinite;
      break;
    default:
      break;
  }
  return traits;
}

Result<Carried> function_of_narrow(Expansion& at, const Activation& activation, const Carried& x,
                                   Format source, Format format) {
  Steps& steps = at.steps();
  const Traits after = traits_after(activation, x.traits, format);
  // Plain steps, where they give every entry of the table.
  const bool plain =
      format == Format::kF32 ||
      (source == format && arith::unary_table(activation, source).plain_steps_agree());
  if (plain) {
    if (const auto y = plain_function(steps, activation, x.value, x.traits)) {
      if (format == source && keeps_grid(activation, format)) {
        ValueId value = *y;
        if (x.traits.may_be_infinite) {
          value = steps.max(steps.min(value, largest_element(format)), -largest_element(format));
        }
        return Carried{value, after, false};
      }
      Traits unrounded = after;
      unrounded.may_be_infinite = true;
      return Carried{round_to_format(steps, *y, format, unrounded), after, false};
    }
  }
  const TableFunction function = {
      fmt::format("{}/{}/{}", unary_function_name(activation.function), activation.alpha,
                  activation.beta),
      [&](double element) { return arith::evaluate(activation, element, format); }};
  return Carried{look_up(at, x, source, format, function), after, false};
}

Result<Carried> function_of_f32(Expansion& at, const graph::Node& node,
                                const Activation& activation, const Carried& x, Format format) {
  Steps& steps = at.steps();
  const Traits after = traits_after(activation, x.traits, format);
  const ValueId wide = steps.cast(x.value, Format::kF64);
  const bool odd = format != Format::kF32 && (activation.function == UnaryFunction::kHardSigmoid ||
                                              activation.function == UnaryFunction::kHardSwish);
  if (!odd) {
    if (const auto y = plain_function(steps, activation, wide, x.traits)) {
      Traits unrounded = after;
      unrounded.may_be_infinite = true;
      return Carried{round_to_format(steps, *y, format, unrounded), after, false};
    }
  }
  if (const auto y = exponential_steps(steps, activation, wide, x.traits, format)) {
    return Carried{*y, after, false};
  }
  return refuse(node, fmt::format("'{}' of f32 elements to {} has no exact steps; f16 vectors take "
                                  "it from a table",
                                  unary_function_name(activation.function), format_name(format)));
}

}  // namespace

std::optional<ValueId> plain_function(Steps& steps, const Activation& activation, ValueId x,
                                      const Traits& traits) {
  const double alpha = static_cast<double>(activation.alpha);
  const double beta = static_cast<double>(activation.beta);
  const auto unit_line = [&] {  // clip(alpha x + beta, 0, 1); abs: +0, not -0
    const ValueId line = steps.add(steps.mul(x, alpha), beta);
    return steps.abs(steps.min(steps.max(line, 0.0), 1.0));
  };
  switch (activation.function) {
    case UnaryFunction::kIdentity:
      return x;
    case UnaryFunction::kRelu:
      return steps.abs(steps.max(x, 0.0));
    case UnaryFunction::kClip: {
      if (std::isnan(alpha) || std::isnan(beta) || alpha > beta || beta == 0) return std::nullopt;
      if (alpha == 0 && std::signbit(alpha)) return std::nullopt;
      const ValueId clipped = steps.min(steps.max(x, alpha), beta);
      return alpha == 0 ? steps.abs(clipped) : clipped;
    }
    case UnaryFunction::kLeakyRelu:
      if (!(alpha > 0)) return std::nullopt;
      return alpha < 1 ? steps.max(x, steps.mul(x, alpha)) : steps.min(x, steps.mul(x, alpha));
    case UnaryFunction::kAbs:
      return steps.abs(x);
    case UnaryFunction::kNegate:
      return steps.unary(Operator::kNegate, x);
    case UnaryFunction::kFloor:
      return steps.unary(Operator::kFloor, x);
    case UnaryFunction::kCeil:
      return steps.unary(Operator::kCeil, x);
    case UnaryFunction::kRound:
      return steps.round(x);
    case UnaryFunction::kSquare:
      return steps.mul(x, x);
    case UnaryFunction::kSquareRoot:
      return steps.unary(Operator::kSquareRoot, x);
    case UnaryFunction::kReciprocal:
      return steps.unary(Operator::kReciprocal, x);
    case UnaryFunction::kHardSigmoid:
      return unit_line();
    case UnaryFunction::kHardSwish:
      return steps.mul(x, unit_line());
    case UnaryFunction::kSoftsign:
      if (traits.may_be_infinite) return std::nullopt;
      return steps.div(x, steps.add(steps.abs(x), 1.0));
    case UnaryFunction::kScale:
      if (!std::isfinite(alpha)) return std::nullopt;
      return steps.mul(x, alpha);
    default:
      return std::nullopt;
  }
}

ValueId look_up(Expansion& at, const Carried& x, Format source, Format format,
                const TableFunction& function) {
  Steps& steps = at.steps();
  TableShape shape = {.source = source,
                      .format = format,
                      .signed_zero = !same_bits(function.value(0.0), function.value(-0.0)),
                      .one_sided = x.traits.non_negative};
  narrow(shape, function.value);
  ValueId& table =
      at.tables()[fmt::format("{}/{}/{}/{}/{}", function.name, format_name(source),
                              format_name(format), shape.signed_zero, shape.one_sided)];
  if (!table.valid()) {
    table = steps.cast(steps.short_constant(make_table(shape, function.value)), carrier(format));
  }
  ValueId key = x.value;
  const ValueId is_nan = x.traits.may_be_nan ? steps.is_nan(key) : ValueId{};
  if (x.traits.may_be_nan) key = steps.where(is_nan, steps.f64(1), key);
  if (x.traits.may_be_infinite) key = steps.clip(key, -shape.key().largest, shape.key().largest);
  const ValueId found = steps.gather(table, places_of(steps, key, shape), 0);
  if (!x.traits.may_be_nan) return found;
  return steps.where(
      is_nan, steps.scalar(steps.format(found), std::numeric_limits<double>::quiet_NaN()), found);
}

Result<Carried> expand_activation(Expansion& at, const graph::Node& node,
                                  const Activation& activation, const Carried& x, Format source,
                                  Format format) {
  if (activation.function == UnaryFunction::kIdentity && source == format &&
      (source == Format::kF32 || !x.traits.may_be_infinite)) {
    return Carried{x.value, x.traits, false};
  }
  if (is_narrow_float(source)) return function_of_narrow(at, activation, x, source, format);
  return function_of_f32(at, node, activation, x, format);
}

}  // namespace tessera::concord

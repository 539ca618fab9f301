// See mixed_formats.h. Loops over one type of element each, in the instruction set that is chosen.

#include <algorithm>
#include <cstddef>
#include <limits>

#include "arith/mixed_formats.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/mixed_formats_simd.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include "arith/elementwise_lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {

struct alignas(64) WordBuffer {
  std::uint32_t lanes[kChunk];
};

const std::byte* place_of(const Operand& in, std::int64_t first) {
  return static_cast<const std::byte*>(in.data) + first * in.stride * format_bytes(in.format);
}

template <typename T, typename Lane>
void load_as(const std::byte* elements, std::size_t count, Lane* lanes) {
  for (std::size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, elements + i * sizeof(T), sizeof(T));
    lanes[i] = static_cast<Lane>(element);
  }
}

// Integers as lanes; false of another format.
template <typename Lane>
bool load_integers(Format format, const std::byte* elements, std::size_t count, Lane* lanes) {
  switch (format) {
    case Format::kI8:
      load_as<std::int8_t>(elements, count, lanes);
      return true;
    case Format::kU8:
      load_as<std::uint8_t>(elements, count, lanes);
      return true;
    case Format::kI16:
      load_as<std::int16_t>(elements, count, lanes);
      return true;
    case Format::kU16:
      load_as<std::uint16_t>(elements, count, lanes);
      return true;
    case Format::kI32:
      load_as<std::int32_t>(elements, count, lanes);
      return true;
    case Format::kU32:
      load_as<std::uint32_t>(elements, count, lanes);
      return true;
    case Format::kI64:
      load_as<std::int64_t>(elements, count, lanes);
      return true;
    default:
      return false;
  }
}

// At most kChunk elements from `first` on; lanes behind them, up to a whole vector, are zero.
void load_doubles(const Operand& in, std::int64_t first, std::size_t count, double* lanes) {
  const F64 dd;
  for (std::size_t i = count; i % hn::Lanes(dd) != 0; ++i) lanes[i] = 0;
  if (in.stride == 0) {
    std::fill_n(lanes, count, read_element(in.format, in.data));
    return;
  }
  const std::byte* const elements = place_of(in, first);
  if (load_integers(in.format, elements, count, lanes)) return;
  if (in.format == Format::kF64) {
    std::memcpy(lanes, elements, count * sizeof(double));
  } else if (in.format == Format::kBool) {
    for (std::size_t i = 0; i < count; ++i) lanes[i] = elements[i] != std::byte{0} ? 1 : 0;
  } else {
    FloatBuffer narrow;
    load_lanes(in.format, elements, count, narrow.lanes);
    widen_lanes(narrow.lanes, count, lanes);
  }
}

template <typename T>
void store_integers_as(const double* lanes, std::size_t count, std::byte* elements) {
  for (std::size_t i = 0; i < count; ++i) {
    const T element = static_cast<T>(static_cast<std::int64_t>(lanes[i]));
    std::memcpy(elements + i * sizeof(T), &element, sizeof(T));
  }
}

// Rounds half to even and saturates; a NaN is 0. Of integers of at most 32 bits.
template <typename T>
void round_and_store(double* lanes, std::size_t count, std::byte* elements) {
  const F64 dd;
  const auto lowest = hn::Set(dd, static_cast<double>(std::numeric_limits<T>::min()));
  const auto highest = hn::Set(dd, static_cast<double>(std::numeric_limits<T>::max()));
  for (std::size_t i = 0; i < count; i += hn::Lanes(dd)) {
    const auto v = hn::Load(dd, lanes + i);
    const auto number = hn::IfThenElse(hn::IsNaN(v), hn::Zero(dd), v);
    hn::Store(hn::Round(hn::Min(hn::Max(number, lowest), highest)), dd, lanes + i);
  }
  store_integers_as<T>(lanes, count, elements);
}

void store_i64(const double* lanes, std::size_t count, std::byte* elements) {
  for (std::size_t i = 0; i < count; ++i) {
    write_element(Format::kI64, lanes[i], elements + i * sizeof(std::int64_t));
  }
}

void store_doubles(double* lanes, std::int64_t first, std::size_t count, const Output& out) {
  std::byte* const elements = static_cast<std::byte*>(out.data) + first * format_bytes(out.format);
  FloatBuffer narrow;
  switch (out.format) {
    case Format::kI8:
      return round_and_store<std::int8_t>(lanes, count, elements);
    case Format::kU8:
      return round_and_store<std::uint8_t>(lanes, count, elements);
    case Format::kI16:
      return round_and_store<std::int16_t>(lanes, count, elements);
    case Format::kU16:
      return round_and_store<std::uint16_t>(lanes, count, elements);
    case Format::kI32:
      return round_and_store<std::int32_t>(lanes, count, elements);
    case Format::kU32:
      return round_and_store<std::uint32_t>(lanes, count, elements);
    case Format::kI64:
      return store_i64(lanes, count, elements);
    case Format::kBool:
      for (std::size_t i = 0; i < count; ++i) elements[i] = std::byte{lanes[i] != 0};
      return;
    default:
      narrow_lanes(out.format, lanes, count, narrow.lanes);
      store_lanes(out.format, narrow.lanes, count, elements);
  }
}

void unary_mixed_doubles(const Activation& activation, const Operand& in, const Output& out) {
  DoubleBuffer x;
  for (std::int64_t first = 0; first < out.count; first += std::int64_t{kChunk}) {
    const std::size_t count = std::min(kChunk, static_cast<std::size_t>(out.count - first));
    load_doubles(in, first, count, x.lanes);
    algebraic_buffer(F64(), activation, count, x.lanes);
    store_doubles(x.lanes, first, count, out);
  }
}

void binary_mixed_doubles(BinaryFunction function, const Operand& in_a, const Operand& in_b,
                          const Output& out) {
  DoubleBuffer a;
  DoubleBuffer b;
  for (std::int64_t first = 0; first < out.count; first += std::int64_t{kChunk}) {
    const std::size_t count = std::min(kChunk, static_cast<std::size_t>(out.count - first));
    load_doubles(in_a, first, count, a.lanes);
    load_doubles(in_b, first, count, b.lanes);
    binary_buffer(F64(), function, count, a.lanes, b.lanes);
    store_doubles(a.lanes, first, count, out);
  }
}

void load_words(const Operand& in, std::int64_t first, std::size_t count, std::uint32_t* lanes) {
  if (in.stride != 0) {
    load_integers(in.format, place_of(in, first), count, lanes);
    return;
  }
  load_integers(in.format, static_cast<const std::byte*>(in.data), 1, lanes);
  std::fill_n(lanes, count, lanes[0]);
}

template <typename T>
void store_words_as(const std::uint32_t* lanes, std::size_t count, std::byte* elements) {
  for (std::size_t i = 0; i < count; ++i) {
    const T element = static_cast<T>(lanes[i]);
    std::memcpy(elements + i * sizeof(T), &element, sizeof(T));
  }
}

// The low bytes of each.
void store_words(const std::uint32_t* lanes, std::int64_t first, std::size_t count,
                 const Output& out) {
  std::byte* const elements = static_cast<std::byte*>(out.data) + first * format_bytes(out.format);
  switch (format_bytes(out.format)) {
    case 1:
      return store_words_as<std::uint8_t>(lanes, count, elements);
    case 2:
      return store_words_as<std::uint16_t>(lanes, count, elements);
    default:
      return store_words_as<std::uint32_t>(lanes, count, elements);
  }
}

// Add, subtract or multiply.
void binary_words(BinaryFunction function, const Operand& in_a, const Operand& in_b,
                  const Output& out) {
  WordBuffer a;
  WordBuffer b;
  for (std::int64_t first = 0; first < out.count; first += std::int64_t{kChunk}) {
    const std::size_t count = std::min(kChunk, static_cast<std::size_t>(out.count - first));
    load_words(in_a, first, count, a.lanes);
    load_words(in_b, first, count, b.lanes);
    if (function == BinaryFunction::kAdd) {
      for (std::size_t i = 0; i < count; ++i) a.lanes[i] += b.lanes[i];
    } else if (function == BinaryFunction::kSubtract) {
      for (std::size_t i = 0; i < count; ++i) a.lanes[i] -= b.lanes[i];
    } else {
      for (std::size_t i = 0; i < count; ++i) a.lanes[i] *= b.lanes[i];
    }
    store_words(a.lanes, first, count, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(unary_mixed_doubles);
HWY_EXPORT(binary_mixed_doubles);
HWY_EXPORT(binary_words);

namespace {

bool can_store(Format format) { return format != Format::kF64 && format != Format::kU64; }
bool can_load(const Operand& in) { return in.format != Format::kU64; }

bool is_short_integer(Format format) {
  return format_is_integer(format) && format_bytes(format) <= 4;
}

bool wraps_around(BinaryFunction function) {
  return function == BinaryFunction::kAdd || function == BinaryFunction::kSubtract ||
         function == BinaryFunction::kMultiply;
}

}  // namespace

bool convert_mixed(const Operand& in, const Output& out) {
  return unary_mixed({.function = UnaryFunction::kIdentity}, in, out);
}

bool unary_mixed(const Activation& activation, const Operand& in, const Output& out) {
  // Into f16 and bf16 these are rounded from more than binary64 has.
  const bool wide = activation.function == UnaryFunction::kHardSigmoid ||
                    activation.function == UnaryFunction::kHardSwish;
  const bool narrow = out.format == Format::kF16 || out.format == Format::kBf16;
  if (unary_row(activation.function).kind == UnaryKind::kTranscendental || (wide && narrow) ||
      !can_load(in) || !can_store(out.format)) {
    return false;
  }
  HWY_DYNAMIC_DISPATCH(unary_mixed_doubles)(activation, in, out);
  return true;
}

bool binary_mixed(BinaryFunction function, const Operand& a, const Operand& b, const Output& out) {
  if (function == BinaryFunction::kPower || !can_load(a) || !can_load(b) ||
      !can_store(out.format)) {
    return false;
  }
  if (format_is_integer(out.format)) {
    // Whole numbers wrap around, others do not; quotients are cut.
    if (function == BinaryFunction::kDivide) return false;
    if (wraps_around(function)) {
      if (!is_short_integer(a.format) || !is_short_integer(b.format) ||
          !is_short_integer(out.format)) {
        return false;
      }
      HWY_DYNAMIC_DISPATCH(binary_words)(function, a, b, out);
      return true;
    }
  }
  HWY_DYNAMIC_DISPATCH(binary_mixed_doubles)(function, a, b, out);
  return true;
}

}  // namespace tessera::arith
#endif  // HWY_ONCE

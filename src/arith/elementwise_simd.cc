// Conversions and element-wise functions on arrays. Which lanes give the contract's bits:
//
//   binary32 lanes   results in f32 from operands of at most f32: each operation is correctly
//                    rounded. f16 from f16, bf16 from bf16: 24 bits are at least twice 11 (8) and
//                    two more, so rounding a sum, product, quotient or root twice changes nothing.
//   binary64 lanes   other algebraic cases: the reference's own steps
//   table            other functions from f16 to f16 and bf16 to bf16; a few of f16 in binary32
//                    lanes, the table where in doubt (half_functions.h)
//   binary64 lanes   exp and its kind with results in f32, or of another format than the operands:
//                    where rounding is not in doubt, else one by one (transcendental.h)
//   binary64 or      integers, bool and f64 among the formats (mixed_formats.h)
//   integer lanes
//   one by one       what is left (power, 64-bit integers)

#include <algorithm>
#include <cstddef>

#include "arith/function.h"
#include "arith/half_functions.h"
#include "arith/mixed_formats.h"
#include "arith/transcendental.h"
#include "arith/vector_ops.h"
#include "base/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/elementwise_simd.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include "arith/elementwise_lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {

// Elements [first, first + count) of an operand; a broadcast one is repeated.
HWY_INLINE void load_operand(const Operand& in, std::size_t first, std::size_t count,
                             float* lanes) {
  if (in.stride != 0) {
    const auto step = static_cast<std::size_t>(format_bytes(in.format));
    load_lanes(in.format, static_cast<const std::uint8_t*>(in.data) + first * step, count, lanes);
    return;
  }
  const F32 df;
  const auto value = hn::Set(df, static_cast<float>(read_element(in.format, in.data)));
  for (std::size_t i = 0; i < count; i += hn::Lanes(df)) hn::Store(value, df, lanes + i);
}

HWY_INLINE void* output_at(const Output& out, std::size_t first) {
  return static_cast<std::uint8_t*>(out.data) +
         first * static_cast<std::size_t>(format_bytes(out.format));
}

void convert_floats(const Operand& in, const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer x;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in, first, count, x.lanes);
    store_lanes(out.format, x.lanes, count, output_at(out, first));
  }
}

void unary_floats(const Activation& activation, const Operand& in, const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer x;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in, first, count, x.lanes);
    algebraic_buffer(F32(), activation, count, x.lanes);
    store_lanes(out.format, x.lanes, count, output_at(out, first));
  }
}

void unary_doubles(const Activation& activation, const Operand& in, const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer x;
  DoubleBuffer wide;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in, first, count, x.lanes);
    widen_lanes(x.lanes, count, wide.lanes);
    algebraic_buffer(F64(), activation, count, wide.lanes);
    narrow_lanes(out.format, wide.lanes, count, x.lanes);
    store_lanes(out.format, x.lanes, count, output_at(out, first));
  }
}

void binary_floats(BinaryFunction function, const Operand& in_a, const Operand& in_b,
                   const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer a;
  FloatBuffer b;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in_a, first, count, a.lanes);
    load_operand(in_b, first, count, b.lanes);
    binary_buffer(F32(), function, count, a.lanes, b.lanes);
    store_lanes(out.format, a.lanes, count, output_at(out, first));
  }
}

void binary_doubles(BinaryFunction function, const Operand& in_a, const Operand& in_b,
                    const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer narrow;
  DoubleBuffer a;
  DoubleBuffer b;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in_a, first, count, narrow.lanes);
    widen_lanes(narrow.lanes, count, a.lanes);
    load_operand(in_b, first, count, narrow.lanes);
    widen_lanes(narrow.lanes, count, b.lanes);
    binary_buffer(F64(), function, count, a.lanes, b.lanes);
    narrow_lanes(out.format, a.lanes, count, narrow.lanes);
    store_lanes(out.format, narrow.lanes, count, output_at(out, first));
  }
}

// ---- the usual functions, in registers from load to store

HWY_INLINE hn::Vec<F32> load_vector(Format format, const std::uint8_t* at) {
  if (format == Format::kF32) return hn::LoadU(F32(), reinterpret_cast<const float*>(at));
  const auto bits = hn::LoadU(U16Half(), reinterpret_cast<const std::uint16_t*>(at));
  return format == Format::kF16 ? float_from_f16(bits) : float_from_bf16(bits);
}

HWY_INLINE void store_vector(Format format, hn::Vec<F32> v, std::uint8_t* at) {
  if (format == Format::kF32) {
    hn::StoreU(canonical_f32(v), F32(), reinterpret_cast<float*>(at));
    return;
  }
  const auto bits = format == Format::kF16 ? f16_from_float(v) : bf16_from_float(v);
  hn::StoreU(bits, U16Half(), reinterpret_cast<std::uint16_t*>(at));
}

// Elements of an operand, a vector at a time; the last, partial one by way of a padded copy.
class VectorReader {
 public:
  explicit VectorReader(const Operand& in)
      : format_(in.format),
        data_(static_cast<const std::uint8_t*>(in.data)),
        step_(in.stride == 0 ? 0 : static_cast<std::size_t>(format_bytes(in.format))),
        repeated_(hn::Zero(F32())) {
    if (step_ == 0) repeated_ = hn::Set(F32(), static_cast<float>(read_element(format_, data_)));
  }
  HWY_INLINE hn::Vec<F32> whole(std::size_t first) const {
    return step_ == 0 ? repeated_ : load_vector(format_, data_ + first * step_);
  }
  HWY_INLINE hn::Vec<F32> part(std::size_t first, std::size_t count) const {
    if (step_ == 0) return repeated_;
    HWY_ALIGN std::uint8_t padded[hn::MaxLanes(F32()) * sizeof(float)] = {};
    std::memcpy(padded, data_ + first * step_, count * step_);
    return load_vector(format_, padded);
  }

 private:
  Format format_;
  const std::uint8_t* data_;
  std::size_t step_;
  hn::Vec<F32> repeated_;
};

// out[i] = f(i-th vector); `f(first, part)` reads `part` elements, all where it is 0.
template <typename F>
HWY_INLINE void stream(const Output& out, F&& f) {
  const std::size_t n = hn::Lanes(F32());
  const auto total = static_cast<std::size_t>(out.count);
  const auto step = static_cast<std::size_t>(format_bytes(out.format));
  auto* target = static_cast<std::uint8_t*>(out.data);
  std::size_t i = 0;
  for (; i + n <= total; i += n) store_vector(out.format, f(i, 0), target + i * step);
  if (i < total) {
    HWY_ALIGN std::uint8_t padded[hn::MaxLanes(F32()) * sizeof(float)];
    store_vector(out.format, f(i, total - i), padded);
    std::memcpy(target + i * step, padded, (total - i) * step);
  }
}

#undef TESSERA_STREAM_DOUBLES
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#define TESSERA_STREAM_DOUBLES 1
// f in binary64 on both halves of a vector, rounded such that storing it in f16 or f32 rounds once.
template <typename F>
HWY_INLINE hn::Vec<F32> in_doubles(Format format, F&& f) {
  const F64 dd;
  const F32Half dh;
  const auto narrow = [&](hn::Vec<F64> v) HWY_ATTR {
    if (format == Format::kF32) return hn::DemoteTo(dh, v);
    const U64 du;  // to odd
    const auto bits = hn::BitCast(du, v);
    const auto lost = hn::And(bits, hn::Set(du, (std::uint64_t{1} << 29) - 1));
    const auto sticky =
        hn::IfThenZeroElse(hn::Eq(lost, hn::Zero(du)), hn::Set(du, std::uint64_t{1} << 29));
    return hn::DemoteTo(dh, hn::BitCast(dd, hn::Or(hn::Sub(bits, lost), sticky)));
  };
  const auto low = narrow(f(false));
  const auto high = narrow(f(true));
  return hn::Combine(F32(), high, low);
}

HWY_INLINE hn::Vec<F64> half_of(hn::Vec<F32> v, bool upper) {
  const F32Half dh;
  return hn::PromoteTo(F64(), upper ? hn::UpperHalf(dh, v) : hn::LowerHalf(dh, v));
}
#else
#define TESSERA_STREAM_DOUBLES 0
#endif

template <UnaryFunction kFunction, bool kWide>
void unary_stream(const Activation& activation, const Operand& in, const Output& out) {
  const VectorReader x(in);
#if TESSERA_STREAM_DOUBLES
  if constexpr (kWide) {
    const F64 dd;
    const auto alpha = hn::Set(dd, static_cast<double>(activation.alpha));
    const auto beta = hn::Set(dd, static_cast<double>(activation.beta));
    return stream(out, [&](std::size_t first, std::size_t part) HWY_ATTR {
      const auto v = part == 0 ? x.whole(first) : x.part(first, part);
      return in_doubles(out.format, [&](bool upper) HWY_ATTR {
        return algebraic_lanes(dd, kFunction, half_of(v, upper), alpha, beta);
      });
    });
  }
#endif
  const F32 df;
  const auto alpha = hn::Set(df, activation.alpha);
  const auto beta = hn::Set(df, activation.beta);
  stream(out, [&](std::size_t first, std::size_t part) HWY_ATTR {
    const auto v = part == 0 ? x.whole(first) : x.part(first, part);
    return algebraic_lanes(df, kFunction, v, alpha, beta);
  });
}

template <BinaryFunction kFunction, bool kWide>
void binary_stream(const Operand& in_a, const Operand& in_b, const Output& out) {
  const VectorReader a(in_a);
  const VectorReader b(in_b);
  stream(out, [&](std::size_t first, std::size_t part) HWY_ATTR {
    const auto x = part == 0 ? a.whole(first) : a.part(first, part);
    const auto y = part == 0 ? b.whole(first) : b.part(first, part);
#if TESSERA_STREAM_DOUBLES
    if constexpr (kWide) {
      return in_doubles(out.format, [&](bool upper) HWY_ATTR {
        return binary_lanes(F64(), kFunction, half_of(x, upper), half_of(y, upper));
      });
    }
#endif
    return binary_lanes(F32(), kFunction, x, y);
  });
}

// False where the function has no stream: it goes through buffers.
template <bool kWide>
HWY_INLINE bool unary_streams(const Activation& activation, const Operand& in, const Output& out) {
  switch (activation.function) {
    case UnaryFunction::kRelu:
      unary_stream<UnaryFunction::kRelu, kWide>(activation, in, out);
      return true;
    case UnaryFunction::kClip:
      unary_stream<UnaryFunction::kClip, kWide>(activation, in, out);
      return true;
    case UnaryFunction::kLeakyRelu:
      unary_stream<UnaryFunction::kLeakyRelu, kWide>(activation, in, out);
      return true;
    case UnaryFunction::kHardSigmoid:
      unary_stream<UnaryFunction::kHardSigmoid, kWide>(activation, in, out);
      return true;
    case UnaryFunction::kHardSwish:
      unary_stream<UnaryFunction::kHardSwish, kWide>(activation, in, out);
      return true;
    default:
      return false;
  }
}

template <bool kWide>
HWY_INLINE bool binary_streams(BinaryFunction function, const Operand& a, const Operand& b,
                               const Output& out) {
  switch (function) {
    case BinaryFunction::kAdd:
      binary_stream<BinaryFunction::kAdd, kWide>(a, b, out);
      return true;
    case BinaryFunction::kSubtract:
      binary_stream<BinaryFunction::kSubtract, kWide>(a, b, out);
      return true;
    case BinaryFunction::kMultiply:
      binary_stream<BinaryFunction::kMultiply, kWide>(a, b, out);
      return true;
    case BinaryFunction::kDivide:
      binary_stream<BinaryFunction::kDivide, kWide>(a, b, out);
      return true;
    default:
      return false;
  }
}

// entries[source[i]]. `entries` may be read up to three bytes behind the last.
HWY_INLINE void look_up_entries(const std::uint16_t* entries, const std::uint16_t* source,
                                std::size_t count, std::uint16_t* target) {
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  // Two bytes too many of each entry; sixteen loads wait for the cache side by side.
  const I32 di;
  const U32 du;
  const U16Half d16;
  const auto* base = reinterpret_cast<const std::int32_t*>(entries);
  for (; i + hn::Lanes(di) <= count; i += hn::Lanes(di)) {
    const auto places =
        hn::BitCast(di, hn::ShiftLeft<1>(hn::PromoteTo(du, hn::LoadU(d16, source + i))));
    const auto found = hn::BitCast(du, hn::GatherOffset(di, base, places));
    hn::StoreU(hn::TruncateTo(d16, found), d16, target + i);
  }
#endif
  for (; i < count; ++i) target[i] = entries[source[i]];
}

void look_up_rows(const std::uint16_t* entries, const HalfRows& rows) {
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    const auto* source = static_cast<const std::byte*>(rows.in) + row * rows.in_pitch;
    auto* target = static_cast<std::byte*>(rows.out) + row * rows.out_pitch;
    look_up_entries(entries, reinterpret_cast<const std::uint16_t*>(source),
                    static_cast<std::size_t>(rows.count), reinterpret_cast<std::uint16_t*>(target));
  }
}

void unary_in_floats(const Activation& activation, const Operand& in, const Output& out) {
  if (!unary_streams<false>(activation, in, out)) unary_floats(activation, in, out);
}

void unary_in_doubles(const Activation& activation, const Operand& in, const Output& out) {
#if TESSERA_STREAM_DOUBLES
  // A bf16 subnormal is rounded on its way through the buffers.
  if (out.format != Format::kBf16 && unary_streams<true>(activation, in, out)) return;
#endif
  unary_doubles(activation, in, out);
}

void binary_in_floats(BinaryFunction function, const Operand& a, const Operand& b,
                      const Output& out) {
  if (!binary_streams<false>(function, a, b, out)) binary_floats(function, a, b, out);
}

void binary_in_doubles(BinaryFunction function, const Operand& a, const Operand& b,
                       const Output& out) {
#if TESSERA_STREAM_DOUBLES
  if (out.format != Format::kBf16 && binary_streams<true>(function, a, b, out)) return;
#endif
  binary_doubles(function, a, b, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(convert_floats);
HWY_EXPORT(unary_in_floats);
HWY_EXPORT(unary_in_doubles);
HWY_EXPORT(look_up_rows);

HWY_EXPORT(binary_in_floats);
HWY_EXPORT(binary_in_doubles);

namespace simd {
namespace {

bool has_lanes(Format format) {
  return format == Format::kF16 || format == Format::kBf16 || format == Format::kF32;
}

// Functions that only choose, move or cut: exact in any lanes.
bool is_exact(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kIdentity:
    case UnaryFunction::kRelu:
    case UnaryFunction::kClip:
    case UnaryFunction::kAbs:
    case UnaryFunction::kNegate:
    case UnaryFunction::kSign:
    case UnaryFunction::kFloor:
    case UnaryFunction::kCeil:
    case UnaryFunction::kRound:
    case UnaryFunction::kThresholdedRelu:
      return true;
    default:
      return false;
  }
}

bool is_exact(BinaryFunction function) {
  switch (function) {
    case BinaryFunction::kMaximum:
    case BinaryFunction::kMinimum:
    case BinaryFunction::kEqual:
    case BinaryFunction::kLess:
    case BinaryFunction::kLessOrEqual:
    case BinaryFunction::kWhen:
    case BinaryFunction::kUnless:
      return true;
    default:
      return false;
  }
}

bool is_one_operation(UnaryFunction function) {
  return function == UnaryFunction::kSquare || function == UnaryFunction::kSquareRoot ||
         function == UnaryFunction::kReciprocal;
}

bool is_algebraic(UnaryFunction function) {
  return unary_row(function).kind != UnaryKind::kTranscendental;
}

void look_up(const UnaryTable& table, const Operand& in, const Output& out) {
  if (in.stride == 0) {
    const auto* source = static_cast<const std::uint16_t*>(in.data);
    std::fill_n(static_cast<std::uint16_t*>(out.data), out.count, table[*source]);
    return;
  }
  HWY_DYNAMIC_DISPATCH(look_up_rows)
  (table.data(), {.in = in.data, .out = out.data, .count = out.count});
}

// f16 or bf16 to itself.
bool is_looked_up(UnaryFunction function, const UnaryTable& table) {
  return !is_algebraic(function) || !table.plain_steps_agree();
}

}  // namespace

void convert(const Operand& in, const Output& out) {
  if (!has_lanes(in.format) || !has_lanes(out.format)) {
    if (!convert_mixed(in, out)) ref::convert(in, out);
    return;
  }
  HWY_DYNAMIC_DISPATCH(convert_floats)(in, out);
}

void unary(const Activation& activation, const Operand& in, const Output& out) {
  const UnaryFunction function = activation.function;
  if (!has_lanes(in.format) || !has_lanes(out.format)) {
    if (!unary_mixed(activation, in, out)) ref::unary(activation, in, out);
    return;
  }
  const bool narrow = in.format == out.format && in.format != Format::kF32;
  const bool leaky = function == UnaryFunction::kLeakyRelu;
  if (is_exact(function) ||
      (is_one_operation(function) && (narrow || out.format == Format::kF32)) ||
      (leaky && out.format == Format::kF32)) {
    HWY_DYNAMIC_DISPATCH(unary_in_floats)(activation, in, out);
    return;
  }
  if (narrow) {
    if (in.format == Format::kF16 && in.stride == 1 &&
        half_function(activation, {.in = in.data, .out = out.data, .count = out.count})) {
      return;
    }
    const UnaryTable& table = unary_table(activation, in.format);
    if (is_looked_up(function, table)) return look_up(table, in, out);
    HWY_DYNAMIC_DISPATCH(unary_in_doubles)(activation, in, out);
    return;
  }
  if (transcendental_lanes(activation, in, out)) return;
  // Mixed narrow formats: hard sigmoid and hard swish are exact to the last bit in the reference.
  if (!is_algebraic(function) ||
      (out.format != Format::kF32 && !leaky && !is_one_operation(function))) {
    return ref::unary(activation, in, out);
  }
  HWY_DYNAMIC_DISPATCH(unary_in_doubles)(activation, in, out);
}

void binary(BinaryFunction function, const Operand& a, const Operand& b, const Output& out) {
  if (!has_lanes(a.format) || !has_lanes(b.format) || !has_lanes(out.format) ||
      function == BinaryFunction::kPower) {
    if (!binary_mixed(function, a, b, out)) ref::binary(function, a, b, out);
    return;
  }
  const bool same = a.format == b.format && b.format == out.format;
  if (out.format == Format::kF32 || same || is_exact(function)) {
    HWY_DYNAMIC_DISPATCH(binary_in_floats)(function, a, b, out);
  } else {
    HWY_DYNAMIC_DISPATCH(binary_in_doubles)(function, a, b, out);
  }
}

}  // namespace simd

void unary_rows(const Activation& activation, const Rows& rows) {
  const HalfRows halves = {.in = rows.data,
                           .in_pitch = rows.pitch,
                           .out = rows.data,
                           .out_pitch = rows.pitch,
                           .rows = rows.rows,
                           .count = rows.count};
  if (rows.format == Format::kF16 && half_function(activation, halves)) return;
  const UnaryFunction function = activation.function;
  if ((rows.format == Format::kF16 || rows.format == Format::kBf16) && !simd::is_exact(function) &&
      !simd::is_one_operation(function)) {
    const UnaryTable& table = unary_table(activation, rows.format);
    if (simd::is_looked_up(function, table)) {
      HWY_DYNAMIC_DISPATCH(look_up_rows)(table.data(), halves);
      return;
    }
  }
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    void* const data = static_cast<std::byte*>(rows.data) + row * rows.pitch;
    simd::unary(activation, {.format = rows.format, .data = data, .stride = 1},
                {.format = rows.format, .data = data, .count = rows.count});
  }
}

}  // namespace tessera::arith
#endif  // HWY_ONCE

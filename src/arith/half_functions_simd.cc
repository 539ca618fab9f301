#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arith/function.h"
#include "arith/half_functions.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/half_functions_simd.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include "arith/vector_lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {

using Floats = hn::Vec<F32>;

#undef TESSERA_HALF_FUNCTIONS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define TESSERA_HALF_FUNCTIONS 1
#else
#define TESSERA_HALF_FUNCTIONS 0  // no fused multiply-add, or too few lanes to be worth it
#endif

#if TESSERA_HALF_FUNCTIONS
// The binary32 results are off by less than this, relatively.
constexpr float kErrorMax = 0x1p-22f;

// out[i] = f(in[i]) for a whole vector; |f(x)| is at most 1 or |x|.
template <typename F>
HWY_INLINE void half_vector(const std::uint16_t* table, const std::uint16_t* in, std::uint16_t* out,
                            F&& f) {
  const F32 df;
  const U16Half dh;
  const hn::Rebind<hwy::float16_t, F32> df16;
  const auto bits = hn::LoadU(dh, in);
  const auto x = float_from_f16(bits);
  const auto y = f(x);
  // Rounding grows with its argument: where both bounds become the same, so does what is between.
  // Bounds of infinities and NaN are different numbers.
  const auto largest = hn::Set(df, 65504.0f);
  const auto below = hn::Max(hn::Mul(y, hn::Set(df, 1.0f - kErrorMax)), hn::Neg(largest));
  const auto above = hn::Min(hn::Mul(y, hn::Set(df, 1.0f + kErrorMax)), largest);
  const auto low = hn::BitCast(dh, hn::DemoteTo(df16, below));
  const auto high = hn::BitCast(dh, hn::DemoteTo(df16, above));
  const auto doubt = hn::Ne(low, high);
  hn::StoreU(low, dh, out);
  if (HWY_LIKELY(hn::AllFalse(dh, doubt))) return;
  HWY_ALIGN std::uint16_t inputs[hn::MaxLanes(dh)];
  hn::Store(bits, dh, inputs);
  std::uint8_t mask[8] = {};
  hn::StoreMaskBits(dh, doubt, mask);
  std::uint64_t left = 0;
  std::memcpy(&left, mask, sizeof left);
  for (; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    out[lane] = table[inputs[lane]];
  }
}

template <typename F>
HWY_INLINE void half_row(const std::uint16_t* table, const std::uint16_t* source,
                         std::uint16_t* target, std::size_t total, F&& f) {
  const std::size_t n = hn::Lanes(F32());
  std::size_t i = 0;
  for (; i + n <= total; i += n) half_vector(table, source + i, target + i, f);
  if (i == total) return;
  HWY_ALIGN std::uint16_t rest[hn::MaxLanes(U16Half())] = {};
  std::memcpy(rest, source + i, (total - i) * sizeof(std::uint16_t));
  half_vector(table, rest, rest, f);
  std::memcpy(target + i, rest, (total - i) * sizeof(std::uint16_t));
}

template <typename F>
HWY_INLINE void half_rows(const UnaryTable& table, const HalfRows& rows, F&& f) {
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    const auto* source = static_cast<const std::byte*>(rows.in) + row * rows.in_pitch;
    auto* target = static_cast<std::byte*>(rows.out) + row * rows.out_pitch;
    half_row(table.data(), reinterpret_cast<const std::uint16_t*>(source),
             reinterpret_cast<std::uint16_t*>(target), static_cast<std::size_t>(rows.count), f);
  }
}

#endif

bool half_function_lanes(const Activation& activation, const UnaryTable& table,
                         const HalfRows& rows) {
#if TESSERA_HALF_FUNCTIONS
  const F32 df;
  const auto alpha = hn::Set(df, activation.alpha), beta = hn::Set(df, activation.beta);
  // One rounding, by a fused multiply-add.
  const auto line = [&](Floats x) HWY_ATTR {
    const auto value = hn::MulAdd(alpha, x, beta);
    return hn::Min(hn::Max(value, hn::Zero(df)), hn::Set(df, 1.0f));
  };
  switch (activation.function) {
    case UnaryFunction::kHardSigmoid:
      // x * 0 makes NaN of infinities and NaN, which the line's bounds would hide.
      half_rows(table, rows,
                [&](Floats x) HWY_ATTR { return hn::MulAdd(x, hn::Zero(df), line(x)); });
      return true;
    case UnaryFunction::kHardSwish:
      half_rows(table, rows, [&](Floats x) HWY_ATTR { return hn::Mul(x, line(x)); });
      return true;
    default:
      return false;
  }
#else
  (void)activation, (void)table, (void)rows;
  return false;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(half_function_lanes);

namespace {

bool has_form(const Activation& activation) {
  switch (activation.function) {
    case UnaryFunction::kHardSigmoid:
    case UnaryFunction::kHardSwish: {
      // What a hard function's line comes to must be far from overflow.
      constexpr float kLineMax = 1e6f;
      return std::fabs(activation.alpha) < kLineMax && std::fabs(activation.beta) < kLineMax;
    }
    default:
      return false;
  }
}

}  // namespace

bool half_function(const Activation& activation, const HalfRows& rows) {
  return has_form(activation) && HWY_DYNAMIC_DISPATCH(half_function_lanes)(
                                     activation, unary_table(activation, Format::kF16), rows);
}

}  // namespace tessera::arith
#endif  // HWY_ONCE

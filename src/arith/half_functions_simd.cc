#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arith/function.h"
#include "arith/half_functions.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/half_functions_simd.cc"
#define HWY_DISABLED_TARGETS HWY_SSSE3
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
  const auto low = hn::BitCast(dh, hn::DemoteTo(df16, hn::Mul(y, hn::Set(df, 1.0f - kErrorMax))));
  const auto high = hn::BitCast(dh, hn::DemoteTo(df16, hn::Mul(y, hn::Set(df, 1.0f + kErrorMax))));
  const auto infinity = hn::Set(dh, std::uint16_t{0x7C00});
  const auto special = hn::Eq(hn::And(bits, infinity), infinity);
  const auto doubt = hn::Or(hn::Ne(low, high), special);
  if (HWY_LIKELY(hn::AllFalse(dh, doubt))) return hn::StoreU(low, dh, out);
  HWY_ALIGN std::uint16_t inputs[hn::MaxLanes(dh)];
  HWY_ALIGN std::uint16_t results[hn::MaxLanes(dh)];
  HWY_ALIGN std::uint16_t doubts[hn::MaxLanes(dh)];
  hn::Store(bits, dh, inputs);
  hn::Store(low, dh, results);
  hn::Store(hn::VecFromMask(dh, doubt), dh, doubts);
  for (std::size_t i = 0; i < hn::Lanes(df); ++i) {
    if (doubts[i] != 0) results[i] = table[inputs[i]];
  }
  hn::StoreU(hn::Load(dh, results), dh, out);
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
      half_rows(table, rows, line);
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

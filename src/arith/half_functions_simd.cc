#include <cmath>
#include <cstddef>
#include <cstring>

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
// Lanes whose rounding to f16 is in doubt: near a tie, subnormal, not finite.
HWY_INLINE hn::Mask<F32> doubtful(Floats x, Floats y) {
  const F32 df;
  const U32 du;
  const I32 di;
  constexpr std::int32_t kDropped = 0x1FFF, kTie = 0x1000;  // of the bits that f16 has not
  constexpr std::int32_t kUnits = 4;                        // twice what a result may be off
  constexpr std::uint32_t kNormal = 0x38800000;             // bits of 2^-14
  const auto dropped = hn::And(hn::BitCast(di, y), hn::Set(di, kDropped));
  const auto distance = hn::Abs(hn::Sub(dropped, hn::Set(di, kTie)));
  const auto near_tie = hn::RebindMask(df, hn::Lt(distance, hn::Set(di, kUnits + 1)));
  // Zero wraps around: it is not in doubt.
  const auto below = hn::Sub(hn::BitCast(du, hn::Abs(y)), hn::Set(du, 1u));
  const auto subnormal = hn::RebindMask(df, hn::Lt(below, hn::Set(du, kNormal - 1)));
  const auto finite = hn::Le(hn::Abs(x), hn::Set(df, 65504.0f));
  return hn::Or(hn::Or(near_tie, subnormal), hn::Not(finite));
}

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
  const auto doubt = doubtful(x, y);
  const auto result = hn::BitCast(dh, hn::DemoteTo(df16, y));
  if (HWY_LIKELY(hn::AllFalse(df, doubt))) return hn::StoreU(result, dh, out);
  HWY_ALIGN std::uint16_t inputs[hn::MaxLanes(dh)];
  HWY_ALIGN std::uint16_t results[hn::MaxLanes(dh)];
  HWY_ALIGN std::uint32_t doubts[hn::MaxLanes(df)];
  hn::Store(bits, dh, inputs);
  hn::Store(result, dh, results);
  hn::Store(hn::VecFromMask(U32(), hn::RebindMask(U32(), doubt)), U32(), doubts);
  for (std::size_t i = 0; i < hn::Lanes(df); ++i) {
    if (doubts[i] != 0) results[i] = table[inputs[i]];
  }
  hn::StoreU(hn::Load(dh, results), dh, out);
}

template <typename F>
HWY_INLINE void half_array(const UnaryTable& table, const Operand& in, const Output& out, F&& f) {
  const std::size_t n = hn::Lanes(F32());
  const auto total = static_cast<std::size_t>(out.count);
  const auto* source = static_cast<const std::uint16_t*>(in.data);
  auto* target = static_cast<std::uint16_t*>(out.data);
  std::size_t i = 0;
  for (; i + n <= total; i += n) half_vector(table.data(), source + i, target + i, f);
  if (i == total) return;
  HWY_ALIGN std::uint16_t rest[hn::MaxLanes(U16Half())] = {};
  std::memcpy(rest, source + i, (total - i) * sizeof(std::uint16_t));
  half_vector(table.data(), rest, rest, f);
  std::memcpy(target + i, rest, (total - i) * sizeof(std::uint16_t));
}

#endif

bool half_function_lanes(const Activation& activation, const UnaryTable& table, const Operand& in,
                         const Output& out) {
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
      half_array(table, in, out, line);
      return true;
    case UnaryFunction::kHardSwish:
      half_array(table, in, out, [&](Floats x) HWY_ATTR { return hn::Mul(x, line(x)); });
      return true;
    default:
      return false;
  }
#else
  (void)activation, (void)table, (void)in, (void)out;
  return false;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(half_function_lanes);

bool half_function(const Activation& activation, const UnaryTable& table, const Operand& in,
                   const Output& out) {
  // What a hard function's line comes to must be far from overflow.
  constexpr float kLineMax = 1e6f;
  const bool usual =
      std::fabs(activation.alpha) < kLineMax && std::fabs(activation.beta) < kLineMax;
  return usual && HWY_DYNAMIC_DISPATCH(half_function_lanes)(activation, table, in, out);
}

}  // namespace tessera::arith
#endif  // HWY_ONCE

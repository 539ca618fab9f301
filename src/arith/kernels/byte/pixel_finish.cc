#include "arith/kernels/byte/pixel_finish.h"

#include <cstring>

#include "arith/kernels/panel.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/byte/pixel_finish.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
HWY_INLINE void pixel_bytes_as(const BytePixelFinish& finish, std::byte* const* outs) {
  const hn::ScalableTag<float> df;
  const hn::ScalableTag<std::int32_t> di;
  const hn::Rebind<T, hn::ScalableTag<std::int32_t>> db;
  const auto shift = hn::Set(di, finish.output_zero_point);
  // Bounds are whole numbers, so they may come before the rounding.
  const auto lowest = hn::Set(df, static_cast<float>(finish.lowest - finish.output_zero_point));
  const auto highest = hn::Set(df, static_cast<float>(finish.highest - finish.output_zero_point));
  const auto n = static_cast<std::int64_t>(hn::Lanes(di));
  HWY_ALIGN T row[kPanelPixels];
  for (std::int64_t c = 0; c < finish.channels; ++c) {
    const auto offset = hn::Set(di, finish.offsets[c]);
    const auto multiplier = hn::Set(df, finish.multipliers[c]);
    const std::int32_t* const sums = finish.sums + c * kPanelPixels;
    const bool whole = finish.pixels == kPanelPixels;
    T* const out = whole ? reinterpret_cast<T*>(outs[c]) : row;
    for (std::int64_t i = 0; i < finish.pixels; i += n) {
      const auto sum = hn::Add(hn::LoadU(di, sums + i), offset);
      const auto scaled = hn::Mul(hn::ConvertTo(df, sum), multiplier);
      const auto number = hn::IfThenElse(hn::IsNaN(scaled), hn::Zero(df), scaled);
      const auto bounded = hn::Min(hn::Max(number, lowest), highest);
      hn::StoreU(hn::DemoteTo(db, hn::Add(hn::NearestInt(bounded), shift)), db, out + i);
    }
    if (!whole) std::memcpy(outs[c], row, static_cast<std::size_t>(finish.pixels));
  }
}

void pixel_bytes(const BytePixelFinish& finish, std::byte* const* outs) {
  finish.to_unsigned ? pixel_bytes_as<std::uint8_t>(finish, outs)
                     : pixel_bytes_as<std::int8_t>(finish, outs);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

HWY_EXPORT(pixel_bytes);

void finish_pixel_bytes(const BytePixelFinish& finish, std::byte* const* outs) {
  HWY_DYNAMIC_DISPATCH(pixel_bytes)(finish, outs);
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE

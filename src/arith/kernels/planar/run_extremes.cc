#include "arith/kernels/planar/run_extremes.h"

#include <algorithm>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/planar/run_extremes.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename Key>
Key largest_of(const Key* bits, std::int64_t count, const KeyOrder<Key>& order) {
  using Order = KeyOrder<Key>;
  const hn::ScalableTag<Key> d;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const auto mask = hn::Set(d, Order::kNan);
  const auto flip = hn::Set(d, order.flip);
  const auto infinity = hn::Set(d, order.infinity);
  const auto keys = [&](std::int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, bits + i);
    const auto turned = hn::Xor(v, hn::And(hn::BroadcastSignBit(v), mask));
    return hn::IfThenElse(hn::Gt(hn::And(v, mask), infinity), mask, hn::Xor(turned, flip));
  };
  Key best = Order::kLowest;
  std::int64_t i = 0;
  if (count >= n) {
    auto first = keys(0);
    auto second = first;
    for (i = n; i + 2 * n <= count; i += 2 * n) {
      first = hn::Max(first, keys(i));
      second = hn::Max(second, keys(i + n));
    }
    // The last whole vector may take elements that another one has taken.
    if (i < count) first = hn::Max(first, keys(count - n));
    if (i + n < count) first = hn::Max(first, keys(i));
    HWY_ALIGN Key lanes[hn::MaxLanes(d)];
    hn::Store(hn::Max(first, second), d, lanes);
    return *std::max_element(lanes, lanes + n);
  }
  for (; i < count; ++i) best = std::max(best, order.key_of(bits[i]));
  return best;
}

std::int16_t largest_of_16(const std::int16_t* bits, std::int64_t count,
                           const KeyOrder<std::int16_t>& order) {
  return largest_of(bits, count, order);
}
std::int32_t largest_of_32(const std::int32_t* bits, std::int64_t count,
                           const KeyOrder<std::int32_t>& order) {
  return largest_of(bits, count, order);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

HWY_EXPORT(largest_of_16);
HWY_EXPORT(largest_of_32);

std::int16_t largest_key(const std::int16_t* bits, std::int64_t count,
                         const KeyOrder<std::int16_t>& order) {
  return HWY_DYNAMIC_DISPATCH(largest_of_16)(bits, count, order);
}
std::int32_t largest_key(const std::int32_t* bits, std::int64_t count,
                         const KeyOrder<std::int32_t>& order) {
  return HWY_DYNAMIC_DISPATCH(largest_of_32)(bits, count, order);
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE

// The largest of float elements that lie behind each other, as integers of the same order: a NaN is
// above all, and -0 lies below +0. The smallest is the largest of the opposite order.
//
//   bits ─► key: sign bit set? other bits turned over ─► flip for minima ─► largest
#pragma once

#include <cstdint>
#include <limits>

namespace tessera::kernels {

// Key is std::int16_t (f16, bf16) or std::int32_t (f32).
template <typename Key>
struct KeyOrder {
  Key infinity = 0;  // its bits
  Key flip = 0;      // -1: the smallest element has the largest key

  // No number has this key: the one it would belong to is a NaN.
  static constexpr Key kNan = std::numeric_limits<Key>::max();
  static constexpr Key kLowest = std::numeric_limits<Key>::min();
  static constexpr int kSignShift = std::numeric_limits<Key>::digits;

  Key key_of(Key bits) const {
    if (static_cast<Key>(bits & kNan) > infinity) return kNan;
    return static_cast<Key>(turned(bits) ^ flip);
  }
  Key bits_of(Key key) const { return turned(static_cast<Key>(key ^ flip)); }

 private:
  static Key turned(Key bits) { return static_cast<Key>(bits ^ ((bits >> kSignShift) & kNan)); }
};

// The largest key of `count` elements; kLowest of none.
std::int16_t largest_key(const std::int16_t* bits, std::int64_t count,
                         const KeyOrder<std::int16_t>& order);
std::int32_t largest_key(const std::int32_t* bits, std::int64_t count,
                         const KeyOrder<std::int32_t>& order);

}  // namespace tessera::kernels

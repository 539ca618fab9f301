// A fraction that scales integers exactly.
#pragma once

#include <cstdint>
#include <numeric>

namespace tessera {

// numerator / denominator, both positive, reduced. Values are not negative, and results fit 64 bits.
class Ratio {
 public:
  constexpr Ratio(std::int64_t numerator, std::int64_t denominator)
      : numerator_(numerator / std::gcd(numerator, denominator)),
        denominator_(denominator / std::gcd(numerator, denominator)) {}

  constexpr std::int64_t numerator() const { return numerator_; }
  constexpr std::int64_t denominator() const { return denominator_; }
  constexpr Ratio inverse() const {
    Ratio other = *this;
    other.numerator_ = denominator_;
    other.denominator_ = numerator_;
    return other;
  }
  constexpr double value() const {
    return static_cast<double>(numerator_) / static_cast<double>(denominator_);
  }

  // value * ratio, rounded down or up.
  constexpr std::int64_t floor_of(std::int64_t value) const { return scaled(value, 0); }
  constexpr std::int64_t ceil_of(std::int64_t value) const {
    return scaled(value, denominator_ - 1);
  }

 private:
  constexpr std::int64_t scaled(std::int64_t value, std::int64_t add) const {
    std::int64_t product = 0;
    if (!__builtin_mul_overflow(value, numerator_, &product) &&
        !__builtin_add_overflow(product, add, &product)) {
      return product / denominator_;
    }
    __extension__ using Wide = __int128;
    return static_cast<std::int64_t>((static_cast<Wide>(value) * numerator_ + add) / denominator_);
  }

  std::int64_t numerator_, denominator_;
};

}  // namespace tessera

// How long things took: counts in buckets that grow with the value, 64 for each doubling. A
// percentile is the middle of its bucket, so it is off by at most 1/128 of its value (0.8 %); below
// 128 it is exact. Count, least, largest and mean are exact.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::metrics {

// What a histogram gives; all zero where nothing was counted.
struct Distribution {
  std::int64_t count = 0;
  std::int64_t min = 0;
  double mean = 0;
  std::int64_t median = 0;
  std::int64_t p90 = 0, p95 = 0, p99 = 0;
  std::int64_t max = 0;
};

class Histogram {
 public:
  void add(std::int64_t value) {
    value = value < 0 ? 0 : value;
    const std::size_t bucket = bucket_of(value);
    if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
    ++buckets_[bucket];
    min_ = count_ == 0 || value < min_ ? value : min_;
    max_ = value > max_ ? value : max_;
    sum_ += static_cast<double>(value);
    ++count_;
  }
  void add(const Histogram& other);
  void clear();

  std::int64_t count() const { return count_; }
  double sum() const { return sum_; }
  // The least value that at least `share` of all are not above, to a bucket; 0 where there are
  // none.
  std::int64_t percentile(double share) const;
  Distribution distribution() const;

 private:
  static constexpr int kBits = 6;  // 2^6 buckets for each doubling
  // Values below 2^(kBits+1) have a bucket each; above, the leading kBits + 1 bits choose it.
  static std::size_t bucket_of(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    const int width = std::bit_width(bits);
    const int shift = width > kBits + 1 ? width - (kBits + 1) : 0;
    return (static_cast<std::size_t>(shift) << kBits) + (bits >> shift);
  }
  static std::int64_t middle_of(std::size_t bucket);

  std::vector<std::int64_t> buckets_;  // as long as the largest value needs
  std::int64_t count_ = 0;
  std::int64_t min_ = 0;
  std::int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace tessera::metrics

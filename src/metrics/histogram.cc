#include "metrics/histogram.h"

#include <algorithm>
#include <cmath>

namespace tessera::metrics {

std::int64_t Histogram::middle_of(std::size_t bucket) {
  constexpr std::size_t kExact = std::size_t{2} << kBits;
  if (bucket < kExact) return static_cast<std::int64_t>(bucket);
  const std::size_t shift = (bucket >> kBits) - 1;
  const std::size_t leading = bucket - (shift << kBits);
  return static_cast<std::int64_t>((leading << shift) + ((std::size_t{1} << shift) >> 1));
}

void Histogram::add(const Histogram& other) {
  if (other.count_ == 0) return;
  if (other.buckets_.size() > buckets_.size()) buckets_.resize(other.buckets_.size());
  for (std::size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

void Histogram::clear() { *this = {}; }

std::int64_t Histogram::percentile(double share) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(share * static_cast<double>(count_));
  const auto rank = std::clamp<std::int64_t>(static_cast<std::int64_t>(wanted), 1, count_);
  std::int64_t seen = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) return std::clamp(middle_of(bucket), min_, max_);
  }
  return max_;
}

Distribution Histogram::distribution() const {
  if (count_ == 0) return {};
  return {.count = count_,
          .min = min_,
          .mean = sum_ / static_cast<double>(count_),
          .median = percentile(0.5),
          .p90 = percentile(0.9),
          .p95 = percentile(0.95),
          .p99 = percentile(0.99),
          .max = max_};
}

}  // namespace tessera::metrics

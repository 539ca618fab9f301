// A set of byte positions as few intervals [first, last), ascending and apart from each other.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::memory {

struct Interval {
  std::int64_t first = 0, last = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

class IntervalSet {
 public:
  void add(Interval interval);
  void remove(Interval interval);
  // What of the set lies in `range`, cut to it.
  std::vector<Interval> inside(Interval range) const;
  bool empty() const { return intervals_.empty(); }
  const std::vector<Interval>& intervals() const { return intervals_; }

 private:
  std::vector<Interval> intervals_;
};

}  // namespace tessera::memory

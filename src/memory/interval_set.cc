#include "memory/interval_set.h"

#include <algorithm>

namespace tessera::memory {

void IntervalSet::add(Interval interval) {
  if (interval.first >= interval.last) return;
  // Those that touch or overlap become one with it.
  const auto begin =
      std::lower_bound(intervals_.begin(), intervals_.end(), interval.first,
                       [](const Interval& i, std::int64_t first) { return i.last < first; });
  auto end = begin;
  while (end != intervals_.end() && end->first <= interval.last) {
    interval.first = std::min(interval.first, end->first);
    interval.last = std::max(interval.last, end->last);
    ++end;
  }
  intervals_.insert(intervals_.erase(begin, end), interval);
}

void IntervalSet::remove(Interval interval) {
  if (interval.first >= interval.last) return;
  const auto begin =
      std::lower_bound(intervals_.begin(), intervals_.end(), interval.first,
                       [](const Interval& i, std::int64_t first) { return i.last <= first; });
  auto end = begin;
  std::vector<Interval> rest;
  for (; end != intervals_.end() && end->first < interval.last; ++end) {
    if (end->first < interval.first) rest.push_back({end->first, interval.first});
    if (end->last > interval.last) rest.push_back({interval.last, end->last});
  }
  const auto at = intervals_.erase(begin, end);
  intervals_.insert(at, rest.begin(), rest.end());
}

std::vector<Interval> IntervalSet::inside(Interval range) const {
  std::vector<Interval> found;
  auto at = std::lower_bound(intervals_.begin(), intervals_.end(), range.first,
                             [](const Interval& i, std::int64_t first) { return i.last <= first; });
  for (; at != intervals_.end() && at->first < range.last; ++at) {
    found.push_back({std::max(at->first, range.first), std::min(at->last, range.last)});
  }
  return found;
}

}  // namespace tessera::memory

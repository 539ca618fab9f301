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

// Where there is no memory, nothing has changed.
void IntervalSet::remove(Interval interval) {
  if (interval.first >= interval.last) return;
  const auto begin =
      std::lower_bound(intervals_.begin(), intervals_.end(), interval.first,
                       [](const Interval& i, std::int64_t first) { return i.last <= first; });
  auto end = begin;
  while (end != intervals_.end() && end->first < interval.last) ++end;
  if (begin == end) return;
  const Interval before{begin->first, interval.first};
  const Interval after{interval.last, std::prev(end)->last};
  if (before.first < before.last && after.first < after.last && end - begin == 1) {
    // One is cut in two.
    const auto second = intervals_.insert(end, after);
    *std::prev(second) = before;
    return;
  }
  auto rest = begin;
  if (before.first < before.last) *rest++ = before;
  if (after.first < after.last) *rest++ = after;
  intervals_.erase(rest, end);
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

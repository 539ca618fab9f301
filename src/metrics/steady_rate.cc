#include "metrics/steady_rate.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tessera::metrics {
namespace {

constexpr std::int64_t kWindowNs = 1'000'000'000;
constexpr int kPeriods = 3;

using Index = std::int64_t;  // of a bin

// The result of the newest bins of a row.
struct Batches {
  Index longest_gap = 0;  // from one bin with something to the next
  Index first_end = 0;    // bins in which the first and the last whole batch end
  Index last_end = 0;
  std::int64_t between = 0;     // counted after first_end, up to last_end
  int periods = 0;              // batches after the first one
  Index lead = 0, silence = 0;  // bins with nothing at the beginning and the end of the row

  // Three whole periods, and nothing at the beginning that was longer.
  bool whole() const { return periods >= kPeriods && lead < 2 * longest_gap; }
  bool goes_on() const { return silence < 2 * longest_gap; }
};

Index longest_gap(std::span<const std::int32_t> counts) {
  Index longest = 0, before = -1;
  for (Index i = 0; i < std::ssize(counts); ++i) {
    if (counts[static_cast<std::size_t>(i)] == 0) continue;
    if (before >= 0) longest = std::max(longest, i - before);
    before = i;
  }
  return longest;
}

// Nothing where there are fewer than two batches.
std::optional<Batches> batches_in(std::span<const std::int32_t> counts) {
  Batches batches;
  batches.longest_gap = longest_gap(counts);
  if (batches.longest_gap == 0) return {};
  const Index between = (batches.longest_gap + 1) / 2;  // the least gap between two batches
  Index newest = -1;                                    // bin with something
  std::int64_t since = 0;                               // counted since the last end
  bool begun = false;
  // The end of the row ends a batch if the silence there is long enough.
  for (Index i = 0; i <= std::ssize(counts); ++i) {
    const std::int32_t count = i < std::ssize(counts) ? counts[static_cast<std::size_t>(i)] : 1;
    if (count == 0) continue;
    if (newest >= 0 && i - newest >= between) {
      if (begun) {
        batches.between += since;
        ++batches.periods;
      } else {
        batches.first_end = newest;
      }
      batches.last_end = newest;
      begun = true;
      since = 0;
    }
    since += count;
    newest = i;
  }
  if (batches.periods == 0) return {};
  const auto something = [](std::int32_t count) { return count != 0; };
  batches.lead = std::find_if(counts.begin(), counts.end(), something) - counts.begin();
  batches.silence = std::find_if(counts.rbegin(), counts.rend(), something) - counts.rbegin();
  return batches;
}

SteadyRate rate_of(const Batches& batches, std::int64_t bin_ns) {
  SteadyRate rate = {.periods = batches.periods, .settled = batches.whole() && batches.goes_on()};
  if (batches.silence > std::max(3 * batches.longest_gap, kWindowNs / bin_ns)) return rate;
  const Index bins = batches.last_end - batches.first_end +
                     std::max<Index>(batches.silence - batches.longest_gap, 0);
  rate.per_second = static_cast<double>(batches.between) * 1e9 / static_cast<double>(bins * bin_ns);
  return rate;
}

}  // namespace

SteadyRate steady_rate(std::span<const std::int32_t> counts, std::int64_t bin_ns) {
  const Index length = std::ssize(counts);
  if (length == 0) return {};
  // `near`: as far back as gaps are alike. Longer gaps before are pauses, which belong to another
  // time, unless there are two periods of them: then what is near is one batch of these.
  std::optional<Batches> near, all;
  for (Index window = std::max<Index>(kWindowNs / bin_ns, 1);; window *= 2) {
    window = std::min(window, length);
    all = batches_in(counts.last(static_cast<std::size_t>(window)));
    if (all && all->whole() && all->goes_on()) return rate_of(*all, bin_ns);
    const bool alike = all && near && all->longest_gap < 2 * near->longest_gap;
    if (!near || (alike && !near->whole())) near = all;
    if (window == length) break;
  }
  if (all && all->periods >= 2 && all->goes_on()) return rate_of(*all, bin_ns);
  if (near) return rate_of(*near, bin_ns);
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return {.per_second = static_cast<double>(sum) * 1e9 / static_cast<double>(length * bin_ns)};
}

}  // namespace tessera::metrics

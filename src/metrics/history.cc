#include "metrics/history.h"

#include <algorithm>

namespace tessera::metrics {

void Bin::add(const Bin& other) {
  busy_ns += other.busy_ns;
  in_ns += other.in_ns;
  out_ns += other.out_ns;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  count += other.count;
  depth_max = std::max(depth_max, other.depth_max);
}

std::int64_t BinSeries::bin_ns(int level) {
  std::int64_t width = kFinestBinNs;
  for (int i = 0; i < level; ++i) width *= kWidening;
  return width;
}

// Null where the level has passed that bin already.
Bin* BinSeries::place(Level& level, std::int64_t index) {
  if (index <= level.newest - kBinsOfLevel) return nullptr;
  const auto needed = static_cast<std::size_t>(std::min(index + 1, kBinsOfLevel));
  if (level.bins.size() < needed) level.bins.resize(needed);
  // Bins between the newest and this one are taken from those that are too old now.
  const std::int64_t first_new = std::max(level.newest + 1, index - kBinsOfLevel + 1);
  for (std::int64_t i = first_new; i <= index; ++i) {
    level.bins[static_cast<std::size_t>(i % kBinsOfLevel)] = {};
  }
  level.newest = std::max(level.newest, index);
  return &level.bins[static_cast<std::size_t>(index % kBinsOfLevel)];
}

void BinSeries::add_duration(const Event& event, std::int64_t Bin::* busy) {
  const std::int64_t begin = std::max<std::int64_t>(event.begin_ns, 0);
  for (int i = 0; i < kLevels; ++i) {
    const std::int64_t width = bin_ns(i);
    const std::int64_t last = event.end_ns / width;
    for (std::int64_t index = std::max(begin / width, last - kBinsOfLevel + 1); index <= last;
         ++index) {
      const std::int64_t from = std::max(begin, index * width);
      const std::int64_t to = std::min(event.end_ns, (index + 1) * width);
      if (Bin* bin = place(levels_[static_cast<std::size_t>(i)], index)) bin->*busy += to - from;
    }
  }
}

void BinSeries::add(const Event& event) {
  Bin counted;
  switch (event.kind) {
    case EventKind::kStageRun:
    case EventKind::kKernelRun:
      counted.count = 1;
      add_duration(event, &Bin::busy_ns);
      break;
    case EventKind::kTransferIn:
      counted.bytes_in = event.value;
      add_duration(event, &Bin::in_ns);
      break;
    case EventKind::kTransferOut:
      counted.bytes_out = event.value;
      add_duration(event, &Bin::out_ns);
      break;
    case EventKind::kQueueDepth:
      counted.depth_max = static_cast<std::int32_t>(event.value);
      break;
    case EventKind::kTaskCompleted:
      counted.count = 1;
      break;
    case EventKind::kTaskSubmitted:
    case EventKind::kControlChange:
    case EventKind::kFault:
      return;
  }
  const bool at_end = event.kind == EventKind::kTaskCompleted;
  const std::int64_t at = std::max<std::int64_t>(at_end ? event.end_ns : event.begin_ns, 0);
  for (int i = 0; i < kLevels; ++i) {
    if (Bin* bin = place(levels_[static_cast<std::size_t>(i)], at / bin_ns(i))) bin->add(counted);
  }
}

Bin BinSeries::at(int level, std::int64_t index) const {
  const Level& kept = levels_[static_cast<std::size_t>(level)];
  if (index < 0 || index > kept.newest || index <= kept.newest - kBinsOfLevel) return {};
  return kept.bins[static_cast<std::size_t>(index % kBinsOfLevel)];
}

int BinSeries::level_with(std::int64_t ns) const {
  for (int i = 0; i < kLevels - 1; ++i) {
    const Level& level = levels_[static_cast<std::size_t>(i)];
    if (ns / bin_ns(i) > level.newest - kBinsOfLevel) return i;
  }
  return kLevels - 1;
}

Bin BinSeries::sum(TimeSpan span) const {
  Bin total;
  const std::int64_t end = span.to_ns / kFinestBinNs;
  for (std::int64_t i = (span.from_ns + kFinestBinNs - 1) / kFinestBinNs; i < end; ++i) {
    total.add(at(0, i));
  }
  return total;
}

void RecentEvents::add(const Event& event) {
  if (events_.size() < kept_max_) {
    events_.push_back(event);
  } else {
    Event& oldest = events_[next_ % kept_max_];
    complete_since_ns_ = std::max(complete_since_ns_, oldest.end_ns);
    oldest = event;
  }
  ++next_;
}

}  // namespace tessera::metrics

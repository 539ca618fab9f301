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

std::int64_t BinSeries::bin_ns(int level) { return kFinestBinNs << (kWideningBits * level); }

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

// What an event adds to the bin in which it begins, its duration apart.
Bin BinSeries::counted(const Event& event) {
  Bin bin;
  switch (event.kind) {
    case EventKind::kStageRun:
    case EventKind::kKernelRun:
    case EventKind::kTaskCompleted:
      bin.count = 1;
      break;
    case EventKind::kTransferIn:
      bin.bytes_in = event.value;
      break;
    case EventKind::kTransferOut:
      bin.bytes_out = event.value;
      break;
    case EventKind::kQueueDepth:
      bin.depth_max = static_cast<std::int32_t>(event.value);
      break;
    case EventKind::kTaskSubmitted:
    case EventKind::kControlChange:
    case EventKind::kFault:
      break;
  }
  return bin;
}

// The field that a duration of this kind adds to, or null.
std::int64_t Bin::* BinSeries::busy_field(EventKind kind) {
  if (kind == EventKind::kStageRun || kind == EventKind::kKernelRun) return &Bin::busy_ns;
  if (kind == EventKind::kTransferIn) return &Bin::in_ns;
  return kind == EventKind::kTransferOut ? &Bin::out_ns : nullptr;
}

void BinSeries::add(const Event& event) {
  if (event.kind == EventKind::kTaskSubmitted || event.kind == EventKind::kControlChange ||
      event.kind == EventKind::kFault) {
    return;
  }
  const bool at_end = event.kind == EventKind::kTaskCompleted;
  const std::int64_t begin = std::max<std::int64_t>(at_end ? event.end_ns : event.begin_ns, 0);
  const std::int64_t end = std::max(event.end_ns, begin);
  std::int64_t Bin::* const busy = busy_field(event.kind);
  const std::int64_t first = begin / kFinestBinNs;
  if (first != open_index_) close_bin(first);
  open_.add(counted(event));
  if (busy == nullptr) return;
  if (end < (first + 1) * kFinestBinNs) {
    open_.*busy += end - begin;
    return;
  }
  for (int i = 0; i < kLevels; ++i) add_duration(i, {.from_ns = begin, .to_ns = end}, busy);
}

// Most events fall into the same finest bin as the one before: they are added up in `open_`, and go
// to all levels together.
void BinSeries::close_bin(std::int64_t next) {
  for (int i = 0; i < kLevels && open_index_ >= 0; ++i) {
    Level& level = levels_[static_cast<std::size_t>(i)];
    if (Bin* bin = place(level, open_index_ >> (kWideningBits * i))) bin->add(open_);
  }
  open_ = {};
  open_index_ = next;
}

void BinSeries::add_duration(int level, TimeSpan span, std::int64_t Bin::* busy) {
  const std::int64_t width = bin_ns(level);
  const std::int64_t last = span.to_ns / width;
  for (std::int64_t i = std::max(span.from_ns / width, last - kBinsOfLevel + 1); i <= last; ++i) {
    const std::int64_t from = std::max(span.from_ns, i * width);
    const std::int64_t to = std::min(span.to_ns, (i + 1) * width);
    if (Bin* bin = place(levels_[static_cast<std::size_t>(level)], i)) bin->*busy += to - from;
  }
}

Bin BinSeries::at(int level, std::int64_t index) const {
  const Level& kept = levels_[static_cast<std::size_t>(level)];
  Bin bin;
  if (index < 0 || index <= newest_of(level) - kBinsOfLevel) return bin;
  if (index <= kept.newest && index > kept.newest - kBinsOfLevel) {
    bin = kept.bins[static_cast<std::size_t>(index % kBinsOfLevel)];
  }
  if (open_index_ >= 0 && index == open_index_ >> (kWideningBits * level)) bin.add(open_);
  return bin;
}

std::int64_t BinSeries::newest_of(int level) const {
  const std::int64_t open = open_index_ < 0 ? -1 : open_index_ >> (kWideningBits * level);
  return std::max(levels_[static_cast<std::size_t>(level)].newest, open);
}

int BinSeries::level_with(std::int64_t ns) const {
  for (int i = 0; i < kLevels - 1; ++i) {
    if (ns / bin_ns(i) > newest_of(i) - kBinsOfLevel) return i;
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

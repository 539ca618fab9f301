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
  if (other.count > 0) depth_last = other.depth_last;
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

void BinSeries::add(const Event& event) {
  const std::int64_t begin = std::max<std::int64_t>(event.begin_ns, 0);
  const std::int64_t end = std::max(event.end_ns, begin);
  const std::int64_t last = end / kFinestBinNs;
  std::int64_t Bin::* busy = nullptr;  // the field that the duration adds to
  switch (event.kind) {
    case EventKind::kTaskSubmitted:
    case EventKind::kControlChange:
    case EventKind::kFault:
      return;
    case EventKind::kTaskCompleted:
      ++open(last).count;
      return;
    case EventKind::kQueueDepth:
      return add_depth(event);
    case EventKind::kStageRun:
    case EventKind::kKernelRun:
      ++open(last).count;
      busy = &Bin::busy_ns;
      break;
    case EventKind::kTransferIn:
      open(last).bytes_in += event.value;
      busy = &Bin::in_ns;
      break;
    case EventKind::kTransferOut:
      open(last).bytes_out += event.value;
      busy = &Bin::out_ns;
      break;
  }
  if (begin >= last * kFinestBinNs) {
    open_.*busy += end - begin;
    return;
  }
  for (int i = 0; i < kLevels; ++i) add_duration(i, {.from_ns = begin, .to_ns = end}, busy);
}

// Depths of several threads do not come in the order of their times: an older one is no news.
void BinSeries::add_depth(const Event& event) {
  const std::int64_t at = std::max<std::int64_t>(event.end_ns, 0);
  const auto depth = static_cast<std::int32_t>(event.value);
  Bin& bin = open(std::max(at, depth_at_ns_) / kFinestBinNs);
  ++bin.count;
  bin.depth_max = std::max(bin.depth_max, depth);
  if (at < depth_at_ns_) return;
  depth_at_ns_ = at;
  bin.depth_last = depth;
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

std::int32_t BinSeries::depth_before(int level, std::int64_t index) const {
  // Wider bins reach further back; one that holds `index` too says nothing about before.
  for (int wider = level; wider < kLevels; ++wider) {
    const int shift = kWideningBits * (wider - level);
    const std::int64_t newest = newest_of(wider);
    const std::int64_t oldest = newest - kBinsOfLevel;
    for (std::int64_t i = std::min((index >> shift) - 1, newest); i >= 0 && i > oldest; --i) {
      const Bin bin = at(wider, i);
      if (bin.count > 0) return bin.depth_last;
    }
  }
  return 0;
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

void RecentEvents::add(std::span<const Event> events) {
  next_ += events.size();
  while (!events.empty()) {
    const bool growing = events_.size() < kept_max_;
    const std::size_t room = growing ? kept_max_ - events_.size() : kept_max_ - place_;
    const std::span<const Event> now = events.first(std::min(events.size(), room));
    events = events.subspan(now.size());
    if (growing) {
      events_.insert(events_.end(), now.begin(), now.end());
      continue;
    }
    Event* const oldest = &events_[place_];
    for (std::size_t i = 0; i < now.size(); ++i) {
      complete_since_ns_ = std::max(complete_since_ns_, oldest[i].end_ns);
    }
    std::copy(now.begin(), now.end(), oldest);
    place_ = (place_ + now.size()) % kept_max_;
  }
}

}  // namespace tessera::metrics

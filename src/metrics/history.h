// The whole run of a process in bounded memory, so that one can scroll back over all of it: events
// one by one for the newest part, and sums over bins of time for everything.
//
//   bins of    10 ms   the last 20 s            each level keeps 2048 bins for each source, and its
//              80 ms   the last 2.7 minutes     bins are 8 times as wide as those of the one before
//              ...
//              5.8 h   the last 497 days
//
// A History belongs to one thread at a time (the Collector guards it).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "metrics/event.h"

namespace tessera::metrics {

// What a source did in a piece of time. A run or transfer that takes several bins is busy in each
// of them for its part; it is counted, with its bytes, where it ended.
struct Bin {
  std::int64_t busy_ns = 0;  // running, added over the threads of a stage
  std::int64_t in_ns = 0, out_ns = 0;
  std::int64_t bytes_in = 0, bytes_out = 0;
  std::int32_t count = 0;  // runs ended; of tasks: those completed; of a queue: depths noted
  std::int32_t depth_max = 0, depth_last = 0;  // of a queue; the last one noted

  // `other` is the later one.
  void add(const Bin& other);
  friend bool operator==(const Bin&, const Bin&) = default;
};

struct TimeSpan {
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
};

class BinSeries {
 public:
  static constexpr std::int64_t kFinestBinNs = 10'000'000;
  static constexpr int kWideningBits = 3;
  static constexpr int kLevels = 8;
  static constexpr std::int64_t kBinsOfLevel = 2048;

  static std::int64_t bin_ns(int level);

  void add(const Event& event);
  // One bin: the `index`-th since time 0. Empty where the level keeps it no more.
  Bin at(int level, std::int64_t index) const;
  // The finest level that still has the bin in which `ns` lies.
  int level_with(std::int64_t ns) const;
  // The last depth that was noted before bin `index` of the level; 0 where none is kept.
  std::int32_t depth_before(int level, std::int64_t index) const;
  // Sum of the finest bins that lie wholly within `span`, which is not far in the past.
  Bin sum(TimeSpan span) const;

 private:
  struct Level {
    std::int64_t newest = -1;  // index of the last bin that was written to
    std::vector<Bin> bins;     // bin i lies at i mod kBinsOfLevel
  };
  static Bin* place(Level& level, std::int64_t index);
  void add_duration(int level, TimeSpan span, std::int64_t Bin::* busy);
  void add_depth(const Event& event);

  // The finest bin of this index, to be added to.
  Bin& open(std::int64_t index) {
    if (index != open_index_) close_bin(index);
    return open_;
  }
  void close_bin(std::int64_t next);
  // Index of the last bin of the level that has something, the open one included.
  std::int64_t newest_of(int level) const;

  std::array<Level, kLevels> levels_;
  std::int64_t open_index_ = -1;  // of the finest bin that is being added to
  Bin open_;                      // what the levels do not have yet
  std::int64_t depth_at_ns_ = 0;  // of the newest depth of a queue
};

// The newest events, in the order in which they were collected.
class RecentEvents {
 public:
  explicit RecentEvents(std::size_t kept_max) : kept_max_(kept_max) {}

  void add(std::span<const Event> events);
  // Events are numbered from 0; `first()` is the number of the oldest that is kept.
  std::uint64_t first() const { return next_ - events_.size(); }
  std::uint64_t next() const { return next_; }
  const Event& operator[](std::uint64_t number) const { return events_[number % kept_max_]; }
  // Every event that ended after this is still there.
  std::int64_t complete_since_ns() const { return complete_since_ns_; }

 private:
  const std::size_t kept_max_;
  std::uint64_t next_ = 0;
  std::size_t place_ = 0;  // where the next one goes, once all places are taken
  std::int64_t complete_since_ns_ = 0;
  std::vector<Event> events_;
};

}  // namespace tessera::metrics

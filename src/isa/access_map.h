// The latest accesses of each byte of one memory: the last writer, and the last reader of each group
// of tasks that are in one order (engine_groups.h). Segments of bytes with the same history are kept in order of their address.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "isa/descriptor.h"

namespace tessera::isa {

// A step of a task.
struct StepRef {
  TaskId task = kNoTask;
  std::int64_t step = 0;  // 0-based
  bool valid() const { return task != kNoTask; }
  friend bool operator==(const StepRef&, const StepRef&) = default;
};

// Whether an access of step `self` reads what `earlier`, a step before it of the same task, wrote. An
// engine begins a step while results of the ones before are still in its pipeline. All else that
// steps of one task do to the same bytes it does in their order: results land in it, and a step has
// read before the next one's results land.
inline bool reads_own_result(const StepRef& self, bool write, const StepRef& earlier) {
  return !write && earlier.task == self.task && earlier.step != self.step;
}

// The tasks of one kind and one set of engines; 0..4 are those of all engines of a kind.
using GroupIndex = std::uint32_t;

class AccessMap {
 public:
  // Records a read of bytes [first, last) by `reader`, of tasks of `group`. Calls visit(writer) for every
  // earlier writer of these bytes; an invalid writer means unwritten bytes.
  template <typename Visit>
  void read(std::int64_t first, std::int64_t last, StepRef reader, GroupIndex group,
            Visit&& visit) {
    for (auto it = begin_at(first); first < last; ++it) {
      if (it == segments_.end() || it->first > first) {  // a gap: never touched
        const std::int64_t end = it == segments_.end() ? last : std::min(last, it->first);
        it = insert(it, first, Segment{.last = end, .writer = {}, .readers = {}});
      } else if (it->second.last > last) {
        split(it, last);
      }
      visit(it->second.writer);
      it->second.readers.set(group, reader);
      first = it->second.last;
    }
  }

  // Records a write. Calls visit(step) for every earlier writer and reader of these bytes.
  template <typename Visit>
  void write(std::int64_t first, std::int64_t last, StepRef writer, Visit&& visit) {
    auto it = begin_at(first);
    while (it != segments_.end() && it->first < last) {
      if (it->second.last > last) split(it, last);
      if (it->second.writer.valid()) visit(it->second.writer);
      it->second.readers.for_each(visit);
      it = erase(it);
    }
    insert(it, first, Segment{.last = last, .writer = writer, .readers = {}});
  }

  // Forgets what need not be looked at again, `is_settled(step)`: bytes that such a step wrote count as written
  // by `settled`. Bytes side by side with one history become one segment.
  template <typename IsSettled>
  void forget(const StepRef& settled, IsSettled&& is_settled) {
    auto before = segments_.end();
    for (auto it = segments_.begin(); it != segments_.end();) {
      Segment& segment = it->second;
      if (segment.writer.valid() && is_settled(segment.writer)) segment.writer = settled;
      segment.readers.forget(is_settled);
      if (before != segments_.end() && before->second.last == it->first &&
          before->second.has_history_of(segment)) {
        before->second.last = segment.last;
        it = erase(it);
      } else {
        before = it++;
      }
    }
  }

  std::size_t segments() const { return segments_.size(); }

  // Calls visit(first, last) for all bytes that were written, in order of their address.
  template <typename Visit>
  void for_each_written(Visit&& visit) const {
    for (const auto& [first, segment] : segments_) {
      if (segment.writer.valid()) visit(first, segment.last);
    }
  }

 private:
  // The last reader of each group.
  struct Readers {
    std::array<StepRef, kCommonEngineKindCount> of_kinds;
    std::vector<std::pair<GroupIndex, StepRef>> of_sets;  // of the other groups

    void set(GroupIndex group, const StepRef& reader) {
      if (group < of_kinds.size()) {
        of_kinds[group] = reader;
        return;
      }
      const auto same = [group](const auto& one) { return one.first == group; };
      const auto found = std::find_if(of_sets.begin(), of_sets.end(), same);
      if (found == of_sets.end()) {
        of_sets.emplace_back(group, reader);
      } else {
        found->second = reader;
      }
    }
    template <typename IsSettled>
    void forget(IsSettled&& is_settled) {
      for (StepRef& reader : of_kinds) {
        if (reader.valid() && is_settled(reader)) reader = {};
      }
      std::erase_if(of_sets, [&](const auto& one) { return is_settled(one.second); });
    }
    friend bool operator==(const Readers&, const Readers&) = default;
    template <typename Visit>
    void for_each(Visit&& visit) const {
      for (const StepRef& reader : of_kinds) {
        if (reader.valid()) visit(reader);
      }
      for (const auto& [group, reader] : of_sets) visit(reader);
    }
  };
  struct Segment {
    std::int64_t last = 0;
    StepRef writer;
    Readers readers;
    bool has_history_of(const Segment& other) const {
      return writer == other.writer && readers == other.readers;
    }
  };

  using Segments = std::map<std::int64_t, Segment>;  // by first byte

  // The first segment that does not end before `first`, which becomes a border of segments.
  Segments::iterator begin_at(std::int64_t first) {
    const auto it = segments_.lower_bound(first);
    if (it == segments_.begin() || (it != segments_.end() && it->first == first)) return it;
    const auto before = std::prev(it);
    return before->second.last <= first ? it : split(before, first);
  }
  // Makes `at`, which lies within the segment, a border; the second of both.
  Segments::iterator split(Segments::iterator it, std::int64_t at) {
    Segment tail = it->second;
    it->second.last = at;
    return insert(std::next(it), at, std::move(tail));
  }
  // Nodes of the tree are used again: accesses take and give back millions of them.
  Segments::iterator insert(Segments::iterator before, std::int64_t first, Segment&& segment) {
    if (spare_.empty()) return segments_.emplace_hint(before, first, std::move(segment));
    Segments::node_type node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = first;
    node.mapped() = std::move(segment);
    return segments_.insert(before, std::move(node));
  }
  Segments::iterator erase(Segments::iterator it) {
    constexpr std::size_t kSpareMax = 64;
    const auto next = std::next(it);
    if (spare_.size() == kSpareMax) {
      segments_.erase(it);
    } else {
      spare_.push_back(segments_.extract(it));
    }
    return next;
  }

  Segments segments_;
  std::vector<Segments::node_type> spare_;
};

}  // namespace tessera::isa

// When each box next has something to do. The chip owns the clock and jumps to the earliest entry.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "base/quantity.h"
#include "base/table.h"
#include "isa/descriptor.h"

namespace tessera::engines {

// The boxes of a core by number: those that every core has one of, then its neural engines, its planar
// engines, its message processors of the way in and of the way out.
enum class Box : std::uint8_t { kLoad, kStore, kKernel, kTaskManager, kDram, kFirstEngine };
inline constexpr int kSingleBoxes = static_cast<int>(Box::kFirstEngine);
inline constexpr int kEnginesMax = 64;      // of a kind (neural.count, planar.count)
inline constexpr int kMessagePortsMax = 8;  // message.ports
inline constexpr int kBoxesMax = kSingleBoxes + 2 * kEnginesMax + 2 * kMessagePortsMax;

// Which number an engine has.
class BoxLayout {
 public:
  BoxLayout(std::int64_t neural, std::int64_t planar, std::int64_t ports)
      : neural_(static_cast<int>(neural)),
        planar_(static_cast<int>(planar)),
        ports_(static_cast<int>(ports)) {}

  int count() const { return first_port() + 2 * ports_; }
  // One past the neural and planar engines.
  int first_port() const { return kSingleBoxes + neural_ + planar_; }
  bool is_port(Box box) const { return static_cast<int>(box) >= first_port(); }
  // How many there are of a kind.
  int engines(isa::EngineKind kind) const {
    if (kind == isa::EngineKind::kNeural) return neural_;
    if (isa::is_message_engine(kind)) return ports_;
    return kind == isa::EngineKind::kPlanar ? planar_ : 1;
  }
  // The first engine of the kind; the others follow.
  Box first(isa::EngineKind kind) const {
    switch (kind) {
      case isa::EngineKind::kNeural:
        return Box::kFirstEngine;
      case isa::EngineKind::kPlanar:
        return static_cast<Box>(kSingleBoxes + neural_);
      case isa::EngineKind::kLoad:
        return Box::kLoad;
      case isa::EngineKind::kStore:
        return Box::kStore;
      case isa::EngineKind::kMessageIn:
        return static_cast<Box>(first_port());
      case isa::EngineKind::kMessageOut:
        return static_cast<Box>(first_port() + ports_);
      case isa::EngineKind::kKernel:
        break;
    }
    return Box::kKernel;
  }
  Box engine(isa::EngineKind kind, int index) const {
    return static_cast<Box>(static_cast<int>(first(kind)) + index);
  }
  // The engines that share the task, [first, last); the descriptor has been checked.
  struct Range {
    int first = 0, last = 0;  // numbers of boxes
    int count() const { return last - first; }
  };
  Range engines_of(const isa::TaskDescriptor& task) const {
    const isa::EngineSet& set = task.header.engines;
    const int begin = static_cast<int>(first(task.engine)) + set.first;
    return {begin, begin + (set.all() ? engines(task.engine) : int{set.count})};
  }
  // Its place among those of its kind, and that kind: "neural", "task_manager", ...
  int index(Box box) const;
  const char* kind(Box box) const;
  // The kind; "neural 2" where there are several.
  std::string name(Box box) const;

 private:
  // Of a box that a core may have several of.
  isa::EngineKind engine_kind(Box box) const;

  int neural_, planar_, ports_;
};
// Of a box that every core has one of.
const char* box_name(Box box);

// A set of the boxes of a core.
class BoxSet {
 public:
  // Of a core with that many boxes.
  explicit BoxSet(std::size_t boxes) : words_used_((boxes + kBits - 1) / kBits) {}
  void add(std::size_t box) { words_[box / kBits] |= std::uint64_t{1} << box % kBits; }
  bool has(Box box) const {
    const auto at = static_cast<std::size_t>(box);
    return (words_[at / kBits] >> at % kBits & 1) != 0;
  }
  // Calls visit(box) for each: the first 59 engines, the single boxes, the other engines.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    std::size_t first = kSingleBoxes;
    std::uint64_t bits = std::rotr(words_[0], kSingleBoxes);
    for (std::size_t word = 0;;) {
      for (; bits != 0; bits &= bits - 1) {
        const std::size_t at = first + static_cast<std::size_t>(std::countr_zero(bits));
        visit(static_cast<Box>(word == 0 ? at % kBits : at));
      }
      if (++word == words_used_) return;
      bits = words_[word];
      first = word * kBits;
    }
  }

 private:
  static constexpr std::size_t kBits = 64;

  const std::size_t words_used_;
  std::array<std::uint64_t, (kBoxesMax + kBits - 1) / kBits> words_{};
};

class WakeTable {
 public:
  explicit WakeTable(int boxes = kSingleBoxes)
      : end_(static_cast<std::size_t>(round_up(boxes, kAtOnce))) {
    at_.fill(kNever);
  }
  void reset() {
    at_.fill(kNever);
    earliest_ = kNever;
  }
  // `box` is stepped at `when`, or earlier if something else wakes it.
  void wake(Box box, Cycles when) {
    Cycles& at = at_[box];
    at = std::min(at, when);
    earliest_ = std::min(earliest_, when);
  }
  // The boxes due at `now`, taken out before any is stepped: what they ask for while they are
  // stepped is for later cycles.
  BoxSet take_due(Cycles now) {
    BoxSet due(end_);
    earliest_ = kNever;
    for (std::size_t first = 0; first < end_; first += kAtOnce) {
      for (std::size_t i = first; i < first + kAtOnce; ++i) {
        if (at_[i] > now) {
          earliest_ = std::min(earliest_, at_[i]);
          continue;
        }
        due.add(i);
        at_[i] = kNever;
      }
    }
    return due;
  }
  Cycles earliest() const { return earliest_; }

 private:
  // So many boxes are looked at in a row: those of a core with one engine of each kind.
  static constexpr std::size_t kAtOnce = kSingleBoxes + 2;

  const std::size_t end_;
  Cycles earliest_ = kNever;  // of all of them
  FixedTable<Box, Cycles, (kBoxesMax + kAtOnce - 1) / kAtOnce * kAtOnce> at_{};
};

}  // namespace tessera::engines

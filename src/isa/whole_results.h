// What cards send each other that exchange whole feature maps (card_features.needed_bytes_only = 0): all that
// a card makes of a layer goes, once it is complete there, to each card that reads any of it.
//
//   card 0: store, store ... the last store of layer 3 ─► all bytes of layer 3 made there ─► card 1
//                                                         cards 2 and 3 read none of it
//
// One segment of a program. It changes nothing once it is made.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "isa/card_program.h"

namespace tessera::isa {

class WholeResults {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Result {
    int card = 0;             // that makes it
    std::uint32_t layer = 0;  // of the program's hints
    std::int64_t bytes = 0;   // without gaps between rows
    std::int64_t tasks = 0;   // that make it
    std::uint32_t to = 0;     // cards that read any of it, by bit; `card` is none of them
  };

  // `card_of_core`: by the program's core, below 32. Storages of the workspace lie apart, so a card reads of
  // a result if its range of addresses and that of a read have bytes in common.
  WholeResults(const CardProgram& program, std::size_t segment, std::vector<int> card_of_core);

  const std::vector<Result>& results() const { return results_; }
  // The result that the task makes a part of, an index of results(); kNone: it writes no memory of the card.
  std::uint32_t of(std::size_t core, TaskId task) const { return of_task_[core][task]; }
  int card_of(std::size_t core) const { return card_of_core_[core]; }
  // Whether what core `reader` learns of the task has to wait until the result is on its card.
  bool held_for(std::size_t core, TaskId task, std::size_t reader) const {
    const std::uint32_t result = of(core, task);
    return result != kNone && (results_[result].to >> card_of(reader) & 1) != 0;
  }

 private:
  struct Range {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  };
  using Ranges = ByBase<Range>;

  static void add_accesses(const TaskDescriptor& task, bool write, Ranges& ranges);
  void add_writers(const CardProgram& program, std::size_t segment);
  void add_readers(const CardProgram& program, std::size_t segment);

  const std::vector<int> card_of_core_;
  std::vector<Result> results_;
  std::vector<Ranges> written_;                      // of each result
  std::vector<std::vector<std::uint32_t>> of_task_;  // of each core's tasks
};

}  // namespace tessera::isa

// The cards of a program that are here between the windows in which they run by themselves: what they have sent
// becomes batches, and what others have sent comes in, checked.
//
// Real bytes: each process has the network's regions as a whole. What a card writes or reads elsewhere goes with its
// frame, and is put to its place when the frame comes in, before the window in which it arrives: nobody here reads
// what was there before any more, since a program's dependencies say so, and nobody reads the new bytes before they
// have arrived.
#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "arch/card_placement.h"
#include "base/result.h"
#include "card/card_memories.h"
#include "card/card_peers.h"
#include "card/peer_batch.h"
#include "card/program_cores.h"
#include "engines/memory/dram_memory.h"

namespace tessera::card {

class PeerWindows {
 public:
  // All of them outlive it.
  struct Parts {
    const ChipConfig* chip = nullptr;
    const CardPlacement* placement = nullptr;
    const CardsHere* here = nullptr;
    CardMemories* memories = nullptr;
    ProgramCores* program = nullptr;
    engines::DramMemory* dram = nullptr;
  };
  explicit PeerWindows(const Parts& parts);

  // Before a segment of what is placed.
  void begin(const ProgramCores::Placed& placed, std::size_t segment, bool has_values);
  // The whole of a result is on its way from here to these cards (by bit).
  void send_result(std::uint32_t number, Cycles now);

  // The end of the next window, up to which nothing comes from elsewhere that is not known: cycles before it may be
  // run. kNever: the segment is over everywhere. Exchanges what was sent in the window that ended; `failed` is why
  // the cards here stopped in it. An error of several processes is the one of the earliest cycle.
  struct Reached {
    Cycles next = kNever, last = 0;  // of the cards here
    bool is_done = false;
  };
  Result<Cycles> exchange(const Reached& reached, const std::optional<PeerFailure>& failed);
  // When the last core of all cards ended, after exchange() has returned kNever.
  Cycles last() const { return last_; }
  // Nothing will happen any more, and not all is done.
  bool is_deadlock() const { return is_deadlock_; }
  Cycles lookahead() const;

 private:
  std::vector<PeerBatch> collect(const Reached& reached);
  PeerFrame frame_of(const engines::NetworkStations::Departure& departure, int process);
  Status take_in(int process, PeerBatch& batch);
  Status take_frame(int process, PeerFrame& frame);
  Status take_result(PeerFrame& frame);
  Status check_request(const engines::CardMessage& message, const PeerFrame& frame) const;
  Status check_answer(const engines::CardMessage& message);
  Status check_news(int process, const engines::News& news) const;
  Status put_data(const PeerFrame& frame);
  template <typename Visit>
  void for_each_written(const isa::TaskDescriptor& task, const Visit& visit) const;
  std::vector<ByteRun> copied_elsewhere(std::uint32_t number) const;
  std::vector<ByteRun> runs_of_result(std::uint32_t number) const;

  int process_of_core(std::size_t core) const {
    return parts_.here->process_of_card[static_cast<std::size_t>(card_of_core_[core])];
  }
  int process_of(int card) const {
    return parts_.here->process_of_card[static_cast<std::size_t>(card)];
  }
  bool is_here(int card) const { return process_of(card) == parts_.here->process; }

  const Parts parts_;
  const std::vector<int> card_of_core_;
  engines::CoreSet placed_cores_ = 0;
  std::size_t outstanding_ = 0;  // requests of all cores on their way, at most
  const ProgramCores::Placed* placed_ = nullptr;
  std::size_t segment_ = 0;
  bool has_values_ = true, is_deadlock_ = false;
  std::uint64_t window_ = 0;
  Cycles begin_ = 0, end_ = 0, last_ = 0;  // of the window
  // Requests from here that are not answered; those from elsewhere with their grids.
  using Key = std::pair<int, std::uint32_t>;  // group, ticket
  std::set<Key> asked_;
  std::map<Key, StridedRuns> grids_;
  std::set<Key> asked_here_;
  std::set<std::pair<std::uint32_t, int>> results_;  // number, card: that have come
};

// Of the bytes of `ranges`, which cores of which process write last in a segment: by process, in the order of
// addresses. All processes find the same.
std::vector<std::vector<ByteRun>> last_writers(const isa::CardProgram& program, std::size_t segment,
                                               const std::vector<int>& process_of_core,
                                               const isa::DramPlaces& places,
                                               const ChipConfig& chip,
                                               std::span<const ByteRun> ranges);

}  // namespace tessera::card

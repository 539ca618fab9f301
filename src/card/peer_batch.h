// What a process with some cards of a program tells another one after each window of cycles: the messages that its
// cards have sent over the network, with the bytes of their tensors, news of finished steps, and how far it is.
//
//   window 1              window 2
//   [0, lookahead)        [next, next + lookahead)    next: the earliest cycle in which anything happens anywhere
//   ──── run ──── exchange ──── run ──── exchange ...
//
// docs/formats/peer_batch.md has the bytes. Other processes' bytes are checked: parse_batch() checks that they are a
// batch, PeerWindows that what it says can be.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "card/run_statistics.h"
#include "engines/card_memory/network_stations.h"
#include "engines/data_control/remote_news.h"
#include "isa/card_program.h"

namespace tessera::card {

// Bytes of a DRAM, by modelled address.
struct ByteRun {
  std::int64_t address = 0, bytes = 0;
  friend bool operator==(const ByteRun&, const ByteRun&) = default;
};

// A message between cards as it left its card.
struct PeerFrame {
  engines::NetworkStations::Departure departure;  // the request points to no grid
  // Whether it is for the receiver. If not there are sizes and cards alone, from which all know how long it takes.
  bool is_whole = false;
  std::vector<std::byte> data = {};      // of what is written or was read, in the order of the runs
  std::vector<ByteRun> runs = {};        // of a whole result: where its data lie
  std::vector<engines::News> held = {};  // of a whole result: what cores hear when it has arrived
};

struct PeerFailure {
  Cycles at = 0;
  Error error;
};

struct PeerBatch {
  std::uint64_t window = 0;    // number, from 0 on
  Cycles next = kNever;        // something happens there, whatever the others say
  Cycles first_news = kNever;  // of the news of this window, to whomever, the earliest
  Cycles last = 0;             // the last cycle in which a core of its cards did something
  bool is_done = false;        // its cores have ended
  std::optional<PeerFailure> failure = {};
  std::vector<PeerFrame> frames = {};  // by card in the order in which it sent them
  std::vector<engines::News> news = {};
};

std::vector<std::byte> encode_batch(const PeerBatch& batch);
// kInvalidModel: it is none.
Result<PeerBatch> parse_batch(std::span<const std::byte> bytes);

// A segment's statistics, as one process has them and another one adds them to its own.
std::vector<std::byte> encode_statistics(const CardStatistics& statistics);
Result<CardStatistics> parse_statistics(std::span<const std::byte> bytes);
// Whether they can be those of a segment of the program: cores, tasks, rows and engines that are there.
// `shared_rows`: of the own statistics.
Status check_statistics(const CardStatistics& statistics, const isa::CardProgram& program,
                        std::size_t segment, std::size_t shared_rows);

}  // namespace tessera::card

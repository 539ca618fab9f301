// A network on several cards of which some are in other processes (card/card_peers.h). One process leads: it has the
// tensors of the host, takes the host's steps, and puts together what all have done.
//
//   leader    inputs ─► others ─► all run segment 0 ─► what they wrote ─► host's steps ─► others ─► segment 1 ...
//
// Weights and programs are in every process. What goes between the processes while a segment runs is the cards' own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "card/card_peers.h"
#include "device/backend.h"
#include "device/card_network.h"
#include "tessera/core_split.h"
#include "tessera/run_result.h"

namespace tessera::device {

using card::CardPeers;
using card::CardsHere;

// What a network is loaded for.
struct CardsApart {
  int cores = 1, cards = 1;  // of all processes; spread as evenly as can be
  CoreSplit split = CoreSplit::kAuto;
  int images = 1;
  CardsHere here = {};
};

struct ApartOptions {
  bool timing_only = false, trace = false;
  std::uint8_t traps = 0;
};

// The other processes, as the leader tells them what to do.
class CardOthers {
 public:
  virtual ~CardOthers() = default;
  // They put the host's bytes to their places and begin the segment; returns at once.
  virtual Status begin(std::size_t segment, const ApartOptions& options,
                       std::span<const std::byte> host_bytes) = 0;
  // Waits for the end: what run() of each of them gave, by process; nothing of this one.
  virtual Result<std::vector<std::vector<std::byte>>> end() = 0;
};

// One thread at a time.
class ApartNetwork : public Loaded {
 public:
  // Compiles and proves it, the same in all processes.
  static Result<std::unique_ptr<ApartNetwork>> load(
      const std::shared_ptr<const NetworkState>& network, const ChipConfig& chip,
      const CardsApart& apart);
  ~ApartNetwork() override;
  // Of the program: equal where the processes have linked the same.
  const std::string& digest() const { return digest_; }

  // The leader's: a whole run. Null views: cycles only.
  Result<RunResult> lead(CardOthers& others, const RunViews* views, const ApartOptions& options);
  // Another process's: a segment, with the leader's bytes. What it gives is for the leader alone.
  Result<std::vector<std::byte>> run(std::size_t segment, const ApartOptions& options,
                                     std::span<const std::byte> host_bytes);

 private:
  struct State;
  explicit ApartNetwork(std::unique_ptr<State> state);
  Status lead_segment(std::size_t segment, CardOthers& others, const ApartOptions& options,
                      RunResult& result);
  const std::unique_ptr<State> state_;
  std::string digest_;
};

}  // namespace tessera::device

// A card of the virtual processor, or several, that tenants use at once: each has a virtual processor of its
// own.
//
//   VirtualCard::open("cloud16")
//     ├─ take({.name = "a", .cores = 4}) ─► VirtualProcessor ─► Session::open(network, {.processor = a})
//     └─ take({.name = "b", .cores = 8, .weight = 2})         ─► Session::open(another, {.processor = b})
//
// A virtual processor is cores, a range of the memory of each group in which it has some, and a share of
// these groups' channels; of ring and network it has fixed parts. All are simulated on one clock, on the
// threads that run: they disturb each other as far as they share a channel, and nowhere else. Bits are those
// of one core. What goes wrong with one is an error of its own runs.
//
// Both classes are handles that may be copied and used by several threads at once; what they stand for lives
// as long as a handle to it, or a session or device on it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/card_status.h"
#include "tessera/result.h"
#include "tessera/run_result.h"
#include "tessera/tensor.h"

namespace tessera {

namespace device {  // what is behind the handles; see src/device/
class VirtualCard;
class VirtualProcessor;
}  // namespace device

class Session;

// What a tenant asks for.
struct VirtualProcessorOptions {
  std::string name = {};  // of its own on the card; empty: "tenant0", "tenant1", ...
  // That the card chooses: of one card if that has as many, in groups that nobody else is in, as far as there are.
  int cores = 1;
  std::vector<int> core_numbers = {};  // not empty: these cores, and not `cores`
  // Of the memory of each group in which it has a core, for weights, inputs, outputs and all between; 0: a
  // group's memory divided by its cores.
  std::int64_t memory_bytes = 0;
  // 1 to 16: of a channel it has at least weight / (sum of the weights of those that ask).
  std::int64_t weight = 1;
};

// A tenant's part of a virtual card.
class VirtualProcessor {
 public:
  VirtualProcessor() = default;  // none
  explicit operator bool() const { return state_ != nullptr; }

  const std::string& name() const;  // empty: of none
  ProcessorStatus status() const;   // now

  // Other cores: so many, of which it keeps what it can. What is loaded is compiled for them while runs go
  // on; the run that is under way ends on the old ones, and all later ones are on the new ones. Returns
  // then; what was given up is clear, which took time on the card's clock (ProcessorStatus). After an error it
  // has what it had.
  Status resize(int cores) const;
  // The same for just these cores.
  Status move(std::vector<int> core_numbers) const;

  // Internal.
  explicit VirtualProcessor(std::shared_ptr<device::VirtualProcessor> state)
      : state_(std::move(state)) {}
  const std::shared_ptr<device::VirtualProcessor>& state() const { return state_; }

 private:
  std::shared_ptr<device::VirtualProcessor> state_;  // shared with sessions and copies
};

// A card on which tenants take their parts.
class VirtualCard {
 public:
  // A profile or an architecture file, for which its tenants' networks are compiled; several cards have a
  // network between them, and their cores, groups and memories one row of numbers. kUnsupported: an
  // architecture whose cores own fixed parts of the channels, or have message ports.
  static Result<VirtualCard> open(const std::string& arch = "cloud16", int cards = 1);

  // The error names what somebody else has, or what is out of bounds. Cores and memory go back, cleared,
  // with the last handle.
  Result<VirtualProcessor> take(const VirtualProcessorOptions& options = {}) const;
  CardStatus status() const;  // now

  // Internal.
  explicit VirtualCard(std::shared_ptr<device::VirtualCard> state) : state_(std::move(state)) {}
  const std::shared_ptr<device::VirtualCard>& state() const { return state_; }

 private:
  std::shared_ptr<device::VirtualCard> state_;  // shared with copies
};

// Runs of a tenant in run_together().
struct TogetherRuns {
  Session* session = nullptr;  // on a virtual processor of its own; outlives the call
  std::vector<Tensor> inputs;  // of each of its runs
  int times = 1;               // 1 or more
};
// How they went.
struct TogetherResult {
  Status status;  // of the first run that failed
  std::vector<std::int64_t>
      cycles;  // of each run, from its beginning to its end on the card's clock
  RunResult last;
};

// Sessions on processors of one card, all of which begin in the same cycle and run without a gap between
// their runs; who has made all of its own goes on until everyone has. So cycles are the same every time,
// whatever the threads of this machine do. Nobody else may use the sessions meanwhile. The
// results in the order of the runs; an error: a session on no virtual processor, or twice on one.
Result<std::vector<TogetherResult>> run_together(std::span<const TogetherRuns> runs);

}  // namespace tessera

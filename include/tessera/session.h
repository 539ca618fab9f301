// Run a neural network: load a model for an architecture, open a session on a device, run inputs.
//
//   Network::load("model.onnx")  ─►  Session::open(network, {.device = DeviceKind::kSim})
//                                 ─►  session.run({input})  ─►  outputs, cycles, timeline
//
// A Network is immutable and may be shared between threads. A Session belongs to one thread at a
// time, and to the process that opened it: in a child of fork() run() is an error, and the child
// opens one of its own. Every device gives the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/core_split.h"
#include "tessera/device_kind.h"
#include "tessera/network.h"
#include "tessera/result.h"
#include "tessera/run_result.h"
#include "tessera/tensor.h"
#include "tessera/traps.h"
#include "tessera/virtual_card.h"

namespace tessera {

// Where and how a session runs its network.
struct SessionOptions {
  DeviceKind device = DeviceKind::kSim;
  int threads = 0;             // host device; 0 = all cores
  bool timing_only = false;    // sim: skip the values, same cycles; outputs are empty
  bool check_hazards = false;  // sim: report two tasks that race
  bool serial = false;         // sim: one task at a time
  bool trace = false;          // sim: keep the timeline
  // sim: cores that run the network together, with the bits of one, on so many cards, spread over the
  // groups of each; card.groups and card.cores_per_group of the architecture say how many there are.
  int cores = 1;
  int cards = 1;
  CoreSplit split = CoreSplit::kAuto;
  // sim: != 0: teams of so many of the cores, each with an image of its own; it divides their number. A run then
  // takes the inputs of all images, those of the first one first, and gives their outputs likewise. On a
  // virtual processor that gets other cores the images stay as many, and the teams get larger or smaller.
  int cores_per_image = 0;
  // sim: not empty, the session runs on this part of a card that others use, too, and has its cores
  // (virtual_card.h); `cores`, `cards` and `serial` are left as they are.
  VirtualProcessor processor = {};
  // sim: not empty, the session runs on a processor of a cluster: "cluster:HOST:PORT?cores=4&name=a"
  // (docs/cluster.md), which it acquires and gives back. Bits and cycles are those of a virtual processor here;
  // `cores`, `cards`, `serial` and `processor` are left as they are.
  std::string cluster = {};
  std::uint8_t traps = 0;  // sim: exceptions of values that end a run with an error (traps.h)
  ProgressCallback progress = {};
};

// An output that is an input of the next run: the state of a recurrent network.
struct StateBinding {
  std::size_t output = 0, input = 0;
  std::optional<Tensor> initial = {};  // none: zeros
};

// What a session has moved and copied since it was opened.
struct SessionTraffic {
  std::int64_t bytes_in = 0, bytes_out = 0;  // between host and device; without weights
  std::int64_t bytes_copied =
      0;  // within the host's memory, where a tensor could not be used in place
};

// Internal; see src/runtime/session.cc.
class SessionState;

// One network on one device. For one thread at a time.
class Session {
 public:
  // The error says which option is wrong, or what the device lacks.
  static Result<Session> open(const Network& network, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Inputs in the order of Network::inputs(); formats and shapes must agree.
  Result<RunResult> run(const std::vector<Tensor>& inputs);
  // The same on the caller's memory, dense and row-major, of exactly the tensors' bytes. Where host
  // and device share memory it is used in place if it begins at a multiple of 16 bytes. The result
  // has no outputs.
  Result<RunResult> run_into(std::span<const std::span<const std::byte>> inputs,
                             std::span<const std::span<std::byte>> outputs);
  // From now on each run reads what the one before it wrote, which stays on the device: run and
  // run_into leave out these inputs and outputs, and the others keep their order. Binding again
  // begins anew; no bindings: they are ordinary inputs and outputs again.
  Status bind_states(const std::vector<StateBinding>& bindings);
  // What a state holds, by its place among the bindings: what the last run wrote, or what it began with.
  Result<Tensor> state(std::size_t binding) const;
  // Since it was opened.
  SessionTraffic traffic() const;
  const VirtualProcessor& processor() const;  // of its options
  Status usable() const;  // kUnavailable in a process that was forked off after the opening

 private:
  explicit Session(std::unique_ptr<SessionState> state);
  std::unique_ptr<SessionState> state_;
};

// The timeline as Perfetto / Chrome trace JSON.
Status write_perfetto(const std::string& path, const RunResult& run);
// Self-contained: it needs no other file and no network.
Status write_html_report(const std::string& path, const std::string& title, const Network& network,
                         const RunResult& run);

// "0.1.0"
const char* version();

}  // namespace tessera

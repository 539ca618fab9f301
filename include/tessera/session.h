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
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/result.h"
#include "tessera/tensor.h"

namespace tessera {

// The name, format and constant shape of a model input or output.
struct TensorDescription {
  std::string name;
  Format format = Format::kF32;
  Shape dims;
  // Of a matrix in blocks, as a device may hold it: the shape that it has outside. `dims` are then
  // [blocks down, blocks across, rows of a block, columns of a block]. Empty: dense.
  Shape dense_dims = {};
};

// A step that runs on the host instead of the processor, and why.
struct HostStepNote {
  std::string node;
  std::string operator_name;
  std::string reason;
};

// Where the model's nodes run.
struct Placement {
  std::int64_t nodes_on_processor = 0;
  std::int64_t nodes_on_host = 0;
  std::vector<HostStepNote> host_steps;
  std::vector<std::string> notes;  // stated defaults, for example of open dimensions
};

// Called with the stage's name and how much of it is done, 0..1. May be empty. What it throws is
// the error of the load or run, and it is called no more.
using ProgressCallback = std::function<void(const std::string& stage, double fraction)>;

struct LoadOptions {
  std::string arch = "tessera128";           // profile name, or path of an architecture file
  std::map<std::string, Shape> shapes = {};  // for inputs whose dimensions the model leaves open
  // Inputs whose value is known at compile time, because a shape depends on it. The network has no
  // such input then.
  std::map<std::string, Tensor> constants = {};
  // How many tensors an input of type sequence holds (an optional: 0 or 1). They are the inputs
  // "NAME[0]", "NAME[1]", ...
  std::map<std::string, std::int64_t> lengths = {};
  // Constants of float products in place of the model's: "LAYER.weight", "LAYER.bias"
  // (src/graph/replace_weights.h). Trained weights come back this way.
  std::map<std::string, Tensor> weights = {};
  std::int64_t tile_budget_bytes = 0;  // bytes a partition a task may use; 0 = the compiler chooses
  bool resident = true;                // keep tensors in the state buffer between layers
  bool compress_weights = true;        // store kernels compressed where that saves DRAM bytes
  bool require_full_offload = false;   // a host step is an error
  ProgressCallback progress = {};
  // Of load_bytes: where the files lie that a model or a firmware text names, and may not lead out
  // of. Empty: it may name none.
  std::string folder = {};
};

// Internal; see src/network/network.h.
struct NetworkState;

class Network {
 public:
  // An ONNX model, a package (.tpkg), a linked program (.tprog) or a firmware text (.tasm), told by
  // the first bytes. A program runs as it is on sim, and on host and ref as the layers that are
  // read out of it; options that belong to a model are errors, and the default of `arch` means what
  // the program names. The error says what is wrong with the file or the options.
  static Result<Network> load(const std::string& path, const LoadOptions& options = {});
  // The same from memory, which is not needed any more afterwards; `name` is for errors.
  static Result<Network> load_bytes(std::span<const std::byte> bytes,
                                    const LoadOptions& options = {},
                                    const std::string& name = "memory");

  const std::vector<TensorDescription>& inputs() const;
  const std::vector<TensorDescription>& outputs() const;
  const Placement& placement() const;
  Status save_package(const std::string& path) const;  // kUnsupported of a program

  explicit Network(std::shared_ptr<const NetworkState> state) : state_(std::move(state)) {}
  const NetworkState& state() const { return *state_; }
  std::shared_ptr<const NetworkState> share() const { return state_; }

 private:
  std::shared_ptr<const NetworkState> state_;  // shared by sessions and copies of this handle
};

enum class DeviceKind {
  kSim,   // the virtual processor: bits and cycles
  kHost,  // the same bits at CPU speed
  kRef,   // obvious loops, the oracle
};
const char* device_kind_name(DeviceKind kind);  // "sim", "host", "ref"
Result<DeviceKind> device_kind_from_name(const std::string& name);

struct SessionOptions {
  DeviceKind device = DeviceKind::kSim;
  int threads = 0;             // host device; 0 = all cores
  bool timing_only = false;    // sim: skip the values, same cycles; outputs are empty
  bool check_hazards = false;  // sim: report two tasks that race
  bool serial = false;         // sim: one task at a time
  bool trace = false;          // sim: keep the timeline
  ProgressCallback progress = {};
};

// What one engine did, in cycles of the core clock. busy + blocked_* + idle = the run's cycles.
struct EngineUse {
  std::string name;
  std::int64_t busy = 0, blocked_dependency = 0, blocked_memory = 0, idle = 0;
  std::int64_t tasks = 0, steps = 0, macs = 0;
  std::int64_t dram_bytes_read = 0, dram_bytes_written = 0;
};

// One bar of the timeline.
struct TimelineEvent {
  std::string engine, layer;
  std::int64_t task = 0, step = 0;
  std::int64_t begin = 0, end = 0;  // cycles
};

// What one layer (a node of the typed graph) cost on the processor.
struct LayerUse {
  std::string name, kind;
  Shape output_dims;
  std::int64_t macs = 0;
  std::int64_t begin = 0, end = 0;               // first step begins, last step ends (cycles)
  std::int64_t neural = 0, planar = 0, dma = 0;  // busy cycles
  std::int64_t blocked_dependency = 0, blocked_memory = 0;
};

struct RunResult {
  std::vector<Tensor> outputs;  // in the order of Network::outputs()
  std::int64_t cycles = 0;      // 0 on host and ref
  std::int64_t clock_hertz = 0;
  std::vector<EngineUse> engines;       // sim only
  std::vector<LayerUse> layers;         // sim only
  std::vector<TimelineEvent> timeline;  // sim with trace
  std::uint32_t status_flags = 0;       // sticky: 1 NaN, 2 infinity, 4 accumulator range
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

class Session {
 public:
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
  SessionTraffic traffic() const;
  Status usable() const;  // kUnavailable in a process that was forked off after the opening

 private:
  explicit Session(std::unique_ptr<SessionState> state);
  std::unique_ptr<SessionState> state_;
};

// The timeline as Perfetto / Chrome trace JSON, and a self-contained HTML report.
Status write_perfetto(const std::string& path, const RunResult& run);
Status write_html_report(const std::string& path, const std::string& title, const Network& network,
                         const RunResult& run);

// "0.1.0"
const char* version();

}  // namespace tessera

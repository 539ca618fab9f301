// Feed processors so that they never wait: many tasks, streams, models and devices at once.
//
//   Runtime::open({devices})
//     └─ load(network) ─► Model              weights go over once, as one region
//     └─ open_pipeline(model) ─► Pipeline    [pre] ─► [execute] ─► [post], each with own threads
//          └─ open_stream() ─► Stream        results come out in the order the tasks went in,
//                                            or as they are done
//               └─ submit(inputs) ─► Job     wait, callback, cancel, deadline
//
//   auto runtime  = Runtime::open({.devices = {{.kind = DeviceKind::kHost}}});
//   auto model    = runtime->load(*network);
//   auto pipeline = runtime->open_pipeline(*model);
//   auto stream   = pipeline->open_stream();
//   auto job      = stream.submit({inputs});
//   auto result   = job->wait();
//
// All classes here are handles that may be copied and used by several threads at once; what they
// stand for lives as long as a handle to it or to something opened from it. Errors are values: a
// task that failed says where. What functions of the application throw is an error as well. A
// process that is forked off opens a runtime of its own; Networks can be used there.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/memory.h"
#include "tessera/picture.h"
#include "tessera/result.h"
#include "tessera/session.h"
#include "tessera/tensor.h"

namespace tessera {

// ---------------------------------------------------------------------------------- devices

// A device to open.
struct DeviceOptions {
  DeviceKind kind = DeviceKind::kHost;
  std::string name = {};  // empty: kind and number, "host0"
  std::string arch =
      "tessera128";  // sim: profile or architecture file; networks must be compiled for it
  int kernels = 1;   // that run side by side: cores of sim, groups of threads of host; 1..64
  int threads = 0;   // host: of all kernels together; 0 = all cores
  bool timing_only = false;  // sim: skip the values, same cycles
  // sim: a run takes at least its simulated time divided by this, on the wall clock. 1: real time;
  // 0: as fast as it can be simulated.
  double pace = 0;
  // A run that has not come back after this long is given up and its device counts as failed until
  // it answers again. 0: a run may take any time; deadlines of tasks hold all the same.
  std::chrono::milliseconds hang_timeout{0};
  // sim: v of more than 1 makes v devices of it, "sim0.0" to "sim0.v-1", that share its cores
  // (kernels): each has 1/v of state buffer, kernel memory and DRAM, a task queue, blocks, health and
  // counters of its own. Tasks of several that wait when a core gets free run on it together, by
  // their priority. 1 to 16, and at most task_manager.queues of the architecture; a network that
  // needs more than its share is refused when it is loaded (LoadOptions::region_share).
  int virtual_functions = 1;
  // sim: cores of a card, or of several, that run each task together, as in SessionOptions. With more than
  // one: no virtual functions, no values at a pace (timing_only), and no tasks of single layers.
  int cores = 1, cards = 1;
  CoreSplit split = CoreSplit::kAuto;
  // sim: not empty, the device is this part of a card that others use, too (virtual_card.h): one kernel, with
  // the card's architecture and the processor's cores, and no pace or virtual functions.
  VirtualProcessor processor = {};
  // Not empty, the device is a processor of a cluster and a `sim` (host, the default, may stay): "cluster:HOST:PORT?cores=4&arch=cloud16"
  // (docs/cluster.md), with a kernel for each run that may be on its way (in_flight=2). Without arch= it has
  // `arch`, or where that is the default the architecture of the cluster's cards. No pace, virtual functions or
  // part of a card besides.
  std::string cluster = {};
  // sim that computes values: exceptions of values that end a task with an error which names them
  // (traps.h). The device goes on with the tasks behind it.
  std::uint8_t traps = 0;
};

// The devices of a runtime, which are opened together.
struct RuntimeOptions {
  std::vector<DeviceOptions> devices = {{}};
  bool metrics = true;  // record events for traces, live views and statistics
};

// ---------------------------------------------------------------------------------- tasks

// Why a task has no result.
enum class TaskFailure : std::uint8_t {
  kNone,
  kError,      // its own: a bad input, an operator that failed
  kCancelled,  // by Job::cancel
  kDeadline,   // passed first
  kDevice,     // the device failed, hung, or lost it
  kMismatch,   // debugging: two devices gave different bits
};
const char* task_failure_name(TaskFailure failure);  // "error", "cancelled", ...

// Where the time of a task went.
struct TaskTimes {
  // Of one stage.
  struct Stage {
    std::chrono::nanoseconds queued{0}, busy{0};  // before the stage; in it
  };
  static constexpr std::size_t kStagesMax = 16;
  std::array<Stage, kStagesMax> stages{};  // those of the pipeline, in their order
  std::chrono::nanoseconds transfer_in{0}, kernel{0}, transfer_out{0};  // within execute stages
  std::chrono::nanoseconds total{0};                                    // from submit to result
};

// What stages of the application see of a task, and what comes out at its end. An execute stage
// runs the network once for each entry of `runs` and puts the outputs in its place: a stage before
// it may make as many runs of one task as it likes (the lines of one picture, say).
struct Task {
  std::vector<std::vector<Tensor>> runs;
  std::shared_ptr<void> payload;  // the application's own, from submit to result
  std::uint32_t stream = 0;
  std::uint64_t sequence = 0;  // within the stream, from 0
};

// What comes out for a task that succeeded.
struct TaskResult {
  std::vector<std::vector<Tensor>> runs;  // the outputs of each run; one where one was submitted
  // Of submit_network: those of its outputs that are in blocks; their tensors have no bytes.
  std::vector<std::optional<Block>> blocks;
  std::shared_ptr<void> payload;
  std::uint64_t sequence = 0;
  std::int64_t cycles = 0;  // simulated, of all runs together; 0 on host and ref
  // Likewise, as in RunResult.
  std::int64_t host_cycles = 0, transfer_cycles = 0;
  std::string device;                  // that ran it last
  std::vector<ValueNote> value_notes;  // as in RunResult, of all runs together
  TaskTimes times;

  const std::vector<Tensor>& outputs() const { return runs.front(); }  // of the first run
};

// An error with its place.
struct TaskError {
  TaskFailure failure = TaskFailure::kError;
  Error error;
  std::uint64_t task = 0;            // number of the task in this process
  std::uint64_t sequence = 0;        // within its stream
  std::string stage, device, layer;  // as far as known
};

// A task's outcome: exactly one of the two.
class TaskOutcome {
 public:
  TaskOutcome(TaskResult result) : result_(std::move(result)) {}
  TaskOutcome(TaskError error) : error_(std::move(error)) {}
  bool ok() const { return !error_.has_value(); }
  TaskResult& result() { return result_; }
  const TaskResult& result() const { return result_; }
  const TaskError& error() const { return *error_; }

 private:
  TaskResult result_;
  std::optional<TaskError> error_;
};

// ---------------------------------------------------------------------------------- jobs

namespace runtime {  // what is behind the handles; see src/runtime/
class JobState;
class StreamState;
class ModelState;
class PipelineState;
class RuntimeState;
struct EventRecordingState;
class LiveViewState;
}  // namespace runtime

// A task that was submitted. Releasing the handle does not stop the task.
class Job {
 public:
  Job() = default;  // no task
  Job(const Job& other);
  Job(Job&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Job& operator=(Job other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Job();

  // Waits; takes the outcome out, so a second call is an error (kInvalidArgument).
  TaskOutcome wait();
  // As wait(), but gives up after `patience`: nothing, and the task goes on.
  std::optional<TaskOutcome> wait_for(std::chrono::nanoseconds patience);
  bool done() const;  // wait() would not wait
  // The task ends with TaskFailure::kCancelled unless it is done first, at once, and its runs that
  // have not begun never will.
  void cancel();
  std::uint64_t id() const;  // number of the task in this process

  // Internal: takes over one reference.
  explicit Job(runtime::JobState* state) : state_(state) {}
  runtime::JobState* state() const { return state_; }

 private:
  runtime::JobState* state_ = nullptr;  // counted: shared with the runtime until the task is done
};

// The index of a job that is done, waiting for one if none is. Nothing after `patience`.
std::optional<std::size_t> wait_any(
    std::span<const Job> jobs, std::chrono::nanoseconds patience = std::chrono::nanoseconds::max());

// Of two tasks that wait before a stage, or for a kernel, the one of the higher priority goes
// first, always: tasks of a low one wait for as long as there are enough of a high one.
inline constexpr int kPriorityLowest = -7, kPriorityHighest = 7;

// In what order the results of a stream come out.
enum class StreamOrder : std::uint8_t {
  kSubmission,  // results in the order in which the tasks were submitted
  kCompletion,  // each as soon as it is there
};

// A task that is cancelled, or whose deadline passes, is done at once in any stream, whatever is
// open before it; results and tasks' own errors of an ordered stream keep their order among
// themselves.
struct StreamOptions {
  StreamOrder order = StreamOrder::kSubmission;
  int priority = 0;  // of its tasks: kPriorityLowest to kPriorityHighest
};

// Of one task.
struct SubmitOptions {
  // Called with the outcome by a thread of the runtime (or the one that cancels), one of a stream
  // at a time, in the order in which its tasks are done; Job::wait then has none left to give, but
  // for what the callback throws: that is the task's error there, and is counted in PipelineStatus.
  // It must not wait for other jobs of its stream.
  std::function<void(TaskOutcome)> callback = {};
  // From now on; the task ends with TaskFailure::kDeadline when it passes.
  std::optional<std::chrono::nanoseconds> deadline = {};
  std::shared_ptr<void> payload = {};
  std::vector<std::string> skipped_stages = {};  // by name
  std::optional<int> priority = {};              // empty: that of the stream
  // A task that is alone in its pipeline, has an execute stage first, and takes less than it takes to
  // wake other threads (some 50 us, as measured) is done by the calling thread, which calls `callback`
  // before submit returns: it must not hold what the callback takes. All else is done as without it.
  bool in_place = false;
};

// A sequence of tasks into one pipeline. For several threads at once.
class Stream {
 public:
  // One task with one run, its inputs in the order of the model's. Where the pipeline begins with a
  // model, inputs that are none of the model's are refused here. kUnavailable when the pipeline
  // holds as many jobs as it may: wait_for_room(), or submit_when_room.
  Result<Job> submit(std::vector<Tensor> inputs, SubmitOptions options = {});
  // One task with several runs.
  Result<Job> submit_runs(std::vector<std::vector<Tensor>> runs, SubmitOptions options = {});
  // Waits for room, then submits.
  Result<Job> submit_when_room(std::vector<Tensor> inputs, SubmitOptions options = {});
  // Waits for room, then submits.
  Result<Job> submit_runs_when_room(std::vector<std::vector<Tensor>> runs,
                                    SubmitOptions options = {});
  // One task for each entry, waiting for room; `options` are those of each. Where one is wrong none
  // is submitted.
  Result<std::vector<Job>> submit_batch(std::vector<std::vector<Tensor>> tasks,
                                        const SubmitOptions& options = {});
  // One task with one run whose inputs and outputs may be blocks of device memory or memory of the
  // application's (tessera/memory.h). kUnavailable: no room.
  Result<Job> submit_network(NetworkTask task, SubmitOptions options = {});
  // Waits for room, then submits.
  Result<Job> submit_network_when_room(NetworkTask task, SubmitOptions options = {});
  // From now on each task of this stream reads what the one before it wrote: submit_network leaves
  // out the inputs named here, and these outputs, which stay in `memory`. The tasks may be
  // submitted in sequence, without waiting. When one fails, so do those behind it, until
  // the states are bound again, which begins anew; with no bindings, they are ordinary inputs and
  // outputs again. Of a pipeline with an execute stage: the inputs are those of the first, the
  // outputs of the last.
  Status bind_states(const Memory& memory, const std::vector<StateBinding>& bindings);
  // Of a pipeline that Runtime::open_operations opened (tessera/memory.h). kUnavailable: no room.
  Result<Job> submit_layer(const Layers& layers, const LayerTask& task, SubmitOptions options = {});
  // Waits for room, then submits.
  Result<Job> submit_layer_when_room(const Layers& layers, const LayerTask& task,
                                     SubmitOptions options = {});
  // As submit_layer.
  Result<Job> submit_operation(const OperationTask& task, SubmitOptions options = {});
  // Waits for room, then submits.
  Result<Job> submit_operation_when_room(const OperationTask& task, SubmitOptions options = {});
  // False: there was none after `patience`, or at once where the thread would wait for itself.
  bool wait_for_room(std::chrono::nanoseconds patience = std::chrono::nanoseconds::max());
  // Whether the calling thread is in a stage or callback of the pipeline: it does not wait for
  // room, and what would have to is refused.
  bool would_wait_for_itself() const;
  // Waits until all tasks of this stream are done.
  void wait_until_done();
  std::uint32_t id() const;  // number of the stream in its runtime
  Status usable() const;     // as Runtime::usable

  Stream(std::shared_ptr<runtime::PipelineState> pipeline,
         std::shared_ptr<runtime::StreamState> state)
      : pipeline_(std::move(pipeline)), state_(std::move(state)) {}

 private:
  std::shared_ptr<runtime::PipelineState> pipeline_;  // shared by its handles and streams
  std::shared_ptr<runtime::StreamState> state_;       // shared with its jobs
};

// ---------------------------------------------------------------------------------- pipelines

// A network whose weights lie on the devices of a runtime.
class Model {
 public:
  explicit Model(std::shared_ptr<runtime::ModelState> state) : state_(std::move(state)) {}
  const Network& network() const;  // that was loaded
  // Inputs and outputs as they lie in a device's memory: in other formats where the model was
  // loaded in device form, in blocks where the architecture says so, else like the network's.
  // Blocks of memory that are made by these descriptions are used in place; others are converted on
  // the host.
  const std::vector<TensorDescription>& device_inputs() const;
  // Likewise.
  const std::vector<TensorDescription>& device_outputs() const;
  const std::shared_ptr<runtime::ModelState>& state() const { return state_; }

 private:
  std::shared_ptr<runtime::ModelState> state_;  // shared with the pipelines that run it
};

// What a stage does with a task.
enum class StageKind : std::uint8_t {
  kHost,     // a function of the application
  kPre,      // the model's inputs into the device's format
  kExecute,  // the model on a device
  kPost,     // outputs back into the application's format
};

// Application code; called by several threads at once. An error ends the task, and so does what it
// throws.
using HostFunction = std::function<Status(Task&)>;

// One stage of a pipeline.
struct StageOptions {
  StageKind kind = StageKind::kHost;
  std::string name = {};
  HostFunction function = {};             // kHost
  std::optional<Model> model = {};        // of the other kinds
  std::vector<std::string> devices = {};  // kExecute: names; empty: all that hold the model
  int threads = 0;                        // 0: one; execute: two per kernel
  std::size_t capacity = 0;               // tasks that wait in front of it; 0: 16. Not of the
                                          // first stage: jobs_max
  std::size_t batch = 0;                  // tasks that a thread takes, 64 at most; 0: as many
                                          // as take 50 us; execute, in lock step: by the hint
};

// How tasks go from stage to stage: each as soon as it can, or all together.
enum class Handover : std::uint8_t { kFreeFlow, kLockStep };
const char* handover_name(Handover handover);  // "free-flow", "lock-step"

// What the pipeline is for.
enum class Hint : std::uint8_t {
  kThroughput,  // short runs are given to a kernel in advance; in lock step batches of 8
  kLatency,     // one run in advance at most; in lock step batches of 1
};

// Who computes what an execute stage gives.
enum class DebugMode : std::uint8_t {
  kDevice,  // as configured
  kHost,    // the host computes in place of the devices
  kBoth,    // both, and every layer is compared; the first difference is an error
};
// What is compared while a pipeline runs.
struct DebugOptions {
  DebugMode mode = DebugMode::kDevice;
  std::int64_t every = 1;  // one of `every` tasks; the others run on the device
};

// The stages of a pipeline, and how tasks go through them.
struct PipelineOptions {
  std::vector<StageOptions> stages = {};  // 1 to 16
  Handover handover = Handover::kFreeFlow;
  Hint hint = Hint::kThroughput;
  std::size_t jobs_max = 256;  // in flight, of all streams together
  bool tune = false;           // balance the threads of the stages while running
  // Called with what tuning did and why. What it throws is counted in PipelineStatus.
  std::function<void(const std::string&)> tuning_log = {};
  DebugOptions debug = {};
};
// pre | execute | post of one model.
std::vector<StageOptions> default_stages(const Model& model);
// A stage "decode" to stand before them: reads the .png or .jpg file whose path is the task's
// payload (std::shared_ptr<std::string>) and makes it the model's only input.
StageOptions picture_stage(const Model& model, const PictureInput& how = {});

// One stage, now and since the pipeline was opened.
struct StageStatus {
  std::string name;
  StageKind kind = StageKind::kHost;
  int threads = 0, running = 0;  // threads; those that work now
  int kernels = 0;               // execute: that it uses
  std::size_t queued = 0, capacity = 0;
  std::int64_t tasks = 0, batches = 0;
  std::chrono::nanoseconds busy{0};         // of all threads together, up to now
  std::chrono::nanoseconds thread_time{0};  // that they were there: what `busy` is a share of
};

// A pipeline, now and since it was opened.
struct PipelineStatus {
  std::vector<StageStatus> stages;
  std::size_t in_flight = 0, jobs_max = 0;
  std::int64_t submitted = 0, succeeded = 0, failed = 0, cancelled = 0, late = 0;
  std::int64_t compared = 0, mismatches = 0;  // debugging
  bool tuning = false;
  DebugMode debug = DebugMode::kDevice;
  std::int64_t callbacks_threw = 0;  // callbacks of tasks, and the tuning log
  std::string callback_error;        // what the last of them threw
};

// Stages with threads of their own, and queues between them. For several threads at once.
class Pipeline {
 public:
  explicit Pipeline(std::shared_ptr<runtime::PipelineState> state) : state_(std::move(state)) {}

  // A stream of its own order and priority; there may be many.
  Stream open_stream(const StreamOptions& options = {});
  PipelineStatus status() const;  // as of now
  // While tasks flow; none is lost. The error says what is allowed.
  Status set_threads(const std::string& stage, int threads);
  Status set_kernels(const std::string& stage, int kernels);  // likewise
  void set_tuning(bool on);                                   // PipelineOptions::tune
  void set_debug(const DebugOptions& debug);                  // PipelineOptions::debug
  // Waits until all tasks of all streams are done.
  void wait_until_done();
  Status usable() const;  // as Runtime::usable

 private:
  std::shared_ptr<runtime::PipelineState> state_;  // shared with its streams
};

// ---------------------------------------------------------------------------------- runtime

// A device, now and since the runtime was opened.
struct DeviceStatus {
  std::string name;
  DeviceKind kind = DeviceKind::kHost;
  int kernels = 0;
  bool healthy = true;
  std::string fault;  // why not
  std::int64_t runs = 0;
  int functions = 1;            // virtual functions of its cores, of which it is one
  std::int64_t joint_runs = 0;  // of a virtual function, beside those of others
  std::int64_t late_runs = 0;   // paced: the model was slower than the modelled processor
  // That lasted far too long here, were given up and made again elsewhere.
  std::int64_t runs_made_again = 0;
  std::int64_t bytes_in = 0, bytes_out = 0;  // moved between host and device
  std::int64_t weight_bytes = 0;             // of those going in
  // Within the host's memory, where the bytes of a tensor could not be used in place.
  std::int64_t bytes_copied = 0;
  std::chrono::nanoseconds busy{0};                   // of all kernels together, up to now
  std::vector<std::chrono::nanoseconds> kernel_busy;  // of each
};

// Where the page is served, and of what.
struct LiveViewOptions {
  std::string listen = "127.0.0.1:0";  // PORT or ADDRESS:PORT; port 0: any that is free
  std::string title = "Tessera";
  std::vector<Pipeline> pipelines = {};  // whose stages can be changed there; they stay open
  std::vector<VirtualCard> cards = {};   // that are drawn there, with who has which cores
};

// A server of the live page, of figures for Prometheus and of what `tessera top` shows, for as long
// as a handle to it lives.
class LiveView {
 public:
  explicit LiveView(std::shared_ptr<runtime::LiveViewState> state) : state_(std::move(state)) {}
  std::string url() const;  // "http://127.0.0.1:8080"

 private:
  std::shared_ptr<runtime::LiveViewState> state_;  // shared by its handles
};

// A file of all events, one JSON object per line, for as long as a handle to it lives or until
// finish(). `tessera trace` makes a trace of it.
class EventRecording {
 public:
  // How far the file is.
  struct Progress {
    std::int64_t events = 0, bytes = 0;  // written
    std::int64_t lost = 0;               // more than the disk could take, or after its error
    Status status;                       // the first error of the disk
  };
  explicit EventRecording(std::shared_ptr<runtime::EventRecordingState> state)
      : state_(std::move(state)) {}
  Progress progress() const;  // as of now
  // All events up to now are in the file; the error is the first of the disk.
  Status finish();

 private:
  std::shared_ptr<runtime::EventRecordingState> state_;  // shared by its handles
};

class DynamicNetwork;   // tessera/dynamic_network.h
class DynamicPipeline;  // tessera/dynamic_pipeline.h
struct DynamicPipelineOptions;
class GrowingPipeline;  // tessera/growing_pipeline.h
struct GrowingOptions;
struct GrowingPipelineOptions;

// The devices, and all that runs on them. For several threads at once.
class Runtime {
 public:
  // Opens the devices; the error names the option that is wrong.
  static Result<Runtime> open(const RuntimeOptions& options = {});

  // Puts the network on the devices named (all, if none is). A network that is there already is not
  // sent again.
  Result<Model> load(const Network& network, const std::vector<std::string>& devices = {});
  // The same, but the conversions at the network's edges (float32 to float16, say) are those of the
  // stages pre and post, and what moves between host and device is in the device's formats: the
  // same bits, fewer bytes and cycles. Compiles the network once more.
  Result<Model> load_in_device_form(const Network& network,
                                    const std::vector<std::string>& devices = {});
  // With the stages pre, execute and post of the model where the options name none. The error says
  // what is wrong with a stage.
  Result<Pipeline> open_pipeline(const Model& model, PipelineOptions options = {});
  // The same with the stages of the options.
  Result<Pipeline> open_pipeline(PipelineOptions options);
  // Of one model for inputs of many shapes: tessera/dynamic_pipeline.h.
  Result<DynamicPipeline> open_pipeline(const DynamicNetwork& network,
                                        const DynamicPipelineOptions& options);
  // Of an ONNX model whose states grow by a row with each task: tessera/growing_pipeline.h.
  Result<GrowingPipeline> open_pipeline(const std::string& path, const GrowingOptions& growing,
                                        const GrowingPipelineOptions& options);

  // Single layers and operations on the memory of a device: tessera/memory.h. Of the options the
  // stages do not count.
  Result<Memory> open_memory(const std::string& device);
  // The layers of a network on the memory's device.
  Result<Layers> load_layers(const Network& network, const Memory& memory);
  // A pipeline for Stream::submit_layer and submit_operation.
  Result<Pipeline> open_operations(PipelineOptions options = {});

  // In the order in which they were opened.
  std::vector<DeviceStatus> devices() const;
  // The newest 262,144 events.
  Status write_trace(const std::string& path) const;   // Perfetto / Chrome trace JSON
  Status write_events(const std::string& path) const;  // JSON lines
  std::string prometheus() const;                      // Prometheus text
  // Every event from now on, however long the run. What is at `path` is replaced.
  Result<EventRecording> record_events(const std::string& path);
  // The error is that of the address.
  Result<LiveView> open_live_view(const LiveViewOptions& options = {});
  // kUnavailable in a process that was forked off after the opening: the threads are not there. All
  // calls on what was opened from this runtime fail there at once, those without a result of their
  // own do nothing, and handles can be given up.
  Status usable() const;

 private:
  explicit Runtime(std::shared_ptr<runtime::RuntimeState> state) : state_(std::move(state)) {}
  std::shared_ptr<runtime::RuntimeState> state_;  // shared with models and pipelines
};

}  // namespace tessera

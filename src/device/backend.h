// What one kind of processor can do. Everything that is the same for all kinds, memory, queues,
// completions, failure and pacing, is in queued_device.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace tessera::device {

// A program in place: what a kernel runs.
class Loaded {
 public:
  virtual ~Loaded() = default;
  struct Tensor {
    std::string name;
    Bytes bytes;
  };
  std::string name;
  std::vector<Tensor> inputs, outputs;
  Cycles expected_cycles = 0;  // of a run, by the model; 0: not known
};

// Names and sizes of a network's tensors.
std::vector<Loaded::Tensor> loaded_tensors(const std::vector<TensorDescription>& tensors);

// Programs that share a weight region.
struct LoadedSet {
  // Bytes to be sent to the device; empty where it shares the host's memory.
  std::vector<std::byte> owned_region;
  std::span<const std::byte> region;
  struct Entry {
    std::unique_ptr<Loaded> loaded;
    LoadedLayer layer;  // of load_layers(); `id` is not set yet
  };
  std::vector<Entry> entries;
};

// The bytes of a run's tensors, in the device's memory.
struct RunViews {
  std::span<const std::span<std::byte>> inputs, outputs;
};

struct RunOutcome {
  Status status;
  Cycles cycles = 0;
  std::int64_t clock_hertz = 0;  // 0: the run takes as long as it takes
  std::uint32_t status_flags = 0;
  bool timing_reused = false;
  // Of a core that several devices share: whether it ran beside others; when the core was called,
  // when the run began by the pace's schedule, when its values were there. Stopped: it was
  // interrupted while it waited for the core, and did not begin.
  bool joint = false, stopped = false;
  TimePoint called = {}, begin = {}, ready = {};
  Cycles end = 0;                 // since the core began, of which `cycles` are the processor's
  std::int64_t bytes_copied = 0;  // of tensors that were not used in place
  std::shared_ptr<const RunResult> details;
  std::shared_ptr<const std::vector<ValueNote>> value_notes;  // null: none
};

// A run of a device whose backend's runs wait for a core, seen by the core.
class RunTurn {
 public:
  RunTurn(int priority_of, TimePoint since) : priority(priority_of), enqueued(since) {}
  virtual ~RunTurn() = default;
  RunTurn(const RunTurn&) = delete;
  RunTurn& operator=(const RunTurn&) = delete;

  // By the kernel's thread: returns when over() was called, or false when the device is reset or
  // ends before.
  virtual bool wait() = 0;
  virtual void wait_until_over() = 0;
  // By the core's thread, once each, without locks held: the run begins; it is over, and the turn is
  // not used any more.
  virtual void begin(TimePoint at) = 0;
  virtual void over() = 0;

  const int priority;        // of the submission
  const TimePoint enqueued;  // it does not begin before
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Properties& properties() const = 0;
  // May be called while kernels run.
  virtual Result<LoadedSet> load(const std::shared_ptr<const NetworkState>& network) = 0;
  virtual Result<LoadedSet> load_layers(const std::shared_ptr<const NetworkState>& network) = 0;
  // The region of the set has arrived, and stays where it is.
  virtual Status place(LoadedSet& set, std::span<const std::byte> region) = 0;
  // The host has written these bytes, or is about to read them, in the device's memory: for one whose processor
  // is elsewhere, and has tensors there that this memory has not.
  virtual void host_wrote(std::span<const std::byte> /*bytes*/) {}
  virtual Status host_reads(std::span<std::byte> /*bytes*/) { return {}; }
  // Whether run() calls RunTurn::begin(). If not, a run begins when it is called.
  virtual bool waits_for_core() const { return false; }
  // On the kernel's thread; kernels side by side.
  virtual RunOutcome run(const ActivityObserver::Run& run, Loaded& loaded, const RunViews& views,
                         RunTurn& turn) = 0;
};

}  // namespace tessera::device

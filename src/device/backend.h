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
  std::int64_t bytes_copied = 0;  // of tensors that were not used in place
  std::shared_ptr<const RunResult> details;
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
  // On the kernel's thread; kernels side by side.
  virtual RunOutcome run(const ActivityObserver::Run& run, Loaded& loaded,
                         const RunViews& views) = 0;
};

}  // namespace tessera::device

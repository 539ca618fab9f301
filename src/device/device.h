// One interface to every kind of processor: its memory, what is loaded, runs side by side.
//
//   load(network) ─► id     allocate, write ─► submit(id, kernel, addresses) ─► sequence number
//                                              wait(sequence, deadline) ─► completion; read
//
//   host threads        queue of each kernel (bounded)        kernels (cores), a thread each
//   submit() ──────────► [ 12 | 9 | 7 ] ────────────────────► kernel 0: run 5   ─┐
//   submit() ──────────► [ 13 | 10 ] ───────────────────────► kernel 1: run 6   ─┤ completions by
//   wait(), or a listener ◄──────────────────────────────────────────────────────┘ sequence number
//
// Every call may come from any thread at any time. Submissions of one kernel run in their order,
// those of a higher priority first; kernels run side by side. While the blocks of the next run are
// written a kernel works on the one before, and it goes on without a gap where its queue holds
// another.
//
// Memory: a device has an address space of its own. allocate() hands out blocks of it, and an
// address inside a block is base + offset. A block that is released goes to a set of unused ones
// and is taken from there first. A block that a run still uses when it is released is kept apart
// until that run is over, or the device was reset; so a caller may stop waiting and release.
//
// What goes wrong is an error of the one it belongs to: a bad submission is refused, a failing run
// ends in its completion, a run that does not end in time ends at the deadline of wait(), and a
// device that answers nonsense is failed: it refuses everything until reset().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/quantity.h"
#include "base/result.h"
#include "memory/block_pool.h"
#include "network/network.h"
#include "tessera/device_kind.h"
#include "tessera/network.h"
#include "tessera/run_result.h"

namespace tessera::device {

using TimePoint = std::chrono::steady_clock::time_point;
inline constexpr TimePoint kNoDeadline = TimePoint::max();

// A byte of the device's address space.
struct Address {
  std::uint64_t value = 0;
  friend auto operator<=>(const Address&, const Address&) = default;
  friend Address operator+(Address a, Bytes offset) {
    return {a.value + static_cast<std::uint64_t>(offset.value)};
  }
};
struct MemoryBlock {
  Address base;
  Bytes bytes;
};

enum class LoadedId : std::uint64_t {};
enum class SequenceNumber : std::uint64_t {};  // ascending in the order of submission

struct Properties {
  std::string name;  // "sim0", as the options say
  std::string kind;  // "sim", "host", "ref", "scripted"
  int kernels = 1;
  std::int64_t clock_hertz = 0;  // 0: no modelled clock
  Bytes memory;
  int functions = 1;           // virtual functions of each core, of which this device is one
  int queue_depth = 1;         // submissions that wait for each kernel
  bool shared_memory = false;  // the host sees it: host_view() works, and nothing need be moved
  bool values = true;          // false: runs leave outputs as they are (timing only)
  // Each run ends by itself, with an error where what made it is gone: none hangs, however long it takes.
  bool ends_runs = false;
};

// One layer of a network, loaded by itself: a node of the typed graph. Its weights are bytes
// [weight_offset, weight_offset + weight_bytes) of the one region that all layers share.
struct LoadedLayer {
  LoadedId id{};
  std::string name;
  // Tensors of the network's graph, in the order of the submission's addresses. Constants are no
  // inputs: they are in the weight region.
  std::vector<graph::TensorId> inputs, outputs;
  Bytes weight_offset, weight_bytes;
};

inline constexpr int kAnyKernel = -1;  // the one with the shortest queue

// Whose a transfer is, for the observer: the inputs and outputs of a run are of its kernel and
// task; what several runs share (weights) is of the device as a whole.
inline constexpr int kWholeDevice = -1;
struct TransferTag {
  int kernel = kWholeDevice;
  std::uint64_t task = 0;  // the tag of the run's submission
};

struct Completion {
  Status status;  // of the run
  SequenceNumber sequence{};
  std::uint64_t tag = 0;
  int kernel = 0;
  Cycles cycles = 0;  // 0 without a modelled clock
  std::uint32_t status_flags = 0;
  // When the run began and ended; of a paced device, by its own clock.
  TimePoint begin, end;
  bool late = false;  // paced: the model was slower than the modelled processor
  // Engines, layers, timeline; null without a modelled clock. Shared by runs whose timing is
  // reused.
  std::shared_ptr<const RunResult> details;
  std::shared_ptr<const std::vector<ValueNote>> value_notes;  // as in RunResult; null: none
};

// Called with the end of a run, in place of wait().
class RunListener {
 public:
  virtual ~RunListener() = default;
  struct End {
    Status status;          // not ok: the device failed or was reset, and the outcome is unknown
    bool begun = true;      // false: it did not begin, and never will
    Completion completion;  // if `status` is ok
  };
  // Called once, by any thread, with the device's lock held: it must not call the device, and must
  // not wait for a thread that does.
  virtual void run_over(void* context, End&& end) = 0;
};

struct Submission {
  LoadedId loaded{};
  int kernel = kAnyKernel;
  // A block, or a part of one, for each input and output, in the order of the network's or layer's.
  std::span<const Address> inputs, outputs;
  std::uint64_t tag = 0;  // the caller's; comes back in completion, metrics and messages
  int priority = 0;       // of those that wait for a kernel the highest begins first
  // Not null: it is called with `context`, and wait() is not called. It lives until it was called,
  // or until the run was withdrawn.
  RunListener* listener = nullptr;
  void* context = nullptr;
  // Released when the device no longer uses the run and its blocks, which may be after it was
  // given up or refused: it ended or never began, or the device was reset. On any thread, without
  // locks held.
  std::shared_ptr<void> keeps = {};
  // The caller calls run_queued() next: the kernel's thread is not woken, which for a short run takes
  // longer than the run.
  bool caller_runs = false;
};

// The state of a run that was withdrawn.
enum class Withdrawn {
  kNotBegun,  // it never will begin; its blocks are free
  kBegun,     // it goes on
  kOver,      // it was over already, and its listener was called
};

// What a kernel has to do: what it runs, since when, and what waits for it, the next in front.
struct KernelWork {
  struct Waiting {
    LoadedId loaded{};
    int priority = 0;
  };
  bool running = false;
  LoadedId loaded{};
  TimePoint since{};
  std::vector<Waiting> waiting;  // keeps its room
};

enum class HealthState {
  kOk,
  kFailed,   // refuses everything; reset() it
  kProbing,  // was reset; the first good run makes it kOk, a device error fails it again
};
const char* health_state_name(HealthState state);  // "ok", "failed", "probing"
struct Health {
  HealthState state = HealthState::kOk;
  std::string reason;  // of the last failure
};

struct DeviceCounters {
  memory::PoolCounters memory;
  std::int64_t bytes_to_device = 0, bytes_to_host = 0;  // moved over the link
  std::int64_t transfers_to_device = 0, transfers_to_host = 0;
  std::int64_t weight_bytes = 0;  // of bytes_to_device
  // Within the memory of the host, where a run could not use a tensor's bytes in place.
  std::int64_t bytes_copied = 0;
  std::int64_t programs_loaded = 0, programs_unloaded = 0;  // a layer is one
  std::int64_t submissions = 0, completions = 0;
  std::int64_t run_errors = 0;         // completions with an error
  std::int64_t given_up = 0;           // abandoned runs
  std::int64_t withdrawn = 0;          // of them those that had not begun
  std::int64_t wrong_completions = 0;  // of a run that was never submitted, or twice
  std::int64_t lost_completions = 0;   // noticed by a later one of the same kernel
  std::int64_t late_completions = 0;   // of abandoned runs
  std::int64_t resets = 0;
  std::int64_t late_runs = 0;       // paced, but slower than the modelled clock
  std::int64_t timings_reused = 0;  // runs whose cycles were not simulated again
  std::int64_t joint_runs = 0;      // of a virtual function, beside those of others on the core
};

// Called with everything the device does, on the thread that does it, without locks held.
// It must not block, and must not call the device.
class ActivityObserver {
 public:
  virtual ~ActivityObserver() = default;
  struct Run {
    int kernel = 0;
    SequenceNumber sequence{};
    std::uint64_t tag = 0;
    LoadedId loaded{};
  };
  virtual void run_began(const Run& run, TimePoint begin) = 0;
  virtual void run_ended(const Run& run, const Completion& completion) = 0;
  struct Transfer {
    TransferTag tag;
    bool to_device = true;
    Bytes bytes;
    TimePoint begin, end;
  };
  virtual void transferred(const Transfer& transfer) = 0;
  // It was unloaded, and its last run is over. Locks of the device may be held.
  virtual void unloaded(LoadedId /*loaded*/) {}
};

class Device {
 public:
  // No call is under way, and what has been submitted is forgotten.
  virtual ~Device() = default;

  virtual const Properties& properties() const = 0;

  virtual Result<MemoryBlock> allocate(Bytes bytes) = 0;
  virtual Status release(const MemoryBlock& block) = 0;
  // Gives up the blocks that are kept for use again: one may be up to twice as large as what it
  // holds next.
  virtual void trim() = 0;
  // Where host and device share memory: a block whose bytes are the caller's, so that runs read and
  // write them in place. It takes none of the device's memory. `owner` keeps the bytes; it is
  // released when the block is released and no run uses it any more, on any thread, no locks held.
  virtual Result<MemoryBlock> adopt(std::span<std::byte> bytes, std::shared_ptr<void> owner) = 0;
  // Inside one block. A kernel must not be using the bytes.
  virtual Status write(Address address, std::span<const std::byte> bytes,
                       const TransferTag& tag = {}) = 0;
  virtual Status read(Address address, std::span<std::byte> bytes, const TransferTag& tag = {}) = 0;
  // The bytes themselves, where host and device share memory; nothing is moved, nothing counted.
  virtual Result<std::span<std::byte>> host_view(Address address, Bytes bytes) = 0;

  // Weights go over once, as one region that all kernels read. What is loaded already moves
  // nothing and has the same id.
  virtual Result<LoadedId> load(std::shared_ptr<const NetworkState> network) = 0;
  // Each node of the network's typed graph as a program of its own; one weight region for all.
  virtual Result<std::vector<LoadedLayer>> load_layers(
      std::shared_ptr<const NetworkState> network) = 0;
  // To be called once for each load(), and for each load_layers() with the id of any one layer.
  // After the last of them the id stands for nothing, and the weights' block goes to the unused set
  // when the runs that use it are over.
  virtual Status unload(LoadedId loaded) = 0;

  // Waits for room in the kernel's queue until `deadline`; then, or from a failed device, the
  // error is kUnavailable. A deadline in the past does not wait.
  virtual Result<SequenceNumber> submit(const Submission& submission,
                                        TimePoint deadline = kNoDeadline) = 0;
  // Each sequence number can be waited for once. The error is kUnavailable if the run is not over
  // by `deadline`, or the device fails or is reset; names device, kernel and task. A run that has
  // not begun by then never will; one that has keeps its blocks until it is over.
  virtual Result<Completion> wait(SequenceNumber sequence, TimePoint deadline = kNoDeadline) = 0;
  // What was submitted with `caller_runs`: where nothing runs on the kernel, the calling thread runs what
  // is first in its queue, and its listener is called; else, or where a run may last (paced, shared cores,
  // planned faults), the kernel does. Without locks held that a listener takes.
  virtual void run_queued(int /*kernel*/) {}
  // Takes back a submission with a listener, which is then not called: one that has not begun never
  // will. One that has goes on, and its listener is called, but not with `give_up`; its blocks are
  // kept until it is over.
  virtual Withdrawn withdraw(SequenceNumber sequence, bool give_up) = 0;
  // Submissions that wait for the kernel, and the one it runs.
  virtual int queued(int kernel) const = 0;
  virtual void look_at(int kernel, KernelWork& work) const = 0;
  // How long a run takes on the wall clock by the model of the processor; 0: that is not known.
  virtual std::chrono::nanoseconds modelled_time(LoadedId loaded) const = 0;

  virtual Health health() const = 0;
  // The caller has seen enough errors: runs that wait end with an error, later ones are refused.
  virtual void fail(const std::string& reason) = 0;
  // Stops what can be stopped and forgets all submissions; memory and what is loaded stay. The
  // error is kUnavailable if a kernel does not come to rest by `deadline`.
  virtual Status reset(TimePoint deadline = kNoDeadline) = 0;

  virtual DeviceCounters counters() const = 0;
  // Null: none. It outlives its use; runs and transfers in progress may still call the one before.
  virtual void set_observer(ActivityObserver* observer) = 0;
};

}  // namespace tessera::device

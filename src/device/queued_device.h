// A device made of a backend: memory, a queue and a thread for each kernel, completions by sequence
// number, failure and recovery, wall time.
//
//   submit ─► hold blocks ─► queue of the kernel ─► thread: [fault plan] backend.run [pace]
//                                                             │
//   wait ◄── submission's condition ◄── complete(sequence) ◄──┘   the only way a completion comes in
//   or its listener
//
// complete() validates: a number that is not running on this device fails it. A kernel runs its
// submissions one after the other, so with the completion of one those before it which have not
// come are lost. A submission that hangs, or whose completion is lost and followed by none, stays
// with the device, and so do its blocks, until reset().
//
// What is loaded is counted, and shared with the submissions that run it: the last one releases the
// block of its weights.
//
// A backend whose runs wait for a core (a virtual function's) says when each begins; until then it is
// on its kernel, and its limit does not count.
//
// Paced, a kernel keeps a schedule of absolute times: a run begins when the one before ends, or
// when it was submitted if that is later, and ends cycles / clock after that. How late the thread
// wakes up therefore does not add up. A run that the model computes more slowly than the modelled
// processor is late: it ends no earlier than the model does, and is counted.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "base/table.h"
#include "device/backend.h"
#include "device/device_memory.h"
#include "device/device_options.h"
#include "device/fault_plan.h"
#include "device/submission_table.h"

namespace tessera::device {

struct QueueOptions {
  int queue_depth = 4;
  Pace pace = {};
  std::chrono::nanoseconds run_limit{0};
  FaultPlan faults = {};
};

class QueuedDevice : public Device {
 public:
  // Starts the kernels' threads. The error is kUnavailable: the system has none left.
  static Result<std::unique_ptr<Device>> create(std::unique_ptr<Backend> backend,
                                                QueueOptions options);
  ~QueuedDevice() override;

  const Properties& properties() const override { return properties_; }
  Result<MemoryBlock> allocate(Bytes bytes) override;
  Status release(const MemoryBlock& block) override;
  void trim() override { memory_.trim(); }
  Result<MemoryBlock> adopt(std::span<std::byte> bytes, std::shared_ptr<void> owner) override;
  Status write(Address address, std::span<const std::byte> bytes, const TransferTag& tag) override;
  Status read(Address address, std::span<std::byte> bytes, const TransferTag& tag) override;
  Result<std::span<std::byte>> host_view(Address address, Bytes bytes) override;
  Result<LoadedId> load(std::shared_ptr<const NetworkState> network) override;
  Result<std::vector<LoadedLayer>> load_layers(
      std::shared_ptr<const NetworkState> network) override;
  Status unload(LoadedId loaded) override;
  Result<SequenceNumber> submit(const Submission& submission, TimePoint deadline) override;
  Result<Completion> wait(SequenceNumber sequence, TimePoint deadline) override;
  void run_queued(int kernel) override;
  Withdrawn withdraw(SequenceNumber sequence, bool give_up) override;
  int queued(int kernel) const override;
  void look_at(int kernel, KernelWork& work) const override;
  std::chrono::nanoseconds modelled_time(LoadedId loaded) const override;
  Health health() const override;
  void fail(const std::string& reason) override;
  Status reset(TimePoint deadline) override;
  DeviceCounters counters() const override;
  void set_observer(ActivityObserver* observer) override { observer_ = observer; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Kernel {
    std::vector<PendingSubmission*> queue;  // first in front; room for queue_depth
    PendingSubmission* running = nullptr;
    std::vector<PendingSubmission*>
        begun;            // whose completion has not come, in the order they began
    TimePoint free_at{};  // paced: when the last run ended by the schedule
    std::condition_variable work, interrupted;
    std::thread thread;
  };
  // How a run on the kernel's thread went.
  struct Executed {
    Completion completion;
    Fault fault = Fault::kNone;
    bool stopped = false;  // by reset() or the end of the device
  };

  // Copies between device and host; observed, counted, and paced.
  enum class Direction { kToDevice, kToHost };
  Status transfer(Direction direction, Address address, std::span<std::byte> host,
                  const TransferTag& tag);
  TimePoint link_time(Direction direction, std::int64_t bytes, TimePoint begin);

  class WeightRegion;
  class Turn;
  struct Placed {
    LoadedSet set;
    std::shared_ptr<const WeightRegion> region;  // shared by the set's programs; null: none
  };
  QueuedDevice(std::unique_ptr<Backend> backend, QueueOptions options);
  Status start();

  Result<Placed> place(Result<LoadedSet> set);
  std::vector<LoadedLayer> keep(std::shared_ptr<const NetworkState> network, bool layers,
                                Placed& placed);
  Result<std::shared_ptr<Loaded>> check(const Submission& submission) const;
  Status hold_blocks(const Submission& submission, PendingSubmission& pending);
  void drop_holds(PendingSubmission& pending);
  void wake_to_bury();
  int choose_kernel(const Submission& submission) const;

  void kernel_loop(int index);
  void run_first(Lock& lock, Kernel& kernel);  // which is not held meanwhile
  RunOutcome run_backend(const PendingSubmission& pending, RunTurn& turn);
  void compute(Kernel& kernel, PendingSubmission& pending, std::uint64_t generation,
               Executed& executed);
  void bury(Lock& lock);  // which is not held meanwhile
  void watch_loop();
  Executed execute(Kernel& kernel, PendingSubmission& pending, std::uint64_t generation);
  Fault planned_fault(const PendingSubmission& pending);
  // Sleeps until `due`; false if interrupted.
  bool sleep_until(Kernel& kernel, TimePoint due, std::uint64_t generation);

  // With the lock held.
  void settle(Kernel& kernel, PendingSubmission& pending, Executed& executed);
  void complete(SequenceNumber sequence, Completion completion);
  void refuse(PendingSubmission& pending, Error error);
  void end(PendingSubmission& pending);
  void find_lost(Kernel& kernel, const PendingSubmission& reported);
  void fail_locked(std::string reason);
  void enqueue(Kernel& kernel, PendingSubmission& pending, bool caller_runs);
  void tell(PendingSubmission& pending, Status status);
  void take_from_queue(PendingSubmission& pending);
  // The run that began first of those whose completion has not come; null: there is none.
  const PendingSubmission* longest_running() const;
  std::string place_name(const PendingSubmission& pending) const;
  Error given_up(PendingSubmission& pending);

  const std::unique_ptr<Backend> backend_;
  const Properties properties_;
  const QueueOptions options_;
  DeviceMemory memory_;
  std::atomic<ActivityObserver*> observer_{nullptr};

  std::mutex load_mutex_;  // one load at a time; before mutex_
  struct Known {
    std::shared_ptr<const NetworkState> network;  // shared with the caller; keeps its address taken
    bool layers = false;
    std::vector<LoadedLayer> loaded;
    std::int64_t uses = 1;
  };
  Known* find_known(const NetworkState& network, bool layers);
  std::vector<Known> known_;
  std::uint64_t next_loaded_ = 0;

  std::mutex fault_mutex_;  // around the fault plan's functions
  std::mutex reset_mutex_;  // one reset at a time; before mutex_

  mutable std::mutex mutex_;  // everything below
  std::condition_variable room_, idle_, watched_;
  bool watch_sleeps_ = false;                           // until a run begins
  std::map<LoadedId, std::shared_ptr<Loaded>> loaded_;  // shared with the submissions that run it
  SubmissionTable submissions_;
  Table<int, std::unique_ptr<Kernel>> kernels_;
  FixedTable<Direction, TimePoint, 2> link_free_at_{};  // paced
  std::uint64_t next_sequence_ = 1;
  std::uint64_t generation_ = 0;  // of resets
  bool stop_ = false;
  Health health_;
  DeviceCounters counters_;
  std::thread watch_;  // where runs have a limit
};

}  // namespace tessera::device

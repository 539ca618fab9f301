// Submissions of a device by sequence number: found in constant time, no memory taken once the
// table has seen its largest number of them.
//
//   sequence & (size - 1) ─► slot ─► submission ─► submission     numbers ascend: two meet only where
//                                                                 one stays far longer than others
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/backend.h"
#include "device/device_memory.h"

namespace tessera::device {

// A submission from submit() to its completion's being fetched.
struct PendingSubmission {
  enum class State {
    kQueued,
    kRunning,  // on its kernel; or its completion was lost
    kDone,     // `completion` is there, or `refused` says why not
  };
  ActivityObserver::Run run;
  int priority = 0;
  RunListener* listener = nullptr;  // not yet called
  void* context = nullptr;
  std::shared_ptr<Loaded> loaded;  // shared with the device, which may unload it meanwhile
  std::vector<Address> held;       // inputs, then outputs
  std::vector<std::span<std::byte>> inputs, outputs;
  DeviceMemory::Owners keeps;  // until it does not use its blocks any more
  State state = State::kQueued;
  bool waits_for_core = false;  // on its kernel, and has not begun
  bool waited_for = false;      // wait() was called, once
  bool abandoned = false;       // and gave up: the end of the submission removes it
  TimePoint enqueued, started;
  Status refused;  // not ok: the device failed or was reset, and the outcome is unknown
  Completion completion;
  std::condition_variable over;
  PendingSubmission* behind = nullptr;  // in its slot

  std::uint64_t number() const { return static_cast<std::uint64_t>(run.sequence); }
};

class SubmissionTable {
 public:
  SubmissionTable() : slots_(64, nullptr) {}

  // An unused submission, in the table under `sequence`.
  PendingSubmission& add(SequenceNumber sequence);
  PendingSubmission* find(SequenceNumber sequence) const;
  void remove(PendingSubmission& pending);
  std::size_t size() const { return submissions_.size() - free_.size(); }
  std::size_t slots() const { return slots_.size(); }
  // Calls visit(submission) for all there are, in no order; it may remove the one it is given.
  template <typename Visit>
  void for_each(const Visit& visit) {
    for (PendingSubmission* pending : slots_) {
      while (pending != nullptr) {
        PendingSubmission* const behind = pending->behind;
        visit(*pending);
        pending = behind;
      }
    }
  }

 private:
  PendingSubmission*& slot(std::uint64_t number) { return slots_[number & (slots_.size() - 1)]; }
  void put(PendingSubmission& pending);
  void grow();

  std::vector<std::unique_ptr<PendingSubmission>> submissions_;
  std::vector<PendingSubmission*> free_, slots_;
};

}  // namespace tessera::device

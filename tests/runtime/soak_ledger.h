// What the soak's tasks came to, and why an error is what had to be.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/runtime.h"

namespace tessera::soak {

using Clock = std::chrono::steady_clock;

// What a task asks of the stages of the application, and what they did; its payload.
struct Orders {
  enum class Kind : std::uint8_t { kNothing, kError, kThrow, kThrowNumber };
  Kind before = Kind::kNothing, after = Kind::kNothing;
  std::atomic<int> before_visits{0}, after_visits{0};
  bool skips_before = false, skips_after = false;
};

// A task that was submitted: what may become of it.
struct TaskRecord {
  Clock::time_point submitted{};
  std::optional<std::chrono::nanoseconds> deadline;
  std::atomic<bool> cancel_asked{false};
  std::atomic<int> ended{0};
  bool stage_fails = false;
  bool callback_throws = false;
  bool reads_blocks = false;            // which may hold nothing
  std::int64_t failed_allocations = 0;  // of the program, before
};

enum class End : std::uint8_t {
  kRight,
  kCancelled,
  kLate,
  kRunFailed,  // the device said so, by its plan
  kComputeFailed,
  kCompletionLost,
  kDeviceFailed,  // while the task was there
  kStageFailed,
  kBlockEmpty,  // the task that was to write it failed
  kAllocation,
  kCount,
};
inline constexpr std::size_t kEnds = static_cast<std::size_t>(End::kCount);
const char* end_name(End end);

// Outcomes of one pipeline, as they were reported.
struct Tally {
  std::atomic<std::int64_t> submitted{0}, succeeded{0}, failed{0}, cancelled{0}, late{0};
  std::atomic<std::int64_t> callbacks_threw{0};
};

class Ledger {
 public:
  std::shared_ptr<TaskRecord> open() const;
  // Submit said no: true if an allocation that failed explains it.
  void refused(const TaskRecord& record, const Error& error);
  // Once for each task. `right`: whether an outcome that is a result has the right bits.
  void ended(TaskRecord& record, const TaskOutcome& outcome, bool right, const std::string& where,
             Tally& tally);
  // Something that must not be.
  void unexplained(const std::string& what, const std::string& where = "");
  // Nothing goes wrong any more with devices and memory: an error of theirs is not explained.
  void set_calm(bool calm) { calm_ = calm; }

  std::int64_t count(End end) const { return ends_[static_cast<std::size_t>(end)].load(); }
  std::int64_t total() const;
  std::int64_t refusals() const { return refusals_; }
  std::int64_t problems() const { return problems_; }
  // Grows as long as tasks end.
  std::int64_t progress() const { return progress_; }
  void progressed() { ++progress_; }

 private:
  std::optional<End> explain(const TaskRecord& record, const TaskError& error) const;

  std::array<std::atomic<std::int64_t>, kEnds> ends_{};
  std::atomic<std::int64_t> refusals_{0}, problems_{0}, progress_{0};
  std::atomic<bool> calm_{false};
  std::mutex mutex_;
  std::map<std::string, int> kinds_;  // of problems
};

// What the process has of the system's.
struct Footprint {
  std::int64_t resident_kib = 0, heap_kib = 0;
  int threads = 0, descriptors = 0;
};
Footprint footprint();

}  // namespace tessera::soak

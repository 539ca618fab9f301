#include "soak_ledger.h"

#include <fmt/format.h>
#include <malloc.h>

#include <filesystem>
#include <fstream>

#include "soak_faults.h"

namespace tessera::soak {
namespace {

constexpr int kShown = 5;  // problems of one kind that are printed

// A problem without its numbers.
std::string kind_of(const std::string& problem) {
  std::string kind;
  std::copy_if(problem.begin(), problem.end(), std::back_inserter(kind),
               [](char c) { return c < '0' || c > '9'; });
  return kind;
}

bool says(const TaskError& error, const char* text) {
  return error.error.message.find(text) != std::string::npos;
}

bool says_any(const TaskError& error, std::initializer_list<const char*> texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const char* text) { return says(error, text); });
}

}  // namespace

const char* end_name(End end) {
  constexpr std::array<const char*, kEnds> kNames = {
      "right result",       "cancelled",        "late",          "run failed",
      "computation failed", "completion lost",  "device failed", "stage failed",
      "block held nothing", "allocation failed"};
  return kNames[static_cast<std::size_t>(end)];
}

std::shared_ptr<TaskRecord> Ledger::open() const {
  auto record = std::make_shared<TaskRecord>();
  record->submitted = Clock::now();
  record->failed_allocations = failed_allocations();
  return record;
}

void Ledger::refused(const TaskRecord& record, const Error& error) {
  ++refusals_;
  if (failed_allocations() > record.failed_allocations) return;
  unexplained(fmt::format("a task was refused: {}", error.to_string()));
}

std::optional<End> Ledger::explain(const TaskRecord& record, const TaskError& error) const {
  switch (error.failure) {
    case TaskFailure::kCancelled:
      return record.cancel_asked ? std::optional(End::kCancelled) : std::nullopt;
    case TaskFailure::kDeadline:
      if (!record.deadline || Clock::now() < record.submitted + *record.deadline) {
        return std::nullopt;
      }
      return End::kLate;
    case TaskFailure::kNone:
    case TaskFailure::kMismatch:
      return std::nullopt;
    case TaskFailure::kError:
    case TaskFailure::kDevice:
      break;
  }
  if (record.stage_fails && says_any(error, {"ordered", "the stage's function threw"})) {
    return End::kStageFailed;
  }
  if (record.reads_blocks && says(error, "holds nothing")) return End::kBlockEmpty;
  // A machine that does something else for seconds.
  if (says_any(error, {"within the limit of", "a run has lasted"})) return End::kDeviceFailed;
  if (calm_) return std::nullopt;
  if (failed_allocations() > record.failed_allocations &&
      says_any(error, {"not enough memory", "out of memory", "bad_alloc"})) {
    return End::kAllocation;
  }
  if (says(error, "injected: the computation")) return End::kComputeFailed;
  if (error.failure != TaskFailure::kDevice) return std::nullopt;
  if (says(error, "the fault plan says so")) return End::kRunFailed;
  if (says(error, "its completion was lost")) return End::kCompletionLost;
  if (says_any(error, {"has failed", "being reset", "the run was stopped",
                       "no device of this stage is in order", "is not in order"})) {
    return End::kDeviceFailed;
  }
  return std::nullopt;
}

void Ledger::ended(TaskRecord& record, const TaskOutcome& outcome, bool right,
                   const std::string& where, Tally& tally) {
  ++progress_;
  if (record.ended.fetch_add(1) != 0) unexplained("a task ended twice");
  if (outcome.ok()) {
    ++tally.succeeded;
    ++ends_[static_cast<std::size_t>(End::kRight)];
    if (!right) unexplained("a task that succeeded has a wrong result", where);
    return;
  }
  const TaskError& error = outcome.error();
  ++(error.failure == TaskFailure::kCancelled  ? tally.cancelled
     : error.failure == TaskFailure::kDeadline ? tally.late
                                               : tally.failed);
  const std::optional<End> end = explain(record, error);
  if (end) {
    ++ends_[static_cast<std::size_t>(*end)];
    return;
  }
  unexplained(fmt::format("task {} ended with '{}' in stage '{}' on '{}': {}", error.task,
                          task_failure_name(error.failure), error.stage, error.device,
                          error.error.to_string()),
              where);
}

void Ledger::unexplained(const std::string& what, const std::string& where) {
  const std::lock_guard lock(mutex_);
  ++problems_;
  if (++kinds_[kind_of(what)] > kShown) return;
  fmt::print(stderr, "UNEXPLAINED in a {}: {} ({})\n", calm_ ? "calm" : "storm", what, where);
}

std::int64_t Ledger::total() const {
  std::int64_t sum = 0;
  for (const auto& end : ends_) sum += end.load();
  return sum;
}

Footprint footprint() {
  malloc_trim(0);  // what is free, in whatever arena, is no growth
  Footprint now;
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0;
  statm >> size >> now.resident_kib;
  now.resident_kib *= 4;
  now.heap_kib = static_cast<std::int64_t>(mallinfo2().uordblks / 1024);
  const auto entries = [](const char* folder) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      (void)entry;
      ++count;
    }
    return count;
  };
  statm.close();
  now.threads = entries("/proc/self/task");
  now.descriptors = entries("/proc/self/fd");
  return now;
}

}  // namespace tessera::soak

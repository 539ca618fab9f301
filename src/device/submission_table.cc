#include "device/submission_table.h"

#include <algorithm>

namespace tessera::device {

PendingSubmission& SubmissionTable::add(SequenceNumber sequence) {
  if (size() == slots_.size()) grow();
  if (free_.empty()) {
    free_.reserve(tasks_.size() + 1);
    tasks_.push_back(std::make_unique<PendingSubmission>());
    free_.push_back(tasks_.back().get());
  }
  PendingSubmission& task = *free_.back();
  free_.pop_back();
  task.run.sequence = sequence;
  task.state = PendingSubmission::State::kQueued;
  task.waited_for = task.abandoned = false;
  task.listener = nullptr;
  task.refused = {};
  task.completion = {};
  put(task);
  return task;
}

void SubmissionTable::put(PendingSubmission& task) {
  PendingSubmission*& first = slot(task.number());
  task.behind = first;
  first = &task;
}

void SubmissionTable::grow() {
  std::vector<PendingSubmission*> old(slots_.size() * 2, nullptr);
  old.swap(slots_);
  for (PendingSubmission* task : old) {
    while (task != nullptr) {
      PendingSubmission* const behind = task->behind;
      put(*task);
      task = behind;
    }
  }
}

PendingSubmission* SubmissionTable::find(SequenceNumber sequence) const {
  const auto number = static_cast<std::uint64_t>(sequence);
  PendingSubmission* task = slots_[number & (slots_.size() - 1)];
  while (task != nullptr && task->number() != number) task = task->behind;
  return task;
}

void SubmissionTable::remove(PendingSubmission& task) {
  PendingSubmission** place = &slot(task.number());
  while (*place != &task) place = &(*place)->behind;
  *place = task.behind;
  task.completion = {};
  task.loaded.reset();
  free_.push_back(&task);
}

}  // namespace tessera::device

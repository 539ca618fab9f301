#include "device/submission_table.h"

#include <algorithm>

namespace tessera::device {

PendingSubmission& SubmissionTable::add(SequenceNumber sequence) {
  if (size() == slots_.size()) grow();
  if (free_.empty()) {
    free_.reserve(submissions_.size() + 1);
    submissions_.push_back(std::make_unique<PendingSubmission>());
    free_.push_back(submissions_.back().get());
  }
  PendingSubmission& pending = *free_.back();
  free_.pop_back();
  pending.run.sequence = sequence;
  pending.state = PendingSubmission::State::kQueued;
  pending.waits_for_core = pending.waited_for = pending.abandoned = false;
  pending.listener = nullptr;
  pending.refused = {};
  pending.completion = {};
  put(pending);
  return pending;
}

void SubmissionTable::put(PendingSubmission& pending) {
  PendingSubmission*& first = slot(pending.number());
  pending.behind = first;
  first = &pending;
}

void SubmissionTable::grow() {
  std::vector<PendingSubmission*> old(slots_.size() * 2, nullptr);
  old.swap(slots_);
  for (PendingSubmission* pending : old) {
    while (pending != nullptr) {
      PendingSubmission* const behind = pending->behind;
      put(*pending);
      pending = behind;
    }
  }
}

PendingSubmission* SubmissionTable::find(SequenceNumber sequence) const {
  const auto number = static_cast<std::uint64_t>(sequence);
  PendingSubmission* pending = slots_[number & (slots_.size() - 1)];
  while (pending != nullptr && pending->number() != number) pending = pending->behind;
  return pending;
}

void SubmissionTable::remove(PendingSubmission& pending) {
  PendingSubmission** place = &slot(pending.number());
  while (*place != &pending) place = &(*place)->behind;
  *place = pending.behind;
  pending.completion = {};
  pending.loaded.reset();
  free_.push_back(&pending);
}

}  // namespace tessera::device

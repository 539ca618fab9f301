#include "isa/step_clocks.h"

#include <algorithm>
#include <limits>

namespace tessera::isa {
namespace {

constexpr std::size_t kGroupsOfChunk = 8;
constexpr std::uint32_t kNoChunk = UINT32_MAX;

}  // namespace

StepClocks::StepClocks(std::span<const TaskDescriptor> tasks, std::span<const std::uint32_t> cores)
    : tasks_(tasks), groups_(tasks, cores) {
  std::vector<std::int64_t> next(groups_.size(), 0);
  std::vector<TaskId> last(groups_.size(), kNoTask);
  std::int64_t row = 0;
  for (const TaskDescriptor& task : tasks) {
    const std::uint32_t core = cores.empty() ? 0 : cores[group_of_.size()];
    const GroupIndex group = groups_.add(task, core);
    group_of_.push_back(group);
    first_step_.push_back(next[group]);
    first_row_.push_back(row);
    next[group] += task.steps();
    row += task.steps();
    previous_.push_back(last[group]);
    before_first_.push_back(static_cast<std::uint32_t>(before_.size()));
    // With one group a kind, as on most cores, there are no others.
    for (GroupIndex other = 0; groups_.size() > kCommonEngineKindCount && other < last.size();
         ++other) {
      if (other != group && last[other] != kNoTask && groups_.overlap(other, group)) {
        before_.push_back(last[other]);
      }
    }
    last[group] = static_cast<TaskId>(group_of_.size() - 1);
  }
  before_first_.push_back(static_cast<std::uint32_t>(before_.size()));
  rows_ = row;
  width_ = std::min(groups_.size(), kGroupsOfChunk);
  row_chunks_ = (groups_.size() + width_ - 1) / width_;
}

void StepClocks::allocate() {
  kept_.assign(static_cast<std::size_t>(entries()), 0);
  chunks_.assign(width_, 0);
}

std::span<const std::uint32_t> StepClocks::row(const StepRef& step) const {
  const auto at = static_cast<std::size_t>(first_row_[step.task] + step.step);
  return std::span(kept_).subspan(at * row_chunks_, row_chunks_);
}

void StepClocks::raise(const StepRef& step, StepClock& clock) const {
  const std::span<const std::uint32_t> other = row(step);
  for (std::size_t c = 0; c < row_chunks_; ++c) {
    if (clock.chunks_[c] == other[c] || other[c] == 0) continue;
    const std::int64_t* const from = chunks_.data() + other[c] * width_;
    std::int64_t* const to = clock.steps_.data() + c * width_;
    if (clock.chunks_[c] == 0) {
      std::copy_n(from, width_, to);
      clock.chunks_[c] = other[c];
      continue;
    }
    bool raised = false, same = true;
    for (std::size_t i = 0; i < width_; ++i) {
      raised = raised || from[i] > to[i];
      same = same && from[i] >= to[i];
      to[i] = std::max(to[i], from[i]);
    }
    if (same) {
      clock.chunks_[c] = other[c];
    } else if (raised) {
      clock.chunks_[c] = kNoChunk;
    }
  }
}

StepClock StepClocks::nothing() const {
  StepClock clock;
  clock.steps_.assign(row_chunks_ * width_, 0);
  clock.chunks_.assign(row_chunks_, 0);
  return clock;
}

StepClock StepClocks::everything() const {
  StepClock clock;
  clock.steps_.assign(row_chunks_ * width_, std::numeric_limits<std::int64_t>::max());
  clock.chunks_.assign(row_chunks_, kNoChunk);
  return clock;
}

void StepClocks::keep_common(const StepClock& other, StepClock& clock) const {
  for (std::size_t i = 0; i < clock.steps_.size(); ++i) {
    clock.steps_[i] = std::min(clock.steps_[i], other.steps_[i]);
  }
  clock.chunks_.assign(row_chunks_, kNoChunk);
}

void StepClocks::begin(const StepRef& step, StepClock& clock) const {
  clock.steps_.assign(row_chunks_ * width_, 0);
  clock.chunks_.assign(row_chunks_, 0);
  if (step.step > 0) {
    raise({step.task, step.step - 1}, clock);
    return;
  }
  const auto follow = [&](TaskId before) { raise({before, tasks_[before].steps() - 1}, clock); };
  if (previous_[step.task] != kNoTask) follow(previous_[step.task]);
  for (std::uint32_t i = before_first_[step.task]; i < before_first_[step.task + 1]; ++i) {
    follow(before_[i]);
  }
}

void StepClocks::learn(const StepRef& finished, StepClock& clock) const {
  raise(finished, clock);
  note(finished, clock);
}

void StepClocks::note(const StepRef& finished, StepClock& clock) const {
  const GroupIndex group = group_of_[finished.task];
  std::int64_t& known = clock.steps_[group];
  if (known > number(finished)) return;
  known = number(finished) + 1;
  clock.chunks_[group / width_] = kNoChunk;
}

void StepClocks::keep(const StepRef& step, StepClock& clock) {
  const auto at = static_cast<std::size_t>(first_row_[step.task] + step.step);
  for (std::size_t c = 0; c < row_chunks_; ++c) {
    std::uint32_t& chunk = clock.chunks_[c];
    if (chunk == kNoChunk) {
      chunk = static_cast<std::uint32_t>(chunks_.size() / width_);
      const auto first = clock.steps_.begin() + static_cast<std::ptrdiff_t>(c * width_);
      chunks_.insert(chunks_.end(), first, first + static_cast<std::ptrdiff_t>(width_));
    }
    kept_[at * row_chunks_ + c] = chunk;
  }
}

}  // namespace tessera::isa

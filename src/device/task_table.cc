#include "device/task_table.h"

#include <algorithm>

namespace tessera::device {

Task& TaskTable::add(SequenceNumber sequence) {
  const auto number = static_cast<std::uint64_t>(sequence);
  while (slot(number) != nullptr) grow();
  if (free_.empty()) {
    free_.reserve(tasks_.size() + 1);
    tasks_.push_back(std::make_unique<Task>());
    free_.push_back(tasks_.back().get());
  }
  Task& task = *free_.back();
  free_.pop_back();
  task.run.sequence = sequence;
  task.state = Task::State::kQueued;
  task.waited_for = task.abandoned = false;
  task.listener = nullptr;
  task.refused = {};
  task.completion = {};
  slot(number) = &task;
  return task;
}

void TaskTable::grow() {
  std::vector<Task*> old(slots_.size() * 2, nullptr);
  old.swap(slots_);
  for (Task* const task : old) {
    if (task != nullptr) slot(task->number()) = task;
  }
}

Task* TaskTable::find(SequenceNumber sequence) const {
  const auto number = static_cast<std::uint64_t>(sequence);
  Task* const task = slots_[number & (slots_.size() - 1)];
  return task != nullptr && task->number() == number ? task : nullptr;
}

void TaskTable::remove(Task& task) {
  slot(task.number()) = nullptr;
  task.completion = {};
  task.loaded.reset();
  free_.push_back(&task);
}

}  // namespace tessera::device

#include "device/task_table.h"

#include <algorithm>

namespace tessera::device {

Task& TaskTable::add(SequenceNumber sequence) {
  if (size() == slots_.size()) grow();
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
  put(task);
  return task;
}

void TaskTable::put(Task& task) {
  Task*& first = slot(task.number());
  task.behind = first;
  first = &task;
}

void TaskTable::grow() {
  std::vector<Task*> old(slots_.size() * 2, nullptr);
  old.swap(slots_);
  for (Task* task : old) {
    while (task != nullptr) {
      Task* const behind = task->behind;
      put(*task);
      task = behind;
    }
  }
}

Task* TaskTable::find(SequenceNumber sequence) const {
  const auto number = static_cast<std::uint64_t>(sequence);
  Task* task = slots_[number & (slots_.size() - 1)];
  while (task != nullptr && task->number() != number) task = task->behind;
  return task;
}

void TaskTable::remove(Task& task) {
  Task** place = &slot(task.number());
  while (*place != &task) place = &(*place)->behind;
  *place = task.behind;
  task.completion = {};
  task.loaded.reset();
  free_.push_back(&task);
}

}  // namespace tessera::device

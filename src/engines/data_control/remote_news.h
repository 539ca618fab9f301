// What the cores of a card tell each other: how far a task has come, to those that wait for it.
//
//   core 0: step done ─► news of (core, task, finished) ─ some cycles ─► core 1: engines that wait
//
// News goes to the cores with a dependency on the task only, and arrives later the further they are.
// A step that is finished in cycle c is known to a core that is d away from cycle c + d on. One
// thread at a time.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/quantity.h"
#include "isa/card_program.h"

namespace tessera::engines {

// How far a task of another core has come, as far as it is known.
struct RemoteProgress {
  std::int64_t finished = 0;  // steps
  bool all = false;           // they were its last
  Cycles heard_at = -1;
};

struct News {
  Cycles at = 0;           // when it arrives
  std::uint64_t sent = 0;  // a number: what was sent earlier comes first
  std::uint32_t to = 0;    // the core
  std::uint32_t from = 0;
  isa::TaskId task = 0;
  RemoteProgress progress;

  bool operator>(const News& other) const {
    return at != other.at ? at > other.at : sent > other.sent;
  }
};

class RemoteNews {
 public:
  // `cycles(a, b)` says how long news takes from core a to core b, at least one cycle.
  template <typename CyclesBetween>
  RemoteNews(const isa::CardProgram& program, CyclesBetween&& cycles)
      : cores_(program.cores.size()), readers_(cores_), away_(cores_ * cores_, 1) {
    for (std::size_t core = 0; core < cores_; ++core) {
      readers_[core].resize(program.cores[core].tasks.size());
      for (std::size_t other = 0; other < cores_; ++other) {
        away_[core * cores_ + other] = cycles(core, other);
      }
    }
    for (std::size_t core = 0; core < cores_; ++core) {
      for (const isa::TaskDescriptor& task : program.cores[core].tasks) add_reader(core, task);
    }
  }

  // A step of the task is finished; `finished` of them are.
  void finished(std::uint32_t core, isa::TaskId task, RemoteProgress progress, Cycles now) {
    for (const std::uint32_t reader : readers_[core][task]) {
      const Cycles at = now + away_[core * cores_ + reader];
      progress.heard_at = at;
      waiting_.push({at, sent_++, reader, core, task, progress});
    }
  }
  // When the next news arrives; kNever if none is on its way.
  Cycles next() const { return waiting_.empty() ? kNever : waiting_.top().at; }
  // The next one, which has arrived.
  News take() {
    const News news = waiting_.top();
    waiting_.pop();
    return news;
  }

 private:
  void add_reader(std::size_t core, const isa::TaskDescriptor& task) {
    for (const isa::RemoteDependency& dependency : task.remote) {
      auto& readers = readers_[dependency.core][dependency.on.task];
      const auto number = static_cast<std::uint32_t>(core);
      if (readers.empty() || readers.back() != number) readers.push_back(number);
    }
  }

  const std::size_t cores_;
  std::vector<std::vector<std::vector<std::uint32_t>>> readers_;  // of each core's tasks
  std::vector<Cycles> away_;                                      // from core to core
  std::priority_queue<News, std::vector<News>, std::greater<>> waiting_;
  std::uint64_t sent_ = 0;
};

}  // namespace tessera::engines

// What the cores of a card tell each other: how far a task has come, to those that wait for it.
//
//   core 0: step done ─► news of (core, task, finished) ─ some cycles ─► core 1: engines that wait
//
// News goes to the cores with a dependency on the task only, and arrives later the further they are.
// A step that is finished in cycle c is known to a core that is d away from cycle c + d on. Where cards
// exchange whole results (isa/whole_results.h), cores of other cards learn of all steps of such a task at once,
// when the result has arrived; those that make a part of the same layer, and wait for the task in that, as
// ever. Cores may be in other processes (split()): what they are to hear is handed out. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "isa/card_program.h"
#include "isa/whole_results.h"

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
      for (const isa::TaskDescriptor& task : program.cores[core].tasks) {
        add_reader(core, program, task);
      }
    }
  }

  // From now on cards exchange whole results.
  void exchange(isa::WholeResults whole) {
    whole_.emplace(std::move(whole));
    held_.resize(whole_->results().size());
    for (const isa::WholeResults::Result& result : whole_->results()) left_.push_back(result.tasks);
  }

  // A step of the task is finished; `finished` of them are.
  void finished(std::uint32_t core, isa::TaskId task, RemoteProgress progress, Cycles now) {
    for (const Reader& reader : readers_[core][task]) {
      if (whole_ && !reader.of_layer && whole_->held_for(core, task, reader.core)) {
        if (progress.all) {
          held_[whole_->of(core, task)].push_back({0, 0, reader.core, core, task, progress});
        }
        continue;
      }
      const Cycles at = now + away_[core * cores_ + reader.core];
      progress.heard_at = at;
      tell({at, sent_++, reader.core, core, task, progress});
    }
    if (!whole_ || !progress.all || whole_->of(core, task) == isa::WholeResults::kNone) return;
    const std::uint32_t result = whole_->of(core, task);
    if (--left_[result] == 0) complete_.push_back(result);
  }
  // Of isa::WholeResults::results(), those that are complete and were not yet taken, by number.
  std::vector<std::uint32_t> take_complete() {
    std::sort(complete_.begin(), complete_.end());
    return std::exchange(complete_, {});
  }
  const isa::WholeResults::Result& result(std::uint32_t number) const {
    return whole_->results()[number];
  }
  const isa::WholeResults& whole() const { return *whole_; }
  // The result will be on the card from `at` on.
  void arrives(std::uint32_t result, int card, Cycles at) {
    for (News news : held_[result]) {
      if (whole_->card_of(news.to) != card) continue;
      news.at = news.progress.heard_at = at;
      news.sent = sent_++;
      waiting_.push(news);
    }
  }

  // From now on these cores are here, by number, and the others are not.
  void split(std::vector<bool> cores_here) { here_ = std::move(cores_here); }
  // News for cores that are not here, since the last call.
  std::vector<News> take_departed() { return std::exchange(departed_, {}); }
  // What readers elsewhere hear when the result arrives there, and the same of another process.
  const std::vector<News>& held(std::uint32_t result) const { return held_[result]; }
  void hold(std::uint32_t result, const News& news) { held_[result].push_back(news); }
  // News from another process. What one core says comes in its order.
  void arrive(News news) {
    news.sent = sent_++;
    waiting_.push(news);
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
  void tell(const News& news) {
    if (here_.empty() || here_[news.to]) {
      waiting_.push(news);
    } else {
      departed_.push_back(news);
    }
  }

  struct Reader {
    std::uint32_t core = 0;
    bool of_layer = false;  // some task of it that waits is of the same layer
  };

  void add_reader(std::size_t core, const isa::CardProgram& program,
                  const isa::TaskDescriptor& task) {
    for (const isa::RemoteDependency& dependency : task.remote) {
      auto& readers = readers_[dependency.core][dependency.on.task];
      const auto number = static_cast<std::uint32_t>(core);
      if (readers.empty() || readers.back().core != number) readers.push_back({number});
      const isa::Program& other = program.cores[dependency.core];
      if (other.tasks[dependency.on.task].layer == task.layer) readers.back().of_layer = true;
    }
  }

  const std::size_t cores_;
  std::vector<std::vector<std::vector<Reader>>> readers_;  // of each core's tasks
  std::vector<Cycles> away_;                               // from core to core
  std::priority_queue<News, std::vector<News>, std::greater<>> waiting_;
  std::uint64_t sent_ = 0;
  std::optional<isa::WholeResults> whole_;
  std::vector<std::int64_t> left_;       // of each result: tasks that have not finished
  std::vector<std::vector<News>> held_;  // of each result
  std::vector<std::uint32_t> complete_;
  std::vector<bool> here_;  // by core; empty: all
  std::vector<News> departed_;
};

}  // namespace tessera::engines

// Which stage should have how many threads: a function from what was measured to what is changed.
//
// One step at a time, and each is tried before it is kept:
//
//   measure ─► the busy stages that more threads could help ─► more threads ─► measure
//                 faster by 2 %: kept        not faster: taken back, and left alone for a while
//                 no stage is busy: kept; fewer tasks came, which says nothing about the change
//   nothing is in the way but the kernels (or the source): stages with threads to spare give some
//   back, one step, and get them again if that was slower
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::runtime {

// One stage in one period.
struct StageLoad {
  std::string name;
  int threads = 1, threads_max = 1;
  double busy_seconds = 0;    // of all its threads together
  double thread_seconds = 0;  // that they were there; 0: threads times the period
  std::int64_t tasks = 0;
  // Execute stages: their kernels, which no thread makes faster.
  int kernels = 0;
  double kernel_seconds = 0;
};

struct PeriodLoad {
  double seconds = 0;
  std::int64_t finished = 0;  // tasks that left the pipeline
  std::vector<StageLoad> stages;
};

struct ThreadChange {
  std::size_t stage = 0;
  int threads = 1;
  std::string reason;  // what was done and why
};

class Balancer {
 public:
  // Enough to decide on: a short period with few tasks says nothing.
  static bool enough(double seconds, std::int64_t finished) {
    return seconds >= 2 || (seconds >= 0.3 && finished >= 40);
  }
  // The changes to make now, if any: one per stage.
  using Changes = std::vector<ThreadChange>;
  Changes decide(const PeriodLoad& load);

 private:
  struct Trial {
    std::vector<std::pair<std::size_t, int>> before;  // stages that were changed, their threads
    double rate = 0;                                  // tasks per second, before
    bool more = true;
  };
  struct Limits {
    int most = 1 << 20, least = 1;  // found by trials
    int until = 0;                  // the period in which they are forgotten
  };

  Changes judge(const PeriodLoad& load, double rate);
  Changes give_more(const PeriodLoad& load, double rate);
  Changes take_back(const PeriodLoad& load, double rate);
  bool can_grow(const PeriodLoad& load, std::size_t stage) const;

  static constexpr int kRemembered = 60;  // periods
  std::vector<Limits> limits_;
  std::optional<Trial> trial_;
  int period_ = 0;
};

}  // namespace tessera::runtime

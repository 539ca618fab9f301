#include "runtime/balancer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::runtime {
namespace {

constexpr double kGain = 1.02;  // less is noise
constexpr double kLoss = 0.97;
constexpr double kBusy = 0.8;   // of its threads' time: the stage is in the way
constexpr double kSpare = 0.6;  // of one thread less: the stage could do with it
constexpr double kStep = 4;     // threads grow by at most this factor at once

// Of its threads' time.
double share(const StageLoad& stage, double seconds) {
  const double there = stage.thread_seconds > 0 ? stage.thread_seconds : stage.threads * seconds;
  return stage.busy_seconds / there;
}

double kernel_share(const StageLoad& stage, double seconds) {
  return stage.kernels == 0 ? 0 : stage.kernel_seconds / (stage.kernels * seconds);
}

// Tasks a second the stage could do with what it has.
double capacity(const StageLoad& stage) {
  if (stage.tasks == 0) return INFINITY;
  const double busy = stage.kernels > 0 ? stage.kernel_seconds : stage.busy_seconds;
  const int workers = stage.kernels > 0 ? stage.kernels : stage.threads;
  return busy <= 0 ? INFINITY : workers * static_cast<double>(stage.tasks) / busy;
}

// No stage has much to do: tasks come more slowly than they could be done, or not at all.
bool source_is_the_limit(const PeriodLoad& load) {
  return std::all_of(load.stages.begin(), load.stages.end(), [&](const StageLoad& stage) {
    return share(stage, load.seconds) < kBusy && kernel_share(stage, load.seconds) < kBusy;
  });
}

std::string milliseconds_a_task(const StageLoad& stage) {
  return fmt::format(
      "{:.2f} ms a task",
      1e3 * stage.busy_seconds / static_cast<double>(std::max<std::int64_t>(1, stage.tasks)));
}

}  // namespace

Balancer::Changes Balancer::decide(const PeriodLoad& load) {
  limits_.resize(load.stages.size());
  ++period_;
  for (Limits& limits : limits_) {
    if (limits.until == period_) limits = Limits{};
  }
  const double rate = static_cast<double>(load.finished) / load.seconds;
  if (trial_.has_value()) {
    Changes back = judge(load, rate);
    if (!back.empty()) return back;
  }
  if (load.finished == 0) return {};
  Changes more = give_more(load, rate);
  return more.empty() ? take_back(load, rate) : more;
}

// What the last change brought; all of it is taken back if that was nothing.
Balancer::Changes Balancer::judge(const PeriodLoad& load, double rate) {
  const Trial trial = std::move(*trial_);
  trial_.reset();
  if (source_is_the_limit(load)) return {};  // which says nothing about the change
  if (rate >= trial.rate * (trial.more ? kGain : kLoss)) return {};
  Changes back;
  for (const auto& [index, threads] : trial.before) {
    const StageLoad& stage = load.stages[index];
    Limits& limits = limits_[index];
    (trial.more ? limits.most : limits.least) = threads;
    limits.until = period_ + kRemembered;
    back.push_back(
        {index, threads,
         fmt::format("{}: {} -> {} threads, back: {:.1f} tasks/s with {}, {:.1f} with {}",
                     stage.name, stage.threads, threads, rate, stage.threads, trial.rate,
                     threads)});
  }
  return back;
}

bool Balancer::can_grow(const PeriodLoad& load, std::size_t index) const {
  const StageLoad& stage = load.stages[index];
  // Kernels that never rest are what the pipeline is for.
  return kernel_share(stage, load.seconds) <= 0.95 &&
         stage.threads < std::min(stage.threads_max, limits_[index].most) &&
         share(stage, load.seconds) >= kBusy;
}

// Stages that are in the way together get more together: one alone would bring nothing.
Balancer::Changes Balancer::give_more(const PeriodLoad& load, double rate) {
  double others = INFINITY;  // what the stages that cannot have more could do
  for (std::size_t s = 0; s < load.stages.size(); ++s) {
    if (!can_grow(load, s)) others = std::min(others, capacity(load.stages[s]));
  }
  const double factor = std::clamp(others / std::max(rate, 1e-9), 1.0, kStep);
  Changes changes;
  Trial trial{{}, rate, true};
  for (std::size_t s = 0; s < load.stages.size(); ++s) {
    if (!can_grow(load, s)) continue;
    const StageLoad& stage = load.stages[s];
    const int wanted =
        std::max(stage.threads + 1, static_cast<int>(std::ceil(stage.threads * factor)));
    const int threads = std::min({wanted, stage.threads_max, limits_[s].most});
    trial.before.emplace_back(s, stage.threads);
    changes.push_back(
        {s, threads,
         fmt::format("{}: {} -> {} threads: {:.0f} % busy with {}, {:.1f} tasks/s; {}", stage.name,
                     stage.threads, threads, 100 * share(stage, load.seconds),
                     milliseconds_a_task(stage), rate,
                     std::isinf(others) ? std::string("nothing else is in the way")
                                        : fmt::format("the others could do {:.1f}", others))});
  }
  if (!changes.empty()) trial_ = std::move(trial);
  return changes;
}

Balancer::Changes Balancer::take_back(const PeriodLoad& load, double rate) {
  for (std::size_t s = 0; s < load.stages.size(); ++s) {
    const StageLoad& stage = load.stages[s];
    if (stage.threads <= limits_[s].least || stage.kernels > 0) continue;
    const double needed = stage.busy_seconds / load.seconds;  // threads' worth of work
    const int threads = std::max(limits_[s].least, static_cast<int>(std::ceil(needed / kSpare)));
    if (threads >= stage.threads) continue;
    trial_ = Trial{{{s, stage.threads}}, rate, false};
    return {{s, threads,
             fmt::format("{}: {} -> {} threads: {:.0f} % busy, the work of {:.1f}", stage.name,
                         stage.threads, threads, 100 * share(stage, load.seconds), needed)}};
  }
  return {};
}

}  // namespace tessera::runtime

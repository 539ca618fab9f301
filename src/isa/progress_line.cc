// Fitting progress lines to the steps that a reader needs (see dependencies.h).
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/quantity.h"
#include "isa/dependencies.h"

namespace tessera::isa {
namespace {

struct LineFit {
  Dependency line;
  std::int64_t excess = 0;  // steps asked for beyond what is needed, summed over the reader's steps
};

// How many steps are needed at each of the reader's steps: the needs, never falling.
std::vector<std::int64_t> running_needs(const std::vector<StepNeed>& needs, std::int64_t steps) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(steps) + 1, 0);
  std::size_t next = 0;
  std::int64_t most = 0;
  for (std::int64_t j = 1; j <= steps; ++j) {
    while (next < needs.size() && needs[next].step <= j) {
      most = std::max(most, needs[next].needed);
      ++next;
    }
    result[static_cast<std::size_t>(j)] = most;
  }
  return result;
}

// The lowest line of slope numerator / denominator that meets the needs.
Dependency lowest_line(TaskId task, const std::vector<StepNeed>& needs, std::int64_t numerator,
                       std::int64_t denominator) {
  const std::int64_t factor = std::gcd(numerator, denominator);
  numerator /= factor;
  denominator /= factor;
  // ceil(x / d) >= n exactly where x >= d * (n - 1) + 1.
  std::int64_t offset = INT64_MIN;
  for (const StepNeed& need : needs) {
    offset = std::max(offset, denominator * (need.needed - 1) + 1 - numerator * need.step);
  }
  if (numerator == 0) {  // a barrier reads better as the number of steps
    offset = needs.back().needed;
    for (const StepNeed& need : needs) offset = std::max(offset, need.needed);
    denominator = 1;
  }
  return {task, static_cast<std::int32_t>(numerator), static_cast<std::int32_t>(denominator),
          offset};
}

// What lines are fitted to: the needs at each step of the reader, and the other task.
struct Fitting {
  TaskId task = kNoTask;
  bool own = false;  // the reader is the task itself
  std::int64_t task_steps = 0;
  std::vector<std::int64_t> running;  // running_needs()

  // A line on the task itself has to leave every step a chance to begin.
  bool takes(const Dependency& line) const {
    return !own || first_step_waiting_for_itself(line, task_steps) == 0;
  }
  // The steepest slope worth trying. On the task itself slope 1 is always taken: the needs of step j
  // are below j.
  std::pair<std::int64_t, std::int64_t> steepest() const { return {own ? 1 : task_steps, 1}; }
};

std::int64_t excess_of(const std::vector<Dependency>& lines, const Fitting& fitting) {
  std::int64_t excess = 0;
  for (std::size_t j = 1; j < fitting.running.size(); ++j) {
    std::int64_t asked = 0;
    for (const Dependency& line : lines) {
      asked = std::max(asked, steps_needed(line, static_cast<std::int64_t>(j), fitting.task_steps));
    }
    excess += asked - fitting.running[j];
  }
  return excess;
}

// Slopes worth trying: level, steepest, and those between corners of the needs.
std::vector<std::pair<std::int64_t, std::int64_t>> slopes(const std::vector<StepNeed>& needs,
                                                          const Fitting& fitting) {
  std::vector<std::pair<std::int64_t, std::int64_t>> result = {{0, 1}, fitting.steepest()};
  const std::size_t stride = std::max<std::size_t>(1, needs.size() / 24);
  for (std::size_t i = 0; i < needs.size(); i += stride) {
    for (std::size_t k = i + 1; k < needs.size(); k += stride) {
      const std::int64_t rise = needs[k].needed - needs[i].needed;
      const std::int64_t run = needs[k].step - needs[i].step;
      if (rise <= 0) continue;
      const std::int64_t factor = std::gcd(rise, run);
      result.emplace_back(rise / factor, run / factor);
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

LineFit best_line(const std::vector<StepNeed>& needs, const Fitting& fitting) {
  std::optional<LineFit> best;
  for (const auto& [numerator, denominator] : slopes(needs, fitting)) {
    const Dependency line = lowest_line(fitting.task, needs, numerator, denominator);
    if (!fitting.takes(line)) continue;
    const std::int64_t excess = excess_of({line}, fitting);
    if (!best || excess < best->excess) best = LineFit{line, excess};
    if (excess == 0) break;
  }
  return *best;
}

std::vector<Dependency> best_lines(const std::vector<StepNeed>& needs, const Fitting& fitting) {
  const LineFit one = best_line(needs, fitting);
  if (one.excess == 0 || needs.size() < 2) return {one.line};
  std::vector<Dependency> best = {one.line};
  std::int64_t least = one.excess;
  const std::size_t stride = std::max<std::size_t>(1, needs.size() / 16);
  for (std::size_t cut = 1; cut < needs.size(); cut += stride) {
    const auto middle = needs.begin() + static_cast<std::ptrdiff_t>(cut);
    const LineFit low = best_line({needs.begin(), middle}, fitting);
    const LineFit high = best_line({middle, needs.end()}, fitting);
    const std::int64_t excess = excess_of({low.line, high.line}, fitting);
    if (excess < least) {
      least = excess;
      best = {low.line, high.line};
    }
  }
  // A second line has to be worth its words.
  return least * 2 <= one.excess ? best : std::vector<Dependency>{one.line};
}

}  // namespace

std::vector<Dependency> fit_lines(TaskId task, const std::vector<StepNeed>& needs,
                                  std::int64_t steps, std::int64_t task_steps) {
  return best_lines(needs, {.task = task,
                            .own = false,
                            .task_steps = task_steps,
                            .running = running_needs(needs, steps)});
}

std::vector<Dependency> fit_own_lines(TaskId task, const std::vector<StepNeed>& needs,
                                      std::int64_t steps) {
  return best_lines(
      needs,
      {.task = task, .own = true, .task_steps = steps, .running = running_needs(needs, steps)});
}

}  // namespace tessera::isa

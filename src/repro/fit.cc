#include "repro/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::repro {
namespace {

using Row = std::array<double, kAverages + 1>;  // of the normal equations, with the right side

// Solves them by elimination; an average that nothing depends on stays as it is (0).
std::array<double, kAverages> solve(std::array<Row, kAverages> rows) {
  std::array<bool, kAverages> found{};
  std::array<std::size_t, kAverages> row_of{};
  std::size_t next = 0;
  for (std::size_t column = 0; column < kAverages; ++column) {
    const auto best = std::max_element(
        rows.begin() + static_cast<std::ptrdiff_t>(next), rows.end(),
        [&](const Row& a, const Row& b) { return std::abs(a[column]) < std::abs(b[column]); });
    if (best == rows.end() || std::abs((*best)[column]) < 1e-18) continue;
    std::swap(*best, rows[next]);
    for (std::size_t other = 0; other < kAverages; ++other) {
      if (other == next) continue;
      const double factor = rows[other][column] / rows[next][column];
      for (std::size_t i = column; i <= kAverages; ++i) rows[other][i] -= factor * rows[next][i];
    }
    found[column] = true;
    row_of[column] = next++;
  }
  std::array<double, kAverages> solution{};
  for (std::size_t i = 0; i < kAverages; ++i) {
    if (found[i]) solution[i] = rows[row_of[i]][kAverages] / rows[row_of[i]][i];
  }
  return solution;
}

}  // namespace

Averages Averages::of(const ChipConfig& chip) {
  return {{static_cast<double>(chip.neural.command_stall_thousandths),
           static_cast<double>(chip.neural.tile_stall_thousandths),
           static_cast<double>(chip.dram.flat_nanoseconds)}};
}

ChipConfig Averages::in(const ChipConfig& chip) const {
  ChipConfig with = chip;
  with.neural.command_stall_thousandths = static_cast<std::int32_t>(std::lround((*this)[0]));
  with.neural.tile_stall_thousandths = static_cast<std::int32_t>(std::lround((*this)[1]));
  with.dram.flat_nanoseconds = static_cast<std::int32_t>(std::lround((*this)[2]));
  return with;
}

double MeasuredLayer::cycles_with(const Averages& averages) const {
  double sum = cycles;
  for (std::size_t i = 0; i < kAverages; ++i) sum += slopes[i] * (averages[i] - at[i]);
  return sum;
}

Averages fit_averages(const std::vector<const MeasuredLayer*>& samples) {
  Averages best = samples.front()->at;
  if (samples.size() < kAverages) return best;
  std::array<Row, kAverages> equations{};
  for (const MeasuredLayer* sample : samples) {
    // Relative to what was measured: slopes * step + error = 0.
    const double error = (sample->cycles_with(best) - sample->measured) / sample->measured;
    for (std::size_t i = 0; i < kAverages; ++i) {
      const double slope = sample->slopes[i] / sample->measured;
      for (std::size_t j = 0; j < kAverages; ++j) {
        equations[i][j] += slope * sample->slopes[j] / sample->measured;
      }
      equations[i][kAverages] -= slope * error;
    }
  }
  const std::array<double, kAverages> step = solve(equations);
  for (std::size_t i = 0; i < kAverages; ++i) best[i] = std::max(0.0, best[i] + step[i]);
  return best;
}

std::vector<double> left_out_errors_percent(const std::vector<MeasuredLayer>& samples) {
  if (samples.size() <= kAverages) return {};
  std::vector<double> errors;
  for (const MeasuredLayer& left_out : samples) {
    std::vector<const MeasuredLayer*> others;
    for (const MeasuredLayer& sample : samples) {
      if (&sample != &left_out) others.push_back(&sample);
    }
    const double ours = left_out.cycles_with(fit_averages(others));
    errors.push_back((ours - left_out.measured) / left_out.measured * 100);
  }
  return errors;
}

}  // namespace tessera::repro

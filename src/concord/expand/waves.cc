#include "concord/expand/waves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "concord/expand/quantise_steps.h"

namespace tessera::concord {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr std::size_t kExtentMin = 64;
constexpr int kTrials = 40;

// One turn in `count` places: of the cosine, then of the sine turned downwards.
std::vector<double> one_turn(std::int64_t count, bool imaginary) {
  std::vector<double> turn;
  for (std::int64_t place = 0; place < count; ++place) {
    const double part = static_cast<double>(place) / static_cast<double>(count);
    const double angle = 2.0 * std::numbers::pi * part;
    turn.push_back(imaginary ? -std::sin(angle) : std::cos(angle));
  }
  return turn;
}

// Where a number of the window lies.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double middle() const { return low + (high - low) / 2; }
};

double grid_at(double magnitude) {
  constexpr int kExponentMin = -14, kFractionBits = 10;  // of an f16
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), kExponentMin) : kExponentMin;
  return std::ldexp(1.0, exponent - kFractionBits);
}

// Narrows the bounds by a block of a row: how near its numbers are to what they were made of.
void narrow(std::span<const double> block, std::span<const double> units, int mantissa_bits,
            std::span<Bounds> bounds) {
  double largest = 0;
  for (const double x : block) largest = std::max(largest, std::abs(x));
  const double step = std::ldexp(grid_at(largest), 11 - mantissa_bits);
  const double last = step * (std::ldexp(1.0, mantissa_bits) - 1);
  for (std::size_t n = 0; n < block.size(); ++n) {
    const double x = block[n], unit = units[n];
    // What is cut off says little, as does a wave where it is 0.
    if (std::abs(x) >= last || std::abs(unit) < 0x1p-20) continue;
    // Two roundings where the block's step is wider than the grid of f16 there.
    const double grid = grid_at(std::abs(x));
    const bool twice = grid_at(std::max(std::abs(x) - step, 0.0)) < step;
    const double half = (twice ? step + grid_at(std::abs(x) + step) : grid) / 2;
    const double one = (x - half) / unit, other = (x + half) / unit;
    bounds[n].low = std::max(bounds[n].low, std::min(one, other));
    bounds[n].high = std::min(bounds[n].high, std::max(one, other));
  }
}

std::vector<Bounds> first_bounds(const Rows& rows, const Rows& units, const MatrixFormat& matrix) {
  std::vector<Bounds> bounds(rows[0].size());
  const auto length = static_cast<std::size_t>(matrix.native_dimension);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    for (std::size_t n = 0; n < bounds.size(); n += length) {
      const std::size_t count = std::min(length, bounds.size() - n);
      narrow(std::span(rows[k]).subspan(n, count), std::span(units[k]).subspan(n, count),
             matrix.mantissa_bits_stationary, std::span(bounds).subspan(n, count));
    }
  }
  return bounds;
}

// Moves the bounds of each number whose elements came out too small or too large. False where that mends
// nothing, or where all are right, which `right` says.
bool tighten(const Rows& rows, const Rows& units, const Rows& trial, std::vector<Bounds>& bounds,
             bool& right) {
  right = true;
  for (std::size_t n = 0; n < bounds.size(); ++n) {
    const double middle = bounds[n].middle();
    bool up = false, down = false;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      if (trial[k][n] == rows[k][n]) continue;
      const bool larger = (rows[k][n] > trial[k][n]) == (units[k][n] > 0);
      (larger ? up : down) = true;
    }
    if (up && down) return false;
    if (up) bounds[n].low = middle;
    if (down) bounds[n].high = middle;
    right = right && !up && !down;
  }
  return !right;
}

}  // namespace

Rows wave_rows(std::span<const double> window, std::int64_t bins) {
  const auto count = static_cast<std::int64_t>(window.size());
  Rows rows;
  for (const bool imaginary : {false, true}) {
    const std::vector<double> turn = one_turn(count, imaginary);
    for (std::int64_t k = 0; k < bins; ++k) {
      std::vector<double> row;
      for (std::int64_t n = 0; n < count; ++n) {
        row.push_back(window[static_cast<std::size_t>(n)] *
                      turn[static_cast<std::size_t>(k * n % count)]);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::optional<std::vector<double>> window_of_waves(const Rows& rows, const MatrixFormat& matrix) {
  if (matrix.kind != MatrixKind::kBlockFloat || rows.size() % 2 != 0 || rows.size() < kExtentMin ||
      rows[0].size() < kExtentMin || rows.size() > 2 * rows[0].size()) {
    return std::nullopt;
  }
  const std::size_t bins = rows.size() / 2;
  const auto is_zero = [](double x) { return x == 0; };
  // A wave of no turn: the sine's is 0.
  if (!std::ranges::all_of(rows[bins], is_zero) || std::ranges::all_of(rows[0], is_zero)) {
    return std::nullopt;
  }
  const std::vector<double> ones(rows[0].size(), 1.0);
  const Rows units = wave_rows(ones, static_cast<std::int64_t>(bins));
  std::vector<Bounds> bounds = first_bounds(rows, units, matrix);
  const auto is_empty = [](const Bounds& one) { return !(one.low <= one.high); };
  if (std::ranges::any_of(bounds, is_empty)) return std::nullopt;
  std::vector<double> window(bounds.size());
  bool right = false;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::ranges::transform(bounds, window.begin(), &Bounds::middle);
    Rows made = wave_rows(window, static_cast<std::int64_t>(bins));
    for (std::vector<double>& row : made) {
      row = quantise_row(row, Format::kF16, static_cast<std::int64_t>(row.size()), matrix);
    }
    if (!tighten(rows, units, made, bounds, right)) break;
  }
  if (!right) return std::nullopt;
  return window;
}

ValueId waves(Steps& steps, const std::vector<double>& window, std::int64_t bins) {
  const auto count = static_cast<std::int64_t>(window.size());
  std::vector<double> bin, place;
  for (std::int64_t k = 0; k < bins; ++k) bin.push_back(static_cast<double>(k));
  for (std::int64_t n = 0; n < count; ++n) place.push_back(static_cast<double>(n));
  const ValueId turns = steps.mul(steps.f64s(bin, {bins, 1}), steps.f64s(place, {1, count}));
  // k n modulo N; the half keeps the quotient of whole numbers from their edges.
  const auto divisor = static_cast<double>(count);
  const ValueId whole = steps.unary(Operator::kFloor, steps.div(steps.add(turns, 0.5), divisor));
  const ValueId at = steps.cast(steps.sub(turns, steps.mul(whole, divisor)), Format::kI64);
  std::vector<ValueId> halves;
  for (const bool imaginary : {false, true}) {
    halves.push_back(steps.gather(steps.f64s(one_turn(count, imaginary), {count}), at, 0));
  }
  return steps.mul(steps.concat(halves, 0), steps.f64s(window, {1, count}));
}

}  // namespace tessera::concord

#include "repro/fit.h"

#include <algorithm>

namespace tessera::repro {
namespace {

double error_of(const MeasuredTiles& sample, const PipelineStalls& stalls) {
  const auto ours = static_cast<double>(pipeline_cycles(sample.tiles, stalls));
  return (ours - sample.cycles) / sample.cycles;
}

double squares(const std::vector<const MeasuredTiles*>& samples, const PipelineStalls& stalls) {
  double sum = 0;
  for (const MeasuredTiles* sample : samples) {
    const double error = error_of(*sample, stalls);
    sum += error * error;
  }
  return sum;
}

}  // namespace

PipelineStalls fit_stalls(const std::vector<const MeasuredTiles*>& samples) {
  PipelineStalls best{.command_thousandths = 50, .tile_thousandths = 250, .latency = 250};
  double least = squares(samples, best);
  // Steps of each average along its axis and along pairs of axes, halved when none helps.
  for (std::int64_t step = 128; step >= 1; step /= 2) {
    bool better = true;
    while (better) {
      better = false;
      for (int move = 0; move < 27; ++move) {
        const std::int64_t a = move % 3 - 1;
        const std::int64_t b = move / 3 % 3 - 1;
        const std::int64_t c = move / 9 - 1;
        PipelineStalls next = best;
        next.command_thousandths = std::max<std::int64_t>(
            0, next.command_thousandths + a * std::max<std::int64_t>(1, step / 4));
        next.tile_thousandths = std::max<std::int64_t>(0, next.tile_thousandths + b * step);
        next.latency = std::max<Cycles>(0, next.latency + c * step);
        const double sum = squares(samples, next);
        if (sum >= least) continue;
        least = sum;
        best = next;
        better = true;
      }
    }
  }
  return best;
}

std::vector<double> left_out_errors_percent(const std::vector<MeasuredTiles>& samples) {
  constexpr std::size_t kSamplesMin = 4;  // one more than there are averages
  if (samples.size() < kSamplesMin) return {};
  std::vector<double> errors;
  for (const MeasuredTiles& left_out : samples) {
    std::vector<const MeasuredTiles*> others;
    for (const MeasuredTiles& sample : samples) {
      if (&sample != &left_out) others.push_back(&sample);
    }
    errors.push_back(error_of(left_out, fit_stalls(others)) * 100);
  }
  return errors;
}

}  // namespace tessera::repro

#include "compile/layer_timeline.h"

#include <algorithm>
#include <cmath>

namespace tessera::compile {

double LayerTimeline::take(double from, double cycles) {
  if (cycles <= 0) return from;
  return static_cast<double>(channel_.take(std::llround(from), std::llround(std::ceil(cycles))));
}

double LayerTimeline::take_data(double from, double cycles) {
  const double end = take(from, cycles);
  if (chip_.dram.arbitration != Arbitration::kKernelsLast || cycles <= 0) return end;
  // Kernels that were asked for before wait.
  return static_cast<double>(data_.take(std::llround(from), std::llround(std::ceil(cycles))));
}

double LayerTimeline::room_for(std::int64_t size, std::int64_t room,
                               std::int64_t LayerDemand::* of) const {
  std::int64_t left = std::max<std::int64_t>(0, room - size);
  std::size_t kept = before_.size();
  while (kept > 0 && before_[kept - 1].*of <= left) left -= before_[--kept].*of;
  if (kept == 0) return 0;
  // A layer gives up its part bit by bit.
  const auto last = static_cast<LayerIndex>(kept - 1);
  const double part = static_cast<double>(left) / static_cast<double>(before_[kept - 1].*of);
  return std::max(ended_[kept - 1],
                  spans_[last].end - (spans_[last].end - spans_[last].begin) * part);
}

LayerTimeline::Arrival LayerTimeline::load(const LayerDemand& layer) {
  const double ahead = room_for(0, chip_.task_manager.task_buffer_entries, &LayerDemand::tasks);
  Arrival all;
  for (const OperandDemand& operand : layer.operands) {
    double some = 0, first = 0, last = 0, pieces = 1;
    for (const LayerIndex maker : operand.makers) {
      const auto at = static_cast<std::size_t>(maker);
      if (at >= before_.size()) continue;  // makes what later layers read of the storage
      some = std::max(some, some_[at]);
      first = std::max(first, spans_[maker].first);
      last = std::max(last, spans_[maker].end);
      pieces = std::max(pieces, before_[at].pieces);
    }
    last = std::max(last, take(some, operand.stored)) + operand.late;
    const double begin = std::max(some + operand.late, ahead);
    const double longest =
        std::max({take_data(begin, operand.loaded) - begin, operand.links, operand.passage});
    const double portions = layer.steps * operand.loads;
    all.first = std::max(
        {all.first, begin + longest / portions, first + operand.late + longest / portions});
    all.last = std::max({all.last, begin + longest, last + longest / std::min(pieces, portions)});
  }
  return all;
}

LayerTimeline::Arrival LayerTimeline::load_kernels(const LayerDemand& layer) {
  if (layer.kernels <= 0) return {};
  const std::int64_t room = chip_.neural.kernel_bytes_per_partition;
  const double from =
      std::max(room_for(0, chip_.task_manager.task_buffer_entries, &LayerDemand::tasks),
               room_for(std::min(layer.kernel_bytes, room), room, &LayerDemand::kernel_bytes));
  const double first = take(from, layer.kernels / layer.kernel_tasks);
  return {first, take(first, layer.kernels - layer.kernels / layer.kernel_tasks)};
}

void LayerTimeline::add(const LayerDemand& layer) {
  Arrival data, kernels;
  if (chip_.dram.arbitration == Arbitration::kKernelsLast) {
    data = load(layer);
    kernels = load_kernels(layer);
  } else {
    kernels = load_kernels(layer);
    data = load(layer);
  }
  double& engine = free_[static_cast<std::size_t>(layer.engines)];
  LayerSpan span;
  span.begin = std::max({engine, data.first, kernels.first});
  if (load_before_arithmetic_) span.begin = std::max({span.begin, data.last, kernels.last});
  span.end = std::max({span.begin + layer.compute, data.last + layer.compute * layer.first,
                       kernels.last + layer.compute / layer.kernel_tasks});
  span.end = std::max({span.end, span.begin + layer.copies, take_data(span.begin, layer.copied)});
  span.first = span.begin + (span.end - span.begin) * layer.first;
  engine = span.end;
  spans_.push_back(span);
  ended_.push_back(ended_.empty() ? 0 : std::max(ended_.back(), last_end_));
  last_end_ = span.end;
  some_.push_back(span.begin + (span.end - span.begin) / layer.pieces);
  end_ = std::max({end_, span.end, take(some_.back(), layer.output)});
  before_.push_back(layer);
}

}  // namespace tessera::compile

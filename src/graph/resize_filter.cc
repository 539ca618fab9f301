#include "graph/resize_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace tessera::graph {

namespace {

constexpr std::int64_t kFactorMax = 8;
constexpr std::int64_t kBorderMax = 8;  // outputs on a side that are not the filter's, or a quarter
constexpr double kZero = 1e-6;          // what a weight in binary32 is off where it should be 0
constexpr double kSame = 1e-5;

// A matrix [input, output].
struct Weights {
  std::int64_t input = 0, output = 0;
  std::vector<double> values;

  double at(std::int64_t i, std::int64_t o) const {
    const double value = values[static_cast<std::size_t>(i * output + o)];
    return std::abs(value) < kZero ? 0.0 : value;
  }
  ResizeTaps taps(std::int64_t o) const {
    ResizeTaps found;
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < input; ++i) {
      if (at(i, o) == 0.0) continue;
      if (last < 0) found.first = i;
      last = i;
    }
    for (std::int64_t i = found.first; i <= last; ++i) found.weights.push_back(at(i, o));
    return found;
  }
};

// Whether output `o` has the weights of output `like`, which lies as far from the samples.
bool same_taps(const ResizeTaps& of, const ResizeTaps& like, std::int64_t samples_apart) {
  if (of.first - like.first != samples_apart || of.weights.size() != like.weights.size()) {
    return false;
  }
  for (std::size_t k = 0; k < of.weights.size(); ++k) {
    if (std::abs(of.weights[k] - like.weights[k]) > kSame) return false;
  }
  return true;
}

// The filter of the outputs [middle, middle + factor), one for each place between two samples.
void set_filter(const std::vector<ResizeTaps>& all, std::int64_t middle, ResizeFilter& filter) {
  std::map<std::int64_t, double> weights;  // by factor * i - o
  for (std::int64_t o = middle; o < middle + filter.factor; ++o) {
    const ResizeTaps& taps = all[static_cast<std::size_t>(o)];
    for (std::size_t k = 0; k < taps.weights.size(); ++k) {
      weights[filter.factor * (taps.first + static_cast<std::int64_t>(k)) - o] = taps.weights[k];
    }
  }
  filter.reach = -weights.begin()->first;
  const std::int64_t count = weights.rbegin()->first + filter.reach + 1;
  filter.weights.assign(static_cast<std::size_t>(count), 0.0);
  for (const auto& [at, weight] : weights) {
    filter.weights[static_cast<std::size_t>(at + filter.reach)] = weight;
  }
}

struct Padding {
  std::int64_t begin = 0, end = 0;
};

// A channel-wise convolution along the axis, with `gap` - 1 zeros behind each sample.
TensorId filtered(Op& op, Composer& make, const ImageAxis& of, const std::vector<double>& taps,
                  const Padding& pad, std::int64_t gap, const std::string& name) {
  const Shape dims = make.dims(of.image);
  const bool rows = of.axis == 2;
  const auto count = static_cast<std::int64_t>(taps.size());
  ConvAttributes conv;
  conv.groups = dims[1];
  conv.channel_wise = true;
  conv.matrix = op.at.matrix_format();
  (rows ? conv.input_dilation_h : conv.input_dilation_w) = gap;
  (rows ? conv.pad_top : conv.pad_left) = pad.begin;
  (rows ? conv.pad_bottom : conv.pad_right) = pad.end;
  std::vector<double> kernel;
  for (std::int64_t c = 0; c < dims[1]; ++c) kernel.insert(kernel.end(), taps.begin(), taps.end());
  const Shape kernel_dims = {dims[1], 1, rows ? count : 1, rows ? 1 : count};
  const TensorId weights = op.at.constant(fmt::format("{}.{}.weights", op.node.name, name),
                                          constant_from_reals(make.vector(), kernel_dims, kernel));
  Shape output = dims;
  output[of.axis] = (dims[of.axis] - 1) * gap + 1 + pad.begin + pad.end - count + 1;
  return op.at.emit(op, name, {of.image, weights}, conv, make.vector(), output);
}

}  // namespace

std::optional<ResizeFilter> find_resize_filter(const Tensor& weights) {
  const Weights matrix{weights.dims[0], weights.dims[1], reals(weights)};
  ResizeFilter filter;
  filter.input = matrix.input;
  filter.output = matrix.output;
  filter.factor = matrix.output / matrix.input;
  const std::int64_t f = filter.factor;
  if (f < 2 || f > kFactorMax || f * matrix.input != matrix.output || matrix.input < 4) {
    return std::nullopt;
  }
  std::vector<ResizeTaps> all;
  for (std::int64_t o = 0; o < matrix.output; ++o) {
    all.push_back(matrix.taps(o));
    if (all.back().weights.empty()) return std::nullopt;
  }
  const std::int64_t middle = matrix.input / 2 * f;
  set_filter(all, middle, filter);
  const auto is_filtered = [&](std::int64_t o) {
    const std::int64_t like = middle + o % f;
    return same_taps(all[static_cast<std::size_t>(o)], all[static_cast<std::size_t>(like)],
                     (o - like) / f);
  };
  filter.begin = middle;
  filter.end = middle;
  while (filter.begin > 0 && is_filtered(filter.begin - 1)) --filter.begin;
  while (filter.end < matrix.output && is_filtered(filter.end)) ++filter.end;
  const std::int64_t most = std::min(kBorderMax, matrix.output / 4);
  if (filter.begin > most || matrix.output - filter.end > most) return std::nullopt;
  filter.before.assign(all.begin(), all.begin() + filter.begin);
  filter.behind.assign(all.begin() + filter.end, all.end());
  return filter;
}

TensorId emit_resize_filter(Op& op, Composer& make, const ImageAxis& of,
                            const ResizeFilter& filter) {
  std::vector<TensorId> parts;
  const auto add_border = [&](const ResizeTaps& taps, std::int64_t at) {
    const std::int64_t behind =
        filter.input - taps.first - static_cast<std::int64_t>(taps.weights.size());
    parts.push_back(filtered(op, make, of, taps.weights, {-taps.first, -behind}, 1,
                             fmt::format("axis{}.at{}", of.axis, at)));
  };
  for (std::int64_t o = 0; o < filter.begin; ++o) {
    add_border(filter.before[static_cast<std::size_t>(o)], o);
  }
  const std::int64_t spread = (filter.input - 1) * filter.factor + 1;
  const std::int64_t begin = filter.reach - filter.begin;
  const std::int64_t end = filter.end - filter.begin - 1 - spread - begin +
                           static_cast<std::int64_t>(filter.weights.size());
  parts.push_back(filtered(op, make, of, filter.weights, {begin, end}, filter.factor,
                           fmt::format("axis{}.filter", of.axis)));
  for (std::int64_t o = filter.end; o < filter.output; ++o) {
    add_border(filter.behind[static_cast<std::size_t>(o - filter.end)], o);
  }
  return parts.size() == 1 ? parts[0] : make.joined(parts, of.axis);
}

}  // namespace tessera::graph

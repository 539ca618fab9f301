#include "model/ops/normalise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "arith/function.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

struct Moments {
  double mean = 0.0;
  double variance = 0.0;  // of the whole, not of a sample
};

Moments moments(std::span<const double> values) {
  Moments result;
  if (values.empty()) return result;
  const auto count = static_cast<double>(values.size());
  for (const double x : values) result.mean += x;
  result.mean /= count;
  for (const double x : values) result.variance += (x - result.mean) * (x - result.mean);
  result.variance /= count;
  return result;
}

}  // namespace

Result<Outputs> batch_normalization_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  if (call.opset() < 7 && call.attribute("is_test", 0) == 0) {
    return unsupported("attribute 'is_test' is 0: training is not supported");
  }
  const bool training = call.attribute("training_mode", 0) != 0;
  if (call.output_count() > 1 && (!training || call.opset() < 14)) {
    return unsupported("outputs behind the first belong to training");
  }
  for (std::size_t i = 1; i < 5; ++i) {
    TESSERA_RETURN_IF_ERROR(call.require_float(i));
    TESSERA_RETURN_IF_ERROR(call.require_vector(i, call.dims(0)[1]));
  }
  if (!training) return one_output(call.format(0), call.dims(0));
  return Outputs{{call.format(0), call.dims(0), nullptr},
                 {call.format(3), call.dims(3), nullptr},
                 {call.format(4), call.dims(4), nullptr}};
}

namespace {

// With the batch's own mean and variance, of which the running ones take a share.
void train_batch_normalization(const Call& call, std::vector<Tensor>& outputs) {
  const double epsilon = call.attribute_float("epsilon", 1e-5F);
  const double momentum = call.attribute_float("momentum", 0.9F);
  const AxisView view = view_axis(call.dims(0), 1);
  const Reader<double> in(call.tensor(0)), scale(call.tensor(1)), bias(call.tensor(2));
  const Reader<double> mean(call.tensor(3)), variance(call.tensor(4));
  const Writer<double> out(outputs[0]), mean_out(outputs[1]), variance_out(outputs[2]);
  for (std::int64_t c = 0; c < view.length; ++c) {
    std::vector<double> values;
    const auto position = [&](std::int64_t i) {
      return (i / view.inner * view.length + c) * view.inner + i % view.inner;
    };
    const std::int64_t count = view.outer * view.inner;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(in[position(i)]);
    const Moments found = moments(values);
    const double deviation = std::sqrt(found.variance + epsilon);
    for (std::int64_t i = 0; i < count; ++i) {
      const double normal = (values[static_cast<std::size_t>(i)] - found.mean) / deviation;
      out.set(position(i), normal * scale[c] + bias[c]);
    }
    mean_out.set(c, mean[c] * momentum + found.mean * (1.0 - momentum));
    variance_out.set(c, variance[c] * momentum + found.variance * (1.0 - momentum));
  }
}

}  // namespace

// (x - mean) / sqrt(variance + epsilon) * scale + bias, with one of each a channel.
Status batch_normalization(const Call& call, std::vector<Tensor>& outputs) {
  if (call.attribute("training_mode", 0) != 0) {
    train_batch_normalization(call, outputs);
    return {};
  }
  const double epsilon = call.attribute_float("epsilon", 1e-5F);
  const AxisView view = view_axis(call.dims(0), 1);
  const Reader<double> in(call.tensor(0));
  const Reader<double> scale(call.tensor(1));
  const Reader<double> bias(call.tensor(2));
  const Reader<double> mean(call.tensor(3));
  const Reader<double> variance(call.tensor(4));
  const Writer<double> out(outputs[0]);
  const std::int64_t count = element_count(call.dims(0));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t c = i / view.inner % view.length;
    out.set(i, (in[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] + bias[c]);
  }
  return {};
}

namespace {

// Groups of channels that share their statistics; InstanceNormalization has one channel per group.
std::int64_t group_count(const Call& call) {
  return call.op_type() == "InstanceNormalization" ? call.dims(0)[1]
                                                   : call.attribute("num_groups", 0);
}

}  // namespace

// GroupNormalization has a scale and bias per group before opset 21, and then one per channel.
Result<Outputs> channel_normalization_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  const std::int64_t channels = call.dims(0)[1];
  const std::int64_t groups = group_count(call);
  const bool instance = call.op_type() == "InstanceNormalization";
  if (!instance && (groups < 1 || channels % groups != 0)) {
    return invalid(fmt::format("{} channels cannot be split into {} groups", channels, groups));
  }
  for (std::size_t i = 1; i < 3; ++i) {
    TESSERA_RETURN_IF_ERROR(call.require_float(i));
    const std::int64_t length = instance || call.opset() >= 21 ? channels : groups;
    TESSERA_RETURN_IF_ERROR(call.require_vector(i, length));
  }
  return one_output(call.format(0), call.dims(0));
}

Status channel_normalization(const Call& call, std::vector<Tensor>& outputs) {
  const double epsilon = call.attribute_float("epsilon", 1e-5F);
  const std::int64_t channels = call.dims(0)[1];
  const std::int64_t groups = group_count(call);
  const std::int64_t plane = view_axis(call.dims(0), 1).inner;
  const std::vector<double> in = load<double>(call.tensor(0));
  const Reader<double> scale(call.tensor(1));
  const Reader<double> bias(call.tensor(2));
  const bool scale_by_group = call.dims(1)[0] == groups && groups != channels;
  const Writer<double> out(outputs[0]);
  if (in.empty()) return {};
  const std::int64_t size = channels / groups * plane;
  for (std::int64_t block = 0; block < call.dims(0)[0] * groups; ++block) {
    const Moments found = moments(std::span(in).subspan(static_cast<std::size_t>(block * size),
                                                        static_cast<std::size_t>(size)));
    const double deviation = std::sqrt(found.variance + epsilon);
    for (std::int64_t i = block * size; i < (block + 1) * size; ++i) {
      const std::int64_t c = scale_by_group ? block % groups : i / plane % channels;
      const double normal = (in[static_cast<std::size_t>(i)] - found.mean) / deviation;
      out.set(i, normal * scale[c] + bias[c]);
    }
  }
  return {};
}

// Outputs: y, mean, 1 / deviation. The latter two have 1 in every normalised axis.
Result<Outputs> layer_normalization_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", -1), call.rank(0)));
  const Shape normalised(call.dims(0).begin() + axis, call.dims(0).end());
  for (std::size_t i = 1; i < 3; ++i) {
    if (!call.has(i)) continue;
    TESSERA_RETURN_IF_ERROR(call.require_float(i));
    TESSERA_TRY(const Shape common, broadcast_shapes(normalised, call.dims(i)));
    if (common != normalised) {
      return invalid(fmt::format("input {} of shape {} does not fit into {}", i,
                                 shape_text(call.dims(i)), shape_text(normalised)));
    }
  }
  Shape statistics = call.dims(0);
  std::fill(statistics.begin() + axis, statistics.end(), 1);
  return Outputs{{call.format(0), call.dims(0), nullptr},
                 {Format::kF32, statistics, nullptr},
                 {Format::kF32, statistics, nullptr}};
}

Status layer_normalization(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", -1), call.rank(0)));
  const double epsilon = call.attribute_float("epsilon", 1e-5F);
  const Shape normalised(call.dims(0).begin() + axis, call.dims(0).end());
  const auto size = static_cast<std::size_t>(element_count(normalised));
  const std::vector<double> in = load<double>(call.tensor(0));
  std::vector<double> scale(size, 1.0);
  std::vector<double> bias(size, 0.0);
  for (std::size_t i = 1; i < 3; ++i) {
    if (!call.has(i)) continue;
    const Reader<double> values(call.tensor(i));
    walk<1>(normalised, {broadcast_strides(call.dims(i), normalised)},
            [&](std::int64_t at, const auto& offsets) {
              (i == 1 ? scale : bias)[static_cast<std::size_t>(at)] = values[offsets[0]];
            });
  }
  const Writer<double> out(outputs[0]);
  for (std::size_t row = 0; size > 0 && row * size < in.size(); ++row) {
    const Moments found = moments(std::span(in).subspan(row * size, size));
    const double deviation = std::sqrt(found.variance + epsilon);
    for (std::size_t i = 0; i < size; ++i) {
      const double normal = (in[row * size + i] - found.mean) / deviation;
      out.set(static_cast<std::int64_t>(row * size + i), normal * scale[i] + bias[i]);
    }
    Writer<double>(outputs[1]).set(static_cast<std::int64_t>(row), found.mean);
    Writer<double>(outputs[2]).set(static_cast<std::int64_t>(row), 1.0 / deviation);
  }
  return {};
}

Result<Outputs> rms_normalization_shape(const Call& call) {
  TESSERA_TRY(Outputs outputs, layer_normalization_shape(call));
  outputs.resize(1);
  return outputs;
}

// x / sqrt(mean of x * x + epsilon) * scale over the last axes.
Status rms_normalization(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", -1), call.rank(0)));
  const double epsilon = call.attribute_float("epsilon", 1e-5F);
  const Shape normalised(call.dims(0).begin() + axis, call.dims(0).end());
  const std::int64_t size = element_count(normalised);
  const Reader<double> in(call.tensor(0)), scale(call.tensor(1));
  const Writer<double> out(outputs[0]);
  const std::vector<std::int64_t> strides = broadcast_strides(call.dims(1), normalised);
  const std::int64_t count = element_count(call.dims(0));
  for (std::int64_t row = 0; size > 0 && row < count; row += size) {
    double squares = 0.0;
    for (std::int64_t i = row; i < row + size; ++i) squares += in[i] * in[i];
    const double root = std::sqrt(squares / static_cast<double>(size) + epsilon);
    walk<1>(normalised, {strides}, [&](std::int64_t i, const auto& offsets) {
      out.set(row + i, in[row + i] / root * scale[offsets[0]]);
    });
  }
  return {};
}

Result<Outputs> lrn_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  const std::int64_t size = call.attribute("size", 0);
  if (size < 1 || size > kDimensionMax) {
    return invalid(
        fmt::format("attribute 'size' is {} or missing, allowed: 1 to {}", size, kDimensionMax));
  }
  return one_output(call.format(0), call.dims(0));
}

// x / (bias + alpha / size * sum of squares of `size` channels around) ^ beta
Status lrn(const Call& call, std::vector<Tensor>& outputs) {
  const std::int64_t size = call.attribute("size", 1);
  const double alpha = call.attribute_float("alpha", 1e-4F) / static_cast<double>(size);
  const double beta = call.attribute_float("beta", 0.75F);
  const double bias = call.attribute_float("bias", 1.0F);
  const AxisView view = view_axis(call.dims(0), 1);
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  const std::int64_t count = element_count(call.dims(0));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t c = i / view.inner % view.length;
    const std::int64_t first = std::max<std::int64_t>(0, c - (size - 1) / 2);
    const std::int64_t last = std::min(view.length - 1, c + size / 2);
    double sum = 0.0;
    for (std::int64_t k = first; k <= last; ++k) {
      const double x = in[i + (k - c) * view.inner];
      sum += x * x;
    }
    out.set(i, in[i] / arith::apply(BinaryFunction::kPower, bias + alpha * sum, beta));
  }
  return {};
}

Result<Outputs> mean_variance_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(normalise_axes(call.attribute_integers("axes", {0, 2, 3}), call.rank(0)));
  return one_output(call.format(0), call.dims(0));
}

// (x - mean) / (deviation + 1e-9) over the axes.
Status mean_variance(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Integers axes,
              normalise_axes(call.attribute_integers("axes", {0, 2, 3}), call.rank(0)));
  Shape kept = call.dims(0);
  double size = 1.0;
  for (const std::int64_t axis : axes) {
    std::int64_t& dim = kept[static_cast<std::size_t>(axis)];
    size *= static_cast<double>(dim);
    dim = 1;
  }
  const std::vector<std::int64_t> strides = broadcast_strides(kept, call.dims(0));
  std::vector<Moments> found(static_cast<std::size_t>(element_count(kept)));
  const Reader<double> in(call.tensor(0));
  const auto visit = [&](auto&& f) {
    walk<1>(call.dims(0), {strides}, [&](std::int64_t i, const auto& offsets) {
      f(i, found[static_cast<std::size_t>(offsets[0])]);
    });
  };
  visit([&](std::int64_t i, Moments& m) { m.mean += in[i] / size; });
  visit([&](std::int64_t i, Moments& m) {
    m.variance += (in[i] - m.mean) * (in[i] - m.mean) / size;
  });
  const Writer<double> out(outputs[0]);
  visit([&](std::int64_t i, Moments& m) {
    out.set(i, (in[i] - m.mean) / (std::sqrt(m.variance) + 1e-9));
  });
  return {};
}

Result<Outputs> lp_normalization_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(normalise_axis(call.attribute("axis", -1), call.rank(0)));
  return one_output(call.format(0), call.dims(0));
}

// A row without length stays zero.
Status lp_normalization(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", -1), call.rank(0)));
  const bool absolute = call.attribute("p", 2) == 1;
  const AxisView view = view_axis(call.dims(0), axis);
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  for (std::int64_t line = 0; line < view.outer * view.inner; ++line) {
    const std::int64_t base = line / view.inner * view.length * view.inner + line % view.inner;
    double sum = 0.0;
    for (std::int64_t i = 0; i < view.length; ++i) {
      const double x = in[base + i * view.inner];
      sum += absolute ? std::fabs(x) : x * x;
    }
    const double norm = absolute ? sum : std::sqrt(sum);
    for (std::int64_t i = 0; i < view.length; ++i) {
      const std::int64_t at = base + i * view.inner;
      out.set(at, norm == 0.0 ? 0.0 : in[at] / norm);
    }
  }
  return {};
}

}  // namespace tessera::model::ops

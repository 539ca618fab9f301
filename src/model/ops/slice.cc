#include "model/ops/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

// Opset 1 to 3 lets Concat leave its axis out.
Result<std::int64_t> concat_axis(const Call& call) {
  if (call.opset() >= 4 && !call.has_attribute("axis"))
    return invalid("attribute 'axis' is missing");
  return normalise_axis(call.attribute("axis", 1), call.rank(0));
}

}  // namespace

Result<Outputs> concat_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t axis, concat_axis(call));
  Shape dims = call.dims(0);
  for (std::size_t i = 1; i < call.count(); ++i) {
    if (!call.has(i)) return invalid(fmt::format("input {} is missing", i));
    TESSERA_RETURN_IF_ERROR(call.require_same_format(0, i));
    const Shape& next = call.dims(i);
    bool fits = next.size() == dims.size();
    for (std::size_t k = 0; fits && k < dims.size(); ++k) {
      fits = k == static_cast<std::size_t>(axis) || next[k] == dims[k];
    }
    if (!fits) {
      return invalid(
          fmt::format("input {} of shape {} cannot follow input 0 of shape {} along "
                      "axis {}",
                      i, shape_text(next), shape_text(call.dims(0)), axis));
    }
    dims[static_cast<std::size_t>(axis)] += next[static_cast<std::size_t>(axis)];
  }
  return one_output(call.format(0), std::move(dims));
}

Status concat(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, concat_axis(call));
  const AxisView to = view_axis(outputs[0].dims, axis);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < call.count(); ++i) {
    const AxisView from = view_axis(call.dims(i), axis);
    const Copier copier(call.tensor(i), outputs[0]);
    const std::int64_t run = from.length * from.inner;
    for (std::int64_t outer = 0; run > 0 && outer < to.outer; ++outer) {
      copier.copy(outer * run, (outer * to.length + start) * to.inner, run);
    }
    start += from.length;
  }
  return {};
}

namespace {

Result<Integers> split_lengths(const Call& call, std::int64_t length) {
  Integers lengths = call.attribute_integers("split", {});
  if (call.has(1)) {
    TESSERA_TRY(lengths, call.integers(1));
  }
  const auto parts = static_cast<std::int64_t>(call.output_count());
  if (call.has_attribute("num_outputs") && call.attribute("num_outputs", 0) != parts) {
    return invalid(fmt::format("attribute 'num_outputs' is {}, but {} outputs are named",
                               call.attribute("num_outputs", 0), parts));
  }
  if (lengths.empty()) {
    if (length % parts != 0 && call.opset() < 18) {
      return invalid(fmt::format("length {} cannot be split into {} equal parts", length, parts));
    }
    const std::int64_t each = (length + parts - 1) / parts;
    std::int64_t left = length;
    for (std::int64_t i = 0; i < parts; ++i) {
      lengths.push_back(std::min(each, left));
      left -= lengths.back();
    }
    return lengths;
  }
  std::int64_t sum = 0;
  for (const std::int64_t part : lengths) {
    if (part < 0 || part > length) return invalid(fmt::format("a part of length {}", part));
    sum += part;
  }
  if (static_cast<std::int64_t>(lengths.size()) != parts || sum != length) {
    return invalid(fmt::format("{} parts of together {} for {} outputs and a length of {}",
                               lengths.size(), sum, parts, length));
  }
  return lengths;
}

}  // namespace

Result<Outputs> split_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  const auto middle = static_cast<std::size_t>(axis);
  TESSERA_TRY(const Integers lengths, split_lengths(call, call.dims(0)[middle]));
  Outputs outputs;
  for (const std::int64_t length : lengths) {
    Shape dims = call.dims(0);
    dims[middle] = length;
    outputs.push_back({call.format(0), std::move(dims), nullptr});
  }
  return outputs;
}

Status split(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  const AxisView from = view_axis(call.dims(0), axis);
  std::int64_t start = 0;
  for (Tensor& output : outputs) {
    const std::int64_t length = output.dims[static_cast<std::size_t>(axis)];
    const Copier copier(call.tensor(0), output);
    const std::int64_t run = length * from.inner;
    for (std::int64_t outer = 0; run > 0 && outer < from.outer; ++outer) {
      copier.copy((outer * from.length + start) * from.inner, outer * run, run);
    }
    start += length;
  }
  return {};
}

namespace {

// Where a slice begins and how it steps, for every axis.
struct SlicePlan {
  Shape dims;
  Integers starts;
  Integers steps;
};

struct SliceArguments {
  Integers starts;
  Integers ends;
  Integers axes;
  Integers steps;
};

Result<SliceArguments> slice_arguments(const Call& call) {
  SliceArguments given;
  if (call.opset() < 10) {
    given.starts = call.attribute_integers("starts", {});
    given.ends = call.attribute_integers("ends", {});
    given.axes = call.attribute_integers("axes", {});
  } else {
    if (!call.has(1) || !call.has(2)) return invalid("input 1 (starts) or 2 (ends) is missing");
    TESSERA_TRY(given.starts, call.integers(1));
    TESSERA_TRY(given.ends, call.integers(2));
    if (call.has(3)) {
      TESSERA_TRY(given.axes, call.integers(3));
    }
    if (call.has(4)) {
      TESSERA_TRY(given.steps, call.integers(4));
    }
  }
  if (given.axes.empty() && !(call.opset() >= 10 && call.has(3))) {
    given.axes.resize(given.starts.size());
    std::iota(given.axes.begin(), given.axes.end(), 0);
  }
  if (given.steps.empty()) given.steps.assign(given.starts.size(), 1);
  const std::size_t count = given.starts.size();
  if (given.ends.size() != count || given.axes.size() != count || given.steps.size() != count) {
    return invalid(fmt::format("{} starts, {} ends, {} axes and {} steps", count, given.ends.size(),
                               given.axes.size(), given.steps.size()));
  }
  return given;
}

Result<SlicePlan> plan_slice(const Call& call) {
  TESSERA_TRY(const SliceArguments given, slice_arguments(call));
  SlicePlan plan{call.dims(0), Integers(call.dims(0).size(), 0), Integers(call.dims(0).size(), 1)};
  TESSERA_RETURN_IF_ERROR(normalise_axes(given.axes, call.rank(0)));
  for (std::size_t i = 0; i < given.axes.size(); ++i) {
    TESSERA_TRY(const std::int64_t axis, normalise_axis(given.axes[i], call.rank(0)));
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t length = call.dims(0)[a];
    const std::int64_t step = std::clamp(given.steps[i], -kDimensionMax, kDimensionMax);
    if (step == 0) return invalid(fmt::format("the step of axis {} is 0", axis));
    const auto place = [&](std::int64_t position) {
      const std::int64_t from_end = position < 0 ? position + length : position;
      return step > 0 ? std::clamp<std::int64_t>(from_end, 0, length)
                      : std::clamp<std::int64_t>(from_end, -1, length - 1);
    };
    const std::int64_t start = place(given.starts[i]);
    const std::int64_t end = place(given.ends[i]);
    const std::int64_t span = step > 0 ? end - start : start - end;
    const std::int64_t stride = step > 0 ? step : -step;
    plan.dims[a] = span <= 0 ? 0 : (span + stride - 1) / stride;
    plan.starts[a] = start;
    plan.steps[a] = step;
  }
  return plan;
}

}  // namespace

Result<Outputs> slice_shape(const Call& call) {
  TESSERA_TRY(SlicePlan plan, plan_slice(call));
  return one_output(call.format(0), std::move(plan.dims));
}

Status slice(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const SlicePlan plan, plan_slice(call));
  if (element_count(plan.dims) == 0) return {};
  std::vector<std::int64_t> strides = strides_of(call.dims(0));
  std::int64_t start = 0;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    start += plan.starts[axis] * strides[axis];
    // With one element the step is never taken, and may be huge.
    strides[axis] *= plan.dims[axis] == 1 ? 0 : plan.steps[axis];
  }
  copy_strided(call.tensor(0), start, strides, outputs[0]);
  return {};
}

Result<Outputs> expand_shape(const Call& call) {
  TESSERA_TRY(const Integers wanted, call.integers(1));
  TESSERA_RETURN_IF_ERROR(check_size(call.format(0), wanted));
  TESSERA_TRY(Shape dims, broadcast_shapes(call.dims(0), wanted));
  return one_output(call.format(0), std::move(dims));
}

Status expand(const Call& call, std::vector<Tensor>& outputs) {
  copy_strided(call.tensor(0), 0, broadcast_strides(call.dims(0), outputs[0].dims), outputs[0]);
  return {};
}

Result<Outputs> tile_shape(const Call& call) {
  Shape dims = call.dims(0);
  Integers repeats(dims.size(), 1);
  if (call.opset() < 6) {
    if (!call.has(1) || !call.has(2)) return invalid("input 1 (tiles) or 2 (axis) is missing");
    TESSERA_TRY(const std::int64_t tiles, call.integer(1));
    TESSERA_TRY(const std::int64_t given, call.integer(2));
    TESSERA_TRY(const std::int64_t axis, normalise_axis(given, call.rank(0)));
    repeats[static_cast<std::size_t>(axis)] = tiles;
  } else {
    TESSERA_TRY(repeats, call.integers(1));
  }
  if (repeats.size() != dims.size()) {
    return invalid(fmt::format("{} repeats for an input of rank {}", repeats.size(), dims.size()));
  }
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (repeats[axis] < 0 || __builtin_mul_overflow(dims[axis], repeats[axis], &dims[axis])) {
      return invalid(fmt::format("{} repeats of axis {}", repeats[axis], axis));
    }
  }
  return one_output(call.format(0), std::move(dims));
}

Status tile(const Call& call, std::vector<Tensor>& outputs) {
  const Shape& in = call.dims(0);
  const std::vector<std::int64_t> strides = strides_of(in);
  const Copier copier(call.tensor(0), outputs[0]);
  walk_indices(outputs[0].dims, [&](std::int64_t position, const auto& at) {
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis)
      from += at[axis] % in[axis] * strides[axis];
    copier.copy(from, position);
  });
  return {};
}

namespace {

// Elements added before (or cut off, where negative) and after, for every axis.
struct Pads {
  Integers before;
  Integers after;
};

Result<Pads> plan_pads(const Call& call) {
  Integers pads = call.opset() < 2 ? call.attribute_integers("paddings", {})
                                   : call.attribute_integers("pads", {});
  if (call.opset() >= 11) {
    if (!call.has(1)) return invalid("input 1 (pads) is missing");
    TESSERA_TRY(pads, call.integers(1));
  }
  Integers axes(call.dims(0).size());
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has(3)) {
    TESSERA_TRY(axes, call.integers(3));
    TESSERA_RETURN_IF_ERROR(normalise_axes(axes, call.rank(0)));
  }
  if (pads.size() != 2 * axes.size()) {
    return invalid(
        fmt::format("{} pads for {} axes, 2 an axis are needed", pads.size(), axes.size()));
  }
  Pads plan{Integers(call.dims(0).size(), 0), Integers(call.dims(0).size(), 0)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    TESSERA_TRY(const std::int64_t axis, normalise_axis(axes[i], call.rank(0)));
    for (const std::int64_t pad : {pads[i], pads[i + axes.size()]}) {
      if (pad < -kDimensionMax || pad > kDimensionMax) {
        return invalid(fmt::format("axis {} is padded by {}", axis, pad));
      }
    }
    plan.before[static_cast<std::size_t>(axis)] = pads[i];
    plan.after[static_cast<std::size_t>(axis)] = pads[i + axes.size()];
  }
  return plan;
}

// The position a padded one takes its value from; -1 = none (constant).
std::int64_t pad_source(std::int64_t position, std::int64_t length, const std::string& mode) {
  if (position >= 0 && position < length) return position;
  if (mode == "edge") return std::clamp<std::int64_t>(position, 0, length - 1);
  if (mode == "wrap") return ((position % length) + length) % length;
  if (mode == "reflect") {
    if (length == 1) return 0;
    const std::int64_t period = 2 * (length - 1);
    const std::int64_t phase = ((position % period) + period) % period;
    return phase < length ? phase : period - phase;
  }
  return -1;
}

// The value of constant padding, as one element of the output's format.
Tensor pad_value(const Call& call) {
  Tensor value = Tensor::zeros(call.format(0), {1});
  if (call.opset() < 11) {
    const double given = call.attribute_float("value", 0.0F);
    Writer<double>(value).set(0, given);
  } else if (call.has(2)) {
    Copier(call.tensor(2), value).copy(0, 0);
  }
  return value;
}

}  // namespace

Result<Outputs> pad_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_one_element(2, "constant_value"));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 2));
  TESSERA_TRY(const Pads pads, plan_pads(call));
  Shape dims = call.dims(0);
  const bool constant = call.attribute_string("mode", "constant") == "constant";
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (!constant && dims[axis] == 0 && pads.before[axis] + pads.after[axis] > 0) {
      return invalid(fmt::format("axis {} is empty, it can be padded with a constant only", axis));
    }
    dims[axis] += pads.before[axis] + pads.after[axis];
    if (dims[axis] < 0) {
      return invalid(fmt::format("pads {} and {} leave nothing of axis {} of length {}",
                                 pads.before[axis], pads.after[axis], axis, call.dims(0)[axis]));
    }
  }
  return one_output(call.format(0), std::move(dims));
}

Status pad(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Pads pads, plan_pads(call));
  const Tensor value = pad_value(call);
  const std::string mode = call.attribute_string("mode", "constant");
  const Shape& in = call.dims(0);
  const std::vector<std::int64_t> strides = strides_of(in);
  const Copier data(call.tensor(0), outputs[0]);
  const Copier constant(value, outputs[0]);
  walk_indices(outputs[0].dims, [&](std::int64_t position, const auto& at) {
    std::int64_t from = 0;
    bool inside = true;
    for (std::size_t axis = 0; inside && axis < at.size(); ++axis) {
      const std::int64_t source = pad_source(at[axis] - pads.before[axis], in[axis], mode);
      inside = source >= 0;
      from += source * strides[axis];
    }
    inside ? data.copy(from, position) : constant.copy(0, position);
  });
  return {};
}

Result<Outputs> reverse_sequence_shape(const Call& call) {
  const std::int64_t batch_axis = call.attribute("batch_axis", 1);
  const std::int64_t time_axis = call.attribute("time_axis", 0);
  const bool axes_differ =
      (batch_axis == 0 && time_axis == 1) || (batch_axis == 1 && time_axis == 0);
  if (!axes_differ || call.rank(0) < 2) {
    return invalid(fmt::format("batch_axis {} and time_axis {} for an input of shape {}",
                               batch_axis, time_axis, shape_text(call.dims(0))));
  }
  TESSERA_RETURN_IF_ERROR(
      call.require_vector(1, call.dims(0)[static_cast<std::size_t>(batch_axis)]));
  return one_output(call.format(0), call.dims(0));
}

Status reverse_sequence(const Call& call, std::vector<Tensor>& outputs) {
  const auto time = static_cast<std::size_t>(call.attribute("time_axis", 0));
  const auto batch = static_cast<std::size_t>(call.attribute("batch_axis", 1));
  TESSERA_TRY(const Integers lengths, call.integers(1));
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > call.dims(0)[time]) {
      return invalid(fmt::format("a sequence of length {}, at most {} is allowed", length,
                                 call.dims(0)[time]));
    }
  }
  const std::vector<std::int64_t> strides = strides_of(call.dims(0));
  const Copier copier(call.tensor(0), outputs[0]);
  walk_indices(outputs[0].dims, [&](std::int64_t position, const auto& at) {
    const std::int64_t length = lengths[static_cast<std::size_t>(at[batch])];
    const std::int64_t t = at[time];
    copier.copy(t < length ? position + (length - 1 - 2 * t) * strides[time] : position, position);
  });
  return {};
}

Result<Outputs> trilu_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  TESSERA_RETURN_IF_ERROR(call.require_one_element(1, "k"));
  return one_output(call.format(0), call.dims(0));
}

Status trilu(const Call& call, std::vector<Tensor>& outputs) {
  std::int64_t diagonal = 0;
  if (call.has(1)) {
    diagonal = Reader<std::int64_t>(call.tensor(1))[0];
    diagonal = std::clamp(diagonal, -kDimensionMax, kDimensionMax);
  }
  const bool upper = call.attribute("upper", 1) != 0;
  const Copier copier(call.tensor(0), outputs[0]);
  walk_indices(outputs[0].dims, [&](std::int64_t position, const auto& at) {
    const std::int64_t distance = at[at.size() - 1] - at[at.size() - 2];
    if (upper ? distance >= diagonal : distance <= diagonal) copier.copy(position, position);
  });
  return {};
}

}  // namespace tessera::model::ops

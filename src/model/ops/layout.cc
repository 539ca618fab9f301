#include "model/ops/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

Outputs known(Tensor tensor) {
  auto shared = std::make_shared<const Tensor>(std::move(tensor));
  return {TypedValue{shared->format, shared->dims, shared}};
}

// Axes are an input from opset 13 on, an attribute before. Empty if there are none.
Result<Integers> squeeze_axes(const Call& call) {
  if (call.opset() >= 13) {
    if (call.has(1)) return call.integers(1);
    return Integers{};
  }
  return call.attribute_integers("axes", {});
}

}  // namespace

Result<Outputs> shape_shape(const Call& call) {
  const std::int64_t rank = call.rank(0);
  const auto clamp = [rank](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t start = clamp(call.attribute("start", 0));
  const std::int64_t end = std::max(start, clamp(call.attribute("end", rank)));
  return known(integer_vector({call.dims(0).begin() + start, call.dims(0).begin() + end}));
}

Result<Outputs> size_shape(const Call& call) {
  return known(integer_scalar(element_count(call.dims(0))));
}

Result<Outputs> reshape_shape(const Call& call) {
  Integers wanted = call.attribute_integers("shape", {});
  if (call.opset() >= 5) {
    if (!call.has(1)) return invalid("input 1 (shape) is missing");
    TESSERA_TRY(wanted, call.integers(1));
  }
  const bool zero_means_copy = call.attribute("allowzero", 0) == 0;
  const Shape& in = call.dims(0);
  std::int64_t open = -1;
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    if (wanted[axis] == 0 && zero_means_copy) {
      if (axis >= in.size()) {
        return invalid(fmt::format("shape {} copies dimension {} of an input of rank {}",
                                   shape_text(wanted), axis, in.size()));
      }
      wanted[axis] = in[axis];
    }
    if (wanted[axis] == -1) {
      if (open >= 0) return invalid(fmt::format("shape {} has two -1", shape_text(wanted)));
      open = static_cast<std::int64_t>(axis);
    } else if (wanted[axis] < 0 || __builtin_mul_overflow(product, wanted[axis], &product)) {
      return invalid(fmt::format("{} is not a shape", shape_text(wanted)));
    }
  }
  const std::int64_t count = element_count(in);
  if (open >= 0 && product != 0 && count % product == 0) {
    wanted[static_cast<std::size_t>(open)] = count / product;
    product = count;
  } else if (open >= 0 || product != count) {
    return invalid(fmt::format("an input of shape {} cannot take the shape {}", shape_text(in),
                               shape_text(wanted)));
  }
  return one_output(call.format(0), std::move(wanted));
}

Result<Outputs> squeeze_shape(const Call& call) {
  const Shape& in = call.dims(0);
  TESSERA_TRY(const Integers given, squeeze_axes(call));
  TESSERA_TRY(const Integers axes, normalise_axes(given, call.rank(0)));
  const bool all = call.opset() >= 13 ? !call.has(1) : !call.has_attribute("axes");
  Shape dims;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    const bool named =
        std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(axis));
    if (named && in[axis] != 1) {
      return invalid(fmt::format("dimension {} is {}, only 1 can be removed", axis, in[axis]));
    }
    if (!named && !(all && in[axis] == 1)) dims.push_back(in[axis]);
  }
  return one_output(call.format(0), std::move(dims));
}

Result<Outputs> unsqueeze_shape(const Call& call) {
  if (call.opset() >= 13 && !call.has(1)) return invalid("input 1 (axes) is missing");
  TESSERA_TRY(const Integers given, squeeze_axes(call));
  const std::int64_t rank = call.rank(0) + static_cast<std::int64_t>(given.size());
  TESSERA_TRY(const Integers axes, normalise_axes(given, rank));
  Shape dims = call.dims(0);
  for (const std::int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
  return one_output(call.format(0), std::move(dims));
}

Result<Outputs> flatten_shape(const Call& call) {
  std::int64_t axis = call.attribute("axis", 1);
  const std::int64_t rank = call.rank(0);
  if (axis < -rank || axis > rank) {
    return invalid(fmt::format("axis {} is outside [{}, {}]", axis, -rank, rank));
  }
  if (axis < 0) axis += rank;
  const Shape& in = call.dims(0);
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  for (std::int64_t i = 0; i < rank; ++i) {
    (i < axis ? rows : columns) *= in[static_cast<std::size_t>(i)];
  }
  return one_output(call.format(0), {rows, columns});
}

Result<Outputs> same_shape(const Call& call) { return one_output(call.format(0), call.dims(0)); }

Result<Outputs> transpose_shape(const Call& call) {
  const Shape& in = call.dims(0);
  Integers order(in.size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = call.attribute_integers("perm", order);
  Integers sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (sorted.size() != in.size() || sorted[axis] != static_cast<std::int64_t>(axis)) {
      return invalid(fmt::format("attribute 'perm' is no order of {} axes", in.size()));
    }
  }
  if (order.size() != in.size()) {
    return invalid(fmt::format("attribute 'perm' is no order of {} axes", in.size()));
  }
  Shape dims;
  for (const std::int64_t axis : order) dims.push_back(in[static_cast<std::size_t>(axis)]);
  return one_output(call.format(0), std::move(dims));
}

Status copy_bytes(const Call& call, std::vector<Tensor>& outputs) {
  outputs[0].bytes = call.tensor(0).bytes;
  return {};
}

Status no_elements(const Call&, std::vector<Tensor>&) { return {}; }

Status transpose(const Call& call, std::vector<Tensor>& outputs) {
  const std::vector<std::int64_t> own = strides_of(call.dims(0));
  Integers order(own.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : call.attribute_integers("perm", order)) {
    strides.push_back(own[static_cast<std::size_t>(axis)]);
  }
  copy_strided(call.tensor(0), 0, strides, outputs[0]);
  return {};
}

namespace {

Result<std::int64_t> block_size(const Call& call) {
  if (call.rank(0) != 4) {
    return invalid(fmt::format("input 0 has shape {}, rank 4 is needed", shape_text(call.dims(0))));
  }
  const std::int64_t size = call.attribute("blocksize", 0);
  if (size < 1 || size > 65536) {
    return invalid(fmt::format("attribute 'blocksize' is {}, allowed: 1 to 65536", size));
  }
  return size;
}

}  // namespace

Result<Outputs> depth_to_space_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t b, block_size(call));
  const Shape& in = call.dims(0);
  if (in[1] % (b * b) != 0) {
    return invalid(
        fmt::format("{} channels are no multiple of blocksize squared, {}", in[1], b * b));
  }
  return one_output(call.format(0), {in[0], in[1] / (b * b), in[2] * b, in[3] * b});
}

Result<Outputs> space_to_depth_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t b, block_size(call));
  const Shape& in = call.dims(0);
  if (in[2] % b != 0 || in[3] % b != 0) {
    return invalid(
        fmt::format("height {} and width {} are no multiples of blocksize {}", in[2], in[3], b));
  }
  Shape dims{in[0], 0, in[2] / b, in[3] / b};
  if (__builtin_mul_overflow(in[1], b * b, &dims[1])) return invalid("too many channels");
  return one_output(call.format(0), std::move(dims));
}

// DCR: depth is [block row, block column, channel]; CRD: [channel, block row, block column].
Status depth_to_space(const Call& call, std::vector<Tensor>& outputs) {
  const std::int64_t b = call.attribute("blocksize", 1);
  const bool blocks_first = call.attribute_string("mode", "DCR") == "DCR";
  const std::vector<std::int64_t> in = strides_of(call.dims(0));
  const std::int64_t channels = outputs[0].dims[1];
  const Copier copier(call.tensor(0), outputs[0]);
  walk_indices(outputs[0].dims, [&](std::int64_t position, const auto& at) {
    const std::int64_t block = (at[2] % b) * b + at[3] % b;
    const std::int64_t depth = blocks_first ? block * channels + at[1] : at[1] * b * b + block;
    copier.copy(at[0] * in[0] + depth * in[1] + at[2] / b * in[2] + at[3] / b * in[3], position);
  });
  return {};
}

Status space_to_depth(const Call& call, std::vector<Tensor>& outputs) {
  const std::int64_t b = call.attribute("blocksize", 1);
  const std::vector<std::int64_t> in = strides_of(call.dims(0));
  const std::int64_t channels = call.dims(0)[1];
  const Copier copier(call.tensor(0), outputs[0]);
  walk_indices(outputs[0].dims, [&](std::int64_t position, const auto& at) {
    const std::int64_t block = at[1] / channels;
    const std::int64_t row = at[2] * b + block / b;
    const std::int64_t column = at[3] * b + block % b;
    copier.copy(at[0] * in[0] + at[1] % channels * in[1] + row * in[2] + column * in[3], position);
  });
  return {};
}

// The mask is bool from opset 10 on and has the data's format before.
Result<Outputs> dropout_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_one_element(1, "ratio"));
  TESSERA_RETURN_IF_ERROR(call.require_float(1));
  TESSERA_RETURN_IF_ERROR(call.require_one_element(2, "training_mode"));
  TESSERA_RETURN_IF_ERROR(call.require_format(2, Format::kBool));
  Outputs outputs = one_output(call.format(0), call.dims(0));
  outputs.push_back({call.opset() >= 10 ? Format::kBool : call.format(0), call.dims(0), nullptr});
  return outputs;
}

Status dropout(const Call& call, std::vector<Tensor>& outputs) {
  bool training = call.opset() < 7 && call.attribute("is_test", 0) == 0;
  if (call.has(2)) training = Reader<std::int64_t>(call.tensor(2))[0] != 0;
  double ratio = call.attribute_float("ratio", 0.5F);
  if (call.has(1)) ratio = Reader<double>(call.tensor(1))[0];
  if (training && ratio != 0.0) return unsupported("training mode drops elements at random");
  outputs[0].bytes = call.tensor(0).bytes;
  if (!call.wants_output(1)) return {};
  const Writer<std::int64_t> mask(outputs[1]);
  const std::int64_t count = element_count(outputs[1].dims);
  for (std::int64_t i = 0; i < count; ++i) mask.set(i, 1);
  return {};
}

}  // namespace tessera::model::ops

// Pooling.
//
//   MaxPool, AveragePool       -> Pool, over one axis as height 1 with reshapes around it; over
//                                 three axes two Pools, the last two axes first (an average with
//                                 f32 in between)
//   GlobalAverage/MaxPool      -> Reduce over the spatial axes; also an average
//                                 whose one window is the whole input
//
// With ceil_mode the last window may reach beyond the padded input; the Pool gets the larger pads
// at the end. Where an average counts padding, the stated padding is made real by a Move first, so
// that only the stated pads count.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/composer.h"
#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/refusals.h"
#include "graph/window.h"

namespace tessera::graph {

namespace {

std::string pool_refusal(const Op& op) {
  const std::size_t rank = op.input_dims(0).size();
  const Format format = op.input_type(0).format;
  if (format_bytes(format) > 4) {
    return fmt::format("operator '{}': no vector arithmetic in {}", op.node.op_type,
                       format_name(format));
  }
  if (rank != 3 && rank != 4) {
    return fmt::format("operator '{}': {} spatial axes; the processor has 1 or 2", op.node.op_type,
                       static_cast<std::int64_t>(rank) - 2);
  }
  return "";
}

// The pads at the end as large as the windows of `output` need, or as stated where that is more.
std::array<std::int64_t, 2> reached_pads(const Window& window, const Shape& input,
                                         const Shape& output) {
  std::array<std::int64_t, 2> pads = window.pad_end;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t needed = (output[axis + 2] - 1) * window.stride[axis] + window.reach(axis) -
                                input[axis + 2] - window.pad_begin[axis];
    pads[axis] = std::max(pads[axis], needed);
    // Later opsets drop a last window that would start in the padding.
    const std::int64_t span = input[axis + 2] + window.pad_begin[axis] + pads[axis];
    const std::int64_t windows = (span - window.reach(axis)) / window.stride[axis] + 1;
    if (windows > output[axis + 2]) pads[axis] = needed;
  }
  return pads;
}

PoolAttributes pool_attributes(const Window& window) {
  PoolAttributes pool;
  pool.window_h = window.kernel[0];
  pool.window_w = window.kernel[1];
  pool.stride_h = window.stride[0];
  pool.stride_w = window.stride[1];
  pool.dilation_h = window.dilation[0];
  pool.dilation_w = window.dilation[1];
  pool.pad_top = window.pad_begin[0];
  pool.pad_left = window.pad_begin[1];
  pool.pad_bottom = window.pad_end[0];
  pool.pad_right = window.pad_end[1];
  return pool;
}

// x with the window's padding as real zeros; the window loses its pads.
TensorId with_real_padding(Op& op, TensorId x, Window& window) {
  const TensorInfo info = op.at.tensor(x);
  Shape dims = info.dims;
  CopyBox box;
  box.extents = info.dims;
  box.input_strides = row_major_strides(info.dims);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    dims[axis + 2] += window.pad_begin[axis] + window.pad_end[axis];
  }
  box.output_strides = row_major_strides(dims);
  box.output_offset = window.pad_begin[0] * dims[3] + window.pad_begin[1];
  window.pad_begin = {0, 0};
  window.pad_end = {0, 0};
  return op.at.emit(op, "padded", {x}, MoveAttributes{true, 0, {simplified(box)}}, info.format,
                    dims);
}

// Over three axes. Every real element of a window is in one slice of it, and all slices of a window
// have equally many, so the mean of the slices' means is the window's.
Lowered emit_volume_pool(Op& op, PoolFunction function, bool include_padding) {
  Composer make(op);
  const Shape& in = op.input_dims(0);
  const Shape& out = op.output_dims(0);
  const auto windows =
      read_axis_windows(op, op.integer_list("kernel_shape"), {in[2], in[3], in[4]});
  TensorId x = op.at.value(op.input(0));
  const Format format = function == PoolFunction::kAverage ? Format::kF32 : make.format(x);
  x = make.converted(x, format);
  const auto pooled = [&](const std::string& suffix, const AxisWindow& height,
                          const AxisWindow& width, const Shape& from, const Shape& to) {
    Window window = as_window(height, width);
    window.pad_end = reached_pads(window, from, to);
    PoolAttributes pool = pool_attributes(window);
    pool.function = function;
    pool.include_padding = include_padding;
    x = op.at.emit(op, suffix, {make.reshaped(x, from)}, pool, format, to);
  };
  const std::int64_t images = in[0] * in[1];
  pooled("slices", windows[1], windows[2], {images, in[2], in[3], in[4]},
         {images, in[2], out[3], out[4]});
  pooled("depth", windows[0], {}, {images, 1, in[2], out[3] * out[4]},
         {images, 1, out[2], out[3] * out[4]});
  make.output(0, make.reshaped(x, out));
  return Lowered::done();
}

Lowered emit_pool(Op& op, TensorId image, const PoolAttributes& pool) {
  const Shape& dims = op.output_dims(0);
  if (dims.size() == 4) {
    op.at.emit_output(op, 0, {image}, pool);
    return Lowered::done();
  }
  const TensorId pooled =
      op.at.emit(op, "pool", {image}, pool, op.at.tensor(image).format, as_image(dims));
  op.at.emit_output_reshape(op, 0, pooled);
  return Lowered::done();
}

Lowered lower_global_pool(Op& op, ReduceFunction function) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const std::size_t rank = op.input_dims(0).size();
  if (rank < 3) return Lowered::host("global pooling: no spatial axes");
  std::vector<std::int64_t> axes(rank - 2);
  std::iota(axes.begin(), axes.end(), 2);
  op.at.emit_output(op, 0, {op.at.value(op.input(0))}, reduce_node(function, axes));
  return Lowered::done();
}

Window pool_window(const Op& op) {
  const Shape spatial(op.input_dims(0).begin() + 2, op.input_dims(0).end());
  return read_window(op, op.integer_list("kernel_shape"), spatial);
}

// One window without padding that covers all of the input.
bool is_whole(const Op& op, const Window& window) {
  const Shape image = as_image(op.input_dims(0));
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (window.pad_begin[axis] != 0 || window.pad_end[axis] != 0) return false;
    if (window.dilation[axis] != 1 || window.kernel[axis] != image[axis + 2]) return false;
  }
  return true;
}

}  // namespace

Lowered lower_max_pool(Op& op) {
  if (op.has_output(1)) return Lowered::host("operator 'MaxPool': output 'Indices' is used");
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (op.input_dims(0).size() == 5 && format_bytes(op.input_type(0).format) <= 4) {
    return emit_volume_pool(op, PoolFunction::kMaximum, false);
  }
  if (std::string reason = pool_refusal(op); !reason.empty()) return Lowered::host(reason);
  Window window = pool_window(op);
  const TensorId x = op.at.value(op.input(0));
  const TensorId image = op.at.emit_reshape(op, "image", x, as_image(op.input_dims(0)));
  window.pad_end = reached_pads(window, as_image(op.input_dims(0)), as_image(op.output_dims(0)));
  PoolAttributes pool = pool_attributes(window);
  pool.function = PoolFunction::kMaximum;
  return emit_pool(op, image, pool);
}

Lowered lower_average_pool(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const bool counts_padding = op.integer("count_include_pad", 0) != 0;
  if (op.input_dims(0).size() == 5) {
    if (counts_padding && op.integer("ceil_mode", 0) != 0) {
      return Lowered::host("operator 'AveragePool': ceil_mode with padding counted on 3 axes");
    }
    return emit_volume_pool(op, PoolFunction::kAverage, counts_padding);
  }
  if (std::string reason = pool_refusal(op); !reason.empty()) return Lowered::host(reason);
  Window window = pool_window(op);
  if (is_whole(op, window)) return lower_global_pool(op, ReduceFunction::kMean);
  const TensorId x = op.at.value(op.input(0));
  TensorId image = op.at.emit_reshape(op, "image", x, as_image(op.input_dims(0)));
  const Shape output = as_image(op.output_dims(0));
  const auto reached = reached_pads(window, op.at.tensor(image).dims, output);
  const bool padded =
      window.pad_begin[0] + window.pad_begin[1] + window.pad_end[0] + window.pad_end[1] > 0;
  bool include_padding = counts_padding && padded;
  if (include_padding && reached != window.pad_end) {
    image = with_real_padding(op, image, window);
    include_padding = false;
    window.pad_end = reached_pads(window, op.at.tensor(image).dims, output);
  } else {
    window.pad_end = reached;
  }
  PoolAttributes pool = pool_attributes(window);
  pool.function = PoolFunction::kAverage;
  pool.include_padding = include_padding;
  return emit_pool(op, image, pool);
}

Lowered lower_global_average_pool(Op& op) { return lower_global_pool(op, ReduceFunction::kMean); }
Lowered lower_global_max_pool(Op& op) { return lower_global_pool(op, ReduceFunction::kMaximum); }

}  // namespace tessera::graph

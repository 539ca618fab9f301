// Convolution over three axes as one over two: the taps along the depth become channels.
//
//   x [N, C, D, H, W] ── Move ──► [N * OD, groups * KD * C / groups, H, W]
//                        for each output depth the KD slices under the kernel, padding as zeros
//   weights [OC, C / groups, KD, KH, KW] ──► [OC, KD * C / groups, KH, KW]
//   Conv ──► [N * OD, OC, OH, OW] ── Move ──► [N, OC, OD, OH, OW]
//
// One sum, one rounding, as over two axes.
#include <fmt/format.h>

#include <algorithm>

#include "graph/composer.h"
#include "graph/conv_nodes.h"
#include "graph/move_box.h"
#include "graph/operators.h"

namespace tessera::graph {

namespace {

struct Volume {
  std::int64_t images, groups, channels, depth, plane;  // channels of a group
};

// The slices under the kernel, for every output depth.
MoveAttributes depth_columns(const Volume& x, const AxisWindow& window, std::int64_t depth) {
  const std::int64_t slice = x.channels * x.plane;
  const std::int64_t column = x.groups * window.kernel * slice;
  MoveAttributes move;
  for (std::int64_t tap = 0; tap < window.kernel; ++tap) {
    const std::int64_t shift = tap * window.dilation - window.pad_begin;
    std::int64_t first = 0;
    while (first < depth && first * window.stride + shift < 0) ++first;
    std::int64_t last = depth;
    while (last > first && (last - 1) * window.stride + shift >= x.depth) --last;
    move.has_fill |= first > 0 || last < depth;
    if (first == last) continue;
    CopyBox box;
    box.input_offset = (first * window.stride + shift) * x.plane;
    box.output_offset = first * column + tap * slice;
    box.extents = {x.images, last - first, x.groups, x.channels, x.plane};
    box.input_strides = {x.groups * x.channels * x.depth * x.plane, window.stride * x.plane,
                         x.channels * x.depth * x.plane, x.depth * x.plane, 1};
    box.output_strides = {depth * column, column, window.kernel * slice, x.plane, 1};
    move.copies.push_back(simplified(box));
  }
  return move;
}

}  // namespace

Lowered lower_volume_conv(Op& op) {
  const bool constant_bias = !op.has_input(2) || op.constant(2) != nullptr;
  if (op.constant(1) == nullptr || !constant_bias) {
    return Lowered::host(
        fmt::format("operator '{}': 3 spatial axes with computed weights", op.node.op_type));
  }
  Composer make(op);
  const Shape& x = op.input_dims(0);
  const Shape& w = op.input_dims(1);
  const Shape& y = op.output_dims(0);
  const std::int64_t groups = op.integer("group", 1);
  const auto windows = read_axis_windows(op, {w[2], w[3], w[4]}, {x[2], x[3], x[4]});
  const Volume volume = {x[0], groups, w[1], x[2], x[3] * x[4]};
  const Shape column_dims = {x[0] * y[2], groups * w[2] * w[1], x[3], x[4]};
  const TensorId columns =
      make.moved(op.at.value(op.input(0)), depth_columns(volume, windows[0], y[2]), column_dims);
  const Shape weight_dims = {w[0], w[2] * w[1], w[3], w[4]};
  const TensorId taps_first = make.transposed(op.at.value(op.input(1)), {0, 2, 1, 3, 4});
  std::vector<TensorId> inputs = {columns, make.reshaped(taps_first, weight_dims)};
  if (op.has_input(2)) inputs.push_back(op.at.value(op.input(2)));
  ConvAttributes conv =
      conv_attributes(as_window(windows[1], windows[2]), groups, {column_dims, weight_dims},
                      op.at.matrix_format().native_dimension);
  conv.matrix = op.at.matrix_format();
  const TensorId product = op.at.emit(op, "slices", std::move(inputs), conv, make.vector(),
                                      {x[0] * y[2], w[0], y[3], y[4]});
  const TensorId planes = make.reshaped(product, {x[0], y[2], w[0], y[3] * y[4]});
  make.output(0, make.transposed(planes, {0, 2, 1, 3}));
  return Lowered::done();
}

}  // namespace tessera::graph

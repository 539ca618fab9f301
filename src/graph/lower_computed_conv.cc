// Convolution with weights that are computed at run time: a product of two computed matrices.
//
//   x [N, C, H, W] ── Move, one copy a tap ──► columns [N * groups, C / groups * taps, OH * OW]
//   weights [OC, C / groups, KH, KW] ── repeated for each image ──► [N * groups, OC / groups, ...]
//   MatMul weights x columns ──► [N * groups, OC / groups, OH * OW] = [N, OC, OH, OW]
//
// Padding is zeros. A bias is added behind the product, which is f32 then.
#include "graph/lower_computed_conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/composer.h"
#include "graph/conv_nodes.h"
#include "graph/move_box.h"
#include "graph/operators.h"

namespace tessera::graph {

namespace {

// Where one tap of one axis reads and writes: `count` places.
struct TapRun {
  std::int64_t input = 0, input_step = 1;
  std::int64_t output = 0, output_step = 1;
  std::int64_t count = 0;
};

struct ConvAxis {
  std::int64_t input, output, stride, dilation, pad, input_dilation;
};

TapRun tap_run(const ConvAxis& axis, std::int64_t tap) {
  TapRun run;
  std::int64_t before = -1;
  for (std::int64_t o = 0; o < axis.output; ++o) {
    const std::int64_t at = o * axis.stride + tap * axis.dilation - axis.pad;
    if (at < 0 || at % axis.input_dilation != 0) continue;
    const std::int64_t i = at / axis.input_dilation;
    if (i >= axis.input) break;
    if (run.count == 0) {
      run.input = i;
      run.output = o;
    } else if (run.count == 1) {
      run.input_step = i - run.input;
      run.output_step = o - before;
    }
    before = o;
    ++run.count;
  }
  return run;
}

MoveAttributes im2col(const Shape& x, const Shape& weights, const ConvAxis& height,
                      const ConvAxis& width) {
  const std::int64_t taps = weights[2] * weights[3];
  const std::int64_t places = height.output * width.output;
  MoveAttributes move;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const TapRun rows = tap_run(height, tap / weights[3]);
    const TapRun columns = tap_run(width, tap % weights[3]);
    move.has_fill |= rows.count < height.output || columns.count < width.output;
    if (rows.count == 0 || columns.count == 0) continue;
    CopyBox box;
    box.input_offset = rows.input * x[3] + columns.input;
    box.output_offset = tap * places + rows.output * width.output + columns.output;
    box.extents = {x[0] * x[1], rows.count, columns.count};
    box.input_strides = {x[2] * x[3], rows.input_step * x[3], columns.input_step};
    box.output_strides = {taps * places, rows.output_step * width.output, columns.output_step};
    move.copies.push_back(simplified(box));
  }
  return move;
}

}  // namespace

void emit_computed_conv(Op& op, TensorId weights, const ConvAttributes& conv) {
  Composer make(op);
  const Shape x = as_image(op.input_dims(0));
  const Shape y = as_image(op.output_dims(0));
  const Shape w = make.dims(weights);
  const ConvAxis height = {
      x[2], y[2], conv.stride_h, conv.dilation_h, conv.pad_top, conv.input_dilation_h};
  const ConvAxis width = {
      x[3], y[3], conv.stride_w, conv.dilation_w, conv.pad_left, conv.input_dilation_w};
  const std::int64_t taps = w[2] * w[3];
  const std::int64_t images = x[0] * conv.groups;
  const TensorId columns = make.moved(op.at.value(op.input(0)), im2col(x, w, height, width),
                                      {images, w[1] * taps, y[2] * y[3]});
  const Shape matrices = {1, conv.groups * (w[0] / conv.groups), w[1] * taps};
  const TensorId repeated =
      make.expanded(make.reshaped(weights, matrices), {x[0], matrices[1], matrices[2]});
  const TensorId a = make.reshaped(repeated, {images, w[0] / conv.groups, w[1] * taps});
  if (!op.has_input(2)) {
    make.output(0, make.matmul(a, columns, {}, make.vector()));
    return;
  }
  const TensorId product =
      make.reshaped(make.matmul(a, columns, {}, Format::kF32), {x[0], w[0], y[2] * y[3]});
  const TensorId bias = make.reshaped(op.at.value(op.input(2)), {w[0], 1});
  make.output(0, make.binary(BinaryFunction::kAdd, product, bias, make.vector()));
}

Lowered lower_computed_conv(Op& op) {
  const Shape x_dims = as_image(op.input_dims(0));
  const Shape w_dims = as_image(op.input_dims(1));
  const Shape kernel(op.input_dims(1).begin() + 2, op.input_dims(1).end());
  const Shape spatial(op.input_dims(0).begin() + 2, op.input_dims(0).end());
  if (w_dims[2] * w_dims[3] > static_cast<std::int64_t>(kBoxesMax)) {
    return Lowered::host(fmt::format("operator '{}': computed weights of more than {} taps",
                                     op.node.op_type, kBoxesMax));
  }
  Composer make(op);
  emit_computed_conv(op, make.reshaped(op.at.value(op.input(1)), w_dims),
                     conv_attributes(read_window(op, kernel, spatial), op.integer("group", 1),
                                     {x_dims, w_dims}, op.at.matrix_format().native_dimension));
  return Lowered::done();
}

}  // namespace tessera::graph

// The typed graph: what the processor is asked to do, with every format and block cut decided.
//
// A graph is the meaning of a program. `ref` and `host` execute it directly, the compiler turns it
// into tasks, and all of them give the same bits, because every node below is defined to the last
// rounding (docs/numbers.md and the comments here). Nodes are in topological order; a tensor has
// one producer: a node, the graph's input, or a constant.
//
// Tensors are dense and row-major in the order of the ONNX model (NCHW for images); a matrix in
// blocks at an edge is a dense tensor of blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "arith/format.h"
#include "arith/operation.h"
#include "arith/tensor.h"
#include "base/table.h"
#include "model/model.h"

namespace tessera::graph {

struct TensorId {
  std::int32_t value = -1;
  bool valid() const { return value >= 0; }
  friend auto operator<=>(const TensorId&, const TensorId&) = default;
};

using NodeIndex = std::int32_t;  // place in Graph::nodes; -1: none

struct TensorInfo {
  std::string name;  // unique; the ONNX value's name where there is one
  Format format = Format::kF16;
  Shape dims;
  std::shared_ptr<const Tensor> constant;  // null unless the value is known at compile time
  // Of an input or output that is a matrix in blocks: the shape it has outside (edge_blocks.h).
  Shape dense_dims = {};
};

// What follows a product before its one store (the neural engine's post-processor).
//
// Float products: y = round(accumulator + bias); then y = round(activation(y)). The output's format
// is the operands' vector format or f32. Behind that a convolution may be normalised over its output
// channels, in the output's format (arith/kernels/local_response.h).
// Integer products: t = accumulator + bias (int32). Without `requantise` t is the int32 result.
// With it: y = saturate(round_half_even(float(t) * multiplier[oc]) + output_zero_point), then
// clamped to [clamp_low, clamp_high].
struct PostProcess {
  Activation activation;
  LocalResponse local_response;
  bool requantise = false;
  std::vector<float> multipliers;  // one, or one per output channel
  std::int32_t output_zero_point = 0;
  std::int32_t clamp_low = INT32_MIN;
  std::int32_t clamp_high = INT32_MAX;
  friend bool operator==(const PostProcess&, const PostProcess&) = default;
};

// Operands of an integer product: the zero points that are taken off first.
struct IntegerOperands {
  std::int32_t moving_zero_point = 0;
  std::vector<std::int32_t> stationary_zero_points = {0};  // one, or one per output channel
  friend bool operator==(const IntegerOperands&, const IntegerOperands&) = default;
};

// Convolution, cross-channel, grouped or channel-wise. 1-D convolutions have height 1.
//   inputs:  x [N, C, H, W], weights [OC, C/groups, KH, KW] (constant), bias [OC] (constant,
//            optional: vector format for floats, i32 for integers)
//   output:  [N, OC, OH, OW]
//   y[n,oc,oy,ox] = post( sum over ky, kx, ic of
//       x[n, ic, (oy*stride_h + ky*dilation_h - pad_top)/input_dilation_h, ...] * w[oc,ic,ky,kx] )
// where taps that fall outside, or between the samples of a dilated (transposed convolution)
// input, contribute nothing. `channel_wise` (groups = C = OC, or OC a multiple of C): operands are
// not block-quantised; products are added in binary32 (f16/bf16 vectors) or binary64 (f32) in
// kernel order, bias first, one rounding. A transposed convolution arrives here as a convolution
// with input dilation and flipped kernel.
struct ConvAttributes {
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;  // may be negative
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t input_dilation_h = 1, input_dilation_w = 1;
  std::int64_t groups = 1;
  bool channel_wise = false;
  BlockCut cut = BlockCut::kChannel;
  MatrixFormat matrix;
  IntegerOperands integer;
  PostProcess post;
};

// Matrix product over the last two axes.
//   inputs:  a [B..., M, K] (moving), b [B..., K, N] or [K, N] (stationary; constant or not),
//            bias [N] (constant, optional)
//   output:  [B..., M, N] = post(a x b). Leading axes of a and b are equal, or b has rank 2.
// Blocks run along K from k = 0. Output channels (multipliers, zero points) run along N.
struct MatMulAttributes {
  MatrixFormat matrix;
  IntegerOperands integer;
  PostProcess post;
};

// Pooling over H and W of [N, C, H, W]. Maximum, minimum and median skip the padding; the median of
// an even number of elements is the lower of the two in the middle, -0 lies below +0, and a NaN
// under the window is the result. Average is the exact
// sum rounded once after division by the count (of real pixels, or of pixels within the padded
// input if include_padding). `input`/`output` as in ElementwiseAttributes (integer averages: the
// sum of (q - zero_point) is exact in int32; y = quantise(float(sum) * input.scale / count)).
// Of floats, `before` is taken of each element (not of the padding) and rounded to the input's
// format, `after` of each result and rounded to the output's.
struct PoolAttributes {
  PoolFunction function = PoolFunction::kMaximum;
  std::int64_t window_h = 1, window_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;
  bool include_padding = false;
  Affine input, output;
  Activation before, after;
};

// Element-wise work with one or two inputs (broadcast as in NumPy), on the planar engine.
//   a' = dequantise(a) if inputs[0].enabled (binary32), else a; the same for b
//   r  = round(binary(a', b'))      if there are two inputs; r = a' otherwise
//   r  = round(activation(r))
//   y  = quantise(r) if output.enabled, else r
// Each round() goes to the output format (binary32 when the output is quantised; int32 arithmetic
// saturates). Inputs may differ in format from each other and from the output. A format
// conversion is an element-wise identity with one input.
// Gain and bias: three inputs x, gain, bias, and r = round(round(x' * gain') + bias), where the
// product is rounded to `gain_format`; the rest as above. The bits of two nodes, in one pass.
struct ElementwiseAttributes {
  bool binary = false;
  BinaryFunction function = BinaryFunction::kAdd;
  Activation activation;
  Affine inputs[2];
  Affine output;
  bool gain_bias = false;             // then `binary` is false and `function` not read
  Format gain_format = Format::kF16;  // a vector format
};

// Reduction of one input over `axes` (ascending, non-negative); reduced axes stay with extent 1 if
// keep_dims. f16: exact sum, one rounding. Then activation, rounded again to the output format.
// Of floats, `before` is taken of each element and rounded to the input's format.
struct ReduceAttributes {
  ReduceFunction function = ReduceFunction::kSum;
  std::vector<std::int64_t> axes;
  bool keep_dims = true;
  Activation activation;
  Affine input, output;
  Activation before;
};

// Data movement without arithmetic: output = fill everywhere, then each copy moves a strided box of
// elements. Strides and offsets are in elements and may be 0 or negative. Covers Transpose, Slice,
// Concat, Pad, Expand, Split, Gather with constant indices, nearest Resize, DepthToSpace. A Move
// with one copy that is dense on both sides is a Reshape and costs nothing where it can be a view.
struct CopyBox {
  std::int32_t input = 0;  // which of the node's inputs
  std::int64_t input_offset = 0;
  std::int64_t output_offset = 0;
  std::vector<std::int64_t> extents;  // outermost first; 1 to 8 axes
  std::vector<std::int64_t> input_strides;
  std::vector<std::int64_t> output_strides;
  friend bool operator==(const CopyBox&, const CopyBox&) = default;
};
struct MoveAttributes {
  bool has_fill = false;   // false: the copies cover the whole output
  std::uint64_t fill = 0;  // the element's bits
  std::vector<CopyBox> copies;
};

// A step the host takes, with the reason why. Runs model::evaluate() on the ONNX node.
struct HostStepAttributes {
  model::Node node;  // inputs/outputs by position; absent inputs are "" and not in Node::inputs
  std::int64_t opset = 0;
  std::string reason;  // "operator 'NonZero': shape depends on data", ...
};

using NodeAttributes =
    std::variant<ConvAttributes, MatMulAttributes, PoolAttributes, ElementwiseAttributes,
                 ReduceAttributes, MoveAttributes, HostStepAttributes>;

enum class NodeKind { kConv, kMatMul, kPool, kElementwise, kReduce, kMove, kHostStep };
const char* node_kind_name(NodeKind kind);

struct Node {
  std::string name;                  // unique
  std::vector<std::string> origins;  // names of the ONNX nodes it came from, for reports
  std::vector<TensorId> inputs;      // valid; optional bias absent = shorter list
  std::vector<TensorId> outputs;     // one, except for host steps
  NodeAttributes attributes;

  NodeKind kind() const { return static_cast<NodeKind>(attributes.index()); }
  template <typename T>
  const T& as() const {
    return std::get<T>(attributes);
  }
  template <typename T>
  T& as() {
    return std::get<T>(attributes);
  }
};

struct Graph {
  std::string name;
  Format vector_format = Format::kF16;
  Table<TensorId, TensorInfo> tensors;
  Table<NodeIndex, Node> nodes;    // topological
  std::vector<TensorId> inputs;    // in the format the caller supplies (usually f32, u8, ...)
  std::vector<TensorId> outputs;   // in the format the caller gets
  std::vector<std::string> notes;  // stated defaults, to be printed
  std::vector<std::string> external_files;  // that the model's tensors were read from; not dumped

  const TensorInfo& tensor(TensorId id) const { return tensors[id]; }
  TensorInfo& tensor(TensorId id) { return tensors[id]; }
};

// Work of a node in multiply-accumulates (Conv, MatMul), 0 for others.
std::int64_t node_macs(const Graph& graph, const Node& node);

// f32, f16 and bf16: what becomes a vector on the processor.
bool is_vector_float(Format format);

}  // namespace tessera::graph

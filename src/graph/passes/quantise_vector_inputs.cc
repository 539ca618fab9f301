// Operands of element-wise work are quantised like those of products: a vector on its way to a
// vector unit takes an identity product, at whose input the array's quantiser stands.
//
//   x [N, C, H, W] ─► elementwise   =>   x ─► Conv 1 x 1 with the identity ─► elementwise
//   x [..., K] ─► elementwise       =>   x ─► MatMul with the identity ─► elementwise
//
// Native vectors run along axis 1 where there are four axes, else along the last one, of the
// operand as it is stored, before it is broadcast. Sums of one term and the identity are exact, so
// that what comes out is the quantised value. Constants are quantised here. Conversions, integers
// and truth values stay.
//
// Before: formats are settled. After: the same. Only where the architecture asks for it.
#include <algorithm>
#include <map>

#include "arith/block_float.h"
#include "arith/microscaling.h"
#include "arith/rounding.h"
#include "base/quantity.h"
#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// An axis of native vectors in a dense tensor: `outer` times `count` elements `stride` apart.
struct VectorAxis {
  std::int64_t outer = 1, count = 1, stride = 1;
};

VectorAxis vector_axis(const Shape& dims) {
  if (dims.size() == 4) return {dims[0], dims[1], dims[2] * dims[3]};
  const std::int64_t count = dims.empty() ? 1 : dims.back();
  return {element_count(dims) / std::max<std::int64_t>(1, count), count, 1};
}

class Quantiser {
 public:
  Quantiser(Graph& graph, const MatrixFormat& matrix)
      : graph_(graph), editor_(graph), matrix_(matrix) {
    block_ =
        matrix.kind == MatrixKind::kMicroscaling ? arith::kMicroBlock : matrix.native_dimension;
  }

  void run() {
    const std::size_t count = graph_.nodes.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (graph_.nodes[i].kind() != NodeKind::kElementwise) continue;
      const auto elementwise = graph_.nodes[i].as<ElementwiseAttributes>();
      if (!elementwise.binary && elementwise.activation == Activation{}) continue;
      for (std::size_t input = 0; input < graph_.nodes[i].inputs.size(); ++input) {
        const TensorId id = graph_.nodes[i].inputs[input];
        if (elementwise.inputs[input].enabled || !format_is_vector(graph_.tensor(id).format))
          continue;
        const TensorId replaced = quantised(id, graph_.nodes[i].origins);
        graph_.nodes[i].inputs[input] = replaced;
      }
    }
    tidy(graph_);
    drop_unused_tensors(graph_);
  }

 private:
  TensorId quantised(TensorId id, const std::vector<std::string>& origins) {
    const auto found = done_.find(id);
    if (found != done_.end()) return found->second;
    const TensorInfo info = graph_.tensor(id);
    TensorId result = id;
    if (element_count(info.dims) > 0) {
      name_ = info.name + ".quantised";
      origins_ = origins;
      if (info.constant != nullptr) {
        result = editor_.add_constant(name_, quantised_constant(*info.constant));
      } else {
        result = info.dims.size() == 4 ? through_conv(id, info) : through_matmul(id, info);
      }
    }
    done_[id] = result;
    return result;
  }

  // ---- constants

  Constant quantised_constant(const Tensor& tensor) const {
    Tensor result = tensor;
    const VectorAxis axis = vector_axis(tensor.dims);
    const std::int64_t element = format_bytes(tensor.format);
    for (std::int64_t run = 0; run < axis.outer * axis.stride; ++run) {
      const std::int64_t begin = run / axis.stride * axis.count * axis.stride + run % axis.stride;
      for (std::int64_t first = 0; first < axis.count; first += block_) {
        const arith::ElementRun elements = {
            .format = tensor.format,
            .data = tensor.bytes.data() + (begin + first * axis.stride) * element,
            .count = std::min(block_, axis.count - first),
            .stride = axis.stride};
        const std::vector<double> values = block_values(elements);
        for (std::size_t k = 0; k < values.size(); ++k) {
          const std::int64_t at = begin + (first + static_cast<std::int64_t>(k)) * axis.stride;
          arith::write_element(tensor.format, arith::round_value(tensor.format, values[k]),
                               result.bytes.data() + at * element);
        }
      }
    }
    return std::make_shared<const Tensor>(std::move(result));
  }

  std::vector<double> block_values(const arith::ElementRun& elements) const {
    arith::StickyFlags flags;
    std::vector<double> values;
    if (matrix_.kind == MatrixKind::kMicroscaling) {
      const auto block = arith::ref::quantise_micro_block(elements, matrix_.element_moving,
                                                          matrix_.micro_scale, flags);
      for (const std::uint8_t code : block.codes) {
        values.push_back(arith::micro_element_value(matrix_.element_moving, code) *
                             arith::micro_scale_value(block.scale) +
                         0.0);
      }
      return values;
    }
    const int bits = matrix_.mantissa_bits_moving;
    const auto block = arith::ref::quantise_block(elements, bits, flags);
    for (const std::int16_t mantissa : block.mantissas) {
      values.push_back(arith::ref::block_value(mantissa, block.exponent,
                                               arith::exponent_bias(elements.format), bits));
    }
    return values;
  }

  // ---- computed operands

  TensorId identity(Format format, const Shape& dims, std::int64_t size) {
    std::vector<double> values(static_cast<std::size_t>(element_count(dims)), 0.0);
    for (std::size_t k = 0; k < values.size(); k += static_cast<std::size_t>(size)) {
      values[k + k / static_cast<std::size_t>(size) % static_cast<std::size_t>(size)] = 1.0;
    }
    return editor_.add_constant(name_ + ".identity", constant_from_reals(format, dims, values));
  }

  TensorId emit(const std::string& part, std::vector<TensorId> inputs, const Shape& dims,
                NodeAttributes attributes) {
    const TensorId output = editor_.add_tensor(name_ + part, graph_.tensor(inputs[0]).format, dims);
    editor_.add_node(name_ + part, origins_, std::move(inputs), {output}, std::move(attributes));
    return output;
  }

  TensorId through_conv(TensorId id, const TensorInfo& info) {
    const std::int64_t channels = info.dims[1];
    ConvAttributes conv;
    conv.matrix = matrix_;
    if (channels > block_ && channels % block_ == 0) conv.groups = channels / block_;
    const std::int64_t size = channels / conv.groups;
    return emit("", {id, identity(info.format, {channels, size, 1, 1}, size)}, info.dims, conv);
  }

  // Vectors longer than a block are cut into rows of a matrix, filled up with zeros.
  TensorId through_matmul(TensorId id, const TensorInfo& info) {
    const VectorAxis axis = vector_axis(info.dims);
    const std::int64_t size = std::min(axis.count, block_);
    const std::int64_t padded = round_up(axis.count, size);
    const Shape matrix_dims = {axis.outer * padded / size, size};
    const auto box = [&](std::int64_t from, std::int64_t to) {
      return CopyBox{.extents = {axis.outer, axis.count},
                     .input_strides = {from, 1},
                     .output_strides = {to, 1}};
    };
    MoveAttributes in{false, 0, {dense_box(element_count(info.dims))}};
    MoveAttributes out = in;
    if (padded != axis.count) {
      in = {true, 0, {box(axis.count, padded)}};
      out = {false, 0, {box(padded, axis.count)}};
    }
    MatMulAttributes matmul;
    matmul.matrix = matrix_;
    const TensorId rows = emit(".rows", {id}, matrix_dims, in);
    const TensorId product =
        emit(".product", {rows, identity(info.format, {size, size}, size)}, matrix_dims, matmul);
    return emit("", {product}, info.dims, out);
  }

  Graph& graph_;
  Editor editor_;
  const MatrixFormat matrix_;
  std::int64_t block_ = 128;
  std::map<TensorId, TensorId> done_;
  std::string name_;  // of what is made of the operand at hand
  std::vector<std::string> origins_;
};

}  // namespace

void quantise_vector_inputs(Graph& graph, const MatrixFormat& matrix) {
  Quantiser(graph, matrix).run();
}

}  // namespace tessera::graph

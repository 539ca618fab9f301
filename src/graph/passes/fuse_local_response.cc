// A local response normalisation over all output channels of a convolution goes into the
// convolution, whose post-processor does it.
//
//   conv ─► move ─┬─► square ─► mean of `size` ─► * alpha ─► log(+ bias) ─► exp(* -beta) ─► * ─► move
//                 └─────────────────────────────────────────────────────────────────────────┘
//
// becomes one convolution, where half of the kernel memory holds its weights. The first move puts the
// channels of a pixel behind each other, the last one puts them back. Every rounding stays, so values
// do not change.
// Before and after: a final graph.
#include <algorithm>
#include <optional>

#include "arith/kernels/weights/kernel_image.h"
#include "arith/rounding.h"
#include "base/quantity.h"
#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// For each element of a Move's output, in order, where it is in the input; empty where the Move has
// fill, several boxes or other elements than all.
std::vector<std::int64_t> sources_of(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kMove || node.inputs.size() != 1) return {};
  const auto& move = node.as<MoveAttributes>();
  const std::int64_t count = element_count(graph.tensor(node.outputs[0]).dims);
  if (move.has_fill || move.copies.size() != 1 || box_elements(move.copies[0]) != count ||
      element_count(graph.tensor(node.inputs[0]).dims) != count) {
    return {};
  }
  const CopyBox& box = move.copies[0];
  std::vector<std::int64_t> sources(static_cast<std::size_t>(count));
  std::vector<std::int64_t> at(box.extents.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t from = box.input_offset, to = box.output_offset;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      from += at[axis] * box.input_strides[axis];
      to += at[axis] * box.output_strides[axis];
    }
    sources[static_cast<std::size_t>(to)] = from;
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < box.extents[axis]) break;
      at[axis] = 0;
    }
  }
  return sources;
}

// Whether the elements are those of [N, C, H, W] with the channels of each pixel behind each other.
bool has_channels_last(const std::vector<std::int64_t>& sources, const Shape& dims) {
  const std::int64_t channels = dims[1], pixels = dims[2] * dims[3];
  if (sources.empty()) return false;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::int64_t channel = static_cast<std::int64_t>(i) % channels;
    const std::int64_t first = sources[i - static_cast<std::size_t>(channel)];
    if (first / pixels % channels != 0 || sources[i] != first + channel * pixels) return false;
  }
  return true;
}

bool puts_back(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& last) {
  if (first.size() != last.size()) return false;
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (first[static_cast<std::size_t>(last[i])] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool is_elementwise(const Node& node, bool binary, BinaryFunction function,
                    UnaryFunction activation) {
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return attributes.binary == binary && (!binary || attributes.function == function) &&
         !attributes.gain_bias && attributes.activation.function == activation &&
         !attributes.inputs[0].enabled && !attributes.inputs[1].enabled &&
         !attributes.output.enabled;
}

// Half of kernel memory holds what the convolution's tasks keep there.
bool fits(const Graph& graph, const Node& node, const KernelMemory& memory) {
  if (memory.bytes_per_partition == 0) return false;
  const auto& conv = node.as<ConvAttributes>();
  const TensorInfo& weights = graph.tensor(node.inputs[1]);
  KernelImageShape shape;
  shape.cut = conv.cut;
  shape.groups = conv.groups;
  shape.channels = weights.dims[1];
  shape.output_channels = weights.dims[0] / conv.groups;
  shape.taps = weights.dims[2] * weights.dims[3];
  shape.rows = memory.rows;
  shape.columns = std::min(memory.columns, shape.output_channels);
  shape.format = weights.format;
  constexpr std::int64_t kAlignment = 4;
  std::int64_t bytes = round_up(shape.bytes_per_partition(), kAlignment);
  if (node.inputs.size() > 2) {
    bytes +=
        ceil_div(weights.dims[0], memory.rows) * format_bytes(graph.tensor(node.inputs[2]).format) +
        kAlignment;
  }
  return bytes <= memory.bytes_per_partition / 2;
}

class LocalResponseFuser {
 public:
  LocalResponseFuser(Graph& graph, const KernelMemory& memory)
      : graph_(graph), memory_(memory), links_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) {
      if (node.kind() == NodeKind::kConv && fits(graph_, node, memory_)) fuse(node);
    }
    tidy(graph_);
  }

 private:
  // The only reader of a node's output; null if there are others.
  Node* reader(const Node& node) {
    const TensorId id = node.outputs[0];
    return links_.has_single_use(id) ? &graph_.nodes[links_.consumers(id)[0]] : nullptr;
  }
  // Its constant operand, one number of f32.
  std::optional<float> number_of(const Node& node, TensorId other) const {
    if (node.inputs.size() != 2) return std::nullopt;
    const TensorId id = node.inputs[0] == other ? node.inputs[1] : node.inputs[0];
    const TensorInfo& info = graph_.tensor(id);
    if (info.constant == nullptr || info.format != Format::kF32 || element_count(info.dims) != 1) {
      return std::nullopt;
    }
    return static_cast<float>(arith::read_element(info.format, info.constant->bytes.data()));
  }
  bool is_f32(const Node& node) const {
    return graph_.tensor(node.outputs[0]).format == Format::kF32;
  }

  // number(function(x, number)) of the reader of `node`, which moves there.
  std::optional<float> step(Node*& node, BinaryFunction function, UnaryFunction activation) {
    const TensorId x = node->outputs[0];
    node = reader(*node);
    if (node == nullptr || !is_f32(*node) || !is_elementwise(*node, true, function, activation)) {
      return std::nullopt;
    }
    return number_of(*node, x);
  }

  // The window of a mean over the last axis, which is what `node` then is.
  std::int64_t window(Node*& node, std::int64_t channels) {
    node = reader(*node);
    if (node == nullptr || node->kind() != NodeKind::kPool || !is_f32(*node)) return 0;
    const auto& pool = node->as<PoolAttributes>();
    PoolAttributes expected;
    expected.function = PoolFunction::kAverage;
    expected.window_w = pool.window_w;
    expected.pad_left = (pool.window_w - 1) / 2;
    expected.pad_right = pool.window_w / 2;
    expected.include_padding = true;
    const bool same = pool.function == expected.function && pool.window_h == 1 &&
                      pool.stride_h == 1 && pool.stride_w == 1 && pool.pad_top == 0 &&
                      pool.pad_bottom == 0 && pool.pad_left == expected.pad_left &&
                      pool.pad_right == expected.pad_right && pool.dilation_w == 1 &&
                      pool.include_padding && !pool.input.enabled && !pool.output.enabled &&
                      pool.before == Activation{} && pool.after == Activation{} &&
                      graph_.tensor(node->inputs[0]).dims.back() == channels;
    return same && pool.window_w <= kLocalResponseSizeMax ? pool.window_w : 0;
  }

  void fuse(Node& conv) {
    auto& attributes = conv.as<ConvAttributes>();
    const TensorInfo& result = graph_.tensor(conv.outputs[0]);
    if (attributes.matrix.kind == MatrixKind::kInteger || attributes.channel_wise) return;
    Node* const turned = reader(conv);
    if (turned == nullptr) return;
    const TensorId x = turned->outputs.empty() ? TensorId{} : turned->outputs[0];
    if (turned->kind() != NodeKind::kMove || links_.is_output(x) ||
        links_.consumers(x).size() != 2) {
      return;
    }
    Node* node = &graph_.nodes[links_.consumers(x)[0]];
    Node* product = &graph_.nodes[links_.consumers(x)[1]];
    const auto square = [](const Node& n) {
      return is_elementwise(n, false, BinaryFunction::kAdd, UnaryFunction::kSquare);
    };
    if (!square(*node)) std::swap(node, product);
    if (!square(*node) || !is_f32(*node) ||
        !is_elementwise(*product, true, BinaryFunction::kMultiply, UnaryFunction::kIdentity)) {
      return;
    }
    LocalResponse response;
    response.size = static_cast<std::int32_t>(window(node, result.dims[1]));
    if (response.size == 0) return;
    const auto alpha = step(node, BinaryFunction::kMultiply, UnaryFunction::kIdentity);
    if (!alpha) return;
    const auto bias = step(node, BinaryFunction::kAdd, UnaryFunction::kLog);
    if (!bias) return;
    const auto beta = step(node, BinaryFunction::kMultiply, UnaryFunction::kExp);
    if (!beta || reader(*node) != product) return;
    response.alpha = *alpha;
    response.bias = *bias;
    response.beta = -*beta;
    Node* const back = reader(*product);
    if (back == nullptr || graph_.tensor(product->outputs[0]).format != result.format ||
        graph_.tensor(back->outputs[0]).dims != result.dims) {
      return;
    }
    const std::vector<std::int64_t> sources = sources_of(graph_, *turned);
    if (!has_channels_last(sources, result.dims) || !puts_back(sources, sources_of(graph_, *back)))
      return;
    attributes.post.local_response = response;
    conv.outputs = back->outputs;
    add_origins(conv.origins, back->origins);
    back->inputs.clear();
    back->outputs.clear();
  }

  Graph& graph_;
  const KernelMemory& memory_;
  const Links links_;
};

}  // namespace

void fuse_local_response(Graph& graph, const KernelMemory& memory) {
  LocalResponseFuser(graph, memory).run();
}

}  // namespace tessera::graph

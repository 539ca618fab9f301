// Weights in two terms, where one exponent for a block costs a layer too much.
//
//                                        x ─► product, W           ─► f32 ─┐
//   x ─► product, W ─► activation   =>                                     ├─► + ─► activation
//                                        x ─► product, W - bfp(W)  ─► f32 ─┘
//
// The second product has what the first one loses: the weights less their quantised values, and the
// bias less its value in the vector format. Both are products like any other and are paid for as
// such. A layer takes part if its largest weight is at least 32 times the root mean square of those
// that are not zero: with 11 bits behind the exponent of a block, such a weight of usual size keeps
// less than 6. Layers with the largest ratio come first, and all together add at most 1/16 of the
// model's multiply-adds. The rule looks at weights and sizes alone. The graph's notes name the
// layers.
//
// Before: a draft, activations are fused. After: a draft.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arith/block_float.h"
#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

constexpr double kRatioMin = 32.0;
constexpr std::int64_t kShareMax = 16;  // of the model's multiply-adds, one in so many

const MatrixFormat& matrix_of(const Node& node) {
  return node.kind() == NodeKind::kConv ? node.as<ConvAttributes>().matrix
                                        : node.as<MatMulAttributes>().matrix;
}

PostProcess& post_of(Node& node) {
  return node.kind() == NodeKind::kConv ? node.as<ConvAttributes>().post
                                        : node.as<MatMulAttributes>().post;
}

bool takes_two_terms(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kConv && node.kind() != NodeKind::kMatMul) return false;
  if (node.kind() == NodeKind::kConv && node.as<ConvAttributes>().channel_wise) return false;
  const TensorInfo& weights = graph.tensor(node.inputs[1]);
  return matrix_of(node).kind == MatrixKind::kBlockFloat && weights.constant != nullptr &&
         format_is_float(weights.format);
}

// The largest magnitude over the root mean square of what is not zero; 0 where there is nothing.
double weight_ratio(const Tensor& weights) {
  double largest = 0.0;
  double squares = 0.0;
  double count = 0.0;
  for (const double w : reals(weights)) {
    if (w == 0.0) continue;
    largest = std::max(largest, std::abs(w));
    squares += w * w;
    count += 1.0;
  }
  return count == 0.0 || !std::isfinite(squares) ? 0.0 : largest / std::sqrt(squares / count);
}

// The elements of each block, by their positions in the weights.
using Block = std::vector<std::size_t>;

std::vector<Block> blocks_of(const Shape& dims, const ConvAttributes& conv) {
  const auto channels = static_cast<std::size_t>(dims[1]);
  const auto taps = static_cast<std::size_t>(dims[2] * dims[3]);
  const auto block_max = static_cast<std::size_t>(conv.matrix.native_dimension);
  std::vector<Block> blocks;
  for (std::size_t row = 0; row < static_cast<std::size_t>(dims[0]); ++row) {
    for (std::size_t k = 0; k < taps * channels; ++k) {
      const std::size_t channel = k % channels;
      const std::size_t in_cut = conv.cut == BlockCut::kIm2col ? k : channel;
      if (in_cut % block_max == 0) blocks.emplace_back();
      blocks.back().push_back((row * channels + channel) * taps + k / channels);
    }
  }
  return blocks;
}

std::vector<Block> blocks_of(const Shape& dims, const MatMulAttributes& matmul) {
  const auto depth = static_cast<std::size_t>(dims[dims.size() - 2]);
  const auto columns = static_cast<std::size_t>(dims.back());
  const auto block_max = static_cast<std::size_t>(matmul.matrix.native_dimension);
  const auto matrices = static_cast<std::size_t>(element_count(dims)) / (depth * columns);
  std::vector<Block> blocks;
  for (std::size_t column = 0; column < matrices * columns; ++column) {
    for (std::size_t k = 0; k < depth; ++k) {
      if (k % block_max == 0) blocks.emplace_back();
      blocks.back().push_back((column / columns * depth + k) * columns + column % columns);
    }
  }
  return blocks;
}

// The weights less what the array makes of them once they are in `format`.
std::vector<double> lost(const Tensor& weights, const std::vector<Block>& blocks,
                         const MatrixFormat& matrix, Format format) {
  std::vector<double> values = reals(weights);
  const Constant stored = converted(std::make_shared<const Tensor>(weights), format);
  const auto bytes = static_cast<std::size_t>(format_bytes(format));
  arith::StickyFlags flags;
  std::vector<std::byte> run;
  for (const Block& block : blocks) {
    run.clear();
    for (const std::size_t i : block) {
      const auto first = stored->bytes.begin() + static_cast<std::ptrdiff_t>(i * bytes);
      run.insert(run.end(), first, first + static_cast<std::ptrdiff_t>(bytes));
    }
    const auto quantised = arith::ref::quantise_block(
        {.format = format, .data = run.data(), .count = static_cast<std::int64_t>(block.size())},
        matrix.mantissa_bits_stationary, flags);
    for (std::size_t k = 0; k < block.size(); ++k) {
      values[block[k]] -=
          arith::ref::block_value(quantised.mantissas[k], quantised.exponent,
                                  arith::exponent_bias(format), matrix.mantissa_bits_stationary);
    }
  }
  return values;
}

struct Candidate {
  std::size_t node = 0;
  double ratio = 0.0;
  std::int64_t macs = 0;
};

class TwoTerms {
 public:
  explicit TwoTerms(Graph& graph) : graph_(graph), editor_(graph) {}

  void run() {
    std::int64_t total = 0;
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const std::int64_t macs = node_macs(graph_, node);
      total += macs;
      if (!takes_two_terms(graph_, node)) continue;
      const double ratio = weight_ratio(*graph_.tensor(node.inputs[1]).constant);
      if (ratio >= kRatioMin) candidates.push_back({i, ratio, macs});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.ratio > b.ratio; });
    std::int64_t left = total / kShareMax;
    for (const Candidate& candidate : candidates) {
      if (candidate.macs > left) continue;
      left -= candidate.macs;
      split(candidate, total);
    }
    tidy(graph_);
  }

 private:
  void split(const Candidate& candidate, std::int64_t total) {
    // A copy: adding nodes may move them all.
    const Node first = graph_.nodes[candidate.node];
    const TensorId result = first.outputs[0];
    const Shape dims = graph_.tensor(result).dims;
    Node second = first;
    const Activation activation = post_of(second).activation;
    post_of(second).activation = {};
    second.inputs[1] = lost_weights(first);
    if (first.inputs.size() == 3) second.inputs[2] = lost_bias(first.inputs[2]);
    const TensorId first_sum = editor_.add_tensor(first.name + ".first_term", Format::kF32, dims);
    const TensorId second_sum = editor_.add_tensor(first.name + ".second_term", Format::kF32, dims);
    Node& kept = graph_.nodes[candidate.node];
    post_of(kept).activation = {};
    kept.outputs = {first_sum};
    editor_.add_node(first.name + ".second_term", first.origins, second.inputs, {second_sum},
                     second.attributes);
    ElementwiseAttributes sum;
    sum.binary = true;
    sum.function = BinaryFunction::kAdd;
    sum.activation = activation;
    editor_.add_node(first.name + ".sum", first.origins, {first_sum, second_sum}, {result}, sum);
    graph_.notes.push_back(fmt::format(
        "'{}': weights in two terms (the largest is {:.0f} times the usual), {:.1f} % more "
        "multiply-adds",
        first.name, candidate.ratio,
        100.0 * static_cast<double>(candidate.macs) / static_cast<double>(total)));
  }

  TensorId lost_weights(const Node& node) {
    const TensorInfo info = graph_.tensor(node.inputs[1]);
    const std::vector<Block> blocks = node.kind() == NodeKind::kConv
                                          ? blocks_of(info.dims, node.as<ConvAttributes>())
                                          : blocks_of(info.dims, node.as<MatMulAttributes>());
    const auto values = lost(*info.constant, blocks, matrix_of(node), graph_.vector_format);
    return editor_.add_constant(info.name + ".second_term",
                                constant_from_reals(Format::kF32, info.dims, values));
  }

  TensorId lost_bias(TensorId id) {
    const TensorInfo info = graph_.tensor(id);
    std::vector<double> values = reals(*info.constant);
    const std::vector<double> stored = reals(*converted(info.constant, graph_.vector_format));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= stored[i];
    return editor_.add_constant(info.name + ".second_term",
                                constant_from_reals(Format::kF32, info.dims, values));
  }

  Graph& graph_;
  Editor editor_;
};

}  // namespace

void two_term_weights(Graph& graph) { TwoTerms(graph).run(); }

}  // namespace tessera::graph

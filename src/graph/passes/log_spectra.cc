// Energies under a logarithm: what lies between squares and the logarithm of a sum, product or multiple of them. A spectrum of
// recorded sound (numbers up to 32,767) and its squares leave the range of f16, and so do magnitudes times a large factor:
//
//   re ─► re^2 ─┐
//               ├─► sum ─► matrix product (filter bank) ─► maximum with e ─► logarithm
//   im ─► im^2 ─┘
//   magnitude ─► times 2^20 ─► plus 1 ─► logarithm
//
// `widen_tensors` makes all of these f32, with what makes the operands of the squares; the logarithm's result stays a vector.
// Energies of neighbouring bands differ by factors of thousands, and a logarithm shows all of them: a filter bank has mantissas of
// 15 bits where it would have 11 or more, and so has what makes the operands of squares if a factor lifts quiet bands on the
// way. It costs no cycles; on a CPU a product takes longer, so that other spectra keep their mantissas. A filter bank of
// several blocks becomes a product a block, and a sum in f32: derived software has no exact sum of blocks of f32.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/passes/passes.h"

namespace tessera::graph {
namespace {

constexpr int kSpectrumMantissaBits = 15;  // of products under a logarithm
constexpr int kWayMax = 256;               // nodes between a logarithm and a square
constexpr int kFineMantissaBits = 11;      // a format of fewer bits is meant to be coarse

class LogSpectra {
 public:
  explicit LogSpectra(Graph& graph) : graph_(graph), links_(graph) {}

  std::set<std::string> find() {
    for (const Node& node : graph_.nodes) {
      if (!is_unary(node, UnaryFunction::kLog)) continue;
      seen_.clear();
      leads_to_square(node.inputs[0], {});
    }
    if (!banks_.empty()) {
      Editor editor(graph_);
      for (const NodeIndex bank : banks_) split(editor, bank);
      tidy(graph_);
    }
    return std::move(names_);
  }

 private:
  static const Activation* unary_of(const Node& node) {
    if (node.kind() != NodeKind::kElementwise) return nullptr;
    const auto& attributes = node.as<ElementwiseAttributes>();
    return attributes.binary || attributes.gain_bias ? nullptr : &attributes.activation;
  }
  static bool is_unary(const Node& node, UnaryFunction function) {
    const Activation* const activation = unary_of(node);
    return activation != nullptr && activation->function == function;
  }
  static bool is_square(const Node& node) {
    if (is_unary(node, UnaryFunction::kSquare)) return true;
    if (node.kind() == NodeKind::kReduce) {
      const ReduceFunction function = node.as<ReduceAttributes>().function;
      return function == ReduceFunction::kSumSquare || function == ReduceFunction::kRootSumSquare;
    }
    return node.kind() == NodeKind::kElementwise && node.as<ElementwiseAttributes>().binary &&
           node.as<ElementwiseAttributes>().function == BinaryFunction::kMultiply &&
           node.inputs[0] == node.inputs[1];
  }

  static bool is_product(const Node& node) {
    return node.kind() == NodeKind::kConv || node.kind() == NodeKind::kMatMul;
  }
  static bool is_multiple(const Node& node) {
    if (is_unary(node, UnaryFunction::kScale)) return true;
    return node.kind() == NodeKind::kElementwise && node.as<ElementwiseAttributes>().binary &&
           node.as<ElementwiseAttributes>().function == BinaryFunction::kMultiply &&
           !is_square(node);
  }
  static void sharpen(Node& node) {
    if (!is_product(node)) return;
    MatrixFormat& matrix = node.kind() == NodeKind::kConv ? node.as<ConvAttributes>().matrix
                                                          : node.as<MatMulAttributes>().matrix;
    if (matrix.kind != MatrixKind::kBlockFloat || matrix.long_format != LongFormat::kExact) return;
    int& moving = matrix.mantissa_bits_moving;
    int& stationary = matrix.mantissa_bits_stationary;
    if (std::min(moving, stationary) >= kFineMantissaBits)
      moving = stationary = kSpectrumMantissaBits;
  }

  // Whether the result grows with the operands, so that what is beyond the range in them is so in it.
  static bool passes_on(const Node& node) {
    switch (node.kind()) {
      case NodeKind::kMove:
      case NodeKind::kConv:
      case NodeKind::kMatMul:
        return true;
      case NodeKind::kReduce:
        return node.as<ReduceAttributes>().function != ReduceFunction::kProduct;
      case NodeKind::kElementwise:
        break;
      case NodeKind::kPool:
      case NodeKind::kHostStep:
        return false;
    }
    if (const Activation* const activation = unary_of(node)) {
      const UnaryFunction function = activation->function;
      return function == UnaryFunction::kClip || function == UnaryFunction::kRelu ||
             function == UnaryFunction::kAbs || function == UnaryFunction::kScale ||
             function == UnaryFunction::kSquareRoot;
    }
    const auto& attributes = node.as<ElementwiseAttributes>();
    return attributes.binary && (attributes.function == BinaryFunction::kAdd ||
                                 attributes.function == BinaryFunction::kMultiply ||
                                 attributes.function == BinaryFunction::kDivide ||
                                 attributes.function == BinaryFunction::kMaximum);
  }

  // What lies between a value and the logarithm.
  struct Way {
    int products = 0;
    bool lifted = false;  // by a factor
    int nodes = 0;
  };

  // Names the value and those above it if a square is among what it is made of. Of products one is a filter bank; what lies
  // behind more of them is a network.
  bool leads_to_square(TensorId id, Way way) {
    const NodeIndex made_by = links_.producer(id);
    if (made_by < 0 || links_.is_output(id) || !seen_.insert(id).second) return names(id);
    Node& node = graph_.nodes[made_by];
    // What is that far away is no front end; nor is the stack endless.
    if (++way.nodes > kWayMax) return false;
    if (is_product(node)) ++way.products;
    if (is_multiple(node)) way.lifted = true;
    if (!gives_f32(node) || !is_float(id) || way.products > 1) return false;
    bool found = is_square(node);
    if (found) {
      name_operand(node.inputs[0], way);
    } else if (passes_on(node)) {
      for (const TensorId input : node.inputs) found |= leads_to_square(input, way);
    }
    if (!found) return false;
    names_.insert(graph_.tensor(id).name);
    sharpen(node);
    if (is_bank_of_blocks(node)) banks_.insert(made_by);
    return true;
  }

  // The operand of a square: through moves up to what makes it, and no further.
  void name_operand(TensorId id, Way way) {
    const NodeIndex made_by = links_.producer(id);
    if (made_by < 0 || links_.is_output(id) || !is_float(id)) return;
    Node& node = graph_.nodes[made_by];
    if (!gives_f32(node) || ++way.nodes > kWayMax) return;
    names_.insert(graph_.tensor(id).name);
    if (way.lifted) sharpen(node);
    if (node.kind() != NodeKind::kMove) return;
    for (const TensorId input : node.inputs) name_operand(input, way);
  }

  // A product with constant filters, of more terms than one block has.
  bool is_bank_of_blocks(const Node& node) const {
    if (node.kind() != NodeKind::kMatMul || node.inputs.size() != 2) return false;
    const auto& matmul = node.as<MatMulAttributes>();
    const TensorInfo& filters = graph_.tensor(node.inputs[1]);
    return matmul.matrix.kind == MatrixKind::kBlockFloat && matmul.post == PostProcess{} &&
           filters.constant != nullptr && filters.dims.size() == 2 &&
           filters.dims[0] > matmul.matrix.native_dimension;
  }

  TensorId add_value(Editor& editor, const std::string& name, const Shape& dims) {
    const TensorId id = editor.add_tensor(name, graph_.vector_format, dims);
    names_.insert(graph_.tensor(id).name);
    return id;
  }

  // Bins `first` to `first + count` of each row, and their filters.
  std::vector<TensorId> operands_of(Editor& editor, const Node& node, std::int64_t first,
                                    std::int64_t count) {
    // Copies: adding a tensor may move them all.
    const TensorInfo energies = graph_.tensor(node.inputs[0]);
    const TensorInfo filters = graph_.tensor(node.inputs[1]);
    const std::string suffix = fmt::format(".bins{}", first);
    Shape dims = energies.dims;
    const std::int64_t bins = dims.back(), rows = element_count(dims) / bins;
    dims.back() = count;
    const TensorId part = add_value(editor, energies.name + suffix, dims);
    MoveAttributes move;
    move.copies = {{.input_offset = first,
                    .extents = {rows, count},
                    .input_strides = {bins, 1},
                    .output_strides = {count, 1}}};
    editor.add_node(energies.name + suffix, node.origins, {node.inputs[0]}, {part},
                    std::move(move));
    Tensor chosen{filters.constant->format, {count, filters.dims[1]}, {}};
    const auto row_bytes =
        static_cast<std::ptrdiff_t>(filters.constant->bytes.size()) / filters.dims[0];
    const auto begin = filters.constant->bytes.begin() + first * row_bytes;
    chosen.bytes.assign(begin, begin + count * row_bytes);
    return {part, editor.add_constant(filters.name + suffix,
                                      std::make_shared<const Tensor>(std::move(chosen)))};
  }

  // The node becomes the last sum.
  void split(Editor& editor, NodeIndex index) {
    const Node node = graph_.nodes[index];
    const auto& matmul = node.as<MatMulAttributes>();
    const std::int64_t bins = graph_.tensor(node.inputs[1]).dims[0];
    const std::string name = graph_.tensor(node.outputs[0]).name;
    const Shape dims = graph_.tensor(node.outputs[0]).dims;
    TensorId sum = {};
    ElementwiseAttributes add;
    add.binary = true;
    for (std::int64_t first = 0; first < bins; first += matmul.matrix.native_dimension) {
      const std::int64_t count =
          std::min<std::int64_t>(bins - first, matmul.matrix.native_dimension);
      std::vector<TensorId> operands = operands_of(editor, node, first, count);
      const TensorId part = add_value(editor, fmt::format("{}.bins{}", name, first), dims);
      editor.add_node(fmt::format("{}.bins{}", node.name, first), node.origins, operands, {part},
                      matmul);
      if (first == 0) {
        sum = part;
      } else if (first + count == bins) {
        graph_.nodes[index].inputs = {sum, part};
        graph_.nodes[index].attributes = add;
      } else {
        const TensorId both = add_value(editor, fmt::format("{}.to{}", name, first + count), dims);
        editor.add_node(fmt::format("{}.to{}", node.name, first + count), node.origins, {sum, part},
                        {both}, add);
        sum = both;
      }
    }
  }

  bool is_float(TensorId id) const {
    const Format format = graph_.tensor(id).format;
    return format == graph_.vector_format || format == Format::kF32;
  }
  bool names(TensorId id) const { return names_.contains(graph_.tensor(id).name); }

  Graph& graph_;
  const Links links_;
  std::set<TensorId> seen_;
  std::set<NodeIndex> banks_;
  std::set<std::string> names_;
};

}  // namespace

std::set<std::string> log_spectra(Graph& graph) { return LogSpectra(graph).find(); }

}  // namespace tessera::graph

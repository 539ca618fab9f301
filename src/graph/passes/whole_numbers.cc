// Values that become whole numbers of 32 bits or more, or f64, and scalars that are multiplied or divided: a vector format of
// 11 bits has no odd number above 2,048, and a scale of a quantised network is often subnormal in it.
//
//   x ─► convert to f64          a model that asks for 53 bits has the input's own 24,
//   f64 ─► convert ─► y          and its results are not rounded to 11 on their way out
//   bias / scale ─► round ─► convert to i32      quotient and rounded value are f32
//   scale of x * scale of w ─► ...               f32, for one element costs nothing
//
// `widen_tensors` does it.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/passes/passes.h"

namespace tessera::graph {
namespace {

class WholeNumbers {
 public:
  explicit WholeNumbers(const Graph& graph) : graph_(graph), links_(graph) {}

  std::set<std::string> find() {
    for (const Node& node : graph_.nodes) {
      if (node.kind() != NodeKind::kElementwise) continue;
      if (makes_whole_numbers(node)) add_with_operands(node.inputs[0]);
      if (brings_out_f64(node)) names_.insert(graph_.tensor(node.outputs[0]).name);
      if (makes_scalar_product(node)) names_.insert(graph_.tensor(node.outputs[0]).name);
    }
    return std::move(names_);
  }

 private:
  bool makes_whole_numbers(const Node& node) const {
    const Format format = graph_.tensor(node.outputs[0]).format;
    return !node.as<ElementwiseAttributes>().output.enabled &&
           (format == Format::kI32 || format == Format::kI64 || format == Format::kF64);
  }
  // A result of f64 that nobody but outputs of the network take, perhaps moved.
  bool brings_out_f64(const Node& node) const {
    return graph_.tensor(node.inputs[0]).format == Format::kF64 && goes_out(node.outputs[0]);
  }
  bool goes_out(TensorId id) const {
    const auto& readers = links_.consumers(id);
    return is_vector(id) && !readers.empty() &&
           std::ranges::all_of(readers, [this](NodeIndex reader) {
             const Node& node = graph_.nodes[reader];
             const TensorId made = node.outputs[0];
             if (node.kind() == NodeKind::kMove) return goes_out(made);
             return links_.is_output(made) && graph_.tensor(made).format == Format::kF32;
           });
  }
  bool makes_scalar_product(const Node& node) const {
    const auto& attributes = node.as<ElementwiseAttributes>();
    return attributes.binary &&
           (attributes.function == BinaryFunction::kMultiply ||
            attributes.function == BinaryFunction::kDivide) &&
           is_vector(node.outputs[0]) && element_count(graph_.tensor(node.outputs[0]).dims) == 1;
  }
  bool is_vector(TensorId id) const { return graph_.tensor(id).format == graph_.vector_format; }

  // The value and the element-wise ones that it is made of.
  void add_with_operands(TensorId id) {
    std::vector<TensorId> next = {id};
    while (!next.empty()) {
      const TensorId value = next.back();
      next.pop_back();
      const NodeIndex made_by = links_.producer(value);
      if (!is_vector(value) || made_by < 0 || !gives_f32(graph_.nodes[made_by])) continue;
      const Node& node = graph_.nodes[made_by];
      if (node.kind() != NodeKind::kElementwise && node.kind() != NodeKind::kMove) continue;
      if (!names_.insert(graph_.tensor(value).name).second) continue;
      next.insert(next.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  const Graph& graph_;
  const Links links_;
  std::set<std::string> names_;
};

}  // namespace

std::set<std::string> whole_numbers(const Graph& graph) { return WholeNumbers(graph).find(); }

}  // namespace tessera::graph

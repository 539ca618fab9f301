// Values that become whole numbers of 32 bits or more, and scalars that are multiplied or divided: a vector format of
// 11 bits has no odd number above 2,048, and a scale of a quantised network is often subnormal in it.
//
//   bias / scale ─► round ─► convert to i32      quotient and rounded value are f32
//   scale of x * scale of w ─► ...               f32, for one element costs nothing
//
// `widen_tensors` does it.
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
      if (makes_scalar_product(node)) names_.insert(graph_.tensor(node.outputs[0]).name);
    }
    return std::move(names_);
  }

 private:
  bool makes_whole_numbers(const Node& node) const {
    const Format format = graph_.tensor(node.outputs[0]).format;
    return !node.as<ElementwiseAttributes>().output.enabled &&
           (format == Format::kI32 || format == Format::kI64);
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

// Sums and maxima that keep a value from being zero, by a constant that the vector format does not have:
//
//   energy ─► maximum with 1e-10 ─► logarithm        norm ─► maximum with 1e-12 ─┐
//   sum ─► + 1e-8 ─► denominator                                        x ───────┴─► quotient
//
// In f16, whose least number is 2^-24, these would do nothing: the logarithm would be that of zero, the quotient of two zeros
// no number. `widen_tensors` makes the result f32, and with it the constant, and so what makes the other operand, whose
// small values are what the constant is beside. Readers take f32 as it is.
#include <cmath>
#include <set>
#include <string>

#include "arith/rounding.h"
#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/passes/passes.h"

namespace tessera::graph {
namespace {

class SmallFloors {
 public:
  explicit SmallFloors(const Graph& graph) : graph_(graph), links_(graph) {}

  std::set<std::string> find() {
    for (const Node& node : graph_.nodes) {
      if (node.kind() != NodeKind::kElementwise || !gives_f32(node)) continue;
      for (const TensorId kept : kept_from_zero(node)) {
        name(node.outputs[0]);
        name_with_moves(kept);
      }
    }
    return std::move(names_);
  }

 private:
  // The operand beside such a constant, if the node has one.
  std::set<TensorId> kept_from_zero(const Node& node) const {
    const auto& attributes = node.as<ElementwiseAttributes>();
    if (attributes.gain_bias) return {};
    if (!attributes.binary) {
      const Activation& clip = attributes.activation;
      const bool is_floor = clip.function == UnaryFunction::kClip && is_lost(clip.alpha);
      return is_floor ? std::set{node.inputs[0]} : std::set<TensorId>{};
    }
    if (attributes.function != BinaryFunction::kAdd &&
        attributes.function != BinaryFunction::kMaximum) {
      return {};
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const Constant& constant = graph_.tensor(node.inputs[i]).constant;
      const bool one = constant != nullptr && format_is_float(constant->format) &&
                       element_count(constant->dims) == 1;
      if (one && is_lost(only_real(*constant))) return {node.inputs[1 - i]};
    }
    return {};
  }
  // It is not there, or far from where it should be.
  bool is_lost(double value) const {
    constexpr double kFar = 1.0 / 32;
    return value > 0 && value < 1 &&
           std::abs(arith::round_value(graph_.vector_format, value) - value) > kFar * value;
  }

  bool name(TensorId id) {
    return graph_.tensor(id).format == graph_.vector_format && !links_.is_output(id) &&
           names_.insert(graph_.tensor(id).name).second;
  }
  // Moves up to what makes the value, and that.
  void name_with_moves(TensorId id) {
    for (NodeIndex made_by = links_.producer(id); made_by >= 0; made_by = links_.producer(id)) {
      const Node& node = graph_.nodes[made_by];
      if (!gives_f32(node) || !name(id)) return;
      if (node.kind() != NodeKind::kMove || node.inputs.size() != 1) return;
      id = node.inputs[0];
    }
  }

  const Graph& graph_;
  const Links links_;
  std::set<std::string> names_;
};

}  // namespace

std::set<std::string> small_floors(const Graph& graph) { return SmallFloors(graph).find(); }

}  // namespace tessera::graph

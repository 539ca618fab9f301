// Element-wise work and reductions whose axes cannot be seen as images, channels, rows and columns
// (surface_view.h) get operands of other shapes by Moves, so that they can.
//
//   x [a, b, c, d, e] ─► Reduce over a, c, e
//     => x ─► Move (b, d in front of a, c, e) ─► [b, d, a*c*e] ─► Reduce over the last axis
//   a [5, 1, 3, 1, 7, 1], b [1, 2, 1, 4, 1, 6] ─► Elementwise
//     => a ─► Move (repeated along some axes) ─► Elementwise, b
//
// The elements of one result keep their order, row-major over the reduced axes, so that sums and
// products in binary64 stay what they are. Of the sets of axes along which operands can be repeated,
// the one that makes the fewest elements is taken. Tensors of more axes than a copy has are turned
// and repeated by several Moves. Nodes that can be seen as they are stay untouched.
//
// Before: formats are settled, and no pass follows but order_small_nodes. After: every node has its views. No value
// changes.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"
#include "graph/surface_view.h"

namespace tessera::graph {

namespace {

// Neighbouring axes of one kind, of a tensor that is turned.
struct Run {
  std::int64_t extent = 1;
  bool reduced = false;
};

std::vector<Run> runs_of(const Shape& dims, const std::vector<std::int64_t>& axes) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    const bool reduced =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
    if (runs.empty() || runs.back().reduced != reduced) runs.push_back({1, reduced});
    runs.back().extent *= dims[i];
  }
  return runs;
}

// Kept runs in front of reduced ones, each in their order. Of more runs than a copy has axes, the
// last ones stay where they are.
CopyBox kept_first(std::vector<Run>& runs) {
  std::vector<Run> rest;
  if (runs.size() > kBoxAxesMax) {
    rest.assign(runs.begin() + kBoxAxesMax - 1, runs.end());
    runs.resize(kBoxAxesMax - 1);
  }
  std::int64_t inner = 1;
  for (const Run& run : rest) inner *= run.extent;
  Shape dims;
  std::vector<std::int64_t> order;
  for (const Run& run : runs) dims.push_back(run.extent);
  for (const bool reduced : {false, true}) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].reduced == reduced) order.push_back(static_cast<std::int64_t>(i));
    }
  }
  dims.push_back(inner);
  order.push_back(static_cast<std::int64_t>(runs.size()));
  const CopyBox box = simplified(permuted_box(dims, order));
  Shape turned;
  std::vector<std::int64_t> reduced;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const Run& run = runs[static_cast<std::size_t>(order[i])];
    if (run.reduced) reduced.push_back(static_cast<std::int64_t>(i));
    turned.push_back(run.extent);
  }
  for (const Run& run : rest) {
    if (run.reduced) reduced.push_back(static_cast<std::int64_t>(turned.size()));
    turned.push_back(run.extent);
  }
  runs = runs_of(turned, reduced);
  return box;
}

bool is_turned(const std::vector<Run>& runs) {
  return std::is_sorted(runs.begin(), runs.end(),
                        [](const Run& a, const Run& b) { return !a.reduced && b.reduced; });
}

// The axes of an operand along which an element-wise node repeats it, neighbours together.
struct Repetition {
  std::size_t operand = 0;
  std::vector<std::size_t> axes;  // of the output
};

// The shape with axes of 1 in front, up to `rank`.
Shape with_rank(const Shape& dims, std::size_t rank) {
  Shape padded(rank - dims.size(), 1);
  padded.insert(padded.end(), dims.begin(), dims.end());
  return padded;
}

std::vector<Repetition> repetitions_of(const std::vector<Shape>& operands, const Shape& out) {
  std::vector<Repetition> found;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    bool open = false;  // the axis before is repeated too
    for (std::size_t axis = 0; axis < out.size(); ++axis) {
      if (out[axis] == 1) continue;
      const bool repeated = operands[k][axis] == 1;
      if (repeated && !open) found.push_back({k, {}});
      if (repeated) found.back().axes.push_back(axis);
      open = repeated;
    }
  }
  return found;
}

// More of them are not tried one set after the other.
constexpr std::size_t kRepetitionsMax = 10;

class Arranger {
 public:
  explicit Arranger(Graph& graph) : graph_(graph), editor_(graph) {}

  void run() {
    const std::size_t count = graph_.nodes.size();
    for (std::size_t i = 0; i < count; ++i) {
      const NodeKind kind = graph_.nodes[i].kind();
      if (kind != NodeKind::kElementwise && kind != NodeKind::kReduce) continue;
      if (can_be_seen(i, shapes_of(i))) continue;
      if (kind == NodeKind::kReduce) {
        turn(i);
      } else {
        repeat(i);
      }
      TESSERA_CHECK(can_be_seen(i, shapes_of(i)), "node '{}' has no views behind arrange_axes",
                    graph_.nodes[i].name);
    }
    if (graph_.nodes.size() > count || folded_) tidy(graph_);
    if (folded_) drop_unused_tensors(graph_);
  }

 private:
  std::vector<Shape> shapes_of(std::size_t index) const {
    std::vector<Shape> shapes;
    for (const TensorId id : graph_.nodes[index].inputs) shapes.push_back(graph_.tensor(id).dims);
    return shapes;
  }

  // Whether the node has views with operands of these shapes. Only the node itself is looked at:
  // its neighbours say which of several views is taken, not whether there is one.
  bool can_be_seen(std::size_t index, const std::vector<Shape>& operands) const {
    Node node = graph_.nodes[index];
    Graph alone;
    const auto add = [&](TensorId& id, const Shape& dims) {
      const TensorInfo& info = graph_.tensor(id);
      alone.tensors.push_back(
          {.name = info.name, .format = info.format, .dims = dims, .constant = {}});
      id = {static_cast<std::int32_t>(alone.tensors.size()) - 1};
    };
    for (std::size_t k = 0; k < operands.size(); ++k) add(node.inputs[k], operands[k]);
    add(node.outputs[0], graph_.tensor(node.outputs[0]).dims);
    return node_views(alone, node).ok();
  }

  // ---- reductions -------------------------------------------------------------------------------

  void turn(std::size_t index) {
    const auto reduce = graph_.nodes[index].as<ReduceAttributes>();
    const TensorId x = graph_.nodes[index].inputs[0];
    const Shape dims = graph_.tensor(x).dims;
    // The result's shape as it is, and behind it all that is summed.
    Shape turned = graph_.tensor(graph_.nodes[index].outputs[0]).dims;
    turned.push_back(element_count(dims) / element_count(turned));
    TensorId& arranged = turned_[{x, reduce.axes, turned}];
    if (!arranged.valid()) {
      std::vector<Run> runs = runs_of(dims, reduce.axes);
      arranged = x;
      while (!is_turned(runs)) {
        const CopyBox box = kept_first(runs);
        const Shape flat = {element_count(dims)};
        arranged = moved_to(index, arranged, box, is_turned(runs) ? turned : flat);
      }
    }
    Node& node = graph_.nodes[index];
    node.inputs[0] = arranged;
    auto& attributes = node.as<ReduceAttributes>();
    attributes.axes = {static_cast<std::int64_t>(turned.size()) - 1};
    attributes.keep_dims = false;
  }

  // ---- element-wise work ------------------------------------------------------------------------

  void repeat(std::size_t index) {
    const Shape out = graph_.tensor(graph_.nodes[index].outputs[0]).dims;
    std::vector<Shape> operands = shapes_of(index);
    for (Shape& dims : operands) dims = with_rank(dims, out.size());
    const std::vector<Repetition> repetitions = repetitions_of(operands, out);
    const std::vector<bool> chosen = cheapest(index, operands, out, repetitions);
    for (std::size_t k = 0; k < operands.size(); ++k) {
      Shape wanted = operands[k];
      for (std::size_t i = 0; i < repetitions.size(); ++i) {
        if (!chosen[i] || repetitions[i].operand != k) continue;
        for (const std::size_t axis : repetitions[i].axes) wanted[axis] = out[axis];
      }
      if (wanted == operands[k]) continue;
      const TensorId repeated = repeated_to(index, k, operands[k], wanted);
      graph_.nodes[index].inputs[k] = repeated;
    }
  }

  // Which repetitions to carry out: the set that makes the fewest elements; all of them where there
  // are too many sets to try.
  std::vector<bool> cheapest(std::size_t index, const std::vector<Shape>& operands,
                             const Shape& out, const std::vector<Repetition>& repetitions) const {
    std::vector<bool> best(repetitions.size(), true);
    if (repetitions.size() > kRepetitionsMax) return best;
    std::int64_t least = -1;
    for (std::uint32_t set = 1; set < 1U << repetitions.size(); ++set) {
      std::vector<Shape> shapes = operands;
      for (std::size_t i = 0; i < repetitions.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        for (const std::size_t axis : repetitions[i].axes) {
          shapes[repetitions[i].operand][axis] = out[axis];
        }
      }
      std::int64_t made = 0;
      for (std::size_t k = 0; k < shapes.size(); ++k) {
        if (shapes[k] != operands[k]) made += element_count(shapes[k]);
      }
      if ((least >= 0 && made >= least) || !can_be_seen(index, shapes)) continue;
      least = made;
      for (std::size_t i = 0; i < best.size(); ++i) best[i] = (set >> i & 1U) != 0;
    }
    return best;
  }

  // The operand of node `index` repeated from `dims` to `wanted`, shapes of one rank.
  TensorId repeated_to(std::size_t index, std::size_t operand, const Shape& dims,
                       const Shape& wanted) {
    TensorId id = graph_.nodes[index].inputs[operand];
    TensorId& arranged = repeated_[{id, wanted}];
    if (arranged.valid()) return arranged;
    for (const RepeatingStep& step : repeating_steps(dims, wanted)) {
      id = moved_to(index, id, step.box, step.dims);
    }
    return arranged = id;
  }

  // ---- Moves ------------------------------------------------------------------------------------

  // What the box makes of a tensor, for node `index`; of a constant it is made here.
  TensorId moved_to(std::size_t index, TensorId from, const CopyBox& box, const Shape& dims) {
    const TensorInfo info = graph_.tensor(from);
    const std::string name = info.name + ".arranged";
    MoveAttributes move{false, 0, {box}};
    const std::int64_t bytes = element_count(dims) * format_bytes(info.format);
    if (info.constant != nullptr && bytes <= kFoldedBytesMax) {
      folded_ = true;
      const Tensor* const inputs[] = {info.constant.get()};
      return editor_.add_constant(
          name, std::make_shared<const Tensor>(moved(move, inputs, info.format, dims)));
    }
    const TensorId made = editor_.add_tensor(name, info.format, dims);
    const std::vector<std::string> origins = graph_.nodes[index].origins;
    editor_.add_node(graph_.nodes[index].name + ".arrange", origins, {from}, {made},
                     std::move(move));
    return made;
  }

  struct Turned {
    TensorId x;
    std::vector<std::int64_t> axes;
    Shape dims;
    friend auto operator<=>(const Turned&, const Turned&) = default;
  };

  Graph& graph_;
  Editor editor_;
  std::map<Turned, TensorId> turned_;                        // made before
  std::map<std::pair<TensorId, Shape>, TensorId> repeated_;  // made before
  bool folded_ = false;
};

}  // namespace

void arrange_axes(Graph& graph) { Arranger(graph).run(); }

}  // namespace tessera::graph

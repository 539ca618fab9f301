#include "host/buffer_plan.h"

#include <algorithm>
#include <limits>

namespace tessera::host {
namespace {

using graph::Graph;
using graph::TensorId;

// What a node that shares its block is a reshape of.
TensorId source_of(const graph::Node& node) {
  const graph::CopyBox& box = node.as<graph::MoveAttributes>().copies[0];
  return node.inputs[static_cast<std::size_t>(box.input)];
}

// The box walks memory from its first element on, on both sides.
bool is_dense(const graph::CopyBox& box, std::int64_t count) {
  if (box.input_offset != 0 || box.output_offset != 0) return false;
  std::int64_t stride = 1;
  for (std::size_t axis = box.extents.size(); axis-- > 0;) {
    if (box.extents[axis] == 1) continue;
    if (box.input_strides[axis] != stride || box.output_strides[axis] != stride) return false;
    stride *= box.extents[axis];
  }
  return stride == count;
}

// The node that uses each tensor last; behind the last node for graph outputs.
Table<TensorId, std::size_t> last_uses(const Graph& graph) {
  Table<TensorId, std::size_t> last(graph.tensors.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const TensorId id : graph.nodes[i].inputs) last[id] = i;
    for (const TensorId id : graph.nodes[i].outputs) last[id] = i;
  }
  for (const TensorId id : graph.outputs) last[id] = graph.nodes.size();
  return last;
}

// The free block that wastes least; a new one where none is large enough.
class Blocks {
 public:
  explicit Blocks(BufferPlan& plan) : plan_(plan) {}

  std::int32_t make(std::int64_t bytes) {
    plan_.block_bytes.push_back(bytes);
    return static_cast<std::int32_t>(plan_.block_bytes.size()) - 1;
  }
  std::int32_t take(std::int64_t bytes) {
    std::size_t best = free_.size();
    for (std::size_t i = 0; i < free_.size(); ++i) {
      const std::int64_t size = size_of(free_[i]);
      if (size >= bytes && (best == free_.size() || size < size_of(free_[best]))) best = i;
    }
    if (best == free_.size()) return make(bytes);
    const std::int32_t block = free_[best];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
    return block;
  }
  void release(std::int32_t block) { free_.push_back(block); }

 private:
  std::int64_t size_of(std::int32_t block) const {
    return plan_.block_bytes[static_cast<std::size_t>(block)];
  }
  BufferPlan& plan_;
  std::vector<std::int32_t> free_;
};

// Tensors in whose bytes the caller's may lie: inputs, outputs, and what outputs are reshapes of.
Table<TensorId, bool> of_the_caller(const Graph& graph) {
  Table<TensorId, bool> callers(graph.tensors.size(), false);
  for (const TensorId id : graph.inputs) callers[id] = true;
  for (const TensorId id : graph.outputs) callers[id] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!shares_block(graph, *node) || !callers[node->outputs[0]]) continue;
    callers[source_of(*node)] = true;
  }
  return callers;
}

}  // namespace

bool shares_block(const Graph& graph, const graph::Node& node) {
  if (node.kind() != graph::NodeKind::kMove) return false;
  const auto& move = node.as<graph::MoveAttributes>();
  if (move.copies.size() != 1) return false;
  const graph::CopyBox& box = move.copies[0];
  const graph::TensorInfo& input = graph.tensor(node.inputs[static_cast<std::size_t>(box.input)]);
  const graph::TensorInfo& output = graph.tensor(node.outputs[0]);
  const std::int64_t count = element_count(output.dims);
  return input.constant == nullptr && input.format == output.format &&
         element_count(input.dims) == count && is_dense(box, count);
}

BufferPlan plan_buffers(const Graph& graph) {
  BufferPlan plan;
  plan.block_of_tensor.assign(graph.tensors.size(), -1);
  const Table<TensorId, std::size_t> last = last_uses(graph);
  const Table<TensorId, bool> callers = of_the_caller(graph);
  Blocks blocks(plan);
  const auto take = [&](TensorId id) {
    const graph::TensorInfo& tensor = graph.tensor(id);
    const std::int64_t bytes = element_count(tensor.dims) * format_bytes(tensor.format);
    plan.block_of_tensor[id] = callers[id] ? blocks.make(bytes) : blocks.take(bytes);
  };
  // A block is free when all tensors in it have been read for the last time.
  std::vector<int> tenants;
  const auto move_in = [&](TensorId id) {
    const auto block = static_cast<std::size_t>(plan.block_of_tensor[id]);
    tenants.resize(std::max(tenants.size(), block + 1), 0);
    ++tenants[block];
  };
  // The caller's are never released: they have one tenant more than read them.
  for (const TensorId id : graph.inputs) {
    take(id);
    move_in(id);
    move_in(id);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    for (const TensorId id : node.outputs) {
      if (shares_block(graph, node)) {
        plan.block_of_tensor[id] = plan.block_of_tensor[source_of(node)];
      } else {
        take(id);
      }
      move_in(id);
      if (callers[id]) move_in(id);
    }
    std::vector<TensorId> done = node.inputs;
    done.insert(done.end(), node.outputs.begin(), node.outputs.end());
    std::sort(done.begin(), done.end());
    done.erase(std::unique(done.begin(), done.end()), done.end());
    for (const TensorId id : done) {
      const std::int32_t block = plan.block_of_tensor[id];
      if (block < 0 || last[id] != i) continue;
      if (--tenants[static_cast<std::size_t>(block)] == 0) blocks.release(block);
    }
  }
  return plan;
}

namespace {

// Whether the node can follow one that makes `passed`, which has one reader.
bool can_follow(const Graph& graph, const graph::Node& node, TensorId passed) {
  if (node.kind() != graph::NodeKind::kElementwise) return false;
  const graph::TensorInfo& before = graph.tensor(passed);
  return std::count(node.inputs.begin(), node.inputs.end(), passed) > 0 &&
         before.dims == graph.tensor(node.outputs[0]).dims;
}

// Whether the last output of a chain may be written piece by piece while `node` in front of it
// reads its operands.
bool leaves_operands(const Graph& graph, const BufferPlan& plan, const graph::Node& node,
                     TensorId last) {
  const graph::TensorInfo& output = graph.tensor(last);
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](TensorId id) {
    const graph::TensorInfo& input = graph.tensor(id);
    const bool apart = plan.block_of_tensor[id] != plan.block_of_tensor[last];
    return input.constant != nullptr || apart ||
           (input.dims == output.dims && format_bytes(input.format) == format_bytes(output.format));
  });
}

}  // namespace

std::vector<std::size_t> elementwise_chains(const Graph& graph, const BufferPlan& plan) {
  Table<TensorId, int> readers(graph.tensors.size(), 0);
  for (const graph::Node& node : graph.nodes) {
    std::vector<TensorId> inputs = node.inputs;
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (const TensorId id : inputs) ++readers[id];
  }
  for (const TensorId id : graph.outputs) ++readers[id];
  std::vector<std::size_t> chains(graph.nodes.size(), 1);
  for (std::size_t first = 0; first < graph.nodes.size(); first += chains[first]) {
    if (graph.nodes[first].kind() != graph::NodeKind::kElementwise) continue;
    std::size_t& count = chains[first];
    for (; first + count < graph.nodes.size(); ++count) {
      const TensorId passed = graph.nodes[first + count - 1].outputs[0];
      const graph::Node& next = graph.nodes[first + count];
      if (readers[passed] != 1 || !can_follow(graph, next, passed)) break;
      const bool free =
          std::all_of(graph.nodes.begin() + static_cast<std::ptrdiff_t>(first),
                      graph.nodes.begin() + static_cast<std::ptrdiff_t>(first + count),
                      [&](const graph::Node& node) {
                        return leaves_operands(graph, plan, node, next.outputs[0]);
                      });
      if (!free) break;
    }
  }
  return chains;
}

}  // namespace tessera::host

#include "host/buffer_plan.h"

#include <algorithm>
#include <limits>

namespace tessera::host {
namespace {

using graph::Graph;
using graph::TensorId;

std::size_t index_of(TensorId id) { return static_cast<std::size_t>(id.value); }

// The node that uses each tensor last; behind the last node for graph outputs.
std::vector<std::size_t> last_uses(const Graph& graph) {
  std::vector<std::size_t> last(graph.tensors.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const TensorId id : graph.nodes[i].inputs) last[index_of(id)] = i;
    for (const TensorId id : graph.nodes[i].outputs) last[index_of(id)] = i;
  }
  for (const TensorId id : graph.outputs) last[index_of(id)] = graph.nodes.size();
  return last;
}

// The free block that wastes least; a new one where none is large enough.
class Blocks {
 public:
  explicit Blocks(BufferPlan& plan) : plan_(plan) {}

  std::int32_t take(std::int64_t bytes) {
    std::size_t best = free_.size();
    for (std::size_t i = 0; i < free_.size(); ++i) {
      const std::int64_t size = size_of(free_[i]);
      if (size >= bytes && (best == free_.size() || size < size_of(free_[best]))) best = i;
    }
    if (best == free_.size()) {
      plan_.block_bytes.push_back(bytes);
      return static_cast<std::int32_t>(plan_.block_bytes.size()) - 1;
    }
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

}  // namespace

BufferPlan plan_buffers(const Graph& graph) {
  BufferPlan plan;
  plan.block_of_tensor.assign(graph.tensors.size(), -1);
  const std::vector<std::size_t> last = last_uses(graph);
  Blocks blocks(plan);
  const auto take = [&](TensorId id) {
    const graph::TensorInfo& tensor = graph.tensor(id);
    plan.block_of_tensor[index_of(id)] =
        blocks.take(element_count(tensor.dims) * format_bytes(tensor.format));
  };
  for (const TensorId id : graph.inputs) take(id);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    for (const TensorId id : node.outputs) take(id);
    std::vector<TensorId> done = node.inputs;
    done.insert(done.end(), node.outputs.begin(), node.outputs.end());
    std::sort(done.begin(), done.end());
    done.erase(std::unique(done.begin(), done.end()), done.end());
    for (const TensorId id : done) {
      const std::int32_t block = plan.block_of_tensor[index_of(id)];
      if (block >= 0 && last[index_of(id)] == i) blocks.release(block);
    }
  }
  return plan;
}

}  // namespace tessera::host

#include "host/buffer_plan.h"

#include <algorithm>
#include <limits>
#include <map>

namespace tessera::host {
namespace {

using graph::Graph;
using graph::TensorId;

TensorId source_of(const graph::Node& node, const graph::CopyBox& box) {
  return node.inputs[static_cast<std::size_t>(box.input)];
}

// The box walks memory from its first element on, one behind the other, on both sides.
bool is_run(const graph::CopyBox& box) {
  std::int64_t stride = 1;
  for (std::size_t axis = box.extents.size(); axis-- > 0;) {
    if (box.extents[axis] == 1) continue;
    if (box.input_strides[axis] != stride || box.output_strides[axis] != stride) return false;
    stride *= box.extents[axis];
  }
  return true;
}

std::int64_t elements_of(const Graph& graph, TensorId id) {
  return element_count(graph.tensor(id).dims);
}

// A Move whose output is a run of its only source's elements, which is no constant.
bool is_part(const Graph& graph, const graph::Node& node) {
  if (node.kind() != graph::NodeKind::kMove) return false;
  const auto& move = node.as<graph::MoveAttributes>();
  if (move.copies.size() != 1 || move.has_fill) return false;
  const graph::CopyBox& box = move.copies[0];
  const graph::TensorInfo& input = graph.tensor(source_of(node, box));
  const std::int64_t count = elements_of(graph, node.outputs[0]);
  return input.constant == nullptr && input.format == graph.tensor(node.outputs[0]).format &&
         count > 0 && is_run(box) && box.output_offset == 0 && element_count(box.extents) == count;
}

// A part that is all of its source.
bool is_reshape(const Graph& graph, const graph::Node& node) {
  return is_part(graph, node) &&
         elements_of(graph, source_of(node, node.as<graph::MoveAttributes>().copies[0])) ==
             elements_of(graph, node.outputs[0]);
}

// The place in the order of the node that uses each tensor last; behind the last one for graph outputs.
Table<TensorId, std::size_t> last_uses(const Graph& graph, const RunOrder& order) {
  Table<TensorId, std::size_t> last(graph.tensors.size(), 0);
  for (std::size_t i = 0; i < order.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[order.nodes[i]];
    for (const TensorId id : node.inputs) last[id] = i;
    for (const TensorId id : node.outputs) last[id] = i;
  }
  for (const TensorId id : graph.outputs) last[id] = graph.nodes.size();
  return last;
}

// Blocks that are used again. Within a stretch a branch takes what was free before it, and what it has used itself;
// the rest is free again behind the stretch, since nobody knows how far the other branches are.
class Blocks {
 public:
  explicit Blocks(BufferPlan& plan) : plan_(plan) {}

  // What follows is of this branch, RunOrder::kNoBranch outside of stretches.
  void enter(std::int32_t branch) { branch_ = branch; }
  void leave_stretch() {
    for (const auto& [branch, blocks] : used_)
      free_.insert(free_.end(), blocks.begin(), blocks.end());
    used_.clear();
  }

  std::int32_t make(std::int64_t bytes) {
    plan_.block_bytes.push_back(bytes);
    owners_.push_back(RunOrder::kNoBranch);
    return static_cast<std::int32_t>(plan_.block_bytes.size()) - 1;
  }
  // The free block that wastes least; a new one where none is large enough. `shared`: other branches write to it, too.
  std::int32_t take(std::int64_t bytes, bool shared) {
    std::int32_t block = kNone;
    if (branch_ != RunOrder::kNoBranch && !shared) block = take_from(used_[branch_], bytes);
    if (block == kNone) block = take_from(free_, bytes);
    if (block == kNone) block = make(bytes);
    owners_[static_cast<std::size_t>(block)] = shared ? RunOrder::kNoBranch : branch_;
    return block;
  }
  void release(std::int32_t block) {
    if (branch_ == RunOrder::kNoBranch) {
      free_.push_back(block);
    } else {
      used_[owners_[static_cast<std::size_t>(block)] == branch_ ? branch_ : kWithheld].push_back(
          block);
    }
  }

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr std::int32_t kWithheld = -2;  // no branch

  std::int64_t size_of(std::int32_t block) const {
    return plan_.block_bytes[static_cast<std::size_t>(block)];
  }
  std::int32_t take_from(std::vector<std::int32_t>& blocks, std::int64_t bytes) {
    std::size_t best = blocks.size();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::int64_t size = size_of(blocks[i]);
      if (size >= bytes && (best == blocks.size() || size < size_of(blocks[best]))) best = i;
    }
    if (best == blocks.size()) return kNone;
    const std::int32_t block = blocks[best];
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(best));
    return block;
  }

  BufferPlan& plan_;
  std::int32_t branch_ = RunOrder::kNoBranch;
  std::vector<std::int32_t> free_;
  std::map<std::int32_t, std::vector<std::int32_t>> used_;  // by branch, of the stretch at hand
  std::vector<std::int32_t> owners_;  // of each block the branch that took it last
};

// Tensors in whose bytes the caller's may lie: inputs, outputs, and what outputs are reshapes of.
Table<TensorId, bool> of_the_caller(const Graph& graph) {
  Table<TensorId, bool> callers(graph.tensors.size(), false);
  for (const TensorId id : graph.inputs) callers[id] = true;
  for (const TensorId id : graph.outputs) callers[id] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!is_reshape(graph, *node) || !callers[node->outputs[0]]) continue;
    callers[source_of(*node, node->as<graph::MoveAttributes>().copies[0])] = true;
  }
  return callers;
}

// Where a tensor lies within another one; itself where it has memory of its own.
struct Home {
  TensorId tensor;
  std::int64_t offset = 0;  // bytes
};
using Homes = Table<TensorId, Home>;

Home home_of(const Homes& homes, TensorId id) {
  Home home = {id, 0};
  while (homes[home.tensor].tensor != home.tensor) {
    const Home& next = homes[home.tensor];
    home = {next.tensor, home.offset + next.offset};
  }
  return home;
}

// What is joined is made where the whole will lie: each source at most once, as a whole.
void join(const Graph& graph, const graph::Node& node, const Table<TensorId, bool>& callers,
          Homes& homes) {
  const auto& move = node.as<graph::MoveAttributes>();
  const TensorId whole = node.outputs[0];
  if (move.copies.size() < 2 || callers[whole]) return;
  for (const graph::CopyBox& box : move.copies) {
    const TensorId source = source_of(node, box);
    const graph::TensorInfo& info = graph.tensor(source);
    const bool all = is_run(box) && box.input_offset == 0 &&
                     element_count(box.extents) == element_count(info.dims);
    const bool own = info.constant == nullptr && homes[source].tensor == source;
    if (!all || !own || callers[source] || info.format != graph.tensor(whole).format) continue;
    homes[source] = {whole, box.output_offset * format_bytes(info.format)};
  }
}

// Parts lie in their source, what is joined in the whole.
Homes find_homes(const Graph& graph, const Table<TensorId, bool>& callers) {
  Homes homes(graph.tensors.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    homes[i] = {{static_cast<std::int32_t>(i)}, 0};
  }
  for (const graph::Node& node : graph.nodes) {
    if (node.kind() != graph::NodeKind::kMove) continue;
    const TensorId made = node.outputs[0];
    const bool inside = is_part(graph, node) && (!callers[made] || is_reshape(graph, node));
    if (!inside) {
      if (!node.as<graph::MoveAttributes>().has_fill) join(graph, node, callers, homes);
      continue;
    }
    const graph::CopyBox& box = node.as<graph::MoveAttributes>().copies[0];
    homes[made] = {source_of(node, box),
                   box.input_offset * format_bytes(graph.tensor(made).format)};
  }
  return homes;
}

// The branch of the node that makes each tensor.
Table<TensorId, std::int32_t> making_branches(const Graph& graph, const RunOrder& order) {
  Table<TensorId, std::int32_t> made(graph.tensors.size(), RunOrder::kNoBranch);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const TensorId id : graph.nodes[i].outputs) made[id] = order.branch_of_node[i];
  }
  return made;
}

}  // namespace

bool lies_in_place(const Graph& graph, const BufferPlan& plan, const graph::Node& node,
                   const graph::CopyBox& box) {
  const TensorId source = source_of(node, box);
  const TensorId made = node.outputs[0];
  const std::int64_t size = format_bytes(graph.tensor(made).format);
  const std::int32_t block = plan.block_of_tensor[source];
  return block >= 0 && block == plan.block_of_tensor[made] && is_run(box) &&
         plan.offset_of_tensor[source] + box.input_offset * size ==
             plan.offset_of_tensor[made] + box.output_offset * size;
}

BufferPlan plan_buffers(const Graph& graph, const RunOrder& order) {
  BufferPlan plan;
  plan.block_of_tensor.assign(graph.tensors.size(), -1);
  const Table<TensorId, std::size_t> last = last_uses(graph, order);
  const Table<TensorId, std::int32_t> made_in = making_branches(graph, order);
  plan.offset_of_tensor.assign(graph.tensors.size(), 0);
  const Table<TensorId, bool> callers = of_the_caller(graph);
  const Homes homes = find_homes(graph, callers);
  Blocks blocks(plan);
  // A home gets its block with the first tensor that lies in it.
  const auto take = [&](TensorId id) {
    const Home home = home_of(homes, id);
    std::int32_t& block = plan.block_of_tensor[home.tensor];
    if (block < 0) {
      const graph::TensorInfo& tensor = graph.tensor(home.tensor);
      const std::int64_t bytes = element_count(tensor.dims) * format_bytes(tensor.format);
      block = callers[home.tensor] ? blocks.make(bytes)
                                   : blocks.take(bytes, made_in[home.tensor] != made_in[id]);
    }
    plan.block_of_tensor[id] = block;
    plan.offset_of_tensor[id] = home.offset;
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
  auto stretch = order.stretches.begin();
  for (std::size_t i = 0; i < order.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[order.nodes[i]];
    if (stretch != order.stretches.end() && i == stretch->back().last) {
      blocks.leave_stretch();
      ++stretch;
    }
    blocks.enter(order.branch_of_node[order.nodes[i]]);
    for (const TensorId id : node.outputs) {
      take(id);
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
           (input.dims == output.dims &&
            format_bytes(input.format) == format_bytes(output.format) &&
            plan.offset_of_tensor[id] == plan.offset_of_tensor[last]);
  });
}

}  // namespace

std::vector<std::size_t> elementwise_chains(const Graph& graph, const BufferPlan& plan,
                                            const RunOrder& order) {
  std::vector<std::size_t> place(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < order.nodes.size(); ++i) place[order.nodes[i]] = i;
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
      if (place[first + count] != place[first] + count ||
          order.branch_of_node[first + count] != order.branch_of_node[first]) {
        break;
      }
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

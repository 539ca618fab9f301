#include "concord/lift/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>

#include "base/check.h"
#include "concord/lift/layers.h"
#include "concord/lift/tensors.h"
#include "graph/verify.h"
#include "isa/step_order.h"

namespace tessera::concord {
namespace {

using graph::Graph;
using graph::TensorId;
using isa::Program;

class GraphMaker {
 public:
  GraphMaker(const Program& program, const Groups& groups, const Walk& walk)
      : program_(program), groups_(groups), walk_(walk), tensors_(graph_) {}

  Result<LiftedGraph> run() {
    graph_.name = "lifted";
    graph_.vector_format = vector_format();
    find_makers();
    mark_needed();
    LiftedGraph result;
    const std::vector<std::size_t> order = order_of_items();
    result.circular = left_out(order);
    if (!result.circular.empty()) return result;
    TESSERA_RETURN_IF_ERROR(check_all_placed(order));
    // Names of inputs and outputs are the program's own.
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const isa::TensorSlot& slot = program_.inputs[i];
      graph_.inputs.push_back(tensors_.add(slot.name, slot.format, slot.dims));
      graph_.tensor(graph_.inputs.back()).dense_dims = slot.dense_dims;
      tensors_.set_value(walk_.inputs[i], graph_.inputs.back());
    }
    std::vector<std::string> output_names;
    for (const isa::TensorSlot& slot : program_.outputs) {
      output_names.push_back(tensors_.unique_name(slot.name));
    }
    for (const std::size_t item : order) TESSERA_RETURN_IF_ERROR(add_item(walk_.finished[item]));
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) add_output(i, output_names[i]);
    TESSERA_RETURN_IF_ERROR(graph::verify(graph_));
    result.graph = std::make_shared<const Graph>(std::move(graph_));
    return result;
  }

 private:
  // The format of the first float that is computed, of the smaller ones if there are any.
  Format vector_format() const {
    for (const Group& group : groups_.groups) {
      if (group.output_format == Format::kF16 || group.output_format == Format::kBf16) {
        return group.output_format;
      }
    }
    const bool f32 =
        std::any_of(groups_.groups.begin(), groups_.groups.end(),
                    [](const Group& group) { return group.output_format == Format::kF32; });
    return f32 ? Format::kF32 : Format::kF16;
  }

  const std::vector<Operand>& operands(std::int32_t item) const {
    return item >= 0 ? walk_.layers[item].inputs : walk_.steps[-1 - item].inputs;
  }

  void find_makers() {
    makers_.assign(walk_.values.size(), -1);
    for (std::size_t i = 0; i < walk_.finished.size(); ++i) {
      const std::int32_t item = walk_.finished[i];
      if (item >= 0) {
        makers_[walk_.layers[item].value] = static_cast<std::int64_t>(i);
      } else {
        for (const LiftedValue value : walk_.steps[-1 - item].outputs) {
          makers_[value] = static_cast<std::int64_t>(i);
        }
      }
    }
  }

  // Calls visit(item) for the makers of an operand's values.
  void for_each_maker(const Operand& operand, const std::function<void(std::size_t)>& visit) const {
    const auto one = [&](LiftedValue value) {
      if (value >= kFirstValue && makers_[value] >= 0) {
        visit(static_cast<std::size_t>(makers_[value]));
      }
    };
    if (operand.kind == Operand::Kind::kWhole) one(operand.value);
    LiftedValue last = kNothing;
    for (const SourceBox& box : operand.boxes) {
      if (box.value != last) one(box.value);
      last = box.value;
    }
  }

  // What no output needs is left out.
  void mark_needed() {
    needed_.assign(walk_.finished.size(), false);
    std::vector<std::size_t> open;
    const auto need = [&](std::size_t item) {
      if (needed_[item]) return;
      needed_[item] = true;
      open.push_back(item);
    };
    for (const Operand& output : walk_.outputs) for_each_maker(output, need);
    while (!open.empty()) {
      const std::int32_t item = walk_.finished[open.back()];
      open.pop_back();
      for (const Operand& operand : operands(item)) for_each_maker(operand, need);
    }
  }

  // Makers before readers; otherwise as they were finished.
  std::vector<std::size_t> order_of_items() const {
    std::vector<std::int64_t> missing(walk_.finished.size(), 0);
    std::vector<std::vector<std::size_t>> readers(walk_.finished.size());
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < walk_.finished.size(); ++i) {
      if (!needed_[i]) continue;
      for (const Operand& operand : operands(walk_.finished[i])) {
        for_each_maker(operand, [&](std::size_t maker) {
          readers[maker].push_back(i);
          ++missing[i];
        });
      }
      if (missing[i] == 0) ready.push(i);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const std::size_t reader : readers[order.back()]) {
        if (--missing[reader] == 0) ready.push(reader);
      }
    }
    return order;
  }

  // Layers that are needed and have no place in the order.
  std::set<std::uint32_t> left_out(const std::vector<std::size_t>& order) const {
    std::vector<bool> placed(walk_.finished.size(), false);
    for (const std::size_t item : order) placed[item] = true;
    std::set<std::uint32_t> layers;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (placed[i] || !needed_[i] || walk_.finished[i] < 0) continue;
      const Group& group = groups_.groups[walk_.finished[i]];
      if (group.merged) layers.insert(group.layer);
    }
    return layers;
  }

  // A task alone may read results of its own earlier steps, or of tasks that read its results.
  Status check_all_placed(const std::vector<std::size_t>& order) const {
    std::vector<bool> placed(walk_.finished.size(), false);
    for (const std::size_t item : order) placed[item] = true;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (placed[i] || !needed_[i] || walk_.finished[i] < 0) continue;
      const Group& group = groups_.groups[walk_.finished[i]];
      return Error{
          ErrorCode::kUnsupported,
          fmt::format("{} waits for results that are made of its own, as a task does whose "
                      "steps read what the steps before them wrote; that is no layer of a "
                      "graph",
                      isa::describe_task(program_, group.tasks[0]))};
    }
    return {};
  }

  Status add_item(std::int32_t item) {
    if (item < 0) return add_step(walk_.steps[-1 - item]);
    const Group& group = groups_.groups[item];
    LayerNames names;
    if (group.layer < program_.hints.size()) {
      names.name = program_.hints[group.layer].name;
      names.origins = program_.hints[group.layer].origins;
    }
    if (names.name.empty()) names.name = fmt::format("task {}", group.tasks[0]);
    names.name = tensors_.unique_node_name(names.name);
    return add_layer(group, walk_.layers[item], names, tensors_, graph_);
  }

  Status add_step(const LiftedStep& step) {
    const Graph& own = *step.graph;
    graph::Node node = own.nodes[0];
    node.name = tensors_.unique_node_name(node.name);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const graph::TensorInfo& info = own.tensor(node.inputs[i]);
      node.inputs[i] = info.constant != nullptr
                           ? tensors_.constant(info.name, info.constant)
                           : tensors_.read(step.inputs[i], info.dims, node.name);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const graph::TensorInfo& info = own.tensor(node.outputs[i]);
      node.outputs[i] = tensors_.add(info.name, info.format, info.dims);
      tensors_.set_value(step.outputs[i], node.outputs[i]);
    }
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  // A tensor of its own, under the output's name.
  void add_output(std::size_t i, const std::string& name) {
    const isa::TensorSlot& slot = program_.outputs[i];
    TensorId tensor = tensors_.read(walk_.outputs[i], slot.dims, name);
    const auto is = [&](const std::vector<TensorId>& list) {
      return std::find(list.begin(), list.end(), tensor) != list.end();
    };
    const bool constant = graph_.tensor(tensor).constant != nullptr;
    if (is(graph_.inputs) || is(graph_.outputs) || (constant && element_count(slot.dims) > 0)) {
      tensor = tensors_.copy(tensor, slot.dims, name);
    }
    graph_.tensor(tensor).name = name;
    graph_.tensor(tensor).dense_dims = slot.dense_dims;
    graph_.outputs.push_back(tensor);
  }

  const Program& program_;
  const Groups& groups_;
  const Walk& walk_;
  Graph graph_;
  LiftedTensors tensors_;
  std::vector<std::int64_t> makers_;  // of each value: index into Walk::finished, or -1
  std::vector<bool> needed_;          // of each item of Walk::finished
};

}  // namespace

Result<LiftedGraph> lifted_graph(const Program& program, const Groups& groups, const Walk& walk) {
  return GraphMaker(program, groups, walk).run();
}

}  // namespace tessera::concord

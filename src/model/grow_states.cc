#include "model/grow_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tessera::model {
namespace {

using Ints = std::vector<std::int64_t>;

struct State {
  StateNames names;
  std::size_t concat = 0;  // place among the nodes
  std::int64_t rank = 0, axis = 0;
};

Error wrong(const StateNames& names, const std::string& what) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("state '{}' -> '{}': {}", names.input, names.output, what)};
}

Result<State> find_state(const Model& model, const StateNames& names) {
  const auto input = std::ranges::find(model.graph.inputs, names.input, &ValueInfo::name);
  if (input == model.graph.inputs.end() || !input->has_shape) {
    return wrong(names, "the model has no such input, or does not say its dimensions");
  }
  if (std::ranges::find(model.graph.outputs, names.output, &ValueInfo::name) ==
      model.graph.outputs.end()) {
    return wrong(names, "the model has no such output");
  }
  const auto node = std::ranges::find_if(model.graph.nodes, [&](const Node& candidate) {
    return !candidate.outputs.empty() && candidate.outputs[0] == names.output;
  });
  if (node == model.graph.nodes.end() || node->op_type != "Concat" || node->inputs.size() != 2 ||
      node->inputs[0] != names.input) {
    return wrong(names, fmt::format("the output is made by {}, needed is Concat of the input and "
                                    "the new row",
                                    node == model.graph.nodes.end() ? "no node" : node->op_type));
  }
  State state{names, static_cast<std::size_t>(node - model.graph.nodes.begin()),
              std::ssize(input->dims), 0};
  const auto axis = node->attributes.find("axis");
  const auto* const value =
      axis == node->attributes.end() ? nullptr : std::get_if<std::int64_t>(&axis->second);
  if (value == nullptr) return wrong(names, "Concat has no axis");
  state.axis = *value < 0 ? *value + state.rank : *value;
  if (state.axis < 0 || state.axis >= state.rank) return wrong(names, "Concat has no such axis");
  return state;
}

// Rows first.
Ints rows_first(const State& state) {
  Ints order = {state.axis};
  for (std::int64_t axis = 0; axis < state.rank; ++axis) {
    if (axis != state.axis) order.push_back(axis);
  }
  return order;
}

Ints inverse(const Ints& order) {
  Ints result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    result[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}

Node node_of(const std::string& type, const std::string& name, std::vector<std::string> inputs,
             std::string output, Attributes attributes = {}) {
  return {name, type, "", std::move(inputs), {std::move(output)}, std::move(attributes)};
}

void add_shape(Model& model, const std::string& name, const Ints& dims) {
  Tensor tensor = Tensor::zeros(Format::kI64, {std::ssize(dims)});
  std::ranges::copy(dims, tensor.as<std::int64_t>().begin());
  model.graph.initializers[name] = std::move(tensor);
}

// In place of the Concat; everything that read input and output reads values of other names.
std::vector<Node> nodes_of(Model& model, const State& state, const std::string& new_row) {
  const std::string past = state.names.input + ".by_rows", all = state.names.output + ".all";
  const std::string place = state.names.input + ".new_row";
  const Ints order = rows_first(state);
  Ints shape(static_cast<std::size_t>(state.rank), 1);
  shape[static_cast<std::size_t>(state.axis)] = -1;
  add_shape(model, place + ".shape", shape);
  return {
      node_of("Transpose", past, {state.names.input}, past, {{"perm", inverse(order)}}),
      node_of("Reshape", place, {kNewRowInput, place + ".shape"}, place),
      node_of("Where", all, {place, new_row, past}, all),
      node_of("Transpose", state.names.output, {new_row}, state.names.output, {{"perm", order}})};
}

void rename_uses(Model& model, const std::string& from, const std::string& to) {
  for (Node& node : model.graph.nodes) std::ranges::replace(node.inputs, from, to);
}

void declare(Model& model, const State& state, std::int64_t rows) {
  const auto input = std::ranges::find(model.graph.inputs, state.names.input, &ValueInfo::name);
  std::vector<Dimension> dims;
  for (const std::int64_t axis : rows_first(state)) {
    Dimension dimension = input->dims[static_cast<std::size_t>(axis)];
    if (axis == state.axis) {
      dimension = {rows, ""};
    } else if (dimension.value < 0) {
      dimension = {1, ""};
    }
    dims.push_back(dimension);
  }
  input->dims = dims;
  const auto output = std::ranges::find(model.graph.outputs, state.names.output, &ValueInfo::name);
  output->has_shape = false;
  output->dims.clear();
}

}  // namespace

Result<Model> grow_states(Model model, const std::vector<StateNames>& states, std::int64_t rows) {
  std::vector<State> found;
  for (const StateNames& names : states) {
    TESSERA_TRY(State state, find_state(model, names));
    const bool twice = std::ranges::any_of(
        found, [&](const State& other) { return other.concat == state.concat; });
    if (twice) return wrong(names, "it is named twice");
    found.push_back(std::move(state));
  }
  std::ranges::sort(found, std::greater<>(), &State::concat);  // places before stay what they are
  for (const State& state : found) {
    const std::string new_row = model.graph.nodes[state.concat].inputs[1];
    rename_uses(model, state.names.output, state.names.output + ".all");
    std::vector<Node> nodes = nodes_of(model, state, new_row);
    const auto place = model.graph.nodes.begin() + static_cast<std::ptrdiff_t>(state.concat);
    const auto behind = model.graph.nodes.erase(place);
    // Its other readers (shape arithmetic) may come before: the transposition goes to the front.
    Node by_rows = std::move(nodes.front());
    model.graph.nodes.insert(behind, std::make_move_iterator(nodes.begin() + 1),
                             std::make_move_iterator(nodes.end()));
    rename_uses(model, state.names.input, by_rows.outputs[0]);
    by_rows.inputs = {state.names.input};
    model.graph.nodes.insert(model.graph.nodes.begin(), std::move(by_rows));
    for (State& other : found) other.concat += other.concat < state.concat ? 1 : 0;
    declare(model, state, rows);
  }
  ValueInfo new_row{kNewRowInput, Format::kBool, true, {{rows, ""}}};
  model.graph.inputs.push_back(std::move(new_row));
  return model;
}

}  // namespace tessera::model

#include "model/grow_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "model/piece.h"

namespace tessera::model {
namespace {

using Ints = std::vector<std::int64_t>;

struct State {
  StateNames names;
  std::size_t concat = 0;             // place among the nodes
  std::vector<std::string> presents;  // the output, and values that it is the same as
  std::int64_t rank = 0, axis = 0;
};

Error wrong(const StateNames& names, const std::string& what) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("state '{}' -> '{}': {}", names.input, names.output, what)};
}

const Node* maker_of(const Model& model, const std::string& value) {
  const auto node = std::ranges::find_if(model.graph.nodes, [&value](const Node& candidate) {
    return std::ranges::find(candidate.outputs, value) != candidate.outputs.end();
  });
  return node == model.graph.nodes.end() ? nullptr : &*node;
}

// The value, and those before it that it is the same as.
std::vector<std::string> same_values(const Model& model, const std::string& value) {
  std::vector<std::string> values = {value};
  for (const Node* node = maker_of(model, value); node != nullptr && node->op_type == "Identity";
       node = maker_of(model, values.back())) {
    values.push_back(node->inputs.at(0));
  }
  return values;
}

// The Concat of the state's input and the new row. The output is its value, or, where lengths of sequences say where the new
// row goes, Where(.., If(.., the two in other places), 0), as contrib/grouped_query.cc writes it.
std::optional<std::size_t> find_concat(const Model& model, const StateNames& names,
                                       const std::string& present) {
  std::vector<std::string> values = {present};
  const Node* const made = maker_of(model, present);
  if (made != nullptr && made->op_type == "Where" && made->inputs.size() == 3) {
    const Node* const either = maker_of(model, made->inputs[1]);
    if (either != nullptr && either->op_type == "If") values = names_read(*either);
  }
  for (std::size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    if (node.op_type == "Concat" && node.inputs.size() == 2 && node.inputs[0] == names.input &&
        std::ranges::find(values, node.outputs[0]) != values.end()) {
      return i;
    }
  }
  return std::nullopt;
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
  std::vector<std::string> presents = same_values(model, names.output);
  const std::optional<std::size_t> concat = find_concat(model, names, presents.back());
  if (!concat) {
    const Node* const node = maker_of(model, presents.back());
    return wrong(names, fmt::format("the output is made by {}, needed is Concat of the input and "
                                    "the new row",
                                    node == nullptr ? "no node" : node->op_type));
  }
  const Node& joins = model.graph.nodes[*concat];
  State state{names, *concat, std::move(presents), std::ssize(input->dims), 0};
  const auto axis = joins.attributes.find("axis");
  const auto* const value =
      axis == joins.attributes.end() ? nullptr : std::get_if<std::int64_t>(&axis->second);
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

// What nobody reads any more.
void remove_unread(Model& model) {
  std::set<std::string> read;
  for (const ValueInfo& output : model.graph.outputs) read.insert(output.name);
  std::vector<Node> kept;
  for (std::size_t i = model.graph.nodes.size(); i-- > 0;) {
    Node& node = model.graph.nodes[i];
    const bool is_read = std::ranges::any_of(
        node.outputs, [&read](const std::string& name) { return read.contains(name); });
    if (!is_read) continue;
    for (const std::string& name : names_read(node)) read.insert(name);
    kept.push_back(std::move(node));
  }
  std::ranges::reverse(kept);
  model.graph.nodes = std::move(kept);
}

// What made the output makes a value that nobody reads; its readers read the value with all rows.
void set_aside(Model& model, const State& state) {
  for (const std::string& present : state.presents) {
    rename_uses(model, present, state.names.output + ".all");
    for (Node& node : model.graph.nodes) {
      std::ranges::replace(node.outputs, present, present + ".before");
    }
  }
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
    set_aside(model, state);
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
  remove_unread(model);
  ValueInfo new_row{kNewRowInput, Format::kBool, true, {{rows, ""}}};
  model.graph.inputs.push_back(std::move(new_row));
  return model;
}

}  // namespace tessera::model

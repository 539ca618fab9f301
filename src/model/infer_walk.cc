#include "model/infer_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "model/evaluate.h"
#include "model/ops/apply.h"
#include "model/ops/draw.h"
#include "model/ops/elements.h"

namespace tessera::model {

namespace {

// Larger results are not computed ahead of time: they would only make the program larger.
constexpr std::int64_t kFoldedBytesMax = std::int64_t{64} << 20;
// Models without their weights make them this way, and a layer needs them as constants.
constexpr std::int64_t kFilledBytesMax = std::int64_t{1} << 30;
// Nor may all of them together.
constexpr std::int64_t kFoldedTotalMax = std::int64_t{4} << 30;
// Bodies may run often, and in each other.
constexpr std::size_t kNodesMax = 200'000;
constexpr std::int64_t kIterationsMax = 20'000;

std::int64_t opset_of(const Model& model) {
  const auto found = model.opsets.find("");
  return found == model.opsets.end() ? 1 : found->second;
}

void reserve_names(const Subgraph& graph, std::set<std::string>& names) {
  for (const ValueInfo& input : graph.inputs) names.insert(input.name);
  for (const auto& [name, tensor] : graph.initializers) names.insert(name);
  for (const Node& node : graph.nodes) names.insert(node.outputs.begin(), node.outputs.end());
}

}  // namespace

const Held& Scope::find(const std::string& name) const {
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  TESSERA_CHECK(outer_ != nullptr, "value '{}' is used before it is defined", name);
  return outer_->find(name);
}

Result<const Subgraph*> body_of(const Node& node, const std::string& attribute) {
  const auto found = node.attributes.find(attribute);
  const auto* body = found == node.attributes.end()
                         ? nullptr
                         : std::get_if<std::shared_ptr<const Subgraph>>(&found->second);
  if (body == nullptr || *body == nullptr) {
    return ops::invalid(fmt::format("attribute '{}' is missing", attribute));
  }
  return body->get();
}

Walk::Walk(const Model& model, InferredModel& result, Watch* watch,
           std::shared_ptr<const void> owner)
    : opset_(opset_of(model)), watch_(watch), owner_(std::move(owner)), result_(result) {
  reserve_names(model.graph, reserved_);
}

const TypedValue& Walk::value(const std::string& name) const {
  const auto found = result_.values.find(name);
  TESSERA_CHECK(found != result_.values.end(), "value '{}' is used before it is defined", name);
  return found->second;
}

std::string Walk::fresh(const std::string& name) {
  const auto taken = [this](const std::string& key) {
    return result_.values.contains(key) || reserved_.contains(key);
  };
  if (!taken(name)) return name;
  int& last = last_suffix_[name];  // so that the n-th name costs no n tries
  std::string result;
  do {
    result = fmt::format("{}.{}", name, ++last + 1);
  } while (taken(result));
  return result;
}

Error Walk::blocked(const std::string& name, const std::string& what) {
  blocking_ = {name};
  return ops::unsupported(fmt::format("{} '{}' is not a constant", what, name));
}

Result<const Tensor*> Walk::known(const std::string& name, const std::string& what) {
  const TypedValue& typed = value(name);
  if (typed.constant == nullptr) return blocked(name, what);
  return typed.constant.get();
}

Status Walk::graph(const Subgraph& graph, Scope& scope) {
  for (const auto& [name, tensor] : graph.initializers) {
    auto& shared = initializers_[&tensor];
    if (shared == nullptr) {
      shared = owner_ != nullptr ? std::shared_ptr<const Tensor>(owner_, &tensor)
                                 : std::make_shared<const Tensor>(tensor);
    }
    const std::string key = scope.is_top() ? name : fresh(scope.prefix() + name);
    result_.values[key] = {tensor.format, tensor.dims, shared};
    scope.define(name, Held::of(key));
  }
  for (const Node& node : graph.nodes) {
    if (result_.nodes.size() > kNodesMax) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("the bodies of loops give more than {} nodes", kNodesMax)};
    }
    if (watch_ != nullptr && scope.is_top()) {
      const auto done = static_cast<std::int64_t>(&node - graph.nodes.data());
      TESSERA_RETURN_IF_ERROR(watch_->at("infer", done, std::ssize(graph.nodes)));
    }
    if (scope.is_top()) place_ = static_cast<std::size_t>(&node - graph.nodes.data());
    const Status status = visit(node, scope);
    if (!status.ok()) {
      return status.error().with_context(fmt::format("node '{}' ({})", node.name, node.op_type));
    }
  }
  return {};
}

std::vector<Held> Walk::operands(const Node& node, const Scope& scope) const {
  std::vector<Held> held;
  for (const std::string& name : node.inputs) {
    held.push_back(name.empty() ? Held::nothing() : scope.find(name));
  }
  return held;
}

Status Walk::visit(const Node& node, Scope& scope) {
  if (!node.domain.empty()) return visit_plain(node, scope);
  if (node.op_type == "If") return visit_if(node, scope);
  if (is_loop_operator(node)) return walk_loop(*this, node, scope);
  if (is_sequence_operator(node, operands(node, scope))) return walk_sequence(*this, node, scope);
  return visit_plain(node, scope);
}

// An operator on tensors. Where its names stand for other values it is copied with theirs.
Status Walk::visit_plain(const Node& node, Scope& scope) {
  const std::vector<Held> held = operands(node, scope);
  bool renamed = !scope.is_top();
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i].is_sequence()) {
      return ops::unsupported(fmt::format("input {} is a sequence, a tensor is needed", i));
    }
    renamed |= held[i].is_tensor() ? held[i].tensors[0] != node.inputs[i] : !node.inputs[i].empty();
  }
  std::shared_ptr<const Node> placed(std::shared_ptr<void>{}, &node);  // the model's own
  if (renamed) {
    auto copy = std::make_shared<Node>(node);
    copy->name = scope.prefix() + node.name;
    for (std::size_t i = 0; i < held.size(); ++i) {
      copy->inputs[i] = held[i].is_tensor() ? held[i].tensors[0] : "";
    }
    for (std::string& output : copy->outputs) {
      if (!output.empty() && !scope.is_top())
        output = fresh(fmt::format("{}{}", scope.prefix(), output));
    }
    placed = copy;
  }
  TESSERA_TRY(ops::Outputs outputs, outputs_of(*placed));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    result_.values[placed->outputs[i]] = std::move(outputs[i]);
    scope.define(node.outputs[i], Held::of(placed->outputs[i]));
  }
  result_.nodes.push_back(placed);
  return {};
}

Result<ops::Outputs> Walk::outputs_of(const Node& node) {
  blocking_.clear();  // no value would help where the operator is refused
  if (ops::draws_at_random(node)) return drawn(node);
  const std::string reason = evaluate_refusal(node, opset_);
  if (!reason.empty()) return ops::unsupported(reason);
  std::vector<ops::Argument> arguments;
  std::vector<std::string> unknown;
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      arguments.push_back({});
      continue;
    }
    const TypedValue& found = value(name);
    arguments.push_back({true, found.format, &found.dims, found.constant.get()});
    if (found.constant == nullptr) unknown.push_back(name);
  }
  // A shape depends on the first operand least often.
  if (unknown.size() > 1 && unknown[0] == node.inputs[0]) {
    std::rotate(unknown.begin(), unknown.begin() + 1, unknown.end());
  }
  blocking_ = unknown;
  if (!unknown.empty()) return ops::apply_shape(node, opset_, std::move(arguments));
  const bool filled = node.op_type == "ConstantOfShape";
  TESSERA_TRY(const bool small, ops::is_foldable(node, opset_, arguments,
                                                 filled ? kFilledBytesMax : kFoldedBytesMax));
  if (!small || folded_bytes_ > kFoldedTotalMax) {
    return ops::apply_shape(node, opset_, std::move(arguments));
  }
  TESSERA_TRY(std::vector<Tensor> tensors, ops::apply_evaluate(node, opset_, std::move(arguments)));
  ops::Outputs outputs;
  for (Tensor& tensor : tensors) {
    folded_bytes_ += static_cast<std::int64_t>(tensor.bytes.size());
    auto shared = std::make_shared<const Tensor>(std::move(tensor));
    outputs.push_back({shared->format, shared->dims, shared});
  }
  return outputs;
}

// One sample is a constant of the network.
Result<ops::Outputs> Walk::drawn(const Node& node) {
  const bool takes_shape = !node.inputs.empty() && !node.inputs[0].empty();
  TESSERA_TRY(Tensor tensor, ops::sample(node, takes_shape ? &value(node.inputs[0]) : nullptr));
  const auto bytes = static_cast<std::int64_t>(tensor.bytes.size());
  if (bytes > kFilledBytesMax || folded_bytes_ + bytes > kFoldedTotalMax) {
    return Error{ErrorCode::kDoesNotFit, fmt::format("a sample of {} bytes", bytes)};
  }
  folded_bytes_ += bytes;
  result_.defaulted.push_back(fmt::format("{} ({}): one sample, drawn by its seed, is a constant",
                                          node.name, node.op_type));
  auto shared = std::make_shared<const Tensor>(std::move(tensor));
  ops::Outputs outputs;
  outputs.push_back({shared->format, shared->dims, shared});
  return outputs;
}

Status Walk::take_iterations(std::int64_t count) {
  if (count <= kIterationsMax - iterations_) {
    iterations_ += count;
    return {};
  }
  return Error{ErrorCode::kDoesNotFit,
               fmt::format("loops and sequences give more than {} iterations", kIterationsMax)};
}

Status Walk::add(Node node) {
  TESSERA_TRY(ops::Outputs outputs, outputs_of(node));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty()) result_.values[node.outputs[i]] = std::move(outputs[i]);
  }
  result_.nodes.push_back(std::make_shared<const Node>(std::move(node)));
  return {};
}

Result<std::string> Walk::emit(const std::string& op_type, const std::vector<std::string>& inputs,
                               Attributes attributes, const std::string& name) {
  const std::string output = fresh(name);
  TESSERA_RETURN_IF_ERROR(add({output, op_type, "", inputs, {output}, std::move(attributes)}));
  return output;
}

std::string Walk::constant(Tensor tensor, const std::string& name) {
  const std::string key = fresh(name);
  auto shared = std::make_shared<const Tensor>(std::move(tensor));
  result_.values[key] = {shared->format, shared->dims, shared};
  return key;
}

void Walk::define(Scope& scope, const std::string& name, Held held) {
  if (scope.is_top() && held.is_tensor() && held.tensors[0] != name) {
    result_.values[name] = TypedValue(value(held.tensors[0]));
  }
  scope.define(name, std::move(held));
}

Status Walk::copy_as(const std::string& value, const std::string& name) {
  return add({name, "Identity", "", {value}, {name}, {}});
}

// --- If ------------------------------------------------------------------------------------------

// The branch's nodes see the values around them; its outputs become the node's.
Result<std::vector<Held>> Walk::branch(const Node& node, const std::string& attribute,
                                       Scope& scope) {
  TESSERA_TRY(const Subgraph* body, body_of(node, attribute));
  Scope inner(&scope, fmt::format("{}{}.{}/", scope.prefix(), node.name, attribute));
  TESSERA_RETURN_IF_ERROR(graph(*body, inner));
  if (body->outputs.size() < node.outputs.size()) {
    return ops::invalid(fmt::format("{} outputs are named, '{}' has {}", node.outputs.size(),
                                    attribute, body->outputs.size()));
  }
  std::vector<Held> held;
  for (const ValueInfo& output : body->outputs) held.push_back(inner.find(output.name));
  return held;
}

Status Walk::visit_if(const Node& node, Scope& scope) {
  if (node.inputs.size() != 1 || node.inputs[0].empty()) return ops::invalid("one input is needed");
  const Held condition = scope.find(node.inputs[0]);
  if (!condition.is_tensor()) return ops::invalid("the condition is not a tensor");
  const TypedValue typed = value(condition.tensors[0]);
  if (typed.format != Format::kBool || element_count(typed.dims) != 1) {
    return ops::invalid("the condition is not one bool");
  }
  if (typed.constant == nullptr) return choose(node, condition.tensors[0], scope);
  const bool taken = ops::Reader<std::int64_t>(*typed.constant)[0] != 0;
  TESSERA_TRY(const std::vector<Held> held,
              branch(node, taken ? "then_branch" : "else_branch", scope));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty()) define(scope, node.outputs[i], held[i]);
  }
  return {};
}

// Both branches run, and the condition picks among their results while the model runs. A branch may be possible for
// those shapes alone that it is taken with: then the condition decides what is compiled.
Status Walk::choose(const Node& node, const std::string& condition, Scope& scope) {
  const auto then_held = branch(node, "then_branch", scope);
  const auto else_held = branch(node, "else_branch", scope);
  if (!then_held.ok() && !else_held.ok()) return then_held.error();
  if (!then_held.ok() || !else_held.ok()) {
    blocking_ = {condition};
    return ops::unsupported(fmt::format(
        "the condition '{}' is not a constant, and {} is not possible with these shapes: {}",
        node.inputs[0], then_held.ok() ? "else_branch" : "then_branch",
        (then_held.ok() ? else_held : then_held).error().message));
  }
  const std::vector<Held>& yes = *then_held;
  const std::vector<Held>& no = *else_held;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const bool tensors = yes[i].is_tensor() && no[i].is_tensor();
    const TypedValue* a = tensors ? &value(yes[i].tensors[0]) : nullptr;
    const TypedValue* b = tensors ? &value(no[i].tensors[0]) : nullptr;
    if (!tensors || a->format != b->format || a->dims != b->dims ||
        a->dims.size() < value(condition).dims.size()) {
      blocking_ = {condition};
      return ops::unsupported(
          fmt::format("the condition '{}' is not a constant, and output {} has another format or "
                      "shape in each branch",
                      node.inputs[0], i));
    }
    const std::string name = scope.prefix() + node.outputs[i];
    const std::string output = scope.is_top() ? name : fresh(name);
    TESSERA_RETURN_IF_ERROR(add({fresh(fmt::format("{}{}.{}", scope.prefix(), node.name, i)),
                                 "Where",
                                 "",
                                 {condition, yes[i].tensors[0], no[i].tensors[0]},
                                 {output},
                                 {}}));
    scope.define(node.outputs[i], Held::of(output));
  }
  return {};
}

}  // namespace tessera::model

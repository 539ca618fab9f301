// Walks the nodes in topological order and gives every value its format, shape and, where it
// follows from constants and shapes, its elements:
//
//   all inputs constant, small result ──► evaluate() ──► a new constant
//   otherwise ──────────────────────────► the operator's shape function
//   If with a constant condition ───────► the nodes of the branch it takes, in its place
#include "model/infer.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <set>
#include <utility>

#include "base/check.h"
#include "model/evaluate.h"
#include "model/ops/apply.h"
#include "model/ops/call.h"
#include "model/ops/elements.h"

namespace tessera::model {

namespace {

// Larger results are not computed ahead of time: they would only make the program larger.
constexpr std::int64_t kFoldedBytesMax = std::int64_t{64} << 20;

// What open dimensions that are no batch are tried at, after the default.
constexpr std::array<std::int64_t, 7> kLongerDimensions = {16, 64, 256, 1024, 4096, 16384, 65536};

// Names of a branch's values -> names that are unique in the model.
using Renames = std::map<std::string, std::string>;

class Inference {
 public:
  // Both outlive the object. `long_dimension` is for open dimensions that are no batch.
  Inference(const Model& model, const InferOptions& options, std::int64_t long_dimension)
      : model_(model), options_(options), long_dimension_(long_dimension) {
    for (const ValueInfo& input : model.graph.inputs) taken_.insert(input.name);
    for (const auto& [name, tensor] : model.graph.initializers) taken_.insert(name);
    for (const Node& node : model.graph.nodes) {
      taken_.insert(node.outputs.begin(), node.outputs.end());
    }
  }

  Result<InferredModel> run() {
    TESSERA_RETURN_IF_ERROR(place_inputs());
    const Status status = infer_values();
    if (status.ok()) return std::move(result_);
    Error error = status.error();
    // The guess may be the reason.
    for (const std::string& guess : result_.defaulted) error.message += "; " + guess;
    return error;
  }

 private:
  Status infer_values() {
    TESSERA_RETURN_IF_ERROR(walk_graph(model_.graph, {}));
    return check_declared(model_.graph.outputs);
  }
  Status place_inputs();
  Result<Shape> input_shape(const ValueInfo& input);
  Status walk_graph(const Subgraph& graph, Renames renames);
  Status walk_branch(const Node& node, const Subgraph& branch, const Renames& renames);
  Status check_declared(const std::vector<ValueInfo>& outputs) const;
  Status visit(const std::shared_ptr<const Node>& shared, const Renames& renames);
  Status visit_if(const Node& node, const Renames& renames);
  // A free name for a value that a branch defines; taken from now on.
  std::string unique_value(const std::string& name);
  std::vector<ops::Argument> arguments_of(const Node& node) const;
  Result<ops::Outputs> outputs_of(const Node& node);
  const TypedValue& value(const std::string& name) const;

  const Model& model_;
  const InferOptions& options_;
  const std::int64_t long_dimension_;
  InferredModel result_;
  std::set<std::string> taken_;              // names of values
  std::vector<std::string> branch_outputs_;  // of the branch walked last
};

// The names that open first dimensions have.
std::set<std::string> batch_names(const Subgraph& graph) {
  std::set<std::string> names;
  for (const ValueInfo& input : graph.inputs) {
    if (!input.dims.empty()) names.insert(input.dims[0].name);
  }
  names.erase("");
  return names;
}

std::int64_t opset_of(const Model& model) {
  const auto found = model.opsets.find("");
  return found == model.opsets.end() ? 1 : found->second;
}

std::string dimension_label(std::size_t axis, const Dimension& dimension) {
  return dimension.name.empty() ? fmt::format("dimension {}", axis)
                                : fmt::format("dimension {} ('{}')", axis, dimension.name);
}

const TypedValue& Inference::value(const std::string& name) const {
  const auto found = result_.values.find(name);
  TESSERA_CHECK(found != result_.values.end(), "value '{}' is used before it is defined", name);
  return found->second;
}

// The shape of a graph input: what the caller says, else the file, else the default.
Result<Shape> Inference::input_shape(const ValueInfo& input) {
  const auto given = options_.shapes.find(input.name);
  if (given != options_.shapes.end()) {
    const Shape& shape = given->second;
    if (input.has_shape && shape.size() != input.dims.size()) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("input '{}': shape {} has rank {}, the model has rank {}", input.name,
                      ops::shape_text(shape), shape.size(), input.dims.size())};
    }
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] < 0) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("input '{}': dimension {} is {}, 0 or more is allowed", input.name,
                                 axis, shape[axis])};
      }
      if (!input.has_shape || input.dims[axis].value < 0) continue;
      if (shape[axis] != input.dims[axis].value) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("input '{}': dimension {} is {}, the model allows only {}",
                                 input.name, axis, shape[axis], input.dims[axis].value)};
      }
    }
    return shape;
  }
  if (!input.has_shape) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("input '{}' has no shape in the model; give one with --shape {}=...",
                             input.name, input.name)};
  }
  Shape shape;
  const std::set<std::string> batches = batch_names(model_.graph);
  for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
    const Dimension& dimension = input.dims[axis];
    const bool batch = axis == 0 || batches.contains(dimension.name);
    const std::int64_t open = batch ? options_.default_dimension : long_dimension_;
    shape.push_back(dimension.value < 0 ? open : dimension.value);
    if (dimension.value < 0) {
      result_.defaulted.push_back(fmt::format("{}: {} taken as {}", input.name,
                                              dimension_label(axis, dimension), shape.back()));
    }
  }
  return shape;
}

Status Inference::place_inputs() {
  for (const ValueInfo& input : model_.graph.inputs) {
    TESSERA_TRY(Shape shape, input_shape(input));
    auto sized = ops::check_size(input.format, shape);
    if (!sized.ok()) return sized.error().with_context(fmt::format("input '{}'", input.name));
    result_.values[input.name] = {input.format, std::move(shape), nullptr};
  }
  for (const auto& [name, shape] : options_.shapes) {
    if (result_.values.contains(name)) continue;
    std::string known;
    for (const ValueInfo& input : model_.graph.inputs) {
      known += (known.empty() ? "'" : ", '") + input.name + "'";
    }
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the model has no input '{}'; it has {}", name, known)};
  }
  return {};
}

Status Inference::walk_graph(const Subgraph& graph, Renames renames) {
  const bool inside = &graph != &model_.graph;
  for (const auto& [name, tensor] : graph.initializers) {
    const std::string unique = inside ? renames[name] = unique_value(name) : name;
    result_.values[unique] = {tensor.format, tensor.dims, std::make_shared<const Tensor>(tensor)};
  }
  for (const Node& node : graph.nodes) {
    if (!inside) {  // the model's own: not copied
      TESSERA_RETURN_IF_ERROR(visit({std::shared_ptr<void>{}, &node}, renames));
      continue;
    }
    auto copy = std::make_shared<Node>(node);
    for (std::string& name : copy->inputs) {
      if (const auto found = renames.find(name); found != renames.end()) name = found->second;
    }
    for (std::string& name : copy->outputs) {
      if (!name.empty()) name = renames[name] = unique_value(name);
    }
    TESSERA_RETURN_IF_ERROR(visit(copy, renames));
  }
  // The node around takes the outputs under their unique names.
  branch_outputs_.clear();
  for (const ValueInfo& output : graph.outputs) {
    const auto found = renames.find(output.name);
    branch_outputs_.push_back(found == renames.end() ? output.name : found->second);
  }
  return {};
}

std::string Inference::unique_value(const std::string& name) {
  std::string unique = name;
  for (int i = 2; !taken_.insert(unique).second; ++i) unique = fmt::format("{}_{}", name, i);
  return unique;
}

std::vector<ops::Argument> Inference::arguments_of(const Node& node) const {
  std::vector<ops::Argument> arguments;
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      arguments.push_back({});
      continue;
    }
    const TypedValue& found = value(name);
    arguments.push_back({true, found.format, &found.dims, found.constant.get()});
  }
  return arguments;
}

Result<ops::Outputs> Inference::outputs_of(const Node& node) {
  const std::int64_t opset = opset_of(model_);
  const std::string reason = evaluate_refusal(node, opset);
  if (!reason.empty()) return ops::unsupported(reason);
  std::vector<ops::Argument> arguments = arguments_of(node);
  bool constant = true;
  for (const ops::Argument& argument : arguments) {
    constant = constant && (!argument.present || argument.constant != nullptr);
  }
  if (!constant) return ops::apply_shape(node, opset, std::move(arguments));
  TESSERA_TRY(const bool small, ops::is_foldable(node, opset, arguments, kFoldedBytesMax));
  if (!small) return ops::apply_shape(node, opset, std::move(arguments));
  TESSERA_TRY(std::vector<Tensor> tensors, ops::apply_evaluate(node, opset, std::move(arguments)));
  ops::Outputs outputs;
  for (Tensor& tensor : tensors) {
    auto shared = std::make_shared<const Tensor>(std::move(tensor));
    outputs.push_back({shared->format, shared->dims, shared});
  }
  return outputs;
}

Status Inference::visit(const std::shared_ptr<const Node>& shared, const Renames& renames) {
  const Node& node = *shared;
  const std::string context = fmt::format("node '{}' ({})", node.name, node.op_type);
  if (node.domain.empty() && node.op_type == "If") {
    auto status = visit_if(node, renames);
    return status.ok() ? status : Status{status.error().with_context(context)};
  }
  result_.nodes.push_back(shared);
  auto outputs = outputs_of(node);
  if (!outputs.ok()) return outputs.error().with_context(context);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty()) {
      result_.values[node.outputs[i]] = std::move(outputs.value()[i]);
    }
  }
  return {};
}

// The branch's nodes see the values around them; its outputs become the node's.
Status Inference::visit_if(const Node& node, const Renames& renames) {
  if (node.inputs.size() != 1 || node.inputs[0].empty()) return ops::invalid("one input is needed");
  const TypedValue& condition = value(node.inputs[0]);
  if (condition.constant == nullptr) {
    return ops::unsupported(fmt::format("the condition '{}' is not a constant", node.inputs[0]));
  }
  if (condition.format != Format::kBool || element_count(condition.dims) != 1) {
    return ops::invalid("the condition is not one bool");
  }
  const bool taken = ops::Reader<std::int64_t>(*condition.constant)[0] != 0;
  const std::string name = taken ? "then_branch" : "else_branch";
  const auto found = node.attributes.find(name);
  const auto* branch = found == node.attributes.end()
                           ? nullptr
                           : std::get_if<std::shared_ptr<const Subgraph>>(&found->second);
  if (branch == nullptr || *branch == nullptr) {
    return ops::invalid(fmt::format("attribute '{}' is missing", name));
  }
  if ((*branch)->outputs.size() < node.outputs.size()) {
    return ops::invalid(fmt::format("{} outputs are named, '{}' has {}", node.outputs.size(), name,
                                    (*branch)->outputs.size()));
  }
  return walk_branch(node, **branch, renames);
}

Status Inference::walk_branch(const Node& node, const Subgraph& branch, const Renames& renames) {
  TESSERA_RETURN_IF_ERROR(walk_graph(branch, renames));
  const std::vector<std::string> taken = branch_outputs_;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Node identity{node.name, "Identity", "", {taken[i]}, {node.outputs[i]}, {}};
    TESSERA_RETURN_IF_ERROR(visit(std::make_shared<const Node>(std::move(identity)), renames));
  }
  return {};
}

// What the file says about an output must be what was found.
Status Inference::check_declared(const std::vector<ValueInfo>& outputs) const {
  for (const ValueInfo& output : outputs) {
    const TypedValue& found = value(output.name);
    if (found.format != output.format) {
      return ops::invalid(fmt::format("output '{}' has format {}, the file declares {}",
                                      output.name, format_name(found.format),
                                      format_name(output.format)));
    }
    if (!output.has_shape) continue;
    bool agrees = found.dims.size() == output.dims.size();
    for (std::size_t axis = 0; agrees && axis < found.dims.size(); ++axis) {
      const std::int64_t declared = output.dims[axis].value;
      agrees = declared < 0 || declared == found.dims[axis];
    }
    if (agrees) continue;
    std::string declared;
    for (const Dimension& dimension : output.dims) {
      if (!declared.empty()) declared += 'x';
      declared += dimension.value < 0 ? "?" : std::to_string(dimension.value);
    }
    return ops::invalid(fmt::format("output '{}' has shape {}, the file declares {}", output.name,
                                    ops::shape_text(found.dims),
                                    declared.empty() ? "scalar" : declared));
  }
  return {};
}

}  // namespace

Result<InferredModel> infer(const Model& model, const InferOptions& options) {
  auto first = Inference(model, options, options.default_dimension).run();
  if (first.ok()) return first;
  const std::set<std::string> batches = batch_names(model.graph);
  bool open = false;  // is there anything to try?
  for (const ValueInfo& input : model.graph.inputs) {
    if (options.shapes.contains(input.name)) continue;
    for (std::size_t axis = 1; axis < input.dims.size(); ++axis) {
      open |= input.dims[axis].value < 0 && !batches.contains(input.dims[axis].name);
    }
  }
  for (const std::int64_t dimension : kLongerDimensions) {
    if (!open) break;
    auto longer = Inference(model, options, dimension).run();
    if (longer.ok()) return longer;
  }
  return first;
}

}  // namespace tessera::model

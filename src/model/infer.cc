// Places the inputs, walks the nodes (infer_walk.h), names the outputs:
//
//   all inputs constant, small result ──► evaluate() ──► a new constant
//   otherwise ──────────────────────────► the operator's shape function
//   control flow, sequences ────────────► the nodes that run
#include "model/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/infer_walk.h"
#include "model/ops/call.h"

namespace tessera::model {

namespace {

// What open dimensions that are no batch are tried at, after the default.
// The second row are sizes that pictures have.
constexpr auto kLongerDimensions = std::to_array<std::int64_t>({
    16,
    64,
    256,
    1024,
    4096,
    16384,
    65536,  //
    32,
    48,
    96,
    128,
    192,
    224,
    320,
    384,
    512,
    640,
});

// What the shapes of inputs say of dimensions that have a name.
std::map<std::string, std::int64_t> named_dimensions(const Subgraph& graph,
                                                     const ShapeOverrides& shapes) {
  std::map<std::string, std::int64_t> named;
  for (const ValueInfo& input : graph.inputs) {
    const auto given = shapes.find(input.name);
    if (given == shapes.end() || given->second.size() != input.dims.size()) continue;
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
      const Dimension& dimension = input.dims[axis];
      if (dimension.value < 0 && !dimension.name.empty()) {
        named.emplace(dimension.name, given->second[axis]);
      }
    }
  }
  return named;
}

// The shapes of what open inputs will be fed are like given ones; what is fixed stays as it is declared.
InferOptions with_open_shapes(const Subgraph& graph, InferOptions options) {
  for (const ValueInfo& input : graph.inputs) {
    if (!options.open_shape || input.kind != ValueKind::kTensor) continue;
    const auto is_open = [](const Dimension& dimension) { return dimension.value < 0; };
    const bool open = !input.has_shape || std::ranges::any_of(input.dims, is_open);
    if (!open || options.shapes.contains(input.name) || options.constants.contains(input.name)) {
      continue;
    }
    std::optional<Shape> shape = options.open_shape(input);
    if (!shape || (input.has_shape && shape->size() != input.dims.size())) continue;
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
      if (input.dims[axis].value >= 0) (*shape)[axis] = input.dims[axis].value;
    }
    options.shapes[input.name] = std::move(*shape);
  }
  return options;
}

// How long open dimensions are that are no batch: those of one input, or of all.
struct Guess {
  std::int64_t length = 1;
  std::string only;  // empty: of all; else the others have the default
};

class Inference {
 public:
  // Both outlive the object. `guess` is for open dimensions that are no batch. `owner`: of
  // the model, whose tensors are then shared.
  Inference(const Model& model, const InferOptions& options, Guess guess,
            std::shared_ptr<const void> owner = nullptr)
      : model_(model),
        options_(options),
        named_(named_dimensions(model.graph, options.shapes)),
        guess_(std::move(guess)),
        scope_(nullptr, ""),
        walk_(model, result_, options.watch, std::move(owner)) {
    for (const auto& [loop, most] : options.iterations_max) walk_.limit_iterations(loop, most);
  }

  Result<InferredModel> run() {
    TESSERA_RETURN_IF_ERROR(place_inputs());
    const Status status = infer_values();
    if (status.ok()) {
      result_.defaulted.insert(result_.defaulted.end(), model_.notes.begin(), model_.notes.end());
      return std::move(result_);
    }
    Error error = status.error();
    if (error.code == ErrorCode::kUnsupported) error.message += way_out();
    error.message += what_was_guessed();  // which may be the reason
    return error;
  }

  // Outputs of another shape than the file declares are noted, and no error.
  void take_any_output() { takes_any_output_ = true; }
  // After a run that failed: whether that was the reason.
  bool differs_from_file() const { return differs_from_file_; }
  // After a run that failed: the inputs behind the operand that was not known.
  std::vector<std::string> inputs_behind_failure() const;
  // Likewise: the node of the model's own graph that failed for want of a value; nothing: for another reason.
  std::optional<std::size_t> node_without_value() const {
    return walk_.blocking().empty() ? std::nullopt : std::optional(walk_.place());
  }

 private:
  Status infer_values() {
    TESSERA_RETURN_IF_ERROR(walk_.graph(model_.graph, scope_));
    for (const ValueInfo& output : model_.graph.outputs) {
      TESSERA_RETURN_IF_ERROR(place_output(output));
    }
    return {};
  }
  Status place_inputs();
  Status place_input(const ValueInfo& input);
  Status place_tensor(const ValueInfo& input, const std::string& name);
  Status place_constant(const ValueInfo& input, const std::shared_ptr<const Tensor>& constant);
  Status check_names() const;
  Result<Shape> input_shape(const ValueInfo& input, const std::string& name);
  Status place_output(const ValueInfo& output);
  Status check_declared(const ValueInfo& output, const TypedValue& found);
  std::vector<std::string> inputs_behind(const std::string& value) const;
  std::string way_out() const;
  std::string what_was_guessed() const;

  const Model& model_;
  const InferOptions& options_;
  const std::map<std::string, std::int64_t> named_;  // dimensions that given shapes settle
  const Guess guess_;
  bool takes_any_output_ = false, differs_from_file_ = false;
  InferredModel result_;
  Scope scope_;
  Walk walk_;
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

std::string dimension_label(std::size_t axis, const Dimension& dimension) {
  return dimension.name.empty() ? fmt::format("dimension {}", axis)
                                : fmt::format("dimension {} ('{}')", axis, dimension.name);
}

// The shape of a graph input: what the caller says, else the file, else the default.
Result<Shape> Inference::input_shape(const ValueInfo& input, const std::string& name) {
  const auto given = options_.shapes.find(name);
  if (given != options_.shapes.end()) {
    const Shape& shape = given->second;
    if (input.has_shape && shape.size() != input.dims.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("input '{}': shape {} has rank {}, the model has rank {}", name,
                               ops::shape_text(shape), shape.size(), input.dims.size())};
    }
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] < 0) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("input '{}': dimension {} is {}, 0 or more is allowed", name, axis,
                                 shape[axis])};
      }
      if (!input.has_shape || input.dims[axis].value < 0) continue;
      if (shape[axis] != input.dims[axis].value) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("input '{}': dimension {} is {}, the model allows only {}", name,
                                 axis, shape[axis], input.dims[axis].value)};
      }
    }
    return shape;
  }
  if (!input.has_shape) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("input '{}' has no shape in the model; give one with --shape {}=...",
                             name, name)};
  }
  Shape shape;
  const std::set<std::string> batches = batch_names(model_.graph);
  for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
    const Dimension& dimension = input.dims[axis];
    const auto named = named_.find(dimension.name);
    if (dimension.value < 0 && named != named_.end()) {
      shape.push_back(named->second);
      continue;
    }
    const bool batch = axis == 0 || batches.contains(dimension.name);
    const bool guessed = !batch && (guess_.only.empty() || guess_.only == name);
    const std::int64_t open = guessed ? guess_.length : options_.default_dimension;
    shape.push_back(dimension.value < 0 ? open : dimension.value);
    if (dimension.value < 0) {
      result_.defaulted.push_back(
          fmt::format("{}: {} taken as {}", name, dimension_label(axis, dimension), shape.back()));
    }
  }
  return shape;
}

Status Inference::place_inputs() {
  for (const ValueInfo& input : model_.graph.inputs) {
    TESSERA_RETURN_IF_ERROR(place_input(input));
  }
  return check_names();
}

// A sequence or an optional is as many tensors as the caller says.
Status Inference::place_input(const ValueInfo& input) {
  const auto constant = options_.constants.find(input.name);
  if (constant != options_.constants.end()) return place_constant(input, constant->second);
  if (input.kind == ValueKind::kTensor) {
    TESSERA_RETURN_IF_ERROR(place_tensor(input, input.name));
    scope_.define(input.name, Held::of(input.name));
    return {};
  }
  const auto length = options_.lengths.find(input.name);
  if (length == options_.lengths.end()) {
    return ops::unsupported(
        fmt::format("input '{}' is {}, and how many tensors it holds is not given", input.name,
                    value_kind_name(input.kind)));
  }
  const bool optional = input.kind == ValueKind::kOptional;
  if (length->second < 0 || (optional && length->second > 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("input '{}': {} tensors", input.name, length->second)};
  }
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < length->second; ++i) {
    names.push_back(fmt::format("{}[{}]", input.name, i));
    TESSERA_RETURN_IF_ERROR(place_tensor(input, names.back()));
  }
  scope_.define(input.name, !optional       ? Held::sequence(names)
                            : names.empty() ? Held::nothing()
                                            : Held::of(names[0]));
  return {};
}

Status Inference::place_tensor(const ValueInfo& input, const std::string& name) {
  TESSERA_TRY(Shape shape, input_shape(input, name));
  auto sized = ops::check_size(input.format, shape);
  if (!sized.ok()) return sized.error().with_context(fmt::format("input '{}'", name));
  result_.values[name] = {input.format, std::move(shape), nullptr};
  result_.inputs.push_back(name);
  return {};
}

Status Inference::place_constant(const ValueInfo& input,
                                 const std::shared_ptr<const Tensor>& constant) {
  TESSERA_CHECK(constant != nullptr, "input '{}' is bound to nothing", input.name);
  bool fits = input.kind == ValueKind::kTensor && constant->format == input.format &&
              (!input.has_shape || constant->dims.size() == input.dims.size());
  for (std::size_t axis = 0; fits && input.has_shape && axis < input.dims.size(); ++axis) {
    fits = input.dims[axis].value < 0 || input.dims[axis].value == constant->dims[axis];
  }
  if (!fits) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("input '{}': a constant of format {} and shape {} is not what the "
                    "model declares",
                    input.name, format_name(constant->format), ops::shape_text(constant->dims))};
  }
  result_.values[input.name] = {constant->format, constant->dims, constant};
  scope_.define(input.name, Held::of(input.name));
  return {};
}

// Every name in the options is one of the model's inputs.
Status Inference::check_names() const {
  std::set<std::string> names;
  for (const ValueInfo& input : model_.graph.inputs) names.insert(input.name);
  names.insert(result_.inputs.begin(), result_.inputs.end());
  std::vector<std::string> given;
  for (const auto& [name, shape] : options_.shapes) given.push_back(name);
  for (const auto& [name, constant] : options_.constants) given.push_back(name);
  for (const auto& [name, length] : options_.lengths) given.push_back(name);
  for (const std::string& name : given) {
    if (names.contains(name)) continue;
    std::string known;
    for (const ValueInfo& input : model_.graph.inputs) {
      known += (known.empty() ? "'" : ", '") + input.name + "'";
    }
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the model has no input '{}'; it has {}", name, known)};
  }
  return {};
}

// An output has the name the model gives it, whatever that stands for.
Status Inference::place_output(const ValueInfo& output) {
  const Held& held = scope_.find(output.name);
  std::vector<std::string> names = {output.name};
  if (!held.is_tensor() || output.kind != ValueKind::kTensor) {
    names.clear();
    for (std::size_t i = 0; i < held.tensors.size(); ++i) {
      names.push_back(fmt::format("{}[{}]", output.name, i));
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (held.tensors[i] != names[i]) {
      TESSERA_RETURN_IF_ERROR(walk_.copy_as(held.tensors[i], names[i]));
    }
    TESSERA_RETURN_IF_ERROR(check_declared(output, result_.values.at(names[i])));
    result_.outputs.push_back(names[i]);
  }
  return {};
}

// What to do where values of inputs decide.
std::string Inference::way_out() const {
  std::string text;
  for (const std::string& name : inputs_behind_failure()) {
    text += fmt::format(
        "; input '{0}' decides it: run the model in parts (tessera run, DynamicSession), or give "
        "its value (--constant {0}=..., or --input {0}=FILE of a few whole numbers)",
        name);
  }
  return text;
}

std::string Inference::what_was_guessed() const {
  constexpr std::size_t kShown = 4;
  std::string text;
  const std::size_t count = result_.defaulted.size();
  for (std::size_t i = 0; i < std::min(count, kShown); ++i) text += "; " + result_.defaulted[i];
  if (count > kShown) text += fmt::format("; and {} more that --shape can give", count - kShown);
  return text;
}

// The inputs a value depends on.
std::vector<std::string> Inference::inputs_behind(const std::string& value) const {
  std::set<std::string> needed = {value};
  for (auto node = result_.nodes.rbegin(); node != result_.nodes.rend(); ++node) {
    for (const std::string& output : (*node)->outputs) {
      if (output.empty() || !needed.contains(output)) continue;
      if (result_.values.at(output).constant != nullptr) continue;
      needed.insert((*node)->inputs.begin(), (*node)->inputs.end());
    }
  }
  std::vector<std::string> inputs;
  for (const ValueInfo& input : model_.graph.inputs) {
    const bool free = input.kind == ValueKind::kTensor && !options_.constants.contains(input.name);
    if (free && needed.contains(input.name)) inputs.push_back(input.name);
  }
  return inputs;
}

std::vector<std::string> Inference::inputs_behind_failure() const {
  for (const std::string& value : walk_.blocking()) {
    std::vector<std::string> inputs = inputs_behind(value);
    if (!inputs.empty()) return inputs;
  }
  return {};
}

// What the file says about an output must be what was found; of a shape, as long as another guess may fit it.
Status Inference::check_declared(const ValueInfo& output, const TypedValue& found) {
  if (output.has_format && found.format != output.format) {
    return ops::invalid(fmt::format("output '{}' has format {}, the file declares {}", output.name,
                                    format_name(found.format), format_name(output.format)));
  }
  if (!output.has_shape) return {};
  bool agrees = found.dims.size() == output.dims.size();
  for (std::size_t axis = 0; agrees && axis < found.dims.size(); ++axis) {
    const std::int64_t declared = output.dims[axis].value;
    agrees = declared < 0 || declared == found.dims[axis];
  }
  if (agrees) return {};
  std::string declared;
  for (const Dimension& dimension : output.dims) {
    if (!declared.empty()) declared += 'x';
    declared += dimension.value < 0 ? "?" : std::to_string(dimension.value);
  }
  std::string differs =
      fmt::format("output '{}' has shape {}, the file declares {}", output.name,
                  ops::shape_text(found.dims), declared.empty() ? "scalar" : declared);
  if (!takes_any_output_) {
    differs_from_file_ = true;
    return ops::invalid(differs);
  }
  result_.defaulted.push_back(std::move(differs));
  return {};
}

}  // namespace

namespace {

// What to try behind the default; nothing where no length is open.
std::vector<Guess> guesses(const Model& model, const InferOptions& options) {
  constexpr std::size_t kAloneMax = 4;  // of several inputs, each may be the one that is long
  const std::set<std::string> batches = batch_names(model.graph);
  std::vector<std::string> open;
  for (const ValueInfo& input : model.graph.inputs) {
    if (options.shapes.contains(input.name) || options.constants.contains(input.name)) continue;
    bool any = false;
    for (std::size_t axis = 1; axis < input.dims.size(); ++axis) {
      any |= input.dims[axis].value < 0 && !batches.contains(input.dims[axis].name);
    }
    if (any) open.push_back(input.name);
  }
  std::vector<Guess> all;
  if (open.empty()) return all;
  for (const std::int64_t length : kLongerDimensions) all.push_back({length, ""});
  if (open.size() == 1 || open.size() > kAloneMax) return all;
  for (const std::int64_t length : kLongerDimensions) {
    for (const std::string& input : open) all.push_back({length, input});
  }
  return all;
}

Result<InferredModel> infer_with(const Model& model, const InferOptions& asked,
                                 const std::shared_ptr<const void>& owner) {
  const InferOptions options = with_open_shapes(model.graph, asked);
  Inference inference(model, options, {options.default_dimension, ""}, owner);
  auto first = inference.run();
  if (first.ok()) return first;
  for (const Guess& guess : guesses(model, options)) {
    auto longer = Inference(model, options, guess, owner).run();
    if (longer.ok()) return longer;
    const bool came_further = first.error().code == ErrorCode::kInvalidModel &&
                              longer.error().code == ErrorCode::kUnsupported;
    if (came_further) first = std::move(longer);
  }
  if (!inference.differs_from_file()) return first;
  // Other runtimes take such a file as well.
  Inference lenient(model, options, {options.default_dimension, ""}, owner);
  lenient.take_any_output();
  return lenient.run();
}

}  // namespace

Result<InferredModel> infer(const Model& model, const InferOptions& options) {
  return infer_with(model, options, nullptr);
}

Result<InferredModel> infer_shared(const std::shared_ptr<const Model>& model,
                                   const InferOptions& options) {
  return infer_with(*model, options, model);
}

namespace {

// What `look` finds in the inference that failed, by the first guess that fails for want of support; nothing where one succeeds.
template <typename Look>
auto of_failure(const Model& model, const InferOptions& asked, const Look& look)
    -> decltype(look(std::declval<const Inference&>())) {
  using Found = decltype(look(std::declval<const Inference&>()));
  const InferOptions options = with_open_shapes(model.graph, asked);
  const auto found = [&](const Guess& guess) -> std::optional<Found> {
    Inference inference(model, options, guess);
    const auto result = inference.run();
    if (result.ok()) return Found{};
    if (result.error().code != ErrorCode::kUnsupported) return std::nullopt;
    return look(inference);
  };
  if (auto first = found({options.default_dimension, ""})) return *std::move(first);
  for (const Guess& guess : guesses(model, options)) {
    if (auto other = found(guess)) return *std::move(other);
  }
  return {};
}

}  // namespace

std::vector<std::string> inputs_that_decide_shapes(const Model& model,
                                                   const InferOptions& options) {
  return of_failure(model, options,
                    [](const Inference& failed) { return failed.inputs_behind_failure(); });
}

std::optional<std::size_t> node_that_data_decides(const Model& model, const InferOptions& options) {
  return of_failure(model, options,
                    [](const Inference& failed) { return failed.node_without_value(); });
}

std::vector<std::string> expanded_operators() {
  std::vector<std::string> names = sequence_operators();
  names.insert(names.end(), {"If", "Loop", "Scan", "SequenceMap"});
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tessera::model

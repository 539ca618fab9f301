// Loop, Scan and SequenceMap: the body once an iteration, each iteration with names of its own.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/infer_walk.h"
#include "model/ops/elements.h"

namespace tessera::model {

namespace {

Tensor bool_scalar(bool value) {
  Tensor tensor = Tensor::zeros(Format::kBool, {});
  tensor.bytes[0] = std::byte{static_cast<std::uint8_t>(value ? 1 : 0)};
  return tensor;
}

}  // namespace

// Names: `node` is Loop, Scan or SequenceMap in `scope`.
class LoopWalk {
 public:
  // All three outlive the object.
  LoopWalk(Walk& walk, const Node& node, Scope& scope) : walk_(walk), node_(node), scope_(scope) {}

  Status run() {
    TESSERA_TRY(body_, body_of(node_, "body"));
    held_ = walk_.operands(node_, scope_);
    if (node_.op_type == "Loop") return loop();
    if (node_.op_type == "SequenceMap") return sequence_map();
    return walk_.opset_ < 9 ? batched_scan() : scan();
  }

 private:
  using Names = std::vector<std::string>;

  // One iteration; `inputs` in the order of the body's.
  Result<std::vector<Held>> iterate(const std::string& label, const std::vector<Held>& inputs);
  Result<Names> tensors(const std::vector<Held>& held) const;
  // Joins tensors along a new axis.
  Result<std::string> stack(const Names& slices, std::int64_t axis, const std::string& name);
  Result<std::string> slice(const std::string& tensor, std::int64_t index, std::int64_t axis);
  Result<std::string> empty_stack(const ValueInfo& output, const std::string& name);
  Status finish(const std::vector<Held>& results);

  Status loop();
  Status check_written_out(std::int64_t iteration);
  Result<std::int64_t> trip_count();
  Result<bool> flag(const Held& held, const std::string& what);
  Status sequence_map();

  struct ScanPlan {
    std::size_t states = 0, scans = 0;  // inputs
    ops::Integers input_axes, input_reversed, output_axes, output_reversed;
  };
  Result<ScanPlan> scan_plan(std::size_t first_input) const;
  ops::Integers list(const std::string& name, std::size_t count) const;
  Result<std::vector<Held>> scan_once(const ScanPlan& plan, const std::vector<Held>& inputs,
                                      const std::string& label);
  Status scan();
  Status batched_scan();

  std::string name(const std::string& what) const {
    return fmt::format("{}{}.{}", scope_.prefix(), node_.name, what);
  }

  Walk& walk_;
  const Node& node_;
  Scope& scope_;
  const Subgraph* body_ = nullptr;
  std::vector<Held> held_;
};

Result<std::vector<Held>> LoopWalk::iterate(const std::string& label,
                                            const std::vector<Held>& inputs) {
  if (inputs.size() != body_->inputs.size()) {
    return ops::invalid(
        fmt::format("the body has {} inputs, {} are given", body_->inputs.size(), inputs.size()));
  }
  TESSERA_RETURN_IF_ERROR(walk_.take_iterations(1));
  Scope inner(&scope_, fmt::format("{}{}#{}/", scope_.prefix(), node_.name, label));
  for (std::size_t i = 0; i < inputs.size(); ++i) inner.define(body_->inputs[i].name, inputs[i]);
  TESSERA_RETURN_IF_ERROR(walk_.graph(*body_, inner));
  std::vector<Held> outputs;
  for (const ValueInfo& output : body_->outputs) outputs.push_back(inner.find(output.name));
  return outputs;
}

Result<LoopWalk::Names> LoopWalk::tensors(const std::vector<Held>& held) const {
  Names names;
  for (const Held& one : held) {
    if (!one.is_tensor()) return ops::unsupported("a sequence, where a tensor is needed");
    names.push_back(one.tensors[0]);
  }
  return names;
}

Result<std::string> LoopWalk::slice(const std::string& tensor, std::int64_t index,
                                    std::int64_t axis) {
  const std::string where = walk_.constant(ops::integer_scalar(index), name("index"));
  return walk_.emit("Gather", {tensor, where}, {{"axis", axis}}, name("slice"));
}

Result<std::string> LoopWalk::stack(const Names& slices, std::int64_t axis,
                                    const std::string& name) {
  Names parts;
  for (const std::string& one : slices) {
    const auto rank = static_cast<std::int64_t>(walk_.value(one).dims.size()) + 1;
    TESSERA_TRY(axis, ops::normalise_axis(axis, rank));
    Names inputs{one};
    Attributes attributes;
    if (walk_.opset_ < 13) {
      attributes["axes"] = ops::Integers{axis};
    } else {
      inputs.push_back(walk_.constant(ops::integer_vector({axis}), name + ".axes"));
    }
    TESSERA_TRY(std::string part, walk_.emit("Unsqueeze", inputs, attributes, name + ".part"));
    parts.push_back(std::move(part));
  }
  return walk_.emit("Concat", parts, {{"axis", axis}}, name);
}

// What a loop that never runs stacks: no slices of the declared shape.
Result<std::string> LoopWalk::empty_stack(const ValueInfo& output, const std::string& name) {
  Shape dims{0};
  for (const Dimension& dimension : output.dims) {
    if (dimension.value < 0) return ops::unsupported("the shape of an empty result is not known");
    dims.push_back(dimension.value);
  }
  if (!output.has_shape || !output.has_format) {
    return ops::unsupported("the shape of an empty result is not known");
  }
  return walk_.constant(Tensor::zeros(output.format, dims), name);
}

Status LoopWalk::finish(const std::vector<Held>& results) {
  if (results.size() < node_.outputs.size()) {
    return ops::invalid(fmt::format("{} outputs are named, the body gives {}", node_.outputs.size(),
                                    results.size()));
  }
  for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
    if (!node_.outputs[i].empty()) walk_.define(scope_, node_.outputs[i], results[i]);
  }
  return {};
}

// --- Loop ----------------------------------------------------------------------------------------

Result<std::int64_t> LoopWalk::trip_count() {
  if (held_.empty() || held_[0].kind == Held::Kind::kNothing) {
    return std::numeric_limits<std::int64_t>::max();
  }
  if (!held_[0].is_tensor()) return ops::invalid("the trip count is not a tensor");
  TESSERA_TRY(const Tensor* count, walk_.known(held_[0].tensors[0], "the trip count"));
  if (!format_is_integer(count->format) || element_count(count->dims) != 1) {
    return ops::invalid("the trip count is not one integer");
  }
  return ops::Reader<std::int64_t>(*count)[0];
}

Result<bool> LoopWalk::flag(const Held& held, const std::string& what) {
  if (!held.is_tensor()) return ops::invalid(what + " is not a tensor");
  TESSERA_TRY(const Tensor* tensor, walk_.known(held.tensors[0], what));
  if (tensor->format != Format::kBool || element_count(tensor->dims) != 1) {
    return ops::invalid(what + " is not one bool");
  }
  return ops::Reader<std::int64_t>(*tensor)[0] != 0;
}

// Whether the loop may be written out in one iteration more than so many.
Status LoopWalk::check_written_out(std::int64_t iteration) {
  const auto limit = walk_.loop_limits_.find(node_.name);
  if (!scope_.is_top() || limit == walk_.loop_limits_.end() || iteration < limit->second) return {};
  walk_.blocking_ = {node_.inputs[0]};
  return ops::unsupported(
      fmt::format("more than {} iterations, which are not written out", limit->second));
}

Status LoopWalk::loop() {
  if (held_.size() < 2 || body_->inputs.size() != held_.size() ||
      body_->outputs.size() + 1 < held_.size()) {
    return ops::invalid("the body's inputs and outputs do not fit the node's");
  }
  TESSERA_TRY(const std::int64_t trips, trip_count());
  // Without a condition what the body says of it has no effect.
  const bool conditional = held_[1].kind != Held::Kind::kNothing;
  bool going = true;
  if (conditional) {
    TESSERA_TRY(going, flag(held_[1], "the condition"));
  } else if (trips == std::numeric_limits<std::int64_t>::max()) {
    return ops::invalid("the loop has neither a trip count nor a condition");
  }
  const std::size_t carried_count = held_.size() - 2;
  std::vector<Held> carried(held_.begin() + 2, held_.end());
  std::vector<Names> stacks(body_->outputs.size() - 1 - carried_count);
  for (std::int64_t i = 0; i < trips && going; ++i) {
    TESSERA_RETURN_IF_ERROR(check_written_out(i));
    std::vector<Held> inputs = {Held::of(walk_.constant(ops::integer_scalar(i), name("iteration"))),
                                Held::of(walk_.constant(bool_scalar(going), name("going")))};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    TESSERA_TRY(const std::vector<Held> outputs, iterate(std::to_string(i), inputs));
    if (conditional) {
      TESSERA_TRY(going, flag(outputs[0], "the condition of the next iteration"));
    }
    carried.assign(outputs.begin() + 1, outputs.begin() + 1 + static_cast<long>(carried_count));
    for (std::size_t k = 0; k < stacks.size(); ++k) {
      TESSERA_TRY(const Names slice, tensors({outputs[1 + carried_count + k]}));
      stacks[k].push_back(slice[0]);
    }
  }
  for (std::size_t k = 0; k < stacks.size(); ++k) {
    const std::string label = name(fmt::format("stack{}", k));
    const ValueInfo& declared = body_->outputs[1 + carried_count + k];
    TESSERA_TRY(std::string stacked,
                stacks[k].empty() ? empty_stack(declared, label) : stack(stacks[k], 0, label));
    carried.push_back(Held::of(std::move(stacked)));
  }
  return finish(carried);
}

// --- Scan ----------------------------------------------------------------------------------------

ops::Integers LoopWalk::list(const std::string& name, std::size_t count) const {
  const auto found = node_.attributes.find(name);
  const auto* values =
      found == node_.attributes.end() ? nullptr : std::get_if<ops::Integers>(&found->second);
  return values != nullptr ? *values : ops::Integers(count, 0);
}

Result<LoopWalk::ScanPlan> LoopWalk::scan_plan(std::size_t first_input) const {
  const auto found = node_.attributes.find("num_scan_inputs");
  const auto* count =
      found == node_.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  const auto inputs = static_cast<std::int64_t>(held_.size() - first_input);
  if (count == nullptr || *count < 1 || *count > inputs) {
    return ops::invalid(fmt::format("attribute 'num_scan_inputs' is not in 1 to {}", inputs));
  }
  ScanPlan plan;
  plan.scans = static_cast<std::size_t>(*count);
  plan.states = static_cast<std::size_t>(inputs - *count);
  if (body_->outputs.size() < plan.states) return ops::invalid("the body has too few outputs");
  const std::size_t outputs = body_->outputs.size() - plan.states;
  plan.input_axes = list("scan_input_axes", plan.scans);
  plan.input_reversed = list(walk_.opset_ < 9 ? "directions" : "scan_input_directions", plan.scans);
  plan.output_axes = list("scan_output_axes", outputs);
  plan.output_reversed = list("scan_output_directions", outputs);
  for (const auto& [values, wanted] :
       {std::pair(&plan.input_axes, plan.scans), std::pair(&plan.input_reversed, plan.scans),
        std::pair(&plan.output_axes, outputs), std::pair(&plan.output_reversed, outputs)}) {
    if (values->size() != wanted) {
      return ops::invalid(
          fmt::format("a list has {} entries, {} are needed", values->size(), wanted));
    }
  }
  return plan;
}

Result<std::vector<Held>> LoopWalk::scan_once(const ScanPlan& plan, const std::vector<Held>& inputs,
                                              const std::string& label) {
  TESSERA_TRY(const Names scans,
              tensors({inputs.begin() + static_cast<long>(plan.states), inputs.end()}));
  std::vector<Held> states(inputs.begin(), inputs.begin() + static_cast<long>(plan.states));
  std::vector<Names> stacks(body_->outputs.size() - plan.states);
  std::int64_t length = -1;
  ops::Integers axes;
  for (std::size_t k = 0; k < scans.size(); ++k) {
    const Shape dims = walk_.value(scans[k]).dims;
    TESSERA_TRY(const std::int64_t axis,
                ops::normalise_axis(plan.input_axes[k], static_cast<std::int64_t>(dims.size())));
    axes.push_back(axis);
    const std::int64_t found = dims[static_cast<std::size_t>(axis)];
    if (length >= 0 && found != length) {
      return ops::invalid(fmt::format("scan inputs have {} and {} slices", length, found));
    }
    length = found;
  }
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<Held> arguments = states;
    for (std::size_t k = 0; k < scans.size(); ++k) {
      const std::int64_t index = plan.input_reversed[k] != 0 ? length - 1 - i : i;
      TESSERA_TRY(std::string part, slice(scans[k], index, axes[k]));
      arguments.push_back(Held::of(std::move(part)));
    }
    TESSERA_TRY(const std::vector<Held> outputs, iterate(fmt::format("{}{}", label, i), arguments));
    states.assign(outputs.begin(), outputs.begin() + static_cast<long>(plan.states));
    for (std::size_t k = 0; k < stacks.size(); ++k) {
      TESSERA_TRY(const Names part, tensors({outputs[plan.states + k]}));
      stacks[k].push_back(part[0]);
    }
  }
  for (std::size_t k = 0; k < stacks.size(); ++k) {
    const std::string where = name(fmt::format("stack{}", k));
    if (plan.output_reversed[k] != 0) std::reverse(stacks[k].begin(), stacks[k].end());
    TESSERA_TRY(std::string stacked, stacks[k].empty()
                                         ? empty_stack(body_->outputs[plan.states + k], where)
                                         : stack(stacks[k], plan.output_axes[k], where));
    states.push_back(Held::of(std::move(stacked)));
  }
  return states;
}

Status LoopWalk::scan() {
  TESSERA_TRY(const ScanPlan plan, scan_plan(0));
  TESSERA_TRY(const std::vector<Held> results, scan_once(plan, held_, ""));
  return finish(results);
}

// Before opset 9 every input has a batch axis in front, and input 0 may say how long each is.
Status LoopWalk::batched_scan() {
  if (held_.size() < 2) return ops::invalid("two inputs are needed");
  if (held_[0].kind != Held::Kind::kNothing) {
    return ops::unsupported("sequence lengths of Scan-8 are not supported");
  }
  TESSERA_TRY(const ScanPlan plan, scan_plan(1));
  TESSERA_TRY(const Names inputs, tensors({held_.begin() + 1, held_.end()}));
  const Shape first = walk_.value(inputs[0]).dims;
  if (first.empty() || first[0] < 1) return ops::invalid("the inputs have no batch axis");
  std::vector<Names> results;
  for (std::int64_t b = 0; b < first[0]; ++b) {
    std::vector<Held> slices;
    for (const std::string& input : inputs) {
      TESSERA_TRY(std::string part, slice(input, b, 0));
      slices.push_back(Held::of(std::move(part)));
    }
    TESSERA_TRY(const std::vector<Held> once, scan_once(plan, slices, fmt::format("{}.", b)));
    TESSERA_TRY(const Names parts, tensors(once));
    results.resize(parts.size());
    for (std::size_t k = 0; k < parts.size(); ++k) results[k].push_back(parts[k]);
  }
  std::vector<Held> stacked;
  for (std::size_t k = 0; k < results.size(); ++k) {
    TESSERA_TRY(std::string one, stack(results[k], 0, name(fmt::format("batch{}", k))));
    stacked.push_back(Held::of(std::move(one)));
  }
  return finish(stacked);
}

// --- SequenceMap ---------------------------------------------------------------------------------

Status LoopWalk::sequence_map() {
  if (held_.empty() || !held_[0].is_sequence()) return ops::invalid("input 0 is not a sequence");
  const std::size_t length = held_[0].tensors.size();
  std::vector<Held> results(body_->outputs.size(), Held::sequence({}));
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<Held> inputs;
    for (const Held& one : held_) {
      if (one.is_sequence() && one.tensors.size() != length) {
        return ops::invalid(
            fmt::format("sequences of {} and {} tensors", length, one.tensors.size()));
      }
      inputs.push_back(one.is_sequence() ? Held::of(one.tensors[i]) : one);
    }
    TESSERA_TRY(const std::vector<Held> outputs, iterate(std::to_string(i), inputs));
    TESSERA_TRY(const Names names, tensors(outputs));
    for (std::size_t k = 0; k < names.size(); ++k) results[k].tensors.push_back(names[k]);
  }
  return finish(results);
}

bool is_loop_operator(const Node& node) {
  return node.domain.empty() &&
         (node.op_type == "Loop" || node.op_type == "Scan" || node.op_type == "SequenceMap");
}

Status walk_loop(Walk& walk, const Node& node, Scope& scope) {
  return LoopWalk(walk, node, scope).run();
}

}  // namespace tessera::model

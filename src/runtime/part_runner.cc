#include "runtime/part_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "model/evaluate.h"
#include "model/piece.h"

namespace tessera::runtime {
namespace {

using Place = DynamicNetworkState::Place;

// A loop without a trip count, whose condition stays true.
constexpr std::int64_t kIterationsMax = 1'000'000;

Error unsupported(std::string what) { return {ErrorCode::kUnsupported, std::move(what)}; }

std::string named(const model::Node& node) {
  return fmt::format("node '{}' ({})", node.name, node.op_type);
}

const model::Subgraph* graph_in(const model::Node& node, const std::string& attribute) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end()) return nullptr;
  const auto* graph = std::get_if<std::shared_ptr<const model::Subgraph>>(&found->second);
  return graph == nullptr ? nullptr : graph->get();
}

// Slices along a new first axis.
Result<Tensor> stacked(const std::vector<Tensor>& slices, const model::ValueInfo& declared) {
  if (slices.empty()) {
    if (!declared.has_shape || !declared.has_format) {
      return unsupported(
          fmt::format("output '{}' of the body is stacked, the body never runs, and the model "
                      "declares no shape of it",
                      declared.name));
    }
    Shape dims = {0};
    for (const model::Dimension& dim : declared.dims)
      dims.push_back(std::max<std::int64_t>(dim.value, 0));
    return Tensor::zeros(declared.format, dims);
  }
  Shape dims = slices[0].dims;
  dims.insert(dims.begin(), std::ssize(slices));
  Tensor whole{slices[0].format, std::move(dims), {}};
  for (const Tensor& slice : slices) {
    if (slice.dims != slices[0].dims) {
      return unsupported(fmt::format("output '{}' of the body has another shape in each iteration",
                                     declared.name));
    }
    whole.bytes.insert(whole.bytes.end(), slice.bytes.begin(), slice.bytes.end());
  }
  return whole;
}

}  // namespace

Tensor trip_value(Format format, std::int64_t value, const model::ValueInfo& declared) {
  Tensor tensor =
      Tensor::zeros(format, declared.has_shape ? Shape(declared.dims.size(), 1) : Shape{});
  if (format == Format::kBool) {
    tensor.bytes[0] = std::byte{static_cast<std::uint8_t>(value)};
  } else {
    tensor.as<std::int64_t>()[0] = value;
  }
  return tensor;
}

void PartRunner::begin(const std::vector<Tensor>& inputs) {
  values_.clear();
  total_ = {};
  placements_.clear();
  placement_ = {};
  networks_.clear();
  for (const auto& [name, tensor] : state().options.load.constants) values_[name] = tensor;
  for (std::size_t i = 0; i < inputs.size(); ++i) values_[state().inputs[i].name] = inputs[i];
}

Result<const Tensor*> PartRunner::value(const std::string& name) const {
  const auto constant = state().model.graph.initializers.find(name);
  if (constant != state().model.graph.initializers.end()) return &constant->second;
  const auto found = values_.find(name);
  if (found != values_.end()) return &found->second;
  return unsupported(
      fmt::format("value '{}' goes from one part to another, and is no tensor", name));
}

Format PartRunner::format_of(const std::string& name) const {
  const auto found = value(name);
  return found.ok() ? (*found)->format : Format::kF32;  // the piece is refused where it reads it
}

Result<bool> PartRunner::truth(const std::string& name) const {
  TESSERA_TRY(const Tensor* const tensor, value(name));
  if (tensor->format == Format::kBool && tensor->bytes.size() == 1) {
    return tensor->bytes[0] != std::byte{0};
  }
  return Error{ErrorCode::kInvalidModel, fmt::format("the condition '{}' is not one bool", name)};
}

Result<DynamicSession*> PartRunner::session_of(const std::string& name, Place place,
                                               const std::function<model::Model()>& make) {
  const auto found = sessions_.find(name);
  if (found != sessions_.end()) return &found->second;
  TESSERA_TRY(DynamicNetwork piece, network_.state().piece(name, place, make));
  TESSERA_TRY(DynamicSession session,
              DynamicSession::open(std::move(piece), options_, sessions_max_));
  return &sessions_.emplace(name, std::move(session)).first->second;
}

Result<std::vector<Tensor>> PartRunner::run_piece(DynamicSession& session, const Values& own,
                                                  std::size_t outputs) {
  std::vector<Tensor> inputs;
  for (const DeclaredShape& input : session.dynamic_network().inputs()) {
    const auto given = own.find(input.name);
    if (given != own.end()) {
      inputs.push_back(given->second);
      continue;
    }
    TESSERA_TRY(const Tensor* const around, value(input.name));
    inputs.push_back(*around);
  }
  TESSERA_TRY(RunResult run, session.run(inputs));
  if (run.outputs.size() != outputs) {
    return unsupported(
        fmt::format("{} values go on from a part, as {} tensors: one of them is a sequence",
                    outputs, run.outputs.size()));
  }
  std::vector<Tensor> results = std::move(run.outputs);
  add(run);
  count(session.networks());
  return results;
}

void PartRunner::count(const std::vector<NetworkRuns>& ran) {
  for (const NetworkRuns& one : ran) {
    const auto found = std::ranges::find_if(networks_, [&one](const NetworkRuns& other) {
      return other.network.share() == one.network.share();
    });
    if (found == networks_.end()) {
      networks_.push_back(one);
    } else {
      found->runs += one.runs;
    }
  }
}

void PartRunner::add(const RunResult& run) {
  const std::int64_t before = total_.cycles;
  total_.cycles += run.cycles;
  total_.host_cycles += run.host_cycles;
  total_.transfer_cycles += run.transfer_cycles;
  total_.clock_hertz = std::max(total_.clock_hertz, run.clock_hertz);
  total_.status_flags |= run.status_flags;
  total_.value_notes.insert(total_.value_notes.end(), run.value_notes.begin(),
                            run.value_notes.end());
  for (LayerUse layer : run.layers) {
    layer.begin += before;
    layer.end += before;
    total_.layers.push_back(std::move(layer));
  }
  for (TimelineEvent event : run.timeline) {
    event.begin += before;
    event.end += before;
    total_.timeline.push_back(std::move(event));
  }
}

Status PartRunner::define(const model::Node& node, std::vector<Tensor> outputs) {
  if (outputs.size() < node.outputs.size()) {
    return Error{ErrorCode::kInvalidModel, fmt::format("{} outputs are named, {} are made",
                                                       node.outputs.size(), outputs.size())};
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty()) values_[node.outputs[i]] = std::move(outputs[i]);
  }
  return {};
}

Status PartRunner::run_nodes(std::size_t begin, std::size_t end, Place place) {
  if (begin == end) return {};
  const std::string name = fmt::format("nodes {} to {}", begin, end);
  const model::Model& model = state().model;
  TESSERA_TRY(DynamicSession* const session, session_of(name, place, [&] {
                return model::piece_of(model, begin, end,
                                       [this](const std::string& read) { return format_of(read); });
              }));
  const model::Subgraph& piece = session->dynamic_network().state().model.graph;
  TESSERA_TRY(std::vector<Tensor> outputs, run_piece(*session, {}, piece.outputs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    values_[piece.outputs[i].name] = std::move(outputs[i]);
  }
  placements_[name] = session->placement();
  return {};
}

Status PartRunner::run_if(const model::Node& node) {
  TESSERA_TRY(const bool taken, truth(node.inputs.at(0)));
  const std::string attribute = taken ? "then_branch" : "else_branch";
  const model::Subgraph* const body = graph_in(node, attribute);
  if (body == nullptr) {
    return Error{ErrorCode::kInvalidModel, fmt::format("attribute '{}' is missing", attribute)};
  }
  const std::string name = fmt::format("{} of {}", attribute, node.name);
  TESSERA_TRY(DynamicSession* const session, session_of(name, Place::kByDefinition, [&] {
                return model::body_piece(state().model, *body, [this](const std::string& read) {
                  return format_of(read);
                });
              }));
  TESSERA_TRY(std::vector<Tensor> outputs, run_piece(*session, {}, body->outputs.size()));
  placements_[name] = session->placement();
  return define(node, std::move(outputs));
}

Result<PartRunner::Loop> PartRunner::loop_of(const model::Node& node) const {
  Loop loop;
  loop.body = graph_in(node, "body");
  const std::size_t carried = node.inputs.size() - std::min<std::size_t>(2, node.inputs.size());
  if (loop.body == nullptr || node.inputs.size() < 2 || loop.body->inputs.size() != 2 + carried ||
      loop.body->outputs.size() < 1 + carried) {
    return Error{ErrorCode::kInvalidModel, "its inputs and those of its body do not go together"};
  }
  if (!node.inputs[0].empty()) {
    TESSERA_TRY(const Tensor* const count, value(node.inputs[0]));
    if (count->format != Format::kI64 || element_count(count->dims) != 1) {
      return Error{ErrorCode::kInvalidModel, "the trip count is not one int64"};
    }
    loop.trips = count->as<std::int64_t>()[0];
  }
  loop.conditional = !node.inputs[1].empty();
  if (loop.conditional) {
    TESSERA_TRY(loop.going, truth(node.inputs[1]));
  }
  for (std::size_t i = 0; i < carried; ++i) {
    TESSERA_TRY(const Tensor* const first, value(node.inputs[2 + i]));
    loop.carried.push_back(*first);
  }
  loop.slices.resize(loop.body->outputs.size() - 1 - carried);
  return loop;
}

// The formats of the body's own inputs are those of what goes in.
model::Model PartRunner::body_of(const Loop& loop) const {
  return model::body_piece(state().model, *loop.body, [&](const std::string& read) {
    const auto own = std::ranges::find(loop.body->inputs, read, &model::ValueInfo::name);
    if (own == loop.body->inputs.end()) return format_of(read);
    const auto place = static_cast<std::size_t>(own - loop.body->inputs.begin());
    return place == 0 ? Format::kI64 : place == 1 ? Format::kBool : loop.carried[place - 2].format;
  });
}

Status PartRunner::iterate(DynamicSession& session, std::int64_t iteration, Loop& loop) {
  const std::vector<model::ValueInfo>& inputs = loop.body->inputs;
  Values own;
  own[inputs[0].name] = trip_value(Format::kI64, iteration, inputs[0]);
  own[inputs[1].name] = trip_value(Format::kBool, 1, inputs[1]);
  for (std::size_t i = 0; i < loop.carried.size(); ++i) {
    own[inputs[2 + i].name] = std::move(loop.carried[i]);
  }
  TESSERA_TRY(std::vector<Tensor> outputs, run_piece(session, own, loop.body->outputs.size()));
  return take_results(std::move(outputs), loop);
}

// All outputs of the body; those that stay on the device are empty.
Status PartRunner::take_results(std::vector<Tensor> outputs, Loop& loop) const {
  if (loop.conditional) {
    if (outputs[0].format != Format::kBool || outputs[0].bytes.size() != 1) {
      return Error{ErrorCode::kInvalidModel, "the condition of the next iteration is not one bool"};
    }
    loop.going = outputs[0].bytes[0] != std::byte{0};
  }
  for (std::size_t i = 0; i < loop.carried.size(); ++i) {
    loop.carried[i] = std::move(outputs[1 + i]);
  }
  for (std::size_t k = 0; k < loop.slices.size(); ++k) {
    loop.slices[k].push_back(std::move(outputs[1 + loop.carried.size() + k]));
  }
  return {};
}

Status PartRunner::run_trips(DynamicSession& session, const std::string& name, Loop& loop) {
  std::int64_t iteration = 0;
  for (; loop.going && iteration < loop.trips.value_or(INT64_MAX); ++iteration) {
    if (iteration == kIterationsMax) {
      return unsupported(fmt::format("more than {} iterations", kIterationsMax));
    }
    if (iteration == 1) keep_on_device(session, name, loop);
    const Status status = loop.on_device != nullptr ? iterate_on_device(iteration, loop)
                                                    : iterate(session, iteration, loop);
    if (!status.ok()) return status.error().with_context(fmt::format("iteration {}", iteration));
  }
  if (iteration > 0) placements_[name] = session.placement();
  return {};
}

// Iteration by iteration; carried values go from the results of one to the inputs of the next.
Status PartRunner::run_loop(const model::Node& node) {
  TESSERA_TRY(Loop loop, loop_of(node));
  if (!loop.trips && !loop.conditional) {
    return Error{ErrorCode::kInvalidModel, "the loop has neither a trip count nor a condition"};
  }
  const std::string name = "body of " + node.name;
  TESSERA_TRY(DynamicSession* const session,
              session_of(name, Place::kByDefinition, [&] { return body_of(loop); }));
  const Status ran = run_trips(*session, name, loop);
  const Status taken = take_from_device(loop);
  TESSERA_RETURN_IF_ERROR(ran);
  TESSERA_RETURN_IF_ERROR(taken);
  std::vector<Tensor> results = std::move(loop.carried);
  const std::size_t carried = results.size();
  for (std::size_t k = 0; k < loop.slices.size(); ++k) {
    TESSERA_TRY(Tensor whole, stacked(loop.slices[k], loop.body->outputs[1 + carried + k]));
    results.push_back(std::move(whole));
  }
  return define(node, std::move(results));
}

Status PartRunner::evaluate(const model::Node& node, const std::string& reason) {
  std::vector<const Tensor*> inputs;
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    TESSERA_TRY(const Tensor* const tensor, value(name));
    inputs.push_back(tensor);
  }
  const auto opset = state().model.opsets.find("");
  TESSERA_TRY(
      std::vector<Tensor> outputs,
      model::evaluate(node, opset == state().model.opsets.end() ? 1 : opset->second, inputs));
  ++placement_.nodes_on_host;
  placement_.host_steps.push_back({node.name, node.op_type, reason});
  return define(node, std::move(outputs));
}

Status PartRunner::run_node(const model::Node& node, const std::string& reason) {
  const bool is_loop = node.domain.empty() && node.op_type == "Loop";
  if (!is_loop && (!node.domain.empty() || node.op_type != "If")) return evaluate(node, reason);
  const Status status = is_loop ? run_loop(node) : run_if(node);
  if (status.ok()) return {};
  return status.error().with_context(named(node));
}

Result<RunResult> PartRunner::finish() {
  for (const auto& [name, placement] : placements_) {
    placement_.nodes_on_processor += placement.nodes_on_processor;
    placement_.nodes_on_host += placement.nodes_on_host;
    placement_.host_steps.insert(placement_.host_steps.end(), placement.host_steps.begin(),
                                 placement.host_steps.end());
    placement_.notes.insert(placement_.notes.end(), placement.notes.begin(), placement.notes.end());
  }
  for (const model::ValueInfo& output : state().model.graph.outputs) {
    TESSERA_TRY(const Tensor* const tensor, value(output.name));
    total_.outputs.push_back(*tensor);
  }
  values_.clear();
  return std::move(total_);
}

Result<RunResult> PartRunner::run(const DynamicNetworkState::Stop& stop,
                                  const std::vector<Tensor>& inputs) {
  begin(inputs);
  const std::vector<model::Node>& nodes = state().model.graph.nodes;
  const model::Node& between = nodes[stop.node];
  TESSERA_RETURN_IF_ERROR(run_nodes(0, stop.node, Place::kNetwork));
  const Status status = run_node(between, "its values decide the shapes of what is behind it");
  if (!status.ok()) {
    Error error = status.error();
    error.message = fmt::format("{}; run in parts, since {}", error.message, stop.reason.message);
    return error;
  }
  placement_.notes.push_back(fmt::format("in parts: {} is computed between them", named(between)));
  TESSERA_RETURN_IF_ERROR(run_nodes(stop.node + 1, nodes.size(), Place::kByDefinition));
  return finish();
}

Result<RunResult> PartRunner::run_by_definition(const std::vector<Tensor>& inputs) {
  begin(inputs);
  for (const model::Node& node : state().model.graph.nodes) {
    TESSERA_RETURN_IF_ERROR(
        run_node(node, "it lies behind a node that data decides, in a part without products"));
  }
  return finish();
}

}  // namespace tessera::runtime

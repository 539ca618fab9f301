#include "graph/lower.h"

#include <fmt/format.h>

#include <iterator>
#include <set>

#include "graph/lowering.h"
#include "graph/supported.h"
#include "model/evaluate.h"

namespace tessera::graph {

namespace {

// The values that outputs of the graph need, backwards through nodes; what is known at compile
// time needs nothing.
std::set<std::string> needed_values(const model::InferredModel& model, const Lowering& lowering) {
  std::set<std::string> needed(model.outputs.begin(), model.outputs.end());
  for (auto entry = model.nodes.rbegin(); entry != model.nodes.rend(); ++entry) {
    const model::Node* node = entry->get();
    bool wanted = false;
    for (const std::string& output : node->outputs) {
      wanted |= !output.empty() && needed.count(output) != 0 && lowering.known(output) == nullptr;
    }
    if (wanted) needed.insert(node->inputs.begin(), node->inputs.end());
  }
  return needed;
}

// A node must be lowered if an output is needed and not known at compile time.
bool must_lower(const model::Node& node, const Lowering& lowering,
                const std::set<std::string>& needed) {
  for (const std::string& output : node.outputs) {
    if (output.empty() || needed.count(output) == 0) continue;
    if (lowering.known(output) == nullptr) return true;
  }
  return false;
}

// Why the node's outputs keep it from the processor; "" if they do not. Lowering writes the first
// output of every operator but the recurrent ones, and all of DynamicQuantizeLinear.
std::string absent_output(const model::Node& node) {
  const bool recurrent = node.op_type == "LSTM" || node.op_type == "GRU" || node.op_type == "RNN";
  const std::size_t written = recurrent ? 0 : node.op_type == "DynamicQuantizeLinear" ? 3 : 1;
  for (std::size_t i = 0; i < written; ++i) {
    if (i < node.outputs.size() && !node.outputs[i].empty()) continue;
    return fmt::format("operator '{}': output {} is absent", node.op_type, i);
  }
  return "";
}

Status lower_node(Lowering& lowering, const model::Node& node, const BuildOptions& options) {
  Op op{lowering, node, lowering.opset(node.domain)};
  std::string reason;
  if (const SupportedOperator* row = find_supported(node.domain, node.op_type, op.opset)) {
    reason = absent_output(node);
    if (reason.empty()) reason = row->lower(op).host_reason;
    if (reason.empty()) return {};
  } else {
    reason = fmt::format("operator '{}': not among the processor's operators at opset {}",
                         node.op_type, op.opset);
  }
  if (const std::string refusal = model::evaluate_refusal(node, op.opset); !refusal.empty()) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("node '{}' ({}): {}", node.name, node.op_type, refusal)};
  }
  if (options.require_full_offload) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("node '{}' ({}): would run on the host ({}), and full offload is "
                             "required",
                             node.name, node.op_type, reason)};
  }
  lowering.emit_host_step(op, reason);
  return {};
}

}  // namespace

Result<Graph> lower(const model::Model& model, const model::InferredModel& inferred,
                    const BuildOptions& options) {
  Lowering lowering(model, inferred, options);
  const std::set<std::string> needed = needed_values(inferred, lowering);
  for (const std::string& input : inferred.inputs) lowering.add_input(input);
  std::int64_t done = 0;
  for (const auto& node : inferred.nodes) {
    TESSERA_RETURN_IF_ERROR(watched(options.watch, "lower", done++, std::ssize(inferred.nodes)));
    if (lowering.is_claimed(*node) || !must_lower(*node, lowering, needed)) continue;
    TESSERA_RETURN_IF_ERROR(lower_node(lowering, *node, options));
  }
  lowering.finish_outputs(inferred.outputs);
  Graph graph = lowering.take();
  tidy(graph);
  return graph;
}

}  // namespace tessera::graph

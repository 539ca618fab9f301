#include "graph/refusals.h"

#include <fmt/format.h>

namespace tessera::graph {

std::string operand_refusal(const Op& op) {
  if (op.has_input(0) && element_count(op.input_dims(0)) == 0) {
    return fmt::format("operator '{}': a tensor without elements", op.node.op_type);
  }
  return "";
}

std::string float_refusal(const Op& op) {
  const auto refusal = [&](const std::string& name) -> std::string {
    const Format format = op.at.type(name).format;
    if (is_vector_float(format)) return "";
    return fmt::format("operator '{}': no vector arithmetic in {}", op.node.op_type,
                       format_name(format));
  };
  if (std::string reason = operand_refusal(op); !reason.empty()) return reason;
  for (std::size_t i = 0; i < op.node.inputs.size(); ++i) {
    if (!op.has_input(i)) continue;
    if (std::string reason = refusal(op.input(i)); !reason.empty()) return reason;
  }
  return op.has_output(0) ? refusal(op.output(0)) : "";
}

}  // namespace tessera::graph

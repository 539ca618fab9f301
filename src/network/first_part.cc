#include "network/first_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/infer.h"
#include "model/piece.h"
#include "network/network.h"

namespace tessera::network {

Result<std::optional<FirstPart>> first_part(const model::Model& model, const LoadOptions& load) {
  const auto stop = model::node_that_data_decides(model, infer_options(load));
  if (!stop) return std::optional<FirstPart>();
  const std::vector<model::Node>& nodes = model.graph.nodes;
  std::string decided = fmt::format("node '{}' ({})", nodes[*stop].name, nodes[*stop].op_type);
  if (*stop == 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the model runs in parts, and no node lies before {}, which data "
                             "decides",
                             decided)};
  }
  const std::vector<model::ValueInfo>& inputs = model.graph.inputs;
  FirstPart part{.model = model::piece_of(
                     model, 0, *stop,
                     [&inputs](const std::string& name) {
                       const auto input = std::ranges::find(inputs, name, &model::ValueInfo::name);
                       return input == inputs.end() ? Format::kF32 : input->format;
                     }),
                 .decided = std::move(decided)};
  part.model.graph.inputs = inputs;
  return std::optional(std::move(part));
}

}  // namespace tessera::network

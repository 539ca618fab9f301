// Of a model that data takes apart (dynamic_state.h), the nodes before the first one that data decides, as a model of its own.
// It takes all inputs of the model, and is one network.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "model/model.h"
#include "tessera/network.h"

namespace tessera::network {

struct FirstPart {
  model::Model model;
  std::string decided;  // the node behind it, as "node 'NAME' (OPERATOR)"
};

// Nothing of a model that is one network. kUnsupported where no node lies before the one that data decides.
Result<std::optional<FirstPart>> first_part(const model::Model& model, const LoadOptions& load);

}  // namespace tessera::network

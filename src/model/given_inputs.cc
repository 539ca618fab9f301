#include "model/given_inputs.h"

namespace tessera::model {

void give_inputs(Model& model, const std::set<std::string>& names) {
  std::erase_if(model.graph.defaulted_inputs, [&](const ValueInfo& input) {
    if (!names.contains(input.name)) return false;
    model.graph.initializers.erase(input.name);
    model.graph.inputs.push_back(input);
    return true;
  });
}

}  // namespace tessera::model

#include "concord/fold/join.h"

#include <utility>

namespace tessera::concord {

Software joined(const std::vector<const Software*>& programs) {
  Software whole;
  whole.name = "joined";
  for (const Software* one : programs) {
    const auto first = static_cast<std::int32_t>(whole.values.size());
    const auto layer = static_cast<std::int32_t>(whole.layers.size());
    const std::string prefix = "p" + std::to_string(first) + ".";
    const auto moved = [&](ValueId id) { return ValueId{id.value + first}; };
    for (Value value : one->values) {
      value.name = prefix + value.name;
      whole.values.push_back(std::move(value));
    }
    for (Operation operation : one->operations) {
      for (ValueId& id : operation.inputs) id = moved(id);
      for (ValueId& id : operation.outputs) id = moved(id);
      if (operation.layer >= 0) operation.layer += layer;
      whole.operations.push_back(std::move(operation));
    }
    for (Layer one_layer : one->layers) {
      one_layer.result = moved(one_layer.result);
      whole.layers.push_back(std::move(one_layer));
    }
    for (const Port& port : one->inputs) {
      whole.inputs.push_back({moved(port.value), prefix + port.name});
    }
    for (const Port& port : one->outputs) {
      whole.outputs.push_back({moved(port.value), prefix + port.name});
    }
  }
  return whole;
}

}  // namespace tessera::concord

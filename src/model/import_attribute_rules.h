// What is known about the attributes of the common operators of ai.onnx: type and range. A wrong
// one is found when the model is read, not when a layer computes nonsense from it.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "model/model.h"

namespace tessera::model {

// Looks at nodes of domain "" only. Messages begin with "attribute 'pads'" and leave the node to
// the caller. Attributes that no rule knows are let through; the operator's implementation decides.
Status check_attributes(const Node& node);

// "a list of integers", for messages.
std::string attribute_kind_name(const AttributeValue& value);

}  // namespace tessera::model

// Inputs that have a default: the initializer of their name. Before version 4 of the format every initializer was an input.
#pragma once

#include <set>
#include <string>

#include "model/model.h"

namespace tessera::model {

// Those of `names` are inputs from now on, behind the others; names of anything else are passed over.
void give_inputs(Model& model, const std::set<std::string>& names);

}  // namespace tessera::model

// A model whose values all have formats and shapes of plain numbers (model/infer.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"

namespace tessera::model {

// Refers to the model it was made from, which must outlive it.
struct InferredModel {
  std::map<std::string, TypedValue> values;  // every input, initializer and node output
  // The nodes that run, in order, with control flow and sequences taken apart (infer_walk.h); their
  // values have names that are unique in the whole model. Some belong to the model, which outlives
  // this.
  std::vector<std::shared_ptr<const Node>> nodes;
  std::vector<std::string> inputs;   // tensors the caller supplies
  std::vector<std::string> outputs;  // tensors the caller gets
  // To be printed: "x: dimension 2 ('height') taken as 1"; outputs that the file declares otherwise.
  std::vector<std::string> defaulted;
};

}  // namespace tessera::model

// Shape inference with constant dimensions: every value of the model gets a format and a shape of
// plain numbers, and what can be computed from shapes and constants alone is computed here.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "model/model.h"

namespace tessera::model {

using ShapeOverrides = std::map<std::string, Shape>;  // --shape NAME=1x3x48x320

struct InferOptions {
  ShapeOverrides shapes;               // for graph inputs; wins over the file, must agree with it
  std::int64_t default_dimension = 1;  // for a dimension that stays open
};

struct InferredModel {
  std::map<std::string, TypedValue> values;  // every input, initializer and node output
  std::vector<std::string> defaulted;  // "x: dimension 2 ('height') taken as 1", to be printed
};

// An error names node, operator and reason (for example an input shape an operator cannot take).
Result<InferredModel> infer(const Model& model, const InferOptions& options);

}  // namespace tessera::model

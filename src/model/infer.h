// Shape inference with constant dimensions: every value of the model gets a format and a shape of
// plain numbers, and what can be computed from shapes and constants alone is computed here.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

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
  // The nodes that run, in order: those of the branch that an If takes stand in its place, their
  // values under names that are unique in the whole model. They belong to the model, which outlives
  // this.
  std::vector<std::shared_ptr<const Node>> nodes;
  std::vector<std::string> defaulted;  // "x: dimension 2 ('height') taken as 1", to be printed
};

// An open dimension that no option settles is taken as the default. Where the model has no meaning
// at that size (a window that does not fit), the open dimensions that are no batch (not the first
// of an input, nor named like one) are tried at 16, 64, 256 ... 65536.
// An error names node, operator and reason (for example an input shape an operator cannot take).
Result<InferredModel> infer(const Model& model, const InferOptions& options);

}  // namespace tessera::model

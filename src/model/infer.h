// Shape inference with constant dimensions: every value of the model gets a format and a shape of
// plain numbers, what can be computed from shapes and constants alone is computed here, and control
// flow is replaced by the nodes that run (see infer_walk.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/watch.h"
#include "model/inferred_model.h"
#include "model/model.h"

namespace tessera::model {

using ShapeOverrides = std::map<std::string, Shape>;  // --shape NAME=1x3x48x320

struct InferOptions {
  ShapeOverrides shapes;               // for graph inputs; wins over the file, must agree with it
  std::int64_t default_dimension = 1;  // for a dimension that stays open
  // Graph inputs whose value is known at compile time. They are inputs no longer.
  std::map<std::string, std::shared_ptr<const Tensor>> constants = {};
  // How many tensors a graph input of type sequence holds, 0 or 1 for an optional. Its tensors are
  // inputs "NAME[0]", "NAME[1]", ..., and take their shapes from `shapes` by these names.
  std::map<std::string, std::int64_t> lengths = {};
  // Asked once of each tensor input with open dimensions that is not in `shapes`: the shape of what it will be fed,
  // from which the open ones are taken if it has as many dimensions.
  std::function<std::optional<Shape>(const ValueInfo&)> open_shape = {};
  Watch* watch = nullptr;  // null: none; it outlives infer()
  // By the name of a Loop of the model's own graph: how many iterations it may be written out in; more are refused as a trip
  // count that is not known is. Others have the limit of all models.
  std::map<std::string, std::int64_t> iterations_max = {};
};

// An open dimension that no option settles is what another input has for the same name, or else the default. Where the model has no meaning
// at that size (a window that does not fit), the open dimensions that are no batch (not the first
// of an input, nor named like one) are tried at 16, 64, 256 ... 65536, then at sizes that pictures have, from 32 to 640.
// An output of another shape than the file declares is noted where no guess gives the declared one.
// An error names node, operator and reason (for example an input shape an operator cannot take).
Result<InferredModel> infer(const Model& model, const InferOptions& options);
// The same without copies of the model's tensors: constants of the result that are such keep all of the
// model alive.
Result<InferredModel> infer_shared(const std::shared_ptr<const Model>& model,
                                   const InferOptions& options);

// Of the inputs that are not in options.constants, those on which a shape depends so that infer()
// fails; with them known it may succeed or fail for the next reason. Empty if it succeeds, or no
// input is the reason.
std::vector<std::string> inputs_that_decide_shapes(const Model& model, const InferOptions& options);

// Where infer() fails because a value is not known before the model runs: the place of the node in the model's own graph.
// Nothing if it succeeds, or fails for another reason.
std::optional<std::size_t> node_that_data_decides(const Model& model, const InferOptions& options);

// What infer() takes apart, sorted: control flow and sequences, for docs/supported_ops.md.
std::vector<std::string> expanded_operators();

}  // namespace tessera::model

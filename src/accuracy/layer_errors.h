// Layer by layer, how far the values of a compiled network are from float32's, and what of that each layer makes
// itself: its node alone, on operands that float32 made.
//
// Float32 computes the same nodes, with the weights as they are rounded, so that every value has its counterpart.
//
//   error   of the layer's results in the compiled network, which has the errors of all layers before it
//   own     of its results from sound operands
//   growth  error over the largest error of its operands
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accuracy/trial.h"
#include "graph/graph.h"

namespace tessera::accuracy {

struct LayerError {
  std::string layer, kind, tensor;  // `tensor`: of its results
  std::string format;  // of its results; of products in blocks with the mantissa, "f16, bfp:7"
  Shape dims;
  double error = 0, own = 0, operands = 0;  // relative, roots of the squares' means
  double growth() const { return operands > 0 ? error / operands : 0; }
};

// In the order of the graph's nodes: layers with float results that arithmetic made. Over the first case, whose values
// are kept in memory: as many bytes as all results of the network in float32.
Result<std::vector<LayerError>> layer_errors(const Trials& trials,
                                             std::shared_ptr<const graph::Graph> graph,
                                             const std::function<void(double)>& progress = {});

// "bfp:7" of a product in block floating point; else empty.
std::string product_format(const graph::Node& node);
const MatrixFormat* matrix_of(const graph::Node& node);  // of a product; else null
MatrixFormat* matrix_of(graph::Node& node);

}  // namespace tessera::accuracy

// A typed graph executed directly: at CPU speed (`host`) or in obvious loops (`ref`). Same bits.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "arith/tensor.h"
#include "base/result.h"
#include "graph/graph.h"

namespace tessera::host {

// Called after each node with one of its outputs; may be empty.
using NodeObserver =
    std::function<void(const graph::Node& node, graph::TensorId output, const Tensor& value)>;

// Called after each node with the time it took, in milliseconds; may be empty.
using NodeTimer = std::function<void(const graph::Node& node, double milliseconds)>;

struct HostOptions {
  int threads = 0;  // 0 = all cores; the bits do not depend on it
  NodeTimer timer = {};
};

// An executor belongs to one thread at a time; it may use more inside.
class Executor {
 public:
  virtual ~Executor() = default;
  // Inputs in the order of graph.inputs, of exactly their formats and shapes; the result in the
  // order of graph.outputs.
  virtual Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                          const NodeObserver& observer = {}) = 0;
};

Result<std::unique_ptr<Executor>> make_host_executor(std::shared_ptr<const graph::Graph> graph,
                                                     const HostOptions& options = {});
Result<std::unique_ptr<Executor>> make_reference_executor(
    std::shared_ptr<const graph::Graph> graph);

}  // namespace tessera::host

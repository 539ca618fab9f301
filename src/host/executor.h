// A typed graph executed directly: at CPU speed (`host`) or in obvious loops (`ref`). Same bits.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "arith/block_float.h"
#include "arith/tensor.h"
#include "base/result.h"
#include "graph/graph.h"
#include "graph/value_notes.h"

namespace tessera::host {

// Called after each node with one of its outputs; may be empty.
using NodeObserver =
    std::function<void(const graph::Node& node, graph::TensorId output, const Tensor& value)>;

// Called after each node with the time it took, in milliseconds; may be empty.
using NodeTimer = std::function<void(const graph::Node& node, double milliseconds)>;

class Executor;

inline constexpr std::size_t kInPlaceAlignment = 16;

struct HostOptions {
  int threads = 0;  // 0 = all cores; the bits do not depend on it
  NodeTimer timer = {};
  // A host executor of the same graph and as many threads, whose packed weights are used again.
  // Both may run at the same time.
  const Executor* twin = nullptr;
};

// An executor belongs to one thread at a time; it may use more inside.
class Executor {
 public:
  virtual ~Executor() = default;
  // Inputs in the order of graph.inputs, of exactly their formats and shapes; the result in the
  // order of graph.outputs.
  virtual Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                          const NodeObserver& observer = {}) = 0;
  // The same on bytes that lie elsewhere, dense and row-major, of exactly the tensors' sizes.
  // Inputs are only read. The host executor uses them in place where they begin at a multiple of
  // kInPlaceAlignment and no output overlaps an input or another output.
  virtual Status run_on(std::span<const std::span<std::byte>> inputs,
                        std::span<const std::span<std::byte>> outputs,
                        const NodeObserver& observer = {}) = 0;
  // Of the last run_on(): bytes of inputs and outputs that were copied, because they could not be
  // used in place.
  virtual std::int64_t bytes_copied() const = 0;
  // Of the last run, by node: how far results reach (graph/value_notes.h); and what the products met. `ref` keeps
  // no flags and does not watch accumulators.
  virtual std::span<const graph::NodeValues> values() const = 0;
  virtual arith::StickyFlags flags() const = 0;
};

Result<std::unique_ptr<Executor>> make_host_executor(std::shared_ptr<const graph::Graph> graph,
                                                     const HostOptions& options = {});
Result<std::unique_ptr<Executor>> make_reference_executor(
    std::shared_ptr<const graph::Graph> graph);

}  // namespace tessera::host

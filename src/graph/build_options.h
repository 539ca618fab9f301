// What a graph is built with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "arith/format.h"
#include "graph/graph.h"
#include "model/infer.h"
#include "tessera/network.h"

namespace tessera::graph {

// Kernel memory of the processor that the graph is for. A convolution whose weights half of it holds
// is computed by one task, whose post-processor may normalise over all output channels.
struct KernelMemory {
  std::int64_t rows = 0, columns = 0;    // of the array
  std::int64_t bytes_per_partition = 0;  // 0: nothing is known, and nothing normalised there
};

// State buffer of the processor that the graph is for. What would fill much of it is made in blocks (repeat_pixels).
struct StateBuffer {
  std::int64_t partitions = 0,
               bytes_per_partition = 0;  // 0: nothing is known, and all made as a whole
};

struct BuildOptions {
  Format vector_format = Format::kF16;  // f16, bf16 or f32
  MatrixFormat matrix;                  // for float products
  bool quantise_vector_inputs = false;  // operands of element-wise work take `matrix` too
  std::int32_t quantised_bytes = 1;  // of operands of integer products in quantised models, 1 or 2
  KernelMemory kernel_memory;
  StateBuffer state_buffer;
  // That a lane of the processor's planar engine takes in a cycle; 0: nothing is known.
  std::int64_t lane_elements = 0;
  LayerFormats layers;  // of some layers in place of these
  model::InferOptions infer;
  bool require_full_offload = false;  // a host step is an error
  Watch* watch = nullptr;             // told of the passes; null: none
  // Called after each pass with its name and the graph (for --dump-passes); may be empty.
  std::function<void(const std::string& pass, const Graph& graph)> on_pass;
};

}  // namespace tessera::graph

// What the compiler is asked to do, and to leave.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/watch.h"
#include "compile/transposition_way.h"

namespace tessera::compile {

class KernelStore;  // compile/kernel_store.h

struct CompileOptions {
  // Upper bound on one task's working set in the state buffer, bytes a partition; 0 = the compiler
  // chooses. Smaller budgets mean smaller bands.
  std::int64_t tile_budget_bytes = 0;
  // Keep tensors in the state buffer between layers where they fit (off: everything through DRAM).
  bool resident = true;
  // Choose which axes lie on partitions, and swap operands of dynamic products, by cost.
  bool choose_views = true;
  // The way of transpositions that can go it; none: the cheapest each time.
  std::optional<TranspositionWay> transposition = std::nullopt;
  // Work through layers together, in rings of rows, where that saves DRAM traffic. Needs
  // `resident`.
  bool cascades = true;
  // Store kernels compressed where that saves DRAM bytes (off: as they are).
  bool compress_weights = true;
  // Bytes of a partition that the network may use where several share a core; 0 = all there are.
  std::int64_t state_buffer_bytes = 0, kernel_memory_bytes = 0;
  // Pixels of a step at the least; 0: the compiler chooses for each layer, a bank of partial sums or less. Steps of fewer pixels begin sooner with what
  // other cores send, and pass on sooner what others wait for.
  std::int64_t step_pixels = 0;
  // Kernels that compilations of the same graph for the same chip, otherwise with the same options, have
  // in common; null: it has them to itself.
  std::shared_ptr<KernelStore> kernels = nullptr;
  Watch* watch = nullptr;  // told of the passes; null: none
};

}  // namespace tessera::compile

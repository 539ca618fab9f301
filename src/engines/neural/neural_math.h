// The values of neural steps: products over state-buffer surfaces with weights read from kernel
// memory, whole or in parts whose sums stay in PSUM, and exact transpositions. Knows no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/chip_config.h"
#include "arith/kernels/partial_product.h"
#include "arith/kernels/product.h"
#include "engines/data_control/exceptions.h"
#include "engines/memory/partitioned_memory.h"
#include "isa/descriptor.h"

namespace tessera::engines {

// A step whose values are due.
struct NeuralStep {
  std::uint32_t network = 0;  // base-address index
  const isa::TaskDescriptor& descriptor;
  std::int64_t step = 0;
};

class NeuralMath {
 public:
  // Both memories outlive the object.
  NeuralMath(const ChipConfig& chip, PartitionedMemory& state_buffer,
             PartitionedMemory& kernel_memory);

  // Steps of a task come in order, and task after task. Weights are read at a task's first step.
  void run_step(const NeuralStep& step);
  // What the tasks since the last call reported about their data.
  arith::StickyFlags take_flags() {
    take_step_flags();
    return std::exchange(flags_, {});
  }
  // Which of `traps` the step just computed met (data_control/exceptions.h).
  std::string exception(const isa::TaskDescriptor& task, std::int64_t step, std::uint8_t traps,
                        const arith::StickyFlags& flags);
  // What the values of the step just computed came to; once for a step.
  StepValues values(const isa::TaskDescriptor& task, std::int64_t step);
  // Drops what is kept for the tasks of earlier programs.
  void forget();

 private:
  // Packed weights are kept from run to run, with what they were made of.
  struct Kept {
    const isa::TaskDescriptor* descriptor = nullptr;
    std::vector<std::byte> kernel;
    ProductVectors vectors;
    std::shared_ptr<const Product> product;
  };
  // Of the step just computed; they count for take_flags() too.
  arith::StickyFlags take_step_flags() {
    const arith::StickyFlags flags = tessera::take_flags(*workspace_);
    flags_ |= flags;
    return flags;
  }
  void prepare(const NeuralStep& step, const isa::NeuralTask& task);
  void prepare_dynamic(const isa::NeuralTask& task, std::int64_t image);
  ProductVectors read_vectors(const isa::NeuralTask& task) const;
  std::vector<std::byte> read_vector(std::uint32_t offset, std::int64_t count, std::int64_t element,
                                     std::int64_t rows) const;
  std::vector<std::byte> kernel_bytes(const isa::NeuralTask& task) const;
  // Kernel memory holds these bytes where the task reads its kernel.
  bool holds_kernel(const isa::NeuralTask& task, const std::vector<std::byte>& kernel) const;
  // The moving surface as the product reads it; channels that begin inside a block of partitions
  // and leave it are shifted into place first, as the input buffer's shifter does.
  Surface moving_surface(const isa::NeuralTask& task, std::int64_t image, RowRange rows);
  struct Window {
    std::int64_t first = 0, count = 1;  // channels
    RowRange rows;
  };
  Surface shifted(const isa::BufferSurface& surface, std::int64_t image, const Window& window);
  void transpose(const isa::NeuralTask& task, std::int64_t image, RowRange rows);
  void run_part(const NeuralStep& step, const isa::NeuralTask& task);
  // The stationary operand in plain order.
  kernels::PlainWeights stationary_of(const isa::NeuralTask& task, std::int64_t image);

  const ChipConfig chip_;
  PartitionedMemory& state_buffer_;
  PartitionedMemory& kernel_memory_;
  std::shared_ptr<ProductWorkspace> workspace_;
  arith::StickyFlags flags_;  // of earlier steps
  std::vector<std::byte> shifted_;
  std::shared_ptr<const Product> product_;      // of the task in hand
  std::vector<std::vector<Kept>> kept_;         // by network, then task id
  std::shared_ptr<const PartialProduct> part_;  // of the task in hand
  // Sums in PSUM, of each engine of a task, as far as there have been any: entry by entry, in each a
  // sum for every column of the array (isa/psum.h).
  std::vector<std::vector<PartialSum>> psum_;
};

}  // namespace tessera::engines

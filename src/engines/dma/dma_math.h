// The bytes that a step of a DMA engine or a message processor moves: between DRAM and state buffer,
// into kernel memory, within DRAM.
// Knows no clock.
#pragma once

#include <cstdint>

#include "engines/memory/dram_memory.h"
#include "engines/memory/partitioned_memory.h"
#include "isa/descriptor.h"

namespace tessera::engines {

class DmaMath {
 public:
  // The memories outlive the object.
  DmaMath(DramMemory& dram, PartitionedMemory& state_buffer, PartitionedMemory& kernel_memory)
      : dram_(dram), state_buffer_(state_buffer), kernel_memory_(kernel_memory) {}

  // Moves the bytes of step `step` of `task`, addresses by base-address table `network`.
  void run_step(std::uint32_t network, const isa::TaskDescriptor& task, std::int64_t step);

 private:
  void transfer(std::uint32_t network, const isa::TaskDescriptor& task, std::int64_t step);
  void copy(std::uint32_t network, const isa::CopyTask& task, RowRange rows);
  void load_kernel(std::uint32_t network, const isa::KernelTask& task);
  void load_matrix(std::uint32_t network, const isa::MessageTask& task);

  DramMemory& dram_;
  PartitionedMemory& state_buffer_;
  PartitionedMemory& kernel_memory_;
};

}  // namespace tessera::engines

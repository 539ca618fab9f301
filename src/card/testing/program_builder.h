// Programs written by hand, for tests of the core: tasks one by one, encoded as the compiler would.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "card/core.h"
#include "isa/task_list.h"

namespace tessera::card::testing {

// A processor small enough to count cycles by hand: 4 x 4 array, 4 partitions of 4 KiB.
ChipConfig small_chip();

using isa::after_all;
using isa::after_step;

// Rows of 8-, 16- or 32-bit elements, dense, one block of channels a block pitch.
isa::BufferSurface dense_surface(const ChipConfig& chip, std::uint32_t offset, Format format,
                                 std::uint32_t channels, std::uint32_t rows, std::uint32_t columns);

class ProgramBuilder : public isa::TaskList {
 public:
  using TaskList::TaskList;

  // Whole surfaces between DRAM and buffer; DRAM is dense [images, channels, rows, columns].
  isa::TaskId load(const isa::BufferSurface& to, isa::DramAddress from, std::uint32_t rows_per_step,
                   std::vector<isa::Dependency> dependencies = {});
  isa::TaskId store(const isa::BufferSurface& from, isa::DramAddress to,
                    std::uint32_t rows_per_step, std::vector<isa::Dependency> dependencies = {});
  // One-by-one convolution of 8-bit integers with a 32-bit result; weights at `kernel_offset`.
  isa::TaskId product(const isa::BufferSurface& moving, const isa::BufferSurface& output,
                      std::uint32_t kernel_offset, std::uint32_t rows_per_step,
                      std::vector<isa::Dependency> dependencies = {});
  // Element-wise activation.
  isa::TaskId unary(const isa::BufferSurface& input, const isa::BufferSurface& output,
                    Activation activation, std::uint32_t rows_per_step,
                    std::vector<isa::Dependency> dependencies = {});
  // Puts weights [output channels][channels] into the weight region and loads them.
  isa::TaskId kernel(std::int64_t channels, std::int64_t output_channels,
                     const std::vector<std::int8_t>& weights, std::uint32_t kernel_offset);

  // The program, with one segment of all tasks.
  isa::Program finish(std::int64_t input_bytes, std::int64_t output_bytes,
                      std::int64_t workspace_bytes = 0);

 private:
  isa::TaskId transfer(isa::EngineKind engine, const isa::BufferSurface& buffer,
                       isa::DramAddress dram, std::uint32_t rows_per_step,
                       std::vector<isa::Dependency> dependencies);

  std::vector<std::byte> weights_;
};

template <typename T>
std::vector<std::byte> to_bytes(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

}  // namespace tessera::card::testing

// Programs written by hand, for tests of the core: tasks one by one, encoded as the compiler would.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "card/core_model.h"
#include "program/task_list.h"

namespace tessera::card::testing {

// A processor small enough to count cycles by hand: 4 x 4 array, 4 partitions of 4 KiB.
ChipConfig small_chip();

using program::after_all;
using program::after_step;

// Rows of 8-, 16- or 32-bit elements, dense, one block of channels a block pitch.
program::BufferSurface dense_surface(const ChipConfig& chip, std::uint32_t offset, Format format,
                                     std::uint32_t channels, std::uint32_t rows,
                                     std::uint32_t columns);

class ProgramBuilder : public program::TaskList {
 public:
  using TaskList::TaskList;

  // Whole surfaces between DRAM and buffer; DRAM is dense [images, channels, rows, columns].
  program::TaskId load(const program::BufferSurface& to, program::DramAddress from,
                       std::uint32_t rows_per_step,
                       std::vector<program::Dependency> dependencies = {});
  program::TaskId store(const program::BufferSurface& from, program::DramAddress to,
                        std::uint32_t rows_per_step,
                        std::vector<program::Dependency> dependencies = {});
  // One-by-one convolution of 8-bit integers with a 32-bit result; weights at `kernel_offset`.
  program::TaskId product(const program::BufferSurface& moving,
                          const program::BufferSurface& output, std::uint32_t kernel_offset,
                          std::uint32_t rows_per_step,
                          std::vector<program::Dependency> dependencies = {});
  // Element-wise activation.
  program::TaskId unary(const program::BufferSurface& input, const program::BufferSurface& output,
                        Activation activation, std::uint32_t rows_per_step,
                        std::vector<program::Dependency> dependencies = {});
  // Puts weights [output channels][channels] into the weight region and loads them.
  program::TaskId kernel(std::int64_t channels, std::int64_t output_channels,
                         const std::vector<std::int8_t>& weights, std::uint32_t kernel_offset);

  // The program, with one segment of all tasks.
  program::Program finish(std::int64_t input_bytes, std::int64_t output_bytes,
                          std::int64_t workspace_bytes = 0);

 private:
  program::TaskId transfer(program::EngineKind engine, const program::BufferSurface& buffer,
                           program::DramAddress dram, std::uint32_t rows_per_step,
                           std::vector<program::Dependency> dependencies);

  std::vector<std::byte> weights_;
};

template <typename T>
std::vector<std::byte> to_bytes(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

}  // namespace tessera::card::testing

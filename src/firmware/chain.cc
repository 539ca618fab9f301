#include "firmware/chain.h"

#include <algorithm>

namespace tessera::firmware {

const char* memory_name(ChainMemoryKind memory) {
  static constexpr const char* kNames[] = {"initial", "addsub",           "multiply",
                                           "matrix",  "incoming queue",   "outgoing queue",
                                           "DRAM",    "DRAM, as a matrix"};
  return kNames[static_cast<std::size_t>(memory)];
}

std::uint32_t queue_number(const ChainProgram& program, std::size_t symbol) {
  const auto first = program.symbols.begin();
  return static_cast<std::uint32_t>(std::count_if(
      first, first + static_cast<std::ptrdiff_t>(symbol),
      [&](const Symbol& other) { return other.memory == program.symbols[symbol].memory; }));
}

std::int64_t native_vector(const ChipConfig& chip) {
  return std::max<std::int64_t>(chip.formats.matrix.native_dimension, chip.state_buffer.partitions);
}

}  // namespace tessera::firmware

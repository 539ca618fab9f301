// Each instruction of tile/intrinsics.h as a function of bytes, twice: as the processor does it and
// emulated. tile_instructions_test compares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::kernels::testing {

inline constexpr std::size_t kMemoryBytes = 4096, kResultBytes = 1024;

struct Operands {
  alignas(64) std::byte a[64];
  alignas(64) std::byte b[64];
  alignas(64) std::byte c[64];
  alignas(64) std::byte memory[kMemoryBytes];
  std::uint64_t mask;
};
// What an instruction does not write stays as it was.
struct Result {
  alignas(64) std::byte bytes[kResultBytes];
};

// Where the payload of a NaN may differ (emulated_vectors.h).
enum class AnyNan { kNowhere, kFloats, kDoubles };

struct Instruction {
  std::string_view name;
  void (*run)(const Operands& in, Result& out);
  AnyNan any_nan = AnyNan::kNowhere;
};

// The same instructions in the same order. The processor's: none in builds that cannot have tiles;
// calling them needs tiles::detect().
std::vector<Instruction> processor_instructions();
std::vector<Instruction> emulated_instructions();

}  // namespace tessera::kernels::testing

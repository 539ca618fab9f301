// Programs that transpose one matrix and do nothing else, each way: what a transposition costs by
// itself, for benchmarks and timing tests.
//
//   resident   segment 0: load | segment 1: transpose | segment 2: store     cost: segment 1
//   streamed   one segment: load, transpose, store, chunk by chunk           cost: all of it
//
// A matrix is resident where it and its transpose fit the state buffer together. The way through
// DRAM stores the matrix and loads it in the other layout; streamed, it is loaded in the other
// layout at once and stored.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "arith/format.h"
#include "compile/compile.h"
#include "isa/program.h"

namespace tessera::compile {

struct TranspositionProblem {
  std::int64_t rows = 1, columns = 1;  // m on channels, n along them
  Format format = Format::kF16;
  TranspositionWay way = TranspositionWay::kArray;
};

struct TranspositionProgram {
  isa::Program program;  // input and output: dense row-major matrices
  bool resident = false;
  std::int64_t chunks = 1;
  std::uint32_t segment = 0;  // whose cycles are the transposition's
};

TranspositionProgram make_transposition_program(const ChipConfig& chip,
                                                const TranspositionProblem& problem);

}  // namespace tessera::compile

// One large matrix product under four schedules against a NeuronCore-v2, on the profile `neuron2`.
// Each schedule is a program of loads, products, vector work and stores, written by hand after the
// tile loops of the published tutorial, and run by the virtual core.
//
//   out[M, N] = lhsT[K, M]^T x rhs[K, N]     stationary tiles of lhsT, moving tiles of rhs
//
//   tiled        a tile of 128 x 512 results loads all it needs
//   hoisted      the loads of lhsT are outside the loop over N
//   block free   two tiles of lhsT meet each tile of rhs
//   block all    M, N and K in blocks; results stay in the state buffer until their sums are whole
#pragma once

#include <cstdint>
#include <string_view>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"
#include "repro/csv.h"
#include "repro/timing_table.h"

namespace tessera::repro {

enum class MatmulSchedule : std::uint8_t { kTiled, kHoisted, kBlockFree, kBlockAll };

struct MatmulShape {
  std::int64_t m = 4096, k = 8192, n = 8192;
};
// "[4096,8192]@[8192,8192]": [m, k] and [k, n].
Result<MatmulShape> parse_matmul_shape(std::string_view text);

Result<isa::Program> matmul_program(const ChipConfig& chip, const MatmulShape& shape,
                                    MatmulSchedule schedule);

// Columns kernel, shape, dtype, metric, value, unit.
Result<TimingTable> neuron_timing(const CsvTable& measured);

}  // namespace tessera::repro

// Products and whole networks against the standard systolic simulator: an array of R x C whose
// folds run one after the other, operands always there.
//
//   row of the file ─► layers as products M x N x K ─► one neural task each ─► virtual core
//   dataflow, R x C ─► profile `systolic`                                        │
//                          cycles until the last multiply-accumulate, summed  ◄──┘
//
// That simulator gives the number, counted from 0, of the cycle of the last multiply-accumulate of
// a layer; a network is the sum over its layers. What the core does afterwards (PSUM,
// post-processor) is therefore left out on our side too.
#pragma once

#include <string_view>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "repro/csv.h"
#include "repro/timing_table.h"

namespace tessera::repro {

// [m, k] x [k, n].
struct ProductSize {
  std::int64_t m = 1, n = 1, k = 1;
};

// "gemm_MxNxK", "resnet50" or "mobilenetv1": the layers of one image, each lowered by im2col (m
// output pixels, k the taps of all channels). A depthwise layer counts as one filter over all
// channels, as that simulator takes it.
Result<std::vector<ProductSize>> systolic_workload(std::string_view name);

// "128x64_os": rows, columns and dataflow in the profile `systolic`.
Result<ChipConfig> systolic_chip(std::string_view name);

// The number of the cycle of the last multiply-accumulate, summed over the products, as the virtual
// core runs them.
Result<std::int64_t> systolic_cycles(const ChipConfig& chip,
                                     const std::vector<ProductSize>& products);

// Columns dataflow_array, workload, cycles.
Result<TimingTable> systolic_timing(const CsvTable& measured);

}  // namespace tessera::repro

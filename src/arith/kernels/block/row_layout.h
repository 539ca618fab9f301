// How an input row is laid out for kernels of several taps, so that neighbouring output pixels read
// neighbouring places whatever the stride:
//
//   sample s  ──►  padded p = s + left  ──►  phase p % stride, position p / stride
//
//   stride 2, left 1:   phase 0: [pad] s1 s3 s5 ...      phase 1: s0 s2 s4 ...
//
// Places before, behind and between samples hold zeros.
#pragma once

#include <cstdint>
#include <vector>

#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/taps.h"

namespace tessera::kernels {

struct RowLayout {
  std::vector<std::vector<Tap>> row_taps;     // [output row % input dilation]
  std::vector<std::vector<Tap>> column_taps;  // [output column % input dilation]
  std::int64_t stride = 1;
  std::int64_t left = 0;
  std::int64_t positions = 0;  // a phase
  std::int64_t slots = 1;      // input rows that must be at hand at the same time

  // `output_rows` consecutive output rows are worked on together.
  RowLayout(const ProductConfig& config, std::int64_t output_columns, std::int64_t output_rows);

  std::int64_t total() const { return stride * positions; }
  // Of the sample that a tap reads for output 0 of its phase; output j is j places further.
  std::int64_t place(std::int64_t offset) const {
    const std::int64_t padded = offset + left;
    return padded % stride * positions + padded / stride;
  }
  // The samples of an input row as runs of places.
  void add_samples(const Surface& input, std::int64_t row, PixelRuns& runs) const;
};

}  // namespace tessera::kernels

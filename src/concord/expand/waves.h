// The weights of a windowed Fourier transform, which a product with them computes: found again in quantised
// weights, and written as their window and one turn of the waves.
//
//   row k             window[n] cos(2 pi k n / N)       k = 0 .. rows / 2, n = 0 .. N
//   row rows / 2 + k  -window[n] sin(2 pi k n / N)
//
// A matrix of N x N numbers has 2 N in this form. Internal to src/concord.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arith/format.h"
#include "concord/steps.h"

namespace tessera::concord {

// A window whose waves, rounded to f16 and quantised in whole rows, are exactly `rows` (equally long, quantised
// block floating point numbers of f16); none where they are no such weights, or fewer than 64 x 64.
std::optional<std::vector<double>> window_of_waves(const std::vector<std::vector<double>>& rows,
                                                   const MatrixFormat& matrix);

// The numbers of those rows before they are rounded, f64 [2 bins, N].
ValueId waves(Steps& steps, const std::vector<double>& window, std::int64_t bins);
// The same, computed here: bit for bit what those steps compute.
std::vector<std::vector<double>> wave_rows(std::span<const double> window, std::int64_t bins);

}  // namespace tessera::concord

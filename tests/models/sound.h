// Recordings and the short-time Fourier transforms of the stored speech models.
#pragma once

#include <complex>
#include <string>
#include <vector>

#include "tessera/result.h"

namespace tessera::cases {

// 16-bit mono PCM as values in [-1, 1).
Result<std::vector<double>> read_wav(const std::string& path);

using Spectrum = std::vector<std::complex<double>>;

// The transform of real frames of one size, by its definition.
class RealTransform {
 public:
  explicit RealTransform(std::size_t size);
  std::size_t bins() const { return size_ / 2 + 1; }
  Spectrum forward(const double* frame) const;
  std::vector<double> inverse(const Spectrum& spectrum) const;

 private:
  const std::size_t size_;
  std::vector<std::complex<double>> turns_;  // exp(-2 pi i k / size)
};

// Square root of a periodic Hann window.
std::vector<double> root_hann(std::size_t size);
// Pearson's coefficient over the samples that both have.
double correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tessera::cases

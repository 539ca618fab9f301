#include "sound.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numbers>

namespace tessera::cases {

Result<std::vector<double>> read_wav(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  // Chunks of a four-letter name and a size follow the twelve bytes of "RIFF....WAVE".
  for (std::size_t at = 12; at + 8 <= bytes.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data() + at + 4, sizeof size);
    const std::size_t begin = at + 8;
    if (bytes.compare(at, 4, "data") == 0) {
      const std::size_t count = std::min<std::size_t>(size, bytes.size() - begin) / 2;
      std::vector<double> samples(count);
      for (std::size_t i = 0; i < count; ++i) {
        std::int16_t sample = 0;
        std::memcpy(&sample, bytes.data() + begin + 2 * i, sizeof sample);
        samples[i] = sample / 32768.0;
      }
      return samples;
    }
    at = begin + size + size % 2;
  }
  return Error{ErrorCode::kInvalidArgument, "'" + path + "' is no recording in PCM"};
}

RealTransform::RealTransform(std::size_t size) : size_(size) {
  for (std::size_t k = 0; k < size; ++k) {
    turns_.push_back(std::polar(
        1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(size)));
  }
}

Spectrum RealTransform::forward(const double* frame) const {
  Spectrum spectrum(bins());
  for (std::size_t k = 0; k < bins(); ++k) {
    for (std::size_t i = 0; i < size_; ++i) spectrum[k] += frame[i] * turns_[k * i % size_];
  }
  return spectrum;
}

std::vector<double> RealTransform::inverse(const Spectrum& spectrum) const {
  std::vector<double> frame(size_);
  for (std::size_t i = 0; i < size_; ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < bins(); ++k) {
      // The bins between stand for their mirror images too.
      const double weight = k == 0 || 2 * k == size_ ? 1 : 2;
      sum += weight * std::real(spectrum[k] * std::conj(turns_[k * i % size_]));
    }
    frame[i] = sum / static_cast<double>(size_);
  }
  return frame;
}

std::vector<double> root_hann(std::size_t size) {
  std::vector<double> window(size);
  for (std::size_t i = 0; i < size; ++i) {
    window[i] = std::sin(std::numbers::pi * static_cast<double>(i) / static_cast<double>(size));
  }
  return window;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::size_t count = std::min(a.size(), b.size());
  double sum_a = 0, sum_b = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum_a += a[i];
    sum_b += b[i];
  }
  const double mean_a = sum_a / static_cast<double>(count);
  const double mean_b = sum_b / static_cast<double>(count);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < count; ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace tessera::cases

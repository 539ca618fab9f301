// Recordings: .wav files of 16-bit PCM, one channel, 16,000 samples per second.
//
//   "RIFF" size "WAVE"  { name size bytes }...   chunks: "fmt " is the format, "data" is the sound
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tessera/result.h"

namespace speech {

inline constexpr int kSamplesPerSecond = 16'000;

struct Recording {
  std::string path;
  std::vector<float> samples;  // -1 to 1

  double seconds() const { return static_cast<double>(samples.size()) / kSamplesPerSecond; }
};

// Anything else is an error that names `path`, what was found and what to do about it.
tessera::Result<Recording> parse_wav(std::span<const std::byte> bytes, const std::string& path);
tessera::Result<Recording> read_wav(const std::string& path);

}  // namespace speech

// Voice detection chunk by chunk: the state that one run returns is what the next one gets, so one
// recording is a chain of tasks, and several recordings run side by side.
//
//   recording ─► chunk i, the 64 samples before it ─► [model] ─► probability i
//                                          state i ─►         ─► state i + 1
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "segments.h"
#include "tessera/tessera.h"
#include "wav.h"

namespace speech {

inline constexpr std::int64_t kChunk = 512, kContext = 64;
inline constexpr double kChunkSeconds = static_cast<double>(kChunk) / kSamplesPerSecond;

// The model silero_vad for 16,000 samples per second; the error says what another model lacks.
tessera::Result<tessera::Network> load_voice_network(const std::string& path,
                                                     const std::string& arch);

// One recording on its way. Any thread may take a step; one at a time does.
struct Voice {
  Recording recording;
  tessera::Tensor state;             // what the next run gets
  std::vector<float> probabilities;  // of the chunks so far

  explicit Voice(Recording what);
  std::size_t chunks() const;
  bool done() const { return probabilities.size() == chunks(); }
};

// Chunk `chunk` of the recording with the samples before it.
tessera::Tensor window_of(const Voice& voice, std::size_t chunk);
// The next run's inputs, and what to do with its outputs.
std::vector<tessera::Tensor> next_inputs(const Voice& voice);
tessera::Status take_outputs(Voice& voice, std::vector<tessera::Tensor> outputs);

std::vector<Segment> segments_of(const Voice& voice, const SegmentOptions& options);

}  // namespace speech

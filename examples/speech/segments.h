// From the probability that a chunk holds speech to segments of speech.
//
//   probability   ▁▂▆█▇▇▅▄▅▇█▆▂▁▁▁▁▂▁▁       begins at `threshold`, ends below `threshold_end` once
//   segment         [──────────]               that lasts; short ones go, the others grow a little
#pragma once

#include <cstddef>
#include <vector>

namespace speech {

struct SegmentOptions {
  double threshold = 0.5;        // speech begins with a chunk of at least this probability
  double threshold_end = 0.35;   // and ends when the probability has been below this ...
  double silence_seconds = 0.1;  // ... for as long as this
  double speech_seconds = 0.25;  // shorter segments are dropped
  double margin_seconds = 0.03;  // what is added at both ends
};

struct Segment {
  double begin = 0, end = 0;  // seconds
  friend bool operator==(const Segment&, const Segment&) = default;
};

// `chunk_seconds` each; margins end at the recording's ends and in the middle between two segments.
std::vector<Segment> find_segments(const std::vector<float>& probabilities, double chunk_seconds,
                                   double recording_seconds, const SegmentOptions& options);

}  // namespace speech

#include "segments.h"

#include <algorithm>

namespace speech {
namespace {

// Where speech begins and ends, in chunks: nothing dropped, nothing grown.
struct Stretch {
  std::size_t begin = 0, end = 0;
};

std::vector<Stretch> stretches(const std::vector<float>& probabilities, double chunk_seconds,
                               const SegmentOptions& options) {
  std::vector<Stretch> found;
  bool speaks = false;
  Stretch current;  // its end: behind the last chunk that was not silent
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const auto probability = static_cast<double>(probabilities[i]);
    if (!speaks && probability >= options.threshold) {
      speaks = true;
      current = {i, i + 1};
    }
    if (!speaks) continue;
    if (probability >= options.threshold_end) {
      current.end = i + 1;
      continue;
    }
    if (static_cast<double>(i + 1 - current.end) * chunk_seconds < options.silence_seconds)
      continue;
    found.push_back(current);
    speaks = false;
  }
  if (speaks) found.push_back(current);
  return found;
}

}  // namespace

std::vector<Segment> find_segments(const std::vector<float>& probabilities, double chunk_seconds,
                                   double recording_seconds, const SegmentOptions& options) {
  std::vector<Segment> segments;
  for (const Stretch& stretch : stretches(probabilities, chunk_seconds, options)) {
    const Segment segment{
        static_cast<double>(stretch.begin) * chunk_seconds,
        std::min(static_cast<double>(stretch.end) * chunk_seconds, recording_seconds)};
    if (segment.end - segment.begin >= options.speech_seconds) segments.push_back(segment);
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    // The neighbours' own bounds: the one before has grown already, by at most half the gap.
    const double before =
        i == 0 ? 0 : std::max(segments[i - 1].end, segments[i].begin - options.margin_seconds);
    segments[i].begin = std::max(before, segments[i].begin - options.margin_seconds);
    const double after = i + 1 == segments.size() ? recording_seconds
                                                  : (segments[i].end + segments[i + 1].begin) / 2;
    segments[i].end = std::min(after, segments[i].end + options.margin_seconds);
  }
  return segments;
}

}  // namespace speech

#include "concord/lift/axis.h"

#include <algorithm>

namespace tessera::concord {
namespace {

// The sample under a place of the dilated input, or -1.
std::int64_t sample_at(std::int64_t place, std::int64_t input_dilation, std::int64_t samples) {
  if (place < 0 || place % input_dilation != 0) return -1;
  const std::int64_t sample = place / input_dilation;
  return sample < samples ? sample : -1;
}

bool fits(const WindowStep& step, const AxisPart& part, const AxisWhole& whole,
          std::int64_t first) {
  for (std::int64_t o = 0; o < part.outputs; ++o) {
    for (std::int64_t k = 0; k < part.taps; ++k) {
      const std::int64_t own = o * step.stride + k * step.dilation - part.pad;
      const std::int64_t all =
          (o + part.output_first) * step.stride + (k + part.tap_first) * step.dilation - whole.pad;
      const std::int64_t mine = sample_at(own, step.input_dilation, part.samples);
      const std::int64_t meant = sample_at(all, step.input_dilation, whole.samples);
      if ((mine < 0 ? -1 : mine + first) != meant) return false;
      if ((own < part.padded_end) != (all < whole.padded_end)) return false;
    }
  }
  return true;
}

}  // namespace

bool join_axis(const WindowStep& step, const std::vector<AxisPart>& parts, AxisWhole& whole,
               std::vector<std::int64_t>& sample_first) {
  whole = {.pad = INT64_MAX, .samples = 0, .taps = 0, .outputs = 0, .padded_end = INT64_MIN};
  for (const AxisPart& part : parts) whole.pad = std::min(whole.pad, part.reach(step));
  sample_first.clear();
  for (const AxisPart& part : parts) {
    const std::int64_t ahead = part.reach(step) - whole.pad;
    if (ahead % step.input_dilation != 0) return false;
    const std::int64_t first = ahead / step.input_dilation;
    sample_first.push_back(first);
    whole.samples = std::max(whole.samples, first + part.samples);
    whole.taps = std::max(whole.taps, part.tap_first + part.taps);
    whole.outputs = std::max(whole.outputs, part.output_first + part.outputs);
    whole.padded_end = std::max(whole.padded_end, ahead + part.padded_end);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!fits(step, parts[i], whole, sample_first[i])) return false;
  }
  return true;
}

std::vector<bool> samples_met(const WindowStep& step, const AxisPart& part,
                              std::int64_t output_first, std::int64_t output_last) {
  std::vector<bool> met(static_cast<std::size_t>(part.samples), false);
  for (std::int64_t o = output_first; o < output_last; ++o) {
    for (std::int64_t k = 0; k < part.taps; ++k) {
      const std::int64_t sample = sample_at(o * step.stride + k * step.dilation - part.pad,
                                            step.input_dilation, part.samples);
      if (sample >= 0) met[static_cast<std::size_t>(sample)] = true;
    }
  }
  return met;
}

}  // namespace tessera::concord

// One axis of a layer with a window, and of the tasks that it is cut into.
//
//   layer:  taps of output o at   o * stride + k * dilation - pad            in the input
//   task:   the same with its own pad, from output `output_first` and tap `tap_first` on, in its
//           own part of the input
//
// A task fits when each of its taps meets the same sample as the layer's, and misses where the
// layer's misses.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::concord {

struct WindowStep {
  std::int64_t stride = 1, dilation = 1, input_dilation = 1;
  friend bool operator==(const WindowStep&, const WindowStep&) = default;
};

struct AxisPart {
  std::int64_t output_first = 0, outputs = 1;
  std::int64_t tap_first = 0, taps = 1;
  std::int64_t samples = 1;  // of its part of the input
  std::int64_t pad = 0;
  std::int64_t padded_end = 0;  // poolings: samples and padding at the end; else as samples

  // Where tap 0 of output 0 of the layer lies, counted back from the part's first sample.
  std::int64_t reach(const WindowStep& step) const {
    return pad + output_first * step.stride + tap_first * step.dilation;
  }
};

struct AxisWhole {
  std::int64_t pad = 0, samples = 0, taps = 0, outputs = 0, padded_end = 0;
};

// The layer that these parts would be of, and the first sample of each part in it. False if no
// layer has such parts.
bool join_axis(const WindowStep& step, const std::vector<AxisPart>& parts, AxisWhole& whole,
               std::vector<std::int64_t>& sample_first);

// Which of `samples` samples the outputs [output_first, output_last) meet.
std::vector<bool> samples_met(const WindowStep& step, const AxisPart& part,
                              std::int64_t output_first, std::int64_t output_last);

}  // namespace tessera::concord

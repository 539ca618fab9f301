// What the heads of the stored detectors mean: boxes with a class and a score, from raw outputs.
#pragma once

#include <string>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::cases {

// Corners in pixels of the network's input.
struct Detection {
  std::size_t category = 0;
  double score = 0;
  double left = 0, top = 0, right = 0, bottom = 0;
};

// Decodes the outputs of a model, in their order. `width` and `height` are those of its input.
using Decoder = std::vector<Detection> (*)(const std::vector<Tensor>& outputs, double width,
                                           double height);
// The decoder of a model; null if it is no detector that is known here.
//   fastestdet   [1, 85, H, W]: objectness, offsets, log sizes, probabilities
//   yolov3_tiny  two maps [1, 3 * 85, H, W]: the three large anchors, the three small ones
//   yolox_nano   [1, cells of strides 8, 16, 32, 85]
//   ssd_*        encodings [1, 1917, 4] and probabilities [1, 1917, 91] on the anchors of SSD 300
//   ultraface    probabilities [1, 4420, 2] and corners [1, 4420, 4]
//   yunet        class, objectness, box (and key points) at strides 8, 16, 32
Decoder find_decoder(const std::string& model);

// Boxes of a class that overlap a better one by more than 0.45 (intersection over union) go; best
// first.
std::vector<Detection> suppress(std::vector<Detection> found);

// How many of `wanted` were found: same class, score within 0.02, corners within two pixels. The
// order counts for nothing: scores that close may change places.
std::size_t count_matches(const std::vector<Detection>& found,
                          const std::vector<Detection>& wanted);

// "dog 0.58 [70, 112, 195, 288]; ..." as in DETECTIONS.tsv. Classes are looked up in `names`; an
// unknown one ends the list.
std::vector<Detection> parse_detections(const std::string& text,
                                        const std::vector<std::string>& names);

}  // namespace tessera::cases

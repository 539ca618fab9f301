// From the detection model's probability map to text boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "geometry.h"
#include "tessera/tessera.h"

namespace ocr {

struct DetectionOptions {
  std::int64_t side_max = 960;   // longer pictures are shrunk
  double pixel_threshold = 0.3;  // probability from which a pixel is text
  double box_threshold = 0.6;    // mean probability a box must have
  double grow_ratio = 1.5;       // boxes grow by area * ratio / perimeter
};

// How a picture lies in the detection model's input: at its top left, the mean colour around it.
struct DetectionView {
  std::int64_t width = 0, height = 0;            // of the input
  std::int64_t used_width = 0, used_height = 0;  // that the picture takes
};
// An input of the picture's own size: sides rounded to multiples of 32, at most side_max.
DetectionView own_view(const tessera::Picture& picture, const DetectionOptions& options);
// An input of one size for all pictures, width and height multiples of 32: larger pictures are
// shrunk until they fit.
DetectionView view_within(const tessera::Picture& picture, std::int64_t width, std::int64_t height);

// f32 [1, 3, height, width], blue-green-red, normalised.
tessera::Tensor detection_input(const tessera::Picture& picture, const DetectionView& view);

// Boxes in the pixels of the picture (`size`), in reading order. `map` is f32 [1, 1, H, W].
struct PictureSize {
  std::int64_t width = 0, height = 0;
};
std::vector<Box> boxes_from_map(const tessera::Tensor& map, const DetectionView& view,
                                PictureSize size, const DetectionOptions& options);

}  // namespace ocr

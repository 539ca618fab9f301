// From the detection model's probability map to text boxes.
#pragma once

#include <vector>

#include "pipeline.h"

namespace ocr {

// The picture as the detection model takes it: sides rounded to multiples of 32, at most
// options.side_max, blue-green-red, normalised.
tessera::Tensor detection_input(const tessera::Picture& picture, const PipelineOptions& options);

// Boxes in the picture's pixels, in reading order. `map` is f32 [1, 1, H, W].
std::vector<Box> boxes_from_map(const tessera::Tensor& map, const tessera::Picture& picture,
                                const PipelineOptions& options);

}  // namespace ocr

// 8-bit RGB pictures: .png and .jpg files in, .png files out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/result.h"
#include "tessera/session.h"
#include "tessera/tensor.h"

namespace tessera {

// Row by row from the top left, red, green and blue of each pixel.
struct Picture {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // height x width x 3

  // The three levels of a pixel, x < width and y < height.
  std::uint8_t* pixel(std::int64_t x, std::int64_t y) {
    return rgb.data() + static_cast<std::size_t>((y * width + x) * 3);
  }
  // The same, not to be changed.
  const std::uint8_t* pixel(std::int64_t x, std::int64_t y) const {
    return rgb.data() + static_cast<std::size_t>((y * width + x) * 3);
  }
  // All levels of one value.
  static Picture blank(std::int64_t width, std::int64_t height, std::uint8_t level);
};

// The kind is detected from the contents. Transparent pixels are put on white. The error names the
// file and the reason; pictures of more than 100 million pixels are refused.
Result<Picture> read_picture(const std::string& path);
// 8 bits a channel; the error is that of the file.
Status write_png(const std::string& path, const Picture& picture);
// Bilinear, pixel centres aligned (half-pixel).
Picture resize(const Picture& picture, std::int64_t width, std::int64_t height);

// How the levels of a pixel become elements: (level - mean) / deviation of each channel.
struct PictureInput {
  float mean[3] = {0, 0, 0};
  float deviation[3] = {255, 255, 255};
  bool bgr = false;
};
// The picture as an input of a model, [1, 3, height, width] or [1, height, width, 3], resized to
// it. The error says what the input is and what a picture can be.
Result<Tensor> picture_tensor(const Picture& picture, const TensorDescription& input,
                              const PictureInput& how = {});

}  // namespace tessera

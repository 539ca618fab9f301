// 8-bit RGB pictures: .png and .jpg files in, .png files out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/result.h"

namespace tessera {

struct Picture {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // height x width x 3

  std::uint8_t* pixel(std::int64_t x, std::int64_t y) {
    return rgb.data() + static_cast<std::size_t>((y * width + x) * 3);
  }
  const std::uint8_t* pixel(std::int64_t x, std::int64_t y) const {
    return rgb.data() + static_cast<std::size_t>((y * width + x) * 3);
  }
  static Picture blank(std::int64_t width, std::int64_t height, std::uint8_t level);
};

// The kind is told from the contents. Transparent pixels are put on white. The error names the
// file and the reason; pictures of more than 100 million pixels are refused.
Result<Picture> read_picture(const std::string& path);
Status write_png(const std::string& path, const Picture& picture);
// Bilinear, pixel centres aligned (half-pixel).
Picture resize(const Picture& picture, std::int64_t width, std::int64_t height);

}  // namespace tessera

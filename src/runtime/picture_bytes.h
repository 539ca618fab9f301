// A picture from the bytes of a .png or .jpg file: read_picture() without the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "tessera/picture.h"

namespace tessera {

inline constexpr std::int64_t kPicturePixelsMax = 100'000'000;

// Errors name `path`. A header's size is refused where the bytes cannot hold as many pixels.
Result<Picture> parse_picture(std::span<const std::byte> bytes, const std::string& path,
                              std::int64_t pixels_max = kPicturePixelsMax);

}  // namespace tessera

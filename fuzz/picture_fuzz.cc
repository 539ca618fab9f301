// Any bytes are a picture with all its pixels, or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "runtime/picture_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  constexpr std::int64_t kPixelsMax = 1 << 16;
  const auto picture = parse_picture(std::as_bytes(std::span(data, size)), "fuzz.png", kPixelsMax);
  if (!picture.ok()) {
    TESSERA_CHECK(picture.error().message.starts_with("reading 'fuzz.png': "), "{}",
                  picture.error().message);
    return 0;
  }
  TESSERA_CHECK(
      picture->width > 0 && picture->height > 0 && picture->width * picture->height <= kPixelsMax &&
          static_cast<std::int64_t>(picture->rgb.size()) == picture->width * picture->height * 3,
      "{} x {} pixels in {} bytes", picture->width, picture->height, picture->rgb.size());
  const TensorDescription input{"x", Format::kF32, {1, 3, 5, 7}};
  TESSERA_CHECK(picture_tensor(*picture, input).ok(), "it is no input");
  return 0;
}

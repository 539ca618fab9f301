#include "tessera/picture.h"

#include <fmt/format.h>
#include <jpeglib.h>
// Needs the one before.
#include <jerror.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "package/container.h"
#include "runtime/picture_bytes.h"
#include "tessera/file.h"

namespace tessera {
namespace {

constexpr std::int64_t kFileBytesMax = std::int64_t{1} << 30;

Error bad(const std::string& path, const std::string& what) {
  return Error{ErrorCode::kInvalidArgument, fmt::format("reading '{}': {}", path, what)};
}

Error too_short(const std::string& path, std::size_t bytes, std::int64_t width,
                std::int64_t height) {
  return bad(path, fmt::format("{} bytes are too few for {} x {} pixels", bytes, width, height));
}

// Deflate expands a byte to 1,032 at most, and a pixel has at least one bit.
bool png_can_hold(std::size_t bytes, std::int64_t width, std::int64_t height) {
  return static_cast<std::int64_t>(bytes) >= width / 8 * height / 1032;
}

// A Huffman code has at least one bit, and the component with most samples has a code for each
// block of 8 x 8 of them. An arithmetic code has no such bound.
bool jpeg_can_hold(std::size_t bytes, const jpeg_decompress_struct& decoder) {
  return decoder.arith_code != 0 ||
         static_cast<std::int64_t>(bytes) >=
             std::int64_t{decoder.image_width / 8} * (decoder.image_height / 8) / 8;
}

Result<Picture> parse_png(std::span<const std::byte> bytes, const std::string& path,
                          std::int64_t pixels_max) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    return bad(path, image.message);
  }
  image.format = PNG_FORMAT_RGB;
  if (std::int64_t{image.width} * image.height > pixels_max) {
    png_image_free(&image);
    return bad(path, fmt::format("{} x {} pixels, allowed {} in all", image.width, image.height,
                                 pixels_max));
  }
  if (!png_can_hold(bytes.size(), image.width, image.height)) {
    png_image_free(&image);
    return too_short(path, bytes.size(), image.width, image.height);
  }
  Picture picture{image.width, image.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image))};
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, picture.rgb.data(), 0, nullptr) == 0) {
    return bad(path, image.message);
  }
  return picture;
}

struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

void jpeg_failed(j_common_ptr common) {
  auto* errors = reinterpret_cast<JpegErrors*>(common->err);
  errors->manager.format_message(common, errors->message);
  std::longjmp(errors->jump, 1);
}

// A library prints nothing. Most warnings are of oddities; these of lost data.
void jpeg_warned(j_common_ptr common, int level) {
  auto* errors = reinterpret_cast<JpegErrors*>(common->err);
  const int code = errors->manager.msg_code;
  const bool lost = code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE;
  if (level < 0 && lost) jpeg_failed(common);
}

// A progressive picture passes over all its blocks once for each scan. Encoders make about ten.
constexpr int kJpegScansMax = 100;

void jpeg_progressed(j_common_ptr common) {
  const auto* decoder = reinterpret_cast<const jpeg_decompress_struct*>(common);
  if (decoder->input_scan_number <= kJpegScansMax) return;
  auto* errors = reinterpret_cast<JpegErrors*>(common->err);
  std::snprintf(errors->message, sizeof(errors->message), "more than %d scans", kJpegScansMax);
  std::longjmp(errors->jump, 1);
}

// No object with a destructor may be made between setjmp and a longjmp, so the picture comes from
// outside.
bool decode_jpeg(std::span<const std::byte> bytes, std::int64_t pixels_max, Picture& picture,
                 JpegErrors& errors) {
  jpeg_decompress_struct decoder;
  jpeg_progress_mgr progress{};
  progress.progress_monitor = jpeg_progressed;
  decoder.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = jpeg_failed;
  errors.manager.emit_message = jpeg_warned;
  if (setjmp(errors.jump) != 0) {
    jpeg_destroy_decompress(&decoder);
    return false;
  }
  jpeg_create_decompress(&decoder);
  decoder.progress = &progress;
  jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&decoder, TRUE);
  decoder.out_color_space = JCS_RGB;
  const bool is_small = std::int64_t{decoder.image_width} * decoder.image_height <= pixels_max;
  if (!is_small || !jpeg_can_hold(bytes.size(), decoder)) {
    std::snprintf(errors.message, sizeof(errors.message),
                  is_small ? "too few bytes for %u x %u pixels" : "%u x %u are too many pixels",
                  decoder.image_width, decoder.image_height);
    jpeg_destroy_decompress(&decoder);
    return false;
  }
  jpeg_start_decompress(&decoder);
  picture.width = decoder.output_width;
  picture.height = decoder.output_height;
  picture.rgb.resize(static_cast<std::size_t>(picture.width * picture.height * 3));
  while (decoder.output_scanline < decoder.output_height) {
    JSAMPROW row = picture.rgb.data() + std::size_t{decoder.output_scanline} *
                                            static_cast<std::size_t>(picture.width) * 3;
    jpeg_read_scanlines(&decoder, &row, 1);
  }
  jpeg_finish_decompress(&decoder);
  jpeg_destroy_decompress(&decoder);
  return true;
}

}  // namespace

Result<Picture> parse_picture(std::span<const std::byte> bytes, const std::string& path,
                              std::int64_t pixels_max) {
  if (bytes.size() > 8 && std::memcmp(bytes.data(), "\x89PNG", 4) == 0) {
    return parse_png(bytes, path, pixels_max);
  }
  Picture picture;
  JpegErrors errors{};
  if (!decode_jpeg(bytes, pixels_max, picture, errors)) return bad(path, errors.message);
  return picture;
}

Result<Picture> read_picture(const std::string& path) {
  TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path, {.bytes_max = kFileBytesMax}));
  return parse_picture(bytes, path);
}

Picture Picture::blank(std::int64_t width, std::int64_t height, std::uint8_t level) {
  return {width, height,
          std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3), level)};
}

Status write_png(const std::string& path, const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  if (png_image_write_get_memory_size(image, size, 0, picture.rgb.data(), 0, nullptr) == 0) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("writing '{}': {}", path, image.message)};
  }
  std::vector<std::byte> bytes(size);
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.rgb.data(), 0, nullptr) ==
      0) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("writing '{}': {}", path, image.message)};
  }
  return write_file(path, std::span(bytes).first(size));
}

Picture resize(const Picture& picture, std::int64_t width, std::int64_t height) {
  Picture result{width, height,
                 std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3))};
  const double scale_x = static_cast<double>(picture.width) / static_cast<double>(width);
  const double scale_y = static_cast<double>(picture.height) / static_cast<double>(height);
  for (std::int64_t y = 0; y < height; ++y) {
    const double sy = std::clamp((static_cast<double>(y) + 0.5) * scale_y - 0.5, 0.0,
                                 static_cast<double>(picture.height - 1));
    const auto y0 = static_cast<std::int64_t>(sy);
    const std::int64_t y1 = std::min(y0 + 1, picture.height - 1);
    for (std::int64_t x = 0; x < width; ++x) {
      const double sx = std::clamp((static_cast<double>(x) + 0.5) * scale_x - 0.5, 0.0,
                                   static_cast<double>(picture.width - 1));
      const auto x0 = static_cast<std::int64_t>(sx);
      const std::int64_t x1 = std::min(x0 + 1, picture.width - 1);
      const double fx = sx - static_cast<double>(x0);
      const double fy = sy - static_cast<double>(y0);
      for (std::int64_t c = 0; c < 3; ++c) {
        const auto at = [&](std::int64_t py, std::int64_t px) {
          return static_cast<double>(
              picture.rgb[static_cast<std::size_t>((py * picture.width + px) * 3 + c)]);
        };
        const double value = (at(y0, x0) * (1 - fx) + at(y0, x1) * fx) * (1 - fy) +
                             (at(y1, x0) * (1 - fx) + at(y1, x1) * fx) * fy;
        result.rgb[static_cast<std::size_t>((y * width + x) * 3 + c)] =
            static_cast<std::uint8_t>(std::lround(value));
      }
    }
  }
  return result;
}

}  // namespace tessera

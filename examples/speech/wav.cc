#include "wav.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "tessera/file.h"

namespace speech {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::int64_t kFileBytesMax = std::int64_t{4} << 30;
constexpr std::uint16_t kPcm = 1, kExtensible = 0xFFFE;
constexpr std::size_t kFormatBytes = 16;      // of "fmt " as far as it is looked at
constexpr std::size_t kSubformatOffset = 24;  // of "fmt " in its extensible form
// The size that programs write which do not know the sound's end yet.
constexpr std::uint32_t kUnknownSize = 0xFFFFFFFF;

// Little endian. The caller has seen that the bytes are there.
template <typename T>
T number_at(Bytes bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(
        value | static_cast<T>(std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i)));
  }
  return value;
}

bool name_is(Bytes bytes, std::size_t at, std::string_view name) {
  return at + name.size() <= bytes.size() &&
         std::memcmp(bytes.data() + at, name.data(), name.size()) == 0;
}

struct Chunks {
  std::optional<Bytes> format, data;
};

class Parser {
 public:
  Parser(Bytes bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  tessera::Result<Recording> parse() const {
    if (!name_is(bytes_, 0, "RIFF") || !name_is(bytes_, 8, "WAVE")) {
      return error("is no .wav file", "");
    }
    TESSERA_TRY(const Chunks chunks, find_chunks());
    if (!chunks.format) return error("has no chunk 'fmt '", "");
    if (!chunks.data) return error("has no chunk 'data'", "");
    TESSERA_RETURN_IF_ERROR(check_format(*chunks.format));
    if (chunks.data->size() % 2 != 0) {
      return error("has " + std::to_string(chunks.data->size()) + " bytes of 16-bit samples",
                   "it was cut off");
    }
    Recording recording{.path = path_, .samples = std::vector<float>(chunks.data->size() / 2)};
    for (std::size_t i = 0; i < recording.samples.size(); ++i) {
      const auto sample = static_cast<std::int16_t>(number_at<std::uint16_t>(*chunks.data, 2 * i));
      recording.samples[i] = static_cast<float>(sample) / 32768.0f;
    }
    return recording;
  }

 private:
  tessera::Error error(const std::string& found, const std::string& way_out) const {
    return {tessera::ErrorCode::kInvalidArgument,
            "recording '" + path_ + "' " + found + (way_out.empty() ? "" : "; " + way_out)};
  }

  tessera::Result<Chunks> find_chunks() const {
    Chunks chunks;
    for (std::size_t at = 12; at + 8 <= bytes_.size();) {
      const auto claimed = number_at<std::uint32_t>(bytes_, at + 4);
      const std::size_t begin = at + 8, left = bytes_.size() - begin;
      const bool is_data = name_is(bytes_, at, "data");
      const std::size_t size = is_data && claimed == kUnknownSize ? left : claimed;
      if (size > left) {
        return error("ends " + std::to_string(size - left) + " bytes too early", "it was cut off");
      }
      if (name_is(bytes_, at, "fmt ")) chunks.format = bytes_.subspan(begin, size);
      if (is_data) chunks.data = bytes_.subspan(begin, size);
      at = begin + size + size % 2;
    }
    return chunks;
  }

  tessera::Status check_format(Bytes format) const {
    if (format.size() < kFormatBytes) return error("has a chunk 'fmt ' that is too short", "");
    auto tag = number_at<std::uint16_t>(format, 0);
    if (tag == kExtensible && format.size() >= kSubformatOffset + 2) {
      tag = number_at<std::uint16_t>(format, kSubformatOffset);
    }
    const auto channels = number_at<std::uint16_t>(format, 2);
    const auto rate = number_at<std::uint32_t>(format, 4);
    const auto bits = number_at<std::uint16_t>(format, 14);
    if (tag == kPcm && channels == 1 && rate == kSamplesPerSecond && bits == 16) return {};
    return error("has format " + std::to_string(tag) + ", " + std::to_string(bits) + " bits, " +
                     std::to_string(channels) + " channels, " + std::to_string(rate) +
                     " samples a second",
                 "needed: format 1 (PCM), 16 bits, 1 channel, 16000; for example "
                 "'ffmpeg -i IN -ac 1 -ar 16000 -c:a pcm_s16le OUT.wav'");
  }

  const Bytes bytes_;
  const std::string& path_;
};

}  // namespace

tessera::Result<Recording> parse_wav(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).parse();
}

tessera::Result<Recording> read_wav(const std::string& path) {
  const auto bytes = tessera::read_file(path, {.bytes_max = kFileBytesMax});
  if (!bytes.ok()) return bytes.error().with_context("recording");
  return parse_wav(*bytes, path);
}

}  // namespace speech

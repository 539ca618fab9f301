#include "model/onnx_wire.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "model/import_message.h"

namespace tessera::model {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr std::int64_t kWindowBytes = 1 << 16;
constexpr std::int64_t kHeadBytes = 512;
constexpr int kNestingMax = 100;  // the parser's own limit

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct KnownHead {
  std::int64_t offset;
  std::string_view bytes;
  std::string_view what;
};
constexpr std::array kKnownHeads = {
    KnownHead{0, "version https://git-lfs",
              "the file is a Git LFS pointer, not the model; fetch it with 'git lfs pull'"},
    KnownHead{0, "PK\x03\x04", "the file is a ZIP archive (perhaps a PyTorch model), not ONNX"},
    KnownHead{0, "\x89HDF\r\n", "the file is HDF5 (perhaps a Keras model), not ONNX"},
    KnownHead{0, "\x1F\x8B", "the file is compressed with gzip; unpack it first"},
    KnownHead{4, "TFL3", "the file is a TensorFlow Lite model, not ONNX"},
    KnownHead{4, "ORTM", "the file is in ONNX Runtime's own format, not ONNX"},
};

// What the first bytes say about the kind of file; empty if nothing.
std::string explain_head(const ByteSource& source) {
  std::string head;
  for (std::int64_t i = 0; i < std::min(source.size(), kHeadBytes); ++i) {
    const auto byte = source.at(i);
    if (!byte) break;
    head.push_back(static_cast<char>(*byte));
  }
  for (const KnownHead& known : kKnownHeads) {
    if (std::string_view(head)
            .substr(std::min<std::size_t>(known.offset, head.size()))
            .starts_with(known.bytes)) {
      return std::string(known.what);
    }
  }
  const bool printable = std::ranges::all_of(
      head, [](char c) { return (c >= 0x20 && c < 0x7F) || c == '\n' || c == '\r' || c == '\t'; });
  return printable && !head.empty() ? "the file is text, not an ONNX model" : std::string();
}

// Reads a varint at `offset` and moves it on; nothing if it does not end inside the range.
std::optional<std::uint64_t> read_varint(const ByteSource& source, std::int64_t& offset,
                                         std::int64_t end) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (offset >= end) return std::nullopt;
    const auto byte = source.at(offset++);
    if (!byte) return std::nullopt;
    value |= static_cast<std::uint64_t>(*byte & 0x7F) << shift;
    if ((*byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

struct Place {
  std::int64_t start;  // of the field's tag
  int depth;
};

class Walk {
 public:
  explicit Walk(const ByteSource& source) : source_(source) {}

  // The first thing wrong in `range`, or nothing. `path` is "graph.node".
  std::optional<std::string> message(const Descriptor& schema, Range range, const std::string& path,
                                     int depth) const {
    if (depth > kNestingMax) {
      return fmt::format("{} is nested more than {} messages deep", in_quotes(path), kNestingMax);
    }
    while (range.begin < range.end) {
      if (auto reason = field(schema, range, path, depth)) return reason;
    }
    return std::nullopt;
  }

 private:
  // Checks the field at range.begin and moves range.begin behind it.
  std::optional<std::string> field(const Descriptor& schema, Range& range, const std::string& path,
                                   int depth) const {
    const std::int64_t start = range.begin;
    const auto tag = read_varint(source_, range.begin, range.end);
    if (!tag) return cut_off(path, start);
    const auto number = static_cast<int>(std::min<std::uint64_t>(*tag >> 3, 1U << 30));
    const FieldDescriptor* descriptor = schema.FindFieldByNumber(number);
    const std::string name =
        path.empty() ? field_name(number, descriptor) : path + "." + field_name(number, descriptor);
    switch (*tag & 7) {
      case 0:
        if (!read_varint(source_, range.begin, range.end)) return cut_off(name, start);
        break;
      case 1:
        range.begin += 8;
        break;
      case 2:
        return length_delimited(descriptor, range, name, {start, depth});
      case 5:
        range.begin += 4;
        break;
      default:
        return no_field(path, start);
    }
    if (number == 0) return no_field(path, start);
    if (range.begin > range.end) return cut_off(name, start);
    return std::nullopt;
  }

  std::optional<std::string> length_delimited(const FieldDescriptor* descriptor, Range& range,
                                              const std::string& name, Place place) const {
    const auto [start, depth] = place;
    const auto length = read_varint(source_, range.begin, range.end);
    if (!length) return cut_off(name, start);
    const std::int64_t left = range.end - range.begin;
    if (*length > static_cast<std::uint64_t>(left)) {
      return fmt::format(
          "the file is cut off or damaged: field {} at byte {} says it has {}, {} "
          "left",
          in_quotes(name), start,
          count_text(static_cast<std::int64_t>(std::min<std::uint64_t>(
                         *length, std::numeric_limits<std::int64_t>::max())),
                     "byte"),
          left == 1 ? "1 is" : fmt::format("{} are", left));
    }
    const Range inner{range.begin, range.begin + static_cast<std::int64_t>(*length)};
    range.begin = inner.end;
    if (descriptor == nullptr || descriptor->type() != FieldDescriptor::TYPE_MESSAGE) {
      return std::nullopt;
    }
    return message(*descriptor->message_type(), inner, name, depth + 1);
  }

  static std::string field_name(int number, const FieldDescriptor* descriptor) {
    return descriptor != nullptr ? descriptor->name() : fmt::format("{}", number);
  }
  static std::string cut_off(const std::string& name, std::int64_t start) {
    return name.empty()
               ? fmt::format("the file is cut off or damaged at byte {}", start)
               : fmt::format("the file is cut off or damaged: field {} at byte {} does not end",
                             in_quotes(name), start);
  }
  static std::string no_field(const std::string& path, std::int64_t start) {
    return path.empty() ? fmt::format("the bytes from byte {} on are not ONNX", start)
                        : fmt::format("the bytes from byte {} on, in {}, are not ONNX", start,
                                      in_quotes(path));
  }

  const ByteSource& source_;  // outlives the walk
};

}  // namespace

std::optional<std::uint8_t> ByteSource::at(std::int64_t offset) const {
  if (offset < 0 || offset >= size_) return std::nullopt;
  const auto window_end = window_begin_ + static_cast<std::int64_t>(window_.size());
  if (offset < window_begin_ || offset >= window_end) {
    window_.resize(static_cast<std::size_t>(std::min(kWindowBytes, size_ - offset)));
    window_begin_ = offset;
    window_.resize(read_(offset, window_));
    if (window_.empty()) return std::nullopt;
  }
  return static_cast<std::uint8_t>(window_[static_cast<std::size_t>(offset - window_begin_)]);
}

std::string explain_parse_failure(const ByteSource& source, const Descriptor& schema) {
  if (std::string reason = explain_head(source); !reason.empty()) return reason;
  const Walk walk(source);
  if (auto reason = walk.message(schema, {0, source.size()}, "", 0)) return *reason;
  return fmt::format("the bytes are not an ONNX {}", schema.name());
}

}  // namespace tessera::model

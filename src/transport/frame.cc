#include "transport/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace tessera::transport {
namespace {

// Little-endian, whatever the machine.
template <typename T>
void store(std::byte* target, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    target[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
  }
}

template <typename T>
T load(const std::byte* source) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | (static_cast<T>(source[i]) << (8 * i)));
  }
  return value;
}

struct Head {
  std::uint32_t magic;
  FrameKind kind;
  std::uint8_t zero;
  std::uint16_t version;
  std::uint32_t buffers;
  std::uint32_t header_bytes;
  std::uint64_t buffer_bytes;
};

void write_head(std::byte* target, const Head& head) {
  store(target, head.magic);
  store(target + 4, static_cast<std::uint8_t>(head.kind));
  store(target + 5, head.zero);
  store(target + 6, head.version);
  store(target + 8, head.buffers);
  store(target + 12, head.header_bytes);
  store(target + 16, head.buffer_bytes);
}

Head read_head_of(const std::byte* source) {
  return {.magic = load<std::uint32_t>(source),
          .kind = static_cast<FrameKind>(load<std::uint8_t>(source + 4)),
          .zero = load<std::uint8_t>(source + 5),
          .version = load<std::uint16_t>(source + 6),
          .buffers = load<std::uint32_t>(source + 8),
          .header_bytes = load<std::uint32_t>(source + 12),
          .buffer_bytes = load<std::uint64_t>(source + 16)};
}

bool is_known(FrameKind kind) {
  return kind >= FrameKind::kGreeting && kind <= FrameKind::kFarewell;
}

}  // namespace

std::vector<std::byte> encode_signal(FrameKind kind) {
  std::vector<std::byte> bytes(kFrameHeadBytes);
  write_head(bytes.data(), {kFrameMagic, kind, 0, kProtocolVersion, 0, 0, 0});
  return bytes;
}

std::vector<std::byte> encode_message(ConstBytes header, std::span<const ConstBytes> buffers) {
  std::vector<std::byte> bytes(kFrameHeadBytes + 8 * buffers.size() + header.size());
  std::uint64_t sum = 0;
  std::byte* next = bytes.data() + kFrameHeadBytes;
  for (const ConstBytes buffer : buffers) {
    store(next, static_cast<std::uint64_t>(buffer.size()));
    next += 8;
    sum += buffer.size();
  }
  std::copy(header.begin(), header.end(), next);
  write_head(bytes.data(), {kFrameMagic, FrameKind::kMessage, 0, kProtocolVersion,
                            static_cast<std::uint32_t>(buffers.size()),
                            static_cast<std::uint32_t>(header.size()), sum});
  return bytes;
}

Status check_message(const Limits& limits, std::uint64_t header_bytes, std::uint64_t buffers,
                     std::uint64_t buffer_bytes) {
  const auto check = [](std::uint64_t found, std::uint64_t allowed, const char* what) -> Status {
    if (found <= allowed) return {};
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("a message with {} {}, allowed are {}", found, what, allowed)};
  };
  TESSERA_RETURN_IF_ERROR(check(header_bytes, limits.header_bytes, "bytes of header"));
  TESSERA_RETURN_IF_ERROR(check(buffers, limits.buffers, "buffers"));
  // One by one: the sum of what a peer says may not be a number any more.
  TESSERA_RETURN_IF_ERROR(check(buffer_bytes, limits.message_bytes, "bytes"));
  return check(header_bytes + buffer_bytes, limits.message_bytes, "bytes");
}

bool FrameParser::fill(ConstBytes& bytes, std::byte* target, std::size_t wanted) {
  const std::size_t count = std::min(bytes.size(), wanted - filled_);
  if (count > 0) std::memcpy(target + filled_, bytes.data(), count);
  bytes = bytes.subspan(count);
  filled_ += count;
  taken_ += count;
  return filled_ == wanted;
}

FrameEvent FrameParser::refuse(std::string found) {
  part_ = Part::kRefused;
  error_ = Error{ErrorCode::kInvalidArgument, std::move(found)};
  return FrameEvent::kRefused;
}

FrameEvent FrameParser::read_head() {
  const Head head = read_head_of(head_);
  if (head.magic != kFrameMagic) {
    return refuse(
        fmt::format("no frame of this protocol: it begins with {:08x}, expected is {:08x}",
                    head.magic, kFrameMagic));
  }
  if (head.version != kProtocolVersion) {
    return refuse(fmt::format("version {} of the protocol, this side has {}", head.version,
                              kProtocolVersion));
  }
  if (!is_known(head.kind) || head.zero != 0) {
    return refuse(
        fmt::format("a frame of kind {}, allowed are 1 to 4", static_cast<int>(head.kind)));
  }
  kind_ = head.kind;
  if (kind_ != FrameKind::kMessage) {
    if (head.buffers != 0 || head.header_bytes != 0 || head.buffer_bytes != 0) {
      return refuse("a signal with content, allowed is none");
    }
    part_ = Part::kSignal;
    return FrameEvent::kSignal;
  }
  const Status fits = check_message(limits_, head.header_bytes, head.buffers, head.buffer_bytes);
  if (!fits.ok()) return refuse(fits.error().message);
  total_ =
      kFrameHeadBytes + 8 * std::uint64_t{head.buffers} + head.header_bytes + head.buffer_bytes;
  buffer_bytes_ = head.buffer_bytes;
  sizes_.assign(head.buffers, 0);
  header_.resize(head.header_bytes);
  part_ = Part::kSizes;
  filled_ = 0;
  return FrameEvent::kMore;
}

FrameEvent FrameParser::read_sizes() {
  std::uint64_t left = buffer_bytes_;
  for (std::uint64_t& size : sizes_) {
    size = load<std::uint64_t>(reinterpret_cast<const std::byte*>(&size));
    if (size > left) return refuse("buffers with more bytes than the head of their message says");
    left -= size;
  }
  if (left != 0) return refuse("buffers with fewer bytes than the head of their message says");
  part_ = Part::kHeader;
  filled_ = 0;
  return FrameEvent::kMore;
}

FrameEvent FrameParser::feed(ConstBytes& bytes) {
  for (;;) {
    switch (part_) {
      case Part::kHead:
        if (!fill(bytes, head_, kFrameHeadBytes)) return FrameEvent::kMore;
        if (const FrameEvent event = read_head(); event != FrameEvent::kMore) return event;
        break;
      case Part::kSizes:
        if (!fill(bytes, reinterpret_cast<std::byte*>(sizes_.data()), 8 * sizes_.size())) {
          return FrameEvent::kMore;
        }
        if (const FrameEvent event = read_sizes(); event != FrameEvent::kMore) return event;
        break;
      case Part::kHeader:
        if (!fill(bytes, header_.data(), header_.size())) return FrameEvent::kMore;
        part_ = Part::kPlace;
        break;
      case Part::kPlace:
        return FrameEvent::kHead;
      case Part::kBuffers: {
        const MutableBytes open = open_buffer();
        const std::size_t count = std::min(bytes.size(), open.size());
        if (count > 0) std::memcpy(open.data(), bytes.data(), count);
        bytes = bytes.subspan(count);
        advance(count);
        if (part_ == Part::kBuffers && bytes.empty()) return FrameEvent::kMore;
        break;
      }
      case Part::kDone:
        return FrameEvent::kMessage;
      case Part::kSignal:
        return FrameEvent::kSignal;
      case Part::kRefused:
        return FrameEvent::kRefused;
    }
  }
}

IncomingHead FrameParser::head() const { return {.header = header_, .buffer_bytes = sizes_}; }

void FrameParser::place(Placement placement) {
  TESSERA_CHECK(part_ == Part::kPlace && placement.size() == sizes_.size(),
                "{} places for {} buffers", placement.size(), sizes_.size());
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    TESSERA_CHECK(placement[i].size() == sizes_[i], "{} bytes for a buffer of {}",
                  placement[i].size(), sizes_[i]);
  }
  placement_ = std::move(placement);
  part_ = Part::kBuffers;
  buffer_ = 0;
  filled_ = 0;
  skip_empty_buffers();
}

void FrameParser::skip_empty_buffers() {
  while (buffer_ < placement_.size() && filled_ == placement_[buffer_].size()) {
    ++buffer_;
    filled_ = 0;
  }
  if (buffer_ == placement_.size()) part_ = Part::kDone;
}

MutableBytes FrameParser::open_buffer() const {
  if (part_ != Part::kBuffers) return {};
  return placement_[buffer_].subspan(filled_);
}

void FrameParser::advance(std::size_t bytes) {
  TESSERA_CHECK(bytes <= open_buffer().size(), "{} bytes into {}", bytes, open_buffer().size());
  filled_ += bytes;
  taken_ += bytes;
  skip_empty_buffers();
}

void FrameParser::reset() {
  part_ = Part::kHead;
  filled_ = 0;
  taken_ = total_ = 0;
}

IncomingMessage FrameParser::take_message() {
  TESSERA_CHECK(part_ == Part::kDone, "no message is there");
  IncomingMessage message{.header = std::move(header_), .buffers = std::move(placement_)};
  header_ = {};
  placement_ = {};
  reset();
  return message;
}

FrameKind FrameParser::take_signal() {
  TESSERA_CHECK(part_ == Part::kSignal, "no signal is there");
  reset();
  return kind_;
}

}  // namespace tessera::transport

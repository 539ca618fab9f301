#include "tools/stream/message.h"

#include <fmt/format.h>

#include <string>

namespace tessera::tools {
namespace {

constexpr std::uint8_t kVersion = 1;

void put(std::span<std::byte> bytes, std::size_t at, std::uint32_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    bytes[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xFF);
  }
}

std::uint32_t get(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  }
  return value;
}

Error wrong(std::size_t at, const std::string& what) {
  return {ErrorCode::kInvalidArgument, fmt::format("byte {} of a message's header: {}", at, what)};
}

}  // namespace

std::array<std::byte, MessageHeader::kBytes> encode_message_header(const MessageHeader& header) {
  std::array<std::byte, MessageHeader::kBytes> bytes{};
  put(bytes, 0, 'T' | 'M' << 8, 2);
  put(bytes, 2, kVersion, 1);
  put(bytes, 3, static_cast<std::uint32_t>(header.kind), 1);
  put(bytes, 4, header.queue, 2);
  put(bytes, 6, static_cast<std::uint32_t>(header.control), 1);
  put(bytes, 8, header.payload_bytes, 4);
  put(bytes, 12, static_cast<std::uint32_t>(header.scalar), 4);
  return bytes;
}

Result<MessageHeader> decode_message_header(
    std::span<const std::byte, MessageHeader::kBytes> bytes) {
  if (get(bytes, 0, 2) != ('T' | 'M' << 8)) {
    return wrong(0, fmt::format("0x{:04x}, allowed 'TM'; vectors without headers are --framing raw",
                                get(bytes, 0, 2)));
  }
  if (get(bytes, 2, 1) != kVersion) {
    return wrong(2, fmt::format("version {}, allowed {}", get(bytes, 2, 1), kVersion));
  }
  if (get(bytes, 3, 1) > 1) {
    return wrong(3, fmt::format("kind {}, allowed 0 (vector), 1 (control)", get(bytes, 3, 1)));
  }
  MessageHeader header{.kind = static_cast<MessageKind>(get(bytes, 3, 1)),
                       .queue = static_cast<std::uint16_t>(get(bytes, 4, 2)),
                       .payload_bytes = get(bytes, 8, 4),
                       .scalar = static_cast<std::int32_t>(get(bytes, 12, 4))};
  const std::uint32_t control = get(bytes, 6, 1);
  const bool is_control = header.kind == MessageKind::kControl;
  if (is_control ? control < 1 || control > 3 : control != 0) {
    return wrong(
        6, fmt::format("control {}, allowed {}", control,
                       is_control ? "1 (begin), 2 (end), 3 (flush)" : "0 in a vector's message"));
  }
  header.control = static_cast<MessageControl>(control);
  if (get(bytes, 7, 1) != 0) return wrong(7, fmt::format("{}, allowed 0", get(bytes, 7, 1)));
  if (is_control && header.queue != 0) {
    return wrong(4, fmt::format("queue {}, allowed 0 in a control message", header.queue));
  }
  if (is_control && header.payload_bytes != 0) {
    return wrong(8, fmt::format("a payload of {} bytes, allowed 0 in a control message",
                                header.payload_bytes));
  }
  return header;
}

}  // namespace tessera::tools

// Messages of the network edge: a header of 16 bytes, little-endian, and its payload.
//
//   byte 0   'T' 'M'
//        2   version, 1
//        3   kind: 0 vector, 1 control
//        4   queue: the queue's number among those of its direction; 0 in control messages
//        6   control: 0 none, 1 begin, 2 end, 3 flush
//        7   0
//        8   bytes of the payload; 0 in control messages
//       12   a scalar, signed
//
// "Begin" starts anew what a program keeps from step to step, "end" is the last message, "flush" drops
// the vectors whose step is not complete. A vector's scalar is the sender's: results carry the scalar
// of the first vector of their step, and the time loop of a program may count by it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace tessera::tools {

enum class MessageKind : std::uint8_t { kVector = 0, kControl = 1 };
enum class MessageControl : std::uint8_t { kNone = 0, kBegin = 1, kEnd = 2, kFlush = 3 };

struct MessageHeader {
  static constexpr std::size_t kBytes = 16;
  MessageKind kind = MessageKind::kVector;
  std::uint16_t queue = 0;
  MessageControl control = MessageControl::kNone;
  std::uint32_t payload_bytes = 0;
  std::int32_t scalar = 0;

  bool operator==(const MessageHeader&) const = default;
};

std::array<std::byte, MessageHeader::kBytes> encode_message_header(const MessageHeader& header);
// Refuses what the table above does not have, and names the byte.
Result<MessageHeader> decode_message_header(
    std::span<const std::byte, MessageHeader::kBytes> bytes);

}  // namespace tessera::tools

// What goes between the processes of a cluster: a text (JSON) that says what it is, and bytes behind it.
//
//   "TSM1" | kind u16 | 0 u16 | id u64 | text bytes u32 | 0 u32 | body bytes u64 |  text  |  body
//
// All numbers are little-endian. A reply has the id of its request; who sends requests chooses ids, and each
// only once on a connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::cluster {

enum class MessageKind : std::uint16_t { kRequest = 1, kReply = 2, kError = 3 };

struct MessageHead {
  MessageKind kind = MessageKind::kRequest;
  std::uint64_t id = 0;
  std::uint32_t text_bytes = 0;
  std::uint64_t body_bytes = 0;
};
inline constexpr std::size_t kMessageHeadBytes = 32;

// What a peer may send.
struct MessageLimits {
  std::uint32_t text_bytes = 1 << 20;
  std::uint64_t body_bytes = std::uint64_t{1} << 33;
};

std::array<std::byte, kMessageHeadBytes> encode_head(const MessageHead& head);
// kInvalidModel: it is no head of a message, or says more bytes than the limits allow.
Result<MessageHead> parse_head(std::span<const std::byte, kMessageHeadBytes> bytes,
                               const MessageLimits& limits);

struct Message {
  std::string text;
  std::vector<std::byte> body;
};

// An error as the text of a message, and back: the same code and the same text. What is no error's text is an
// error that says so.
std::string error_text(const Error& error);
Error parse_error_text(const std::string& text);

}  // namespace tessera::cluster

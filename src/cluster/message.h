// What goes between the processes of a cluster: a text (JSON) that says what it is, and pieces of bytes behind it,
// mostly tensors. As messages of src/transport/: the text in the header, each piece a buffer.
//
//   header   kind u16 | 0 u16 | 0 u32 | id u64 | text
//   buffers  the pieces
//
// All numbers are little-endian. A reply has the id of its request; who sends requests chooses ids, and each
// only once on a connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::cluster {

enum class MessageKind : std::uint16_t { kRequest = 1, kReply = 2, kError = 3 };

inline constexpr std::size_t kMessageHeadBytes = 16;

struct MessageHeader {
  MessageKind kind = MessageKind::kRequest;
  std::uint64_t id = 0;
  std::string_view text = {};
};

// What a peer may send.
struct MessageLimits {
  std::size_t text_bytes = 1 << 20;
  std::uint64_t body_bytes = std::uint64_t{1} << 33;  // of all pieces
};

std::vector<std::byte> encode_header(const MessageHeader& header);
// The text lies in `bytes`. kInvalidModel: it is no header of a message, or there are more bytes than the limits
// allow.
Result<MessageHeader> parse_header(std::span<const std::byte> bytes, std::uint64_t body_bytes,
                                   const MessageLimits& limits);

// The pieces that came with a message. They may be written: nobody else reads them.
struct Body {
  std::vector<std::span<std::byte>> pieces = {};  // in the order in which they were sent
  std::shared_ptr<void> memory = {};              // where they lie; shared with nobody
};

struct Message {
  std::string text;
  Body body;
};

// An error as the text of a message, and back: the same code and the same text. What is no error's text is an
// error that says so.
std::string error_text(const Error& error);
Error parse_error_text(const std::string& text);

}  // namespace tessera::cluster

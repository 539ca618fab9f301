// What goes between the processes of a cluster: a text (JSON) that says what it is, and pieces of bytes behind it,
// mostly tensors. As messages of src/transport/: the text in the header, each piece a buffer.
//
//   header   kind u16 | minor u16 | major u16 | text is a piece u16 | id u64 | text
//   buffers  the pieces
//
// Peers of the same major version understand each other whatever their minor versions: what a newer one adds are
// members of texts, which an older one leaves alone. This header stays as it is in all major versions, so that each
// can say to the other which it is. Where "text is a piece" is 1, which only answers have, the text is too long for
// a header: it is the last piece.
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

inline constexpr std::uint16_t kProtocolMajor = 1, kProtocolMinor = 1;
inline constexpr std::size_t kMessageHeadBytes = 16;

struct MessageHeader {
  MessageKind kind = MessageKind::kRequest;
  std::uint64_t id = 0;
  std::string_view text = {};
  std::uint16_t minor = kProtocolMinor;  // of who sends it
  bool text_is_piece = false;            // the last one
};

// What a peer may send.
struct MessageLimits {
  std::size_t text_bytes = 1 << 20;                   // in a header
  std::uint64_t body_bytes = std::uint64_t{1} << 33;  // of all pieces
};

// Of a text that is a piece, in bytes: a status of many nodes.
inline constexpr std::uint64_t kTextPieceBytesMax = std::uint64_t{1} << 26;

std::vector<std::byte> encode_header(const MessageHeader& header);
// The text lies in `bytes`. kInvalidModel: it is no header of a message, or there are more bytes than the limits
// allow. kUnsupported: one of another major version, within the limits; how to get on is in the message.
Result<MessageHeader> parse_header(std::span<const std::byte> bytes, std::uint64_t body_bytes,
                                   const MessageLimits& limits);
// Of a header of whatever version; 0 of what is none.
std::uint64_t id_of_header(std::span<const std::byte> bytes);

// The pieces that came with a message. They may be written: nobody else reads them.
struct Body {
  std::vector<std::span<std::byte>> pieces = {};  // in the order in which they were sent
  std::shared_ptr<void> memory = {};              // where they lie; shared with nobody
};

// What came in one piece, or nothing. kInvalidArgument: there are more.
Result<std::span<const std::byte>> only_piece(const Body& body);

struct Message {
  std::string text;
  Body body;
};

// An error as the text of a message, and back: the same code and the same text. What is no error's text is an
// error that says so.
std::string error_text(const Error& error);
Error parse_error_text(const std::string& text);

}  // namespace tessera::cluster

// The bytes of a connection: frames, as docs/formats/message.md describes them. No socket and no
// clock; connections, tests and the fuzz target feed the parser alike.
//
//   head 24 bytes │ sizes 8 bytes a buffer │ header │ buffer 0 │ buffer 1 │ ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/limits.h"
#include "transport/message.h"

namespace tessera::transport {

enum class FrameKind : std::uint8_t {
  kGreeting = 1,  // the first frame of each side
  kMessage = 2,
  kAlive = 3,     // a sign of life
  kFarewell = 4,  // the sender closes: nothing follows
};

inline constexpr std::uint32_t kFrameMagic = 0x314d5354;  // "TSM1"
inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeadBytes = 24;

// A frame without content.
std::vector<std::byte> encode_signal(FrameKind kind);
// Everything of a message but its buffers.
std::vector<std::byte> encode_message(ConstBytes header, std::span<const ConstBytes> buffers);

// Whether a message is within the limits; `who` is in front of the error.
Status check_message(const Limits& limits, std::uint64_t header_bytes, std::uint64_t buffers,
                     std::uint64_t buffer_bytes);

enum class FrameEvent {
  kMore,     // everything fed was consumed, the frame goes on
  kSignal,   // take_signal()
  kHead,     // header and sizes of a message are there: place(), then feed on
  kMessage,  // take_message()
  kRefused,  // error(); nothing that follows can be read
};

// Not thread-safe. Keeps at most a header and the sizes of one message within the limits; the memory of
// buffers is the caller's.
class FrameParser {
 public:
  // The limits outlive the parser.
  explicit FrameParser(const Limits& limits) : limits_(limits) {}

  // Takes bytes up to the next event; `bytes` is moved on behind them. After kHead, kMessage and
  // kSignal nothing is consumed until the call that the event asks for.
  FrameEvent feed(ConstBytes& bytes);

  IncomingHead head() const;        // after kHead
  void place(Placement placement);  // after kHead: as many as there are buffers, each of its size
  IncomingMessage take_message();   // after kMessage, without memory
  FrameKind take_signal();          // after kSignal
  const Error& error() const { return *error_; }  // after kRefused

  // What is missing of the buffer that is being filled, to be written by the caller: bytes read in
  // there are told by advance(), and feed() then says what became of it. Empty where no buffer is being filled.
  MutableBytes open_buffer() const;
  void advance(std::size_t bytes);

  // Of the frame that has begun: bytes so far, and of all where that is known (else 0).
  bool is_inside() const { return taken_ > 0; }
  std::uint64_t taken_bytes() const { return taken_; }
  std::uint64_t frame_bytes() const { return total_; }

 private:
  enum class Part { kHead, kSizes, kHeader, kPlace, kBuffers, kDone, kSignal, kRefused };
  bool fill(ConstBytes& bytes, std::byte* target, std::size_t wanted);
  FrameEvent read_head();
  FrameEvent read_sizes();
  FrameEvent refuse(std::string found);
  void skip_empty_buffers();
  void reset();

  const Limits& limits_;
  Part part_ = Part::kHead;
  std::byte head_[kFrameHeadBytes] = {};
  std::size_t filled_ = 0;  // of the part
  std::uint64_t taken_ = 0, total_ = 0;
  FrameKind kind_ = FrameKind::kMessage;
  std::uint64_t buffer_bytes_ = 0;  // as the head says
  std::vector<std::uint64_t> sizes_;
  std::vector<std::byte> header_;
  Placement placement_;
  std::size_t buffer_ = 0;
  std::optional<Error> error_;
};

}  // namespace tessera::transport

// The bytes of a connection, as a peer sends them, through the parser with small limits: nothing beyond
// them is placed, and what was refused stays refused. The first byte says in which pieces they come, and
// whether buffers are filled in place.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "transport/address.h"
#include "transport/frame.h"

namespace {

using namespace tessera;
using namespace tessera::transport;

constexpr std::size_t kBuffersMax = 8, kHeaderMax = 64, kMessageMax = 1024;

// Memory for the message that is coming.
struct Memory {
  std::vector<std::vector<std::byte>> buffers;
  Placement place(const IncomingHead& head) {
    buffers.clear();
    std::size_t sum = head.header.size();
    for (const std::uint64_t size : head.buffer_bytes) sum += size;
    TESSERA_CHECK(head.header.size() <= kHeaderMax && head.buffer_bytes.size() <= kBuffersMax &&
                      sum <= kMessageMax,
                  "a message of {} bytes beyond the limits", sum);
    for (const std::uint64_t size : head.buffer_bytes) buffers.emplace_back(size);
    return {buffers.begin(), buffers.end()};
  }
};

bool handle(FrameParser& parser, FrameEvent event, Memory& memory) {
  switch (event) {
    case FrameEvent::kMore:
      return true;
    case FrameEvent::kSignal:
      (void)parser.take_signal();
      return true;
    case FrameEvent::kHead:
      parser.place(memory.place(parser.head()));
      return true;
    case FrameEvent::kMessage:
      TESSERA_CHECK(parser.take_message().buffers.size() == memory.buffers.size(), "buffers");
      return true;
    case FrameEvent::kRefused: {
      TESSERA_CHECK(!parser.error().message.empty(), "refused without a reason");
      ConstBytes none;
      TESSERA_CHECK(parser.feed(none) == FrameEvent::kRefused, "refused, and then not");
      return false;
    }
  }
  return true;
}

// As a connection reads: into the open buffer itself where there is one.
std::size_t fill_open_buffer(FrameParser& parser, ConstBytes bytes) {
  const MutableBytes open = parser.open_buffer();
  const std::size_t count = std::min(open.size(), bytes.size());
  std::copy_n(bytes.begin(), count, open.begin());
  parser.advance(count);
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  (void)parse_address({reinterpret_cast<const char*>(data), size});
  const Limits limits = {
      .header_bytes = kHeaderMax, .buffers = kBuffersMax, .message_bytes = kMessageMax};
  FrameParser parser(limits);
  Memory memory;
  const bool is_direct = (data[0] & 0x80) != 0;
  const std::size_t piece = std::size_t{1} << (data[0] % 11);
  ConstBytes left = std::as_bytes(std::span(data + 1, size - 1));
  while (!left.empty()) {
    if (is_direct && !parser.open_buffer().empty()) {
      left = left.subspan(fill_open_buffer(parser, left));
    }
    ConstBytes now = left.first(std::min(piece, left.size()));
    left = left.subspan(now.size());
    FrameEvent event;
    do {
      event = parser.feed(now);
      if (!handle(parser, event, memory)) return 0;
    } while (event != FrameEvent::kMore);
    TESSERA_CHECK(now.empty(), "bytes that nobody took");
  }
  return 0;
}

#include "transport/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>

namespace tessera::transport {
namespace {

ConstBytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<std::byte> encode(const std::string& header, const std::vector<std::string>& buffers) {
  std::vector<ConstBytes> parts;
  for (const std::string& buffer : buffers) parts.push_back(bytes_of(buffer));
  std::vector<std::byte> all = encode_message(bytes_of(header), parts);
  for (const ConstBytes part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct Received {
  std::string header;
  std::vector<std::string> buffers;
  friend bool operator==(const Received&, const Received&) = default;
};

// Feeds pieces of `piece` bytes; returns what came, and the error of a refusal at its end.
std::vector<Received> parse(const std::vector<std::byte>& all, std::size_t piece,
                            const Limits& limits, std::string* refusal = nullptr) {
  FrameParser parser(limits);
  std::vector<Received> received;
  std::vector<std::vector<std::byte>> memory;
  for (std::size_t at = 0; at < all.size(); at += piece) {
    ConstBytes left = ConstBytes(all).subspan(at, std::min(piece, all.size() - at));
    FrameEvent event;
    while ((event = parser.feed(left)) != FrameEvent::kMore) {
      if (event == FrameEvent::kRefused) {
        if (refusal) *refusal = parser.error().message;
        return received;
      }
      if (event == FrameEvent::kSignal) parser.take_signal();
      if (event == FrameEvent::kHead) {
        Placement placement;
        for (const std::uint64_t size : parser.head().buffer_bytes) {
          memory.emplace_back(size);
          placement.push_back(memory.back());
        }
        parser.place(std::move(placement));
      }
      if (event == FrameEvent::kMessage) {
        const IncomingMessage message = parser.take_message();
        Received each{
            .header = {reinterpret_cast<const char*>(message.header.data()), message.header.size()},
            .buffers = {}};
        for (const MutableBytes buffer : message.buffers) {
          each.buffers.emplace_back(reinterpret_cast<const char*>(buffer.data()), buffer.size());
        }
        received.push_back(each);
      }
    }
    EXPECT_TRUE(left.empty());
  }
  EXPECT_FALSE(parser.is_inside());
  return received;
}

TEST(Frame, MessagesComeOutAsTheyWentInWhateverThePieces) {
  std::vector<std::byte> all = encode_signal(FrameKind::kGreeting);
  const std::vector<Received> sent = {
      {"", {}}, {"h", {"", "ab", ""}}, {"head", {std::string(1000, 'x'), "y"}}, {"", {""}}};
  for (const Received& each : sent) {
    const std::vector<std::byte> one = encode(each.header, each.buffers);
    all.insert(all.end(), one.begin(), one.end());
    const std::vector<std::byte> alive = encode_signal(FrameKind::kAlive);
    all.insert(all.end(), alive.begin(), alive.end());
  }
  for (const std::size_t piece : {1U, 2U, 7U, 24U, 100U, 100'000U}) {
    EXPECT_EQ(parse(all, piece, {}), sent) << "in pieces of " << piece;
  }
}

TEST(Frame, TheBytesAreThoseOfTheFormatsPage) {
  const std::vector<std::byte> all = encode("hi", {"abc", "d"});
  const unsigned char expected[] = {
      'T', 'S', 'M', '1', 2, 0, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0, 4, 0,   0,   0,   0,   0,   0,
      0,   3,   0,   0,   0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'h', 'i', 'a', 'b', 'c', 'd'};
  ASSERT_EQ(all.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(all.data(), expected, sizeof expected), 0);
}

std::string refusal_of(const std::vector<std::byte>& all, const Limits& limits = {}) {
  std::string refusal;
  EXPECT_TRUE(parse(all, all.size(), limits, &refusal).empty());
  return refusal;
}

TEST(Frame, WhatIsNoFrameIsRefusedByName) {
  const auto changed = [](std::size_t at, unsigned char value) {
    std::vector<std::byte> all = encode("hi", {"abc", "d"});
    all[at] = std::byte{value};
    return all;
  };
  EXPECT_EQ(refusal_of(changed(0, 'G')),
            "no frame of this protocol: it begins with 314d5347, expected is 314d5354");
  EXPECT_EQ(refusal_of(changed(4, 9)), "a frame of kind 9, allowed are 1 to 4");
  EXPECT_EQ(refusal_of(changed(6, 2)), "version 2 of the protocol, this side has 1");
  EXPECT_EQ(refusal_of(changed(4, 3)), "a signal with content, allowed is none");
  EXPECT_EQ(refusal_of(changed(16, 3)),
            "buffers with more bytes than the head of their message says");
  EXPECT_EQ(refusal_of(changed(16, 5)),
            "buffers with fewer bytes than the head of their message says");
  // A size that wraps around in a sum.
  EXPECT_EQ(refusal_of(changed(31, 0xff)),
            "buffers with more bytes than the head of their message says");
}

TEST(Frame, LimitsAreCheckedBeforeAnythingIsAllocated) {
  const Limits limits{.header_bytes = 10, .buffers = 2, .message_bytes = 100};
  EXPECT_EQ(refusal_of(encode(std::string(11, 'h'), {}), limits),
            "a message with 11 bytes of header, allowed are 10");
  EXPECT_EQ(refusal_of(encode("", {"", "", ""}), limits),
            "a message with 3 buffers, allowed are 2");
  EXPECT_EQ(refusal_of(encode("", {std::string(101, 'x')}), limits),
            "a message with 101 bytes, allowed are 100");
  EXPECT_EQ(refusal_of(encode("h", {std::string(100, 'x')}), limits),
            "a message with 101 bytes, allowed are 100");
  std::vector<std::byte> huge = encode("", {"a"});
  for (std::size_t i = 16; i < 24; ++i) huge[i] = std::byte{0xff};
  EXPECT_EQ(refusal_of(huge, limits), "a message with 18446744073709551615 bytes, allowed are 100");
  std::string none;
  EXPECT_EQ(parse(encode(std::string(10, 'h'), {std::string(90, 'x')}), 7, limits, &none).size(),
            1U);
}

}  // namespace
}  // namespace tessera::transport

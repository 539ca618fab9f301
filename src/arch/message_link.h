// The time of messages at the network edge.
//
//   link ─► [ header | bytes at the port's rate ] ─► buffer ─► state buffer or kernel memory
//              while the core works: as far as there is room in the buffer
//
// A message occupies its port for message.header_cycles and its bytes at megabytes_per_second, and
// its last byte is in place `nanoseconds` later. Messages of a port follow each other; the sender
// always has the next one. Whole cycles: what comes in without a stop takes its bytes over the rate,
// rounded up.
#pragma once

#include <cstdint>
#include <deque>

#include "arch/chip_config.h"
#include "base/quantity.h"

namespace tessera {

// Cycles of the port for so many bytes, without a header, rounded up. `bytes` >= 0.
Cycles message_byte_cycles(const ChipConfig& chip, std::int64_t bytes);
// message.nanoseconds in cycles, rounded up.
Cycles message_latency(const ChipConfig& chip);
// Of `messages` messages one behind the other, of `bytes` bytes each.
Cycles message_port_cycles(const ChipConfig& chip, std::int64_t messages, std::int64_t bytes);

// One direction of one port: when the messages that tasks ask for have come in, or are gone.
class MessageLink {
 public:
  // `chip` is copied. `ahead`: bytes that come in before they are asked for; 0 for a port that sends.
  MessageLink(const ChipConfig& chip, std::int64_t ahead);

  // What a run begins with: at cycle 0 the first message begins to come in.
  void reset();
  // A run has ended at cycle `end`, and the next one begins: messages come as if there were no break.
  void go_on(Cycles end);
  // When one step's messages occupy the port and when they are in place.
  struct Times {
    Cycles taken = 0;  // the port is free for the next step, and the buffer's room with it
    Cycles done = 0;   // the last byte is in place, `nanoseconds` behind the link
  };
  // A step that begins at `now` takes the next `messages` messages of `bytes` bytes each. Steps are
  // asked for in order, none before the one before it has been taken. At least a cycle each.
  Times take(Cycles now, std::int64_t messages, std::int64_t bytes);

 private:
  // Moves the link's end by one message that may come in from `asked` on whatever the buffer holds.
  void receive(std::int64_t bytes, Cycles asked);
  // The byte up to which there is room at `at`, and when there is more; kNever: not before a step asks.
  std::int64_t room(Cycles at) const;
  Cycles next_room(Cycles at) const;

  const ChipConfig chip_;
  const std::int64_t ahead_;
  const Cycles latency_;
  Cycles link_free_ = 0;       // the end of the last message
  std::int64_t received_ = 0;  // bytes of all messages so far
  // Where steps were taken, and the bytes up to there: the room that they left.
  struct Release {
    Cycles at = 0;
    std::int64_t bytes = 0;
  };
  std::deque<Release> releases_;
  std::int64_t released_ = 0;  // before all of those
};

}  // namespace tessera

// Frames: what requests and data travel in, within a card and between cards.
//
//   n bytes ─► [ header | frame_bytes ] [ header | frame_bytes ] ... [ header | rest ]
//
//   frames(n)     = max(1, ceil(n / frame_bytes))      a request without data is a header
//   wire_bytes(n) = n + frames(n) * header_bytes
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/quantity.h"

namespace tessera::engines {

struct FrameSizes {
  std::int64_t frame_bytes = 1024;  // data of a frame, at least 1
  std::int64_t header_bytes = 16;   // at least 0
  Cycles unpack_cycles = 2;         // from a frame at the unit to its decision, pipelined
  Cycles pack_cycles = 2;           // from bytes or a decision to a frame, pipelined

  // Of `bytes` >= 0 of data.
  std::int64_t frames(std::int64_t bytes) const {
    return std::max<std::int64_t>(1, ceil_div(bytes, frame_bytes));
  }
  std::int64_t wire_bytes(std::int64_t bytes) const { return bytes + frames(bytes) * header_bytes; }
  // Of the last frame; the others are whole.
  std::int64_t last_wire_bytes(std::int64_t bytes) const {
    return header_bytes + bytes - (frames(bytes) - 1) * frame_bytes;
  }
};

// How long wires that move `bytes_per_cycle` are held, at least a cycle.
inline Cycles wire_cycles(std::int64_t wire_bytes, std::int64_t bytes_per_cycle) {
  return std::max<Cycles>(1, ceil_div(wire_bytes, bytes_per_cycle));
}

}  // namespace tessera::engines

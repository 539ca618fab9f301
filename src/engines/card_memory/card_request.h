// What a core asks of the card's memory, and what of it travels between groups.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/dram_request.h"
#include "base/quantity.h"
#include "engines/fifo.h"
#include "engines/memory/dram_port.h"

namespace tessera::engines {

inline constexpr int kGroupsMax = 16;
inline constexpr int kCoresMax = 64;  // of a card, so that a set of them is a word

// A set of cores of a card: bit group * (cores of a group) + core.
using CoreSet = std::uint64_t;
// A set of groups.
using GroupSet = std::uint32_t;

// Where on the card the cores and the memories of a program are, and what of them it may reach: base and
// limit are the same in each of its memories.
struct CardPlaces {
  std::uint32_t program = 0;        // a number among those on the card, below kCoresMax
  std::vector<std::uint8_t> core;   // of the card, by the program's core
  std::vector<std::uint8_t> group;  // by the program's memory
  std::int64_t base = 0;            // of the bytes that it may read and write, modelled addresses
  std::int64_t limit = INT64_MAX;   // one past the last of them

  CoreSet set_of(std::uint64_t cores) const {
    CoreSet set = 0;
    for (; cores != 0; cores &= cores - 1) {
      set |= CoreSet{1} << core[static_cast<std::size_t>(std::countr_zero(cores))];
    }
    return set;
  }
};

// Who wants the same bytes. Each member issues the requests of a share in the same order.
struct Share {
  std::uint32_t number = 0;    // 0: the request is not shared
  std::uint32_t sequence = 0;  // which of the share's requests, from 0
  CoreSet members = 0;
  std::uint32_t program = 0;  // whose number it is
  bool same_request(const Share& other) const {
    return number == other.number && sequence == other.sequence && program == other.program;
  }
};

struct CardRequest {
  DramRequest dram{};         // its grid outlives the request's completion
  int home = 0;               // the group whose channel holds the bytes
  int core = 0;               // of the card, that asked
  std::uint32_t program = 0;  // whose it is
  Share share{};              // of a read
  bool can_wait = false;      // the memory serves others first (bandwidth_controller.h)
  std::int64_t bytes() const { return dram.runs * dram.bytes; }
};

// A port of a core at its group's unit. Completions are times, in the order of the requests: a read has
// its last byte at the core then, a write is in its channel. The owner is woken for both.
struct CorePort {
  DramPort* port = nullptr;
  int core = 0;  // within its group; a core may have several ports, which share its wires
  // Of the program that the core runs; null: cores and groups have the numbers of the card.
  const CardPlaces* places = nullptr;
};

// A request that a program may not make, or shares of it that do not agree. It has ended without
// touching a memory, and its program is to be stopped.
struct MemoryException {
  std::uint32_t program = 0;
  std::string reason;  // "core 3 reads bytes 0x0 to 0x3f of memory 1, its own are 0x1000 to 0x1fff"
};

// What goes around the ring.
struct CardMessage {
  enum class Kind : std::uint8_t {
    kRequest,
    kData,
    kDone
  };  // a write's request has its data with it
  Kind kind = Kind::kRequest;
  int from = 0;
  GroupSet to = 0;
  std::int64_t bytes = 0;  // of data
  std::uint32_t program = 0;
  CardRequest request{};  // of kRequest, and what is answered
  CoreSet cores = 0;      // who asks
  // By group: the number under which it finds its requesters again.
  std::array<std::uint32_t, kGroupsMax> tickets{};
};

}  // namespace tessera::engines

// What a descriptor's header says beyond its nest: which engines share the task and how, what is
// reported of it, what its operands are for those who do not know its configuration, and where a card
// has its bytes. All of it has defaults, which mean what descriptors without an extended header mean.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera::isa {

// How the engines of a task share a step (arch/cost.h).
enum class Sharing : std::uint8_t {
  kAutomatic,  // the one that takes fewer cycles; broadcast if they are equal
  kBroadcast,  // each engine takes its own channel blocks of the same data; they begin a step
               // together
  kUnicast,    // each engine takes its own pixels and all channels; they begin on their own
};
inline constexpr std::array<std::string_view, 3> kSharingNames = {  // by number, as in texts
    "automatic", "broadcast", "unicast"};

// Engines [first, first + count) of the task's kind. A count of 0 is all of them, and first 0 then.
struct EngineSet {
  std::uint8_t first = 0, count = 0;
  bool all() const { return count == 0; }
  friend bool operator==(const EngineSet&, const EngineSet&) = default;
};

// Exceptions of the task's values that stop its network. Bits as in the descriptor.
struct Traps {
  static constexpr std::uint8_t kNan = 1, kInfinity = 2, kRange = 4, kSaturation = 8;
  static constexpr std::uint8_t kAll = 15;
  static constexpr std::array<std::string_view, 4> kNames = {"nan", "infinity", "range",
                                                             "saturation"};  // of bits 0, 1, ...
};
// For debuggers.
struct TaskDebug {
  static constexpr std::uint8_t kTrace = 1;  // the task is traced where tracing is by task
  static constexpr std::uint8_t kStop = 2;   // its network stops behind it
  static constexpr std::uint8_t kAll = 3;
  static constexpr std::array<std::string_view, 2> kNames = {"trace", "stop"};  // of bits 0, 1
};

// Registers of the configuration at which the first input surface and the output surface begin.
struct SurfaceRegisters {
  static constexpr std::uint16_t kImplied = 0xFFFF;  // as the kind of configuration implies
  std::uint16_t input = kImplied, output = kImplied;
  friend bool operator==(const SurfaceRegisters&, const SurfaceRegisters&) = default;
};

// Rows of the base-address table that the task reads from and writes to (isa::BaseIndex).
struct HeaderBases {
  static constexpr std::uint8_t kImplied = 0xFF;  // as the addresses in its registers say
  std::uint8_t source = kImplied, destination = kImplied;
  friend bool operator==(const HeaderBases&, const HeaderBases&) = default;
};

// On a card: in which of the program's memories (isa/card_program.h) lie the bytes of DRAM that the
// task reads and writes. Those of one task lie in one memory each.
struct TaskMemories {
  static constexpr std::uint8_t kOwn = 0xFF;  // the one beside the task's core
  std::uint8_t source = kOwn, destination = kOwn;
  friend bool operator==(const TaskMemories&, const TaskMemories&) = default;
};

// On a card: loads of several cores that are for the same bytes, in the same requests. What the cores
// have in common they have of `number`, from 1 on; 0: nobody shares the load. Bit c of `cores` is the
// program's core c; every core of the set has one task of that number, which loads.
struct LoadShare {
  std::uint32_t number = 0;
  std::uint64_t cores = 0;
  friend bool operator==(const LoadShare&, const LoadShare&) = default;
};

struct TaskHeader {
  EngineSet engines = {};
  Sharing sharing = Sharing::kAutomatic;
  std::uint8_t traps = 0;  // of Traps
  std::uint8_t debug = 0;  // of TaskDebug
  std::uint16_t tag = 0;   // any number, for the reports of traps and debuggers
  SurfaceRegisters surfaces = {};
  HeaderBases bases = {};
  TaskMemories memories = {};
  LoadShare share = {};
  friend bool operator==(const TaskHeader&, const TaskHeader&) = default;
};

}  // namespace tessera::isa

// What stands around a core on a card of many: groups, their load/save units, ring and network.
//
//            ┌────────── group 0 ──────────┐      ┌── group 1 ──┐
//   DRAM ─ bandwidth ─ load/save unit ─┬─ core 0  │ …           │
//          controller  unpack | pack   ├─ core 1  │             │
//                                │     └─ …       │             │
//                                └──── ring ──────┴──── ring ───┴───► group 0
//                                └──── network ⇄ other cards
//
// It decides nothing of what a core does, so packages know none of it; [dram] of the architecture
// file is the memory of one group.
#pragma once

#include <cstdint>

namespace tessera {

// The unit between a group's memory and its cores: requests and data travel in frames.
struct LoadSaveConfig {
  std::int32_t frame_bytes = 1024;  // data of a frame, a power of two
  std::int32_t header_bytes = 16;   // kind, core, address, length, sequence
  std::int32_t unpack_cycles = 2;
  std::int32_t pack_cycles = 2;
  std::int32_t port_bytes = 128;       // towards one core, a cycle
  std::int32_t broadcast_bytes = 128;  // of the bus to all cores of the group, a cycle
};

// Shares a group's memory channel between its ports in time slices.
struct BandwidthConfig {
  std::int32_t slice_cycles = 64;
};

// One-way, from each group to the next and from the last to the first.
struct RingConfig {
  std::int32_t bytes_per_cycle = 64;
  std::int32_t hop_cycles = 4;
};

// Between cards.
struct NetworkConfig {
  std::int32_t gigabits_per_second = 100;
  std::int32_t latency_nanoseconds = 2'000;  // of a message, beside its bytes
};

// How layers are shared out among cores: as the linker chooses, or all of them one way.
enum class CardSplit : std::int32_t { kAuto, kWidth, kChannels };

// Switches, each 0 or 1: what a plainer card does without.
struct CardFeatures {
  std::int32_t merge = 1;              // equal reads of a group cost one read of the memory
  std::int32_t broadcast = 1;          // and reach all who want them at once
  std::int32_t forward = 1;            // what other groups want goes around the ring
  std::int32_t dynamic_bandwidth = 1;  // only ports that ask have a part of the channel
  std::int32_t needed_bytes_only = 1;  // edges go to other cards, and not whole feature maps
  std::int32_t instruction_sync = 1;   // cores meet at rows, and not at the end of layers
  std::int32_t loads_beside_arithmetic = 1;
  std::int32_t hand_over = 1;  // what a core reads of its own stays in its state buffer
  CardSplit split = CardSplit::kAuto;
};

struct CardConfig {
  std::int32_t groups = 1;  // each with a memory as [dram] says
  std::int32_t cores_per_group = 1;
  std::int32_t sync_cycles = 4;  // news of a counter, to another core of the group
  LoadSaveConfig load_save;
  BandwidthConfig bandwidth;
  RingConfig ring;
  NetworkConfig network;
  CardFeatures features;

  std::int32_t cores() const { return groups * cores_per_group; }
};

inline constexpr std::int32_t kCardCoresMax = 64;

}  // namespace tessera

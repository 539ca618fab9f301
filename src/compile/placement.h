// Gives blocks of memory their addresses: blocks that live at the same time never overlap.
//
//   time ─►   ┌────┐
//   bytes     │ a  │┌───────┐
//             └────┘│   c   │      first fit, large and long-lived blocks first
//             ┌─────┴───┐───┘
//             │    b    │
//
// place_blocks() spreads blocks over the free room, so that tasks do not wait for each other's
// bytes; place_tightly() (placement_search.h) finds the least room they need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::compile {

struct PlacedBlock {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t first = 0, last = 0;  // lives at times [first, last]
  // Better not shared at these either (contains the life).
  std::int64_t wish_first = 0, wish_last = 0;
  bool early = false;        // placed before those that are not
  std::int64_t offset = -1;  // result
};

struct MemoryBounds {
  std::int64_t capacity = 0;
  std::int64_t alignment = 64;
  // Of each of the equal banks that the memory is cut into, if they have ports of their own; else 0.
  std::int64_t bank_bytes = 0;
};

// Sets every offset. If a block finds no room, returns its index; the others' offsets are then of
// no use. Where there are banks, blocks that live at the same time go to different ones, as far as
// every block finds room all the same, as many their wishes, and all together at most two banks more.
std::optional<std::size_t> place_blocks(std::vector<PlacedBlock>& blocks, MemoryBounds bounds);

// The obvious check: two blocks that overlap while both are alive, or a block out of bounds; as a
// sentence, empty if there is none. Compares each pair.
std::string find_overlap(const std::vector<PlacedBlock>& blocks, MemoryBounds bounds);
// The same for many blocks: compares those that live at the same time.
std::string find_overlap_indexed(const std::vector<PlacedBlock>& blocks, MemoryBounds bounds);

}  // namespace tessera::compile

#include "compile/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/quantity.h"

namespace tessera::compile {
namespace {

struct Placed {
  std::int64_t begin, end;   // bytes
  std::int64_t first, last;  // time
};

bool overlap(std::int64_t a_first, std::int64_t a_last, std::int64_t b_first, std::int64_t b_last) {
  return a_first <= b_last && b_first <= a_last;
}

// The lowest free offset at times [first, last], or -1.
std::int64_t lowest_fit(const std::vector<Placed>& placed, const Block& block, std::int64_t first,
                        std::int64_t last, MemoryBounds bounds) {
  std::int64_t at = 0;
  for (const Placed& other : placed) {  // ascending begin
    if (!overlap(other.first, other.last, first, last)) continue;
    if (other.begin >= at + block.bytes) break;
    at = std::max(at, round_up(other.end, bounds.alignment));
  }
  return at + block.bytes <= bounds.capacity ? at : -1;
}

}  // namespace

std::optional<std::size_t> place_blocks(std::vector<Block>& blocks, MemoryBounds bounds) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  const auto weight = [&](const Block& b) {
    return static_cast<double>(b.bytes) * static_cast<double>(b.last - b.first + 1);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (blocks[a].early != blocks[b].early) return blocks[a].early;
    return weight(blocks[a]) > weight(blocks[b]);
  });
  std::vector<Placed> placed;
  for (const std::size_t i : order) {
    Block& block = blocks[i];
    if (block.bytes == 0) {
      block.offset = 0;
      continue;
    }
    std::int64_t first = block.wish_first;
    std::int64_t last = block.wish_last;
    block.offset = lowest_fit(placed, block, first, last, bounds);
    if (block.offset < 0) {
      first = block.first;
      last = block.last;
      block.offset = lowest_fit(placed, block, first, last, bounds);
    }
    if (block.offset < 0) return i;
    const Placed entry{block.offset, block.offset + block.bytes, first, last};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), entry,
                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
        entry);
  }
  return std::nullopt;
}

std::string find_overlap(const std::vector<Block>& blocks, MemoryBounds bounds) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& a = blocks[i];
    if (a.bytes == 0) continue;
    if (a.offset < 0 || a.offset % bounds.alignment != 0 || a.offset + a.bytes > bounds.capacity) {
      return fmt::format("'{}' at {} with {} bytes is out of {}", a.name, a.offset, a.bytes,
                         bounds.capacity);
    }
    for (std::size_t j = 0; j < i; ++j) {
      const Block& b = blocks[j];
      if (b.bytes == 0 || !overlap(a.first, a.last, b.first, b.last)) continue;
      if (a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) {
        return fmt::format("'{}' and '{}' overlap at byte {}", a.name, b.name,
                           std::max(a.offset, b.offset));
      }
    }
  }
  return {};
}

}  // namespace tessera::compile

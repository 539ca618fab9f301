#include "compile/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/quantity.h"
#include "compile/life_index.h"

namespace tessera::compile {
namespace {

Life wish_of(const PlacedBlock& block) { return {block.wish_first, block.wish_last}; }
Life life_of(const PlacedBlock& block) { return {block.first, block.last}; }

// Blocks with an offset, by the time at which they are kept to themselves.
class Placed {
 public:
  Placed(const std::vector<PlacedBlock>& blocks, MemoryBounds bounds)
      : blocks_(blocks), bounds_(bounds), index_(wishes(blocks)) {}

  // The lowest free offset for block `i` during `life`, or -1.
  std::int64_t lowest_fit(std::size_t i, Life life) {
    beside_ = index_.find(life);
    std::sort(beside_.begin(), beside_.end(),
              [&](std::size_t a, std::size_t b) { return blocks_[a].offset < blocks_[b].offset; });
    std::int64_t at = 0;
    for (const std::size_t j : beside_) {
      const PlacedBlock& other = blocks_[j];
      if (other.offset >= at + blocks_[i].bytes) break;
      at = std::max(at, round_up(other.offset + other.bytes, bounds_.alignment));
    }
    return at + blocks_[i].bytes <= bounds_.capacity ? at : -1;
  }
  void insert(std::size_t i, Life life) { index_.insert(i, life); }

 private:
  static std::vector<Life> wishes(const std::vector<PlacedBlock>& blocks) {
    std::vector<Life> lives;
    for (const PlacedBlock& block : blocks) lives.push_back(wish_of(block));
    return lives;
  }

  const std::vector<PlacedBlock>& blocks_;
  const MemoryBounds bounds_;
  LifeIndex index_;
  std::vector<std::size_t> beside_;
};

std::string out_of_bounds(const PlacedBlock& a, MemoryBounds bounds) {
  if (a.bytes == 0 || (a.offset >= 0 && a.offset % bounds.alignment == 0 &&
                       a.offset + a.bytes <= bounds.capacity)) {
    return {};
  }
  return fmt::format("'{}' at {} with {} bytes is out of {}", a.name, a.offset, a.bytes,
                     bounds.capacity);
}

std::string overlap_of(const PlacedBlock& a, const PlacedBlock& b) {
  if (a.bytes == 0 || b.bytes == 0 || !life_of(a).overlaps(life_of(b))) return {};
  if (a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes) return {};
  return fmt::format("'{}' and '{}' overlap at byte {}", a.name, b.name,
                     std::max(a.offset, b.offset));
}

}  // namespace

std::optional<std::size_t> place_blocks(std::vector<PlacedBlock>& blocks, MemoryBounds bounds) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  const auto weight = [&](const PlacedBlock& b) {
    return static_cast<double>(b.bytes) * static_cast<double>(b.last - b.first + 1);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (blocks[a].early != blocks[b].early) return blocks[a].early;
    return weight(blocks[a]) > weight(blocks[b]);
  });
  Placed placed(blocks, bounds);
  for (const std::size_t i : order) {
    PlacedBlock& block = blocks[i];
    if (block.bytes == 0) {
      block.offset = 0;
      continue;
    }
    Life life = wish_of(block);
    block.offset = placed.lowest_fit(i, life);
    if (block.offset < 0) {
      life = life_of(block);
      block.offset = placed.lowest_fit(i, life);
    }
    if (block.offset < 0) return i;
    placed.insert(i, life);
  }
  return std::nullopt;
}

std::string find_overlap(const std::vector<PlacedBlock>& blocks, MemoryBounds bounds) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (auto found = out_of_bounds(blocks[i], bounds); !found.empty()) return found;
    for (std::size_t j = 0; j < i; ++j) {
      if (auto found = overlap_of(blocks[i], blocks[j]); !found.empty()) return found;
    }
  }
  return {};
}

std::string find_overlap_indexed(const std::vector<PlacedBlock>& blocks, MemoryBounds bounds) {
  std::vector<Life> lives;
  for (const PlacedBlock& block : blocks) lives.push_back(life_of(block));
  LifeIndex index(lives);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (auto found = out_of_bounds(blocks[i], bounds); !found.empty()) return found;
    for (const std::size_t j : index.find(lives[i])) {
      if (auto found = overlap_of(blocks[i], blocks[j]); !found.empty()) return found;
    }
    index.insert(i, lives[i]);
  }
  return {};
}

}  // namespace tessera::compile

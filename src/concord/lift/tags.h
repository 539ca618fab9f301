// Shadow memories: in place of bytes they hold tags, which say what value lies there.
//
//   memory     [ 3f 80 | 40 11 | 00 00 ]        tags     [ (conv1, 17) | (conv1, 18) | (fill, 0) ]
//
// A granule is the largest piece of memory that every element and address of the program is a
// multiple of (2 bytes in a program of f16). A tag names a value and the granule of it that lies
// there, counted in the value's dense order. Moves of bytes move tags; only work on the numbers
// makes new ones.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "arch/chip_config.h"
#include "isa/program.h"

namespace tessera::concord {

// A value in the upper half, a granule of it in the lower.
using Tag = std::uint64_t;
using LiftedValue = std::uint32_t;

inline constexpr LiftedValue kNothing = 0;  // not written
inline constexpr LiftedValue kFill = 1;     // the lower half holds the bits themselves
inline constexpr LiftedValue kWeights = 2;  // a granule of the weight region
inline constexpr LiftedValue kFirstValue = 3;

constexpr Tag make_tag(LiftedValue value, std::uint64_t granule) {
  return Tag{value} << 32 | (granule & 0xFFFFFFFFu);
}
constexpr LiftedValue tag_value(Tag tag) { return static_cast<LiftedValue>(tag >> 32); }
constexpr std::int64_t tag_granule(Tag tag) { return static_cast<std::int64_t>(tag & 0xFFFFFFFFu); }
constexpr bool is_constant(Tag tag) {
  return tag_value(tag) == kFill || tag_value(tag) == kWeights;
}

// Tags of a memory, none at first. What is never touched costs no memory.
class TagMemory {
 public:
  TagMemory() = default;
  explicit TagMemory(std::int64_t granules)
      : tags_(static_cast<Tag*>(std::calloc(static_cast<std::size_t>(granules) + 1, sizeof(Tag)))) {
    if (tags_ == nullptr) throw std::bad_alloc();
  }
  Tag* at(std::int64_t granule) { return tags_.get() + granule; }

 private:
  struct Free {
    void operator()(Tag* tags) const { std::free(tags); }
  };
  std::unique_ptr<Tag[], Free> tags_;
};

// A BufferSurface's image in a shadow memory, in granules.
struct TagSurface {
  Tag* base = nullptr;
  std::int64_t partitions = 1, partition_pitch = 0, block_pitch = 0, row_pitch = 0;
  std::int64_t column_pitch = 0, row_origin = 0, ring_rows = 1;

  Tag* row(std::int64_t channel, std::int64_t row_index) const {
    return base + channel % partitions * partition_pitch + channel / partitions * block_pitch +
           (row_origin + row_index) % ring_rows * row_pitch;
  }
};

// The tag of the element whose granules begin at `at`, or one of these.
inline constexpr Tag kUnwritten = 0;
inline constexpr Tag kTorn = 1;  // its granules belong to different elements

// All memories of a core while a program's tags go through them.
class ShadowCore {
 public:
  ShadowCore(const isa::Program& program, const ChipConfig& chip);

  std::int64_t granule_bytes() const { return granule_bytes_; }
  std::int64_t granules(Format format) const { return format_bytes(format) / granule_bytes_; }

  TagSurface surface(const isa::BufferSurface& surface, std::int64_t image);
  // Weights have no memory of their own; see load().
  Tag* dram(const isa::DramAddress& address, std::int64_t byte_offset = 0) {
    return dram_[static_cast<std::size_t>(address.base)].at(
        (static_cast<std::int64_t>(address.offset) + byte_offset) / granule_bytes_);
  }
  // The tag of one granule of DRAM.
  Tag load(const isa::DramAddress& address, std::int64_t byte_offset) {
    if (address.base != isa::BaseIndex::kWeights) return *dram(address, byte_offset);
    const std::int64_t byte = static_cast<std::int64_t>(address.offset) + byte_offset;
    return make_tag(kWeights, static_cast<std::uint64_t>(byte / granule_bytes_));
  }
  // Puts granules 0, 1, ... of `value` densely at the slot.
  void write_slot(const isa::TensorSlot& slot, LiftedValue value);
  std::vector<Tag> read_slot(const isa::TensorSlot& slot);

  Tag element(const Tag* at, std::int64_t granules) {
    return granules == 1 ? *at : wide_element(at, granules);
  }
  // Bits of an element whose tag is a fill.
  std::uint64_t fill_bits(Tag tag, std::int64_t granules) const;

 private:
  Tag wide_element(const Tag* at, std::int64_t granules);

  std::int64_t partitions_, granule_bytes_, partition_pitch_;
  TagMemory state_buffer_;
  TagMemory dram_[isa::kBaseIndexCount];
  std::vector<std::uint64_t> long_fills_;  // of elements of 64 bits
};

// The granule of a program, in bytes: 1, 2 or 4.
std::int64_t granule_bytes(const isa::Program& program);

}  // namespace tessera::concord

// Loads of a part of a storage are cut into some from one memory each, where the memories of a card have what
// their cores made: by rows, and rows that lie in several memories by channels, columns, or both.
//
//   memory 0 │ r0 r1 │            by rows: r0, r1 of memory 0, r2, r3 of memory 1
//   memory 1 │ r2 r3 │            by channels: every channel has rows of both, so that this does not work
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "compile/storage.h"

namespace tessera::compile {

// The memories of elements of what is read that lie apart: of the first, middle and last of its channels,
// rows and columns, a digit to the base of 3 each, the columns' last.
inline constexpr std::uint8_t kNoMemory = 255;  // nobody writes it
using SampleMemories = std::array<std::uint8_t, 27>;

// What a core writes, and its memory. The view's strides are multiples of each other, or its axes lie apart.
class WrittenView {
 public:
  WrittenView(const StorageView& view, std::size_t memory);

  bool has(std::int64_t element) const;
  std::uint8_t memory() const { return memory_; }

 private:
  struct Axis {
    std::int64_t stride = 1, steps = 0;
  };
  std::array<Axis, 4> axes_;  // longest strides first
  std::size_t axis_count_ = 0;
  std::int64_t first_ = 0, last_ = 0;
  std::uint8_t memory_ = kNoMemory;
};

// Axes of one element have one sample.
SampleMemories sample_memories(const StorageView& read, const std::vector<WrittenView>& written);
// Into about how many loads that of what has the samples is cut; 0: it cannot be. `rows`: rows may be loaded
// by tasks of their own.
std::int64_t loads_of_one_memory_each(const SampleMemories& samples, bool rows);
// Rows that lie in several memories are loaded in so many bands at most: nobody waits for the last rows of
// one memory to have the first ones of all.
inline constexpr std::int64_t kBandsOfSeveralMax = 8;

// What is read of a storage by loads, or copies, that are cut: bytes by all cores, of a layer no more than each
// byte once for each memory; and of each core how many more there are than without.
struct CutReads {
  double bytes = 0;
  std::vector<std::int64_t> more = {};
};
// Whether a storage of so many bytes lies better in one memory, which writes and reads it for all cores, than in
// all of them: tasks of a core begin one behind the other.
bool better_in_one_memory(const ChipConfig& chip, std::size_t memories, double bytes,
                          const CutReads& reads);

}  // namespace tessera::compile

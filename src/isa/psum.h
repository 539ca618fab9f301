// Sums that outlive a task: a product whose terms come in parts keeps them in PSUM.
//
//   task 0 ─► sums, + bias ─► [ PSUM entries ] ─► task 1: + its products ─► ... ─► post-processor
//     keeps                                        continues, keeps                 continues
//
// An engine's PSUM has a partition for each column of the array, with neural.psum_banks *
// neural.psum_bank_columns entries of one sum each. Output channel c of a group lies in partition
// c % C of channel block c / C; from `first` on come, group by group, the channel blocks that the
// engine has (EngineShare), each with its images, rows and columns:
//
//   entry = first + (group * blocks of the engine + block) * pixels + (image * rows + row) * columns + column
//
// Other products take all of PSUM, bank after bank, so sums last until the next task of the engine
// that is no part at these entries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// Of each partition of an engine's PSUM.
std::int64_t psum_entries(const ChipConfig& chip);

// Where the sums of a task in parts lie in the PSUM of each of its engines.
struct PsumLayout {
  std::int64_t first = 0;
  std::int64_t engines = 1;  // that share the task's channel blocks
  std::int64_t blocks = 1;   // of a group, on engine 0, which has the most
  std::int64_t groups = 1;
  std::int64_t pixels = 1;  // of all images
  std::int64_t columns = 1, rows = 1;
  std::int64_t array_columns = 1;

  std::int64_t last() const { return first + groups * blocks * pixels; }
  struct Place {
    std::int64_t engine = 0, entry = 0, partition = 0;
  };
  // Of output channel `channel` of all groups, `of_group` of them in each.
  Place place(std::int64_t channel, std::int64_t of_group, std::int64_t pixel) const;
  std::int64_t pixel(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return (image * rows + row) * columns + column;
  }
};
PsumLayout psum_layout(const TaskDescriptor& task, const ChipConfig& chip);

// What must hold of a part by itself: a product on a weight-stationary array, whose parts add up to
// the bits of the whole product (docs/formats/program.md), and entries that there are.
Status check_psum(const TaskDescriptor& task, const ChipConfig& chip);

// Who has which entries of PSUM, for tasks in the order in which engines begin them.
class PsumOwners {
 public:
  explicit PsumOwners(const ChipConfig& chip);

  // Takes the task; `network` is any number of its network. Returns what is wrong with the sums that it
  // goes on with, or "". The task outlives the object.
  std::string begin(const TaskDescriptor& task, std::uint32_t network);
  // A task whose sums wait for the next part; null if there is none.
  const TaskDescriptor* open() const;

 private:
  struct Owner {
    std::int64_t first = 0, last = 0;
    const TaskDescriptor* task = nullptr;
    std::uint32_t network = 0;
  };
  std::string wrong_with(std::int64_t engine, const PsumLayout& layout, const TaskDescriptor& task,
                         std::uint32_t network) const;

  const ChipConfig& chip_;
  std::vector<std::vector<Owner>> engines_;  // of each the owners, apart from each other
};

}  // namespace tessera::isa

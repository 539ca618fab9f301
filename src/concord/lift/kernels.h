// Stationary operands: real bytes, read back from the weight region by way of the kernel memory.
#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "concord/lift/groups.h"
#include "isa/program.h"

namespace tessera::concord {

// What belongs to a product's output channels, all of them.
struct StationaryOperand {
  std::vector<std::byte> weights;  // [output channel][channel][tap]; empty where it is computed
  std::vector<std::byte> bias;
  std::vector<float> multipliers;
  std::vector<std::int32_t> zero_points;
  // By the first output channel of a slice and its first channel of the sum: what the kernel memory held
  // for it.
  std::map<std::pair<std::int64_t, std::int64_t>, std::array<std::int64_t, 6>> slices;
};

// The kernel memory, and which load wrote each of its bytes.
class KernelShadow {
 public:
  KernelShadow(const isa::Program& program, const ChipConfig& chip);

  Status load(isa::TaskId id);
  // Adds a task's slice to its group's operand. False if the slice is there with other values.
  bool take(const Group& group, const TaskPlace& place, const isa::NeuralTask& task,
            StationaryOperand& operand);

 private:
  std::array<std::int64_t, 6> identity_of(const isa::NeuralTask& task) const;
  std::int64_t writer_of(std::int64_t first, std::int64_t bytes) const;
  const std::byte* at(std::int64_t partition, std::int64_t offset) const {
    return bytes_.data() + partition * pitch_ + offset;
  }
  void read_vector(std::int64_t offset, std::int64_t count, std::int64_t element,
                   std::byte* to) const;
  StationaryOperand read(const isa::NeuralTask& task) const;

  const isa::Program& program_;
  std::int64_t rows_, pitch_;
  std::vector<std::byte> bytes_;
  std::vector<std::int64_t> writers_;  // of each byte of a partition; -1: none
  // Loads that put the same bytes at the same place have one number.
  std::map<std::vector<std::uint32_t>, std::int64_t> loads_;
};

}  // namespace tessera::concord

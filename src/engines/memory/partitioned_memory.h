// A memory of P partitions side by side: the state buffer and the kernel memory.
//
//   partition 0  [ bytes_per_partition ........ ]
//   partition 1  [ ............................ ]      channel c lies in partition c % P
//
// Partitions lie an odd number of cache lines apart in the host's memory, so that walking down the
// channels does not hit one cache set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "arith/kernels/surface.h"
#include "arith/kernels/weights/kernel_image.h"
#include "isa/descriptor.h"

namespace tessera::engines {

class PartitionedMemory {
 public:
  PartitionedMemory(std::int64_t partitions, std::int64_t bytes_per_partition);

  std::int64_t partitions() const { return partitions_; }
  std::int64_t bytes_per_partition() const { return bytes_; }
  std::int64_t pitch() const { return pitch_; }
  std::byte* at(std::int64_t partition, std::int64_t offset) {
    return data_.get() + partition * pitch_ + offset;
  }
  const std::byte* at(std::int64_t partition, std::int64_t offset) const {
    return data_.get() + partition * pitch_ + offset;
  }
  KernelImageView image(std::int64_t offset) const { return {at(0, offset), pitch_}; }

  // Zeros, as at power-up, in bytes [first, first + bytes) of every partition.
  void clear(std::int64_t first, std::int64_t bytes);

  // One image of a buffer surface, channels counted from `channel_first`: a multiple of P, unless
  // only channels of the same block are used.
  Surface surface(const isa::BufferSurface& surface, std::int64_t image,
                  std::int64_t channel_first = 0);

 private:
  struct GiveBack {
    void operator()(std::byte* taken) const;
    std::size_t bytes;
  };
  std::size_t size() const { return static_cast<std::size_t>(partitions_ * pitch_); }

  std::int64_t partitions_, bytes_, pitch_;
  std::unique_ptr<std::byte, GiveBack> data_;  // zero at power-up
};

}  // namespace tessera::engines

// How a block of a storage lies in the state buffer: channels on partitions, everything else dense
// along a partition; and how any view of that block is described to an engine.
#pragma once

#include <cstdint>
#include <optional>

#include "compile/axis_map.h"
#include "compile/storage.h"
#include "program/descriptor.h"

namespace tessera::compile {

// A surface, and the channel of it that the view's first channel is.
struct MappedSurface {
  program::BufferSurface surface;  // offset counts from the block's first byte
  std::int64_t channel_first = 0;  // 0 unless the view begins within a channel block
};

class BufferLayout {
 public:
  BufferLayout() = default;
  // The block that `view` names; broadcast axes are held once. `partitions` is P.
  BufferLayout(const StorageView& view, Format format, std::int64_t partitions);

  // Bytes a partition.
  std::int64_t bytes() const { return bytes_; }
  StorageIndex storage() const { return storage_; }
  std::int64_t partitions() const { return partitions_; }
  // The view as a surface; none where it leaves the block, or an engine cannot walk it.
  std::optional<MappedSurface> map(const StorageView& view) const;

 private:
  StorageIndex storage_ = -1;
  Format format_ = Format::kF16;
  std::int64_t partitions_ = 1;
  std::int64_t origin_ = 0;  // storage element of the block's first
  std::int64_t channels_ = 1;
  std::int64_t block_pitch_ = 0;
  std::int64_t bytes_ = 0;
  AxisMap map_;  // storage elements to channel * kChannelUnit + byte
};

// Bytes a partition that `view` takes in the state buffer.
std::int64_t view_bytes(const StorageView& view, Format format, std::int64_t partitions);

}  // namespace tessera::compile

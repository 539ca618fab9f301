// How a block of a storage lies in the state buffer: channels on partitions, everything else dense
// along a partition; and how any view of that block is described to an engine.
//
// A ring holds some rows of its view only: row r lies in place r mod ring rows. An engine follows
// the ring from its first place on; other views have to end before it wraps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compile/axis_map.h"
#include "compile/storage.h"
#include "isa/descriptor.h"

namespace tessera::compile {

// A surface, and the channel of it that the view's first channel is.
struct MappedSurface {
  isa::BufferSurface surface;      // offset counts from the block's first byte
  std::int64_t channel_first = 0;  // 0 unless the view begins within a channel block
};

// Part of one axis of a view that walks evenly through a block.
struct LayoutStep {
  std::size_t axis = 0;  // of the view
  std::int64_t extent = 1;
  std::int64_t stride = 0;    // in elements of the storage
  std::int64_t channels = 0;  // a step; 0: it stays within a partition
};

class BufferLayout {
 public:
  BufferLayout() = default;
  // The block that `view` names; broadcast axes are held once. `partitions` is P. With `ring_rows`
  // below the view's rows (it has one image then) the block is a ring.
  BufferLayout(const StorageView& view, Format format, std::int64_t partitions,
               std::int64_t ring_rows = 0);

  // Bytes a partition.
  std::int64_t bytes() const { return bytes_; }
  StorageIndex storage() const { return storage_; }
  std::int64_t partitions() const { return partitions_; }
  // The view as a surface; none where it leaves the block, or an engine cannot walk it.
  std::optional<MappedSurface> map(const StorageView& view) const;
  // The view's axes (without those of extent 1 and broadcasts) as even steps, the outer part of a
  // split axis first; none where the view leaves the block or an axis cannot be split.
  std::optional<std::vector<LayoutStep>> steps(const StorageView& view) const;

 private:
  bool enter_ring(const StorageView& view, std::int64_t row_pitch,
                  isa::BufferSurface& surface) const;

  StorageIndex storage_ = -1;
  Format format_ = Format::kF16;
  std::int64_t partitions_ = 1;
  std::int64_t origin_ = 0;  // storage element of the block's first
  std::int64_t channels_ = 1;
  std::int64_t block_pitch_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t row_pitch_ = 0;
  std::int64_t ring_rows_ = 0;  // 0: all rows are held
  AxisMap map_;                 // storage elements to channel * kChannelUnit + byte
};

// Bytes a partition that `view` takes in the state buffer.
std::int64_t view_bytes(const StorageView& view, Format format, std::int64_t partitions);

}  // namespace tessera::compile

#include "engines/memory/partitioned_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/quantity.h"

namespace tessera::engines {
namespace {

constexpr std::int64_t kCacheLine = 64;

// Zero, and without a page until it is written to. calloc() hands out mappings too, but once one has been
// freed it clears memory of its heap instead: a card of 64 cores then begins with gigabytes of writing.
// The address sanitizer watches the ends of what calloc() gives alone.
std::byte* take_zeros(std::size_t bytes) {
#ifdef TESSERA_SANITIZED
  void* const taken = std::calloc(bytes, 1);
  if (taken == nullptr) throw std::bad_alloc();
#else
  void* const taken =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (taken == MAP_FAILED) throw std::bad_alloc();
#endif
  return static_cast<std::byte*>(taken);
}

std::int64_t odd_lines(std::int64_t bytes) {
  return ((ceil_div(bytes, kCacheLine) + 3) | 1) * kCacheLine;
}

}  // namespace

PartitionedMemory::PartitionedMemory(std::int64_t partitions, std::int64_t bytes_per_partition)
    : partitions_(partitions),
      bytes_(bytes_per_partition),
      pitch_(odd_lines(bytes_per_partition)),
      data_(take_zeros(size()), GiveBack{size()}) {}

void PartitionedMemory::GiveBack::operator()(std::byte* taken) const {
#ifdef TESSERA_SANITIZED
  std::free(taken);
#else
  munmap(taken, bytes);
#endif
}

void PartitionedMemory::clear(std::int64_t first, std::int64_t bytes) {
#ifndef TESSERA_SANITIZED
  // All of it: the pages go back, and those that nobody has written to are not written now.
  if (bytes == bytes_ && madvise(data_.get(), size(), MADV_DONTNEED) == 0) return;
#endif
  for (std::int64_t partition = 0; partition < partitions_; ++partition) {
    std::fill_n(at(partition, first), bytes, std::byte{0});
  }
}

Surface PartitionedMemory::surface(const isa::BufferSurface& surface, std::int64_t image,
                                   std::int64_t channel_first) {
  Surface view;
  view.base = at(0, surface.offset);
  view.format = surface.format;
  view.channels = surface.channels - channel_first;
  view.rows = surface.rows;
  view.columns = surface.columns;
  view.partitions = partitions_;
  view.partition_pitch = pitch_;
  view.block_pitch = surface.block_pitch;
  view.row_pitch = surface.row_pitch;
  view.column_pitch = surface.column_pitch;
  view.row_origin = surface.broadcast_images ? 0 : image * surface.rows;
  view.ring_rows = surface.ring_rows;
  if (surface.broadcast_channels) {
    view.partition_pitch = 0;
    view.block_pitch = 0;
  } else {
    view.base += (channel_first / partitions_) * surface.block_pitch +
                 (channel_first % partitions_) * pitch_;
  }
  if (surface.broadcast_rows) {
    view.base += (view.row_origin % view.ring_rows) * view.row_pitch;
    view.row_pitch = 0;
    view.row_origin = 0;
    view.ring_rows = 1;
  }
  return view;
}

}  // namespace tessera::engines

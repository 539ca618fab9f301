// The kernel stream: a kernel image as it lies in DRAM when its weights are compressed. Kernel
// extraction expands it, without loss, on the way into kernel memory.
//
//   palette | partition 0: group, group, ... | partition 1: ... | rest of partition 0, 1, ...
//
//   group = 64 elements of a partition (the last of a partition may be shorter):
//     [ zero mask: a bit per element, 1 where it is not zero ] [ values of the elements ]
//
// With a zero mask only elements whose bit is 1 have a value. A value is an index into the palette
// of `palette_bits` bits, lowest bit first, a group's indices filled up to a byte; or without a
// palette the element itself. An element of zero is one whose bits are all 0. The first
// `image_bytes` of every partition are compressed; the rest (bias, multipliers, zero points)
// follows as it is, partition after partition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace tessera {

inline constexpr std::int64_t kStreamGroupElements = 64;
inline constexpr std::uint32_t kPaletteBitsMax = 8;

struct KernelStream {
  std::uint32_t element_bytes = 0;  // 1, 2 or 4; 0: the image is not compressed
  bool zero_mask = false;
  std::uint32_t palette_bits = 0;     // 1..8; 0: no palette
  std::uint32_t palette_entries = 0;  // 1..2^palette_bits
  std::uint32_t image_bytes = 0;      // of each partition, a multiple of element_bytes
  std::uint64_t stored_bytes = 0;     // of the whole stream

  bool compressed() const { return element_bytes != 0; }
  friend bool operator==(const KernelStream&, const KernelStream&) = default;
};

// Partitions of a kernel memory, or of an image: partition p begins at base + p * pitch.
struct KernelRows {
  std::byte* base = nullptr;
  std::int64_t pitch = 0;
  std::int64_t partitions = 0;
  std::int64_t bytes = 0;  // of each
};

// What must hold of the fields themselves.
Status check_kernel_stream_fields(const KernelStream& stream, std::int64_t partitions,
                                  std::int64_t bytes_per_partition);
// Walks the stream: every group is there, every index within the palette, no byte left over.
// `rows.base` is not used.
Status check_kernel_stream(const KernelStream& stream, std::span<const std::byte> bytes,
                           const KernelRows& rows);
// Expands into `rows`; the same errors.
Status expand_kernel_stream(const KernelStream& stream, std::span<const std::byte> bytes,
                            const KernelRows& rows);

// The forms that the image can take (palette, zero mask, both), each with its stored_bytes.
std::vector<KernelStream> kernel_stream_forms(const KernelRows& image, std::uint32_t element_bytes,
                                              std::uint32_t image_bytes);
// The stream of one of them.
std::vector<std::byte> compress_kernel(const KernelStream& form, const KernelRows& image);

}  // namespace tessera

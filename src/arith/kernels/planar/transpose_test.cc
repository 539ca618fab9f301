#include "arith/kernels/planar/transpose.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace tessera {
namespace {

// Channels on `partitions` of a memory, blocks behind each other, with gaps.
struct Memory {
  std::vector<std::byte> bytes;
  Surface surface;

  Memory(Format format, std::int64_t partitions, std::int64_t channels, std::int64_t rows,
         std::int64_t columns) {
    const std::int64_t element = format_bytes(format);
    surface.format = format;
    surface.channels = channels;
    surface.rows = surface.ring_rows = rows;
    surface.columns = columns;
    surface.partitions = partitions;
    surface.column_pitch = element;
    surface.row_pitch = columns * element + 8;
    surface.block_pitch = rows * surface.row_pitch;
    const std::int64_t blocks = (channels + partitions - 1) / partitions;
    surface.partition_pitch = blocks * surface.block_pitch + 24;
    bytes.resize(static_cast<std::size_t>(surface.partition_pitch * partitions));
    surface.base = bytes.data();
  }
};

std::uint64_t element_bits(const Surface& s, std::int64_t c, std::int64_t r, std::int64_t x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, s.at(c, r, x), static_cast<std::size_t>(format_bytes(s.format)));
  return bits;
}

TEST(Transpose, KeepsAll65536PatternsOfF16) {
  Memory from(Format::kF16, 128, 256, 1, 256);
  Memory to(Format::kF16, 128, 256, 1, 256);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    std::memcpy(from.surface.at(bits / 256, 0, bits % 256), &pattern, 2);
  }
  transpose(from.surface, to.surface,
            {.channels = {0, 256}, .output_first = 0, .output_count = 256, .rows = {0, 1}});
  for (std::int64_t bits = 0; bits < 65536; ++bits) {
    ASSERT_EQ(element_bits(to.surface, bits % 256, 0, bits / 256),
              static_cast<std::uint64_t>(bits));
  }
}

TEST(Transpose, EqualsThePlainLoopForEveryFormatAndTouchesNothingElse) {
  constexpr unsigned kSeed = 31;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 300; ++i) {
    const auto format = static_cast<Format>(pick(0, kFormatCount - 1));
    const std::int64_t m = pick(1, 70), n = pick(1, 70), rows = pick(1, 4);
    const std::int64_t skip_in = pick(0, 9), skip_out = pick(0, 9), partitions = pick(1, 40);
    Memory from(format, partitions, m + skip_in, rows, n);
    Memory to(format, partitions, n + skip_out, rows, m);
    for (std::byte& b : from.bytes) b = static_cast<std::byte>(random());
    for (std::byte& b : to.bytes) b = static_cast<std::byte>(random());
    const RowRange range{pick(0, rows - 1), rows};
    std::vector<std::byte> expected = to.bytes;
    Surface plain = to.surface;
    plain.base = expected.data();
    for (std::int64_t r = range.first; r < range.last; ++r) {
      for (std::int64_t c = 0; c < m; ++c) {
        for (std::int64_t x = 0; x < n; ++x) {
          std::memcpy(plain.at(skip_out + x, r, c), from.surface.at(skip_in + c, r, x),
                      static_cast<std::size_t>(format_bytes(format)));
        }
      }
    }
    transpose(from.surface, to.surface,
              {.channels = {skip_in, skip_in + m},
               .output_first = skip_out,
               .output_count = n,
               .rows = range});
    ASSERT_EQ(to.bytes, expected) << "case " << i << ", " << format_name(format);
  }
}

}  // namespace
}  // namespace tessera

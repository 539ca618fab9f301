// The form is the smallest one, and only where it pays.
#include "compile/kernel_compression.h"

#include <gtest/gtest.h>

#include <random>

#include "arch/architecture_file.h"
#include "compile/kernel_memory.h"

namespace tessera::compile {
namespace {

constexpr std::int64_t kPartitions = 128;
constexpr std::int64_t kElements = 1024;

// One tile row of 16-bit elements in every partition.
struct Weights {
  std::vector<std::uint16_t> values = std::vector<std::uint16_t>(kPartitions * kElements);
  KernelImageShape shape;

  Weights() {
    shape.channels = kPartitions;
    shape.output_channels = kElements;
    shape.columns = kPartitions;
  }
  KernelStream form(const char* profile = "tessera128") {
    const KernelRows rows{reinterpret_cast<std::byte*>(values.data()), kElements * 2, kPartitions,
                          kElements * 2};
    return best_kernel_form(*load_chip_config(profile), rows, shape);
  }
};

TEST(KernelCompression, WeightsFromALookUpTableTakeItsIndices) {
  std::mt19937_64 random(1);
  Weights weights;
  for (auto& value : weights.values) value = static_cast<std::uint16_t>(0x3000 + random() % 256);
  const KernelStream form = weights.form();
  EXPECT_FALSE(form.zero_mask);
  EXPECT_EQ(form.palette_bits, 8u);
  EXPECT_EQ(form.palette_entries, 256u);
  EXPECT_EQ(form.stored_bytes, kPartitions * kElements + 512u);
}

TEST(KernelCompression, SparseWeightsTakeAZeroMask) {
  std::mt19937_64 random(2);
  Weights weights;
  for (auto& value : weights.values) {
    value = static_cast<std::uint16_t>(random() % 10 < 7 ? 0 : 1 + random() % 60000);
  }
  const KernelStream form = weights.form();
  EXPECT_TRUE(form.zero_mask);
  EXPECT_EQ(form.palette_bits, 0u);
  EXPECT_LT(form.stored_bytes * 100, 38u * kPartitions * kElements * 2);  // 1/16 + 30 %
}

TEST(KernelCompression, SparseWeightsOfFewValuesTakeBoth) {
  std::mt19937_64 random(3);
  Weights weights;
  for (auto& value : weights.values) {
    value = static_cast<std::uint16_t>(random() % 10 < 7 ? 0 : 0x3000 + random() % 100);
  }
  const KernelStream form = weights.form();
  EXPECT_TRUE(form.zero_mask);
  EXPECT_EQ(form.palette_bits, 7u);
}

TEST(KernelCompression, WeightsOfManyValuesStayAsTheyAre) {
  std::mt19937_64 random(4);
  Weights weights;
  for (auto& value : weights.values) value = static_cast<std::uint16_t>(random() | 1);
  EXPECT_FALSE(weights.form().compressed());
}

TEST(KernelCompression, AnArrayTooNarrowToExpandInTimeLoadsPlainWeights) {
  ChipConfig chip = *load_chip_config("tessera128");
  chip.neural.rows = 16;  // 16 elements per cycle, while the channel brings 32
  Weights weights;        // zeros
  weights.shape.rows = 16;
  weights.shape.channels = 16;
  const KernelRows rows{reinterpret_cast<std::byte*>(weights.values.data()), kElements * 2, 16,
                        kElements * 2};
  EXPECT_FALSE(best_kernel_form(chip, rows, weights.shape).compressed());
}

// Two images of which only the masks are left can have the same stream.
TEST(KernelMemory, TheSameBytesInAnotherFormAreAnotherKernel) {
  KernelMemory memory(1024);
  const KernelStream bytes{.element_bytes = 1, .zero_mask = true, .image_bytes = 64};
  const KernelStream halves{.element_bytes = 2, .zero_mask = true, .image_bytes = 128};
  const StoredKernel first{.partitions = 8, .bytes_per_partition = 128, .stream = bytes};
  const StoredKernel other_form{.partitions = 8, .bytes_per_partition = 128, .stream = halves};
  const StoredKernel other_rows{.partitions = 4, .bytes_per_partition = 128, .stream = bytes};
  EXPECT_EQ(memory.put(first), 0);
  EXPECT_EQ(memory.find(first), 0);
  EXPECT_FALSE(memory.find(other_form).has_value());
  EXPECT_FALSE(memory.find(other_rows).has_value());
}

}  // namespace
}  // namespace tessera::compile

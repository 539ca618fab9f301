#include "arith/kernels/weights/kernel_image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace tessera {
namespace {

std::uint16_t at(const std::vector<std::byte>& image, std::int64_t place) {
  std::uint16_t value = 0;
  std::memcpy(&value, image.data() + place, sizeof value);
  return value;
}

std::vector<std::uint16_t> counted(std::int64_t count) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), std::uint16_t{1});
  return values;
}

TEST(KernelImage, ChannelCutPutsTapsInTilesOfTheirOwn) {
  KernelImageShape shape;
  shape.channels = 5;
  shape.output_channels = 3;
  shape.taps = 2;
  shape.rows = 4;
  shape.columns = 2;
  EXPECT_EQ(shape.tiles(), 4);
  EXPECT_EQ(shape.column_blocks(), 2);
  EXPECT_EQ(shape.bytes_per_partition(), 2 * 4 * 2 * 2);
  const auto weights = counted(3 * 5 * 2);
  const auto image = make_kernel_image(shape, reinterpret_cast<const std::byte*>(weights.data()));
  // Output channel 2, channel 4, tap 1: block 1, tile 1 * 2 + 1, row 0.
  EXPECT_EQ(at(image, ((1 * 4 + 3) * 2 + 0) * 2), (2 * 5 + 4) * 2 + 1 + 1);
  // Row 1 of that tile is not used.
  EXPECT_EQ(at(image, shape.bytes_per_partition() + ((1 * 4 + 3) * 2 + 0) * 2), 0);
}

TEST(KernelImage, Im2colCutRunsAcrossTaps) {
  KernelImageShape shape;
  shape.cut = BlockCut::kIm2col;
  shape.channels = 3;
  shape.taps = 2;
  shape.rows = 4;
  shape.columns = 1;
  EXPECT_EQ(shape.tiles(), 2);
  const auto weights = counted(6);
  const auto image = make_kernel_image(shape, reinterpret_cast<const std::byte*>(weights.data()));
  // Channel 1 of tap 1 is k = 4: tile 1, row 0.
  EXPECT_EQ(at(image, 2), 1 * 2 + 1 + 1);
}

// Every element is where place_in_kernel_image says, and nothing is anywhere else.
TEST(KernelImage, EveryElementIsInItsPlace) {
  for (int variant = 0; variant < 3; ++variant) {
    KernelImageShape shape;
    shape.channel_wise = variant == 2;
    shape.cut = variant == 1 ? BlockCut::kIm2col : BlockCut::kChannel;
    shape.groups = 3;
    shape.channels = shape.channel_wise ? 1 : 5;
    shape.output_channels = 3;
    shape.taps = 6;
    shape.rows = 4;
    shape.columns = 2;
    const std::int64_t pitch = shape.bytes_per_partition();
    const auto weights =
        counted(shape.groups * shape.output_channels * shape.channels * shape.taps);
    auto image = make_kernel_image(shape, reinterpret_cast<const std::byte*>(weights.data()));
    std::size_t i = 0;
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      for (std::int64_t output = 0; output < shape.output_channels; ++output) {
        for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
          for (std::int64_t tap = 0; tap < shape.taps; ++tap, ++i) {
            const ElementPlace place = place_in_kernel_image(shape, {group, output, channel, tap});
            EXPECT_EQ(at(image, place.partition * pitch + place.offset), weights[i]) << variant;
            std::memset(image.data() + place.partition * pitch + place.offset, 0, 2);
          }
        }
      }
    }
    for (const std::byte byte : image) ASSERT_EQ(byte, std::byte{0}) << variant;
  }
}

TEST(KernelImage, VectorsAreDealtOutOverPartitions) {
  const auto values = counted(5);
  const auto image = make_vector_image(2, 5, 2, reinterpret_cast<const std::byte*>(values.data()));
  ASSERT_EQ(image.size(), 12U);
  EXPECT_EQ(at(image, 4), 5);      // element 4: partition 0, place 2
  EXPECT_EQ(at(image, 6 + 2), 4);  // element 3: partition 1, place 1
}

}  // namespace
}  // namespace tessera

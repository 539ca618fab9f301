// The compiler's choice of engines and sharing, task by task.
#include "compile/engine_choice.h"

#include <gtest/gtest.h>

#include "isa/task_list.h"

namespace tessera::compile {
namespace {

using isa::BufferSurface;
using isa::EngineKind;
using isa::EngineSet;
using isa::Sharing;
using isa::TaskDescriptor;

ChipConfig chip_of(std::int32_t neural, std::int32_t planar) {
  ChipConfig chip;
  chip.neural.count = neural;
  chip.planar.count = planar;
  chip.planar.elements_per_lane = 1;
  return chip;
}

BufferSurface surface(std::int64_t offset, std::uint32_t columns, std::uint32_t channels = 4) {
  return isa::dense_surface(ChipConfig{}, offset,
                            {.channels = channels, .rows = 1, .columns = columns});
}

TaskDescriptor unary(std::int64_t from, std::int64_t to, std::uint32_t columns) {
  isa::PlanarTask planar;
  planar.inputs[0] = surface(from, columns);
  planar.output = surface(to, columns);
  TaskDescriptor task;
  task.engine = EngineKind::kPlanar;
  task.config = planar;
  return task;
}

// A one-by-one product from one channel block.
TaskDescriptor product(const ChipConfig& chip, std::uint32_t outputs, std::uint32_t columns) {
  isa::NeuralTask neural;
  neural.moving = surface(0, columns, 64);
  neural.output = surface(4096, columns, outputs);
  neural.product.image.channels = 64;
  neural.product.image.output_channels = outputs;
  neural.product.image.rows = chip.neural.rows;
  neural.product.image.columns = chip.neural.columns;
  TaskDescriptor task;
  task.config = neural;
  return task;
}

TEST(EngineChoice, OneEngineOfEachKindLeavesTheHeadersAlone) {
  const ChipConfig chip = chip_of(1, 1);
  std::vector<TaskDescriptor> tasks = {product(chip, 512, 64), unary(0, 1024, 5),
                                       unary(0, 2048, 5)};
  choose_engines(chip, {0, 0, 0}, tasks);
  for (const TaskDescriptor& task : tasks) EXPECT_EQ(task.header, isa::TaskHeader{});
}

TEST(EngineChoice, ProductsAreSharedInTheFasterWay) {
  const ChipConfig chip = chip_of(4, 1);
  // 512 channels are a block for each engine, over all pixels; 128 are one block, its pixels apart.
  std::vector<TaskDescriptor> tasks = {product(chip, 512, 64), product(chip, 128, 2048)};
  choose_engines(chip, {0, 0}, tasks);
  EXPECT_EQ(tasks[0].header.sharing, Sharing::kBroadcast);
  EXPECT_EQ(tasks[1].header.sharing, Sharing::kUnicast);
  EXPECT_TRUE(tasks[0].header.engines.all());
  EXPECT_TRUE(tasks[1].header.engines.all());
}

TEST(EngineChoice, SmallPlanarTasksThatAreIndependentRunSideBySide) {
  const ChipConfig chip = chip_of(1, 2);
  // 5 elements: 3 + 3 cycles in turn on both engines, 5 side by side.
  std::vector<TaskDescriptor> apart = {unary(0, 1024, 5), unary(0, 2048, 5)};
  choose_engines(chip, {0, 0}, apart);
  EXPECT_EQ(apart[0].header.engines, (EngineSet{0, 1}));
  EXPECT_EQ(apart[1].header.engines, (EngineSet{1, 1}));
  // 64 elements: 32 + 32 cycles in turn, 64 side by side.
  std::vector<TaskDescriptor> large = {unary(0, 1024, 64), unary(0, 2048, 64)};
  choose_engines(chip, {0, 0}, large);
  EXPECT_TRUE(large[0].header.engines.all());
  EXPECT_EQ(large[0].header.sharing, Sharing::kUnicast);
  // The second reads what the first writes.
  std::vector<TaskDescriptor> chained = {unary(0, 1024, 5), unary(1024, 2048, 5)};
  choose_engines(chip, {0, 0}, chained);
  EXPECT_TRUE(chained[0].header.engines.all());
  EXPECT_TRUE(chained[1].header.engines.all());
  // Segments never run at the same time.
  std::vector<TaskDescriptor> segments = {unary(0, 1024, 5), unary(0, 2048, 5)};
  choose_engines(chip, {0, 1}, segments);
  EXPECT_TRUE(segments[0].header.engines.all());
}

}  // namespace
}  // namespace tessera::compile

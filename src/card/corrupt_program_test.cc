// Programs with damaged descriptors: the core refuses or runs them, but never leaves its memories.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "card/testing/program_builder.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;
using isa::TaskId;
using namespace testing;  // card::testing

// Every kind of task once.
isa::Program all_kinds(const ChipConfig& chip) {
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 6, 5);
  const BufferSurface sums = dense_surface(chip, 512, Format::kI32, 4, 6, 5);
  const BufferSurface result = dense_surface(chip, 1536, Format::kI32, 4, 6, 5);
  const TaskId kernel = builder.kernel(4, 4, std::vector<std::int8_t>(16, 1), 0);
  const TaskId load = builder.load(a, {BaseIndex::kInput, 0}, 2);
  const TaskId product = builder.product(a, sums, 0, 2, {after_all(kernel, 1), after_step(load)});
  const TaskId relu =
      builder.unary(sums, result, {UnaryFunction::kRelu, 0, 0}, 2, {after_step(product)});
  builder.store(result, {BaseIndex::kOutput, 0}, 2, {after_step(relu)});
  isa::PlanarTask pool;
  pool.mode = isa::PlanarMode::kPooling;
  pool.pool.window_h = pool.pool.window_w = 3;
  pool.pool.pad_top = pool.pool.pad_left = 1;
  pool.inputs[0] = sums;
  pool.output = dense_surface(chip, 2200, Format::kI32, 4, 6, 5);
  builder.add(EngineKind::kPlanar, pool, {1, 6, 3}, {after_all(product, 3)});
  isa::PlanarTask reduce;
  reduce.mode = isa::PlanarMode::kReduction;
  reduce.inputs[0] = sums;
  reduce.output = dense_surface(chip, 2800, Format::kI32, 4, 6, 1);
  builder.add(EngineKind::kPlanar, reduce, {1, 6, 2}, {after_all(product, 3)});
  isa::CopyTask copy;
  copy.source = {BaseIndex::kInput, 0};
  copy.destination = {BaseIndex::kWorkspace, 0};
  copy.extents = {4, 30};
  copy.element_bytes = 1;
  copy.source_strides = {30, 1};
  copy.destination_strides = {1, 4};
  builder.add(EngineKind::kStore, copy, {1, 4, 1});
  return builder.finish(4 * 30, 4 * 30 * 4, 256);
}

TEST(CorruptProgram, IsRefusedOrRunsInsideItsMemories) {
  constexpr unsigned kSeed = 20;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const ChipConfig chip = small_chip();
  const isa::Program good = all_kinds(chip);
  auto core = Core::create(chip);
  ASSERT_TRUE(core.ok());
  int refused = 0, ran = 0;
  for (int i = 0; i < 4000; ++i) {
    isa::Program program = good;
    for (unsigned damage = 0; damage < 1 + random() % 3; ++damage) {
      const std::size_t at = random() % (program.stream.size() / 4) * 4;
      std::uint32_t word = 0;
      std::memcpy(&word, program.stream.data() + at, 4);
      switch (random() % 4) {
        case 0:
          word ^= 1u << random() % 32;
          break;
        case 1:
          word = static_cast<std::uint32_t>(random());
          break;
        case 2:
          word += static_cast<std::uint32_t>(random() % 5) - 2;
          break;
        default:
          word = static_cast<std::uint32_t>(random() % 64);
          break;
      }
      std::memcpy(program.stream.data() + at, &word, 4);
    }
    ASSERT_TRUE((*core)->load(program).ok());
    const auto run = (*core)->run_segment(0, {.check_hazards = i % 2 == 0});
    ++(run.ok() ? ran : refused);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(ran, 100);
}

}  // namespace
}  // namespace tessera::card

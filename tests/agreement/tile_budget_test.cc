// Tiling, buffer size and residency never change a bit, and no program has a hazard.
#include <gtest/gtest.h>

#include <random>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

// Sizes of one state buffer partition for the default chip.
constexpr std::int32_t kBufferBytes[] = {8192, 32768, 196608};
constexpr std::int64_t kTileBudgets[] = {2048, 16384, 0};
// In small buffers layers with windows pass through rings. Sizes for a small array.
constexpr std::int32_t kTightBufferBytes[] = {4096, 8192, 12288};

void expect_equal(const std::vector<Tensor>& expected, const std::vector<Tensor>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(expected[i] == found[i]) << "output " << i;
  }
}

void check_graph(std::uint64_t seed, ChipConfig chip) {
  const auto graph = compile::testing::random_graph(seed);
  const std::vector<Tensor> inputs = random_inputs(*graph, seed);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const std::int32_t scale = 128 / chip.state_buffer.partitions;
  for (const std::int32_t bytes : kBufferBytes) {
    chip.state_buffer.bytes_per_partition = bytes * scale;
    for (const std::int64_t budget : kTileBudgets) {
      for (const bool resident : {true, false}) {
        SCOPED_TRACE(::testing::Message() << "graph " << seed << ", buffer " << bytes * scale
                                          << ", budget " << budget << ", resident " << resident);
        const auto program =
            build_program(graph, chip, {.tile_budget_bytes = budget, .resident = resident});
        if (!program.ok() && budget > 0 && program.error().code == ErrorCode::kInvalidArgument) {
          continue;  // a layer's smallest piece is larger than the budget
        }
        ASSERT_TRUE(program.ok()) << program.error().to_string();
        const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
        ASSERT_TRUE(found.ok()) << found.error().to_string();
        expect_equal(*expected, *found);
      }
    }
  }
}

TEST(TileBudget, DefaultChipGivesTheReferenceBits) {
  for (std::uint64_t seed = 1000; seed < 1025; ++seed)
    check_graph(seed, *load_chip_config("tessera128"));
}

TEST(TileBudget, SmallArraysGiveTheReferenceBits) {
  for (std::uint64_t seed = 1000; seed < 1010; ++seed) check_graph(seed, *load_chip_config("edge"));
}

bool has_ring(const isa::Program& program) {
  const auto wraps = [](const isa::BufferSurface& s) { return s.ring_rows < s.images * s.rows; };
  for (const isa::TaskDescriptor& task : program.tasks) {
    const auto* neural = std::get_if<isa::NeuralTask>(&task.config);
    const auto* planar = std::get_if<isa::PlanarTask>(&task.config);
    if (neural != nullptr && wraps(neural->moving)) return true;
    if (planar != nullptr && wraps(planar->inputs[0])) return true;
  }
  return false;
}

// Layers with windows, strides and residual branches on images that are large beside the buffer.
std::shared_ptr<const graph::Graph> random_cascade(std::uint64_t seed) {
  compile::testing::GraphBuilder builder(seed);
  std::mt19937_64& random = builder.random();
  const auto pick = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const Shape dims = {1, 8 + pick(30), 40 + pick(30), 40 + pick(30)};
  auto x = builder.unary(builder.input(dims, Format::kF32), UnaryFunction::kIdentity);
  auto older = x;
  for (std::int64_t i = 3 + pick(5); i > 0; --i) {
    const Shape in = builder.dims(x);
    const auto before = x;
    switch (pick(7)) {
      case 0:
        x = builder.pool(x, pick(2) == 0 ? PoolFunction::kMaximum : PoolFunction::kAverage, 3,
                         in[2] > 30 ? 1 + pick(2) : 1, 1);
        break;
      case 1:
        x = builder.conv(x, {in[1], 3, 1, 1, in[1], true});
        break;
      case 2:
        x = builder.unary(x, UnaryFunction::kRelu);
        break;
      case 3:
        x = builder.conv(x, {8 + pick(40), 3, in[2] > 30 ? 2 : 1, 1});
        break;
      case 4:
        if (builder.dims(older) == in) x = builder.binary(x, older, BinaryFunction::kAdd);
        break;
      default:
        x = builder.conv(x, {in[1], 3, 1, 1});
    }
    older = before;
  }
  builder.output(builder.unary(x, UnaryFunction::kIdentity, Format::kF32));
  return builder.take();
}

TEST(TileBudget, RingsGiveTheReferenceBits) {
  int ringed = 0;
  int programs = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto graph = random_cascade(seed);
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const auto expected = run_reference(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    ChipConfig chip = *load_chip_config("edge");
    for (const std::int32_t bytes : kTightBufferBytes) {
      SCOPED_TRACE(::testing::Message() << "graph " << seed << ", buffer " << bytes);
      chip.state_buffer.bytes_per_partition = bytes;
      const auto program = build_program(graph, chip, {});
      ASSERT_TRUE(program.ok()) << program.error().to_string();
      const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
      ASSERT_TRUE(found.ok()) << found.error().to_string();
      expect_equal(*expected, *found);
      ++programs;
      if (has_ring(*program)) ++ringed;
    }
  }
  EXPECT_GT(ringed, programs / 3) << "too few programs have a ring to say anything";
}

}  // namespace
}  // namespace tessera::agreement

// Tiling, buffer size and residency never change a bit, and no program has a hazard.
#include <gtest/gtest.h>

#include "compile/testing/random_graph.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

// Sizes of one state buffer partition for the default chip.
constexpr std::int32_t kBufferBytes[] = {8192, 32768, 196608};
constexpr std::int64_t kTileBudgets[] = {2048, 16384, 0};

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
        const auto program = build_program(graph, chip, {budget, resident});
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

}  // namespace
}  // namespace tessera::agreement

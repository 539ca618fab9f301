// Permutations whose axes no layout has side by side: in no more cycles than copies from DRAM to
// DRAM, and expected to take what they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "arch/architecture_file.h"
#include "card/core.h"
#include "compile/testing/random_graph.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::CompileOptions;
using compile::TranspositionWay;
using compile::testing::GraphBuilder;
using graph::TensorId;

Cycles cycles_of(const isa::Program& program, const ChipConfig& chip) {
  auto core = card::Core::create(chip);
  EXPECT_TRUE(core.ok());
  EXPECT_TRUE((*core)->load(program).ok());
  Cycles cycles = 0;
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    const auto run = (*core)->run_segment(s, {.timing_only = true});
    EXPECT_TRUE(run.ok()) << run.error().to_string();
    if (run.ok()) cycles += run->cycles;
  }
  return cycles;
}

// x -> as it is -> permuted -> as it is.
std::shared_ptr<const graph::Graph> permuted(const Shape& dims,
                                             const std::vector<std::int64_t>& axes) {
  GraphBuilder builder(1);
  const TensorId x =
      builder.unary(builder.input(dims, Format::kF16), UnaryFunction::kIdentity, Format::kF16);
  builder.output(builder.unary(builder.transpose(x, axes), UnaryFunction::kIdentity, Format::kF16));
  return builder.take();
}

std::string text_of(const std::vector<std::int64_t>& axes) {
  std::string text;
  for (const std::int64_t axis : axes) text += std::to_string(axis);
  return text;
}

TEST(PermutationTiming, NoneTakesMoreThanByWayOfDramInTheSameBits) {
  ChipConfig chip = *load_chip_config("tessera128");
  chip.state_buffer.banks = 0;  // ports that others use at the same time are not compared
  const Shape dims = {4, 6, 8, 9, 10};
  std::vector<std::int64_t> axes(dims.size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  CompileOptions by_dram;
  by_dram.transposition = TranspositionWay::kDma;
  Cycles sum = 0, sum_by_dram = 0;
  do {
    SCOPED_TRACE(text_of(axes));
    const auto graph = permuted(dims, axes);
    const auto program = build_program(graph, chip, {});
    const auto other = build_program(graph, chip, by_dram);
    ASSERT_TRUE(program.ok() && other.ok());
    const Cycles cycles = cycles_of(*program, chip);
    const Cycles cycles_by_dram = cycles_of(*other, chip);
    // Ways are compared alone; in a network parts of them overlap with its other tasks.
    EXPECT_LE(8 * cycles, 9 * cycles_by_dram) << cycles << ", " << cycles_by_dram;
    sum += cycles;
    sum_by_dram += cycles_by_dram;
    const auto inputs = random_inputs(*graph, 7);
    const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
    const auto expected = run_reference(graph, inputs);
    ASSERT_TRUE(found.ok() && expected.ok());
    EXPECT_TRUE((*found)[0] == (*expected)[0]);
  } while (std::next_permutation(axes.begin(), axes.end()));
  EXPECT_LE(100 * sum, 101 * sum_by_dram);
  std::printf("120 permutations: %lld cycles, by way of DRAM %lld\n", static_cast<long long>(sum),
              static_cast<long long>(sum_by_dram));
}

TEST(PermutationTiming, SixAxesWithoutTwoThatStayTogether) {
  const ChipConfig chip = *load_chip_config("tessera128");
  CompileOptions by_dram;
  by_dram.transposition = TranspositionWay::kDma;
  for (const Shape& dims :
       {Shape{4, 8, 8, 8, 8, 8}, Shape{8, 8, 8, 8, 4, 4}, Shape{2, 3, 4, 5, 6, 7}}) {
    const auto graph = permuted(dims, {5, 3, 1, 4, 2, 0});
    const auto program = build_program(graph, chip, {});
    const auto other = build_program(graph, chip, by_dram);
    ASSERT_TRUE(program.ok() && other.ok());
    const Cycles cycles = cycles_of(*program, chip);
    const Cycles cycles_by_dram = cycles_of(*other, chip);
    std::printf("%lld cycles, by way of DRAM %lld\n", static_cast<long long>(cycles),
                static_cast<long long>(cycles_by_dram));
    EXPECT_LE(cycles, cycles_by_dram);
  }
}

}  // namespace
}  // namespace tessera::agreement

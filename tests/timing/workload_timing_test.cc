// Workloads by name on the profiles of processors with published measurements: cycles follow the
// work, nothing is faster than arrays or memory allow, and large products come near to that.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "repro/workload.h"
#include "tools/workloads/run_workload.h"

namespace tessera::tools {
namespace {

using repro::WorkloadRun;

WorkloadRun run_on(const char* profile, const std::string& name) {
  const auto chip = load_chip_config(profile);
  const auto workload = repro::parse_workload(name);
  EXPECT_TRUE(chip.ok() && workload.ok()) << name;
  if (!chip.ok() || !workload.ok()) return {};
  const auto run = run_workload(*workload, *chip);
  EXPECT_TRUE(run.ok()) << name << ": " << run.error().message;
  if (!run.ok()) return {};
  const auto cycles = static_cast<double>(run->cycles);
  EXPECT_GE(cycles, repro::array_bound_cycles(*chip, run->macs)) << name;
  EXPECT_GE(cycles, repro::memory_bound_cycles(*chip, run->dram_bytes)) << name;
  return *run;
}

std::string name_of(const std::string& prefix, const std::vector<std::int64_t>& extents) {
  std::string name = prefix;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    name += (i == 0 ? "" : "x") + std::to_string(extents[i]);
  }
  return name;
}

// Each extent doubled takes longer, but those that are named.
void expect_growth(const std::string& prefix, const std::vector<std::int64_t>& extents,
                   std::size_t growing) {
  const Cycles base = run_on("tpuv3", name_of(prefix, extents)).cycles;
  for (std::size_t i = 0; i < growing; ++i) {
    std::vector<std::int64_t> larger = extents;
    larger[i] *= 2;
    EXPECT_GT(run_on("tpuv3", name_of(prefix, larger)).cycles, base) << name_of(prefix, larger);
  }
}

TEST(Workloads, CyclesGrowWithEachExtent) {
  expect_growth("gemm_", {512, 512, 512}, 3);
  expect_growth("conv_", {2, 28, 28, 128, 128, 3, 1, 1}, 6);
  expect_growth("attention_", {4, 128, 64}, 3);
  expect_growth("layernorm_", {256, 512}, 2);
  expect_growth("softmax_", {256, 512}, 2);
}

TEST(Workloads, TheArraysDoTheProductsOfTheirDefinition) {
  EXPECT_EQ(run_on("tpuv3", "gemm_77x333x555").macs, 77 * 333 * 555);
  EXPECT_EQ(run_on("tpuv6e", "gemm_77x333x555").macs, 77 * 333 * 555);
  // 14 x 14 outputs; padding counts.
  EXPECT_EQ(run_on("tpuv3", "conv_1x28x28x32x48x3x2x1").macs, 14 * 14 * 32 * 48 * 9);
  EXPECT_EQ(run_on("tpuv3", "attention_2x64x32").macs, 2 * 2 * 64 * 64 * 32);
}

TEST(Workloads, OddExtentsRun) {
  for (const char* name :
       {"gemm_1x1x1", "gemm_129x257x3", "gemm_3x1x4000", "conv_3x17x19x5x7x5x3x2",
        "conv_1x1x1x40x10x1x1x0", "conv_1x5x5x4x4x1x1x2", "attention_1x1x1", "attention_3x77x40",
        "layernorm_1x1", "layernorm_3x5x7x100", "layernorm_64", "softmax_1x5000",
        "softmax_300x2"}) {
    EXPECT_GT(run_on("tpuv3", name).cycles, 0) << name;
    EXPECT_GT(run_on("tpuv6e", name).cycles, 0) << name;
  }
}

// 64 K blocks a row of results fill half of the buffer with one operand: beside the two that are
// there at the border of two pieces only three blocks of results fit.
TEST(Workloads, LargeProductsComeNearTheArrays) {
  const auto share = [](const char* profile, const char* name) {
    const WorkloadRun run = run_on(profile, name);
    return repro::array_bound_cycles(*load_chip_config(profile), run.macs) /
           static_cast<double>(run.cycles);
  };
  EXPECT_GT(share("tpuv3", "gemm_4096x2048x2048"), 0.95);
  EXPECT_GT(share("tpuv3", "gemm_2048x8192x4096"), 0.92);
  EXPECT_GT(share("tpuv6e", "gemm_4096x4096x4096"), 0.85);
}

// Both arrays load weights, which is what a product of one row does.
TEST(Workloads, AProductOfOneRowComesNearTheMemory) {
  const WorkloadRun run = run_on("tpuv3", "gemm_1x4096x4096");
  const double bound = repro::memory_bound_cycles(*load_chip_config("tpuv3"), run.dram_bytes);
  EXPECT_GT(bound / static_cast<double>(run.cycles), 0.9);
}

// Scores of all heads are 6 MiB and their shares as many: they stay on the chip in parts alone.
TEST(Workloads, PartsOfAnAttentionStayOnTheChip) {
  const WorkloadRun run = run_on("tpuv3", "attention_12x512x64");
  EXPECT_LT(run.dram_bytes, 2 * 4 * 12 * 512 * 64 * 2);
}

TEST(Workloads, OperandsLargerThanTheMemoryAreAnError) {
  const auto workload = repro::parse_workload("gemm_8x8x8");
  ChipConfig chip = *load_chip_config("tpuv3");
  chip.dram.bytes = 1 << 20;
  const auto large = repro::parse_workload("gemm_2048x2048x64");
  EXPECT_TRUE(run_workload(*workload, chip).ok());
  EXPECT_FALSE(run_workload(*large, chip).ok());
}

}  // namespace
}  // namespace tessera::tools

// Every stored backend test, from import to the virtual processor, on the architecture f32: it
// passes, or is refused with a reason. None may be wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>

#include "arch/architecture_file.h"
#include "runtime/conform.h"

namespace tessera::runtime {
namespace {

namespace fs = std::filesystem;

struct Tally {
  std::int64_t passed = 0, refused = 0, wrong = 0;
};

// Blocks in which inputs and outputs lie in the processor's memory; 0: dense.
struct EdgeBlocks {
  std::int32_t rows = 0, columns = 0;
};

Tally run_all(const fs::path& folder, const EdgeBlocks& blocks) {
  Tally tally;
  auto chip = load_chip_config("f32");
  const auto tests = find_tests(folder.string());
  EXPECT_TRUE(chip.ok() && tests.ok());
  if (!chip.ok() || !tests.ok()) return tally;
  chip->dram.edge_block_rows = blocks.rows;
  chip->dram.edge_block_columns = blocks.columns;
  for (const std::string& test : *tests) {
    const ConformResult result = run_test(test, *chip, {}, {});
    tally.passed += result.verdict == Verdict::kPassed ? 1 : 0;
    tally.refused += result.verdict == Verdict::kRefused ? 1 : 0;
    tally.wrong += result.verdict == Verdict::kWrong ? 1 : 0;
    EXPECT_NE(result.verdict, Verdict::kWrong) << test << ": " << result.reason;
    EXPECT_EQ(result.verdict == Verdict::kPassed, result.reason.empty()) << test;
  }
  std::cout << fmt::format("{}: passed {}, refused {}, wrong {}\n", folder.string(), tally.passed,
                           tally.refused, tally.wrong);
  return tally;
}

// At least this share passes, in percent.
void expect_share(const fs::path& folder, std::int64_t percent, const EdgeBlocks& blocks = {}) {
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const Tally tally = run_all(folder, blocks);
  EXPECT_GE(tally.passed * 100, percent * (tally.passed + tally.refused + tally.wrong));
}

// One folder per test, so that ctest's time limit is far away.
TEST(ConformSets, StoredNodeTestsOfNewerOpsets) {
  expect_share(fs::path(TESSERA_TEST_DATA) / "onnx-node-tests" / "node", 87);
}
TEST(ConformSets, StoredSimpleModels) {
  expect_share(fs::path(TESSERA_TEST_DATA) / "onnx-node-tests" / "simple", 60);
}
TEST(ConformSets, StoredOperatorsFromPyTorch) {
  expect_share(fs::path(TESSERA_TEST_DATA) / "onnx-node-tests" / "pytorch-operator", 100);
}
TEST(ConformSets, StoredModelsFromPyTorch) {
  expect_share(fs::path(TESSERA_TEST_DATA) / "onnx-node-tests" / "pytorch-converted", 95);
}
TEST(ConformSets, InstalledNodeTests) { expect_share("/usr/share/libonnx-testdata/data/node", 95); }
// Of a size that divides few of them.
TEST(ConformSets, InstalledNodeTestsWithMatricesInBlocks) {
  expect_share("/usr/share/libonnx-testdata/data/node", 95, {.rows = 7, .columns = 5});
}

}  // namespace
}  // namespace tessera::runtime

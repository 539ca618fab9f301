// What `tessera repro dram` compares: the DRAM channel against published figures of an independent
// simulator, where they are there.
#include "repro/dram_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace tessera::repro {
namespace {

const FigureTable& table_of(const ExperimentResult& result, const char* name) {
  return *std::ranges::find_if(result.figure_tables,
                               [&](const FigureTable& table) { return table.name == name; });
}

TEST(DramReference, MeanAndP95) {
  const std::string folder = TESSERA_TEST_DATA "/timing";
  if (!std::filesystem::exists(folder + "/dram_reference.csv")) {
    GTEST_SKIP() << "there is no " << folder << "/dram_reference.csv";
  }
  const auto result = dram_timing(folder);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const auto figure = [&](std::size_t i) { return std::get<double>(result->figures[i].second); };
  EXPECT_LE(figure(0), 1) << result->figures[0].first;
  EXPECT_LE(figure(1), 5) << result->figures[1].first;
  EXPECT_LE(figure(2), 16) << result->figures[2].first;
  EXPECT_EQ(result->notes, std::vector<std::string>());  // no row is left out
  // No device and no pattern stands out.
  for (const char* name : {"by_device", "by_mapping", "by_pattern"}) {
    for (const std::vector<FigureCell>& row : table_of(*result, name).rows) {
      EXPECT_LE(std::get<double>(row[2]), 1.5) << std::get<std::string>(row[0]);
    }
  }
}

}  // namespace
}  // namespace tessera::repro

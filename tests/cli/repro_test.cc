// tessera repro: what it needs, what it prints, its fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

// One row of each kind of figure, invented but for the first, which is the closed form.
std::string small_data() {
  const std::string folder = work_folder() + "/figures";
  std::filesystem::create_directories(folder);
  write_text(folder + "/scalesim_v3.csv",
             "dataflow_array,workload,cycles\n"
             "8x4_ws,gemm_10x8x16,111\n"    // 2 * 2 * (16 + 4 + 10 - 2) - 1
             "8x4_os,gemm_10x8x16,103\n");  // 2 * 2 * (8 + 4 + 16 - 2) - 1
  write_text(folder + "/gemmini_rtl_8x8_ws.csv",
             "kind,test,mapping,gemmini_rtl_cycles\n"
             "gemm,small,[T] N64 C64 M64 - [O] N2 C1 M2 - [I] N40 C64 M40,5000\n");
  return folder;
}

TEST(Repro, TimingGivesATableForEachFileThatIsThere) {
  const CommandResult text = tessera({"repro", "timing", "--data", small_data()});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("8x4_ws gemm_10x8x16"));
  EXPECT_THAT(text.out, HasSubstr("neuron_trn1_matmul.csv"));  // is not there

  const CommandResult result = tessera({"repro", "timing", "--data", small_data(), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = result.json();
  EXPECT_EQ(json.at("experiment"), "timing");
  ASSERT_EQ(json.at("tables").size(), 2u);
  const nlohmann::json& systolic = json.at("tables")[0];
  EXPECT_EQ(systolic.at("name"), "systolic");
  EXPECT_EQ(systolic.at("largest_error_percent"), 0.0);
  ASSERT_EQ(systolic.at("rows").size(), 2u);
  EXPECT_EQ(systolic.at("rows")[1].at("ours"), 103.0);
  EXPECT_EQ(systolic.at("rows")[1].at("difference"), 0.0);
  const nlohmann::json& row = json.at("tables")[1].at("rows")[0];
  // 8 x 8 x 8 commands of 8 cycles, and the loads before the first.
  EXPECT_GT(row.at("ours").get<double>(), 8 * 8 * 8 * 8);
  EXPECT_LT(row.at("ours").get<double>(), 2 * 8 * 8 * 8 * 8);
}

TEST(Repro, SaysWhatItNeeds) {
  const CommandResult without = tessera({"repro", "timing"});
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.err, HasSubstr("timing needs --data FOLDER"));
  EXPECT_THAT(without.err, HasSubstr("scalesim_v3.csv"));
  const CommandResult empty = tessera({"repro", "timing", "--data", "nowhere"});
  EXPECT_EQ(empty.status, 1);
  EXPECT_THAT(empty.err, HasSubstr("nothing to compare with in 'nowhere'"));
  const CommandResult unknown = tessera({"repro", "timin", "--data", "."});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'timing'? allowed timing"));
}

TEST(Repro, ABadFigureIsNamedWithItsLine) {
  const std::string folder = work_folder() + "/bad_figures";
  std::filesystem::create_directories(folder);
  write_text(folder + "/scalesim_v3.csv", "dataflow_array,workload,cycles\n8x4_ws,vgg,1\n");
  const CommandResult result = tessera({"repro", "timing", "--data", folder});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("scalesim_v3.csv:2: found 'vgg', allowed gemm_MxNxK"));
}

}  // namespace
}  // namespace tessera::cli

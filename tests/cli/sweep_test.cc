// tessera sweep on this machine; slurm_test runs it as an array job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

TEST(Sweep, TriesEveryCombinationOfValuesTheLastKeyFastest) {
  prepare();
  const CommandResult result = tessera({"sweep", "small.onnx", "--vary", "neural.count=1,2",
                                        "--vary", "dram.channels=1,2", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json points = result.json()["points"];
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[1]["values"], nlohmann::json({{"neural.count", "1"}, {"dram.channels", "2"}}));
  EXPECT_EQ(points[2]["values"], nlohmann::json({{"neural.count", "2"}, {"dram.channels", "1"}}));
  // That of the architecture itself.
  const CommandResult run = tessera({"run", "small.onnx", "--timing-only", "--json"});
  EXPECT_EQ(points[1]["cycles"], run.json()["cycles"]);
  EXPECT_GT(points[0]["cycles"], points[1]["cycles"]);
  const CommandResult one = tessera({"sweep", "small.onnx", "--vary", "neural.count=1,2", "--vary",
                                     "dram.channels=1,2", "--point", "3"});
  EXPECT_EQ(one.json(), points[3]);
}

TEST(Sweep, AProcessorThatIsNoneIsARowWithTheReason) {
  prepare();
  const CommandResult result = tessera({"sweep", "small.onnx", "--vary", "neural.rows=128,5000"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("point 1: the point's architecture"));
  EXPECT_THAT(result.out, HasSubstr("neural.rows"));
  EXPECT_THAT(result.out, HasSubstr("shortest: point 0"));
}

TEST(Sweep, FailsWhereNoPointRuns) {
  prepare();
  const CommandResult result =
      tessera({"sweep", "small.onnx", "--vary", "neural.rows=5000,6000", "--json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.json()["points"].size(), 2u);
  EXPECT_THAT(result.err, HasSubstr("none of the 2 points runs; the first: "));
}

TEST(Sweep, SaysWhatIsWrong) {
  prepare();
  const auto error = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"sweep", "small.onnx"});
    return tessera(words).err;
  };
  EXPECT_THAT(error({"--vary", "neural.rows"}),
              HasSubstr("--vary 'neural.rows'; allowed is KEY=VALUE,VALUE"));
  EXPECT_THAT(error({"--vary", "neural.lines=1"}),
              HasSubstr("no architecture file has the key 'neural.lines'"));
  EXPECT_THAT(error({"--vary", "neural.rows=1", "--slurm"}), HasSubstr("--slurm takes --folder"));
  EXPECT_THAT(error({"--vary", "neural.rows=1", "--point", "1"}),
              HasSubstr("--point 1; there are 1"));
}

}  // namespace
}  // namespace tessera::cli

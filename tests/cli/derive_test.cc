// Derived software on the command line: run by other programs, and a planted fault found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

const std::string kPerceptron = TESSERA_FIRMWARE_EXAMPLES "/perceptron.tasm";

CommandResult derive(const std::string& target, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"derive", kPerceptron, "--arch", "brainwave",
                                    "--to",   target,      "-o",     "derived." + target,
                                    "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return tessera(words);
}

// One test runtime by runtime; those that are not installed are skipped by name.
class DeriveWith : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(DeriveWith, TheFileItselfGivesTheBits) {
  const auto& [runtime, target] = GetParam();
  const CommandResult run = derive(target, {"--verify", "3", "--with", runtime});
  if (run.err.find("[unavailable]") != std::string::npos) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.status, 0) << run.err;
  const nlohmann::json document = run.json();
  EXPECT_EQ(document["mismatches"], 0);
  EXPECT_EQ(document["runtimes"][0]["name"], runtime);
  const int configurations = std::string(runtime) == "onnxruntime" ? 8 : 1;
  EXPECT_EQ(document["runtimes"][0]["runs"], 3 * configurations);
  EXPECT_EQ(document["values_compared"], 30 * configurations);
}

TEST_P(DeriveWith, APlantedFaultIsFoundInItsLayer) {
  const auto& [runtime, target] = GetParam();
  const CommandResult run =
      derive(target, {"--verify", "2", "--with", runtime, "--plant-fault", "hidden"});
  if (run.err.find("[unavailable]") != std::string::npos) GTEST_SKIP() << run.err;
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("first difference: layer 'hidden', tensor '"));
  EXPECT_THAT(run.err, HasSubstr(std::string("(") + runtime));
  const nlohmann::json document = run.json();
  EXPECT_GT(document["mismatches"], 0);
  EXPECT_EQ(document["first_difference"]["layer"], "hidden");
}

INSTANTIATE_TEST_SUITE_P(Runtimes, DeriveWith,
                         ::testing::Values(std::pair("c++", "cpp"), std::pair("python", "pytorch"),
                                           std::pair("onnxruntime", "onnx")),
                         [](const auto& row) { return std::string(row.param.second); });

TEST(DeriveErrors, AFormThatIsNotWrittenNamesThoseThatAre) {
  const CommandResult result = tessera({"derive", "relu.onnx", "--to", "tensorflow", "-o", "x.py"});
  EXPECT_NE(result.status, 0);
  EXPECT_EQ(result.err,
            "--to: tensorflow not in {onnx,pytorch,cpp}\nRun with --help for more information.\n");
}

TEST(Derive, TheEvaluatorFindsAPlantedFaultInItsLayer) {
  const CommandResult run = derive("onnx", {"--verify", "2", "--plant-fault", "classes"});
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(run.json()["first_difference"]["layer"], "classes");
  EXPECT_EQ(run.json()["runtimes"][0]["name"], "evaluator");
}

TEST(Derive, AnUnknownLayerCannotTakeAFault) {
  const CommandResult run = derive("onnx", {"--plant-fault", "nowhere"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("there is no layer 'nowhere' to plant a fault in; there are "));
  EXPECT_THAT(run.err, HasSubstr("'hidden'"));
}

TEST(Derive, AMissingRuntimeIsNamedWithTheWayToGetIt) {
  CommandResult run =
      derive("onnx", {"--verify", "1", "--with", "onnxruntime", "--onnxruntime", "nowhere"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err,
              HasSubstr("there is no ONNX Runtime under 'nowhere'; run "
                        "scripts/fetch_onnxruntime.sh of the source tree, or 'npm install "
                        "onnxruntime-node@1.30.0' in a folder and name that with --onnxruntime"));
  std::vector<std::string> words = {"derive",   kPerceptron, "--arch", "brainwave",
                                    "--to",     "cpp",       "-o",     "d.cpp",
                                    "--verify", "1",         "--with", "c++"};
  run = tessera(words, {"CXX=no-such-compiler"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("there is no C++ compiler"));
}

TEST(Derive, WithNeedsVerify) {
  const CommandResult run = derive("cpp", {"--with", "c++"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("--with says how --verify runs the software"));
}

}  // namespace
}  // namespace tessera::cli

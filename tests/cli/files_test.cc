// What the verbs write: outputs, packages, timelines, reports; and where inputs come from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"
#include "tools/files/tensor_file.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Random, SeedSevenGivesTheseFloats) {
  const Tensor tensor = tools::random_tensor({"x", Format::kF32, {4}}, 7, 0);
  // (SplitMix64 seeded with 7000021, upper 24 bits) / 2^23 - 1
  const std::int64_t upper[] = {11132743, 4670952, 11698097, 6956761};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(tensor.as<float>()[i], static_cast<float>(upper[i]) * 0x1p-23f - 1.0f) << i;
  }
}

TEST(Random, TheSecondInputHasItsOwnSequence) {
  const Tensor tensor = tools::random_tensor({"z", Format::kF32, {2}}, 7, 1);
  const std::int64_t upper[] = {6663828, 5581162};
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(tensor.as<float>()[i], static_cast<float>(upper[i]) * 0x1p-23f - 1.0f) << i;
  }
}

TEST(Random, SeedSevenGivesTheseIntegers) {
  const Tensor bytes = tools::random_tensor({"x", Format::kI8, {4}}, 7, 0);
  const int small[] = {41, -57, 50, -22};
  const Tensor wide = tools::random_tensor({"x", Format::kI64, {4}}, 7, 0);
  const int tens[] = {3, 1, 4, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(bytes.as<std::int8_t>()[i], small[i]) << i;
    EXPECT_EQ(wide.as<std::int64_t>()[i], tens[i]) << i;
  }
}

TEST(Random, ReachesTheModelUnchanged) {
  const CommandResult run = tessera({"run", "relu.onnx", "--arch", "f32", "--device", "ref",
                                     "--input", "random:7", "--output", "random"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("wrote random/y.npy\n"));
  const auto found = tools::read_npy("random/y.npy");
  ASSERT_TRUE(found.ok());
  Tensor expected = tools::random_tensor({"x", Format::kF32, {2, 8}}, 7, 0);
  for (float& value : expected.as<float>()) value = value > 0 ? value : 0;
  EXPECT_EQ(*found, expected);
}

TEST(Inputs, ANumpyFileAndATensorProtoGiveWhatRandomGave) {
  prepare();
  const Tensor x = tools::random_tensor({"x", Format::kF32, {1, 3, 8, 8}}, 7, 0);
  ASSERT_TRUE(tools::write_npy("x.npy", x).ok());
  write_text("x.pb", model::testing::tensor_proto("x", x).SerializeAsString());
  const std::string expected = tessera({"run", "small.onnx", "--input", "random:7"}).out;
  EXPECT_EQ(tessera({"run", "small.onnx", "--input", "x=x.npy"}).out, expected);
  EXPECT_EQ(tessera({"run", "small.onnx", "--input", "x.pb"}).out, expected);
}

TEST(Package, RunsLikeItsModel) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "like.tpkg"}).status, 0);
  const CommandResult model = tessera({"run", "small.onnx", "--input", "random:7"});
  const CommandResult package = tessera({"run", "like.tpkg", "--input", "random:7"});
  EXPECT_EQ(package.status, 0) << package.err;
  EXPECT_EQ(package.out, model.out);
}

TEST(Package, CompilingTwiceGivesTheSameBytes) {
  for (const std::string model : {"small", "host"}) {
    ASSERT_EQ(tessera({"compile", model + ".onnx", "-o", "first.tpkg"}).status, 0);
    ASSERT_EQ(tessera({"compile", model + ".onnx", "-o", "second.tpkg"}).status, 0);
    EXPECT_EQ(read_text("first.tpkg"), read_text("second.tpkg")) << model;
  }
}

TEST(Trace, IsJsonWithTheEventsOfEveryEngine) {
  const CommandResult run = tessera({"run", "small.onnx", "--trace", "trace.json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const nlohmann::json trace = nlohmann::json::parse(read_text("trace.json"), nullptr, false);
  ASSERT_TRUE(trace.is_object());
  ASSERT_TRUE(trace["traceEvents"].is_array());
  std::int64_t bars = 0;
  for (const auto& event : trace["traceEvents"]) bars += event["ph"] == "X" ? 1 : 0;
  EXPECT_GE(bars, 7);  // a bar for each step of 7 tasks
}

TEST(Html, ThePageNeedsNothingFromOutside) {
  for (const std::string verb : {"run", "report"}) {
    const std::string file = verb + ".html";
    const CommandResult result = tessera({verb, "small.onnx", "--html", file});
    ASSERT_EQ(result.status, 0) << result.err;
    const std::string page = read_text(file);
    EXPECT_THAT(page, HasSubstr("<html"));
    EXPECT_THAT(page, HasSubstr("conv"));
    EXPECT_THAT(page, HasSubstr("\"dependencies_dropped\":"));
    EXPECT_THAT(page, HasSubstr("\"weight_bytes_saved\":"));
    for (const char* link : {"src=\"http", "href=\"http", "url(http", "@import", "fetch("}) {
      EXPECT_THAT(page, Not(HasSubstr(link))) << verb;
    }
    EXPECT_THAT(page, Not(HasSubstr("https://"))) << verb;
    EXPECT_THAT(page, Not(HasSubstr("http://"))) << verb;
  }
}

TEST(DumpPasses, WritesTheGraphAfterEachPass) {
  const CommandResult compiled =
      tessera({"compile", "small.onnx", "-o", "dump.tpkg", "--dump-passes", "passes"});
  EXPECT_EQ(compiled.status, 0) << compiled.err;
  EXPECT_THAT(read_text("passes/00_lower.txt"), HasSubstr("conv"));
}

}  // namespace
}  // namespace tessera::cli

// Text and back, and what the reader says about text it does not understand.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "graph/build.h"
#include "graph/graph_test_models.h"
#include "graph/graph_text.h"
#include "graph/operators.h"
#include "graph/supported.h"

namespace tessera::graph {
namespace {

using testing::TestModel;

std::string parse_error(const std::string& text) {
  const auto graph = parse(text, {});
  return graph.ok() ? "" : graph.error().message;
}

TEST(Dump, ReadsLikeThis) {
  TestModel model(10);
  model.input("x", {2, 3}, Format::kF16).node("Clip", {"x"}, {"y"}, {{"min", -1.5f}});
  model.output("y", {2, 3}, Format::kF16);
  EXPECT_EQ(dump(*build(model.model(), {})),
            "graph \"test\" f16\n"
            "tensor %0 \"x\" f16 [2, 3]\n"
            "tensor %1 \"y\" f16 [2, 3]\n"
            "input %0\n"
            "elementwise \"Clip_y\" (%0) -> (%1) activation=clip(-1.5, inf) from [\"Clip_y\"]\n"
            "output %1\n");
}

TEST(Dump, HostStepsRoundTripWithTheirAttributes) {
  Graph graph;
  graph.name = "a \"quoted\"\nname\\";
  graph.notes = {"x: dimension 0 taken as 1"};
  graph.tensors = {{"x", Format::kI64, {2}, nullptr}, {"y", Format::kI64, {2}, nullptr}};
  graph.inputs = {TensorId{0}};
  graph.outputs = {TensorId{1}};
  HostStepAttributes step;
  step.node = {"n", "Foo", "com.example", {"x", ""}, {"y"}, {}};
  step.node.attributes["f"] = std::numeric_limits<float>::infinity();
  step.node.attributes["i"] = std::int64_t{-3};
  step.node.attributes["l"] = std::vector<std::int64_t>{1, 2};
  step.node.attributes["s"] = std::vector<std::string>{"a", "b"};
  step.node.attributes["t"] = *constant_from_reals(Format::kF32, {2}, {1.5, -2});
  step.opset = 13;
  step.reason = "because";
  graph.nodes.push_back({"n", {"n"}, {TensorId{0}}, {TensorId{1}}, step});
  const std::string text = dump(graph);
  const auto parsed = parse(text, {});
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(dump(*parsed), text);
  EXPECT_EQ(parsed->name, graph.name);
  EXPECT_EQ(parsed->nodes[0].as<HostStepAttributes>().node.attributes, step.node.attributes);
}

TEST(Parse, ErrorsNameTheLineAndWhatWasExpected) {
  EXPECT_EQ(parse_error("nonsense\n"), "line 1: expected a keyword or a kind of node, found ''");
  EXPECT_EQ(parse_error("graph \"g\" f16\ninput %0\n"),
            "line 2: expected the number of a tensor above, found ''");
  EXPECT_EQ(parse_error("tensor %0 \"x\" f17 [1]\n"), "line 1: expected a format, found ' [1]'");
  EXPECT_EQ(parse_error("tensor %0 \"x\" f16 [1] constant\n"),
            "line 1: expected a constant for 'x', found ''");
  EXPECT_EQ(parse_error("pool \"p\" () -> () speed=3 from []\n"),
            "line 1: expected a field of this kind of node instead of 'speed', found '3 from []'");
}

TEST(Supported, PageIsPrintedFromTheTable) {
  const std::string page = supported_operators_markdown();
  EXPECT_NE(page.find("| Conv | 1 to 28 | convolution"), std::string::npos);
  EXPECT_EQ(find_supported("", "Conv", 13)->lower, &lower_conv);
  EXPECT_EQ(find_supported("", "Upsample", 10), nullptr);
  EXPECT_EQ(find_supported("com.example", "Conv", 13), nullptr);
  std::ifstream file(TESSERA_SUPPORTED_OPS_PAGE);
  std::stringstream written;
  written << file.rdbuf();
  if (std::getenv("TESSERA_UPDATE_PAGES") != nullptr) {
    std::ofstream(TESSERA_SUPPORTED_OPS_PAGE) << page;
  } else {
    EXPECT_EQ(written.str(), page) << "run this test with TESSERA_UPDATE_PAGES=1";
  }
}

}  // namespace
}  // namespace tessera::graph

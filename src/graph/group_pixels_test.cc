// Convolutions whose channels are neighbouring pixels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/graph_test_models.h"
#include "graph/line_filters.h"
#include "graph/move_box.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::kinds;
using testing::TestModel;

constexpr std::int64_t kHeight = 128, kWidth = 33;  // rows in groups, columns none

// Small whole numbers, none of them 0.
std::vector<double> weights(std::int64_t count, std::int64_t step) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(i * step % 3 == 0 ? -1 : 1 + i * step % 2));
  }
  return values;
}

// Convolutions 5 x 5: 1 -> 8 -> 16 channels, with a bias and a ReLU in between, and 3 x 3 to one.
TestModel three_convolutions() {
  const Ints pads{2, 2, 2, 2};
  TestModel model;
  model.input("x", {1, 1, kHeight, kWidth});
  model.constant("w1", {8, 1, 5, 5}, weights(8 * 25, 1));
  model.constant("b1", {8}, weights(8, 1));
  model.constant("w2", {16, 8, 5, 5}, weights(16 * 8 * 25, 7));
  model.node("Conv", {"x", "w1", "b1"}, {"a"}, {{"pads", pads}});
  model.node("Relu", {"a"}, {"r"});
  model.constant("w3", {1, 16, 3, 3}, weights(16 * 9, 5));
  model.node("Conv", {"r", "w2"}, {"b"}, {{"pads", pads}});
  model.node("Conv", {"b", "w3"}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}});
  model.output("y");
  return model;
}

Graph built(const TestModel& model) {
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

std::vector<const Node*> convolutions(const Graph& graph) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kConv) found.push_back(&node);
  }
  return found;
}

// A convolution in binary64, without rounding: the plain loop.
std::vector<double> convolved(const Graph& graph, const Node& node, const std::vector<double>& x) {
  const auto& conv = node.as<ConvAttributes>();
  const Shape& in = graph.tensor(node.inputs[0]).dims;
  const Shape& kernel = graph.tensor(node.inputs[1]).dims;
  const Shape& out = graph.tensor(node.outputs[0]).dims;
  const std::vector<double> w = reals(*graph.tensor(node.inputs[1]).constant);
  std::vector<double> bias(static_cast<std::size_t>(out[1]), 0.0);
  if (node.inputs.size() > 2) bias = reals(*graph.tensor(node.inputs[2]).constant);
  std::vector<double> y;
  for (std::int64_t i = 0; i < element_count(out); ++i) {
    const std::int64_t o = i / (out[2] * out[3]), row = i / out[3] % out[2], column = i % out[3];
    double sum = bias[static_cast<std::size_t>(o)];
    for (std::int64_t k = 0; k < kernel[1] * kernel[2] * kernel[3]; ++k) {
      const std::int64_t c = k / (kernel[2] * kernel[3]);
      const std::int64_t h = row * conv.stride_h - conv.pad_top + k / kernel[3] % kernel[2];
      const std::int64_t v = column * conv.stride_w - conv.pad_left + k % kernel[3];
      if (h < 0 || h >= in[2] || v < 0 || v >= in[3]) continue;
      sum += x[static_cast<std::size_t>((c * in[2] + h) * in[3] + v)] *
             w[static_cast<std::size_t>(o * kernel[1] * kernel[2] * kernel[3] + k)];
    }
    y.push_back(conv.post.activation.function == UnaryFunction::kRelu ? std::max(0.0, sum) : sum);
  }
  return y;
}

std::vector<double> moved_values(const Graph& graph, const Node& node,
                                 const std::vector<double>& x) {
  const Shape& in = graph.tensor(node.inputs[0]).dims;
  const Constant input = constant_from_reals(Format::kF32, in, x);
  const std::array<const Tensor*, 1> inputs = {input.get()};
  return reals(graph::moved(node.as<MoveAttributes>(), inputs, Format::kF32,
                            graph.tensor(node.outputs[0]).dims));
}

// Of small whole numbers every sum is exact.
std::vector<double> result_of(const Graph& graph) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kHeight * kWidth; ++i) {
    values.push_back(static_cast<double>(i % 5 - 2));
  }
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kConv) values = convolved(graph, node, values);
    if (node.kind() == NodeKind::kMove) values = moved_values(graph, node, values);
  }
  return values;
}

TEST(GroupPixels, ConvolutionsBehindEachOtherShareGroups) {
  const Graph graph = built(three_convolutions());
  EXPECT_EQ(kinds(graph), "elementwise conv conv conv move elementwise move");
  const auto convs = convolutions(graph);
  ASSERT_EQ(convs.size(), 3U);
  const Shape& between = graph.tensor(convs[0]->outputs[0]).dims;
  const std::int64_t group = between[1] / 8;
  EXPECT_GT(group, 1);
  EXPECT_EQ(between, (Shape{1, 8 * group, kHeight / group, kWidth}));
  EXPECT_EQ(convs[0]->as<ConvAttributes>().stride_h, group);
  EXPECT_EQ(convs[2]->as<ConvAttributes>().stride_h, 1);
}

TEST(GroupPixels, SumsAreThoseOfThePlainLoop) {
  const TestModel model = three_convolutions();
  const Graph graph = built(model);
  // The model as it is.
  Graph plain = graph;
  const auto tensor = [&](const char* name, Shape dims, Constant value = nullptr) {
    plain.tensors.push_back({name, Format::kF32, std::move(dims), std::move(value)});
    return TensorId{static_cast<std::int32_t>(plain.tensors.size()) - 1};
  };
  const TensorId x = tensor("px", {1, 1, kHeight, kWidth});
  const TensorId a = tensor("pa", {1, 8, kHeight, kWidth});
  const TensorId b = tensor("pb", {1, 16, kHeight, kWidth});
  const TensorId y = tensor("py", {1, 1, kHeight, kWidth});
  const auto& initial = model.model().graph.initializers;
  const auto constant = [&](const char* name) {
    const Tensor& value = initial.at(name);
    return tensor(("p" + std::string(name)).c_str(), value.dims,
                  std::make_shared<const Tensor>(value));
  };
  ConvAttributes conv;
  conv.pad_top = conv.pad_left = conv.pad_bottom = conv.pad_right = 2;
  ConvAttributes first = conv;
  first.post.activation.function = UnaryFunction::kRelu;
  plain.nodes.clear();
  plain.nodes.push_back({"p1", {}, {x, constant("w1"), constant("b1")}, {a}, first});
  plain.nodes.push_back({"p2", {}, {a, constant("w2")}, {b}, conv});
  conv.pad_top = conv.pad_left = conv.pad_bottom = conv.pad_right = 1;
  plain.nodes.push_back({"p3", {}, {b, constant("w3")}, {y}, conv});
  EXPECT_EQ(result_of(graph), result_of(plain));
}

TEST(GroupPixels, ZerosOfGroupsAreNoWork) {
  const Graph graph = built(three_convolutions());
  const auto convs = convolutions(graph);
  ASSERT_EQ(convs.size(), 3U);
  EXPECT_EQ(node_macs(graph, *convs[0]), kHeight * kWidth * 8 * 25);
  EXPECT_EQ(node_macs(graph, *convs[1]), kHeight * kWidth * 16 * 8 * 25);
  const auto terms = filter_terms(graph.tensor(convs[1]->inputs[1]).constant.get(),
                                  graph.tensor(convs[1]->outputs[0]).dims);
  ASSERT_TRUE(terms.has_value());
  EXPECT_EQ(terms->distinct, 16 * 8 * 25);
}

TEST(GroupPixels, AnImageWithoutGroupsIsGroupedByAConvolutionOfOnes) {
  // Behind a pooling nothing else makes groups.
  TestModel model;
  model.input("x", {1, 8, kHeight, kWidth - 1});
  model.constant("w", {8, 8, 3, 39}, weights(8 * 8 * 3 * 39, 5));
  model.node("MaxPool", {"x"}, {"p"}, {{"kernel_shape", Ints{1, 1}}});
  model.node("Conv", {"p", "w"}, {"y"}, {{"pads", Ints{1, 19, 1, 19}}});
  model.output("y");
  const Graph graph = built(model);
  const auto convs = convolutions(graph);
  ASSERT_EQ(convs.size(), 2U);
  const auto& grouping = convs[0]->as<ConvAttributes>();
  EXPECT_EQ(grouping.cut, BlockCut::kIm2col);
  EXPECT_GT(grouping.stride_w, 1);
  const Shape& kernel = graph.tensor(convs[0]->inputs[1]).dims;
  EXPECT_EQ(kernel[0], 8 * kernel[2] * kernel[3]);
  const std::vector<double> ones = reals(*graph.tensor(convs[0]->inputs[1]).constant);
  EXPECT_EQ(std::ranges::count(ones, 1.0), kernel[0]);
  EXPECT_EQ(std::ranges::count(ones, 0.0), std::ssize(ones) - kernel[0]);
}

TEST(GroupPixels, ManyChannelsAndOddSizesStay) {
  for (const auto& [channels, rows] : {std::pair<std::int64_t, std::int64_t>{128, 64}, {8, 65}}) {
    TestModel model;
    model.input("x", {1, channels, rows, 65});
    model.constant("w", {channels, channels, 3, 3}, weights(channels * channels * 9, 5));
    model.node("Conv", {"x", "w"}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}});
    model.output("y");
    EXPECT_EQ(kinds(built(model)), "elementwise conv elementwise");
  }
}

}  // namespace
}  // namespace tessera::graph

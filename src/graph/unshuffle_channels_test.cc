// Channels that Moves shuffle between convolutions.
#include <gtest/gtest.h>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::kinds;
using testing::TestModel;

constexpr std::int64_t kChannels = 6, kHeight = 2, kWidth = 3;

std::vector<double> counted(std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i));
  return values;
}

std::vector<double> counted_shape(const Ints& shape) { return {shape.begin(), shape.end()}; }

// Two convolutions whose channels are shuffled by way of [1, ways, ...] and halved to `p` and `q`. By
// kChannels ways even channels go to `p`, odd ones to `q`; by two the channels of both take turns. Then
// a convolution of `q`, of `groups` groups, and one of `p`.
Graph shuffled(std::int64_t ways, std::int64_t groups, std::int64_t channels = 1,
               std::int64_t lane_elements = 8) {
  const Ints whole{1, 2 * kChannels, kHeight, kWidth};
  TestModel model;
  model.input("x", {1, channels, kHeight, kWidth});
  for (const char* const name : {"wa", "wb"}) {
    std::vector<double> weights;
    for (std::int64_t i = 0; i < kChannels * channels; ++i) {
      const std::int64_t output = i / channels;
      weights.push_back(static_cast<double>(output));
    }
    model.constant(name, {kChannels, channels, 1, 1}, weights);
  }
  model.constant("wq", {kChannels, kChannels / groups, 1, 1}, counted(kChannels));
  model.constant("wp", {1, kChannels, 1, 1}, counted(kChannels));
  model.constant("apart", {5}, counted_shape({1, ways, 2 * kChannels / ways, kHeight, kWidth}),
                 Format::kI64);
  model.constant("flat", {4}, counted_shape(whole), Format::kI64);
  model.node("Conv", {"x", "wa"}, {"a"});
  model.node("Conv", {"x", "wb"}, {"b"});
  model.node("Concat", {"a", "b"}, {"ab"}, {{"axis", std::int64_t{1}}});
  model.node("Reshape", {"ab", "apart"}, {"r"});
  model.node("Transpose", {"r"}, {"t"}, {{"perm", Ints{0, 2, 1, 3, 4}}});
  model.node("Reshape", {"t", "flat"}, {"s"});
  model.node("Split", {"s"}, {"p", "q"}, {{"axis", std::int64_t{1}}});
  model.node("Conv", {"q", "wq"}, {"y"}, {{"group", groups}});
  model.node("Conv", {"p", "wp"}, {"z"});
  model.output("y");
  model.output("z");
  BuildOptions options;
  options.lane_elements = lane_elements;
  auto graph = build(model.model(), options);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

const Node* node_of(const Graph& graph, const std::string& origin) {
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kConv && node.origins[0] == origin) return &node;
  }
  return nullptr;
}

std::vector<std::uint16_t> weights_of(const Graph& graph, const Node& node) {
  const auto bits = graph.tensor(node.inputs[1]).constant->as<std::uint16_t>();
  return {bits.begin(), bits.end()};
}

// 0 to 5.
constexpr std::uint16_t kF16[] = {0x0000, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500};
std::vector<std::uint16_t> f16_of(const Ints& values) {
  std::vector<std::uint16_t> bits;
  for (const std::int64_t value : values) bits.push_back(kF16[value]);
  return bits;
}

TEST(UnshuffleChannels, ConvolutionsAreSplitByWhereTheirChannelsGo) {
  const Graph graph = shuffled(kChannels, 1);
  int moves = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kMove) continue;
    ++moves;
    // Three channels of each of two convolutions, whole.
    ASSERT_EQ(node.inputs.size(), 2U);
    for (const CopyBox& box : node.as<MoveAttributes>().copies) {
      EXPECT_EQ(box.extents, (Ints{3 * kHeight * kWidth}));
      EXPECT_EQ(box.input_strides, Ints{1});
      EXPECT_EQ(box.output_strides, Ints{1});
    }
    for (const TensorId id : node.inputs) {
      EXPECT_EQ(graph.tensor(id).dims, (Shape{1, 3, kHeight, kWidth}));
    }
  }
  EXPECT_EQ(moves, 2);
}

TEST(UnshuffleChannels, APartHasTheWeightsOfItsChannels) {
  const Graph graph = shuffled(kChannels, 1);
  std::vector<std::vector<std::uint16_t>> weights;
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kConv && node.origins[0] == "Conv_a") {
      weights.push_back(weights_of(graph, node));
    }
  }
  const std::vector<std::vector<std::uint16_t>> expected = {f16_of({0, 2, 4}), f16_of({1, 3, 5})};
  EXPECT_EQ(weights, expected);
}

TEST(UnshuffleChannels, WeightsOfAReaderFollowItsChannels) {
  // a0 b0 a1 b1 a2 b2 become a0 a1 a2 b0 b1 b2.
  const Graph graph = shuffled(2, 1);
  const Node* const node = node_of(graph, "Conv_z");
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(weights_of(graph, *node), f16_of({0, 2, 4, 1, 3, 5}));
}

TEST(UnshuffleChannels, AReaderByChannelsKeepsTheirOrder) {
  const Graph graph = shuffled(2, kChannels);
  const Node* const node = node_of(graph, "Conv_y");
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(weights_of(graph, *node), f16_of({0, 1, 2, 3, 4, 5}));
}

// 64 channels leave rows of the array for two pixels, so that each of two parts would take as long as both.
TEST(UnshuffleChannels, SmallPartsOfALongSumAreMadeTogetherAndCopied) {
  const Graph graph = shuffled(kChannels, 1, 64);
  int products = 0, copies = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kConv || node.origins[0] != "Conv_a") continue;
    const auto& conv = node.as<ConvAttributes>();
    const std::vector<std::uint16_t> weights = weights_of(graph, node);
    if (conv.channel_wise) {
      ++copies;
      EXPECT_EQ(weights, f16_of({1, 1, 1}));
      const auto bias = graph.tensor(node.inputs[2]).constant->as<std::uint16_t>();
      for (const std::uint16_t bits : bias) EXPECT_EQ(bits, 0x8000);  // -0
      continue;
    }
    ++products;
    std::vector<std::uint16_t> of_outputs;
    for (std::size_t i = 0; i < weights.size(); i += 64) of_outputs.push_back(weights[i]);
    EXPECT_EQ(of_outputs, f16_of({0, 2, 4, 1, 3, 5}));  // part by part
  }
  EXPECT_EQ(products, 1);
  EXPECT_EQ(copies, 2);
}

TEST(UnshuffleChannels, PartsAreMadeByThemselvesWhereSumsAreShortOrLanesSlow) {
  for (const Graph& graph :
       {shuffled(kChannels, 1, 8), shuffled(kChannels, 1, 64, 1), shuffled(kChannels, 1, 64, 0)}) {
    for (const Node& node : graph.nodes) {
      EXPECT_FALSE(node.kind() == NodeKind::kConv && node.as<ConvAttributes>().channel_wise);
    }
  }
}

}  // namespace
}  // namespace tessera::graph

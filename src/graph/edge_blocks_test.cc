// Matrices in blocks at the edges of a graph.
#include "graph/edge_blocks.h"

#include <gtest/gtest.h>

#include "graph/edge_conversion.h"
#include "graph/graph_text.h"
#include "graph/verify.h"

namespace tessera::graph {
namespace {

constexpr BlockLayout kBlocks{32, 64};

// Some inputs, a ReLU of the first, some outputs.
Graph small_graph(const Shape& dims) {
  Graph graph;
  graph.name = "small";
  graph.tensors = {{"x", Format::kF16, dims, nullptr}, {"y", Format::kF16, dims, nullptr}};
  graph.inputs = {TensorId{0}};
  graph.outputs = {TensorId{1}};
  ElementwiseAttributes relu;
  relu.activation = {UnaryFunction::kRelu, 0, 0};
  graph.nodes.push_back({"relu", {}, {TensorId{0}}, {TensorId{1}}, relu});
  return graph;
}

TEST(EdgeBlocks, AnInputComesOutOfItsBlocksAndAnOutputGoesIntoThem) {
  const Graph blocked = block_edges(small_graph({2, 20, 100}), kBlocks);
  EXPECT_TRUE(verify(blocked).ok()) << verify(blocked).error().message;
  EXPECT_EQ(dump(blocked),
            "graph \"small\" f16\n"
            "tensor %0 \"x\" f16 [2, 2, 32, 64] blocks_of [2, 20, 100]\n"
            "tensor %1 \"y dense\" f16 [2, 20, 100]\n"
            "tensor %2 \"x dense\" f16 [2, 20, 100]\n"
            "tensor %3 \"y\" f16 [2, 2, 32, 64] blocks_of [2, 20, 100]\n"
            "input %0\n"
            "move \"x out of blocks\" (%0) -> (%2) copies=["
            "(0, 0, 0, [32, 64], [64, 1], [100, 1]), "
            "(0, 2048, 64, [32, 36], [64, 1], [100, 1]), "
            "(0, 4096, 3200, [8, 64], [64, 1], [100, 1]), "
            "(0, 6144, 3264, [8, 36], [64, 1], [100, 1])] from []\n"
            "elementwise \"relu\" (%2) -> (%1) activation=relu(0, 0) from []\n"
            "move \"y into blocks\" (%1) -> (%3) has_fill=true copies=["
            "(0, 0, 0, [32, 64], [100, 1], [64, 1]), "
            "(0, 64, 2048, [32, 36], [100, 1], [64, 1]), "
            "(0, 3200, 4096, [8, 64], [100, 1], [64, 1]), "
            "(0, 3264, 6144, [8, 36], [100, 1], [64, 1])] from []\n"
            "output %3\n");
}

TEST(EdgeBlocks, TheTextReadsBack) {
  const std::string text = dump(block_edges(small_graph({50, 164}), kBlocks));
  const auto parsed = parse(text, {});
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(dump(*parsed), text);
}

TEST(EdgeBlocks, DenseEdgesAreWhatWasThereBefore) {
  for (const Shape& dims : {Shape{2, 20, 100}, Shape{1, 1}, Shape{32, 64}, Shape{1, 3, 224, 224}}) {
    const Graph graph = small_graph(dims);
    const Graph again = dense_edges(block_edges(graph, kBlocks));
    EXPECT_EQ(again.nodes.size(), 1u);
    ASSERT_EQ(again.tensors.size(), 2u);
    EXPECT_EQ(again.tensor(again.inputs[0]).name, "x");
    EXPECT_EQ(again.tensor(again.inputs[0]).dims, dims);
    EXPECT_EQ(again.tensor(again.outputs[0]).name, "y");
    EXPECT_EQ(again.tensor(again.outputs[0]).dims, dims);
  }
}

TEST(EdgeBlocks, VectorsAndTensorsWithoutElementsStayDense) {
  for (const Shape& dims : {Shape{7}, Shape{}, Shape{0, 8}}) {
    const Graph graph = small_graph(dims);
    EXPECT_EQ(dump(block_edges(graph, kBlocks)), dump(graph));
  }
}

TEST(EdgeBlocks, WhatLiesInBlocksIsNotPutIntoBlocksAgain) {
  const Graph blocked = block_edges(small_graph({50, 164}), kBlocks);
  EXPECT_EQ(dump(block_edges(blocked, {16, 16})), dump(blocked));
}

TEST(EdgeBlocks, WithoutALayoutNothingChanges) {
  const Graph graph = small_graph({50, 164});
  EXPECT_EQ(dump(block_edges(graph, {})), dump(graph));
}

// An input that is an output too, one output twice, a constant output.
TEST(EdgeBlocks, OutputsThatNoNodeMakes) {
  Graph graph = small_graph({4, 4});
  auto constant = std::make_shared<Tensor>(Tensor::zeros(Format::kF16, {2, 3}));
  graph.tensors.push_back({"c", Format::kF16, {2, 3}, constant});
  graph.outputs = {TensorId{1}, TensorId{0}, TensorId{1}, TensorId{2}};
  const Graph blocked = block_edges(graph, kBlocks);
  ASSERT_TRUE(verify(blocked).ok()) << verify(blocked).error().message;
  EXPECT_EQ(blocked.outputs[0], blocked.outputs[2]);
  EXPECT_EQ(blocked.outputs[1], blocked.inputs[0]);
  const Shape block = {1, 1, 32, 64};
  for (const TensorId id : blocked.outputs) EXPECT_EQ(blocked.tensor(id).dims, block);
  EXPECT_EQ(blocked.tensor(blocked.outputs[3]).name, "c");
  const Graph again = dense_edges(blocked);
  ASSERT_TRUE(verify(again).ok()) << verify(again).error().message;
  EXPECT_EQ(again.outputs[1], again.inputs[0]);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(again.tensor(again.outputs[i]).dims, graph.tensor(graph.outputs[i]).dims);
    EXPECT_EQ(again.tensor(again.outputs[i]).name, graph.tensor(graph.outputs[i]).name);
  }
}

TEST(EdgeBlocks, ShapesThatAreNoBlocksOfTheirMatrixAreFound) {
  EXPECT_EQ(broken_blocks({2, 3, 32, 64}, {40, 164}), "");
  EXPECT_EQ(broken_blocks({2, 2, 32, 64}, {40, 164}),
            "[2, 2, 32, 64] are not the blocks of a matrix [40, 164]");
  EXPECT_EQ(broken_blocks({2, 3, 2048}, {40, 164}),
            "[2, 3, 2048] are not the blocks of a matrix [40, 164]");
  EXPECT_EQ(broken_blocks({2, 3, 0, 64}, {40, 164}),
            "[2, 3, 0, 64] are not the blocks of a matrix [40, 164]");
  EXPECT_EQ(broken_blocks({1, 1, 32, 64}, {7}), "[7] is no matrix that lies in blocks");
  EXPECT_EQ(broken_blocks({1, 1, 32, 64}, {INT64_MAX, INT64_MAX}),
            "[9223372036854775807, 9223372036854775807] is no matrix that lies in blocks");
  Graph graph = small_graph({50, 164});
  graph.tensors[0].dense_dims = {50, 164};
  EXPECT_EQ(verify(graph).error().message,
            "tensor 'x': [50, 164] are not the blocks of a matrix [50, 164]");
}

}  // namespace
}  // namespace tessera::graph

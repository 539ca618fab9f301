// Every rule of the verifier, by its exact text.
#include "graph/verify.h"

#include <gtest/gtest.h>

#include "graph/build.h"
#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using testing::TestModel;

// convert_x, Conv_c, convert_c, a valid graph to break.
Graph valid_graph() {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).constant("w", {8, 4, 3, 3}, {0.5}).constant("b", {8}, {1});
  model.node("Conv", {"x", "w", "b"}, {"c"}).output("c", {1, 8, 4, 4});
  auto graph = build(model.model(), {});
  EXPECT_TRUE(graph.ok());
  return *graph;
}

std::string message(const Graph& graph) {
  const Status status = verify(graph);
  return status.ok() ? "" : status.error().message;
}

TEST(Verify, AcceptsABuiltGraph) { EXPECT_EQ(message(valid_graph()), ""); }

TEST(Verify, NodesMustBeInTopologicalOrder) {
  Graph graph = valid_graph();
  std::swap(graph.nodes[0], graph.nodes[1]);
  EXPECT_EQ(message(graph), "node 'Conv_c': input 'x.f16' is used before it is produced");
}

TEST(Verify, ATensorHasOneProducer) {
  Graph graph = valid_graph();
  graph.nodes[2].outputs = graph.nodes[1].outputs;
  EXPECT_EQ(message(graph), "node 'convert_c': output 'c.f16' has another producer");
}

TEST(Verify, NodeNamesAreUnique) {
  Graph graph = valid_graph();
  graph.nodes[1].name = "convert_x";
  EXPECT_EQ(message(graph), "node 'convert_x': the name is used twice");
}

TEST(Verify, TensorNamesAreUnique) {
  Graph graph = valid_graph();
  graph.tensor(graph.outputs[0]).name = "x";
  EXPECT_EQ(message(graph), "tensor 'x': the name is used twice");
}

TEST(Verify, OutputsAreProduced) {
  Graph graph = valid_graph();
  graph.nodes.pop_back();
  EXPECT_EQ(message(graph), "graph output 'c' is never produced");
}

TEST(Verify, ConvolutionShapeFollowsFromTheWindow) {
  Graph graph = valid_graph();
  graph.nodes[1].as<ConvAttributes>().pad_top = 1;
  EXPECT_EQ(message(graph),
            "node 'Conv_c' (conv): the output is [1, 8, 4, 4], the window gives [1, 8, 5, 4]");
}

TEST(Verify, WeightsHaveTheVectorFormat) {
  Graph graph = valid_graph();
  TensorInfo& weights = graph.tensor(graph.nodes[1].inputs[1]);
  weights.constant = converted(weights.constant, Format::kF32);
  weights.format = Format::kF32;
  EXPECT_EQ(message(graph),
            "node 'Conv_c' (conv): input '" + weights.name + "' is f32, f16 is needed");
}

TEST(Verify, ConstantsMatchTheirTensor) {
  Graph graph = valid_graph();
  TensorInfo& weights = graph.tensor(graph.nodes[1].inputs[1]);
  weights.dims = {8, 4, 9};
  EXPECT_EQ(message(graph),
            "tensor '" + weights.name + "': the constant has another format or shape");
}

TEST(Verify, ElementwiseShapesBroadcast) {
  Graph graph = valid_graph();
  graph.tensor(graph.outputs[0]).dims = {1, 8, 4, 5};
  EXPECT_EQ(message(graph),
            "node 'convert_c' (elementwise): the output is [1, 8, 4, 5], the "
            "operands give [1, 8, 4, 4]");
}

TEST(Verify, CopiesStayWithinTheirTensors) {
  TestModel model;
  model.input("x", {2, 3}, Format::kF16).output("y", {3, 2}, Format::kF16);
  model.node("Transpose", {"x"}, {"y"});
  Graph graph = *build(model.model(), {});
  graph.nodes[0].as<MoveAttributes>().copies[0].input_offset = 1;
  EXPECT_EQ(message(graph), "node 'Transpose_y' (move): a copy reads elements 1 to 6 of 6");
  graph.nodes[0].as<MoveAttributes>().copies.clear();
  EXPECT_EQ(message(graph), "node 'Transpose_y' (move): copies write 0 of 6 elements");
}

}  // namespace
}  // namespace tessera::graph

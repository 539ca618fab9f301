#include "graph/surface_view.h"

#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/editor.h"

namespace tessera::graph {
namespace {

class Sketch {
 public:
  TensorId add(const Shape& dims) {
    graph.tensors.push_back({"t" + std::to_string(graph.tensors.size()), Format::kF16, dims, {}});
    return {static_cast<std::int32_t>(graph.tensors.size()) - 1};
  }
  TensorId add_constant(const Shape& dims) {
    const TensorId id = add(dims);
    graph.tensor(id).constant = std::make_shared<const Tensor>(Tensor::zeros(Format::kF16, dims));
    return id;
  }
  Node& node(std::vector<TensorId> inputs, TensorId output, NodeAttributes attributes) {
    graph.nodes.push_back({"n" + std::to_string(graph.nodes.size()),
                           {},
                           std::move(inputs),
                           {output},
                           std::move(attributes)});
    return graph.nodes.back();
  }
  NodeViews views(std::size_t index) {
    auto result = node_views(graph, graph.nodes[index]);
    EXPECT_TRUE(result.ok());
    return result.ok() ? *result : NodeViews{};
  }

  Graph graph;
};

ElementwiseAttributes binary() {
  ElementwiseAttributes attributes;
  attributes.binary = true;
  return attributes;
}

TEST(SurfaceView, ImagesKeepTheirFourAxes) {
  Sketch sketch;
  const TensorId x = sketch.add({2, 3, 4, 5});
  sketch.node({x}, sketch.add({2, 3, 2, 2}), PoolAttributes{});
  const NodeViews views = sketch.views(0);
  EXPECT_EQ(views.inputs[0], (StridedView{{2, 3, 4, 5}, {60, 20, 5, 1}}));
  EXPECT_EQ(views.output, (StridedView{{2, 3, 2, 2}, {12, 4, 2, 1}}));
}

TEST(SurfaceView, MatrixRowsAreRowsAndTheSumRunsAlongChannels) {
  Sketch sketch;
  const TensorId a = sketch.add({2, 7, 5, 3});
  const TensorId b = sketch.add({2, 7, 3, 4});
  sketch.node({a, b}, sketch.add({2, 7, 5, 4}), MatMulAttributes{});
  const NodeViews views = sketch.views(0);
  EXPECT_EQ(views.inputs[0], (StridedView{{14, 3, 5, 1}, {15, 1, 3, 1}}));
  EXPECT_EQ(views.inputs[1], (StridedView{{14, 3, 1, 4}, {12, 4, 0, 1}}));
  EXPECT_EQ(views.output, (StridedView{{14, 4, 5, 1}, {20, 1, 4, 1}}));
}

TEST(SurfaceView, AChannelVectorIsBroadcastByStridesOfZero) {
  Sketch sketch;
  const TensorId x = sketch.add({1, 3, 4, 5});
  const TensorId scale = sketch.add_constant({3, 1, 1});
  sketch.node({x, scale}, sketch.add({1, 3, 4, 5}), binary());
  const NodeViews views = sketch.views(0);
  EXPECT_EQ(views.inputs[1].extents, (std::array<std::int64_t, 4>{1, 3, 4, 5}));
  EXPECT_EQ(views.inputs[1].strides[1], 1);
  EXPECT_EQ(views.inputs[1].strides[2], 0);
  EXPECT_EQ(views.inputs[1].strides[3], 0);
}

TEST(SurfaceView, ElementwiseWorkAfterAMatrixProductKeepsItsChannelsLast) {
  Sketch sketch;
  const TensorId a = sketch.add({1, 6, 8});
  const TensorId product = sketch.add({1, 6, 4});
  sketch.node({a, sketch.add_constant({8, 4})}, product, MatMulAttributes{});
  sketch.node({product, sketch.add_constant({4})}, sketch.add({1, 6, 4}), binary());
  const NodeViews views = sketch.views(1);
  EXPECT_EQ(views.output.extents, (std::array<std::int64_t, 4>{1, 4, 6, 1}));
  EXPECT_EQ(views.inputs[1].strides[1], 1);
  EXPECT_EQ(views.inputs[1].strides[2], 0);
}

TEST(SurfaceView, ReducedAxesBecomeRowsAndColumns) {
  Sketch sketch;
  ReduceAttributes attributes;
  attributes.axes = {2, 3};
  sketch.node({sketch.add({2, 3, 4, 5})}, sketch.add({2, 3, 1, 1}), attributes);
  const NodeViews views = sketch.views(0);
  EXPECT_EQ(views.inputs[0].extents, (std::array<std::int64_t, 4>{2, 3, 4, 5}));
  EXPECT_EQ(views.output.extents, (std::array<std::int64_t, 4>{2, 3, 1, 1}));
  EXPECT_EQ(views.output.strides[0], 3);
}

TEST(SurfaceView, AReductionOverTheFirstAxisReadsAcrossRows) {
  Sketch sketch;
  ReduceAttributes attributes;
  attributes.axes = {0};
  sketch.node({sketch.add({6, 4})}, sketch.add({1, 4}), attributes);
  const NodeViews views = sketch.views(0);
  EXPECT_EQ(views.inputs[0], (StridedView{{1, 4, 1, 6}, {0, 1, 0, 4}}));
}

TEST(SurfaceView, WhatIsReducedAlongColumnsKeepsItsRowsWhereChannelsAreNamed) {
  Sketch sketch;
  ReduceAttributes attributes;
  attributes.axes = {3};
  sketch.node({sketch.add({1, 3, 4, 5})}, sketch.add({1, 3, 4, 1}), attributes);
  EXPECT_EQ(sketch.views(0).inputs[0].extents, (std::array<std::int64_t, 4>{3, 4, 1, 5}));
  const auto views = node_views(sketch.graph, sketch.graph.nodes[0], {.channel_axis = 1});
  ASSERT_TRUE(views.ok());
  EXPECT_EQ(views->inputs[0], (StridedView{{1, 3, 4, 5}, {0, 20, 5, 1}}));
  EXPECT_EQ(views->output, (StridedView{{1, 3, 4, 1}, {0, 4, 1, 0}}));
}

TEST(SurfaceView, AxesThatCannotBeSpreadAreRefusedByNodeName) {
  Sketch sketch;
  ReduceAttributes attributes;
  attributes.axes = {1, 3, 5};
  sketch.node({sketch.add({2, 3, 2, 3, 2, 3})}, sketch.add({2, 1, 2, 1, 2, 1}), attributes);
  const auto result = node_views(sketch.graph, sketch.graph.nodes[0]);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(result.error().message,
            "node 'n0': its axes cannot be seen as images, channels, rows and columns");
}

// Links that are told of each rewrite are those that would be found anew.
TEST(LiveLinks, FollowRewritesAsIfFoundAnew) {
  Sketch sketch;
  std::vector<TensorId> made = {sketch.add({8}), sketch.add({8})};
  std::mt19937 random(7);
  const auto any = [&] { return made[random() % made.size()]; };
  for (int i = 0; i < 20; ++i) {
    const std::vector<TensorId> inputs = {any(), any()};
    made.push_back(sketch.add({8}));
    sketch.node(inputs, made.back(), binary());
  }
  Graph& graph = sketch.graph;
  graph.outputs = {made.back()};
  LiveLinks links(graph);
  const auto expect_equal = [&] {
    const Links anew(graph);
    for (std::int32_t id = 0; id < std::ssize(graph.tensors); ++id) {
      EXPECT_EQ(links.producer({id}), anew.producer({id})) << id;
      EXPECT_EQ(links.consumers({id}), anew.consumers({id})) << id;
      EXPECT_EQ(links.is_output({id}), anew.is_output({id})) << id;
    }
  };
  for (int change = 0; change < 200; ++change) {
    const auto node = static_cast<NodeIndex>(random() % graph.nodes.size());
    switch (random() % 4) {
      case 0:  // other inputs
        graph.nodes[node].inputs = {any(), any()};
        links.update(graph, node);
        break;
      case 1:  // a new tensor in place of the one it made
        if (graph.nodes[node].outputs.empty()) break;
        made.push_back(sketch.add({8}));
        graph.nodes[node].outputs = {made.back()};
        links.update(graph, node);
        break;
      case 2:  // a new node
        made.push_back(sketch.add({8}));
        sketch.node({any()}, made.back(), ElementwiseAttributes{});
        links.add_new(graph);
        break;
      default:
        links.replace_uses(graph, any(), any());
    }
    expect_equal();
  }
}

}  // namespace
}  // namespace tessera::graph

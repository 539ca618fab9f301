// Lowering and passes on small models: which nodes come out, with which attributes.
#include "graph/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph_test_models.h"
#include "graph/move_box.h"

namespace tessera::graph {
namespace {

using testing::build_f16;
using ::testing::ElementsAre;
using testing::kinds;
using testing::TestModel;
using Ints = std::vector<std::int64_t>;

Graph built(const TestModel& model, const BuildOptions& options = {}) {
  auto graph = build(model.model(), options);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return graph.ok() ? *graph : Graph{};
}

TestModel conv_model() {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).constant("w", {8, 4, 3, 3}, {0.5});
  model.node("Conv", {"x", "w"}, {"c"}, {{"pads", Ints{1, 1, 1, 1}}});
  return model;
}

TEST(Build, FloatInputsAndOutputsAreConvertedAndKeepTheirNames) {
  TestModel model;
  model.input("x", {2, 3}).node("Sigmoid", {"x"}, {"y"}).output("y", {2, 3});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise elementwise elementwise");
  EXPECT_EQ(graph.nodes[0].name, "convert_x");
  EXPECT_EQ(graph.nodes[2].name, "convert_y");
  EXPECT_EQ(graph.tensor(graph.inputs[0]).name, "x");
  EXPECT_EQ(graph.tensor(graph.inputs[0]).format, Format::kF32);
  EXPECT_EQ(graph.tensor(graph.outputs[0]).name, "y");
  EXPECT_EQ(graph.tensor(graph.outputs[0]).format, Format::kF32);
}

TEST(Build, HalfModelNeedsNoConversion) {
  TestModel model;
  model.input("x", {2, 3}, Format::kF16).node("Sigmoid", {"x"}, {"y"});
  model.output("y", {2, 3}, Format::kF16);
  EXPECT_EQ(kinds(built(model)), "elementwise");
}

TEST(Build, Float32ProfileNeedsNoConversion) {
  TestModel model;
  model.input("x", {2, 3}).node("Sigmoid", {"x"}, {"y"}).output("y", {2, 3});
  BuildOptions options;
  options.vector_format = Format::kF32;
  options.matrix.kind = MatrixKind::kFloat;
  EXPECT_EQ(kinds(built(model, options)), "elementwise");
}

TEST(Build, BatchNormalizationAndReluJoinTheConvolution) {
  TestModel model = conv_model();
  model.constant("scale", {8}, {2}).constant("bias", {8}, {1}).constant("mean", {8}, {0.5});
  model.constant("variance", {8}, {4});
  model.node("BatchNormalization", {"c", "scale", "bias", "mean", "variance"}, {"n"},
             {{"epsilon", 0.0f}});
  model.node("Relu", {"n"}, {"y"}).output("y", {1, 8, 6, 6});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  const Node& conv = graph.nodes[1];
  EXPECT_EQ(conv.as<ConvAttributes>().post.activation.function, UnaryFunction::kRelu);
  EXPECT_EQ(conv.as<ConvAttributes>().cut, BlockCut::kIm2col);
  EXPECT_THAT(conv.origins, ElementsAre("Conv_c", "BatchNormalization_n", "Relu_y"));
  const TensorInfo& weights = graph.tensor(conv.inputs[1]);
  EXPECT_EQ(weights.format, Format::kF16);
  EXPECT_EQ(reals(*weights.constant)[0], 0.5);                       // times 2 / sqrt(4)
  EXPECT_EQ(reals(*graph.tensor(conv.inputs[2]).constant)[0], 0.5);  // 1 - 0.5 * 1
}

BlockCut cut_of(std::int64_t channels, std::int64_t outputs, std::int64_t size) {
  TestModel model;
  model.input("x", {1, channels, size, size}).constant("w", {outputs, channels, 3, 3}, {0.5});
  model.node("Conv", {"x", "w"}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}});
  model.output("y", {1, outputs, size, size});
  return built(model).nodes[1].as<ConvAttributes>().cut;
}

TEST(Build, BlocksRunAlongChannelsWherePixelsShareThem) {
  // Two output pixels read 3 x 4 input pixels, two at once: three matrices a pixel in place of 4.5.
  EXPECT_EQ(cut_of(64, 64, 100), BlockCut::kChannel);
  EXPECT_EQ(cut_of(64, 128, 100), BlockCut::kIm2col);  // no room for a second pixel
  EXPECT_EQ(cut_of(48, 48, 100), BlockCut::kIm2col);   // 3 in place of 3.5
  // Bringing a matrix takes longer than so few pixels.
  EXPECT_EQ(cut_of(64, 64, 10), BlockCut::kIm2col);
}

TEST(Build, AdditionOfAChannelConstantBecomesTheBias) {
  TestModel model = conv_model();
  model.constant("b", {1, 8, 1, 1}, {3}).node("Add", {"b", "c"}, {"y"});
  model.output("y", {1, 8, 6, 6});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  EXPECT_EQ(reals(*graph.tensor(graph.nodes[1].inputs[2]).constant)[7], 3.0);
}

TEST(Build, AdditionOfAnImageIsNotABias) {
  TestModel model = conv_model();
  model.constant("b", {1, 1, 6, 6}, {3}).node("Add", {"b", "c"}, {"y"});
  model.output("y", {1, 8, 6, 6});
  EXPECT_EQ(kinds(built(model)), "elementwise conv elementwise elementwise");
}

TestModel gain_bias_model() {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).constant("g", {4, 1, 1}, {0.5}).constant("b", {4, 1, 1}, {3});
  model.node("Mul", {"g", "x"}, {"m"}).node("Add", {"b", "m"}, {"a"});
  model.node("Relu", {"a"}, {"y"}).output("y", {1, 4, 6, 6});
  return model;
}

TEST(Build, AFactorAndASummandOfAChannelBecomeOneNode) {
  const Graph graph = built(gain_bias_model());
  ASSERT_EQ(kinds(graph), "elementwise elementwise elementwise");
  const Node& node = graph.nodes[1];
  const auto& attributes = node.as<ElementwiseAttributes>();
  EXPECT_TRUE(attributes.gain_bias);
  EXPECT_FALSE(attributes.binary);
  EXPECT_EQ(attributes.gain_format, Format::kF16);
  EXPECT_EQ(attributes.activation.function, UnaryFunction::kRelu);
  EXPECT_THAT(node.origins, ElementsAre("Mul_m", "Add_a", "Relu_y"));
  ASSERT_EQ(node.inputs.size(), 3u);
  EXPECT_EQ(graph.tensor(node.inputs[0]).constant, nullptr);
  EXPECT_EQ(reals(*graph.tensor(node.inputs[1]).constant)[0], 0.5);
  EXPECT_EQ(reals(*graph.tensor(node.inputs[2]).constant)[0], 3);
}

TEST(Build, AProductThatIsReadTwiceStaysANode) {
  TestModel model = gain_bias_model();
  model.output("m", {1, 4, 6, 6});
  EXPECT_EQ(kinds(built(model)), "elementwise elementwise elementwise elementwise elementwise");
}

TEST(Build, ConvertersGoIntoPoolingsAndReductions) {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).constant("half", {}, {0.5});
  model.node("Mul", {"half", "x"}, {"m"});
  model.node("MaxPool", {"m"}, {"p"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  model.node("Sqrt", {"p"}, {"s"}).node("Abs", {"s"}, {"a"});
  model.node("ReduceSum", {"a"}, {"y"}, {{"keepdims", std::int64_t{1}}});
  model.output("y", {1, 1, 1, 1});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise pool reduce elementwise");
  const auto& pool = graph.nodes[1].as<PoolAttributes>();
  EXPECT_EQ(pool.before, (Activation{UnaryFunction::kScale, 0.5f, 0}));
  EXPECT_EQ(pool.after.function, UnaryFunction::kSquareRoot);
  EXPECT_THAT(graph.nodes[1].origins, ElementsAre("Mul_m", "MaxPool_p", "Sqrt_s"));
  EXPECT_EQ(graph.nodes[2].as<ReduceAttributes>().before.function, UnaryFunction::kAbs);
}

// The weights, 8 channels of 36 terms, take 8 x 2 bytes of 36 of the 128 partitions of kernel memory;
// vectors there are none.
TEST(Build, ALocalResponseNormalisationJoinsAConvolutionWhoseChannelsKernelMemoryHolds) {
  TestModel model = conv_model();
  model.node("Relu", {"c"}, {"r"});
  model.node("LRN", {"r"}, {"y"}, {{"size", std::int64_t{3}}, {"beta", 0.5f}, {"bias", 2.0f}});
  model.output("y", {1, 8, 6, 6});
  BuildOptions options;
  options.kernel_memory = {.rows = 128, .columns = 128, .bytes_per_partition = 32};
  const Graph graph = built(model, options);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  const PostProcess& post = graph.nodes[1].as<ConvAttributes>().post;
  EXPECT_EQ(post.activation.function, UnaryFunction::kRelu);
  EXPECT_EQ(post.local_response,
            (LocalResponse{.size = 3, .alpha = 1e-4f, .beta = 0.5f, .bias = 2.0f}));
  EXPECT_THAT(graph.nodes[1].origins, ElementsAre("Conv_c", "Relu_r", "LRN_y"));
  const auto unfused = [&](const BuildOptions& other) {
    return kinds(built(model, other)).find("pool") != std::string::npos;
  };
  options.kernel_memory.bytes_per_partition = 31;
  EXPECT_TRUE(unfused(options));
  EXPECT_TRUE(unfused({}));
  options.kernel_memory.bytes_per_partition = 32;
  options.quantise_vector_inputs = true;  // which would quantise what lies in between
  EXPECT_TRUE(unfused(options));
}

TEST(Build, AConvolutionThatOthersReadIsNotNormalisedInPlace) {
  TestModel model = conv_model();
  model.node("LRN", {"c"}, {"y"}, {{"size", std::int64_t{3}}}).output("y", {1, 8, 6, 6});
  model.output("c", {1, 8, 6, 6});
  BuildOptions options;
  options.kernel_memory = {.rows = 128, .columns = 128, .bytes_per_partition = 1 << 20};
  EXPECT_NE(kinds(built(model, options)).find("pool"), std::string::npos);
}

// The exponential does not fit in a converter of comparators and a multiply-add.
TEST(Build, OtherFunctionsStayInFrontOfAPooling) {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).node("Exp", {"x"}, {"e"});
  model.node("MaxPool", {"e"}, {"y"}, {{"kernel_shape", Ints{2, 2}}});
  model.output("y", {1, 4, 5, 5});
  EXPECT_EQ(kinds(built(model)), "elementwise elementwise pool elementwise");
}

TEST(Build, QuantisedOperandsKeepAProductAndASumApart) {
  BuildOptions options;
  options.quantise_vector_inputs = true;
  for (const Node& node : built(gain_bias_model(), options).nodes) {
    if (node.kind() != NodeKind::kElementwise) continue;
    EXPECT_FALSE(node.as<ElementwiseAttributes>().gain_bias) << node.name;
  }
}

TEST(Build, DepthwiseConvolutionIsChannelWise) {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).constant("w", {4, 1, 3, 3}, {0.5});
  model.node("Conv", {"x", "w"}, {"y"}, {{"group", std::int64_t{4}}}).output("y", {1, 4, 4, 4});
  EXPECT_TRUE(built(model).nodes[1].as<ConvAttributes>().channel_wise);
}

TEST(Build, TransposedConvolutionIsAConvolutionWithInputDilation) {
  TestModel model;
  model.input("x", {1, 1, 2, 2}).constant("w", {1, 1, 2, 2}, {1, 2, 3, 4});
  model.node("ConvTranspose", {"x", "w"}, {"y"}, {{"strides", Ints{2, 2}}});
  model.output("y", {1, 1, 4, 4});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  const auto& conv = graph.nodes[1].as<ConvAttributes>();
  EXPECT_EQ(conv.input_dilation_h, 2);
  EXPECT_EQ(conv.stride_h, 1);
  EXPECT_EQ(conv.pad_top, 1);
  EXPECT_THAT(reals(*graph.tensor(graph.nodes[1].inputs[1]).constant), ElementsAre(4, 3, 2, 1));
}

// Four outputs for each of four samples, one tap each.
TEST(Build, ProductsOfATransposedConvolutionAreThoseOfItsSamples) {
  TestModel model;
  model.input("x", {1, 3, 2, 2}).constant("w", {3, 5, 2, 2}, {1});
  model.node("ConvTranspose", {"x", "w"}, {"y"}, {{"strides", Ints{2, 2}}});
  model.output("y", {1, 5, 4, 4});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  EXPECT_EQ(node_macs(graph, graph.nodes[1]), 16 * 3 * 5);
}

// 2 x 2 with a stride of 2 into planes of 512 x 320.
TestModel large_planes(std::int64_t channels, const std::string& reader) {
  TestModel model;
  model.input("x", {1, 1, 256, 160});
  model.constant("w", {1, channels, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  model.constant("b", {channels}, {9, 10});
  model.node("ConvTranspose", {"x", "w", "b"}, {"t"}, {{"strides", Ints{2, 2}}});
  model.node(reader, {"t"}, {"y"}).output("y");
  return model;
}

TEST(Build, PhasesOfFewChannelsAndLargePlanesAreChannelsOfOneConvolution) {
  const Graph graph = built(large_planes(2, "Sigmoid"));
  const auto conv = std::ranges::find(graph.nodes, NodeKind::kConv, &Node::kind);
  ASSERT_NE(conv, graph.nodes.end());
  EXPECT_EQ(graph.tensor(conv->outputs[0]).dims, (Shape{1, 8, 256, 160}));
  EXPECT_EQ(conv->as<ConvAttributes>().input_dilation_h, 1);
  EXPECT_EQ(conv->as<ConvAttributes>().input_dilation_w, 1);
  // By row, column and channel.
  EXPECT_THAT(reals(*graph.tensor(conv->inputs[1]).constant), ElementsAre(1, 5, 2, 6, 3, 7, 4, 8));
  EXPECT_THAT(reals(*graph.tensor(conv->inputs[2]).constant),
              ElementsAre(9, 10, 9, 10, 9, 10, 9, 10));
}

TEST(Build, LargePlanesOfManyChannelsStayWhole) {
  EXPECT_EQ(kinds(built(large_planes(5, "Sigmoid"))), "elementwise conv elementwise");
}

TEST(Build, LargePlanesThatNoElementwiseNodeReadsStayWhole) {
  EXPECT_EQ(kinds(built(large_planes(2, "GlobalMaxPool"))), "elementwise conv reduce elementwise");
}

TEST(Build, ALongExtremeIsThatOfItsLinesWhereTheyAreManyEnough) {
  const auto reduced = [](const Shape& dims) {
    TestModel model;
    model.input("x", dims).node("ReduceMax", {"x"}, {"y"}, {{"keepdims", std::int64_t{0}}});
    model.output("y");
    std::vector<Shape> shapes;
    const Graph graph = built(model);
    for (const Node& node : graph.nodes) {
      if (node.kind() == NodeKind::kReduce) shapes.push_back(graph.tensor(node.inputs[0]).dims);
    }
    return shapes;
  };
  EXPECT_THAT(reduced({1, 172, 309}), ElementsAre(Shape{1, 172, 309}, Shape{1, 172, 1}));
  // 24 lines would be as many lanes: parts of the largest divisor that a reduction holds.
  EXPECT_THAT(reduced({1, 24, 1000}), ElementsAre(Shape{1, 2, 12000}, Shape{1, 2, 1}));
}

// A group normalisation of one group: 8 channels of 8,200 elements.
TEST(Build, RowsOfALongGroupNormalisationAreItsChannels) {
  TestModel model;
  model.input("x", {1, 8, 8200}).constant("group", {3}, {1, 1, -1}, Format::kI64);
  model.constant("one", {1}, {1}).constant("zero", {1}, {0});
  model.node("Reshape", {"x", "group"}, {"g"});
  model.node("InstanceNormalization", {"g", "one", "zero"}, {"y"});
  model.output("y", {1, 1, 65600});
  const Graph graph = built(model);
  for (const Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kReduce) continue;
    EXPECT_EQ(graph.tensor(node.inputs[0]).dims[1], 8) << node.name;
  }
}

TEST(Build, TransposedConvolutionOfManyPixelsIsAConvolutionForEachPhase) {
  TestModel model;
  model.input("x", {1, 1, 16, 16}).constant("w", {1, 1, 3, 2}, {1, 2, 3, 4, 5, 6});
  model.node("ConvTranspose", {"x", "w"}, {"y"}, {{"strides", Ints{2, 2}}});
  model.output("y", {1, 1, 33, 32});
  const Graph graph = built(model);
  std::vector<std::vector<double>> kernels;
  for (const Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kConv) continue;
    EXPECT_EQ(node.as<ConvAttributes>().input_dilation_h, 1);
    EXPECT_EQ(node.as<ConvAttributes>().input_dilation_w, 1);
    kernels.push_back(reals(*graph.tensor(node.inputs[1]).constant));
  }
  // Of the rows of the kernel, the even rows of the output see the third and the first.
  EXPECT_THAT(kernels,
              ElementsAre(ElementsAre(5, 1), ElementsAre(6, 2), ElementsAre(3), ElementsAre(4)));
}

TEST(Build, HardSwishChainBecomesOneFunctionInTheConvolution) {
  TestModel model = conv_model();
  model.constant("three", {}, {3}).constant("zero", {}, {0}).constant("six", {}, {6});
  model.node("Add", {"c", "three"}, {"a"}).node("Clip", {"a", "zero", "six"}, {"k"});
  model.node("Mul", {"c", "k"}, {"m"}).node("Div", {"m", "six"}, {"y"});
  model.output("y", {1, 8, 6, 6});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  const Activation expected{UnaryFunction::kHardSwish, 1.0f / 6.0f, 0.5f};
  EXPECT_EQ(graph.nodes[1].as<ConvAttributes>().post.activation, expected);
}

TEST(Build, ErfChainBecomesGelu) {
  TestModel model;
  model.constant("root", {}, {1.41421356}).constant("one", {}, {1}).constant("half", {}, {0.5});
  model.input("x", {2, 8}).node("Div", {"x", "root"}, {"d"}).node("Erf", {"d"}, {"e"});
  model.node("Add", {"e", "one"}, {"a"}).node("Mul", {"x", "a"}, {"m"});
  model.node("Mul", {"m", "half"}, {"y"}).output("y", {2, 8});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise elementwise elementwise");
  EXPECT_EQ(graph.nodes[1].as<ElementwiseAttributes>().activation.function, UnaryFunction::kGelu);
}

TEST(Build, PaddingJoinsTheConvolution) {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).constant("w", {8, 4, 3, 3}, {0.5});
  model.constant("pads", {8}, {0, 0, 1, 2, 0, 0, 1, 0}, Format::kI64);
  model.node("Pad", {"x", "pads"}, {"p"}).node("Conv", {"p", "w"}, {"y"});
  model.output("y", {1, 8, 6, 6});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  EXPECT_EQ(graph.nodes[1].as<ConvAttributes>().pad_top, 1);
  EXPECT_EQ(graph.nodes[1].as<ConvAttributes>().pad_left, 2);
  EXPECT_EQ(graph.nodes[1].as<ConvAttributes>().pad_right, 0);
}

TEST(Build, TranspositionsThatCancelDisappear) {
  TestModel model;
  model.input("x", {2, 3, 4}).node("Transpose", {"x"}, {"a"}, {{"perm", Ints{2, 0, 1}}});
  model.node("Transpose", {"a"}, {"b"}, {{"perm", Ints{1, 2, 0}}}).node("Abs", {"b"}, {"y"});
  model.output("y", {2, 3, 4});
  EXPECT_EQ(kinds(built(model)), "elementwise elementwise elementwise");
}

TEST(Build, ConcatenationThatIsTransposedWritesWholePlanes) {
  TestModel model;
  model.input("a", {2, 3, 1}).input("b", {2, 3, 1});
  model.node("Concat", {"a", "b"}, {"c"}, {{"axis", std::int64_t{2}}});
  model.node("Transpose", {"c"}, {"t"}, {{"perm", Ints{2, 0, 1}}}).node("Abs", {"t"}, {"y"});
  model.output("y", {2, 2, 3});
  const Graph graph = built(model);
  for (const Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kMove) continue;
    const auto& copies = node.as<MoveAttributes>().copies;
    ASSERT_EQ(copies.size(), 2u);
    EXPECT_TRUE(is_dense_copy(copies[0], 6));
    EXPECT_EQ(copies[1].output_offset, 6);
  }
}

TEST(Build, ConcatenationOfWholeRowsStaysInFrontOfATransposition) {
  TestModel model;
  model.input("a", {2, 3}).input("b", {2, 3});
  model.node("Concat", {"a", "b"}, {"c"}, {{"axis", std::int64_t{1}}});
  model.node("Transpose", {"c"}, {"t"}, {{"perm", Ints{1, 0}}}).node("Abs", {"t"}, {"y"});
  model.output("y", {6, 2});
  const Graph graph = built(model);
  int moves = 0;
  for (const Node& node : graph.nodes) moves += node.kind() == NodeKind::kMove ? 1 : 0;
  EXPECT_EQ(moves, 2);
}

TEST(Build, SoftmaxKeepsLogitsSumAndReciprocalInBinary32) {
  TestModel model;
  model.input("x", {2, 8}).node("Softmax", {"x"}, {"y"}).output("y", {2, 8});
  const Graph graph = built(model);
  // The input is f32 already, so nothing converts it: max, exp of the difference, 1 / sum, product.
  ASSERT_EQ(kinds(graph), "reduce elementwise reduce elementwise elementwise");
  EXPECT_EQ(graph.tensor(graph.nodes[0].outputs[0]).format, Format::kF32);
  EXPECT_EQ(graph.tensor(graph.nodes[1].outputs[0]).format, Format::kF16);
  EXPECT_EQ(graph.tensor(graph.nodes[2].outputs[0]).format, Format::kF32);
  EXPECT_EQ(graph.nodes[2].as<ReduceAttributes>().activation.function, UnaryFunction::kReciprocal);
  EXPECT_EQ(graph.tensor(graph.nodes[3].outputs[0]).format, Format::kF16);
}

TEST(Build, LogitsStayInBinary32FromTheProductThroughMovesToTheSoftmax) {
  TestModel model;
  model.input("x", {2, 8}).constant("w", {8, 4}, {0.5});
  model.node("MatMul", {"x", "w"}, {"a"}).node("Transpose", {"a"}, {"b"}, {{"perm", Ints{1, 0}}});
  model.node("Softmax", {"b"}, {"y"}, {{"axis", std::int64_t{1}}}).output("y", {4, 2});
  const Graph graph = built(model);
  for (const Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kMatMul && node.kind() != NodeKind::kMove) continue;
    EXPECT_EQ(graph.tensor(node.outputs[0]).format, Format::kF32) << node.name;
  }
}

TEST(Build, CeilingModeEnlargesThePadsOfTheLastWindow) {
  TestModel model;
  model.input("x", {1, 1, 4, 4});
  model.node(
      "MaxPool", {"x"}, {"y"},
      {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}});
  model.output("y", {1, 1, 2, 2});
  const Graph graph = built(model);
  EXPECT_EQ(graph.nodes[1].as<PoolAttributes>().pad_bottom, 1);
  EXPECT_EQ(graph.nodes[1].as<PoolAttributes>().pad_top, 0);
}

TEST(Build, NearestResizeByAWholeFactorIsOneCopy) {
  TestModel model(11);
  model.constant("scales", {4}, {1, 1, 2, 2}).input("x", {1, 3, 4, 5});
  model.node("Resize", {"x", "", "scales"}, {"y"},
             {{"coordinate_transformation_mode", std::string("asymmetric")},
              {"nearest_mode", std::string("floor")}});
  model.output("y", {1, 3, 8, 10});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise move elementwise");
  const auto& move = graph.nodes[1].as<MoveAttributes>();
  ASSERT_EQ(move.copies.size(), 1u);
  EXPECT_THAT(move.copies[0].input_strides, ElementsAre(5, 0, 1, 0));
}

Graph resized(const Shape& x, const Shape& y, const std::string& coordinates,
              const std::string& mode = "linear") {
  TestModel model(11);
  const auto sizes = std::vector<double>(y.begin(), y.end());
  model.constant("sizes", {4}, sizes, Format::kI64).input("x", x);
  model.node("Resize", {"x", "", "", "sizes"}, {"y"},
             {{"mode", mode}, {"coordinate_transformation_mode", coordinates}});
  model.output("y", y);
  return built(model);
}

// Twice as many rows: the first, those between two samples, the last.
TEST(Build, LinearResizeByAWholeFactorFiltersChannelsAndItsBorders) {
  const Graph graph = resized({1, 3, 8, 5}, {1, 3, 16, 5}, "half_pixel");
  ASSERT_EQ(kinds(graph), "elementwise conv conv conv move elementwise");
  const auto& first = graph.nodes[1].as<ConvAttributes>();
  EXPECT_TRUE(first.channel_wise);
  EXPECT_EQ(first.pad_bottom, -7);
  const auto& filter = graph.nodes[2].as<ConvAttributes>();
  EXPECT_EQ(filter.input_dilation_h, 2);
  EXPECT_EQ(graph.tensor(graph.nodes[2].outputs[0]).dims, (Shape{1, 3, 14, 5}));
  EXPECT_THAT(reals(*graph.tensor(graph.nodes[2].inputs[1]).constant),
              ElementsAre(0.25, 0.75, 0.75, 0.25, 0.25, 0.75, 0.75, 0.25, 0.25, 0.75, 0.75, 0.25));
  EXPECT_EQ(graph.nodes[3].as<ConvAttributes>().pad_top, -7);
}

TEST(Build, AResizeShrinksBeforeItGrowsAndGrowsInColumnsBeforeRows) {
  const auto has_tensor_of = [](const Graph& graph, std::int64_t elements) {
    return std::ranges::any_of(graph.tensors, [&](const TensorInfo& tensor) {
      return tensor.constant == nullptr && element_count(tensor.dims) == elements;
    });
  };
  const Graph larger = resized({1, 3, 8, 6}, {1, 3, 16, 24}, "half_pixel");
  EXPECT_TRUE(has_tensor_of(larger, 3 * 8 * 24));
  EXPECT_FALSE(has_tensor_of(larger, 3 * 16 * 6));
  const Graph lower_and_wider = resized({1, 3, 16, 8}, {1, 3, 5, 32}, "align_corners");
  EXPECT_TRUE(has_tensor_of(lower_and_wider, 3 * 5 * 8));
  EXPECT_FALSE(has_tensor_of(lower_and_wider, 3 * 16 * 32));
  const Graph higher_and_narrower = resized({1, 3, 5, 32}, {1, 3, 16, 8}, "align_corners");
  EXPECT_TRUE(has_tensor_of(higher_and_narrower, 3 * 5 * 8));
  EXPECT_FALSE(has_tensor_of(higher_and_narrower, 3 * 16 * 32));
}

TEST(Build, ResizesThatAreNoFilterStayProducts) {
  const auto convs = [](const Graph& graph) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
      return node.kind() == NodeKind::kConv && node.as<ConvAttributes>().channel_wise;
    });
  };
  EXPECT_GT(convs(resized({1, 3, 8, 8}, {1, 3, 16, 16}, "half_pixel", "cubic")), 0);
  EXPECT_GT(convs(resized({1, 3, 8, 8}, {1, 3, 24, 24}, "asymmetric")), 0);
  EXPECT_EQ(convs(resized({1, 3, 8, 8}, {1, 3, 16, 16}, "align_corners")), 0);
  EXPECT_EQ(convs(resized({1, 3, 8, 8}, {1, 3, 15, 15}, "half_pixel")), 0);
  EXPECT_EQ(convs(resized({1, 1, 8, 8}, {1, 1, 16, 16}, "half_pixel")), 0);  // one channel
}

TEST(Build, AnAverageOverTheWholeInputIsAReduction) {
  TestModel model;
  model.input("x", {1, 4, 128, 96});
  model.node("AveragePool", {"x"}, {"y"}, {{"kernel_shape", Ints{128, 96}}});
  model.output("y", {1, 4, 1, 1});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise reduce elementwise");
  EXPECT_EQ(graph.nodes[1].as<ReduceAttributes>().function, ReduceFunction::kMean);
  EXPECT_EQ(graph.nodes[1].as<ReduceAttributes>().axes, (Ints{2, 3}));
}

// Enlarged by whole factors each way to the nearest neighbour: an identity for each column that a pixel becomes. Small images are
// gathered.
TEST(Build, RepeatedPixelsAreWrittenByTheirColumns) {
  const auto identities_of = [](std::int64_t height, float rows, float columns) {
    TestModel model;
    model.input("x", {1, 8, height, 32}, Format::kF16)
        .output("y",
                {1, 8, static_cast<std::int64_t>(static_cast<float>(height) * rows),
                 static_cast<std::int64_t>(32 * columns)},
                Format::kF16);
    model.constant("scales", {4}, {1, 1, rows, columns});
    model.node("Resize", {"x", "", "scales"}, {"y"},
               {{"mode", std::string("nearest")},
                {"coordinate_transformation_mode", std::string("asymmetric")},
                {"nearest_mode", std::string("floor")}});
    const Graph graph = built(model);
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const Node& node) { return node.kind() == NodeKind::kElementwise; });
  };
  EXPECT_EQ(identities_of(24, 2, 2), 2);
  EXPECT_EQ(identities_of(24, 3, 4), 4);
  EXPECT_EQ(identities_of(2, 2, 2), 0);
}

// position * frequencies -> sine: f32 up to the sine, and no array that rounds an operand.
TEST(Build, AnglesOfPositionsStayInF32) {
  TestModel model;
  model.input("position", {1, 1, 3}, Format::kI64).output("y", {1, 3, 4});
  model.constant("frequencies", {1, 4, 1}, {1, 0.5, 0.25, 0.125});
  model.node("Cast", {"position"}, {"p"}, {{"to", std::int64_t{1}}});
  model.node("MatMul", {"frequencies", "p"}, {"angles"});
  model.node("Transpose", {"angles"}, {"t"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  model.node("Sin", {"t"}, {"y"});
  const auto graph = build_f16(model);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  std::string formats;
  for (const Node& node : graph->nodes) {
    formats += std::string(node_kind_name(node.kind())) + " " +
               std::string(format_name(graph->tensor(node.outputs[0]).format)) + "; ";
  }
  EXPECT_EQ(formats.find("matmul"), std::string::npos) << formats;
  EXPECT_EQ(
      formats,
      "elementwise f32; move f32; elementwise f32; move f32; elementwise f16; elementwise f32; ");
}

// The array takes a constant as its moving operand, in the other one's format.
TEST(Build, AConstantTimesAnInputIsAProductInTheVectorFormat) {
  TestModel model;
  model.input("x", {4, 3}).output("y", {2, 3}).constant("w", {2, 4}, {0.5});
  model.node("MatMul", {"w", "x"}, {"y"});
  const auto graph = build_f16(model);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  EXPECT_NE(kinds(*graph).find("matmul"), std::string::npos) << kinds(*graph);
}

// x -> re, im -> squares -> sum -> root -> logarithm: f32 up to the logarithm.
TEST(Build, SquaresUnderARootStayInFloat32) {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).constant("w", {8, 4, 1, 1}, {0.5}).constant("two", {}, {2});
  model.constant("axes", {1}, {1}, Format::kI64).constant("small", {}, {1e-5});
  model.node("Conv", {"x", "w"}, {"c"}).node("Pow", {"c", "two"}, {"q"});
  model.node("ReduceSum", {"q", "axes"}, {"s"}).node("Sqrt", {"s"}, {"m"});
  model.node("Add", {"m", "small"}, {"a"}).node("Log", {"a"}, {"y"}).output("y", {1, 1, 6, 6});
  const Graph graph = built(model);
  std::string formats;
  for (const Node& node : graph.nodes) {
    formats += std::string(node_kind_name(node.kind())) + " " +
               std::string(format_name(graph.tensor(node.outputs[0]).format)) + "; ";
  }
  EXPECT_EQ(formats,
            "elementwise f16; conv f32; reduce f32; elementwise f32; elementwise f16; "
            "elementwise f32; ");
}

std::string formats_and_mantissas(const Graph& graph) {
  std::string all;
  for (const Node& node : graph.nodes) {
    all += std::string(node_kind_name(node.kind())) + " " +
           std::string(format_name(graph.tensor(node.outputs[0]).format));
    const MatrixFormat* matrix = nullptr;
    if (node.kind() == NodeKind::kConv) matrix = &node.as<ConvAttributes>().matrix;
    if (node.kind() == NodeKind::kMatMul) matrix = &node.as<MatMulAttributes>().matrix;
    if (matrix != nullptr) {
      all += " " + std::to_string(matrix->mantissa_bits_moving) + ":" +
             std::to_string(matrix->mantissa_bits_stationary);
    }
    all += "; ";
  }
  return all;
}

// A filter bank between the energies of a spectrum and their logarithm.
TestModel filter_bank() {
  TestModel model;
  model.input("x", {6, 16}).constant("w", {16, 9}, {0.5}).constant("bank", {9, 4}, {0.25});
  model.constant("two", {}, {2}).constant("least", {}, {1e-5}).constant("later", {4, 4}, {1});
  model.node("MatMul", {"x", "w"}, {"c"}).node("Pow", {"c", "two"}, {"q"});
  model.node("MatMul", {"q", "bank"}, {"b"}).node("Max", {"b", "least"}, {"m"});
  model.node("Log", {"m"}, {"l"}).node("MatMul", {"l", "later"}, {"y"}).output("y", {6, 4});
  return model;
}

TEST(Build, EnergiesUnderALogarithmStayInFloat32AndAFilterBankHasAWiderMantissa) {
  EXPECT_EQ(formats_and_mantissas(built(filter_bank())),
            "elementwise f16; matmul f32 11:11; matmul f32 15:15; elementwise f32; "
            "elementwise f16; matmul f16 11:11; elementwise f32; ");
}

TEST(Build, AFilterBankOfSeveralBlocksIsAProductABlock) {
  TestModel model;
  model.input("x", {6, 300}).constant("bank", {300, 4}, {0.25}).constant("two", {}, {2});
  model.node("Pow", {"x", "two"}, {"q"}).node("MatMul", {"q", "bank"}, {"b"});
  model.node("Log", {"b"}, {"y"}).output("y", {6, 4});
  const Graph graph = built(model);
  std::vector<std::int64_t> terms;
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kMatMul) terms.push_back(graph.tensor(node.inputs[1]).dims[0]);
  }
  EXPECT_THAT(terms, ElementsAre(128, 128, 44));
  EXPECT_EQ(formats_and_mantissas(graph),
            "elementwise f32; move f32; matmul f32 15:15; move f32; matmul f32 15:15; "
            "elementwise f32; move f32; matmul f32 15:15; elementwise f32; elementwise f16; "
            "elementwise f32; ");
}

TEST(Build, AnglesOfAGivenTimeStayInF32) {
  TestModel model;
  model.input("t", {2, 1}).constant("frequencies", {1, 8}, {0.5});
  model.node("Mul", {"t", "frequencies"}, {"angles"}).node("Sin", {"angles"}, {"y"});
  model.output("y", {2, 8});
  EXPECT_EQ(formats_and_mantissas(built(model)),
            "elementwise f32; elementwise f16; elementwise f32; ");
}

// What f16 does not have keeps a logarithm's operand and a denominator from being zero.
TEST(Build, SmallConstantsThatKeepValuesFromZeroStayInFloat32) {
  TestModel floor;
  floor.input("x", {6, 16}).constant("w", {16, 9}, {0.5}).constant("least", {}, {1e-10});
  floor.node("MatMul", {"x", "w"}, {"b"}).node("Max", {"b", "least"}, {"m"});
  floor.node("Log", {"m"}, {"y"}).output("y", {6, 9});
  EXPECT_EQ(
      formats_and_mantissas(built(floor)),
      "elementwise f16; matmul f32 11:11; elementwise f32; elementwise f16; elementwise f32; ");
  TestModel denominator;
  denominator.input("x", {6, 16}).constant("axes", {1}, {1}, Format::kI64);
  denominator.constant("least", {}, {1e-8}).node("ReduceSum", {"x", "axes"}, {"s"});
  denominator.node("Add", {"s", "least"}, {"d"}).node("Div", {"x", "d"}, {"y"});
  denominator.output("y", {6, 16});
  EXPECT_EQ(formats_and_mantissas(built(denominator)),
            "elementwise f16; reduce f32; elementwise f32; elementwise f16; elementwise f32; ");
}

// A large factor between a magnitude and the logarithm; the square root's result would be f16.
TEST(Build, AMultipleOfAMagnitudeUnderALogarithmStaysInFloat32) {
  TestModel model;
  model.input("x", {6, 16}).constant("w", {16, 9}, {0.5}).constant("two", {}, {2});
  model.constant("axes", {1}, {1}, Format::kI64).constant("factor", {}, {1048576});
  model.node("MatMul", {"x", "w"}, {"c"}).node("Pow", {"c", "two"}, {"q"});
  model.node("ReduceSum", {"q", "axes"}, {"s"}).node("Sqrt", {"s"}, {"m"});
  model.node("Mul", {"m", "factor"}, {"f"}).node("Log", {"f"}, {"y"}).output("y", {6, 1});
  EXPECT_EQ(formats_and_mantissas(built(model)),
            "elementwise f16; matmul f32 15:15; reduce f32; elementwise f32; elementwise f16; "
            "elementwise f32; ");
}

// Squares above a network of products are none of the logarithm's.
TEST(Build, ALogarithmBehindSeveralProductsChangesNoneOfThem) {
  TestModel model;
  model.input("x", {6, 16}).constant("two", {}, {2});
  model.constant("v", {16, 8}, {0.5}).constant("w", {8, 4}, {0.5});
  model.node("Pow", {"x", "two"}, {"q"}).node("MatMul", {"q", "v"}, {"a"});
  model.node("Relu", {"a"}, {"r"}).node("MatMul", {"r", "w"}, {"b"});
  model.node("Log", {"b"}, {"y"}).output("y", {6, 4});
  EXPECT_EQ(formats_and_mantissas(built(model)),
            "elementwise f16; elementwise f16; matmul f16 11:11; matmul f16 11:11; "
            "elementwise f32; ");
}

// 40,000 elements per channel: rows of 1,000, their means, and the mean of those.
TEST(Build, ALongInstanceIsNormalisedInRows) {
  TestModel model;
  model.input("x", {1, 2, 40000}).constant("scale", {2}, {3}).constant("bias", {2}, {1});
  model.node("InstanceNormalization", {"x", "scale", "bias"}, {"y"}).output("y", {1, 2, 40000});
  const Graph graph = built(model);
  std::vector<Shape> means;
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kReduce) means.push_back(graph.tensor(node.outputs[0]).dims);
  }
  EXPECT_THAT(means, ElementsAre(Shape{2, 1000, 1, 1}, Shape{2, 1, 1, 1}, Shape{2, 1000, 1, 1},
                                 Shape{2, 1, 1, 1}));
}

TEST(Build, HostStepGetsFloat32AndAReason) {
  TestModel model;
  model.input("x", {2, 3}).node("Abs", {"x"}, {"a"}).node("Shrink", {"a"}, {"y"});
  model.output("y", {2, 3});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise elementwise elementwise host_step elementwise elementwise");
  const Node& host = graph.nodes[3];
  EXPECT_EQ(graph.tensor(host.inputs[0]).format, Format::kF32);
  EXPECT_EQ(graph.tensor(host.outputs[0]).format, Format::kF32);
  EXPECT_EQ(host.as<HostStepAttributes>().reason,
            "operator 'Shrink': not among the processor's operators at opset 13");
}

TEST(BuildErrors, FullOffloadRefusesAHostStepByName) {
  TestModel model;
  model.input("x", {2, 3}).node("Shrink", {"x"}, {"y"}).output("y", {2, 3});
  BuildOptions options;
  options.require_full_offload = true;
  const auto graph = build(model.model(), options);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().to_string(),
            "node 'Shrink_y' (Shrink): would run on the host (operator 'Shrink': not among the "
            "processor's operators at opset 13), and full offload is required   [unsupported]");
}

TEST(BuildErrors, IntegerVectorFormatIsRefused) {
  TestModel model;
  model.input("x", {2}).node("Abs", {"x"}, {"y"}).output("y", {2});
  BuildOptions options;
  options.vector_format = Format::kI8;
  const auto graph = build(model.model(), options);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().to_string(),
            "vector format is i8; f16, bf16 and f32 are allowed   [invalid argument]");
}

TEST(Build, AnEmptyOutputOfAHalfPrecisionProfileIsCopiedByTheHost) {
  TestModel model;
  model.input("x", {2, 3}).constant("two", {1}, {2}, Format::kI64);
  model.node("Slice", {"x", "two", "two"}, {"y"}).output("y", {0, 3});
  const Graph graph = built(model);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].as<HostStepAttributes>().reason, "a tensor without elements");
}

TEST(Build, AWholeNumberOfSixtyFourBitsIsMovedOnTheProcessor) {
  TestModel model;
  model.input("x", {2, 3}, Format::kI64);
  model.node("Transpose", {"x"}, {"y"}).output("y", {3, 2}, Format::kI64);
  EXPECT_EQ(kinds(built(model)), "move");
}

TEST(Build, ArithmeticOfSixtyFourBitsIsTheHosts) {
  TestModel model;
  model.input("x", {2, 3}, Format::kI64).constant("one", {}, {1}, Format::kI64);
  model.node("Add", {"x", "one"}, {"y"}).output("y", {2, 3}, Format::kI64);
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "host_step");
  EXPECT_EQ(graph.nodes[0].as<HostStepAttributes>().reason,
            "operator 'Add': no vector arithmetic in i64");
}

TEST(Build, SequenceLengthsComputedAtRunTimeAreTheHosts) {
  TestModel model(14);
  model.input("x", {2, 1, 3}).input("lengths", {1}, Format::kI32);
  model.constant("w", {1, 4, 3}, {0.5}).constant("r", {1, 4, 4}, {0.5});
  model.node("RNN", {"x", "w", "r", "", "lengths"}, {"y"}, {{"hidden_size", std::int64_t{4}}});
  model.output("y", {2, 1, 1, 4});
  const Graph graph = built(model);
  std::string reasons;
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kHostStep) reasons += node.as<HostStepAttributes>().reason;
  }
  EXPECT_EQ(reasons, "operator 'RNN': sequence lengths are computed at run time, or 0");
}

// The position of the largest plus a constant.
TestModel shifted_position(double by) {
  TestModel model;
  model.input("x", {3, 8}).node("ArgMax", {"x"}, {"at"}, {{"axis", std::int64_t{1}}});
  model.constant("c", {}, {by}, Format::kI64).node("Add", {"at", "c"}, {"y"});
  return model.output("y", {3, 1}, Format::kI64);
}

TEST(Build, WideIntegersAreHostStepsUnlessTheyFit32Bits) {
  const auto hosts = [](const Graph& graph) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const Node& node) { return node.kind() == NodeKind::kHostStep; });
  };
  EXPECT_EQ(hosts(*build_f16(shifted_position(1000))), 0);
  EXPECT_EQ(hosts(*build_f16(shifted_position(2147483647))), 1);
}

TEST(Build, ProductsOfTwoBranchesTakeTurns) {
  TestModel model;
  model.input("x", {1, 4, 6, 6}, Format::kF16).constant("w", {4, 4, 1, 1}, {0.5}, Format::kF16);
  model.node("Conv", {"x", "w"}, {"a"}).node("Conv", {"a", "w"}, {"b"});
  model.node("Conv", {"x", "w"}, {"c"}).node("Conv", {"c", "w"}, {"d"});
  model.node("Add", {"b", "d"}, {"y"}).output("y", {1, 4, 6, 6}, Format::kF16);
  const Graph graph = built(model);
  std::vector<std::string> outputs;
  for (const Node& node : graph.nodes) outputs.push_back(graph.tensor(node.outputs[0]).name);
  EXPECT_THAT(outputs, ElementsAre("a", "c", "b", "d", "y"));
}

}  // namespace
}  // namespace tessera::graph

// Operators of com.microsoft that ONNX Runtime has for no CPU, by their definition: of constants, which are folded; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/infer.h"
#include "model/testing/model_builder.h"

namespace tessera::model {
namespace {

using testing::Floats;
using testing::Ints;
using testing::ModelBuilder;
using testing::Strings;

Tensor reals(const Shape& dims, double step) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  double angle = 0.4;
  for (float& value : tensor.as<float>()) {
    value = static_cast<float>(std::sin(angle) * 2);
    angle += step;
  }
  return tensor;
}

Tensor real_list(const Shape& dims, const std::vector<double>& values) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::ranges::transform(values, tensor.as<float>().begin(),
                         [](double value) { return static_cast<float>(value); });
  return tensor;
}

// The value of `y`, whose model reads constants alone.
Tensor folded(ModelBuilder& builder) {
  builder.output("y");
  const auto model = builder.model();
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().to_string());
  if (!model.ok()) return {};
  const auto inferred = infer(*model, {});
  EXPECT_TRUE(inferred.ok()) << (inferred.ok() ? "" : inferred.error().to_string());
  if (!inferred.ok()) return {};
  const auto& constant = inferred->values.at("y").constant;
  return constant == nullptr ? Tensor{} : *constant;
}

void expect_near(const Tensor& found, const Shape& dims, const std::vector<double>& wanted) {
  ASSERT_EQ(found.dims, dims);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found.as<float>()[i], wanted[i], 2e-5) << i;
  }
}

ModelBuilder& of_microsoft(ModelBuilder& builder, const std::string& op_type,
                           const std::vector<std::string>& inputs, const std::string& output,
                           const Attributes& attributes) {
  builder.node(op_type, inputs, {output}, attributes, output).domain("com.microsoft");
  return builder;
}

const Attributes& of_signals() {
  static const Attributes all = {{"signal_ndim", std::int64_t{1}},
                                 {"normalized", std::int64_t{0}},
                                 {"onesided", std::int64_t{1}}};
  return all;
}

TEST(ContribValues, RfftIsTheFirstHalfOfTheTransform) {
  const std::int64_t n = 10;
  const Tensor x = reals({1, n}, 0.7);
  ModelBuilder builder(17);
  builder.initializer("x", x);
  of_microsoft(builder, "Rfft", {"x"}, "y", of_signals());
  std::vector<double> wanted;
  for (std::int64_t k = 0; k <= n / 2; ++k) {
    double real = 0, imaginary = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle = 2 * std::acos(-1.0) * static_cast<double>(i * k) / n;
      real += x.as<float>()[static_cast<std::size_t>(i)] * std::cos(angle);
      imaginary -= x.as<float>()[static_cast<std::size_t>(i)] * std::sin(angle);
    }
    wanted.insert(wanted.end(), {real, imaginary});
  }
  expect_near(folded(builder), {1, n / 2 + 1, 2}, wanted);
}

TEST(ContribValues, IrfftTakesRfftBack) {
  const Tensor x = reals({2, 12}, 0.7);
  ModelBuilder builder(17);
  builder.initializer("x", x);
  of_microsoft(builder, "Rfft", {"x"}, "f", of_signals());
  of_microsoft(builder, "Irfft", {"f"}, "y", of_signals());
  expect_near(folded(builder), {2, 12}, {x.as<float>().begin(), x.as<float>().end()});
}

// Two groups of two channels, of a 2 x 3 image with its channels last; behind it x * sigmoid(x).
TEST(ContribValues, GroupNormTakesTheStatisticsOfGroups) {
  const Tensor x = reals({1, 2, 3, 4}, 0.9);
  const std::vector<double> scale = {0.5, 1, 2, -1}, shift = {0.25, 0, 1, 0};
  ModelBuilder builder(17);
  Tensor gamma = Tensor::zeros(Format::kF32, {4}), beta = gamma;
  std::ranges::copy(scale, gamma.as<float>().begin());
  std::ranges::copy(shift, beta.as<float>().begin());
  builder.initializer("x", x).initializer("g", gamma).initializer("b", beta);
  of_microsoft(builder, "GroupNorm", {"x", "g", "b"}, "y",
               {{"groups", std::int64_t{2}}, {"activation", std::int64_t{1}}});
  std::vector<double> wanted(24);
  const auto at = [&x](std::size_t i) { return double{x.as<float>()[i]}; };
  for (std::size_t group = 0; group < 2; ++group) {
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < 24; ++i) {
      if (i % 4 / 2 != group) continue;
      mean += at(i) / 12;
      square += at(i) * at(i) / 12;
    }
    for (std::size_t i = 0; i < 24; ++i) {
      if (i % 4 / 2 != group) continue;
      const double normal = (at(i) - mean) / std::sqrt(square - mean * mean + 1e-5);
      const double y = normal * scale[i % 4] + shift[i % 4];
      wanted[i] = y / (1 + std::exp(-y));
    }
  }
  expect_near(folded(builder), {1, 2, 3, 4}, wanted);
}

TEST(ContribValues, BiasSplitGeluGatesTheFirstHalf) {
  ModelBuilder builder(17);
  Tensor x = Tensor::zeros(Format::kF32, {1, 1, 2}), bias = Tensor::zeros(Format::kF32, {2});
  x.as<float>()[0] = 3, x.as<float>()[1] = 0.5F;
  bias.as<float>()[0] = -1, bias.as<float>()[1] = 1;
  builder.initializer("x", x).initializer("b", bias);
  of_microsoft(builder, "BiasSplitGelu", {"x", "b"}, "y", {});
  expect_near(folded(builder), {1, 1, 1}, {2 * 1.5 / 2 * (1 + std::erf(1.5 / std::sqrt(2.0)))});
}

// Bytes 10, 20, 60 less 10, times 0.5: a mean of 10, which is 40 units of 0.25 above a zero point of 2.
TEST(ContribValues, QLinearReduceMeanRoundsOnce) {
  ModelBuilder builder(13);
  Tensor x = Tensor::zeros(Format::kU8, {1, 3}), zero = Tensor::zeros(Format::kU8, {}), two = zero;
  Tensor half = Tensor::zeros(Format::kF32, {}), quarter = half;
  x.as<std::uint8_t>()[0] = 10, x.as<std::uint8_t>()[1] = 20, x.as<std::uint8_t>()[2] = 60;
  zero.as<std::uint8_t>()[0] = 10, two.as<std::uint8_t>()[0] = 2;
  half.as<float>()[0] = 0.5F, quarter.as<float>()[0] = 0.25F;
  builder.initializer("x", x).initializer("xs", half).initializer("xz", zero);
  builder.initializer("ys", quarter).initializer("yz", two);
  of_microsoft(builder, "QLinearReduceMean", {"x", "xs", "xz", "ys", "yz"}, "y",
               {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  const Tensor found = folded(builder);
  ASSERT_EQ(found.dims, (Shape{1}));
  EXPECT_EQ(found.as<std::uint8_t>()[0], 42);
}

// A kernel of one row and two columns, [M, 1, 2, C], over pixels of two channels.
TEST(ContribValues, NhwcConvHasItsChannelsLastInBothOperands) {
  const Tensor x = reals({1, 1, 3, 2}, 0.8), w = reals({3, 1, 2, 2}, 1.3);
  ModelBuilder builder(17);
  builder.initializer("x", x).initializer("w", w);
  of_microsoft(builder, "NhwcConv", {"x", "w"}, "y", {{"kernel_shape", Ints{1, 2}}});
  std::vector<double> wanted;
  for (std::size_t column = 0; column < 2; ++column) {
    for (std::size_t m = 0; m < 3; ++m) {
      double sum = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        sum += double{x.as<float>()[column * 2 + i]} * double{w.as<float>()[m * 4 + i]};
      }
      wanted.push_back(sum);
    }
  }
  expect_near(folded(builder), {1, 1, 2, 3}, wanted);
}

// x + skip + bias, which it gives as well, in one group of a pixel's two channels.
TEST(ContribValues, SkipGroupNormTakesTheStatisticsOfTheSum) {
  ModelBuilder builder(17);
  builder.initializer("x", real_list({1, 1, 1, 2}, {1, 2}));
  builder.initializer("g", real_list({2}, {1, 3})).initializer("b", real_list({2}, {0, 5}));
  builder.initializer("s", real_list({1, 1, 1, 2}, {0, 1}));
  builder.initializer("z", real_list({2}, {-1, 1}));
  builder
      .node("SkipGroupNorm", {"x", "g", "b", "s", "z"}, {"n", "t"},
            {{"groups", std::int64_t{1}}, {"epsilon", 0.0F}}, "it")
      .domain("com.microsoft");
  builder.node("Concat", {"n", "t"}, {"y"}, {{"axis", std::int64_t{0}}});
  // 0 and 4: a mean of 2, a deviation of 2.
  expect_near(folded(builder), {2, 1, 1, 2}, {-1, 3 + 5, 0, 4});
}

TEST(ContribValues, BiasAddAddsTheSkipToo) {
  ModelBuilder builder(17);
  builder.initializer("x", real_list({1, 2, 2}, {1, 2, 3, 4}));
  builder.initializer("b", real_list({2}, {10, 20}));
  builder.initializer("s", real_list({1, 2, 2}, {0.5, 0, 0, -0.5}));
  of_microsoft(builder, "BiasAdd", {"x", "b", "s"}, "y", {});
  expect_near(folded(builder), {1, 2, 2}, {11.5, 22, 13, 23.5});
}

TEST(ContribValues, RangeHasAStepOfOneWhereNoneIsGiven) {
  for (const bool has_step : {false, true}) {
    ModelBuilder builder(17);
    builder.initializer("a", real_list({}, {1})).initializer("b", real_list({}, {4}));
    builder.initializer("s", real_list({}, {2}));
    std::vector<std::string> inputs = {"a", "b"};
    if (has_step) inputs.emplace_back("s");
    of_microsoft(builder, "Range", inputs, "y", {});
    const std::vector<double> wanted =
        has_step ? std::vector<double>{1, 3} : std::vector<double>{1, 2, 3};
    expect_near(folded(builder), {static_cast<std::int64_t>(wanted.size())}, wanted);
  }
}

// ONNX Runtime takes values in the order of their first occurrence.
TEST(ContribValues, UniqueKeepsTheOrderOfValues) {
  const std::vector<double> places = {0, 1, 0, 2, 1}, counts = {2, 2, 1}, values = {7, 3, 5};
  const std::vector<std::vector<double>> wanted = {values, places, counts};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ModelBuilder builder(17);
    builder.initializer("x", real_list({5}, {7, 3, 7, 5, 3}));
    builder.node("Unique", {"x"}, {"o0", "o1", "o2"}, {}, "it").domain("com.microsoft");
    builder.node("Cast", {"o" + std::to_string(i)}, {"y"}, {{"to", std::int64_t{1}}});
    expect_near(folded(builder), {static_cast<std::int64_t>(wanted[i].size())}, wanted[i]);
  }
}

// Of ai.onnx before it was stable: each of 0.5 and -2.
TEST(ContribValues, OperatorsOfOldConvertersHaveTheirFormulas) {
  const Attributes both = {{"alpha", 3.0F}, {"beta", 0.5F}};
  const auto of = [](const std::string& op_type, const Attributes& attributes) {
    ModelBuilder builder(7);
    builder.initializer("x", real_list({2}, {0.5, -2}));
    builder.node(op_type, {"x"}, {"y"}, attributes, "it");
    return folded(builder);
  };
  expect_near(of("Affine", both), {2}, {2, -5.5});
  expect_near(of("Scale", {{"scale", 4.0F}}), {2}, {2, -8});
  expect_near(of("ScaledTanh", both), {2}, {3 * std::tanh(0.25), 3 * std::tanh(-1.0)});
  expect_near(of("ParametricSoftplus", both), {2},
              {3 * std::log1p(std::exp(0.25)), 3 * std::log1p(std::exp(-1.0))});
}

TEST(ContribValues, ImageScalerHasAnOffsetForEachChannelAndCropABorder) {
  ModelBuilder builder(7);
  builder.initializer("x", real_list({1, 2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  builder.node("ImageScaler", {"x"}, {"s"}, {{"scale", 2.0F}, {"bias", testing::Floats{0.5F, -1}}},
               "it");
  // Left, top, right, bottom.
  builder.node("Crop", {"s"}, {"y"}, {{"border", Ints{1, 0, 1, 1}}}, "cut");
  expect_near(folded(builder), {1, 2, 1, 1}, {4.5, 15});
}

// Keys and values of one sequence in a buffer of four rows, two of which are in use; each query sees all alike.
ModelBuilder of_a_buffer(std::int32_t last) {
  ModelBuilder builder(17);
  const auto whole = [](const Shape& dims, std::int32_t value) {
    Tensor tensor = Tensor::zeros(Format::kI32, dims);
    tensor.as<std::int32_t>()[0] = value;
    return tensor;
  };
  builder.initializer("q", real_list({1, 1, 1}, {0})).initializer("k", real_list({1, 1, 1}, {5}));
  builder.initializer("v", real_list({1, 1, 1}, {9}));
  builder.initializer("pk", real_list({1, 1, 4, 1}, {1, 1, 1, 1}));
  builder.initializer("pv", real_list({1, 1, 4, 1}, {1, 2, 300, 400}));
  builder.initializer("len", whole({1}, last)).initializer("total", whole({}, last + 1));
  return builder;
}

const Attributes& one_head() {
  static const Attributes heads = {{"num_heads", std::int64_t{1}},
                                   {"kv_num_heads", std::int64_t{1}}};
  return heads;
}

// Over "n" keys of each sequence and "all" together.
void attend_to_all(ModelBuilder& builder) {
  builder
      .node("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "n", "all"}, {"a", "nk", "y"},
            one_head(), "it")
      .domain("com.microsoft");
}

TEST(ContribValues, GroupQueryAttentionSeesOfABufferWhatIsInUse) {
  const Strings inputs = {"q", "k", "v", "pk", "pv", "len", "total"};
  ModelBuilder result = of_a_buffer(2);
  of_microsoft(result, "GroupQueryAttention", inputs, "y", one_head());
  expect_near(folded(result), {1, 1, 1}, {4});
  ModelBuilder values = of_a_buffer(2);
  values.node("GroupQueryAttention", inputs, {"a", "nk", "y"}, one_head(), "it")
      .domain("com.microsoft");
  expect_near(folded(values), {1, 1, 4, 1}, {1, 2, 9, 0});
  ModelBuilder full = of_a_buffer(4);
  full.node("GroupQueryAttention", inputs, {"a", "nk", "y"}, one_head(), "it")
      .domain("com.microsoft");
  expect_near(folded(full), {1, 1, 5, 1}, {1, 2, 300, 400, 9});
}

// How many rows are in use is known when the model runs; past and present are stated to be of one length.
TEST(ContribValues, GroupQueryAttentionKeepsTheStatedLengthOfABuffer) {
  for (const std::int64_t stated : {4, 5}) {
    ModelBuilder builder = of_a_buffer(2);
    builder.input("n", Format::kI32, {1}).input("all", Format::kI32, {});
    builder
        .node("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "n", "all"}, {"a", "nk", "y"},
              one_head(), "it")
        .domain("com.microsoft");
    builder.output("y", Format::kF32, {1, 1, stated, 1});
    const auto model = builder.model();
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    const auto inferred = infer(*model, {});
    ASSERT_TRUE(inferred.ok()) << inferred.error().to_string();
    EXPECT_EQ(inferred->values.at("y").dims, (Shape{1, 1, stated, 1}));
  }
}

// Of a mask whose length is that of the buffer; nothing is stated of the present.
TEST(ContribValues, GroupQueryAttentionReadsTheLengthThatAShapeGives) {
  ModelBuilder builder = of_a_buffer(2);
  builder.input("n", Format::kI32, {1}).input("mask", Format::kI64, {1, 4});
  Tensor one = Tensor::zeros(Format::kI64, {1});
  one.as<std::int64_t>()[0] = 1;
  builder.node("Shape", {"mask"}, {"shape"}).initializer("one", one);
  builder.node("Gather", {"shape", "one"}, {"length"});
  builder.node("Cast", {"length"}, {"all"}, {{"to", std::int64_t{6}}});
  attend_to_all(builder);
  builder.output("y");
  const auto model = builder.model();
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const auto inferred = infer(*model, {});
  ASSERT_TRUE(inferred.ok()) << inferred.error().to_string();
  EXPECT_EQ(inferred->values.at("y").dims, (Shape{1, 1, 4, 1}));
}

TEST(ContribValues, GroupQueryAttentionHasTheRowsThatItsLengthSaysWhereNothingIsStated) {
  ModelBuilder builder = of_a_buffer(2);
  builder.input("n", Format::kI32, {1}).input("all", Format::kI32, {});
  attend_to_all(builder);
  builder.output("y");
  const auto model = builder.model();
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(inputs_that_decide_shapes(*model, {}), std::vector<std::string>{"all"});
}

// As many as the new ones at least: a length that says fewer holds none of them.
TEST(ContribValues, GroupQueryAttentionHasRoomForItsNewRows) {
  ModelBuilder builder = of_a_buffer(0);
  builder.initializer("none", real_list({1, 1, 0, 1}, {}));
  Tensor zero = Tensor::zeros(Format::kI32, {});
  builder.initializer("all", zero);
  builder
      .node("GroupQueryAttention", {"q", "k", "v", "none", "none", "len", "all"}, {"a", "nk", "y"},
            one_head(), "it")
      .domain("com.microsoft");
  expect_near(folded(builder), {1, 1, 1, 1}, {9});
}

// What a node gives as a constant is one as well.
TEST(ContribValues, GroupQueryAttentionReadsTheLengthOfAConstantNode) {
  ModelBuilder builder = of_a_buffer(2);
  Tensor three = Tensor::zeros(Format::kI32, {});
  three.as<std::int32_t>()[0] = 3;
  builder.node("Constant", {}, {"three"}, {{"value", three}});
  builder
      .node("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "len", "three"}, {"a", "nk", "y"},
            one_head(), "it")
      .domain("com.microsoft");
  expect_near(folded(builder), {1, 1, 4, 1}, {1, 2, 9, 0});
}

std::string refusal_of_mask(const Shape& mask) {
  ModelBuilder builder(17);
  builder.input("x", Format::kF32, {2, 5, 6}).input("w", Format::kF32, {6, 18});
  builder.input("m", Format::kI32, mask);
  builder.node("Attention", {"x", "w", "", "m"}, {"y"}, {{"num_heads", std::int64_t{3}}}, "it")
      .domain("com.microsoft");
  builder.output("y");
  const auto model = builder.model();
  return model.ok() ? "" : model.error().to_string();
}

TEST(ContribValues, AttentionRefusesMasksWhoseMeaningIsNotKnown) {
  using ::testing::HasSubstr;
  for (const Shape& known : {Shape{2}, Shape{4}, Shape{2, 5}, Shape{2, 5, 5}}) {
    EXPECT_EQ(refusal_of_mask(known), "");
  }
  EXPECT_THAT(refusal_of_mask({8}),
              HasSubstr("node 'it' (Attention): operator of com.microsoft with a mask of 8 numbers "
                        "for 2 sequences; of one dimension it has where each ends, [batch], or "
                        "behind that where each starts, [2 * batch]"));
  EXPECT_THAT(refusal_of_mask({2, 1, 5, 5}), HasSubstr("a mask of 4 dimensions; known are"));
}

}  // namespace
}  // namespace tessera::model

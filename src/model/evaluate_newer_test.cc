// evaluate(): operators of opsets 18 to 28, against numbers worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/evaluate.h"

namespace tessera::model {
namespace {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Tensor floats(const Shape& dims, const Floats& values) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}
Tensor longs(const Shape& dims, const Ints& values) {
  Tensor tensor = Tensor::zeros(Format::kI64, dims);
  std::copy(values.begin(), values.end(), tensor.as<std::int64_t>().begin());
  return tensor;
}

struct Call {
  std::string op_type;
  std::int64_t opset;
  Attributes attributes = {};
  int outputs = 1;
};

// An operand of rank 0 and format f64 stands for one that is left out.
const Tensor kAbsent = Tensor::zeros(Format::kF64, {});

Result<std::vector<Tensor>> run(const Call& call, const std::vector<Tensor>& operands) {
  Node node{"n", call.op_type, "", {}, {}, call.attributes};
  std::vector<const Tensor*> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool there = !(operands[i] == kAbsent);
    node.inputs.push_back(there ? "x" + std::to_string(i) : "");
    inputs.push_back(there ? &operands[i] : nullptr);
  }
  for (int i = 0; i < call.outputs; ++i) node.outputs.push_back("y" + std::to_string(i));
  return evaluate(node, call.opset, inputs);
}
Tensor value(const Call& call, const std::vector<Tensor>& operands, std::size_t output = 0) {
  const auto result = run(call, operands);
  EXPECT_TRUE(result.ok()) << result.error().to_string();
  return result.ok() ? result->at(output) : Tensor{};
}
std::string error(const Call& call, const std::vector<Tensor>& operands) {
  const auto result = run(call, operands);
  return result.ok() ? "no error" : result.error().message;
}

// --- Attention: with equal scores every key counts alike. ---

const Tensor kZeroQuery = floats({1, 1, 2, 1}, {0, 0});
const Tensor kKeys = floats({1, 1, 2, 1}, {5, 7});
const Tensor kValues = floats({1, 1, 2, 1}, {1, 3});

TEST(EvaluateAttention, EqualScoresGiveTheMean) {
  EXPECT_EQ(value({"Attention", 23}, {kZeroQuery, kKeys, kValues}), floats({1, 1, 2, 1}, {2, 2}));
}

TEST(EvaluateAttention, ACausalRowSeesNoLaterKey) {
  EXPECT_EQ(
      value({"Attention", 23, {{"is_causal", std::int64_t{1}}}}, {kZeroQuery, kKeys, kValues}),
      floats({1, 1, 2, 1}, {1, 2}));
}

TEST(EvaluateAttention, APastIsSeenByAllAndComesBackWithTheNew) {
  const Call call{"Attention", 24, {{"is_causal", std::int64_t{1}}}, 3};
  const Tensor past_key = floats({1, 1, 1, 1}, {9}), past_value = floats({1, 1, 1, 1}, {5});
  const std::vector<Tensor> operands = {kZeroQuery, kKeys, kValues, kAbsent, past_key, past_value};
  EXPECT_EQ(value(call, operands, 0), floats({1, 1, 2, 1}, {3, 3}));  // {5,1} and {5,1,3}
  EXPECT_EQ(value(call, operands, 1), floats({1, 1, 3, 1}, {9, 5, 7}));
  EXPECT_EQ(value(call, operands, 2), floats({1, 1, 3, 1}, {5, 1, 3}));
}

TEST(EvaluateAttention, ARowThatIsMaskedWholeIsZero) {
  Tensor mask = Tensor::zeros(Format::kBool, {2, 2});
  mask.bytes[3] = std::byte{1};
  EXPECT_EQ(value({"Attention", 24}, {kZeroQuery, kKeys, kValues, mask}),
            floats({1, 1, 2, 1}, {0, 3}));
}

TEST(EvaluateAttention, QueryHeadsShareTheirKeyHead) {
  const Tensor query = Tensor::zeros(Format::kF32, {1, 4, 1, 1});
  const Tensor keys = Tensor::zeros(Format::kF32, {1, 2, 1, 1});
  EXPECT_EQ(value({"Attention", 23}, {query, keys, floats({1, 2, 1, 1}, {3, 8})}),
            floats({1, 4, 1, 1}, {3, 3, 8, 8}));
}

TEST(EvaluateAttention, PackedHeadsLieInTheLastAxis) {
  const Tensor query = Tensor::zeros(Format::kF32, {1, 1, 2});
  EXPECT_EQ(
      value(
          {"Attention", 23, {{"q_num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{2}}}},
          {query, Tensor::zeros(Format::kF32, {1, 2, 2}), floats({1, 2, 2}, {1, 10, 3, 30})}),
      floats({1, 1, 2}, {2, 20}));
}

TEST(EvaluateAttention, AMaskThatDoesNotFitIsAnError) {
  EXPECT_EQ(
      error({"Attention", 23}, {kZeroQuery, kKeys, kValues, floats({3, 2}, {0, 0, 0, 0, 0, 0})}),
      "node 'n' (Attention): a mask of shape 3x2 and format f32 does not fit scores of shape "
      "1x1x2x2");
}

TEST(EvaluateRotary, AQuarterTurnExchangesThePair) {
  const Tensor x = floats({1, 1, 1, 4}, {1, 2, 3, 4});
  const Tensor cosine = floats({1, 1, 2}, {0, 0}), sine = floats({1, 1, 2}, {1, 1});
  EXPECT_EQ(value({"RotaryEmbedding", 23}, {x, cosine, sine}),
            floats({1, 1, 1, 4}, {-3, -4, 1, 2}));
  EXPECT_EQ(value({"RotaryEmbedding", 23, {{"interleaved", std::int64_t{1}}}}, {x, cosine, sine}),
            floats({1, 1, 1, 4}, {-2, 1, -4, 3}));
}

TEST(EvaluateRotary, APositionOutsideTheTableIsAnError) {
  EXPECT_EQ(error({"RotaryEmbedding", 23}, {floats({1, 1, 1, 2}, {1, 2}), floats({1, 1}, {1}),
                                            floats({1, 1}, {0}), longs({1, 1}, {1})}),
            "node 'n' (RotaryEmbedding): position 1 is outside the tables of 1 and 1 rows");
}

TEST(EvaluateTensorScatter, ACircularCacheWrapsRound) {
  const Tensor cache = floats({1, 3, 1}, {1, 2, 3}), update = floats({1, 2, 1}, {8, 9});
  EXPECT_EQ(value({"TensorScatter", 24}, {cache, update, longs({1}, {1})}),
            floats({1, 3, 1}, {1, 8, 9}));
  EXPECT_EQ(value({"TensorScatter", 24, {{"mode", std::string("circular")}}},
                  {cache, update, longs({1}, {2})}),
            floats({1, 3, 1}, {9, 2, 8}));
  EXPECT_EQ(error({"TensorScatter", 24}, {cache, update, longs({1}, {2})}),
            "node 'n' (TensorScatter): write index 2 is outside [0, 1]");
}

// One head, one key, one value: S is a number.
TEST(EvaluateLinearAttention, EachRuleUpdatesTheStateItsOwnWay) {
  const Tensor query = floats({1, 2, 1}, {1, 1}), key = floats({1, 2, 1}, {1, 2});
  const Tensor values = floats({1, 2, 1}, {3, 4}), half = floats({1, 2, 1}, {0.5, 0.5});
  const Attributes heads = {{"q_num_heads", std::int64_t{1}}, {"kv_num_heads", std::int64_t{1}}};
  Attributes linear = heads, delta = heads;
  linear["update_rule"] = std::string("linear");
  delta["update_rule"] = std::string("delta");
  EXPECT_EQ(value({"LinearAttention", 27, linear, 2}, {query, key, values}),
            floats({1, 2, 1}, {3, 11}));
  // 0.5 * 1 * (3 - 0) = 1.5; then 1.5 + 0.5 * 2 * (4 - 2 * 1.5) = 2.5
  EXPECT_EQ(value({"LinearAttention", 27, delta, 2}, {query, key, values, kAbsent, kAbsent, half}),
            floats({1, 2, 1}, {1.5, 2.5}));
}

TEST(EvaluateCausalConv, TheStateStandsBeforeTheInput) {
  const Tensor x = floats({1, 1, 3}, {1, 2, 3}), taps = floats({1, 1, 2}, {10, 1});
  const Call call{"CausalConvWithState", 27, {}, 2};
  EXPECT_EQ(value(call, {x, taps}), floats({1, 1, 3}, {1, 12, 23}));
  const std::vector<Tensor> with_state = {x, taps, floats({1}, {100}), floats({1, 1, 1}, {5})};
  EXPECT_EQ(value(call, with_state), floats({1, 1, 3}, {151, 112, 123}));
  EXPECT_EQ(value(call, with_state, 1), floats({1, 1, 1}, {3}));
}

TEST(EvaluateNewer, RootMeanSquareNormalisation) {
  EXPECT_EQ(value({"RMSNormalization", 23, {{"epsilon", 0.0F}}},
                  {floats({1, 2}, {7, 1}), floats({2}, {5, 10})}),
            floats({1, 2}, {7, 2}));  // root of (49 + 1) / 2 is 5
}

TEST(EvaluateNewer, SwishAndItsGatedForm) {
  EXPECT_EQ(value({"Swish", 24}, {floats({1}, {0})}), floats({1}, {0}));
  EXPECT_EQ(value({"Swish", 24, {{"alpha", 0.0F}}}, {floats({1}, {6})}), floats({1}, {3}));
  EXPECT_EQ(value({"SwiGLU", 28, {{"alpha", 0.0F}}}, {floats({1}, {6}), floats({1}, {7})}),
            floats({1}, {21}));
}

TEST(EvaluateNewer, DequantizeLinearGivesTheFormatItIsAskedFor) {
  Tensor x = Tensor::zeros(Format::kI8, {1});
  x.as<std::int8_t>()[0] = -3;
  const Tensor found =
      value({"DequantizeLinear", 23, {{"output_dtype", std::int64_t{11}}}}, {x, floats({}, {0.5})});
  EXPECT_EQ(found.format, Format::kF64);
  EXPECT_EQ(found.as<double>()[0], -1.5);
  EXPECT_EQ(
      error({"DequantizeLinear", 23, {{"output_dtype", std::int64_t{6}}}}, {x, floats({}, {0.5})}),
      "node 'n' (DequantizeLinear): the output has format i32, a float is needed");
}

TEST(EvaluateNewer, CumulativeProduct) {
  const Tensor x = longs({4}, {1, 2, 3, 4}), axis = longs({}, {0});
  EXPECT_EQ(value({"CumProd", 26}, {x, axis}), longs({4}, {1, 2, 6, 24}));
  EXPECT_EQ(value({"CumProd", 26, {{"exclusive", std::int64_t{1}}}}, {x, axis}),
            longs({4}, {1, 1, 2, 6}));
  EXPECT_EQ(value({"CumProd", 26, {{"reverse", std::int64_t{1}}}}, {x, axis}),
            longs({4}, {24, 24, 12, 4}));
}

TEST(EvaluateNewer, BitCastKeepsTheBits) {
  const Tensor found = value({"BitCast", 26, {{"to", std::int64_t{6}}}}, {floats({1}, {1})});
  EXPECT_EQ(found.format, Format::kI32);
  EXPECT_EQ(found.as<std::int32_t>()[0], 0x3F800000);
  EXPECT_EQ(error({"BitCast", 26, {{"to", std::int64_t{7}}}}, {floats({1}, {1})}),
            "node 'n' (BitCast): the bits of f32 cannot be read as i64");
}

TEST(EvaluateGeometry, CenterCropPadHalvesTheSurplus) {
  const Tensor x = floats({4}, {1, 2, 3, 4});
  EXPECT_EQ(value({"CenterCropPad", 18}, {x, longs({1}, {2})}), floats({2}, {2, 3}));
  EXPECT_EQ(value({"CenterCropPad", 18}, {x, longs({1}, {7})}), floats({7}, {0, 1, 2, 3, 4, 0, 0}));
}

TEST(EvaluateGeometry, ColumnsAddUpWhereTheyOverlap) {
  // Blocks of 2 at 2 positions of an image of 3.
  EXPECT_EQ(
      value({"Col2Im", 18}, {floats({1, 2, 2}, {1, 2, 10, 20}), longs({1}, {3}), longs({1}, {2})}),
      floats({1, 1, 3}, {1, 12, 20}));
}

TEST(EvaluateGeometry, TheIdentityGivesThePixelsCentres) {
  const Tensor theta = floats({1, 2, 3}, {1, 0, 0, 0, 1, 0});
  EXPECT_EQ(value({"AffineGrid", 20}, {theta, longs({4}, {1, 1, 1, 2})}),
            floats({1, 1, 2, 2}, {-0.5, 0, 0.5, 0}));
  EXPECT_EQ(value({"AffineGrid", 20, {{"align_corners", std::int64_t{1}}}},
                  {theta, longs({4}, {1, 1, 2, 2})}),
            floats({1, 2, 2, 2}, {-1, -1, 1, -1, -1, 1, 1, 1}));
}

TEST(EvaluateGeometry, DeformConvReadsBetweenPixels) {
  const Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 5}), one = floats({1, 1, 1, 1}, {1});
  Tensor offsets = Tensor::zeros(Format::kF32, {1, 2, 2, 2});
  EXPECT_EQ(value({"DeformConv", 19}, {x, one, offsets}), x);
  for (int i = 4; i < 8; ++i)
    offsets.as<float>()[static_cast<std::size_t>(i)] = 0.5F;  // to the right
  EXPECT_EQ(value({"DeformConv", 19}, {x, one, offsets}), floats({1, 1, 2, 2}, {1.5, 1, 4, 2.5}));
}

TEST(EvaluateGeometry, AGridOfThreeAxesReadsAVolume) {
  const Tensor volume = floats({1, 1, 2, 1, 2}, {1, 2, 3, 5});
  const Attributes corners = {{"align_corners", std::int64_t{1}}};
  // x, y, z: the last axis first.
  EXPECT_EQ(
      value({"GridSample", 20, corners}, {volume, floats({1, 1, 1, 2, 3}, {1, 0, -1, 0, 0, 0})}),
      floats({1, 1, 1, 1, 2}, {2, 2.75}));
}

// As on the processor (numbers.md).
TEST(EvaluateArithmetic, AQuotientThatDoesNotFitSaturates) {
  const Call divide{"Div", 14}, modulo{"Mod", 13};
  Tensor least = Tensor::zeros(Format::kI32, {2}), by = least, most = least;
  least.as<std::int32_t>()[0] = least.as<std::int32_t>()[1] = INT32_MIN;
  by.as<std::int32_t>()[0] = -1, by.as<std::int32_t>()[1] = 1;
  most.as<std::int32_t>()[0] = INT32_MAX, most.as<std::int32_t>()[1] = INT32_MIN;
  EXPECT_EQ(value(divide, {least, by}), most);
  EXPECT_EQ(value(modulo, {least, by}), Tensor::zeros(Format::kI32, {2}));
  EXPECT_EQ(error(modulo, {longs({1}, {1}), longs({1}, {0})}),
            "node 'n' (Mod): an integer is divided by zero");
}

// Rows 0 to 2 in two bins, which share row 1; the second region lies outside.
TEST(EvaluateGeometry, MaxRoiPoolTakesWholeElementsOfEachBin) {
  const Call call{"MaxRoiPool", 22, {{"pooled_shape", Ints{2, 1}}, {"spatial_scale", 0.5F}}};
  const Tensor image = floats({1, 1, 3, 2}, {1, 2, 9, 4, 5, 6});
  EXPECT_EQ(value(call, {image, floats({2, 5}, {0, 0, 0, 0, 4, 0, 20, 20, 22, 22})}),
            floats({2, 1, 2, 1}, {9, 9, 0, 0}));
  EXPECT_EQ(error(call, {image, floats({1, 5}, {1, 0, 0, 0, 4})}),
            "node 'n' (MaxRoiPool): image 1 is outside [0, 0]");
}

// Half a pixel behind the last one: neighbours 1, 2, 2, 2 with the weights -0.09375, 0.59375, 0.59375, -0.09375.
TEST(EvaluateGeometry, ACubicCurveGoesOnBehindTheBorder) {
  const Call call{"GridSample",
                  20,
                  {{"mode", std::string("cubic")},
                   {"padding_mode", std::string("border")},
                   {"align_corners", std::int64_t{1}}}};
  EXPECT_EQ(value(call, {floats({1, 1, 1, 3}, {0, 1, 2}), floats({1, 1, 1, 2}, {1.5F, 0})}),
            floats({1, 1, 1, 1}, {2 + 0.09375F}));
}

// 3 / 0.6 is 5 in binary32, and less in binary64, where 0.6 is a little more.
TEST(EvaluateGeometry, NearestPlacesAreThoseOfBinary32) {
  const Call call{"Resize",
                  13,
                  {{"coordinate_transformation_mode", std::string("asymmetric")},
                   {"nearest_mode", std::string("floor")}}};
  EXPECT_EQ(
      value(call, {longs({10}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), kAbsent, floats({1}, {0.6F})}),
      longs({6}, {0, 1, 3, 5, 6, 8}));
}

TEST(EvaluateGeometry, RoiAlignOfARegionWithoutAnAreaIsZero) {
  for (const char* const mode : {"avg", "max"}) {
    const Call call{"RoiAlign", 16, {{"mode", std::string(mode)}}};
    EXPECT_EQ(value(call, {floats({1, 1, 2, 2}, {1, 2, 3, 4}), floats({1, 4}, {1, 1, 1, 1}),
                           longs({1}, {0})}),
              floats({1, 1, 1, 1}, {0}));
  }
}

TEST(EvaluateGeometry, RoiAlignOfMaximaTakesTheLargestShareOfACorner) {
  const Tensor image = floats({1, 1, 2, 2}, {1, 2, 3, 8});
  const Call call{"RoiAlign",
                  22,
                  {{"mode", std::string("max")},
                   {"coordinate_transformation_mode", std::string("output_half_pixel")},
                   {"sampling_ratio", std::int64_t{1}}}};
  // One sample in the middle, at (0.5, 0.5): every corner has a quarter.
  EXPECT_EQ(value(call, {image, floats({1, 4}, {0, 0, 1, 1}), longs({1}, {0})}),
            floats({1, 1, 1, 1}, {2}));
}

TEST(EvaluateSpectral, HalfASpectrumGivesBackTheRealSignal) {
  const Tensor signal = floats({1, 4, 1}, {1, 2, 3, 5}), axis = longs({}, {1});
  const Tensor half = value({"DFT", 20, {{"onesided", std::int64_t{1}}}}, {signal, kAbsent, axis});
  ASSERT_EQ(half.dims, (Shape{1, 3, 2}));
  const Call inverse{"DFT", 20, {{"onesided", std::int64_t{1}}, {"inverse", std::int64_t{1}}}};
  EXPECT_EQ(value(inverse, {half, kAbsent, axis}), signal);
}

TEST(EvaluateFeature, TheMelMatrixHasATriangleABin) {
  const auto scalar = [](std::int64_t number) { return longs({}, {number}); };
  const Tensor found = value({"MelWeightMatrix", 17}, {scalar(2), scalar(16), scalar(8000),
                                                       floats({}, {0}), floats({}, {4000})});
  ASSERT_EQ(found.dims, (Shape{9, 2}));
  float highest = 0;
  for (const float weight : found.as<float>()) {
    EXPECT_GE(weight, 0.0F);
    highest = std::max(highest, weight);
  }
  EXPECT_EQ(highest, 1.0F);
}

TEST(EvaluateFeature, BigramsAreCountedAcrossSkips) {
  const Attributes attributes = {
      {"min_gram_length", std::int64_t{2}}, {"max_gram_length", std::int64_t{2}},
      {"max_skip_count", std::int64_t{1}},  {"mode", std::string("TF")},
      {"ngram_counts", Ints{0, 1}},         {"ngram_indexes", Ints{0, 1, 2}},
      {"pool_int64s", Ints{7, 1, 2, 1, 3}}};
  EXPECT_EQ(value({"TfIdfVectorizer", 9, attributes}, {longs({4}, {1, 2, 3, 7})}),
            floats({3}, {0, 1, 1}));  // (1, 2) side by side, (1, 3) across the 2
}

TEST(EvaluateResize, AntialiasingTakesAllPixelsOfTheWindow) {
  const Tensor x = floats({1, 1, 1, 4}, {0, 4, 8, 12});
  const Tensor halves = floats({4}, {1, 1, 1, 0.5});
  const Attributes attributes = {{"mode", std::string("linear")}, {"antialias", std::int64_t{1}}};
  // Triangles of reach 2 about 0.5 and 2.5, cut off nowhere: (3*0 + 3*4 + 8 + edge 0) / 8 = 2.5
  EXPECT_EQ(value({"Resize", 18, attributes}, {x, kAbsent, halves}),
            floats({1, 1, 1, 2}, {2.5, 9.5}));
}

TEST(EvaluateBatchNormalization, TrainingTakesTheBatchAndMovesTheRunningValues) {
  const Call call{"BatchNormalization",
                  15,
                  {{"training_mode", std::int64_t{1}}, {"momentum", 0.5F}, {"epsilon", 0.0F}},
                  3};
  const Tensor x = floats({2, 1}, {1, 5}), one = floats({1}, {1}), zero = floats({1}, {0});
  const std::vector<Tensor> operands = {x, one, zero, floats({1}, {7}), floats({1}, {8})};
  EXPECT_EQ(value(call, operands, 0), floats({2, 1}, {-1, 1}));
  EXPECT_EQ(value(call, operands, 1), floats({1}, {5}));  // (7 + 3) / 2
  EXPECT_EQ(value(call, operands, 2), floats({1}, {6}));  // (8 + 4) / 2
}

}  // namespace
}  // namespace tessera::model

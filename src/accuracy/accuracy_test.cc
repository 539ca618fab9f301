// Layers' errors, ranges and the choice of formats, on models whose needs are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "accuracy/accuracy_study.h"
#include "accuracy/value_ranges.h"
#include "model/testing/model_builder.h"
#include "tessera/format_choice.h"

namespace tessera::accuracy {
namespace {

namespace fs = std::filesystem;
using model::testing::Ints;
using model::testing::ModelBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor random_values(const Shape& dims, float scale, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  for (float& value : tensor.as<float>()) {
    value = scale * (static_cast<float>(random() % 2001) - 1000) / 1000;
  }
  return tensor;
}

class Accuracy : public ::testing::Test {
 protected:
  Accuracy() { fs::create_directories(folder_); }
  ~Accuracy() override { fs::remove_all(folder_); }

  std::string write(const ModelBuilder& model) const {
    const std::string path = folder_ + "/model.onnx";
    std::ofstream(path, std::ios::binary) << model.bytes();
    return path;
  }
  // Two products: the second one's weights are 4 and 1/1,024 in turn, so that a block of few bits loses half of them.
  std::string two_products() const {
    Tensor hard = random_values({32, 32}, 1, 2);
    for (std::size_t i = 0; i < 32 * 32; ++i) {
      hard.as<float>()[i] *= (i / 32) % 2 == 0 ? 4.0f : 1.0f / 1024;
    }
    Tensor sign = Tensor::zeros(Format::kF32, {32});
    for (std::size_t i = 0; i < 32; ++i) sign.as<float>()[i] = i % 2 == 0 ? 0.0f : 1.0f;
    return write(ModelBuilder(17)
                     .input("x", Format::kF32, {8, 32})
                     .initializer("easy", random_values({32, 32}, 1, 1))
                     .initializer("hard", hard)
                     .initializer("sign", sign)
                     .node("MatMul", {"x", "easy"}, {"first"}, {}, "first_product")
                     .node("Mul", {"first", "sign"}, {"some"}, {}, "mask")
                     .node("MatMul", {"some", "hard"}, {"y"}, {}, "second_product")
                     .output("y"));
  }

  const std::string folder_ = ::testing::TempDir() + "accuracy_test";
};

const FormatCases kCases{.inputs = {{random_values({8, 32}, 1, 3)}, {random_values({8, 32}, 1, 4)}},
                         .threads = 1};

TEST_F(Accuracy, TheLayerThatMakesTheErrorIsTheOneOfTheWideWeights) {
  const std::string path = two_products();
  const LoadOptions load{.arch = "tessera128+bfp:5"};
  const auto study = accuracy_study(path, load, kCases, {.layers_tried = 2});
  ASSERT_TRUE(study.ok()) << study.error().message;
  EXPECT_EQ(study->cases, 2u);
  const auto error_of = [&](const std::string& layer) {
    for (const LayerError& error : study->layers) {
      if (error.layer == layer) return error;
    }
    return LayerError{};
  };
  const LayerError first = error_of("first_product"), second = error_of("second_product");
  EXPECT_EQ(first.format, "f16, bfp:5");
  EXPECT_GT(first.own, 1e-3);
  EXPECT_LT(first.own, 0.1);
  EXPECT_GT(second.own, 0.3);
  EXPECT_NEAR(second.error, second.own, 0.1);
  EXPECT_GT(second.growth(), 3);
  // All products wide is best, the second one alone nearly as good, the first one alone no help.
  ASSERT_GE(study->of_all.size(), 2u);
  EXPECT_EQ(study->of_all[1].change, "products in bfp:15");
  EXPECT_GT(study->of_all[1].cosine, 0.999);
  ASSERT_FALSE(study->of_layers.empty());
  EXPECT_EQ(study->of_layers[0].layer, "second_product");
  EXPECT_GT(study->of_layers[0].cosine, study->cosine);
  for (const Remedy& remedy : study->of_layers) {
    if (remedy.layer != "first_product") continue;
    EXPECT_LT(remedy.cosine, study->of_layers[0].cosine);
  }
}

TEST_F(Accuracy, TheBoundIsReachedWithMoreBitsWhereTheyCount) {
  const std::string path = two_products();
  const LoadOptions load{.arch = "tessera128+bfp:5"};
  const auto choice = choose_formats(path, load, kCases, 0.995);
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_LT(choice->cosine_before, 0.995);
  EXPECT_GE(choice->cosine, 0.995);
  ASSERT_TRUE(choice->formats.mantissa_bits.contains("second_product"));
  EXPECT_GT(choice->formats.mantissa_bits.at("second_product"), 5);
  const auto first = choice->formats.mantissa_bits.find("first_product");
  EXPECT_TRUE(first == choice->formats.mantissa_bits.end() || first->second <= 5);
  // What was found is what loading with it gives.
  Trials trials = *Trials::open(path, load, kCases);
  EXPECT_EQ(*trials.cosine(*trials.graph(choice->formats)), choice->cosine);
}

TEST_F(Accuracy, BitsToSpareAreGivenBack) {
  const auto choice = choose_formats(two_products(), {.arch = "tessera128+bfp:15"}, kCases, 0.99);
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_GE(choice->cosine, 0.99);
  EXPECT_LT(choice->weight_bytes, choice->weight_bytes_before);
  EXPECT_LE(choice->formats.mantissa_bits.at("first_product"), 5);
}

TEST_F(Accuracy, ValuesOutOfRangeBecomeWide) {
  const std::string path =
      write(ModelBuilder(17)
                .input("x", Format::kF32, {1, 4, 8, 8})
                .initializer("w", random_values({4, 4, 3, 3}, 1, 5))
                .node("Mul", {"x", "x"}, {"power"}, {}, "square")
                .node("MaxPool", {"power"}, {"most"},
                      {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}, "pool")
                .node("Conv", {"most", "w"}, {"c"}, {{"pads", Ints{1, 1, 1, 1}}}, "conv")
                .node("Tanh", {"c"}, {"y"}, {}, "tanh")
                .output("y"));
  const FormatCases cases{.inputs = {{random_values({1, 4, 8, 8}, 900, 6)}}, .threads = 1};
  const auto formats = formats_for_ranges(path, {}, cases);
  ASSERT_TRUE(formats.ok()) << formats.error().message;
  EXPECT_THAT(formats->wide, ElementsAre("c", "most", "power"));
  Trials trials = *Trials::open(path, {}, cases);
  const double narrow = *trials.cosine(*trials.graph({}));
  const double wide = *trials.cosine(*trials.graph(*formats));
  EXPECT_GT(wide, narrow);
  EXPECT_GT(wide, 0.9999);
}

TEST_F(Accuracy, WhatCannotBeIsSaid) {
  const std::string path = two_products();
  const auto unreachable =
      choose_formats(path, {.arch = "tessera128+bfp:3"}, kCases, 0.999999999999);
  ASSERT_FALSE(unreachable.ok());
  EXPECT_EQ(unreachable.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(unreachable.error().message, HasSubstr("out of reach"));
  EXPECT_THAT(choose_formats(path, {}, kCases, 1).error().message, HasSubstr("0 to below 1"));
  EXPECT_THAT(choose_formats(path, {}, {}, 0.9).error().message, HasSubstr("no case is given"));
  const FormatCases other{.inputs = {{random_values({8, 31}, 1, 3)}}};
  EXPECT_THAT(choose_formats(path, {}, other, 0.9).error().message, HasSubstr("'x'"));
}

// The places of what is above zero decide shapes, so that the model runs in parts.
TEST_F(Accuracy, OfAModelThatRunsInPartsFormatsAreChosenForTheFirstOne) {
  const FormatCases cases{.inputs = {{random_values({4, 32}, 1, 3)}}, .threads = 1};
  const std::string path = write(ModelBuilder(17)
                                     .input("x", Format::kF32, {4, 32})
                                     .initializer("w", random_values({32, 8}, 1, 1))
                                     .node("MatMul", {"x", "w"}, {"scores"}, {}, "product")
                                     .node("Relu", {"scores"}, {"some"})
                                     .node("NonZero", {"some"}, {"places"})
                                     .output("places"));
  const LoadOptions load{.arch = "tessera128+bfp:15"};
  const auto choice = choose_formats(path, load, cases, 0.9);
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_LT(choice->formats.mantissa_bits.at("product"), 15);
  EXPECT_LT(choice->weight_bytes, choice->weight_bytes_before);
  EXPECT_TRUE(formats_for_ranges(path, load, cases).ok());
  EXPECT_FALSE(accuracy_study(path, load, cases, {.layers_tried = 2}).ok());
}

TEST_F(Accuracy, NoFormatsAreChosenWhereNothingLiesBeforeWhatDataDecides) {
  const FormatCases cases{.inputs = {{random_values({4, 32}, 1, 3)}}, .threads = 1};
  const std::string path = write(ModelBuilder(17)
                                     .input("x", Format::kF32, {4, 32})
                                     .node("NonZero", {"x"}, {"y"}, {}, "places")
                                     .output("y"));
  const auto choice = choose_formats(path, {}, cases, 0.9);
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.error().message,
            "the model runs in parts, and no node lies before node 'places' (NonZero), which data "
            "decides");
}

}  // namespace
}  // namespace tessera::accuracy

#include "report/format_study.h"

#include <gtest/gtest.h>

#include <cmath>

#include "accuracy/operand_bytes.h"
#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"

namespace tessera::report {
namespace {

Tensor floats(const Shape& dims, const std::vector<float>& values) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

TEST(FormatStudy, TheCosineIsThatOfTheWorstOutputOverAllCases) {
  const Tensor same = floats({2, 1}, {1, 2});
  const Accuracy accuracy =
      accuracy_of({{same, floats({2}, {3, 0})}, {same, floats({2}, {0, 0})}},
                  {{same, floats({2}, {3, 0})}, {same, floats({2}, {0, 4})}}, false);
  EXPECT_DOUBLE_EQ(accuracy.cosine, 9.0 / (3.0 * 5.0));
  EXPECT_EQ(accuracy.max_error, 4);
  EXPECT_EQ(accuracy.largest, 3);
  EXPECT_FALSE(accuracy.top1.has_value());  // the first output has one class
}

TEST(FormatStudy, NumbersThatAreNotFiniteAreLeftOutOrCountAsWrong) {
  const Tensor expected = floats({1, 2}, {INFINITY, 1});
  EXPECT_EQ(accuracy_of({{expected}}, {{floats({1, 2}, {0, 1})}}, false).cosine, 1);
  const Accuracy lost = accuracy_of({{expected}}, {{floats({1, 2}, {0, NAN})}}, false);
  EXPECT_EQ(lost.cosine, 0);
  EXPECT_EQ(lost.max_error, HUGE_VAL);
}

TEST(FormatStudy, Top1CountsRowsAndTextsCountImages) {
  // Two images of three steps and three classes: texts "1 2" and "1".
  const Tensor expected =
      floats({2, 3, 3}, {0, 9, 0, 9, 0, 0, 0, 0, 9, /**/ 0, 9, 0, 0, 9, 0, 9, 0, 0});
  // The first image's second step repeats class 1 in place of the blank: the same text. The second
  // image says "1 2".
  const Tensor found =
      floats({2, 3, 3}, {0, 9, 0, 0, 9, 0, 0, 0, 9, /**/ 0, 9, 0, 0, 9, 0, 0, 0, 9});
  const Accuracy accuracy = accuracy_of({{expected}}, {{found}}, true);
  EXPECT_DOUBLE_EQ(*accuracy.top1, 4.0 / 6);
  EXPECT_DOUBLE_EQ(*accuracy.texts, 0.5);
  EXPECT_FALSE(accuracy_of({{expected}}, {{found}}, false).texts.has_value());
}

// A convolution of 40 channels, 3 x 3, to 8, on 6 x 6 pixels.
accuracy::OperandBytes bytes_in(const MatrixFormat& matrix) {
  compile::testing::GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 40, 6, 6}), {.output_channels = 8, .kernel = 3}));
  for (graph::Node& node : builder.graph().nodes) {
    if (node.kind() != graph::NodeKind::kConv) continue;
    node.as<graph::ConvAttributes>().matrix = matrix;
    node.as<graph::ConvAttributes>().cut = BlockCut::kChannel;
  }
  return accuracy::operand_bytes(builder.graph());
}

TEST(FormatStudy, OperandsTakeTheBitsOfTheirElementsAndScales) {
  const accuracy::OperandBytes plain = bytes_in({.kind = MatrixKind::kFloat});
  EXPECT_EQ(plain.weights, 8 * 9 * 40 * 2);
  EXPECT_EQ(plain.activations, 36 * 40 * 2);
  const accuracy::OperandBytes block =
      bytes_in({.mantissa_bits_moving = 7, .mantissa_bits_stationary = 3});
  EXPECT_EQ(block.weights, 8 * 9 * (40 * 4 + 5) / 8);
  EXPECT_EQ(block.activations, 36 * (40 * 8 + 5) / 8 + 1);  // a part of a byte counts
  const accuracy::OperandBytes micro = bytes_in({.kind = MatrixKind::kMicroscaling,
                                                 .element_moving = MicroElement::kE2M1,
                                                 .element_stationary = MicroElement::kE3M2});
  EXPECT_EQ(micro.weights, 8 * 9 * (40 * 6 + 2 * 8) / 8);  // two blocks a run
  EXPECT_EQ(micro.activations, 36 * (40 * 4 + 2 * 8) / 8);
}

TEST(FormatStudy, TriesEveryFormatOfItsList) {
  const std::vector<std::string> formats = study_formats();
  EXPECT_EQ(formats.size(), 22u);
  EXPECT_EQ(formats.front(), "f32");
  for (const std::string& format : formats) {
    if (format == "int8") continue;
    EXPECT_TRUE(load_chip_config("tessera128+" + format).ok()) << format;
  }
}

}  // namespace
}  // namespace tessera::report

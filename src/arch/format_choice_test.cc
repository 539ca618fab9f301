#include "arch/format_choice.h"

#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "arith/microscaling.h"

namespace tessera {
namespace {

MatrixFormat matrix_of(const std::string& text) {
  FormatsConfig formats;
  const Status status = apply_format_choice(text, formats);
  EXPECT_TRUE(status.ok()) << text;
  return formats.matrix;
}

std::string refusal_of(const std::string& text) {
  FormatsConfig formats;
  const Status status = apply_format_choice(text, formats);
  return status.ok() ? "no error" : status.error().to_string();
}

constexpr const char* kChoices =
    "f32, bf16, f16, bfp[:MX[:MW]][:exact|:q34.40], fixed[:MX]:BITS, log[:MX]:BITS, mxint8, "
    "mxfp8e4m3, mxfp8e5m2, mxfp6e3m2, "
    "mxfp6e2m3, mxfp4e2m1 (each with [:WEIGHTS][:floor|:ceil|:even])";

TEST(FormatChoice, PlainFloatsSetTheVectorsToo) {
  for (const Format format : {Format::kF16, Format::kBf16, Format::kF32}) {
    FormatsConfig formats;
    ASSERT_TRUE(apply_format_choice(std::string(format_name(format)), formats).ok());
    EXPECT_EQ(formats.vector, format);
    EXPECT_EQ(formats.matrix.kind, MatrixKind::kFloat);
    EXPECT_EQ(format_choice_text(formats), format_name(format));
  }
}

TEST(FormatChoice, BlockFloatTakesOneOrTwoWidthsAndALongFormat) {
  EXPECT_EQ(matrix_of("bfp"), MatrixFormat{});
  EXPECT_EQ(matrix_of("bfp:7"),
            (MatrixFormat{.mantissa_bits_moving = 7, .mantissa_bits_stationary = 7}));
  EXPECT_EQ(matrix_of("bfp:9:3"),
            (MatrixFormat{.mantissa_bits_moving = 9, .mantissa_bits_stationary = 3}));
  EXPECT_EQ(matrix_of("bfp:15:q34.40"), (MatrixFormat{.mantissa_bits_moving = 15,
                                                      .mantissa_bits_stationary = 15,
                                                      .long_format = LongFormat::kQ34_40}));
  EXPECT_EQ(matrix_of("bfp:q34.40").long_format, LongFormat::kQ34_40);
}

TEST(FormatChoice, GridsTakeTheBitsOfAWeightAndTheMantissaThatHoldsThem) {
  FormatsConfig formats;
  ASSERT_TRUE(apply_format_choice("fixed:9:4", formats).ok());
  EXPECT_EQ(formats.fixed_weight_bits, 4);
  EXPECT_EQ(formats.matrix.mantissa_bits_moving, 9);
  EXPECT_EQ(formats.matrix.mantissa_bits_stationary, 3);
  EXPECT_EQ(format_choice_text(formats), "fixed:9:4");
  ASSERT_TRUE(apply_format_choice("log:4", formats).ok());
  EXPECT_EQ(formats.fixed_weight_bits, 0);
  EXPECT_EQ(formats.logarithmic_weight_bits, 4);
  EXPECT_EQ(formats.matrix.mantissa_bits_stationary, 7);
  EXPECT_EQ(format_choice_text(formats), "log:9:4");
  ASSERT_TRUE(apply_format_choice("bfp:9:3", formats).ok());
  EXPECT_EQ(formats.logarithmic_weight_bits, 0);
  EXPECT_EQ(refusal_of("log:6").substr(0, 62),
            "format 'log:6': found '6' for the bits of a weight (2..5); all");
  EXPECT_EQ(refusal_of("fixed").substr(0, 40), "format 'fixed': needs the bits of a weig");
}

TEST(FormatChoice, MicroscalingTakesElementsForWeightsAndAScaleMode) {
  for (int i = 0; i < kMicroElementCount; ++i) {
    const auto element = static_cast<MicroElement>(i);
    const MatrixFormat found = matrix_of(arith::micro_element_name(element));
    EXPECT_EQ(found.kind, MatrixKind::kMicroscaling);
    EXPECT_EQ(found.element_moving, element);
    EXPECT_EQ(found.element_stationary, element);
    EXPECT_EQ(found.micro_scale, MicroScale::kFloor);
  }
  const MatrixFormat mixed = matrix_of("mxfp8e5m2:mxfp4e2m1:even");
  EXPECT_EQ(mixed.element_moving, MicroElement::kE5M2);
  EXPECT_EQ(mixed.element_stationary, MicroElement::kE2M1);
  EXPECT_EQ(mixed.micro_scale, MicroScale::kEven);
  EXPECT_EQ(matrix_of("mxint8:ceil").micro_scale, MicroScale::kCeil);
}

TEST(FormatChoice, TheTextOfAChoiceGivesItAgain) {
  for (const char* text : {"f32", "bf16", "f16", "bfp:3:15", "bfp:15:15:q34.40", "mxint8",
                           "mxfp8e4m3:mxfp6e2m3", "mxfp6e3m2:even", "mxfp4e2m1:mxint8:ceil"}) {
    FormatsConfig formats;
    ASSERT_TRUE(apply_format_choice(text, formats).ok()) << text;
    EXPECT_EQ(format_choice_text(formats), text);
  }
}

TEST(FormatChoice, WhatIsNoFormatIsNamedWithWhatIsAllowed) {
  const std::string allowed = std::string("; allowed ") + kChoices + "   [invalid argument]";
  EXPECT_EQ(refusal_of("int4"), "format 'int4': unknown" + allowed);
  EXPECT_EQ(refusal_of(""), "format '': unknown" + allowed);
  EXPECT_EQ(refusal_of("i32"), "format 'i32': unknown" + allowed);
  EXPECT_EQ(refusal_of("bfp:16"),
            "format 'bfp:16': found '16' for mantissa bits (2..15) or a long format" + allowed);
  EXPECT_EQ(refusal_of("bfp:7:7:7"),
            "format 'bfp:7:7:7': found '7' for mantissa bits (2..15) or a long format" + allowed);
  EXPECT_EQ(
      refusal_of("bfp:exact:7"),
      "format 'bfp:exact:7': found 'exact' for mantissa bits (2..15) or a long format" + allowed);
  EXPECT_EQ(
      refusal_of("mxint8:floor:ceil"),
      "format 'mxint8:floor:ceil': found 'floor' for an element format or a scale mode" + allowed);
  EXPECT_EQ(
      refusal_of("mxint8:mxint9"),
      "format 'mxint8:mxint9': found 'mxint9' for an element format or a scale mode" + allowed);
}

TEST(FormatChoice, StandsBehindThePlusOfAnArchitecture) {
  const auto chip = load_chip_config("edge+mxfp8e4m3:even");
  ASSERT_TRUE(chip.ok()) << chip.error().to_string();
  EXPECT_EQ(chip->name, "edge+mxfp8e4m3:even");
  EXPECT_EQ(chip->formats.matrix.kind, MatrixKind::kMicroscaling);
  EXPECT_EQ(chip->neural.rows, 16);
  EXPECT_NE(fingerprint(*chip), fingerprint(*load_chip_config("edge")));
  EXPECT_EQ(load_chip_config("edge+f8").error().to_string(),
            std::string("format 'f8': unknown; allowed ") + kChoices + "   [invalid argument]");
  EXPECT_EQ(load_chip_config("age+f16").error().message.substr(0, 26),
            "unknown architecture 'age'");
}

}  // namespace
}  // namespace tessera

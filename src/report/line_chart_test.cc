#include "report/line_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LineChart, AFactorIsAsLongEverywhere) {
  const std::string svg = line_chart_svg("cores", "ms", {{"a", {{1, 100}, {4, 10}, {16, 1}}}});
  EXPECT_THAT(svg, HasSubstr("points='80.0,20.0 360.0,180.0 640.0,340.0 '"));
  EXPECT_THAT(svg, HasSubstr(">cores</text>"));
  EXPECT_THAT(svg, HasSubstr(">50</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">200</text>")));
}

TEST(LineChart, WhatHasNoPlaceOnALogarithmIsLeftOut) {
  const std::string svg = line_chart_svg("x", "y", {{"a", {{1, 0}, {2, 3}, {-1, 4}}}});
  EXPECT_THAT(svg, HasSubstr("points='360.0,180.0 '"));
  EXPECT_EQ(line_chart_svg("x", "y", {{"a", {{1, 0}}}, {"b", {}}}), "");
}

TEST(LineChart, NamesAreTexts) {
  const std::string svg = line_chart_svg("<x>", "a&b", {{"<script>", {{1, 1}}}});
  EXPECT_THAT(svg, HasSubstr("&lt;script>"));
  EXPECT_THAT(svg, HasSubstr("a&amp;b"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace tessera::report

#include "arch/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

const std::vector<std::string> kNames = {"rows", "columns", "psum_banks"};

TEST(NearestName, FindsALetterMissingWrongOrTooMuch) {
  EXPECT_EQ(nearest_name("row", kNames), "rows");
  EXPECT_EQ(nearest_name("rovs", kNames), "rows");
  EXPECT_EQ(nearest_name("collumns", kNames), "columns");
}

TEST(NearestName, IsEmptyWhereNothingIsNear) {
  EXPECT_EQ(nearest_name("temperature", kNames), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(NearestName, AllowsAThirdOfTheLettersToDiffer) {
  EXPECT_EQ(nearest_name("psum_baXXX", kNames), "psum_banks");
  EXPECT_EQ(nearest_name("psum_bXXXX", kNames), "");
}

}  // namespace
}  // namespace tessera

// The program kernels_emulated_test: tests of kernels_test with the code for matrix tiles
// (tile/intrinsics.h) on emulated instructions, on every machine. Here is what those tests do not
// ask: that they take this code, and that the emulation refuses what the processor refuses.
#include "arith/kernels/testing/emulated_tiles.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "arith/kernels/testing/emulated_halves.h"
#include "arith/kernels/testing/emulated_vectors.h"
#include "arith/kernels/tile/dot.h"
#include "arith/kernels/tile/matrix_tiles.h"

namespace tessera::kernels {
namespace {

using namespace emulated::instructions;

// The tests that this program runs besides its own, and of what it counts more after each. Those of
// one instruction set after the other are not among them: tiles go with the best set only.
struct Expected {
  std::string_view test;
  std::int64_t (*count)();
};
constexpr Expected kExpected[] = {
    {"Product.BlockFloatEqualsTheObviousForm", emulated::tile_products},
    {"Product.IntegersEqualTheObviousForm", emulated::tile_products},
    {"Product.FarApartExponentsTakeTheWideAccumulatorAndStayExact", emulated::tile_products},
    {"Product.IntegersOfInfiniteMultipliersEqualTheObviousForm", emulated::tile_products},
    {"Product.LongNativeBlocksEqualTheObviousForm", emulated::tile_products},
    {"Product.MatrixProductOfADynamicOperandEqualsTheConstantOne", emulated::tile_products},
    {"Product.MatrixProductsOfRowsEqualTheObviousForm", emulated::tile_products},
    {"TileFinish.EqualsTheObviousForm", emulated::half_roundings},
};

// A test that was to take the emulated code and did not fails.
class CodeIsTaken : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& test) override {
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    expected_ = std::ranges::find(kExpected, name, &Expected::test);
    if (expected_ != std::end(kExpected)) before_ = expected_->count();
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (expected_ == std::end(kExpected)) return;
    EXPECT_GT(expected_->count(), before_) << test.name() << " took no code for matrix tiles";
  }

  const Expected* expected_ = std::end(kExpected);
  std::int64_t before_ = 0;
};

TEST(EmulatedTiles, TestsThatAreToTakeThemAreInThisProgram) {
  const ::testing::UnitTest& program = *::testing::UnitTest::GetInstance();
  std::vector<std::string> names;
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      names.push_back(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
    }
  }
  for (const Expected& each : kExpected) {
    EXPECT_EQ(std::ranges::count(names, each.test), 1) << each.test;
  }
}

TEST(EmulatedTilesDeathTest, OutsideOfAScopeEndTheProgram) {
  alignas(64) const std::int8_t weights[2 * kTileBytes] = {};
  const double scales[kStripPixels] = {};
  const TileSegment segment = {.tiles = {weights}, .scales = {scales}, .steps = 1};
  const TileDot dot = {
      .segments = {&segment, 1}, .strips = 1, .weights = weights, .weight_scales = scales};
  double sums[kTileRows * kPanelPixels];
  EXPECT_DEATH(tile_dot(dot, sums), "outside of a TileScope");
  {
    const TileScope scope;
    tile_dot(dot, sums);
  }
  EXPECT_EQ(sums[0], 0.0);
  EXPECT_DEATH(tile_dot(dot, sums), "outside of a TileScope");
}

TEST(EmulatedTilesDeathTest, ShapesThatDoNotSuitEachOtherEndTheProgram) {
  // Tiles 0 and 1 of 16 rows of 64 bytes, tile 2 of 15.
  std::uint8_t config[64] = {1};
  config[16] = config[18] = config[20] = 64;
  config[48] = config[49] = 16;
  config[50] = 15;
  const auto with = [&](std::size_t place, std::uint8_t value) {
    std::vector<std::uint8_t> changed(config, config + sizeof config);
    changed[place] = value;
    return changed;
  };
  EXPECT_DEATH(_tile_loadconfig(with(0, 2).data()), "palette 2");
  EXPECT_DEATH(_tile_loadconfig(with(2, 1).data()), "reserved bytes");
  EXPECT_DEATH(_tile_loadconfig(with(48, 17).data()), "tile 0 of 17 rows");
  EXPECT_DEATH(_tile_loadconfig(with(51, 16).data()), "tile 3 of 16 rows of 0 bytes");
  _tile_loadconfig(config);
  EXPECT_DEATH(_tile_dpbssd(0, 1, 2), "16 x 64 \\* 15 x 64");
  EXPECT_DEATH(_tile_dpbssd(0, 1, 1), "tiles 0 \\+= 1 \\* 1");
  EXPECT_DEATH(_tile_zero(3), "tile 3 is not configured");
  _tile_release();
}

TEST(EmulatedVectorsDeathTest, AddressesThatAreNotAlignedEndTheProgram) {
  alignas(64) std::byte bytes[128] = {};
  EXPECT_DEATH(_mm512_load_si512(bytes + 32), "of 64 aligned bytes");
  EXPECT_DEATH(_mm512_store_si512(bytes + 1, _mm512_setzero_si512()), "of 64 aligned bytes");
  _mm512_store_si512(bytes + 64, _mm512_load_si512(bytes));
}

// Lanes without a bit lie in a page that may not be touched.
TEST(EmulatedVectors, MaskedMemoryIsNotTouched) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const pages =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::byte* const end = static_cast<std::byte*>(pages) + page;
  ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
  const auto sevens = [](const __m512i& from) {
    return std::ranges::count(from.bytes, std::byte{7});
  };
  const __m512i source = _mm512_set1_epi8(7), other = _mm512_set1_epi8(5);
  for (int lanes = 0; lanes <= 16; ++lanes) {
    const std::uint16_t mask = static_cast<std::uint16_t>((1u << lanes) - 1);
    std::memset(pages, 0, page);
    _mm512_mask_storeu_epi8(end - lanes, mask, source);
    EXPECT_EQ(sevens(_mm512_maskz_loadu_epi8(mask, end - lanes)), lanes);
    EXPECT_EQ(sevens(_mm512_mask_loadu_epi8(other, mask, end - lanes)), lanes);
    _mm256_mask_storeu_epi16(end - 2 * lanes, mask, _mm512_castsi512_si256(source));
    EXPECT_EQ(sevens(_mm512_maskz_loadu_epi16(mask, end - 2 * lanes)), 2 * lanes);
    _mm512_mask_storeu_ps(end - 4 * lanes, mask, std::bit_cast<__m512>(source));
    EXPECT_EQ(std::count(end - page, end, std::byte{7}), 4 * lanes);
  }
  munmap(pages, 2 * page);
}

}  // namespace
}  // namespace tessera::kernels

int main(int argc, char** argv) {
  using tessera::kernels::kExpected;
  // The command line may ask for others.
  std::string filter = "Emulated*:MatrixTiles.*";
  for (const auto& each : kExpected) filter += ":" + std::string(each.test);
  GTEST_FLAG_SET(filter, filter);
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::UnitTest::GetInstance()->listeners().Append(new tessera::kernels::CodeIsTaken);
  return RUN_ALL_TESTS();
}

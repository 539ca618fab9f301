// The instruction sets are counted as the library counts them.
#define HWY_WANT_AVX3_DL

#include "arith/kernels/tile/matrix_tiles.h"

#include <gtest/gtest.h>

#include "arith/kernels/tile/detection.h"
#include "arith/vector_targets.h"
// The sets left out are named in front of Highway.
#include <hwy/targets.h>

namespace tessera::kernels {
namespace {

std::int64_t best_of(std::int64_t sets) { return sets & -sets; }

TEST(MatrixTiles, AreTakenUnlessVectorInstructionsAreBoundToALesserSet) {
  if (!tiles::are_there()) {
    GTEST_SKIP() << "this processor has no matrix tiles (AMX with AVX512-FP16): the code of "
                    "tile_dot.cc, byte_tiles.cc, tile_quantise.cc, tile_finish.cc and tile_rows.cc "
                    "is not run by kernels_test; kernels_emulated_test runs it";
  }
  EXPECT_TRUE(has_matrix_tiles());
  const std::int64_t with_tiles = best_of(tiles::detect() & HWY_TARGETS);
  for (std::int64_t sets = hwy::SupportedTargets() & HWY_TARGETS; sets != 0; sets &= sets - 1) {
    hwy::GetChosenTarget().Update(best_of(sets));
    EXPECT_EQ(has_matrix_tiles(), best_of(sets) <= with_tiles) << hwy::TargetName(best_of(sets));
  }
  hwy::GetChosenTarget().DeInit();
  EXPECT_TRUE(has_matrix_tiles());
}

}  // namespace
}  // namespace tessera::kernels

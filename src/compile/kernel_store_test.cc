#include "compile/kernel_store.h"

#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "compile/compile_shares.h"
#include "compile/testing/random_graph.h"

namespace tessera::compile {
namespace {

CutKernel kernel_of(std::size_t bytes) {
  CutKernel kernel;
  kernel.images.emplace_back(std::vector<std::byte>(bytes, std::byte{7}));
  return kernel;
}

TEST(KernelStore, MakesAKernelOnce) {
  KernelStore store;
  int made = 0;
  const auto make = [&]() -> Result<CutKernel> {
    ++made;
    return kernel_of(10);
  };
  const auto first = store.kernel({3, {.shares = 4}}, make);
  const auto again = store.kernel({3, {.shares = 4}}, make);
  EXPECT_EQ(*first, *again);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(store.bytes(), 10u);
  // Every part of the key counts.
  (void)store.kernel({4, {.shares = 4}}, make);
  (void)store.kernel({3, {.shares = 5}}, make);
  (void)store.kernel({3, {.swapped = true, .shares = 4}}, make);
  (void)store.kernel({3, {.shares = 4, .compress = false}}, make);
  EXPECT_EQ(made, 5);
}

TEST(KernelStore, KeepsNoError) {
  KernelStore store;
  const auto fails = []() -> Result<CutKernel> { return Error{ErrorCode::kDoesNotFit, "none"}; };
  EXPECT_FALSE(store.kernel({1, {}}, fails).ok());
  EXPECT_TRUE(store.kernel({1, {}}, [] { return Result<CutKernel>(kernel_of(1)); }).ok());
}

TEST(KernelStore, GivesUpWhatWasUsedLast) {
  KernelStore store(25);
  int made = 0;
  const auto use = [&](graph::NodeIndex node) {
    return *store.kernel({node, {}}, [&]() -> Result<CutKernel> {
      ++made;
      return kernel_of(10);
    });
  };
  const auto first = use(1);
  use(2);
  use(1);
  use(3);  // 2 goes
  EXPECT_EQ(store.bytes(), 20u);
  EXPECT_EQ(made, 3);
  use(1);
  EXPECT_EQ(made, 3);
  use(2);  // 3 goes
  EXPECT_EQ(made, 4);
  EXPECT_EQ(first->images[0].bytes().size(), 10u);
}

// Whatever was compiled before with the same store.
TEST(KernelStore, ProgramsAreTheSameWithAndWithout) {
  const ChipConfig chip = *load_chip_config("cloud16");
  for (std::uint64_t seed = 6300; seed < 6312; ++seed) {
    const auto graph = testing::random_graph(seed);
    const CompileOptions together{.kernels = std::make_shared<KernelStore>()};
    for (const int cores : {4, 1, 3, 4}) {
      for (const Split split : {Split::kRows, Split::kChannels}) {
        const ShareChoice choice{.cores = cores, .split = split, .of_nodes = {}};
        const auto alone = compile_shares(graph, chip, {}, choice);
        const auto with = compile_shares(graph, chip, together, choice);
        ASSERT_EQ(alone.ok(), with.ok()) << seed;
        if (!alone.ok()) continue;
        for (std::size_t core = 0; core < alone->card.cores.size(); ++core) {
          ASSERT_EQ(alone->card.cores[core].stream, with->card.cores[core].stream) << seed;
        }
        ASSERT_EQ(alone->card.cores[0].weights, with->card.cores[0].weights) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::compile

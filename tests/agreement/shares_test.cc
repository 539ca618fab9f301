// Layers shared out among cores: any number of cores and any split give the bits of one core, and the
// dependencies between cores order whatever touches the same bytes. TESSERA_TEST_WHOLE takes every number
// of cores with every split for each graph, else a graph has one in five of them, others than its neighbour.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "card_runs.h"
#include "compile/compile_shares.h"
#include "compile/testing/random_graph.h"
#include "concord/testing/random_graph.h"
#include "isa/verify.h"
#include "link/one_list.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::HandOver;
using compile::LayerShare;
using compile::ShareChoice;
using compile::SharedProgram;
using compile::ShareWay;
using compile::Split;
using compile::testing::GraphBuilder;
using GraphPointer = std::shared_ptr<const graph::Graph>;

constexpr int kCores[] = {1, 2, 3, 4, 7, 16, 64};
constexpr Split kSplits[] = {Split::kRows, Split::kChannels, Split::kGrid};

// The list's outputs are those of the reference.
void check_bits(const SharedProgram& shared, const ChipConfig& chip,
                const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected) {
  for (const link::ListOrder order :
       {link::ListOrder::kFirstCore, link::ListOrder::kLastCore, link::ListOrder::kLayers}) {
    const auto list = link::in_one_list(shared.card, chip, order);
    ASSERT_TRUE(list.ok()) << list.error().to_string();
    const Status proof = isa::verify_program(list->program, list->chip);
    ASSERT_TRUE(proof.ok()) << proof.error().to_string();
    const auto found = run_program(list->program, list->chip, inputs, {});
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    EXPECT_TRUE(expected == *found) << "order " << static_cast<int>(order);
  }
}

// Each core's program is proved by itself.
void check_cores(const SharedProgram& shared, const ChipConfig& chip) {
  for (std::size_t core = 0; core < shared.card.cores.size(); ++core) {
    const Status proof = prove_core(shared.card, core, chip);
    EXPECT_TRUE(proof.ok()) << proof.error().to_string();
  }
}

void check_layers(const SharedProgram& shared) {
  for (const LayerShare& layer : shared.layers) {
    EXPECT_EQ(layer.way == ShareWay::kOneCore, !layer.reason.empty()) << layer.name;
    if (layer.way == ShareWay::kOneCore) {
      EXPECT_LE(layer.cores, 1) << layer.name;
    }
  }
}

void check_graph(const GraphPointer& graph, const ChipConfig& chip, std::uint64_t seed) {
  const std::vector<Tensor> inputs = random_inputs(*graph, seed);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const auto one_in = static_cast<std::uint64_t>(visit_one_in(5, 10));
  std::uint64_t number = seed;
  for (const int cores : kCores) {
    for (const Split split : kSplits) {
      if (number++ % one_in != 0) continue;
      SCOPED_TRACE(::testing::Message() << "graph " << seed << ", " << cores << " cores, split "
                                        << static_cast<int>(split));
      ShareChoice choice{.cores = cores, .split = split, .of_nodes = {}, .share_loads = false};
      choice.hand_over = (seed + static_cast<std::uint64_t>(cores)) % 3 != 0;
      const auto shared = compile::compile_shares(graph, chip, {}, choice);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      check_layers(*shared);
      check_cores(*shared, chip);
      check_bits(*shared, chip, inputs, *expected);
    }
  }
}

TEST(Shares, RandomGraphsGiveTheReferenceBits) {
  for (std::uint64_t seed = 2000; seed < 2010; ++seed) {
    check_graph(compile::testing::random_graph(seed), *load_chip_config("tessera128"), seed);
  }
}

TEST(Shares, SmallArraysGiveTheReferenceBits) {
  for (std::uint64_t seed = 2100; seed < 2104; ++seed) {
    check_graph(compile::testing::random_graph(seed), *load_chip_config("edge"), seed);
  }
}

// Every kind of node; values that compare equal bit by bit.
TEST(Shares, GraphsOfAllNodesGiveTheReferenceBits) {
  for (std::uint32_t seed = 1; seed < 25; ++seed) {
    const auto graph =
        std::make_shared<const graph::Graph>(concord::testing::random_graph(seed, 8));
    check_graph(graph, *load_chip_config("tessera128"), seed);
  }
}

// A split of its own for each layer, and small buffers, so that a core has many pieces of a layer.
TEST(Shares, MixedSplitsInSmallBuffersGiveTheReferenceBits) {
  for (std::uint64_t seed = 2200; seed < 2212; ++seed) {
    const auto graph = compile::testing::random_graph(seed);
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const auto expected = run_reference(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    ChipConfig chip = *load_chip_config("tessera128");
    chip.state_buffer.bytes_per_partition = 8192;
    std::mt19937_64 random(seed);
    for (const int cores : {2, 5, 8}) {
      ShareChoice choice{
          .cores = cores, .split = Split::kRows, .of_nodes = {}, .share_loads = false};
      for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
        choice.of_nodes.push_back(static_cast<Split>(random() % compile::kSplitWays));
      }
      SCOPED_TRACE(::testing::Message() << "graph " << seed << ", " << cores << " cores");
      const auto shared = compile::compile_shares(graph, chip, {}, choice);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      check_bits(*shared, chip, inputs, *expected);
    }
  }
}

TEST(Shares, DependenciesOrderAllThatTouchesTheSameBytes) {
  for (std::uint64_t seed = 2000; seed < 2012; ++seed) {
    const auto graph = compile::testing::random_graph(seed);
    for (const int cores : {2, 3, 5}) {
      for (const Split split : kSplits) {
        SCOPED_TRACE(::testing::Message() << "graph " << seed << ", " << cores << " cores, split "
                                          << static_cast<int>(split));
        const auto shared = compile::compile_shares(
            graph, *load_chip_config("tessera128"), {},
            {.cores = cores, .split = split, .of_nodes = {}, .share_loads = false});
        ASSERT_TRUE(shared.ok()) << shared.error().to_string();
        EXPECT_EQ(find_race(shared->card), "");
      }
    }
  }
}

GraphPointer two_convolutions() {
  GraphBuilder builder(1);
  auto x = builder.conv(builder.input({1, 24, 20, 20}), {32, 3, 1, 1});
  builder.output(builder.conv(x, {16, 3, 1, 1}));
  return builder.take();
}

TEST(Shares, EachDependencyOnAnotherCoreThatIsMissingIsNoticed) {
  for (const Split split : kSplits) {
    const auto shared =
        compile::compile_shares(two_convolutions(), ChipConfig{}, {},
                                {.cores = 3, .split = split, .of_nodes = {}, .share_loads = false});
    ASSERT_TRUE(shared.ok()) << shared.error().to_string();
    EXPECT_GT(shared->remote_dependencies, 0);
    for (std::size_t core = 0; core < 3; ++core) {
      const std::vector<isa::TaskDescriptor>& tasks = shared->card.cores[core].tasks;
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        for (const isa::RemoteDependency& gone : tasks[i].remote) {
          isa::CardProgram card = shared->card;
          std::erase_if(card.cores[core].tasks[i].remote, [&](const auto& remote) {
            return remote.core == gone.core && remote.on.task == gone.on.task;
          });
          EXPECT_NE(find_race(card), "") << "core " << core << " task " << i;
        }
      }
    }
  }
}

// Bands and ranges where 16 cores cannot share the rows, nor the blocks of channels, evenly; what stays
// of them has edges along both axes.
TEST(Shares, GridsGiveTheReferenceBits) {
  const ChipConfig chip = *load_chip_config("cloud16");
  for (std::uint64_t seed = 2220; seed < 2224; ++seed) {
    GraphBuilder builder(seed);
    auto x = builder.input({1, 24, 17, 19});
    x = builder.conv(x, {.output_channels = 72, .kernel = 3, .pad = 1});
    const auto a = builder.conv(x, {.output_channels = 64, .kernel = 3, .pad = 1});
    const auto b = builder.conv(x, {.output_channels = 64, .kernel = 3, .pad = 1});
    const auto sum = builder.binary(a, b, BinaryFunction::kAdd);
    const auto both = builder.concat({a, sum}, 1);
    builder.output(builder.conv(both, {.output_channels = 50, .kernel = 3, .pad = 1}));
    const auto graph = builder.take();
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const auto expected = run_reference(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    for (const int cores : {4, 6, 8, 16}) {
      for (const bool hand_over : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "graph " << seed << ", " << cores << " cores");
        ShareChoice choice{
            .cores = cores, .split = Split::kGrid, .of_nodes = {}, .share_loads = false};
        choice.hand_over = hand_over;
        const auto shared = compile::compile_shares(graph, chip, {}, choice);
        ASSERT_TRUE(shared.ok()) << shared.error().to_string();
        const auto grids = std::ranges::count(shared->layers, ShareWay::kGrid, &LayerShare::way);
        EXPECT_GE(grids, cores == 16 ? 3 : 0);
        EXPECT_EQ(find_race(shared->card), "");
        check_cores(*shared, chip);
        check_bits(*shared, chip, inputs, *expected);
      }
    }
  }
}

// The last part of a sum makes results like any other: they are stored for other cores, or stay.
TEST(Shares, SumsInPartsGiveTheReferenceBits) {
  ChipConfig chip = *load_chip_config("cloud16");
  chip.neural.kernel_bytes_per_partition = 1024;
  GraphBuilder builder(2230);
  auto x = builder.input({1, 256, 9, 7});
  for (int i = 0; i < 2; ++i) {
    x = builder.conv(x, {.output_channels = 256, .kernel = 1});
    builder.output(x);
    x = builder.binary(x, x, BinaryFunction::kMultiply);
  }
  builder.output(builder.conv(x, {.output_channels = 40, .kernel = 1}));
  const auto graph = builder.take();
  const std::vector<Tensor> inputs = random_inputs(*graph, 2230);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  for (const int cores : {2, 3, 8}) {
    for (const Split split : {Split::kRows, Split::kChannels, Split::kGrid}) {
      for (const bool hand_over : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << cores << " cores, split " << static_cast<int>(split) << ", " << hand_over);
        ShareChoice choice{.cores = cores, .split = split, .of_nodes = {}, .share_loads = false};
        choice.hand_over = hand_over;
        const auto shared = compile::compile_shares(graph, chip, {}, choice);
        ASSERT_TRUE(shared.ok()) << shared.error().to_string();
        EXPECT_TRUE(std::ranges::any_of(shared->card.cores[1].tasks, [](const auto& task) {
          const auto* const product = std::get_if<isa::NeuralTask>(&task.config);
          return product != nullptr && product->psum.keeps;
        }));
        EXPECT_EQ(find_race(shared->card), "");
        check_cores(*shared, chip);
        check_bits(*shared, chip, inputs, *expected);
      }
    }
  }
}

TEST(Shares, EdgesLeaveWhileTheLayerGoesOn) {
  GraphBuilder builder(1);
  auto x = builder.conv(builder.input({1, 24, 64, 64}), {32, 3, 1, 1});
  builder.output(builder.conv(x, {16, 3, 1, 1}));
  const auto shared = compile::compile_shares(
      builder.take(), ChipConfig{}, {},
      {.cores = 2, .split = Split::kRows, .of_nodes = {}, .share_loads = false});
  ASSERT_TRUE(shared.ok()) << shared.error().to_string();
  // The upper half waits for the lower one's first rows alone.
  for (const isa::TaskDescriptor& task : shared->card.cores[0].tasks) {
    for (const isa::RemoteDependency& remote : task.remote) {
      const isa::TaskDescriptor& store = shared->card.cores[1].tasks[remote.on.task];
      EXPECT_EQ(steps_needed(remote.on, task.steps(), store.steps()), 1);
    }
  }
  EXPECT_EQ(shared->remote_dependencies, 2);
}

TEST(Shares, LayersSayHowTheyAreCut) {
  for (const bool hand_over : {false, true}) {
    ShareChoice choice{.cores = 4, .split = Split::kRows, .of_nodes = {}, .share_loads = false};
    choice.hand_over = hand_over;
    const auto shared = compile::compile_shares(two_convolutions(), ChipConfig{}, {}, choice);
    ASSERT_TRUE(shared.ok()) << shared.error().to_string();
    ASSERT_EQ(shared->layers.size(), 2u);
    const LayerShare& first = shared->layers[0];
    EXPECT_EQ(first.way, ShareWay::kRows);
    EXPECT_EQ(first.cores, 4);
    EXPECT_EQ(first.hand_over, hand_over ? HandOver::kStays : HandOver::kSwitchedOff);
    // A row on both sides of three borders; or all of it.
    EXPECT_EQ(first.bytes_written, hand_over ? 3 * 2 * 32 * 20 * 2 : 2 * 32 * 20 * 20);
    EXPECT_EQ(shared->layers[1].hand_over, hand_over ? HandOver::kNothing : HandOver::kSwitchedOff);
  }
}

// Behind channels an addition needs nothing of other cores, and a convolution everything.
TEST(Shares, OwnChannelsStayWhereTheyAre) {
  for (const bool product : {false, true}) {
    GraphBuilder builder(1);
    const auto x = builder.conv(builder.input({1, 24, 20, 20}), {64, 3, 1, 1});
    builder.output(product ? builder.conv(x, {64, 1, 1, 0})
                           : builder.binary(x, x, BinaryFunction::kAdd));
    const auto shared = compile::compile_shares(
        builder.take(), *load_chip_config("cloud16"), {},
        {.cores = 4, .split = Split::kChannels, .of_nodes = {}, .share_loads = false});
    ASSERT_TRUE(shared.ok()) << shared.error().to_string();
    const LayerShare& first = shared->layers[0];
    EXPECT_EQ(first.way, ShareWay::kChannels);
    EXPECT_EQ(first.hand_over, product ? HandOver::kOthersRead : HandOver::kStays);
    EXPECT_EQ(first.bytes_written, product ? 2 * 64 * 20 * 20 : 0);
  }
}

// Of several images as of one: rows stay with the edges of each image, channels without any.
TEST(Shares, SeveralImagesStayWhereTheyAre) {
  for (const Split split : {Split::kRows, Split::kChannels}) {
    GraphBuilder builder(7);
    const auto x = builder.conv(builder.input({3, 24, 20, 20}), {32, 3, 1, 1});
    const bool rows = split == Split::kRows;
    builder.output(rows ? builder.conv(x, {16, 3, 1, 1})
                        : builder.binary(x, x, BinaryFunction::kMultiply));
    const auto graph = builder.take();
    const std::vector<Tensor> inputs = random_inputs(*graph, 7);
    const auto expected = run_reference(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    const std::int64_t row = 2 * 32 * 20;
    std::int64_t read[2] = {};
    for (const bool hand_over : {false, true}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(split) << ", " << hand_over);
      ShareChoice choice{.cores = 4, .split = split, .of_nodes = {}, .share_loads = false};
      choice.hand_over = hand_over;
      const ChipConfig chip = *load_chip_config("cloud16");
      const auto shared = compile::compile_shares(graph, chip, {}, choice);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      const LayerShare& first = shared->layers[0];
      EXPECT_EQ(first.hand_over, hand_over ? HandOver::kStays : HandOver::kSwitchedOff);
      // Two rows at each of three borders, of each image; or all of it.
      const std::int64_t edges = rows ? 3 * 3 * 2 * row : 0;
      EXPECT_EQ(first.bytes_written, hand_over ? edges : 3 * 20 * row);
      // What a core made itself it does not read again.
      read[hand_over ? 1 : 0] = shared->layers[1].bytes_read;
      EXPECT_EQ(find_race(shared->card), "");
      check_cores(*shared, chip);
      check_bits(*shared, chip, inputs, *expected);
    }
    EXPECT_EQ(read[0] - read[1], 3 * 20 * row);
  }
}

// Rows of several images lie apart in the buffer, so that the layer takes one image after the other; not
// where its kernels would be read again for each.
TEST(Shares, SeveralImagesDoNotStayAtThePriceOfKernels) {
  ChipConfig chip = *load_chip_config("cloud16");
  GraphBuilder builder(8);
  auto x = builder.conv(builder.input({2, 64, 12, 12}), {64, 3, 1, 1});
  builder.output(builder.conv(x, {64, 3, 1, 1}));
  const auto graph = builder.take();
  const std::vector<Tensor> inputs = random_inputs(*graph, 8);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  for (const bool small : {false, true}) {
    if (small) chip.neural.kernel_bytes_per_partition = 2048;
    const ShareChoice choice{
        .cores = 3, .split = Split::kRows, .of_nodes = {}, .share_loads = false};
    const auto shared = compile::compile_shares(graph, chip, {}, choice);
    ASSERT_TRUE(shared.ok()) << shared.error().to_string();
    EXPECT_EQ(shared->layers[0].hand_over, small ? HandOver::kKernels : HandOver::kStays);
    EXPECT_EQ(find_race(shared->card), "");
    check_bits(*shared, chip, inputs, *expected);
  }
}

// Random layers of several images, and of several images in grids.
TEST(Shares, SeveralImagesGiveTheReferenceBits) {
  for (std::uint64_t seed = 2240; seed < 2243; ++seed) {
    GraphBuilder builder(seed);
    auto x = builder.input({static_cast<std::int64_t>(2 + seed % 3), 24, 17, 19});
    x = builder.conv(x, {.output_channels = 72, .kernel = 3, .pad = 1});
    const auto a = builder.conv(x, {.output_channels = 64, .kernel = 1});
    const auto b = builder.conv(x, {.output_channels = 64, .kernel = 3, .pad = 1});
    const auto sum = builder.binary(a, b, BinaryFunction::kAdd);
    builder.output(builder.conv(sum, {.output_channels = 50, .kernel = 3, .pad = 1}));
    const auto graph = builder.take();
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const auto expected = run_reference(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    const ChipConfig chip = *load_chip_config(seed % 2 == 0 ? "cloud16" : "tessera128x4");
    for (const int cores : {2, 3, 7, 16}) {
      for (const Split split : kSplits) {
        SCOPED_TRACE(::testing::Message() << "graph " << seed << ", " << cores << " cores, split "
                                          << static_cast<int>(split));
        const ShareChoice choice{
            .cores = cores, .split = split, .of_nodes = {}, .share_loads = false};
        const auto shared = compile::compile_shares(graph, chip, {}, choice);
        ASSERT_TRUE(shared.ok()) << shared.error().to_string();
        if (split == Split::kRows) {
          EXPECT_TRUE(std::ranges::any_of(shared->layers, [](const LayerShare& layer) {
            return layer.hand_over == HandOver::kStays;
          }));
        }
        EXPECT_EQ(find_race(shared->card), "");
        check_cores(*shared, chip);
        check_bits(*shared, chip, inputs, *expected);
      }
    }
  }
}

// What a concatenation wants in another order is turned by way of the buffer: out of the block where the
// layer before left it.
TEST(Shares, WhatIsTurnedIsTakenFromTheBuffer) {
  GraphBuilder builder(9);
  const auto x = builder.conv(builder.input({1, 16, 24, 16}), {16, 3, 1, 1});
  const auto y = builder.conv(builder.input({1, 16, 24, 16}), {16, 3, 1, 1});
  builder.output(builder.concat({builder.transpose(x, {0, 3, 2, 1}), y}, 1));
  const auto graph = builder.take();
  const std::vector<Tensor> inputs = random_inputs(*graph, 9);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  for (const auto way : {compile::TranspositionWay::kArray, compile::TranspositionWay::kPlanar,
                         compile::TranspositionWay::kDma}) {
    compile::CompileOptions options;
    options.transposition = way;
    std::int64_t bytes[2] = {};
    for (const bool hand_over : {false, true}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(way) << ", " << hand_over);
      ShareChoice choice{.cores = 4, .split = Split::kRows, .of_nodes = {}, .share_loads = false};
      choice.hand_over = hand_over;
      const ChipConfig chip = *load_chip_config("tessera128x4");
      const auto shared = compile::compile_shares(graph, chip, options, choice);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      for (const LayerShare& layer : shared->layers) {
        bytes[hand_over ? 1 : 0] += layer.bytes_read + layer.bytes_written;
      }
      if (hand_over) {
        const bool dma = way == compile::TranspositionWay::kDma;
        EXPECT_EQ(shared->layers[0].hand_over, dma ? HandOver::kOtherLayout : HandOver::kStays);
      }
      EXPECT_EQ(find_race(shared->card), "");
      check_cores(*shared, chip);
      check_bits(*shared, chip, inputs, *expected);
    }
    // x is neither stored nor loaded again; DMA alone would take its rows in another layout.
    const bool stays = way != compile::TranspositionWay::kDma;
    EXPECT_EQ(bytes[0] - bytes[1], stays ? 2 * 16 * 24 * 16 * 2 : 0);
  }
}

TEST(Shares, NumbersOfCoresOutOfRangeAreNamed) {
  for (const int cores : {0, 65}) {
    const auto shared = compile::compile_shares(
        two_convolutions(), ChipConfig{}, {},
        {.cores = cores, .split = Split::kRows, .of_nodes = {}, .share_loads = false});
    ASSERT_FALSE(shared.ok());
    EXPECT_NE(shared.error().to_string().find("allowed 1 to 64"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::agreement

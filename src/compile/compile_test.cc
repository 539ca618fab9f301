// Packages of small graphs: they link, the verifier proves them, and errors say what to do.
#include "compile/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/test_volume.h"
#include "compile/testing/compiled_program.h"
#include "compile/testing/random_graph.h"
#include "compile/transposition.h"
#include "isa/header_operands.h"
#include "isa/verify.h"
#include "link/link.h"

namespace tessera::compile {
namespace {

using isa::EngineKind;
using isa::Program;
using isa::TaskDescriptor;
using testing::build;
using testing::GraphBuilder;

ChipConfig small_chip(std::int32_t bytes_per_partition) {
  ChipConfig chip;
  chip.state_buffer.bytes_per_partition = bytes_per_partition;
  return chip;
}

std::vector<const TaskDescriptor*> tasks_on(const Program& program, EngineKind engine) {
  std::vector<const TaskDescriptor*> tasks;
  for (const TaskDescriptor& task : program.tasks) {
    if (task.engine == engine) tasks.push_back(&task);
  }
  return tasks;
}

TEST(Compile, ChainOfConvolutionsTouchesDramAtItsEndsOnly) {
  GraphBuilder builder(1);
  auto x = builder.input({1, 16, 32, 32});
  for (int i = 0; i < 4; ++i) x = builder.conv(x, {32, 3, 1, 1});
  builder.output(x);
  const Program program = build(builder.take(), ChipConfig{});
  EXPECT_EQ(tasks_on(program, EngineKind::kLoad).size(), 1u);
  EXPECT_EQ(tasks_on(program, EngineKind::kNeural).size(), 4u);
  EXPECT_EQ(tasks_on(program, EngineKind::kStore).size(), 1u);
  EXPECT_EQ(program.workspace_bytes, 0);
}

// Storages with many writers and readers have their costs counted as choices change; builds with
// sanitizers sum them anew each time and compare.
TEST(Compile, ManyBranchesOfOneInputAreConcatenated) {
  GraphBuilder builder(1);
  const auto x = builder.input({1, 4, 8, 8});
  std::vector<graph::TensorId> parts;
  for (int i = 0; i < 40; ++i) {
    parts.push_back(builder.unary(x, i % 2 == 0 ? UnaryFunction::kSigmoid : UnaryFunction::kTanh));
  }
  builder.output(builder.concat(parts, 1));
  const Program program = build(builder.take(), ChipConfig{});
  EXPECT_EQ(tasks_on(program, EngineKind::kPlanar).size(), 40u);
}

TEST(Compile, ResidentOffGoesThroughDramBetweenLayers) {
  GraphBuilder builder(1);
  auto x = builder.input({1, 16, 32, 32});
  for (int i = 0; i < 4; ++i) x = builder.conv(x, {32, 3, 1, 1});
  builder.output(x);
  const Program program = build(builder.take(), ChipConfig{}, {.resident = false});
  EXPECT_EQ(tasks_on(program, EngineKind::kLoad).size(), 4u);
  EXPECT_EQ(tasks_on(program, EngineKind::kStore).size(), 4u);
}

// Channels of 512 x 512 elements are a power of two apart, so that pieces of rows are in few banks of the memory.
TEST(Compile, RowsOfATensorThatPassesDramLieOutermostWhereThatIsFaster) {
  GraphBuilder builder(1);
  auto x = builder.input({1, 64, 512, 512});
  for (int i = 0; i < 3; ++i) x = builder.conv(x, {64, 3, 1, 1});
  builder.output(x);
  const Program program = build(builder.take(), small_chip(64 << 10), {.resident = false});
  int by_rows = 0, by_channels = 0;
  for (const TaskDescriptor* const store : tasks_on(program, EngineKind::kStore)) {
    const auto& strides = std::get<isa::TransferTask>(store->config).dram.strides;
    ++(strides[1] < strides[2] ? by_rows : by_channels);
  }
  EXPECT_GT(by_rows, 0);      // between the layers
  EXPECT_GT(by_channels, 0);  // the network's output
}

TEST(Compile, ChannelWiseProductGoesToTheLanesUnlessTheArrayIsTwiceAsFast) {
  const auto engines = [](std::int64_t channels, std::int32_t elements_per_lane) {
    GraphBuilder builder(1);
    const auto x = builder.conv(builder.input({1, 8, 32, 32}), {channels, 1});
    builder.output(builder.conv(x, {channels, 3, 1, 1, channels, true}));
    ChipConfig chip;
    chip.planar.elements_per_lane = elements_per_lane;
    chip.state_buffer.banks = 0;  // the engines' own cycles decide, not the ports
    const Program program = build(builder.take(), chip);
    return std::pair{tasks_on(program, EngineKind::kNeural).size(),
                     tasks_on(program, EngineKind::kPlanar).size()};
  };
  EXPECT_EQ(engines(128, 4), (std::pair<std::size_t, std::size_t>{1, 1}));
  EXPECT_EQ(engines(16, 4), (std::pair<std::size_t, std::size_t>{1, 1}));  // channels share lanes
  EXPECT_EQ(engines(96, 1), (std::pair<std::size_t, std::size_t>{2, 0}));
}

TEST(Compile, StepsHaveTheRowsThatTheArrayTakesAtOnce) {
  GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 3, 12, 416}), {16, 3, 1, 1}));
  const Program program = build(builder.take(), ChipConfig{});
  // A row nearly fills a PSUM bank, but pixels below each other share what they read.
  EXPECT_GE(tasks_on(program, EngineKind::kNeural)[0]->bands.rows_per_step, 2u);
}

// A row fills a PSUM bank, but filters on lanes and poolings read two more for each step.
TEST(Compile, StepsHaveTheRowsThatAWindowReadsTogether) {
  CompileOptions options;
  options.step_pixels = 512;
  const auto rows_of_step = [&](const auto& add) {
    GraphBuilder builder(1);
    builder.output(add(builder, builder.input({1, 16, 64, 512})));
    const Program program = build(builder.take(), ChipConfig{}, options);
    return tasks_on(program, EngineKind::kPlanar)[0]->bands.rows_per_step;
  };
  // 16 channels have 8 lanes each for their 9 taps, so rows come in no faster: 3 of them for one, 10 for 8.
  EXPECT_EQ(rows_of_step([](GraphBuilder& builder, graph::TensorId x) {
              return builder.conv(x, {16, 3, 1, 1, 16, true});
            }),
            8u);
  EXPECT_EQ(rows_of_step([](GraphBuilder& builder, graph::TensorId x) {
              return builder.pool(x, PoolFunction::kMaximum, 3, 1, 1);
            }),
            8u);
  EXPECT_EQ(rows_of_step([](GraphBuilder& builder, graph::TensorId x) {
              return builder.unary(x, UnaryFunction::kRelu);
            }),
            1u);
}

// Layers of 484 pixels take turns where each is one step of a PSUM bank's 512 pixels.
TEST(Compile, StepsAreShorterWhereLayersThenOverlap) {
  GraphBuilder builder(1);
  auto x = builder.input({1, 96, 22, 22});
  for (int i = 0; i < 3; ++i) {
    x = builder.conv(x, {96, 1});
    x = builder.conv(x, {96, 3, 1, 1, 96, true});
  }
  builder.output(x);
  const auto graph = builder.take();
  const auto steps = [&](std::int64_t pixels) {
    CompileOptions options;
    options.step_pixels = pixels;
    const Program program = build(graph, ChipConfig{}, options);
    std::int64_t most = 0;
    for (const TaskDescriptor* task : tasks_on(program, EngineKind::kPlanar)) {
      most = std::max(most, task->steps());
    }
    return most;
  };
  EXPECT_EQ(steps(512), 1);
  EXPECT_EQ(steps(0), 5);
}

TEST(Compile, ConvolutionStartsBeforeItsInputIsComplete) {
  GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 128, 64, 64}), {128, 3, 1, 1}));
  const Program program = build(builder.take(), ChipConfig{});
  const TaskDescriptor& load = *tasks_on(program, EngineKind::kLoad)[0];
  const TaskDescriptor& conv = *tasks_on(program, EngineKind::kNeural)[0];
  ASSERT_EQ(load.bands, conv.bands);
  for (const isa::Dependency& d : conv.dependencies) {
    if (d.task != load.id) continue;
    for (std::int64_t j = 1; j <= conv.steps(); ++j) {  // the band below holds the halo's last row
      EXPECT_EQ(steps_needed(d, j, load.steps()), std::min(j + 1, load.steps()));
    }
  }
}

TEST(Compile, KernelOfTheNextLayerGoesElsewhere) {
  GraphBuilder builder(1);
  auto x = builder.input({1, 64, 8, 8});
  for (int i = 0; i < 6; ++i) x = builder.conv(x, {64, 3, 1, 1});
  builder.output(x);
  const Program program = build(builder.take(), ChipConfig{});
  const auto kernels = tasks_on(program, EngineKind::kKernel);
  ASSERT_EQ(kernels.size(), 6u);
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    EXPECT_NE(std::get<isa::KernelTask>(kernels[i]->config).kernel_offset,
              std::get<isa::KernelTask>(kernels[i - 1]->config).kernel_offset);
  }
}

TEST(Compile, ConcatenationOfResultsNeedsNoCopy) {
  GraphBuilder builder(1);
  const auto x = builder.input({1, 16, 16, 16});
  const auto whole = builder.concat({builder.conv(x, {24, 1}), builder.conv(x, {40, 3, 1, 1})}, 1);
  builder.output(builder.conv(whole, {16, 1}));
  const Program program = build(builder.take(), ChipConfig{});
  for (const TaskDescriptor* task : tasks_on(program, EngineKind::kStore)) {
    EXPECT_FALSE(std::holds_alternative<isa::CopyTask>(task->config));
  }
  EXPECT_EQ(tasks_on(program, EngineKind::kStore).size(), 1u);  // the output
}

TEST(Compile, APaddedLineIsStoredWhereItLiesAndItsMarginsAreFilled) {
  GraphBuilder builder(1);
  const auto line = builder.unary(builder.input({1, 1, 1, 4096}), UnaryFunction::kSigmoid);
  const auto padded = builder.slice(line, 3, 0, 4096);  // 32 zeros before it and behind it, below
  const auto result = builder.unary(padded, UnaryFunction::kTanh);
  builder.output(result);
  graph::Graph graph = *builder.take();
  for (const graph::TensorId id : {padded, result}) graph.tensor(id).dims = {1, 1, 1, 4160};
  for (graph::Node& node : graph.nodes) {
    if (node.kind() != graph::NodeKind::kMove) continue;
    auto& move = node.as<graph::MoveAttributes>();
    move.has_fill = true;
    move.copies[0].output_offset = 32;
  }
  const Program program =
      build(std::make_shared<const graph::Graph>(std::move(graph)), ChipConfig{});
  int fills = 0;
  for (const TaskDescriptor* task : tasks_on(program, EngineKind::kStore)) {
    const auto* const copy = std::get_if<isa::CopyTask>(&task->config);
    if (copy == nullptr) continue;
    EXPECT_TRUE(copy->fill);
    EXPECT_EQ(copy->extents, std::vector<std::int64_t>{32});
    ++fills;
  }
  EXPECT_EQ(fills, 2);
}

// Two chains of products of `pixels` pixels, one behind the other in the graph.
std::shared_ptr<const graph::Graph> two_chains(std::int64_t pixels) {
  GraphBuilder builder(1);
  const auto x = builder.input({1, 64, 1, pixels});
  for (int chain = 0; chain < 2; ++chain) {
    auto y = x;
    for (int product = 0; product < 8; ++product) y = builder.conv(y, {64, 1});
    builder.output(y);
  }
  return builder.take();
}

// What comes behind the convolution that is first.
graph::TensorId read_second(const graph::Graph& graph) {
  int convolutions = 0;
  for (const graph::Node& node : graph.nodes) {
    if (node.kind() == graph::NodeKind::kConv && ++convolutions == 2) return node.inputs[0];
  }
  return {};
}

TEST(Compile, BranchesThatWaitForThemselvesTakeTurns) {
  const auto graph = two_chains(64);
  const auto package = compile(graph, ChipConfig{});
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  EXPECT_NE(read_second(*graph), graph->inputs[0]);
  EXPECT_EQ(read_second(*package->graph), graph->inputs[0]);
}

TEST(Compile, BranchesThatFillTheArrayKeepTheirOrder) {
  const auto graph = two_chains(40000);
  const auto package = compile(graph, ChipConfig{});
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  EXPECT_EQ(package->graph, graph);
}

TEST(Compile, StepsOfACopyHaveFourKilobytesAtLeast) {
  const auto steps = [](std::int64_t elements) {
    const StridedWalk walk{0, {elements}, {1}};
    return copy_task({.from = walk, .to = walk}, Format::kF16).bands.steps();
  };
  EXPECT_EQ(steps(1), 1);
  EXPECT_EQ(steps(4095), 1);
  EXPECT_EQ(steps(8192), 4);
  EXPECT_EQ(steps(1 << 20), 24);
}

TEST(Compile, AnyPermutationOfAResidentTensorStaysInTheStateBuffer) {
  std::vector<std::int64_t> axes = {1, 2, 3};
  do {
    GraphBuilder builder(1);
    auto x = builder.conv(builder.input({1, 16, 12, 9}), {40, 1});
    x = builder.transpose(x, {0, axes[0], axes[1], axes[2]});
    builder.output(builder.pool(x, PoolFunction::kMaximum, 2, 1, 0));
    SCOPED_TRACE(::testing::Message() << axes[0] << axes[1] << axes[2]);
    CompileOptions options;
    options.transposition = TranspositionWay::kArray;
    const Program program = build(builder.take(), ChipConfig{}, options);
    EXPECT_EQ(tasks_on(program, EngineKind::kLoad).size(), 1u);
    EXPECT_EQ(tasks_on(program, EngineKind::kStore).size(), 1u);
    EXPECT_EQ(program.workspace_bytes, 0);
    std::size_t turning = 0;
    for (const TaskDescriptor* task : tasks_on(program, EngineKind::kNeural)) {
      turning += std::get<isa::NeuralTask>(task->config).transpose ? 1 : 0;
    }
    EXPECT_EQ(turning, axes[0] == 1 ? 0u : 1u);  // channels where they were: a view
  } while (std::next_permutation(axes.begin(), axes.end()));
}

TEST(Compile, AttentionSwapsOperandsAndTurnsWithoutDram) {
  GraphBuilder builder(1);
  const auto x = builder.input({3, 20, 16});
  const auto scores = builder.matmul(x, builder.transpose(x, {0, 2, 1}));
  const auto largest = builder.reduce(scores, {2}, ReduceFunction::kMaximum);
  const auto shifted = builder.binary(scores, largest, BinaryFunction::kSubtract);
  builder.output(builder.matmul(shifted, x));
  const auto graph = builder.take();
  const auto ways_on = [&graph](std::int32_t scatter_elements) {
    ChipConfig chip;
    chip.dma.scatter_elements = scatter_elements;
    const auto package = compile(graph, chip);
    EXPECT_TRUE(package.ok()) << package.error().to_string();
    std::map<std::string, int> ways;
    for (const auto& hint : package->transpositions) ++ways[hint.way];
    return ways;
  };
  // The scores come out with the axis that is reduced along partitions: their operands swapped.
  std::map<std::string, int> ways = ways_on(64);
  EXPECT_GE(ways["swapped"], 1) << ::testing::PrintToString(ways);
  EXPECT_EQ(ways["dma"] + ways["copy"], 0);
  // Where a load that turns takes four times as long, the planar engine turns.
  ways = ways_on(8);
  EXPECT_GE(ways["planar"], 1) << ::testing::PrintToString(ways);
  EXPECT_EQ(ways["dma"] + ways["copy"], 0);
}

TEST(Compile, LargeKernelIsCutIntoEvenSlicesOfWholeBlocks) {
  GraphBuilder builder(1);
  const auto x = builder.input({1, 1024});
  builder.output(builder.matmul(x, builder.constant({1024, 1500})));
  const Program program = build(builder.take(), ChipConfig{});
  // 8 tiles of 128 x 128 f16 a column block, 12 blocks: 24 KiB of 32. A slice takes an eighth of
  // the memory, so that the next is loaded behind it: two blocks.
  EXPECT_EQ(tasks_on(program, EngineKind::kNeural).size(), 6u);
  EXPECT_EQ(tasks_on(program, EngineKind::kLoad).size(), 1u);
}

TEST(Compile, PartsOfABlockAreEqualOnesOrHalvesThatFold) {
  ChipConfig chip;
  chip.neural.kernel_bytes_per_partition = 1312;
  const auto channels_of_slice = [&](std::int64_t pixels) {
    GraphBuilder builder(1);
    const auto x = builder.input({pixels, 1024});
    builder.output(builder.matmul(x, builder.constant({1024, 1024})));
    // One exponent for the whole sum: it does not come in parts.
    builder.graph().nodes.back().as<graph::MatMulAttributes>().matrix.native_dimension = 1024;
    const Program program = build(builder.take(), chip);
    const TaskDescriptor* first = tasks_on(program, EngineKind::kNeural).front();
    return std::get<isa::NeuralTask>(first->config).product.image.output_channels;
  };
  // 16 bytes an output channel, 656 for a slice: 41 channels, or 32 of a block of 128. One pixel
  // takes 128 cycles a pass: 25 slices in place of 32. Of 1,024 pixels 4 go side by side beside 32
  // channels, 3 beside 41: 32 x 256 cycles in place of 25 x 342.
  EXPECT_EQ(channels_of_slice(1), 41);
  EXPECT_EQ(channels_of_slice(1024), 32);
}

// 16 bytes an output channel, 328 for a slice that leaves room for three others: one native vector of
// 128 output channels takes 256. Eight parts for each of eight blocks.
TEST(Compile, SumsThatLeaveColumnsFreeComeInPartsOfWholeNativeVectors) {
  ChipConfig chip;
  chip.neural.kernel_bytes_per_partition = 1312;
  chip.dram.device = DramKind::kFlat;  // as fast as the array wants it
  chip.dram.flat_megabytes_per_second = 1'000'000;
  GraphBuilder builder(1);
  const auto x = builder.input({1, 1024});
  builder.output(builder.matmul(x, builder.constant({1024, 1024})));
  const Program program = build(builder.take(), chip);
  const auto products = tasks_on(program, EngineKind::kNeural);
  ASSERT_EQ(products.size(), 64u);
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto& task = std::get<isa::NeuralTask>(products[i]->config);
    EXPECT_EQ(task.product.image.channels, 128);
    EXPECT_EQ(task.product.image.output_channels, 128);
    EXPECT_EQ(task.moving_channel_first, i % 8 * 128);
    EXPECT_EQ(task.psum.continues, i % 8 > 0);
    EXPECT_EQ(task.psum.keeps, i % 8 < 7);
    EXPECT_EQ(task.psum.first, i / 8);  // sums behind each other lie apart
  }
  // The moving operand is loaded once, and no network may come between parts.
  EXPECT_EQ(tasks_on(program, EngineKind::kLoad).size(), 1u);
  bool kept = false;
  for (const TaskDescriptor& task : program.tasks) {
    if (const auto* product = std::get_if<isa::NeuralTask>(&task.config)) {
      kept = product->psum.keeps;
    }
    EXPECT_EQ(task.switch_allowed, !kept);
  }
}

// Of 1,024 pixels as many are made at a time as PSUM has entries: parts come again for the next ones.
TEST(Compile, PiecesOfSumsInPartsFitPsum) {
  ChipConfig chip;
  chip.neural.kernel_bytes_per_partition = 1312;
  chip.neural.psum_banks = 1;
  chip.dram.device = DramKind::kFlat;
  chip.dram.flat_megabytes_per_second = 1'000'000;
  GraphBuilder builder(1);
  const auto x = builder.input({1024, 1024});
  builder.output(builder.matmul(x, builder.constant({1024, 128})));
  const Program program = build(builder.take(), chip);
  const auto products = tasks_on(program, EngineKind::kNeural);
  EXPECT_EQ(products.size(), 16u);  // two pieces of 512 pixels, eight parts
  for (const TaskDescriptor* task : products) {
    const auto& product = std::get<isa::NeuralTask>(task->config);
    EXPECT_EQ(task->bands.rows * product.output.columns, 512u);
  }
}

TEST(Compile, SliceOfAKernelHasABlockForEachArray) {
  GraphBuilder builder(1);
  const auto x = builder.input({1, 4096});
  builder.output(builder.matmul(x, builder.constant({4096, 512})));
  ChipConfig chip;
  chip.neural.count = 2;
  chip.neural.kernel_bytes_per_partition = 65536;
  const Program program = build(builder.take(), chip);
  // 32 tiles of 128 x 128 f16 a column block: 8 KiB, an eighth of the memory. One block would leave
  // one of the two arrays without work: a row of results cannot be shared.
  EXPECT_EQ(tasks_on(program, EngineKind::kNeural).size(), 2u);
}

// Two inputs and three blocks of results fill the buffer where pieces meet; everywhere else there is
// room for results that wait for no other's store.
TEST(Compile, BlocksWithoutRoomForTheirWishTakeAPartOfIt) {
  GraphBuilder builder(1);
  const auto x = builder.input({1, 96, 4096});
  builder.output(builder.matmul(x, builder.constant({4096, 3072})));
  ChipConfig chip;
  chip.neural.kernel_bytes_per_partition = 16384;                    // two slices of a column block
  chip.state_buffer.bytes_per_partition = 2 * 32 * 32 * 2 + 3 * 64;  // 32 rows a piece
  const Program program = build(builder.take(), chip);
  const auto tasks = tasks_on(program, EngineKind::kNeural);
  ASSERT_EQ(tasks.size(), 3u * 24);
  int repeated = 0;
  for (std::size_t i = 1; i < tasks.size(); ++i) {
    repeated += std::get<isa::NeuralTask>(tasks[i]->config).output.offset ==
                std::get<isa::NeuralTask>(tasks[i - 1]->config).output.offset;
  }
  EXPECT_LE(repeated, 2 * 4);  // at the two borders
}

TEST(Compile, TensorLargerThanTheBufferIsCutByRows) {
  GraphBuilder builder(1);
  auto x = builder.input({1, 4, 200, 40});
  x = builder.conv(x, {8, 3, 1, 1});
  builder.output(builder.conv(x, {4, 3, 1, 1}));
  const Program program = build(builder.take(), small_chip(8192));  // the tensor takes 16000
  EXPECT_GT(tasks_on(program, EngineKind::kNeural).size(), 4u);
}

TEST(Compile, RowLargerThanTheBufferIsCutByColumns) {
  GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 4, 8, 1000}), {8, 3, 1, 1}));
  const Program program = build(builder.take(), small_chip(4096));
  for (const auto* task : tasks_on(program, EngineKind::kNeural)) {
    EXPECT_LT(std::get<isa::NeuralTask>(task->config).output.columns, 1000u);
  }
}

TEST(Compile, StationaryOperandLargerThanTheBufferIsCutByOutputChannels) {
  GraphBuilder builder(1);
  builder.output(builder.matmul(builder.input({4, 8}), builder.input({8, 4000})));
  const Program program = build(builder.take(), small_chip(4096));
  std::int64_t channels = 0;
  for (const auto* task : tasks_on(program, EngineKind::kNeural)) {
    const auto& neural = std::get<isa::NeuralTask>(task->config);
    if (!neural.dynamic) continue;
    EXPECT_LT(neural.product.image.output_channels, 4000);
    channels += neural.product.image.output_channels;
  }
  EXPECT_EQ(channels, 4000);
}

TEST(CompileErrors, StationaryOperandOfABlockLargerThanTheBufferNamesLayerAndBytes) {
  GraphBuilder builder(1);
  builder.output(builder.matmul(builder.input({4, 8}), builder.input({8, 4000})));
  const auto package =
      compile(builder.take(), small_chip(256), {.choose_views = false, .cascades = false});
  ASSERT_FALSE(package.ok());
  EXPECT_EQ(package.error().to_string(),
            "compiling 'test': layer 'n0': one result with what it is made of takes 8128 bytes of "
            "each state buffer partition, 256 are available; use a chip configuration with "
            "state_buffer.bytes_per_partition >= 8128   [does not fit]");
}

TEST(CompileErrors, KernelLargerThanKernelMemoryNamesLayerAndBytes) {
  ChipConfig chip;
  chip.neural.kernel_bytes_per_partition = 64;
  GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 128, 8, 8}), {8, 7, 1, 3}));
  const auto package = compile(builder.take(), chip);
  ASSERT_FALSE(package.ok());
  EXPECT_EQ(package.error().to_string(),
            "compiling 'test': layer 'n0': one output channel's kernel takes 106 bytes of each "
            "kernel memory partition, which holds 64; use a chip configuration with "
            "neural.kernel_bytes_per_partition >= 106   [does not fit]");
}

TEST(Compile, WindowOverTheWholeImageIsReduced) {
  GraphBuilder builder(1);
  builder.output(builder.pool(builder.input({1, 8, 80, 80}), PoolFunction::kAverage, 80, 1, 0));
  const Program program = build(builder.take(), ChipConfig{});
  const auto planar = tasks_on(program, EngineKind::kPlanar);
  ASSERT_EQ(planar.size(), 1u);
  EXPECT_EQ(std::get<isa::PlanarTask>(planar[0]->config).mode, isa::PlanarMode::kReduction);
}

TEST(Compile, WindowLargerThanTheLineBufferComesInParts) {
  GraphBuilder builder(1);
  builder.output(builder.pool(builder.input({1, 8, 80, 80}), PoolFunction::kAverage, 70, 1, 0));
  const Program program = build(builder.take(), ChipConfig{});
  const auto planar = tasks_on(program, EngineKind::kPlanar);
  ASSERT_EQ(planar.size(), 4u);  // 64 + 6 rows times 64 + 6 columns
  for (std::size_t i = 0; i < planar.size(); ++i) {
    const auto& task = std::get<isa::PlanarTask>(planar[i]->config);
    EXPECT_EQ(task.continues, i > 0);
    EXPECT_EQ(task.keeps, i < 3);
  }
}

TEST(Compile, GapsOfADilatedWindowCountForTheLineBuffer) {
  const auto planar_tasks = [](std::int64_t dilation) {
    GraphBuilder builder(1);
    builder.output(builder.pool(builder.input({1, 8, 80, 80}), PoolFunction::kMaximum, 8, 1, 0));
    graph::Graph graph = *builder.take();
    graph.nodes[0].as<graph::PoolAttributes>().dilation_h = dilation;
    graph.tensor(graph.nodes[0].outputs[0]).dims[2] = 80 - 7 * dilation;
    const auto shared = std::make_shared<const graph::Graph>(std::move(graph));
    return tasks_on(build(shared, ChipConfig{}), EngineKind::kPlanar).size();
  };
  EXPECT_EQ(planar_tasks(9), 1u);   // exactly 64 rows
  EXPECT_EQ(planar_tasks(10), 2u);  // 71: seven rows of the window, then one
}

TEST(CompileErrors, AMedianOverALargeWindowIsRefused) {
  GraphBuilder builder(1);
  builder.output(builder.pool(builder.input({1, 8, 80, 80}), PoolFunction::kMedian, 70, 1, 0));
  const auto graph = builder.take();
  const auto package = compile(graph, ChipConfig{});
  ASSERT_FALSE(package.ok());
  EXPECT_EQ(package.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(package.error().message,
            "compiling 'test': layer '" + graph->nodes[0].name +
                "': a median over windows of 70 x 70, which does not come in parts; the planar "
                "engine holds at most 64 x 64");
}

TEST(LinkErrors, OtherChipIsRefused) {
  GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 4, 8, 8}), {8, 1}));
  const auto package = compile(builder.take(), ChipConfig{});
  ASSERT_TRUE(package.ok());
  const auto program = link::link(*package, small_chip(4096));
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, ErrorCode::kInvalidArgument);
}

// Only where it is asked for: programs without it stay as they were, byte for byte.
TEST(Link, HeadersNameTheOperandsWhereTheOptionSaysSo) {
  GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 16, 16, 16}), {32, 3, 1, 1}));
  const ChipConfig chip;
  const auto package = compile(builder.take(), chip);
  ASSERT_TRUE(package.ok());
  const Program plain = link::link(*package, chip).value();
  const Program named = link::link(*package, chip, {.name_operands = true}).value();
  ASSERT_EQ(plain.tasks.size(), named.tasks.size());
  for (std::size_t i = 0; i < named.tasks.size(); ++i) {
    EXPECT_EQ(plain.tasks[i].header, isa::TaskHeader{});
    const isa::HeaderOperands operands = isa::configured_operands(plain.tasks[i]);
    EXPECT_EQ(named.tasks[i].header.surfaces, operands.surfaces);
    EXPECT_EQ(named.tasks[i].header.bases, operands.bases);
  }
  EXPECT_TRUE(isa::verify_program(named, chip).ok());
  // Words 11 to 14 of each task, and word 15 of those that have bases.
  std::size_t words = 0;
  for (const TaskDescriptor& task : named.tasks) {
    words += task.header.bases == isa::HeaderBases{} ? 4 : 5;
  }
  EXPECT_EQ(named.stream.size(), plain.stream.size() + 4 * words);
}

TEST(Compile, PlacementsNeverOverlapWhileAlive) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const auto package = compile(testing::random_graph(seed), small_chip(16384));
    ASSERT_TRUE(package.ok()) << package.error().to_string();
    const auto& all = package->placements;
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (all[i].in_state_buffer != all[j].in_state_buffer) continue;
        const bool alive =
            all[i].first_use <= all[j].last_use && all[j].first_use <= all[i].last_use;
        const bool shared = all[i].offset < all[j].offset + all[j].bytes &&
                            all[j].offset < all[i].offset + all[i].bytes;
        EXPECT_FALSE(alive && shared) << all[i].name << " and " << all[j].name;
      }
    }
  }
}

TEST(CompileErrors, TileBudgetBelowALayersSmallestPieceNamesOneThatIsEnough) {
  GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 4, 20, 400}), {4, 3, 1, 1}));
  const auto graph = builder.take();
  const auto package = compile(graph, ChipConfig{}, {.tile_budget_bytes = 100});
  ASSERT_FALSE(package.ok());
  EXPECT_EQ(package.error().code, ErrorCode::kInvalidArgument);
  const std::string found = package.error().message;
  EXPECT_NE(found.find("one result with what it is made of takes 128 bytes of each state buffer "
                       "partition, the tile budget is 100; give a tile budget >= 128, or 0 to let "
                       "the compiler choose"),
            std::string::npos)
      << found;
  EXPECT_TRUE(compile(graph, ChipConfig{}, {.tile_budget_bytes = 128}).ok());
}

TEST(Compile, RandomGraphsAreProvedForAnyBudgetAndBuffer) {
  const auto step = static_cast<std::uint64_t>(visit_one_in(4, 8));
  for (std::uint64_t seed = 100; seed < 140; seed += step) {
    SCOPED_TRACE(seed);
    const auto graph = testing::random_graph(seed);
    for (const std::int32_t bytes : {16384, 196608}) {
      for (const std::int64_t budget : {0, 2048, 16384}) {
        for (const bool resident : {true, false}) {
          const CompileOptions options{.tile_budget_bytes = budget, .resident = resident};
          const auto package = compile(graph, small_chip(bytes), options);
          if (!package.ok() && package.error().code == ErrorCode::kInvalidArgument) {
            EXPECT_GT(budget, 0);  // a layer's smallest piece is larger than that
            continue;
          }
          build(graph, small_chip(bytes), options);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::compile

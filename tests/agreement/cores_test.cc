// Networks on the cores of a card, with its clock: the bits of one core whatever the number of cores,
// the split and the speed of each engine; and no order between cores but what dependencies say.
// TESSERA_TEST_WHOLE takes every number of cores with every split for each graph, else a graph has one in
// five of them, others than its neighbour.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "card/card.h"
#include "compile/compile_shares.h"
#include "compile/image_cores.h"
#include "compile/split_choice.h"
#include "compile/testing/random_graph.h"
#include "concord/testing/random_graph.h"
#include "graph/passes/passes.h"
#include "isa/card_traffic.h"
#include "isa/encoding.h"
#include "isa/verify.h"
#include "package/container.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::SharedProgram;
using compile::Split;
using GraphPointer = std::shared_ptr<const graph::Graph>;

constexpr int kCores[] = {1, 2, 3, 4, 7, 8, 16, 32, 48, 64};
constexpr Split kSplits[] = {Split::kRows, Split::kChannels, Split::kGrid};

ChipConfig card_of_64(const std::string& arch) {
  ChipConfig chip = *load_chip_config(arch);
  chip.card.groups = 1;
  chip.card.cores_per_group = 64;
  return chip;
}

// Sixty-four cores in one group, in eight groups, and in four groups of each of four cards; some with
// plainer cards.
struct CardShape {
  const char* name;
  std::int32_t groups, cores_per_group, cards;
  bool merge = true, broadcast = true, dynamic_bandwidth = true, forward = true;
  bool needed_bytes_only = true;
};
constexpr CardShape kShapes[] = {
    {"one group", 1, 64, 1},
    {"eight groups", 8, 8, 1},
    {"four cards", 4, 4, 4},
    {"eight groups, no broadcast", 8, 8, 1, true, false},
    {"four cards, nothing merged", 4, 4, 4, false, false},
    {"eight groups, fixed parts", 8, 8, 1, true, true, false},
    {"four cards, plain", 4, 4, 4, false, false, false, false},
    {"eight groups, nothing forwarded", 8, 8, 1, true, true, true, false},
    {"four cards, whole results", 4, 4, 4, true, true, true, true, false},
    {"two cards, plain, whole results", 2, 16, 2, false, false, false, false, false},
};
ChipConfig shaped(ChipConfig chip, const CardShape& shape) {
  chip.card.groups = shape.groups;
  chip.card.cores_per_group = shape.cores_per_group;
  chip.card.features.merge = shape.merge ? 1 : 0;
  chip.card.features.broadcast = shape.broadcast ? 1 : 0;
  chip.card.features.dynamic_bandwidth = shape.dynamic_bandwidth ? 1 : 0;
  chip.card.features.forward = shape.forward ? 1 : 0;
  chip.card.features.needed_bytes_only = shape.needed_bytes_only ? 1 : 0;
  chip.card.features.instruction_sync = shape.forward ? 1 : 0;
  chip.card.features.loads_beside_arithmetic = shape.forward ? 1 : 0;
  chip.card.features.hand_over = shape.forward && shape.needed_bytes_only ? 1 : 0;
  return chip;
}

struct CardRun {
  Cycles cycles = 0;
  std::vector<Tensor> outputs;
};

// Of a program without host steps.
Result<CardRun> run_placed(const isa::CardProgram& program, const ChipConfig& chip,
                           const std::vector<Tensor>& inputs, const card::CoreOptions& options,
                           const CardPlacement& placement) {
  TESSERA_TRY(const auto card, card::Card::create(chip, placement));
  TESSERA_RETURN_IF_ERROR(card->load(program));
  const isa::Program& first = program.cores[0];
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(card->write(first.inputs[i].address, inputs[i].bytes));
  }
  CardRun run;
  for (std::size_t segment = 0; segment < first.segments.size(); ++segment) {
    TESSERA_TRY(const card::CardStatistics statistics, card->run_segment(segment, options));
    run.cycles += statistics.cycles;
  }
  for (const isa::TensorSlot& slot : first.outputs) {
    Tensor output = Tensor::zeros(slot.format, slot.dims);
    TESSERA_RETURN_IF_ERROR(card->read(slot.address, output.bytes));
    run.outputs.push_back(std::move(output));
  }
  return run;
}

Result<CardRun> run_card(const isa::CardProgram& program, const ChipConfig& chip,
                         const std::vector<Tensor>& inputs, const card::CoreOptions& options,
                         int cards = 1) {
  TESSERA_TRY(const CardPlacement placement,
              spread_cores(chip, cards, static_cast<int>(program.cores.size())));
  return run_placed(program, chip, inputs, options, placement);
}

Result<SharedProgram> shared_out(const GraphPointer& graph, const ChipConfig& chip, int cores,
                                 Split split, int cards = 1) {
  TESSERA_TRY(const CardPlacement placement, spread_cores(chip, cards, cores));
  compile::ShareChoice choice{.cores = cores, .split = split, .of_nodes = {}};
  if (chip.card.features.forward != 0) choice.memory_of_core = placement.memory;
  choice.hand_over = chip.card.features.hand_over != 0;
  choice.meet_after_layers = chip.card.features.instruction_sync == 0;
  choice.load_before_arithmetic = chip.card.features.loads_beside_arithmetic == 0;
  TESSERA_TRY(SharedProgram shared, compile::compile_shares(graph, chip, {}, choice));
  TESSERA_RETURN_IF_ERROR(isa::verify_card_program(shared.card, chip));
  return shared;
}

// Through a file and back. One core has no memory but 0 there.
void check_file(const isa::CardProgram& card) {
  const auto back = package::parse_card_program_alone(package::serialise(card), "card.tprog");
  ASSERT_TRUE(back.ok()) << back.error().to_string();
  EXPECT_TRUE(card.cores.size() == 1 ? back->cores == card.cores : *back == card);
}

void check_graph(const GraphPointer& graph, const ChipConfig& plain_chip, std::uint64_t seed) {
  const std::vector<Tensor> inputs = random_inputs(*graph, seed);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const auto one_in = static_cast<std::uint64_t>(visit_one_in(5, 10));
  std::uint64_t number = seed;
  for (const int cores : kCores) {
    for (const Split split : kSplits) {
      if (number++ % one_in != 0) continue;
      const CardShape& shape = kShapes[(seed * 5 + static_cast<std::uint64_t>(cores) +
                                        3 * static_cast<std::uint64_t>(split)) %
                                       std::size(kShapes)];
      const ChipConfig chip = shaped(plain_chip, shape);
      const int cards = std::min(shape.cards, cores);
      SCOPED_TRACE(::testing::Message() << "graph " << seed << ", " << cores << " cores, split "
                                        << static_cast<int>(split) << ", " << shape.name);
      const auto shared = shared_out(graph, chip, cores, split, cards);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      check_file(shared->card);
      const auto plain = run_card(shared->card, chip, inputs, {}, cards);
      ASSERT_TRUE(plain.ok()) << plain.error().to_string();
      EXPECT_TRUE(plain->outputs == *expected);
      // Engines of other speeds; the hazard check sees no race.
      const auto slow = run_card(shared->card, chip, inputs,
                                 {.check_hazards = cores <= 8, .delay_seed = seed}, cards);
      ASSERT_TRUE(slow.ok()) << slow.error().to_string();
      EXPECT_TRUE(slow->outputs == *expected);
      const auto shuffled =
          run_card(shared->card, chip, inputs, {.timing_only = true, .shuffle_seed = seed}, cards);
      ASSERT_TRUE(shuffled.ok()) << shuffled.error().to_string();
      EXPECT_EQ(shuffled->cycles, plain->cycles);
    }
  }
}

TEST(Cores, RandomGraphsGiveTheReferenceBits) {
  for (std::uint64_t seed = 2300; seed < 2306; ++seed) {
    check_graph(compile::testing::random_graph(seed), card_of_64("tessera128"), seed);
  }
}

TEST(Cores, RandomGraphsGiveTheReferenceBitsOnSmallCores) {
  for (std::uint64_t seed = 2310; seed < 2313; ++seed) {
    check_graph(compile::testing::random_graph(seed), card_of_64("cloud16"), seed);
    check_graph(compile::testing::random_graph(seed), card_of_64("edge"), seed);
  }
}

// Every kind of node.
TEST(Cores, GraphsOfAllNodesGiveTheReferenceBits) {
  for (std::uint32_t seed = 31; seed < 37; ++seed) {
    check_graph(std::make_shared<const graph::Graph>(concord::testing::random_graph(seed, 8)),
                card_of_64("tessera128"), seed);
  }
}

// Several cores copy parts of a row, which then lies in several memories between its ends.
TEST(Cores, RowsInSeveralMemoriesGiveTheReferenceBits) {
  for (std::uint64_t seed = 2350; seed < 2354; ++seed) {
    compile::testing::GraphBuilder builder(seed);
    const auto rows = static_cast<std::int64_t>(1 + 2 * (seed % 2));
    auto x = builder.input({1, 6, rows, 61});
    x = builder.conv(x, {.output_channels = 12, .kernel = 1});
    const auto first = builder.slice(x, 3, 1, 20), last = builder.slice(x, 3, 40, 20);
    x = builder.concat({first, x, last}, 3);
    x = builder.conv(x, {.output_channels = 10, .kernel = 1});
    x = builder.reshape(x, {1, rows * 10, 1, 101});
    builder.output(builder.conv(x, {.output_channels = 8, .kernel = 1}));
    check_graph(builder.take(), card_of_64("cloud16"), seed);
  }
}

// Stores that go to another memory than the one beside their core: of a storage that lies in one as a whole.
// `first`: how the first nodes are cut, in place of `split`.
std::int64_t stores_into_one_memory(const GraphPointer& graph, Split split,
                                    const std::vector<Split>& first = {}) {
  const ChipConfig chip = shaped(card_of_64("cloud16"), {"groups of one", 16, 1, 1});
  compile::ShareChoice choice{.cores = 4, .split = split, .of_nodes = {}};
  choice.memory_of_core = {0, 1, 2, 3};
  choice.of_nodes.assign(graph->nodes.size(), split);
  std::ranges::copy(first, choice.of_nodes.begin());
  const auto shared = compile::compile_shares(graph, chip, {}, choice);
  EXPECT_TRUE(shared.ok()) << shared.error().to_string();
  std::int64_t stores = 0;
  for (const isa::Program& core : shared->card.cores) {
    stores += std::ranges::count_if(core.tasks, [](const isa::TaskDescriptor& task) {
      return task.header.memories.destination != isa::TaskMemories::kOwn;
    });
  }
  return stores;
}

// What is cut by channels is read with these as rows, or as columns, by what is cut by rows; and a copy in
// memory reads what all of them have made.
TEST(Cores, LoadsAndCopiesOfSeveralMemoriesAreCutSoThatEachIsOfOne) {
  const auto turned = [](const std::vector<std::int64_t>& permutation) {
    compile::testing::GraphBuilder builder(2384);
    auto x = builder.input({1, 64, 64, 64});
    x = builder.unary(builder.conv(x, {.output_channels = 64, .kernel = 1}), UnaryFunction::kAbs);
    x = builder.transpose(x, permutation);
    builder.output(builder.conv(x, {.output_channels = 64, .kernel = 1}));
    return builder.take();
  };
  const auto copied = [] {
    compile::testing::GraphBuilder builder(2385);
    auto x = builder.input({1, 64, 64, 64});
    x = builder.conv(x, {.output_channels = 64, .kernel = 1});
    x = builder.concat({builder.slice(x, 3, 3, 61), builder.slice(x, 3, 1, 63)}, 2 + 1);
    builder.output(builder.conv(x, {.output_channels = 16, .kernel = 3}));
    return builder.take();
  };
  for (const Split split : {Split::kRows, Split::kChannels}) {
    EXPECT_EQ(stores_into_one_memory(turned({0, 2, 1, 3}), split), 0);
    EXPECT_EQ(stores_into_one_memory(turned({0, 3, 2, 1}), split), 0);
    EXPECT_EQ(stores_into_one_memory(copied(), split), 0);
  }
  // Channels of one convolution are made by all cores for their rows, those of another by one core each.
  const auto beside = [] {
    compile::testing::GraphBuilder builder(2386);
    const auto x = builder.input({1, 64, 56, 56});
    const auto by_rows = builder.conv(x, {.output_channels = 48, .kernel = 1});
    const auto by_channels = builder.conv(x, {.output_channels = 48, .kernel = 1});
    const auto both = builder.concat({by_rows, by_channels}, 1);
    builder.output(builder.conv(both, {.output_channels = 64, .kernel = 3}));
    return builder.take();
  };
  EXPECT_EQ(stores_into_one_memory(beside(), Split::kRows, {Split::kRows, Split::kChannels}), 0);
  std::uint64_t seed = 2386;
  for (const GraphPointer& graph : {turned({0, 2, 1, 3}), turned({0, 3, 2, 1}), copied()}) {
    check_graph(graph, card_of_64("cloud16"), seed++);
  }
}

// An image of twice as many rows and columns, beside one of this size, read by a product: what repeats
// pixels writes every second column.
GraphPointer repeated_pixels(std::uint64_t seed, std::int64_t channels, std::int64_t rows) {
  compile::testing::GraphBuilder builder(seed);
  const auto x = builder.input({1, 12, rows, 24});
  const auto beside = builder.input({1, 12, 2 * rows, 48});
  const auto small = builder.conv(x, {.output_channels = channels, .kernel = 1});
  const auto large = builder.conv(beside, {.output_channels = 8, .kernel = 1});
  const auto both = builder.concat({builder.upsample(small, 2), large}, 1);
  builder.output(builder.conv(both, {.output_channels = 10, .kernel = 3}));
  builder.output(builder.conv(builder.upsample(large, 2), {.output_channels = 9, .kernel = 1}));
  auto graph = std::make_shared<graph::Graph>(*builder.take());
  graph::repeat_pixels(*graph);
  return graph;
}

TEST(Cores, ColumnsOfRepeatedPixelsGiveTheReferenceBits) {
  std::uint64_t seed = 2370;
  for (const std::int64_t channels : {16, 5}) {
    for (const std::int64_t rows : {20, 18}) {
      check_graph(repeated_pixels(seed, channels, rows), card_of_64("cloud16"), seed);
      ++seed;
    }
  }
}

// What one of them has made is read before the others have theirs.
TEST(Cores, PartsOfRowsThatAreReadBeforeTheRestIsThereGiveTheReferenceBits) {
  for (std::uint64_t seed = 2376; seed < 2380; ++seed) {
    compile::testing::GraphBuilder builder(seed);
    const auto x = builder.input({1, 12, 20, 16});
    const auto left =
        builder.unary(builder.conv(x, {.output_channels = 16, .kernel = 1}), UnaryFunction::kAbs);
    const auto right = builder.conv(left, {.output_channels = 16, .kernel = 1});
    const auto both = builder.concat({left, builder.unary(right, UnaryFunction::kAbs)}, 3);
    builder.output(builder.conv(both, {.output_channels = 8, .kernel = seed % 2 == 0 ? 1 : 3}));
    check_graph(builder.take(), card_of_64("cloud16"), seed);
  }
}

// Channels that begin where no partition of the buffer does are loaded by their reader; others stay.
TEST(Cores, AReaderOfChannelsThatLieOtherwiseLoadsThemAloneOfAll) {
  compile::testing::GraphBuilder builder(2381);
  const auto x = builder.input({1, 12, 16, 16});
  const auto all = builder.conv(x, {.output_channels = 40, .kernel = 1});
  builder.output(builder.unary(builder.slice(all, 1, 0, 16), UnaryFunction::kAbs));
  builder.output(builder.unary(builder.slice(all, 1, 21, 8), UnaryFunction::kAbs));
  const GraphPointer graph = builder.take();
  check_graph(graph, card_of_64("cloud16"), 2381);
  const auto shared = shared_out(graph, card_of_64("cloud16"), 4, Split::kRows);
  ASSERT_TRUE(shared.ok()) << shared.error().to_string();
  std::map<std::string, int> loads;
  for (const isa::TaskDescriptor& task : shared->card.cores[0].tasks) {
    loads[shared->layers[task.layer].name] += task.engine == isa::EngineKind::kLoad ? 1 : 0;
  }
  EXPECT_EQ(loads, (std::map<std::string, int>{{"n0", 1}, {"n2", 0}, {"n4", 1}}));
}

// Every element is stored once, in rows without gaps, by the one that writes the last of them.
TEST(Cores, ColumnsOfRepeatedPixelsAreStoredAsWholeRows) {
  const GraphPointer graph = repeated_pixels(2380, 16, 20);
  const auto shared = shared_out(graph, card_of_64("cloud16"), 8, Split::kChannels);
  ASSERT_TRUE(shared.ok()) << shared.error().to_string();
  std::array<std::int64_t, 2> stores{};
  for (const isa::Program& core : shared->card.cores) {
    for (const isa::TaskDescriptor& task : core.tasks) {
      const std::string& name = shared->layers[task.layer].name;
      const auto* move = std::get_if<isa::TransferTask>(&task.config);
      if (move == nullptr || task.engine != isa::EngineKind::kStore) continue;
      for (const int column : {0, 1}) {
        if (!name.ends_with(fmt::format(".column_{}", column))) continue;
        ++stores[static_cast<std::size_t>(column)];
        EXPECT_EQ(move->dram.strides[3], 2) << name;  // bytes
      }
    }
  }
  EXPECT_EQ(stores[0], 0);
  EXPECT_GE(stores[1], 8 + 8);  // two images
}

TEST(Cores, TheChosenSplitsGiveTheReferenceBits) {
  // Until each has been chosen.
  std::array<int, compile::kSplitWays> of_split{};
  const auto is_missing = [&] { return std::ranges::count(of_split, 0) > 0; };
  for (std::uint64_t seed = 2330; seed < 2336 || (seed < 2400 && is_missing()); ++seed) {
    const GraphPointer graph = compile::testing::random_graph(seed);
    const ChipConfig chip = card_of_64("cloud16");
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const auto expected = run_reference(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    for (const int cores : {2, 5, 16}) {
      compile::ShareChoice base;
      base.cores = cores;
      const auto choice = compile::choose_splits(graph, chip, {}, base);
      ASSERT_TRUE(choice.ok()) << choice.error().to_string();
      for (const Split split : choice->of_nodes) {
        ++of_split.at(static_cast<std::size_t>(split));
      }
      const auto shared = compile::compile_shares(graph, chip, {}, *choice);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      const auto run = run_card(shared->card, chip, inputs, {.check_hazards = true});
      ASSERT_TRUE(run.ok()) << run.error().to_string();
      EXPECT_TRUE(run->outputs == *expected) << "graph " << seed << ", " << cores << " cores";
    }
  }
  for (const int count : of_split) EXPECT_GT(count, 0);
}

// Bytes of DRAM that the engines of a run load and store, without descriptors and headers.
std::int64_t bytes_moved(const isa::CardProgram& program, const ChipConfig& chip) {
  const auto placement = spread_cores(chip, 1, static_cast<int>(program.cores.size()));
  std::int64_t bytes = 0;
  for (const isa::LayerTraffic& layer : isa::layer_traffic(program, *placement, chip, 8)) {
    bytes += layer.read + layer.written;
  }
  return bytes;
}

// Two products of 16 rows of 16 pixels and 16 channels by four cores, four rows each: 8 KiB lie between them, 512 bytes a
// row.
void check_hand_over(std::int64_t kernel, std::int64_t bytes, Cycles cycles) {
  compile::testing::GraphBuilder builder(2360);
  auto x = builder.input({1, 16, 16, 16});
  x = builder.conv(x, {.output_channels = 16, .kernel = 1});
  builder.output(builder.conv(x, {.output_channels = 16, .kernel = kernel}));
  const GraphPointer graph = builder.take();
  const std::vector<Tensor> inputs = random_inputs(*graph, 2360);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const ChipConfig with = card_of_64("cloud16");
  ChipConfig without = with;
  without.card.features.hand_over = 0;
  const auto shared = shared_out(graph, with, 4, Split::kRows);
  const auto apart = shared_out(graph, without, 4, Split::kRows);
  ASSERT_TRUE(shared.ok() && apart.ok());
  const auto stays = run_card(shared->card, with, inputs, {.check_hazards = true});
  const auto goes = run_card(apart->card, without, inputs, {.check_hazards = true});
  ASSERT_TRUE(stays.ok() && goes.ok());
  EXPECT_TRUE(stays->outputs == *expected);
  EXPECT_TRUE(goes->outputs == *expected);
  EXPECT_EQ(shared->layers[0].hand_over, compile::HandOver::kStays);
  EXPECT_EQ(apart->layers[0].hand_over, compile::HandOver::kSwitchedOff);
  EXPECT_EQ(bytes_moved(apart->card, without) - bytes_moved(shared->card, with), bytes);
  EXPECT_EQ(goes->cycles - stays->cycles, cycles);
}

// All of it is neither stored nor loaded.
TEST(Cores, TheHandOverOfOwnRowsSavesThatTheyAreStoredAndLoaded) {
  check_hand_over(1, 8192 + 8192, 126);
}

// Six rows, one on either side of three borders, are stored for a neighbour, which loads them; without
// hand-over they are loaded besides what is a core's own.
TEST(Cores, TheHandOverWithEdgesSavesAllBytesButTheirs) {
  constexpr std::int64_t kEdges = 6 * 512;
  check_hand_over(3, (8192 + 8192 + kEdges) - (kEdges + kEdges), 104);
}

void encode_again(isa::Program& program) {
  program.stream.clear();
  program.stream_offsets.clear();
  for (const isa::TaskDescriptor& task : program.tasks) {
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    const std::vector<std::byte> bytes = isa::encode(task);
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
  }
}

// A dependency between cores that is left out is found by the proof, and by the hazard check in a run.
TEST(Cores, EachDependencyBetweenCoresThatIsMissingIsCaught) {
  int removed = 0;
  for (std::uint64_t seed = 2320; seed < 2323; ++seed) {
    const GraphPointer graph = compile::testing::random_graph(seed);
    const ChipConfig chip = card_of_64("tessera128");
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    for (const Split split : kSplits) {
      const auto shared = shared_out(graph, chip, 3, split);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      for (std::size_t core = 0; core < 3; ++core) {
        for (std::size_t i = 0; i < shared->card.cores[core].tasks.size(); ++i) {
          if (shared->card.cores[core].tasks[i].remote.empty()) continue;
          isa::CardProgram card = shared->card;
          card.cores[core].tasks[i].remote.clear();
          encode_again(card.cores[core]);
          SCOPED_TRACE(::testing::Message()
                       << "graph " << seed << " core " << core << " task " << i);
          EXPECT_FALSE(isa::verify_card_program(card, chip).ok());
          EXPECT_FALSE(run_card(card, chip, inputs, {.check_hazards = true}).ok());
          ++removed;
        }
      }
    }
  }
  EXPECT_GT(removed, 50);
}

enum class Weaker { kRemoved, kOneStepLess, kEarlierTask };

// Whether there is something to weaken in that way.
bool weaken(isa::TaskDescriptor& task, std::size_t which, Weaker how) {
  isa::Dependency& on = task.remote[which].on;
  if (how == Weaker::kOneStepLess) {
    on.offset -= on.denominator;
  } else if (how == Weaker::kEarlierTask) {
    if (on.task == 0) return false;
    --on.task;
  } else {
    task.remote.erase(task.remote.begin() + static_cast<std::ptrdiff_t>(which));
  }
  return true;
}

// Each dependency by itself, over the ring and over the network: what the proof lets through is harmless, whatever
// the engines' speed.
TEST(Cores, WhatIsLeftOfAWeakerDependencyBetweenCoresIsCaughtOrHarmless) {
  constexpr CardShape kFew[] = {{"two groups", 2, 2, 1}, {"two cards of two groups", 2, 1, 2}};
  const int one_in = visit_one_in(2, 60);
  int caught = 0, harmless = 0, number = 0;
  for (const CardShape& shape : kFew) {
    for (std::uint64_t seed = 2360; seed < 2364; ++seed) {
      const GraphPointer graph = compile::testing::random_graph(seed);
      const ChipConfig chip = shaped(*load_chip_config("cloud16"), shape);
      const std::vector<Tensor> inputs = random_inputs(*graph, seed);
      const auto expected = run_reference(graph, inputs);
      ASSERT_TRUE(expected.ok()) << expected.error().to_string();
      const auto shared = shared_out(graph, chip, 4, kSplits[seed % 3], shape.cards);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      for (std::size_t core = 0; core < 4; ++core) {
        const std::vector<isa::TaskDescriptor>& tasks = shared->card.cores[core].tasks;
        for (std::size_t i = 0; i < tasks.size(); ++i) {
          for (std::size_t d = 0; d < tasks[i].remote.size(); ++d) {
            for (const Weaker how :
                 {Weaker::kRemoved, Weaker::kOneStepLess, Weaker::kEarlierTask}) {
              if (++number % one_in != 0) continue;
              isa::CardProgram card = shared->card;
              if (!weaken(card.cores[core].tasks[i], d, how)) continue;
              encode_again(card.cores[core]);
              SCOPED_TRACE(::testing::Message()
                           << shape.name << ", graph " << seed << " core " << core << " task " << i
                           << " dependency " << d << " way " << static_cast<int>(how));
              if (!isa::verify_card_program(card, chip).ok()) {
                ++caught;
                continue;
              }
              for (const std::uint64_t delays : {0, 1, 2}) {
                const auto run = run_card(
                    card, chip, inputs, {.check_hazards = true, .delay_seed = delays}, shape.cards);
                ASSERT_TRUE(run.ok()) << run.error().to_string();
                EXPECT_TRUE(run->outputs == *expected);
              }
              ++harmless;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(caught * one_in, 500);
  std::printf("%d caught, %d harmless\n", caught, harmless);
}

// Teams of cores, each with an image of its own.
TEST(Cores, TeamsGiveTheBitsOfTheirImages) {
  for (const auto& [seed, of_team, teams] :
       {std::tuple(2350u, 1, 8), {2351u, 2, 8}, {2352u, 4, 3}, {2353u, 8, 2}}) {
    const GraphPointer graph = compile::testing::random_graph(seed);
    const ChipConfig chip = shaped(card_of_64("tessera128"), {"groups of four", 4, 4, 1});
    const auto placement = spread_cores(chip, 1, 16);
    ASSERT_TRUE(placement.ok());
    compile::ShareChoice choice{.cores = of_team, .split = Split::kRows, .of_nodes = {}};
    for (int core = 0; core < of_team; ++core) {
      choice.memory_of_core.push_back(static_cast<std::uint8_t>(core / 4));
    }
    const auto team = compile::compile_shares(graph, chip, {}, choice);
    ASSERT_TRUE(team.ok()) << team.error().to_string();
    const std::vector<std::uint8_t> memories(placement->memory.begin(),
                                             placement->memory.begin() + of_team * teams);
    const auto card = compile::repeat_for_images(team->card, memories, true);
    ASSERT_TRUE(card.ok()) << card.error().to_string();
    check_file(*card);
    std::vector<int> places(static_cast<std::size_t>(of_team * teams));
    std::iota(places.begin(), places.end(), 0);
    const Status proved = isa::verify_card_program(*card, chip);
    ASSERT_TRUE(proved.ok()) << proved.error().to_string();
    std::vector<Tensor> inputs, expected;
    for (int image = 0; image < teams; ++image) {
      const std::vector<Tensor> its = random_inputs(*graph, seed + 1000u * unsigned(image));
      const auto outputs = run_reference(graph, its);
      ASSERT_TRUE(outputs.ok()) << outputs.error().to_string();
      inputs.insert(inputs.end(), its.begin(), its.end());
      expected.insert(expected.end(), outputs->begin(), outputs->end());
    }
    const auto on_places = place_on(chip, 1, places);
    ASSERT_TRUE(on_places.ok());
    const auto run = run_placed(*card, chip, inputs, {.check_hazards = true}, *on_places);
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_TRUE(run->outputs == expected) << "graph " << seed;
  }
}

// A member that leaves a share, or takes its loads in another order, is found by the proof; a run of
// such a program ends with an error or with the bits, and never waits for ever.
TEST(Cores, AShareThatSomebodyDoesNotJoinIsCaught) {
  int left = 0;
  for (std::uint64_t seed = 2340; seed < 2343; ++seed) {
    const GraphPointer graph = compile::testing::random_graph(seed);
    const ChipConfig chip = shaped(card_of_64("tessera128"), kShapes[1]);
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const auto shared = shared_out(graph, chip, 24, Split::kRows);
    ASSERT_TRUE(shared.ok()) << shared.error().to_string();
    EXPECT_GT(shared->load_shares, 0);
    for (std::size_t core = 0; core < shared->card.cores.size(); core += 5) {
      for (std::size_t i = 0; i < shared->card.cores[core].tasks.size(); ++i) {
        if (shared->card.cores[core].tasks[i].header.share.number == 0) continue;
        isa::CardProgram card = shared->card;
        card.cores[core].tasks[i].header.share = {};
        encode_again(card.cores[core]);
        EXPECT_FALSE(isa::verify_card_program(card, chip).ok());
        if (++left % 8 != 0) continue;
        EXPECT_FALSE(run_card(card, chip, inputs, {.timing_only = true}).ok());
      }
    }
  }
  EXPECT_GT(left, 20);
}

}  // namespace
}  // namespace tessera::agreement

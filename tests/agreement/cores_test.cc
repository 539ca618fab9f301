// Networks on the cores of a card, with its clock: the bits of one core whatever the number of cores,
// the split and the speed of each engine; and no order between cores but what dependencies say.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "card/card.h"
#include "compile/compile_shares.h"
#include "compile/split_choice.h"
#include "compile/testing/random_graph.h"
#include "concord/testing/random_graph.h"
#include "isa/encoding.h"
#include "isa/verify.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::SharedProgram;
using compile::Split;
using GraphPointer = std::shared_ptr<const graph::Graph>;

constexpr int kCores[] = {1, 2, 3, 4, 7, 8, 16, 32, 48, 64};
constexpr Split kSplits[] = {Split::kRows, Split::kChannels};

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
};
constexpr CardShape kShapes[] = {
    {"one group", 1, 64, 1},
    {"eight groups", 8, 8, 1},
    {"four cards", 4, 4, 4},
    {"eight groups, no broadcast", 8, 8, 1, true, false},
    {"four cards, nothing merged", 4, 4, 4, false, true},
    {"eight groups, fixed parts", 8, 8, 1, true, true, false},
    {"four cards, plain", 4, 4, 4, false, false, false, false},
};
ChipConfig shaped(ChipConfig chip, const CardShape& shape) {
  chip.card.groups = shape.groups;
  chip.card.cores_per_group = shape.cores_per_group;
  chip.card.features.merge = shape.merge ? 1 : 0;
  chip.card.features.broadcast = shape.broadcast ? 1 : 0;
  chip.card.features.dynamic_bandwidth = shape.dynamic_bandwidth ? 1 : 0;
  chip.card.features.forward = shape.forward ? 1 : 0;
  return chip;
}

struct CardRun {
  Cycles cycles = 0;
  std::vector<Tensor> outputs;
};

// Of a program without host steps.
Result<CardRun> run_card(const isa::CardProgram& program, const ChipConfig& chip,
                         const std::vector<Tensor>& inputs, const card::CoreOptions& options,
                         int cards = 1) {
  TESSERA_TRY(const CardPlacement placement,
              spread_cores(chip, cards, static_cast<int>(program.cores.size())));
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

Result<SharedProgram> shared_out(const GraphPointer& graph, const ChipConfig& chip, int cores,
                                 Split split, int cards = 1) {
  TESSERA_TRY(const CardPlacement placement, spread_cores(chip, cards, cores));
  compile::ShareChoice choice{.cores = cores, .split = split, .of_nodes = {}};
  if (chip.card.features.forward != 0) choice.memory_of_core = placement.memory;
  TESSERA_TRY(SharedProgram shared, compile::compile_shares(graph, chip, {}, choice));
  TESSERA_RETURN_IF_ERROR(isa::verify_card_program(shared.card, chip));
  return shared;
}

void check_graph(const GraphPointer& graph, const ChipConfig& plain_chip, std::uint64_t seed) {
  const std::vector<Tensor> inputs = random_inputs(*graph, seed);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  for (const int cores : kCores) {
    for (const Split split : kSplits) {
      const CardShape& shape =
          kShapes[(seed * 5 + static_cast<std::uint64_t>(cores) + (split == Split::kRows ? 0 : 3)) %
                  std::size(kShapes)];
      const ChipConfig chip = shaped(plain_chip, shape);
      const int cards = std::min(shape.cards, cores);
      SCOPED_TRACE(::testing::Message() << "graph " << seed << ", " << cores << " cores, split "
                                        << static_cast<int>(split) << ", " << shape.name);
      const auto shared = shared_out(graph, chip, cores, split, cards);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
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

TEST(Cores, TheChosenSplitsGiveTheReferenceBits) {
  int of_rows = 0, of_channels = 0;
  for (std::uint64_t seed = 2330; seed < 2336; ++seed) {
    const GraphPointer graph = compile::testing::random_graph(seed);
    const ChipConfig chip = card_of_64("cloud16");
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const auto expected = run_reference(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    for (const int cores : {2, 5}) {
      const auto choice = compile::choose_splits(graph, chip, {}, cores);
      ASSERT_TRUE(choice.ok()) << choice.error().to_string();
      for (const Split split : choice->of_nodes) {
        ++(split == Split::kRows ? of_rows : of_channels);
      }
      const auto shared = compile::compile_shares(graph, chip, {}, *choice);
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      const auto run = run_card(shared->card, chip, inputs, {.check_hazards = true});
      ASSERT_TRUE(run.ok()) << run.error().to_string();
      EXPECT_TRUE(run->outputs == *expected) << "graph " << seed << ", " << cores << " cores";
    }
  }
  EXPECT_GT(of_rows, 0);
  EXPECT_GT(of_channels, 0);
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

}  // namespace
}  // namespace tessera::agreement

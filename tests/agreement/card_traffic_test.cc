// What a program of several cores moves, counted from its tasks, is what the engines, the ring and the
// network of a run have moved: byte for byte, where frames have no headers. Memories move whole bursts.
#include "isa/card_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "card/card.h"
#include "compile/compile_shares.h"
#include "compile/testing/random_graph.h"

namespace tessera::agreement {
namespace {

struct Shape {
  const char* name;
  int cores, cards;
  bool merge = true, broadcast = true, forward = true, needed_bytes_only = true;
};
constexpr Shape kShapes[] = {
    {"one group's cores", 4, 1},
    {"a card", 16, 1},
    {"three cards", 24, 3},
    {"three cards without broadcast", 24, 3, true, false},
    {"two cards without merging", 12, 2, false, false},
    {"two cards without forwarding", 12, 2, false, false, false},
    {"three cards with whole results", 24, 3, true, true, true, false},
};

isa::LayerTraffic sum_of(const std::vector<isa::LayerTraffic>& layers) {
  isa::LayerTraffic sum;
  for (const isa::LayerTraffic& layer : layers) {
    sum.read += layer.read;
    sum.written += layer.written;
    sum.merged += layer.merged;
    sum.ring += layer.ring;
    sum.network += layer.network;
  }
  return sum;
}

// Of a run, without descriptors.
struct Moved {
  std::int64_t read = 0, written = 0, ring = 0, network = 0;
  std::int64_t memories = 0;  // that they have read in bursts, with descriptors
};

Moved moved(const isa::CardProgram& program, const ChipConfig& chip,
            const CardPlacement& placement) {
  Moved sum;
  const auto card = card::Card::create(chip, placement);
  EXPECT_TRUE(card.ok());
  EXPECT_TRUE((*card)->load(program).ok());
  for (std::size_t segment = 0; segment < program.cores[0].segments.size(); ++segment) {
    const auto run = (*card)->run_segment(segment, {.timing_only = true});
    EXPECT_TRUE(run.ok()) << run.error().to_string();
    if (!run.ok()) return sum;
    for (const card::RunStatistics& core : run->cores) {
      for (const card::EngineStatistics& engine : core.engines) {
        if (engine.kind == "task_manager") continue;
        sum.read += engine.bytes_read;
        sum.written += engine.bytes_written;
      }
    }
    for (const card::EngineStatistics& row : run->shared) {
      sum.memories += row.bytes_read;
      if (row.kind == "ring") sum.ring += row.wire_bytes;
      if (row.kind == "network_out") sum.network += row.wire_bytes;
    }
  }
  return sum;
}

TEST(CardTraffic, TheBytesOfAllLayersAreThoseThatARunMoves) {
  isa::LayerTraffic all;
  int number = 0;
  for (const Shape& shape : kShapes) {
    ChipConfig chip = *load_chip_config("cloud16");
    chip.card.load_save.header_bytes = 0;
    chip.card.features.merge = shape.merge ? 1 : 0;
    chip.card.features.broadcast = shape.broadcast ? 1 : 0;
    chip.card.features.forward = shape.forward ? 1 : 0;
    chip.card.features.needed_bytes_only = shape.needed_bytes_only ? 1 : 0;
    const auto placement = spread_cores(chip, shape.cards, shape.cores);
    ASSERT_TRUE(placement.ok());
    for (std::uint64_t seed = 2400; seed < 2402; ++seed) {
      for (const compile::Split split :
           {compile::Split::kRows, compile::Split::kChannels, compile::Split::kGrid}) {
        if (number++ % visit_one_in(2, 4) != 0) continue;
        SCOPED_TRACE(::testing::Message()
                     << shape.name << ", graph " << seed << ", split " << static_cast<int>(split));
        compile::ShareChoice choice{.cores = shape.cores, .split = split, .of_nodes = {}};
        if (shape.forward) choice.memory_of_core = placement->memory;
        choice.share_loads = shape.merge;
        const auto shared =
            compile::compile_shares(compile::testing::random_graph(seed), chip, {}, choice);
        ASSERT_TRUE(shared.ok()) << shared.error().to_string();
        const isa::LayerTraffic counted =
            sum_of(isa::layer_traffic(shared->card, *placement, chip, shared->layers.size()));
        const Moved ran = moved(shared->card, chip, *placement);
        EXPECT_EQ(counted.read + counted.merged, ran.read);
        EXPECT_EQ(counted.written, ran.written);
        EXPECT_LE(counted.read, ran.memories);
        EXPECT_EQ(counted.merged > 0, shared->load_shares > 0);
        EXPECT_EQ(counted.ring, ran.ring);
        EXPECT_EQ(counted.network, ran.network);
        EXPECT_EQ(counted.network > 0, shape.cards > 1 && shape.forward);
        all = sum_of({all, counted});
      }
    }
  }
  EXPECT_GT(all.merged, 0);
  EXPECT_GT(all.ring, 0);
  EXPECT_GT(all.network, 0);
}

}  // namespace
}  // namespace tessera::agreement

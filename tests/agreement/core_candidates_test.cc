// The program that several cores get: never slower than that of one core of the same card, which is the package's own,
// and on small networks about as fast as the best of all ways to cut their layers, run one by one.
// TESSERA_TEST_WHOLE takes all stored models, else those of few products.
#include "network/core_candidates.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "card/card.h"
#include "compile/testing/random_graph.h"
#include "link/link.h"
#include "network/card_program.h"

namespace tessera::agreement {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCards[] = {"tessera128x4", "cloud16"};

compile::SharedProgram program_for(const Network& network, const CardPlacement& placement) {
  auto shared = network::program_for_cores(network.state(), placement, CoreSplit::kAuto);
  EXPECT_TRUE(shared.ok()) << shared.error().to_string();
  return shared.ok() ? std::move(*shared) : compile::SharedProgram();
}

// Timing only; 0: an error.
Cycles cycles_of(const compile::SharedProgram& shared, const ChipConfig& chip,
                 const CardPlacement& placement) {
  if (shared.card.cores.empty()) return 0;
  const auto card = card::Card::create(chip, placement);
  EXPECT_TRUE(card.ok() && (*card)->load(shared.card).ok());
  card::CoreOptions options;
  options.timing_only = true;
  Cycles cycles = 0;
  for (std::size_t s = 0; s < shared.card.cores[0].segments.size(); ++s) {
    const auto statistics = (*card)->run_segment(s, options);
    EXPECT_TRUE(statistics.ok()) << statistics.error().to_string();
    cycles += statistics.ok() ? statistics->cycles : 0;
  }
  return cycles;
}

Cycles cycles_of(const Network& network, const ChipConfig& chip, int cores) {
  const CardPlacement placement = *spread_cores(chip, 1, cores);
  return cycles_of(program_for(network, placement), chip, placement);
}

void expect_no_slower(const Network& network, const ChipConfig& chip) {
  const Cycles alone = cycles_of(network, chip, 1);
  for (const int cores : {2, 4, 16}) {
    if (cores > chip.card.cores()) continue;
    EXPECT_LE(cycles_of(network, chip, cores), alone) << cores << " cores of " << chip.name;
  }
}

Network random_network(std::uint64_t seed, const ChipConfig& chip) {
  auto network = network::network_from_graph(compile::testing::random_graph(seed), chip, {});
  EXPECT_TRUE(network.ok()) << network.error().to_string();
  return std::move(*network);
}

TEST(CoreCandidates, MoreCoresAreNoSlowerOnRandomGraphs) {
  for (const char* const name : kCards) {
    const ChipConfig chip = *load_chip_config(name);
    for (std::uint64_t seed = 0; seed < 96;
         seed += static_cast<std::uint64_t>(visit_one_in(12, 48))) {
      SCOPED_TRACE(seed);
      expect_no_slower(random_network(seed, chip), chip);
    }
  }
}

TEST(CoreCandidates, MoreCoresAreNoSlowerOnStoredModels) {
  const fs::path folder = fs::path(TESSERA_TEST_DATA) / "models";
  std::error_code absent;
  int models = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, absent)) {
    if (entry.path().extension() != ".onnx") continue;
    if (visit_one_in(2, 4) > 1 && fs::file_size(entry.path()) > 200'000) continue;
    ++models;
    SCOPED_TRACE(entry.path().filename().string());
    for (const char* const name : kCards) {
      const ChipConfig chip = *load_chip_config(name);
      const auto network = Network::load(entry.path().string(), {.arch = name});
      ASSERT_TRUE(network.ok()) << network.error().to_string();
      expect_no_slower(*network, chip);
    }
  }
  if (models == 0) GTEST_SKIP() << "no stored models in " << folder;
}

// Each layer cut each way: the least cycles that any of these choices takes on the card.
Cycles least_of_all(const Network& network, const ChipConfig& chip,
                    const CardPlacement& placement) {
  const std::size_t nodes = network.state().package.graph->nodes.size();
  const auto ways = placement.core.size() < compile::kGridCoresMin ? 2U : 3U;
  std::size_t choices = 1;
  for (std::size_t node = 0; node < nodes; ++node) choices *= ways;
  Cycles least = 0;
  for (std::size_t choice = 0; choice < choices; ++choice) {
    std::vector<std::uint8_t> of_nodes;
    for (std::size_t node = 0, left = choice; node < nodes; ++node, left /= ways) {
      of_nodes.push_back(static_cast<std::uint8_t>(left % ways));
    }
    const auto shared = network::program_for_ways(network.state(), placement, of_nodes);
    EXPECT_TRUE(shared.ok()) << shared.error().to_string();
    if (!shared.ok()) return 0;
    const Cycles cycles = cycles_of(*shared, chip, placement);
    if (choice == 0 || cycles < least) least = cycles;
  }
  return least;
}

TEST(CoreCandidates, TheChosenProgramIsAboutAsFastAsTheBestOfAllChoices) {
  double sum = 0;
  int networks = 0;
  for (const char* const name : kCards) {
    const ChipConfig chip = *load_chip_config(name);
    for (std::uint64_t seed = 5100; seed < 5140;
         seed += static_cast<std::uint64_t>(visit_one_in(16, 32))) {
      const Network network = random_network(seed, chip);
      if (network.state().package.graph->nodes.size() > 5) continue;
      for (const int cores : {2, 4}) {
        const CardPlacement placement = *spread_cores(chip, 1, cores);
        const Cycles chosen = cycles_of(network, chip, cores);
        const Cycles least = least_of_all(network, chip, placement);
        const double ratio = static_cast<double>(chosen) / static_cast<double>(least);
        EXPECT_LE(ratio, 1.2) << name << ", " << cores << " cores, seed " << seed;
        sum += ratio;
        ++networks;
      }
    }
  }
  ASSERT_GT(networks, 0);
  EXPECT_LE(sum / networks, 1.0);
}

TEST(CoreCandidates, OneCoreRunsThePackagesOwnProgram) {
  for (const char* const name : kCards) {
    const ChipConfig chip = *load_chip_config(name);
    const Network network = random_network(3, chip);
    const auto own = link::link(network.state().package, chip);
    ASSERT_TRUE(own.ok());
    const auto shared = program_for(network, *place_on(chip, 1, {chip.card.cores() - 1}));
    ASSERT_EQ(shared.card.cores.size(), 1U);
    EXPECT_EQ(shared.card.cores[0].stream, own->stream);
  }
}

TEST(CoreCandidates, PlainerCardsMoveEverythingThroughMemoryOnOneCoreToo) {
  ChipConfig chip = *load_chip_config("cloud16");
  const Network network = random_network(3, chip);
  EXPECT_TRUE(network::runs_one_core_program(chip));
  chip.card.features.hand_over = 0;
  EXPECT_FALSE(network::runs_one_core_program(chip));
  const Network plain = random_network(3, chip);
  const auto shared = program_for(plain, *spread_cores(chip, 1, 1));
  ASSERT_EQ(shared.card.cores.size(), 1U);
  for (const compile::LayerShare& layer : shared.layers) {
    EXPECT_NE(layer.hand_over, compile::HandOver::kStays) << layer.name;
  }
}

}  // namespace
}  // namespace tessera::agreement

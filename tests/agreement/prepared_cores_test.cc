// What a package has for several cores is what compiling for them gives: streams, dependencies, places, weights
// and hints, also when it was in a file.
#include "network/prepared_cores.h"

#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "compile/testing/random_graph.h"
#include "link/templates.h"
#include "network/card_program.h"
#include "package/container.h"
#include "package/elsewhere.h"
#include "tools/workloads/zoo_graph.h"

namespace tessera::agreement {
namespace {

using compile::LayerShare;
using compile::SharedProgram;
using network::CoreCount;

bool same(const LayerShare& a, const LayerShare& b) {
  return a.name == b.name && a.node == b.node && a.way == b.way && a.cores == b.cores &&
         a.reason == b.reason && a.bytes_read == b.bytes_read &&
         a.bytes_written == b.bytes_written && a.hand_over == b.hand_over;
}

SharedProgram program_for(const Network& network, const CardPlacement& placement,
                          int cores_per_image = 0) {
  auto shared =
      network::program_for_cores(network.state(), placement, CoreSplit::kAuto, cores_per_image);
  EXPECT_TRUE(shared.ok()) << shared.error().to_string();
  return shared.ok() ? std::move(*shared) : SharedProgram();
}

void expect_same(const SharedProgram& made, const SharedProgram& expected) {
  EXPECT_TRUE(made.card == expected.card);
  EXPECT_EQ(made.remote_dependencies, expected.remote_dependencies);
  EXPECT_EQ(made.load_shares, expected.load_shares);
  ASSERT_EQ(made.layers.size(), expected.layers.size());
  for (std::size_t i = 0; i < made.layers.size(); ++i) {
    EXPECT_TRUE(same(made.layers[i], expected.layers[i])) << made.layers[i].name;
  }
}

// As `tessera link` writes it: out of the file of the package, page by page.
SharedProgram linked_from_file(const std::string& package, const std::string& program,
                               const isa::PreparedFor& key) {
  SharedProgram result;
  const auto source = package::load_prepared(package, key);
  EXPECT_TRUE(source.ok() && *source);
  if (!source.ok() || !*source) return result;
  const Status written = package::write_program(
      program, (*source)->cores(), package::path_from(program, package),
      [&](const auto& texts) -> Status {
        std::vector<link::TextPlace> places;
        for (const auto& [text, words] : texts) places.push_back({text, words});
        return (*source)->for_each_page(
            [&](const isa::TemplatePage& page) { return link::uses_page(page, places); },
            [&](const isa::TemplatePage& page) {
              link::fill_page((*source)->templates(), page, places);
            });
      });
  EXPECT_TRUE(written.ok()) << written.error().message;
  auto loaded = package::load_card_program_alone(program);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  if (!loaded.ok()) return result;
  isa::Program& first = loaded->cores.front();
  if (package::is_unread(first)) {
    const auto found =
        package::find_elsewhere(first, program, {.folder = package::folder_of(program)});
    EXPECT_TRUE(found.ok()) << found.error().message;
  }
  package::hold_all(first);
  result.card = std::move(*loaded);
  return result;
}

void expect_same_model(const isa::ModelledCores& found, const isa::ModelledCores& expected) {
  EXPECT_TRUE(found == expected);
  EXPECT_GT(found.cycles, 0);
  EXPECT_TRUE(found.cores == 1 || !found.layers.empty());  // one core's program has no ways
}

// Each placement that was prepared, in memory and through files.
void expect_prepared_is_compiled(const Network& network, const std::vector<CoreCount>& counts) {
  const std::string file = ::testing::TempDir() + "prepared_cores_test.tpkg";
  const auto prepared = network::prepare_cores(network, counts);
  ASSERT_TRUE(prepared.ok()) << prepared.error().to_string();
  ASSERT_TRUE(prepared->save_package(file).ok());
  const ChipConfig& chip = network.state().chip;
  auto package = package::load_package(file);
  ASSERT_TRUE(package.ok()) << package.error().message;
  const auto loaded = network::network_from_package(std::move(*package), chip);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  for (const CoreCount& count : counts) {
    SCOPED_TRACE(::testing::Message() << count.cores << " cores of " << count.cards << " cards");
    const CardPlacement placement = *spread_cores(chip, count.cards, count.cores);
    const isa::PreparedFor key = network::key_of_placement(chip, placement, CoreSplit::kAuto);
    const auto kept = prepared->state().package.prepared->find(key);
    ASSERT_NE(kept, nullptr);
    const SharedProgram expected = program_for(network, placement);
    expect_same_model(*kept->model, *expected.model);
    const auto read = loaded->state().package.prepared->find(key);
    ASSERT_NE(read, nullptr);
    ASSERT_NE(read->model, nullptr);
    expect_same_model(*read->model, *expected.model);
    expect_same(program_for(*prepared, placement), expected);
    expect_same(program_for(*loaded, placement), expected);
    EXPECT_TRUE(
        linked_from_file(file, ::testing::TempDir() + "prepared_cores_test.tprog", key).card ==
        expected.card);
  }
}

TEST(PreparedCores, RandomGraphs) {
  const ChipConfig chip = *load_chip_config("cloud16");
  for (std::uint64_t seed = 8100; seed < 8112; ++seed) {
    SCOPED_TRACE(seed);
    const auto network =
        network::network_from_graph(compile::testing::random_graph(seed), chip, {});
    ASSERT_TRUE(network.ok()) << network.error().to_string();
    const int cores = 2 + static_cast<int>(seed % 5);
    expect_prepared_is_compiled(*network, {{cores, 1}, {16, 1}, {2 * cores, 2}});
  }
}

// Everyday, each on one of the cards.
TEST(PreparedCores, NetworksOfTheZoo) {
  int number = 0;
  for (const char* const arch : {"cloud16", "tessera128x4"}) {
    const ChipConfig chip = *load_chip_config(arch);
    for (const char* const name : {"mobilenet_v1", "vit_tiny"}) {
      if (number++ % visit_one_in(2, 4) != 0) continue;
      SCOPED_TRACE(::testing::Message() << name << " on " << arch);
      const auto graph = tools::zoo_graph(name, chip, {});
      ASSERT_TRUE(graph.ok()) << graph.error().to_string();
      const auto network = network::network_from_graph(*graph, chip, {});
      ASSERT_TRUE(network.ok()) << network.error().to_string();
      expect_prepared_is_compiled(*network, {{3, 1}, {4, 1}});
    }
    ++number;
  }
}

// Cores in one group, which a card's tenants hold, and teams of so many of the cores.
TEST(PreparedCores, ServeTenantsAndTeams) {
  const ChipConfig chip = *load_chip_config("cloud16");
  const auto network = network::network_from_graph(compile::testing::random_graph(8120), chip, {});
  ASSERT_TRUE(network.ok());
  const auto prepared = network::prepare_cores(*network, network::usual_core_counts(chip));
  ASSERT_TRUE(prepared.ok()) << prepared.error().to_string();
  const isa::PreparedPrograms& all = *prepared->state().package.prepared;
  EXPECT_EQ(all.programs.size(), 7u);  // 16, and 8, 4 and 2 in two ways
  for (const std::vector<int>& cores :
       {std::vector{4, 5, 6, 7}, {12, 13}, {0, 1, 2, 3, 8, 9, 10, 11}}) {
    const CardPlacement placement = *place_on(chip, 1, cores);
    EXPECT_NE(all.find(network::key_of_placement(chip, placement, CoreSplit::kAuto)), nullptr)
        << cores.size();
    expect_same(program_for(*prepared, placement), program_for(*network, placement));
  }
  const CardPlacement whole = *spread_cores(chip, 1, 16);
  expect_same(program_for(*prepared, whole, 2), program_for(*network, whole, 2));
}

// Ways of another path than the prepared one: other words, the same outputs are what tests of splits show.
TEST(PreparedCores, NodesMayBeCutInWaysOfTheirOwn) {
  const ChipConfig chip = *load_chip_config("cloud16");
  const auto graph = tools::zoo_graph("mobilenet_v1", chip, {});
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  const auto network = network::network_from_graph(*graph, chip, {});
  ASSERT_TRUE(network.ok());
  const CardPlacement placement = *spread_cores(chip, 1, 4);
  const SharedProgram chosen = program_for(*network, placement);
  ASSERT_EQ(chosen.model->cores, 4);
  const auto again = network::program_for_ways(network->state(), placement, chosen.model->chosen);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_TRUE(again->card == chosen.card);
  std::vector<std::uint8_t> channels(chosen.model->chosen.size(), 1);
  const auto other = network::program_for_ways(network->state(), placement, channels);
  ASSERT_TRUE(other.ok()) << other.error().to_string();
  const auto by_channels =
      network::program_for_cores(network->state(), placement, CoreSplit::kChannels);
  ASSERT_TRUE(by_channels.ok());
  EXPECT_TRUE(other->card == by_channels->card);
  channels.pop_back();
  EXPECT_FALSE(network::program_for_ways(network->state(), placement, channels).ok());
  channels.push_back(3);
  EXPECT_FALSE(network::program_for_ways(network->state(), placement, channels).ok());
}

TEST(PreparedCores, ACardWithOtherFeaturesHasNothingPrepared) {
  ChipConfig chip = *load_chip_config("cloud16");
  const auto network = network::network_from_graph(compile::testing::random_graph(8121), chip, {});
  ASSERT_TRUE(network.ok());
  const auto prepared = network::prepare_cores(*network, std::vector<CoreCount>{{4, 1}});
  ASSERT_TRUE(prepared.ok());
  chip.card.features.hand_over = 0;
  const CardPlacement placement = *spread_cores(chip, 1, 4);
  const auto key = network::key_of_placement(chip, placement, CoreSplit::kAuto);
  EXPECT_EQ(prepared->state().package.prepared->find(key), nullptr);
  const auto other = network::network_from_package(prepared->state().package, chip);
  ASSERT_TRUE(other.ok()) << other.error().message;
  const auto plain = network::network_from_graph(compile::testing::random_graph(8121), chip, {});
  ASSERT_TRUE(plain.ok());
  expect_same(program_for(*other, placement), program_for(*plain, placement));
}

// What was prepared before stays.
TEST(PreparedCores, MoreCoresMayBePreparedLater) {
  const ChipConfig chip = *load_chip_config("cloud16");
  const auto network = network::network_from_graph(compile::testing::random_graph(8122), chip, {});
  ASSERT_TRUE(network.ok());
  const auto two = network::prepare_cores(*network, std::vector<CoreCount>{{2, 1}});
  ASSERT_TRUE(two.ok());
  const auto both = network::prepare_cores(*two, std::vector<CoreCount>{{5, 1}});
  ASSERT_TRUE(both.ok()) << both.error().to_string();
  const auto once = network::prepare_cores(*network, std::vector<CoreCount>{{2, 1}, {5, 1}});
  ASSERT_TRUE(once.ok());
  EXPECT_EQ(package::serialise(both->state().package), package::serialise(once->state().package));
}

TEST(PreparedCores, MoreCoresThanTheCardHasAreRefused) {
  const ChipConfig chip = *load_chip_config("tessera128x4");
  const auto network = network::network_from_graph(compile::testing::random_graph(8123), chip, {});
  ASSERT_TRUE(network.ok());
  EXPECT_FALSE(network::prepare_cores(*network, std::vector<CoreCount>{{5, 1}}).ok());
  EXPECT_TRUE(network::usual_core_counts(*load_chip_config("tessera128")).empty());
}

}  // namespace
}  // namespace tessera::agreement

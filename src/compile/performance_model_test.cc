// What the package says of the time of layers: against the model that it was made from, at other bandwidths
// against sums by hand, and what a file must not say.
#include "compile/performance_model.h"

#include <gtest/gtest.h>

#include <limits>

#include "arch/architecture_file.h"
#include "arch/card_placement.h"
#include "compile/split_choice.h"
#include "compile/testing/random_graph.h"

namespace tessera::compile {
namespace {

// Node 1 reads node 0. Another way than that of node 0 moves 100 bytes; way 1 of node 1 saves arithmetic.
isa::ModelledCores two_layers() {
  return {.cores = 4,
          .cycles = 90,
          .chosen = {0, 1},
          .layers = {{.nodes = {0}, .ways = {2}, .costs = {{50, 10, 0, 0}, {60, 10, 0, 0}}},
                     {.nodes = {0, 1},
                      .ways = {2, 2},
                      .costs = {{80, 5, 0, 0}, {80, 45, 20, 4}, {40, 45, 20, 4}, {40, 5, 0, 0}}}}};
}

TEST(PerformanceModel, SumsTheLongerOfArithmeticAndTransfers) {
  const isa::ModelledCores model = two_layers();
  EXPECT_EQ(isa::modelled_cycles(model, {40, 45, 20, 4}, 1), 49);
  EXPECT_EQ(isa::modelled_cycles(model, {40, 45, 20, 4}, 0.5), 94);
  EXPECT_EQ(isa::modelled_cycles(model, {40, 1, 60, 4}, 0.5), 64);  // links keep their rate
  isa::ModelledCores after = model;
  after.load_before_arithmetic = true;
  EXPECT_EQ(isa::modelled_cycles(after, {40, 45, 20, 4}, 1), 89);
  EXPECT_EQ(isa::modelled_path(model, 1), 50 + 49);
  EXPECT_EQ(isa::modelled_path(model, 0.25), 50 + 184);
  EXPECT_EQ(isa::modelled_network(model, 1), 90);
  EXPECT_DOUBLE_EQ(isa::modelled_network(model, 0.25), 90.0 * 234 / 99);
}

TEST(PerformanceModel, TheShortestPathDependsOnTheBandwidth) {
  isa::ModelledCores model = two_layers();
  model.layers[0].costs[1].compute = 70;  // 70 + 40 by way 1 of both, 50 + 49 by ways 0 and 1
  const ShortestPath fast = shortest_path(model, 1);
  EXPECT_EQ(fast.ways, (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(fast.cycles, 99);
  const ShortestPath slow = shortest_path(model, 0.25);
  EXPECT_EQ(slow.ways, (std::vector<std::uint8_t>{1, 1}));
  EXPECT_EQ(slow.cycles, 110);
}

// All costs, in another number format, and so the path.
TEST(PerformanceModel, IsThatOfTheCompiler) {
  for (const char* const arch : {"cloud16", "tessera128x4"}) {
    const ChipConfig chip = *load_chip_config(arch);
    for (std::uint64_t seed = 5200; seed < 5212; ++seed) {
      SCOPED_TRACE(::testing::Message() << arch << " " << seed);
      const auto graph = testing::random_graph(seed);
      ShareChoice base;
      base.cores = 4;
      base.memory_of_core = spread_cores(chip, 1, 4)->memory;
      const auto model = split_model(*graph, chip, {}, base);
      ASSERT_TRUE(model.ok()) << model.error().to_string();
      const auto chosen = choose_and_estimate(*graph, chip, {}, base);
      ASSERT_TRUE(chosen.ok());
      EXPECT_TRUE(isa::check_model(chosen->model).ok());
      EXPECT_EQ(chosen->model.cycles, chosen->cycles);
      const auto expected = model->factors();
      const auto found = factors_of(chosen->model, 1);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].variables, expected[i].variables);
        ASSERT_EQ(found[i].costs.size(), expected[i].costs.size());
        for (std::size_t c = 0; c < found[i].costs.size(); ++c) {
          EXPECT_NEAR(found[i].costs[c], expected[i].costs[c], 1e-6 * expected[i].costs[c]);
        }
      }
      const double path = isa::modelled_path(chosen->model, 1);
      EXPECT_LE(shortest_path(chosen->model, 1).cycles, path * (1 + 1e-6));
      EXPECT_GE(isa::modelled_path(chosen->model, 0.5), path);
    }
  }
}

TEST(PerformanceModel, RefusesWhatIsNone) {
  const auto refused = [](const auto& change) {
    isa::ModelledCores model = two_layers();
    change(model);
    const Status status = isa::check_model(model);
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(refused([](auto&) {}), "accepted");
  EXPECT_EQ(refused([](auto& m) { m.cores = 0; }), "performance model: 0 cores, allowed 1 to 64");
  EXPECT_EQ(refused([](auto& m) { m.cycles = -1; }),
            "performance model: the network's time is no number of cycles");
  EXPECT_EQ(refused([](auto& m) { m.layers[1].nodes[1] = 2; }),
            "performance model: layer 1: a node that the graph does not have");
  EXPECT_EQ(refused([](auto& m) { m.layers[1].nodes[1] = 0; }),
            "performance model: layer 1: a node twice");
  EXPECT_EQ(refused([](auto& m) { m.layers[0].ways.push_back(2); }),
            "performance model: layer 0: nodes and ways are not as many");
  EXPECT_EQ(refused([](auto& m) { m.layers[1].ways[1] = 9; }),
            "performance model: layer 1: a node with 0 ways, or more than 8");
  EXPECT_EQ(refused([](auto& m) { m.layers[1].costs.pop_back(); }),
            "performance model: layer 1: costs that are not as many as its choices");
  EXPECT_EQ(refused([](auto& m) { m.layers[1].costs[2].memory = -1; }),
            "performance model: layer 1: a cost that is no number of cycles");
  EXPECT_EQ(refused([](auto& m) {
              m.layers[0].costs[0].compute = std::numeric_limits<float>::infinity();
            }),
            "performance model: layer 0: a cost that is no number of cycles");
  EXPECT_EQ(refused([](auto& m) { m.chosen[1] = 2; }),
            "performance model: layer 1: node 1 goes way 2 of 2");
}

}  // namespace
}  // namespace tessera::compile

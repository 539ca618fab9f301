// A processor over cards of several nodes: bits, cycles and rows of the same program in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../runtime/card_models.h"
#include "arch/architecture_file.h"
#include "cluster/messenger.h"
#include "local_cluster.h"
#include "tessera/runtime.h"
#include "tessera/session.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::error_of;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::network_with_host_step;
using testing::residual_network;
using testing::Sample;

void expect_equal(const RunResult& there, const RunResult& here) {
  EXPECT_EQ(there.cycles, here.cycles);
  EXPECT_EQ(there.host_cycles, here.host_cycles);
  EXPECT_EQ(there.transfer_cycles, here.transfer_cycles);
  ASSERT_EQ(there.engines.size(), here.engines.size());
  for (std::size_t i = 0; i < here.engines.size(); ++i) {
    SCOPED_TRACE(here.engines[i].name);
    EXPECT_EQ(there.engines[i].name, here.engines[i].name);
    EXPECT_EQ(there.engines[i].core, here.engines[i].core);
    EXPECT_EQ(there.engines[i].busy, here.engines[i].busy);
    EXPECT_EQ(there.engines[i].idle, here.engines[i].idle);
    EXPECT_EQ(there.engines[i].steps, here.engines[i].steps);
    EXPECT_EQ(there.engines[i].dram_bytes_read, here.engines[i].dram_bytes_read);
    EXPECT_EQ(there.engines[i].wire_bytes, here.engines[i].wire_bytes);
  }
  ASSERT_EQ(there.layers.size(), here.layers.size());
  for (std::size_t i = 0; i < here.layers.size(); ++i) {
    EXPECT_EQ(there.layers[i].begin, here.layers[i].begin);
    EXPECT_EQ(there.layers[i].end, here.layers[i].end);
  }
  ASSERT_EQ(there.timeline.size(), here.timeline.size());
  for (std::size_t i = 0; i < here.timeline.size(); ++i) {
    EXPECT_EQ(there.timeline[i].begin, here.timeline[i].begin);
    EXPECT_EQ(there.timeline[i].end, here.timeline[i].end);
    EXPECT_EQ(there.timeline[i].layer, here.timeline[i].layer);
    EXPECT_EQ(there.timeline[i].bytes, here.timeline[i].bytes);
    EXPECT_EQ(there.timeline[i].core, here.timeline[i].core);
  }
}

struct Spread {
  int nodes, cards_of_node, cards, cores;
  CoreSplit split;
};

TEST(SeveralCards, BitsCyclesAndRowsAreThoseOfOneProcess) {
  const std::vector<Sample> models = {Sample(residual_network(1, 24)),
                                      Sample(network_with_host_step())};
  for (const Spread& spread :
       {Spread{2, 1, 2, 32, CoreSplit::kAuto}, Spread{3, 1, 3, 6, CoreSplit::kChannels},
        Spread{4, 1, 4, 16, CoreSplit::kRows}, Spread{2, 2, 4, 8, CoreSplit::kRows},
        Spread{1, 2, 2, 4, CoreSplit::kChannels}}) {
    SCOPED_TRACE(::testing::Message() << spread.cores << " cores on " << spread.cards
                                      << " cards of " << spread.nodes << " nodes");
    const LocalCluster cluster({.nodes = spread.nodes, .cards = spread.cards_of_node});
    for (const Sample& model : models) {
      const bool trace = spread.nodes == 2;
      Session here =
          Session::open(
              model.network,
              {.trace = trace, .cores = spread.cores, .cards = spread.cards, .split = spread.split})
              .value();
      auto there = Session::open(
          model.network, {.trace = trace,
                          .split = spread.split,
                          .cluster = cluster.address("cores=" + std::to_string(spread.cores) +
                                                     "&cards=" + std::to_string(spread.cards))});
      ASSERT_TRUE(there.ok()) << there.error().to_string();
      const RunResult expected = here.run(model.inputs).value();
      for (int run = 0; run < 2; ++run) {
        const auto got = there->run(model.inputs);
        ASSERT_TRUE(got.ok()) << got.error().to_string();
        EXPECT_TRUE(got->outputs == model.outputs);
        expect_equal(*got, expected);
      }
    }
  }
}

// As the baselines of the published tables (repro/card_tables.h): one card and two, with values and without.
TEST(SeveralCards, PlainerCardsHaveTheBitsAndCyclesOfOneProcessToo) {
  ChipConfig chip = load_chip_config("cloud16").value();
  CardFeatures& features = chip.card.features;
  features.merge = features.broadcast = features.forward = features.dynamic_bandwidth = 0;
  features.needed_bytes_only = features.instruction_sync = 0;
  for (const bool as_published : {false, true}) {
    SCOPED_TRACE(as_published);
    if (as_published) {
      features.loads_beside_arithmetic = features.hand_over = 0;
      features.split = CardSplit::kWidth;
    }
    const std::string arch = ::testing::TempDir() + "plainer_card.toml";
    std::ofstream(arch) << describe(chip);
    const LocalCluster cluster({.nodes = 2, .arch = arch});
    const Sample model(residual_network(1, 24, chip));
    for (const int cards : {1, 2}) {
      const int cores = cards * chip.card.cores();
      const std::string name =
          cluster.address("cores=" + std::to_string(cores) + "&cards=" + std::to_string(cards));
      const RunResult here = Session::open(model.network, {.cores = cores, .cards = cards})
                                 .value()
                                 .run(model.inputs)
                                 .value();
      for (const bool timing_only : {false, true}) {
        auto there = Session::open(model.network, {.timing_only = timing_only, .cluster = name});
        ASSERT_TRUE(there.ok()) << there.error().to_string();
        const auto got = there->run(model.inputs);
        ASSERT_TRUE(got.ok()) << got.error().to_string();
        EXPECT_EQ(got->cycles, here.cycles);
        EXPECT_TRUE(timing_only || got->outputs == model.outputs);
      }
    }
    const auto some = Session::open(model.network, {.cluster = cluster.address("cores=4")});
    ASSERT_FALSE(some.ok());
    EXPECT_THAT(some.error().message, HasSubstr("go as a whole, 16 each; take all cores of one"));
  }
}

TEST(SeveralCards, CyclesAloneAreTheSameToo) {
  const LocalCluster cluster({.nodes = 2});
  const Sample model(residual_network(1, 24));
  const auto cycles = [&](const SessionOptions& options) {
    return Session::open(model.network, options).value().run(model.inputs).value().cycles;
  };
  EXPECT_EQ(cycles({.timing_only = true, .cluster = cluster.address("cores=8&cards=2")}),
            cycles({.timing_only = true, .cores = 8, .cards = 2}));
}

TEST(SeveralCards, AreTakenAndGivenBackTogether) {
  const LocalCluster cluster({.nodes = 3});
  const auto free = [&] {
    std::vector<int> counts;
    const json status = cluster.call({{"call", "status"}});
    for (const json& card : status["pool"]) counts.push_back(card["free"].get<int>());
    return counts;
  };
  (void)cluster.call({{"call", "acquire"}, {"name", "small"}, {"cores", 1}, {"kept", true}});
  const json taken = cluster.call(
      {{"call", "acquire"}, {"name", "a"}, {"cards", 2}, {"cores", 8}, {"kept", true}});
  EXPECT_EQ(taken["state"], "placed");
  EXPECT_EQ(taken["cores_wanted"], 8);
  ASSERT_EQ(taken["cards"].size(), 2u);
  EXPECT_EQ(taken["cards"][0]["node"], "n1");
  EXPECT_EQ(taken["cards"][1]["node"], "n2");
  EXPECT_EQ(taken["cards"][1]["cores"].size(), 16u);
  EXPECT_THAT(free(), ::testing::ElementsAre(15, 0, 0));
  // All or nothing.
  const auto more = cluster.ask({{"call", "acquire"}, {"name", "b"}, {"cards", 2}});
  EXPECT_THAT(error_of(more), HasSubstr("2 cards are wanted as a whole"));
  EXPECT_THAT(free(), ::testing::ElementsAre(15, 0, 0));
  // Cores of the cards that it has; for others it is to be taken anew.
  EXPECT_EQ(cluster.call({{"call", "resize"}, {"alloc", "a"}, {"cores", 32}})["cores_wanted"], 32);
  const auto resized = cluster.ask({{"call", "resize"}, {"alloc", "a"}, {"cores", 33}});
  EXPECT_THAT(error_of(resized), HasSubstr("allowed are 2 to 32 cores of them"));
  (void)cluster.call({{"call", "release"}, {"alloc", "a"}});
  EXPECT_THAT(free(), ::testing::ElementsAre(15, 16, 16));
  const json events = cluster.call({{"call", "events"}});
  std::string texts;
  for (const json& event : events["events"]) texts += event["text"].get<std::string>() + "\n";
  EXPECT_THAT(texts, HasSubstr("'a': 8 cores on 2 cards (n1/0, n2/0)"));
}

TEST(SeveralCards, OtherCoresOfThemAreUsedFromTheNextRunOn) {
  const LocalCluster cluster({.nodes = 2});
  const Sample model(residual_network(1, 24));
  (void)cluster.call(
      {{"call", "acquire"}, {"name", "a"}, {"cards", 2}, {"cores", 4}, {"kept", true}});
  Session session = Session::open(model.network, {.cluster = cluster.address("alloc=a")}).value();
  for (const int cores : {4, 8, 2}) {
    (void)cluster.call({{"call", "resize"}, {"alloc", "a"}, {"cores", cores}});
    const auto got = session.run(model.inputs);
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    const RunResult here = Session::open(model.network, {.cores = cores, .cards = 2})
                               .value()
                               .run(model.inputs)
                               .value();
    EXPECT_TRUE(got->outputs == model.outputs);
    EXPECT_EQ(got->cycles, here.cycles);
  }
}

TEST(SeveralCards, CountAsAWholeForTheQuota) {
  const LocalCluster cluster(
      {.nodes = 2,
       .tenants = R"({"tenants": [{"name": "t", "token": "0123456789abcdef", "cores_max": 31},
                                  {"name": "u", "token": "fedcba9876543210", "cores_max": 32}]})"});
  cluster.wait_for_nodes_as("0123456789abcdef", 2);
  const auto acquire = [&](const std::string& token) {
    return cluster.ask({{"call", "acquire"}, {"token", token}, {"cards", 2}, {"cores", 2}});
  };
  EXPECT_THAT(error_of(acquire("0123456789abcdef")), HasSubstr("wants 32 more; its quota is 31"));
  EXPECT_EQ(error_of(acquire("fedcba9876543210")), "");
}

TEST(SeveralCards, WhoHasTheTicketAloneIsNoNodeOfThem) {
  const LocalCluster cluster({.nodes = 2});
  const json taken =
      cluster.call({{"call", "acquire"}, {"name", "a"}, {"cards", 2}, {"kept", true}});
  const auto messenger = cluster::Messenger::create().value();
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto channel = messenger->open(cluster.nodes[1]->endpoint(), last).value();
  const json request = {{"call", "open"},
                        {"alloc", "a"},
                        {"ticket", taken["ticket"]},
                        {"process", 0},
                        {"cluster_secret", "guessed"}};
  EXPECT_EQ(error_of(channel->call(request.dump(), {}, last)),
            "who joins an allocation is no node of this cluster");
}

TEST(SeveralCards, WhatTheyDoNotDoIsRefused) {
  const LocalCluster cluster({.nodes = 2});
  const Sample model(residual_network(1, 24));
  const auto refusal = [&](const std::string& rest, SessionOptions options = {}) {
    options.cluster = cluster.address(rest);
    auto session = Session::open(model.network, options);
    if (!session.ok()) return session.error().message;
    return error_of(session->run(model.inputs));
  };
  EXPECT_THAT(refusal("cards=2&cores=1"), HasSubstr("each card has one or more of them"));
  EXPECT_THAT(refusal("cards=2&memory=4096"), HasSubstr("leave them out"));
  EXPECT_THAT(refusal("cards=3"), HasSubstr("3 cards are wanted as a whole"));
  EXPECT_THAT(refusal("cards=2", {.check_hazards = true}), HasSubstr("check of hazards"));
}

}  // namespace
}  // namespace tessera

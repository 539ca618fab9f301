// Tenants of one card on the command line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

nlohmann::json card_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "card");
  arguments.emplace_back("--json");
  const CommandResult result = tessera(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.json();
}

TEST(Card, ShowsWhoHasWhatAndHowFastEachIsAloneAndTogether) {
  const nlohmann::json card =
      card_json({"--tenant", "small.onnx:cores=2,name=a", "--tenant",
                 "host.onnx:at=4+5,weight=2,memory=64M,name=b", "--times", "2"});
  EXPECT_EQ(card.at("arch"), "cloud16");
  ASSERT_EQ(card.at("groups").size(), 4u);
  const auto& first = card.at("groups")[0];
  EXPECT_EQ(first.at("cores")[1].at("tenant"), "a");
  EXPECT_TRUE(first.at("cores")[2].at("tenant").is_null());
  EXPECT_EQ(first.at("memory")[0].at("bytes"), 4LL << 30);
  EXPECT_EQ(card.at("groups")[1].at("memory")[0].at("weight"), 2);
  EXPECT_TRUE(card.at("groups")[2].at("memory").empty());
  ASSERT_EQ(card.at("tenants").size(), 2u);
  const auto& b = card.at("tenants")[1];
  EXPECT_EQ(b.at("model"), "host.onnx");
  EXPECT_EQ(b.at("cores"), nlohmann::json({4, 5}));
  EXPECT_EQ(b.at("memory_bytes"), 64 << 20);
  EXPECT_EQ(b.at("status"), "ok");
  // In groups of its own each is as fast as alone.
  for (const auto& tenant : card.at("tenants")) {
    ASSERT_EQ(tenant.at("cycles_together").size(), 2u);
    EXPECT_EQ(tenant.at("cycles_together")[0], tenant.at("cycles_alone")[0]);
    EXPECT_GT(tenant.at("images_per_second"), 0);
  }
}

TEST(Card, IsATableForPeople) {
  const CommandResult result =
      tessera({"card", "--tenant", "small.onnx:cores=3", "--tenant", "small.onnx:cores=2,weight=2",
               "--timing-only", "--times", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("cloud16: 16 cores in 4 groups, 200 MHz\n"
                                     "group   core 0   core 1  core 2  core 3           memory\n"
                                     "0        small    small   small       -  4 GiB of 16 GiB\n"
                                     "1      small-2  small-2       -       -  4 GiB of 16 GiB\n"
                                     "2            -        -       -       -  0 GiB of 16 GiB\n"));
  EXPECT_THAT(result.out, HasSubstr("\ntenant   cores          memory  weight"));
  EXPECT_THAT(result.out, HasSubstr("cycles of a run on the card's clock, mean of 1"));
}

TEST(Card, SaysWhatThePartsOfEachOfSeveralCardsDo) {
  const std::vector<std::string> arguments = {"--cards",      "2",
                                              "--tenant",     "small.onnx:at=0,name=a",
                                              "--tenant",     "small.onnx:at=20,name=b",
                                              "--times",      "1",
                                              "--timing-only"};
  const nlohmann::json card = card_json(arguments);
  EXPECT_EQ(card.at("cards"), 2);
  EXPECT_GT(card.at("cycles"), 0);
  std::map<std::string, std::vector<int>> cards;
  std::map<std::string, std::int64_t> busy;  // of core, group or card
  for (const auto& part : card.at("parts")) {
    const std::string kind = part.at("kind");
    cards[kind].push_back(part.at("card"));
    busy[fmt::format("{} {}", kind, part.at("index").get<int>())] = part.at("busy_cycles");
  }
  const auto of_each = [](std::size_t parts) {
    std::vector<int> of(parts, 0);
    of.resize(2 * parts, 1);
    return of;
  };
  EXPECT_EQ(cards.at("core"), of_each(16));
  for (const char* kind : {"dram", "broadcast", "ring"}) EXPECT_EQ(cards.at(kind), of_each(4));
  for (const char* kind : {"network_out", "network_in"}) {
    EXPECT_THAT(cards.at(kind), ::testing::UnorderedElementsAre(0, 1));
  }
  for (const char* used : {"core 0", "core 20", "dram 0", "dram 5"}) EXPECT_GT(busy.at(used), 0);
  for (const char* quiet : {"core 1", "core 16", "dram 1", "dram 4", "network_out 0"}) {
    EXPECT_EQ(busy.at(quiet), 0) << quiet;
  }
  std::vector<std::string> as_text = {"card"};
  as_text.insert(as_text.end(), arguments.begin(), arguments.end());
  const CommandResult text = tessera(as_text);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("\ncard  group  "));
  EXPECT_THAT(text.out, HasSubstr("ring to next"));
  EXPECT_THAT(text.out, HasSubstr("\ncard  network out  bytes  network in  bytes\n"
                                  "0           0.0 %      0       0.0 %      0\n"
                                  "1           0.0 %      0       0.0 %      0\n"));
}

TEST(Card, NeighboursInAGroupHaveTheSameOutputsAndContend) {
  const nlohmann::json card = card_json(
      {"--tenant", "small.onnx:at=0", "--tenant", "small.onnx:at=1,seed=3", "--times", "4"});
  for (const auto& tenant : card.at("tenants")) {
    EXPECT_GE(tenant.at("cycles_together_mean").get<double>(),
              tenant.at("cycles_alone_mean").get<double>());
  }
}

TEST(Card, AScheduleDecidesTheCoresByTheTerms) {
  const nlohmann::json card =
      card_json({"--schedule", "--counts", "4,8", "--tenant", "small.onnx:name=a", "--tenant",
                 "small.onnx:name=b,least=8,priority=1", "--tenant", "small.onnx:name=c,least=8",
                 "--timing-only"});
  std::vector<std::size_t> cores;
  for (const auto& tenant : card.at("tenants")) cores.push_back(tenant.at("cores").size());
  EXPECT_THAT(cores, ElementsAre(4, 8, 0));
  EXPECT_TRUE(card.at("tenants")[0].at("waits").is_null());
  EXPECT_EQ(card.at("tenants")[2].at("waits"),
            "it needs 8 cores of one card at the least, and those who come before it leave 4");
  EXPECT_EQ(card.at("decisions")[0], "admit tenant 1 on card 0");
  ASSERT_EQ(card.at("performance").at("a").size(), 2u);
  EXPECT_EQ(card.at("performance").at("a")[0].at("cores"), 4);
}

TEST(Card, ServesALivePageForAWhile) {
  const CommandResult result =
      tessera({"card", "--tenant", "small.onnx:cores=2,name=a", "--tenant", "relu.onnx:name=b",
               "--http", "0", "--seconds", "0.2", "--json"});
  if (result.err.find("built without npm") != std::string::npos) GTEST_SKIP() << result.err;
  EXPECT_EQ(result.status, 0) << result.err;
  const std::size_t second = result.out.find('\n') + 1;
  EXPECT_THAT(result.out, StartsWith("{\"url\":\"http://127.0.0.1:"));
  const auto end = nlohmann::json::parse(result.out.substr(second));
  ASSERT_EQ(end.at("tenants").size(), 2u);
  EXPECT_EQ(end.at("tenants")[0].at("name"), "a");
  EXPECT_GT(end.at("tenants")[0].at("runs"), 0);
}

TEST(CardErrors, NameThePartAndWhatIsAllowed) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "card");
    const CommandResult result = tessera(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  const std::string invalid = "   [invalid argument]\n";
  EXPECT_EQ(error({"--tenant", "small.onnx:latency=3"}),
            "tessera card: --tenant 'small.onnx:latency=3': latency is one of the terms of "
            "--schedule, which is not given; allowed keys: name, cores, at, memory, weight, seed" +
                invalid);
  EXPECT_EQ(
      error({"--schedule", "--tenant", "small.onnx:cores=3"}),
      "tessera card: --tenant 'small.onnx:cores=3': cores is not given with --schedule, which "
      "decides the cores; allowed keys: name, memory, weight, seed, latency, rate, least, "
      "most, priority, worth, wait" +
          invalid);
  EXPECT_EQ(
      error({"--tenant", "small.onnx:cores=3,weight=17"}),
      "tessera card: --tenant 'small.onnx:cores=3,weight=17': weight is '17', allowed 1 to 16" +
          invalid);
  EXPECT_EQ(error({"--tenant", "small.onnx:cores=3,size"}),
            "tessera card: --tenant 'small.onnx:cores=3,size': 'size' is no KEY=VALUE; allowed "
            "keys: name, cores, at, memory, weight, seed" +
                invalid);
  EXPECT_EQ(error({"--tenant", "small.onnx:memory=9000000000G"}),
            "tessera card: --tenant 'small.onnx:memory=9000000000G': memory is '9000000000G', "
            "allowed bytes of each group, also with K, M or G behind" +
                invalid);
  EXPECT_EQ(
      error({"--tenant", ":cores=3"}),
      "tessera card: --tenant ':cores=3': no model; write MODEL or MODEL:KEY=VALUE,..." + invalid);
  EXPECT_EQ(error({"--tenant", "small.onnx:cores=12", "--tenant", "small.onnx:cores=5"}),
            "tessera card: tenant 'small-2': 5 cores are wanted; others have 12 of the 16 of "
            "'cloud16', allowed is up to 4   [unavailable]\n");
  EXPECT_EQ(error({"--tenant", "small.onnx:name=a", "--tenant", "small.onnx:name=a"}),
            "tessera card: tenant 'a': there are two of this name; allowed is one" + invalid);
  EXPECT_EQ(error({"--tenant", "small.onnx", "--counts", "4"}),
            "tessera card: --counts says which numbers of cores a schedule may give; add "
            "--schedule, or leave it out" +
                invalid);
  EXPECT_THAT(
      error({"--schedule", "--tenant", "small.onnx:latency=0.001"}),
      StartsWith("tessera card: tenant 'small': refused: on 1 to 16 cores an image takes "));
  EXPECT_EQ(error({"--tenant", "small.onnx", "--seconds", "1"}),
            "tessera card: --seconds says when the live page ends; add --http, or leave it out" +
                invalid);
  EXPECT_EQ(
      error({"--tenant", "small.onnx:memory=4K"}),
      "tessera card: alone: tenant 'small': 'test' does not fit the 4096 bytes of memory that "
      "it has of each group; take more   [does not fit]\n");
}

}  // namespace
}  // namespace tessera::cli

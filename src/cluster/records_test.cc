// Records, messages and addresses: what is written is read as it was, and what is wrong is named.
#include "cluster/records.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "cluster/address.h"
#include "cluster/card_table.h"
#include "cluster/message.h"
#include "cluster/placement.h"
#include "cluster/resident_tensors.h"
#include "cluster/run_details.h"
#include "cluster/tenants.h"

namespace tessera::cluster {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

template <typename Outcome>
std::string error_of(const Outcome& outcome) {
  return outcome.ok() ? std::string() : outcome.error().message;
}

TEST(ClusterRecords, AreReadAsTheyWereWritten) {
  const NodeRecord node{.id = "n1",
                        .incarnation = "i1",
                        .endpoint = "10.0.0.1:7401",
                        .on_control_loss = OnControlLoss::kKeep,
                        .cards = {{"cloud16", "0123456789abcdef", 4, 4, 1024},
                                  {"plain", "0123456789abcde0", 4, 4, 1024, true}}};
  EXPECT_TRUE(parse_node(encode(node)).value().cards[1].is_whole);
  EXPECT_EQ(encode(parse_node(encode(node)).value()), encode(node));
  const PoolRecord pool{
      .node = "n1", .card = 1, .free = {true, false}, .generation = 3, .draining = true};
  EXPECT_EQ(encode(parse_pool(encode(pool)).value()), encode(pool));
  AllocRecord alloc{.id = "a",
                    .tenant = "t",
                    .node = "n1",
                    .incarnation = "i1",
                    .card = 1,
                    .cores = {1, 3},
                    .cores_wanted = 2,
                    .arch = "cloud16",
                    .memory_bytes = 4096,
                    .weight = 2,
                    .epoch = 7,
                    .kept = true,
                    .ticket = "x"};
  EXPECT_EQ(encode(parse_alloc(encode(alloc)).value()), encode(alloc));
  alloc.cards_wanted = 3;
  alloc.broken = true;
  alloc.more = {{"n1", "i1", "10.0.0.1:7401", 2, {0, 1}}, {"n2", "i2", "10.0.0.2:7401", 0, {0}}};
  EXPECT_EQ(encode(parse_alloc(encode(alloc)).value()), encode(alloc));
  EXPECT_EQ(parts_of(alloc).size(), 3u);
  EXPECT_EQ(parts_on(alloc, "n1").size(), 2u);
  EXPECT_EQ(nodes_of(alloc), (std::vector<std::string>{"n1", "n2"}));
  const ClusterRecord cluster{"c", "s"};
  EXPECT_EQ(encode(parse_cluster(encode(cluster)).value()), encode(cluster));
}

TEST(ClusterRecords, WhatIsWrongIsNamed) {
  json alloc = json::parse(encode(AllocRecord{.id = "a",
                                              .tenant = "t",
                                              .node = {},
                                              .incarnation = {},
                                              .card = 0,
                                              .cores = {},
                                              .arch = {},
                                              .ticket = "x"}));
  EXPECT_EQ(error_of(parse_alloc(alloc.dump())), "");
  const auto with = [&](const char* key, const json& value) {
    json other = alloc;
    other[key] = value;
    return error_of(parse_alloc(other.dump()));
  };
  EXPECT_EQ(with("cores", {1, -1}),
            "record of an allocation: 'cores' has an entry that is no integer from 0 to 1023");
  EXPECT_EQ(with("version", 2), "record of an allocation: 'version' is no integer from 1 to 1");
  EXPECT_EQ(with("weight", 1e30), "record of an allocation: 'weight' is no integer from 1 to 16");
  EXPECT_EQ(with("kept", 1), "record of an allocation: 'kept' is neither true nor false");
  EXPECT_EQ(with("more", json::array()),
            "record of an allocation: 'more' has 0 cards, allowed 1 to 63");
  EXPECT_THAT(with("more", json::array({{{"node", "n"}}})),
              HasSubstr("card in the record of an allocation: 'incarnation'"));
  EXPECT_THAT(with("id", "a/b"), HasSubstr("allowed are 1 to 64 letters"));
  EXPECT_THAT(error_of(parse_alloc("[")), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of(parse_alloc(std::string(100, '['))), HasSubstr("no JSON object"));
  EXPECT_THAT(
      error_of(parse_pool(R"({"version":1,"node":"n","card":0,"free":"012","generation":0})")),
      HasSubstr("'free'"));
}

TEST(ClusterMessages, HeadsAreCheckedAgainstTheLimits) {
  const MessageLimits limits{.text_bytes = 10, .body_bytes = 20};
  const auto parse = [&](const MessageHeader& header, std::uint64_t body_bytes) {
    return error_of(parse_header(encode_header(header), body_bytes, limits));
  };
  const MessageHeader whole{.kind = MessageKind::kReply, .id = 9, .text = "0123456789"};
  EXPECT_EQ(parse(whole, 20), "");
  const auto bytes_of_whole = encode_header(whole);
  const auto back = parse_header(bytes_of_whole, 20, limits);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->kind, MessageKind::kReply);
  EXPECT_EQ(back->id, 9u);
  EXPECT_EQ(back->text, "0123456789");
  EXPECT_EQ(parse({.text = "0123456789+"}, 0), "a message: 11 bytes of text, allowed up to 10");
  EXPECT_EQ(parse(whole, 21), "a message: 21 bytes, allowed up to 20");
  auto bytes = encode_header({});
  EXPECT_EQ(error_of(parse_header(std::span(bytes).first(15), 0, limits)),
            "a message: a header of 15 bytes, at least 16 are needed");
  bytes[0] = std::byte{'X'};
  EXPECT_EQ(error_of(parse_header(bytes, 0, limits)), "a message: kind 88, allowed 1 to 3");
}

TEST(ClusterMessages, EveryMinorVersionIsTakenAndNoOtherMajorOne) {
  for (const std::uint16_t minor : {0, 1, 65535}) {
    const auto bytes = encode_header({.id = 3, .minor = minor});
    const auto header = parse_header(bytes, 0, {});
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->minor, minor);
  }
  auto bytes = encode_header({.id = 3});
  bytes[4] = std::byte{2};
  const auto other = parse_header(bytes, 0, {});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.error().message,
              HasSubstr("the peer speaks version 2 of the cluster's protocol"));
  EXPECT_EQ(id_of_header(bytes), 3u);
}

TEST(ClusterMessages, OnlyAnAnswersTextMayBeAPiece) {
  const auto answer = encode_header({.kind = MessageKind::kReply, .text_is_piece = true});
  EXPECT_TRUE(parse_header(answer, 0, {}).value().text_is_piece);
  const auto request = encode_header({.kind = MessageKind::kRequest, .text_is_piece = true});
  EXPECT_THAT(error_of(parse_header(request, 0, {})), HasSubstr("where the text is"));
}

TEST(ClusterMessages, AnErrorComesBackWithItsCodeAndText) {
  for (const ErrorCode code : {ErrorCode::kDoesNotFit, ErrorCode::kUnavailable}) {
    const Error back = parse_error_text(error_text({code, "what \"and\" why"}));
    EXPECT_EQ(back.code, code);
    EXPECT_EQ(back.message, "what \"and\" why");
  }
  EXPECT_EQ(parse_error_text("{}").code, ErrorCode::kInternal);
}

TEST(ClusterMessages, ARunsResultIsReadAsItWasAndItsEndIsKnown) {
  RunResult run;
  run.cycles = 5;
  run.clock_hertz = 7;
  run.engines.emplace_back().name = "neural";
  run.engines.back().wire_bytes = 9;
  run.layers.emplace_back().name = "l";
  run.layers.back().output_dims = {1, 2};
  run.layers.back().split.before = {"rows"};
  run.timeline.emplace_back().layer = "l";
  run.timeline.back().end = 2;
  run.cores.push_back({1, 2, 3});
  const auto bytes = encode_details(run);
  const RunResult back = parse_details(bytes).value();
  EXPECT_EQ(encode_details(back), bytes);
  EXPECT_EQ(back.engines[0].wire_bytes, 9);
  EXPECT_EQ(back.layers[0].split.before, run.layers[0].split.before);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_details(std::span(bytes).first(size)).ok()) << size;
  }
}

TEST(ClusterMessages, WhoWaitedForWhatStandsBesideTheDetails) {
  RunResult run;
  run.waits.push_back({.kind = "share",
                       .who = "core 3",
                       .what = "core 5",
                       .layer = "conv \xff",
                       .core = 3,
                       .other = 5,
                       .share = 7,
                       .cycles = 11});
  run.waits.push_back(
      {.kind = "link", .who = "core 1", .what = "ring 2", .layer = {}, .core = 1, .cycles = 9});
  RunResult back;
  take_core_waits(core_waits(run), back);
  ASSERT_EQ(back.waits.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const CoreWait &a = back.waits[i], &b = run.waits[i];
    EXPECT_EQ(std::tie(a.kind, a.who, a.what, a.layer, a.core, a.other, a.share, a.cycles),
              std::tie(b.kind, b.who, b.what, b.layer, b.core, b.other, b.share, b.cycles));
  }
  for (const char* const foreign :
       {"7", "[7]", R"([["share","a","b","c",0,0,0]])", R"([["share","a","b",1,0,0,0,1]])",
        R"([["share","a","b","c",-2,0,0,1]])", R"([["share","a","b","c",0,64,0,1]])",
        R"([["share","a","b","c",18446744073709551615,0,0,1]])",
        R"([["share","a","b","c",0,0,4294967296,1]])", R"([["share","a","b","c",0,0,-1,1]])",
        R"([["share","a","b","c",0,0,0,0]])", R"([["share","a","b","c",0,0,0,1e40]])"}) {
    take_core_waits(nlohmann::json::parse(foreign), back);
    EXPECT_EQ(back.waits.size(), 2u) << foreign;
  }
}

// Older peers read the details to their end, and what bars moved stands beside them.
TEST(ClusterMessages, WhatBarsMovedStandsBesideTheDetails) {
  RunResult run;
  run.timeline.resize(3);
  run.timeline[1] = {.engine = "dram 1", .layer = "l", .end = 4};
  run.timeline[1].bytes = 96;
  run.timeline[1].write = true;
  run.timeline[1].core = 5;
  const nlohmann::json bars = bar_bytes(run);
  EXPECT_EQ(bars.dump(), "[[1,96,true,5]]");
  RunResult back = parse_details(encode_details(run)).value();
  EXPECT_EQ(back.timeline[1].bytes, 0);
  take_bar_bytes(bars, back);
  EXPECT_EQ(back.timeline[1].bytes, 96);
  EXPECT_TRUE(back.timeline[1].write);
  EXPECT_EQ(back.timeline[1].core, 5);
  EXPECT_EQ(back.timeline[0].core, -1);
  for (const char* const foreign :
       {"7", "[7]", "[[3,1,true,0]]", "[[-1,1,true,0]]", "[[0,-1,true,0]]", "[[0,1,1,0]]",
        "[[0,1,true,65]]", "[[0,1,true,-2]]", "[[0,1,true,-9223372036854775808]]", "[[0,1,true]]",
        "[[0,1e40,true,0]]"}) {
    take_bar_bytes(nlohmann::json::parse(foreign), back);
    EXPECT_EQ(back.timeline[0].bytes, 0) << foreign;
    EXPECT_EQ(back.timeline[0].core, -1) << foreign;
  }
}

TEST(ClusterAddresses, SayWhatIsWrong) {
  const auto address =
      parse_cluster_address("cluster:h:1,[::1]:2?cores=4&arch=cloud16&in_flight=3").value();
  EXPECT_EQ(address.masters, (std::vector<std::string>{"h:1", "[::1]:2"}));
  EXPECT_EQ(address.cores, 4);
  EXPECT_EQ(address.in_flight, 3);
  EXPECT_EQ(error_of(parse_cluster_address("cluster:h")),
            "'cluster:h': 'h' is no HOST:PORT of a master; allowed are HOST:PORT[,HOST:PORT...], "
            "ports 1 to 65535, addresses of IP version 6 in brackets");
  EXPECT_THAT(error_of(parse_cluster_address("cluster:h:1,?cores=4")),
              HasSubstr("'' is no HOST:PORT of a master"));
  EXPECT_THAT(error_of(parse_cluster_address("cluster:::1:2")),
              HasSubstr("'::1:2' is no HOST:PORT of a master"));
  EXPECT_EQ(error_of(parse_cluster_address("cluster:h:1?cores=0")),
            "'cluster:h:1?cores=0': cores=0; allowed 1 to 1024");
  EXPECT_THAT(error_of(parse_cluster_address("cluster:h:1?core=1")),
              HasSubstr("allowed are cores, cards, arch"));
  EXPECT_THAT(error_of(parse_cluster_address("cluster:h:99999")), HasSubstr("ports 1 to 65535"));
  EXPECT_THAT(error_of(parse_cluster_address("cluster:h:1?tls_colour=1")),
              HasSubstr("there is no 'tls_colour'"));
  EXPECT_EQ(error_of(parse_cluster_address("cluster:h:1?cores=4&arch=a&cores=5")),
            "'cluster:h:1?cores=4&arch=a&cores=5': 'cores' is given twice; give it once");
  EXPECT_EQ(error_of(parse_cluster_address("cluster:h:1?alloc=a&memory=4096")),
            "'cluster:h:1?alloc=a&memory=4096': memory= is of a new allocation, and alloc= names "
            "one that there is; leave one of them out");
  EXPECT_TRUE(parse_cluster_address("cluster:h:1?alloc=a&cores=4&arch=b&patience=1").ok());
}

TEST(ClusterPlacement, TakesGroupsThatNobodyElseIsInThenTheFullestCard) {
  const CardRecord shape{"cloud16", "0123456789abcdef", 4, 4, 1 << 20};
  const auto card = [&](const std::string& node, const std::vector<int>& taken) {
    CardState state{.node = node,
                    .card = 0,
                    .shape = shape,
                    .free = std::vector<bool>(16, true),
                    .memory_taken = std::vector<std::int64_t>(4, 0)};
    for (const int core : taken) state.free[static_cast<std::size_t>(core)] = false;
    return state;
  };
  const std::vector<CardState> cards = {card("a", {}), card("b", {0, 1}), card("c", {0, 4, 8, 12})};
  const auto choice = choose_placement(cards, {.arch = "cloud16", .cores = 4});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(cards[choice->card].node, "b");
  EXPECT_EQ(choice->cores, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(choice->memory_bytes, (1 << 20) / 4);
  EXPECT_FALSE(choose_placement(cards, {.arch = {}, .cores = 17}).has_value());
  EXPECT_FALSE(choose_placement(cards, {.arch = "edge", .cores = 1}).has_value());
  // Memory that is taken offers no cores.
  std::vector<CardState> full = {card("a", {})};
  full[0].memory_taken = {1 << 20, 1 << 20, 1 << 20, 0};
  EXPECT_EQ(choose_placement(full, {.arch = {}, .cores = 2})->cores, (std::vector<int>{12, 13}));
}

TEST(ClusterPlacement, ACardWhoseCoresOwnFixedPartsGoesAsAWhole) {
  CardState card{.node = "a",
                 .card = 0,
                 .shape = {"plain", "0123456789abcdef", 2, 2, 1 << 20, true},
                 .free = std::vector<bool>(4, true),
                 .memory_taken = {0, 0}};
  const PlacementRequest some{.arch = "plain", .cores = 3}, all{.arch = "plain", .cores = 4};
  EXPECT_FALSE(choose_placement({card}, some).has_value());
  EXPECT_EQ(room_text({card}, some),
            "3 cores are wanted; the 1 cards of 'plain' have cores that own fixed parts of the "
            "channels (card_features.dynamic_bandwidth = 0) and go as a whole, 4 each; take all "
            "cores of one");
  const auto choice = choose_placement({card}, all);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->cores, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(choice->memory_bytes, 1 << 20);
  CardTable table;
  table.put(card);
  EXPECT_FALSE(table.choose(some).has_value());
  EXPECT_TRUE(table.choose(all).has_value());
  card.free[2] = false;
  EXPECT_FALSE(choose_placement({card}, all).has_value());
}

// Cards of two kinds, some of them taken as a whole, each with cores and memory taken at random.
CardState random_card(int number, std::mt19937_64& random) {
  const auto below = [&](std::uint64_t bound) { return static_cast<int>(random() % bound); };
  const bool small = below(3) == 0;
  CardState state;
  state.node = fmt::format("n{}", number / 2);
  state.card = number % 2;
  state.shape = {.arch = small ? "edge" : "cloud16",
                 .fingerprint = {},
                 .groups = small ? 1 : 4,
                 .cores_per_group = small ? 2 : 4,
                 .memory_bytes = 1 << 20,
                 .is_whole = number % 5 == 4};
  // Of those that are taken as a whole some are free.
  const bool is_free = state.shape.is_whole && number % 10 == 4;
  const int taken_of_8 = below(9);
  for (int core = 0; core < state.shape.cores(); ++core) {
    state.free.push_back(below(8) >= taken_of_8 || is_free);
  }
  for (int group = 0; group < state.shape.groups; ++group) {
    state.memory_taken.push_back(is_free ? 0 : std::int64_t{below(5)} << 18);
  }
  state.draining = below(10) == 0;
  return state;
}

PlacementRequest random_request(std::mt19937_64& random) {
  PlacementRequest request;
  request.cores = 1 + static_cast<int>(random() % 17);
  if (random() % 2 == 0) request.arch = random() % 4 == 0 ? "edge" : "cloud16";
  if (random() % 3 == 0) request.memory_bytes = 1 + static_cast<int>(random() % (1 << 20));
  if (random() % 8 == 0) request.node = fmt::format("n{}", random() % 25);
  return request;
}

TEST(CardTable, ChoosesAsALookAtAllCardsDoes) {
  constexpr std::uint64_t kSeed = 20;
  std::mt19937_64 random(kSeed);
  int placed = 0, refused = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<CardState> cards;
    CardTable table;
    for (int i = 0; i < 40; ++i) {
      table.put(random_card(i, random));  // is replaced
      cards.push_back(random_card(i, random));
      table.put(cards.back());
    }
    for (int i = 0; i < 50; ++i) {
      const PlacementRequest request = random_request(random);
      const std::set<std::string> without = {fmt::format("n{}", random() % 40)};
      std::vector<CardState> others = cards;
      std::erase_if(others, [&](const CardState& card) { return without.contains(card.node); });
      const auto wanted = choose_placement(others, request);
      const auto choice = table.choose(request, without);
      ASSERT_EQ(choice.has_value(), wanted.has_value()) << "seed " << kSeed;
      if (!wanted.has_value()) {
        ++refused;
        continue;
      }
      ++placed;
      EXPECT_EQ(choice->card->node, others[wanted->card].node);
      EXPECT_EQ(choice->card->card, others[wanted->card].card);
      EXPECT_EQ(choice->cores, wanted->cores);
      EXPECT_EQ(choice->memory_bytes, wanted->memory_bytes);
    }
  }
  EXPECT_GT(placed, 500);
  EXPECT_GT(refused, 200);
}

TEST(ResidentTensors, WhatARunWroteAndARunReadStays) {
  std::vector<std::byte> a(8), b(8);
  ResidentTensors tensors;
  tensors.host_wrote(a);
  EXPECT_EQ(tensors.to_read(a, 1), 0);
  EXPECT_EQ(tensors.to_write(b), 0);
  tensors.written(b, 0, 1);
  EXPECT_EQ(tensors.to_read(b, 1), 0);  // once more over the wire
  tensors.written(a, tensors.to_write(a), 1);
  EXPECT_EQ(tensors.to_read(a, 1), 0);
  const std::int64_t block = tensors.to_write(b);
  EXPECT_NE(block, 0);
  tensors.written(b, block, 1);
  EXPECT_EQ(tensors.to_read(b, 1), block);
  EXPECT_TRUE(tensors.away(b).has_value());
  EXPECT_EQ(tensors.to_read(b, 2), std::nullopt);  // that node is gone
  tensors.host_wrote(b);
  EXPECT_FALSE(tensors.away(b).has_value());
  EXPECT_EQ(tensors.to_read(b, 2), 0);
}

TEST(ClusterTenants, AreKnownByTheirTokens) {
  const auto tenants =
      Tenants::parse(R"({"tenants":[{"name":"a","token":"0123456789abcdef","cores_max":8}]})")
          .value();
  EXPECT_EQ(tenants.of_request({{"token", "0123456789abcdef"}})->cores_max, 8);
  EXPECT_THAT(error_of(tenants.of_request({{"token", "0123456789abcdeF"}})),
              HasSubstr("none of a tenant"));
  EXPECT_THAT(error_of(tenants.of_request({{"tenant", "a"}})), HasSubstr("none of a tenant"));
  EXPECT_EQ(error_of(Tenants::parse(R"({"tenants":[{"name":"a","token":"short"}]})")),
            "tenant: the token of 'a' has less than 16 bytes");
  EXPECT_EQ(Tenants().of_request({{"tenant", "x"}})->name, "x");
}

}  // namespace
}  // namespace tessera::cluster

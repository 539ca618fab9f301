// A master with a node or two in simulated time, where nothing is lost on the way: what each request leaves behind.
#include "cluster/master.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cluster/node_agent.h"
#include "store/in_process_store.h"

namespace tessera::cluster {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Remembers what was granted.
class Work : public NodeWork {
 public:
  Status grant(const AllocRecord& alloc) override {
    if (refusals > 0) {
      --refusals;
      return Error{ErrorCode::kUnavailable, "core 0 is still another's"};
    }
    has[key_of(alloc)] = alloc.cores;
    if (while_granting) while_granting();
    return {};
  }
  Status move(const AllocRecord& alloc) override {
    has[key_of(alloc)] = alloc.cores;
    return {};
  }
  void revoke(const AllocRecord& alloc) override { has.erase(key_of(alloc)); }

  std::map<AllocKey, std::vector<int>> has;
  std::function<void()> while_granting;
  int refusals = 0;  // of the next grants
};

CardRecord card(int groups, const std::string& fingerprint) {
  return {.arch = "card",
          .fingerprint = fingerprint,
          .groups = groups,
          .cores_per_group = 4,
          .memory_bytes = 1 << 20};
}

class OneMaster : public testing::Test, public Caller {
 protected:
  OneMaster() : master_(store_, *this, clock(), {.endpoint = "m"}) {}

  Result<json> call(const std::string& endpoint, const json& request,
                    milliseconds /*timeout*/) override {
    if (endpoint == "m") return master_.handle(request);
    if (endpoint == "nowhere") return Error{ErrorCode::kUnavailable, "nobody is there"};
    NodeAgent* const node = endpoint == "n2" ? second_.get() : node_.get();
    if (node == nullptr || silent_ == endpoint) {
      return Error{ErrorCode::kUnavailable, "nobody is there"};
    }
    return node->handle(request);
  }

  Clock clock() {
    return [this] { return steady_clock::time_point(std::chrono::hours(1)) + store_.now(); };
  }
  void start_node(const CardRecord& has, OnControlLoss on_control_loss = OnControlLoss::kFence) {
    work_ = {};
    node_ = std::make_unique<NodeAgent>(
        store_, work_, *this, clock(),
        NodeOptions{
            .id = "n", .endpoint = "n", .cards = {has}, .on_control_loss = on_control_loss});
    pass(milliseconds(4000));
  }
  void pass(milliseconds time) {
    for (milliseconds step{0}; step < time; step += milliseconds(50)) {
      store_.advance(milliseconds(50));
      master_.tick();
      if (node_ != nullptr && !is_paused_) node_->tick();
      if (second_ != nullptr) second_->tick();
    }
  }
  json acquire(const std::string& tenant, int cores, bool kept = true) {
    return master_
        .handle({{"call", "acquire"},
                 {"tenant", tenant},
                 {"name", "x"},
                 {"cores", cores},
                 {"kept", kept}})
        .value();
  }
  Result<json> ask(const char* what, const std::string& tenant) {
    return master_.handle({{"call", what}, {"tenant", tenant}, {"alloc", "x"}});
  }
  int free_cores() {
    return master_.handle({{"call", "status"}}).value()["pool"][0]["free"].get<int>();
  }

  store::InProcessStore store_{store::StoreTime::kManual};
  Work work_;
  std::unique_ptr<NodeAgent> node_;
  Work second_work_;
  std::unique_ptr<NodeAgent> second_;  // "n2"
  std::string silent_;                 // the endpoint that answers nobody
  bool is_paused_ = false;
  Master master_;
};

TEST_F(OneMaster, TwoTenantsHaveAnAllocationOfTheSameName) {
  start_node(card(4, "0123456789abcdef"));
  const std::string red = acquire("red", 2)["ticket"], blue = acquire("blue", 3)["ticket"];
  EXPECT_EQ(work_.has.size(), 2u);
  const auto of_red = node_->admit("x", red), of_blue = node_->admit("x", blue);
  ASSERT_TRUE(of_red.ok() && of_blue.ok());
  EXPECT_EQ(of_red->tenant, "red");
  EXPECT_EQ(of_red->cores.size(), 2u);
  EXPECT_EQ(of_blue->tenant, "blue");
  EXPECT_EQ(of_blue->cores.size(), 3u);
  EXPECT_FALSE(ask("release", "green").ok());  // whose?
  ASSERT_TRUE(ask("release", "red").ok());
  EXPECT_FALSE(node_->may_begin(*of_red).ok());
  EXPECT_TRUE(node_->may_begin(*of_blue).ok());
  EXPECT_EQ(work_.has.size(), 1u);
  EXPECT_EQ(free_cores(), 13);
}

// The store ends a lease that its node has renewed: nobody else gets what the node has before it has let go.
TEST_F(OneMaster, ANodeWhoseLeaseIsGoneTooEarlyLetsGoBeforeOthersGetWhatItHas) {
  start_node(card(4, "0123456789abcdef"));
  const AllocRecord red = node_->admit("x", acquire("red", 2)["ticket"]).value();
  is_paused_ = true;  // it looks at nothing by itself
  ASSERT_TRUE(store_.commit({.deletes = {node_key("n")}}, milliseconds(100)).ok());
  EXPECT_TRUE(node_->may_begin(red).ok());
  pass(milliseconds(600));
  EXPECT_TRUE(work_.has.empty());
  EXPECT_FALSE(node_->may_begin(red).ok());
  EXPECT_FALSE(node_->is_registered());
  is_paused_ = false;
  pass(milliseconds(4000));
  EXPECT_EQ(ask("locate", "red").value()["state"],
            "placed");  // there again, with a lease of its own
  EXPECT_EQ(ask("locate", "red").value()["epoch"], red.epoch + 1);
}

// What is known of an allocation over two nodes while the first is gone and the other has not let go yet.
TEST_F(OneMaster, WhatHasLostItsFirstNodeWaits) {
  second_ = std::make_unique<NodeAgent>(
      store_, second_work_, *this, clock(),
      NodeOptions{.id = "n2", .endpoint = "n2", .cards = {card(4, "0123456789abcdef")}});
  start_node(card(4, "0123456789abcdef"));
  const auto got = master_.handle({{"call", "acquire"},
                                   {"tenant", "red"},
                                   {"name", "x"},
                                   {"cores", 0},
                                   {"cards", 2},
                                   {"kept", true}});
  ASSERT_TRUE(got.ok()) << got.error().to_string();
  const std::string first = (*got)["node"];
  EXPECT_EQ(work_.has.size() + second_work_.has.size(), 2u);
  silent_ = first == "n" ? "n2" : "n";  // it is not taken back from there
  ASSERT_TRUE(store_.commit({.deletes = {node_key(first)}}, milliseconds(100)).ok());
  for (int step = 0; step < 40; ++step) {
    pass(milliseconds(50));
    const json now = ask("locate", "red").value();
    if (now["state"] == "placed") continue;
    EXPECT_EQ(now["state"], "waits");
    EXPECT_EQ(now["endpoint"], "");
    EXPECT_TRUE(master_.handle({{"call", "status"}, {"tenant", "red"}}).ok());
  }
  EXPECT_NE(ask("locate", "red").value()["state"], "placed");
  silent_.clear();
  pass(milliseconds(8000));
  EXPECT_EQ(ask("locate", "red").value()["state"], "placed");
}

// A request that the master makes for a node whose lease is gone makes it read the store anew; it knows whom to ask.
TEST_F(OneMaster, ANodeThatIsMissedByARequestFirstIsAskedToLetGoAllTheSame) {
  start_node(card(4, "0123456789abcdef"));
  acquire("red", 2);
  is_paused_ = true;
  ASSERT_TRUE(store_.commit({.deletes = {node_key("n")}}, milliseconds(100)).ok());
  const auto refused = master_.handle(
      {{"call", "acquire"}, {"tenant", "blue"}, {"name", "x"}, {"cores", 1}, {"kept", true}});
  EXPECT_FALSE(refused.ok());
  pass(milliseconds(1000));
  EXPECT_TRUE(work_.has.empty());
}

TEST_F(OneMaster, ANodeThatKeepsLetsNothingGo) {
  start_node(card(4, "0123456789abcdef"), OnControlLoss::kKeep);
  const AllocRecord red = node_->admit("x", acquire("red", 2)["ticket"]).value();
  is_paused_ = true;
  ASSERT_TRUE(store_.commit({.deletes = {node_key("n")}}, milliseconds(100)).ok());
  pass(milliseconds(600));
  EXPECT_EQ(work_.has.size(), 1u);
  EXPECT_TRUE(node_->may_begin(red).ok());
}

// Who asks for it is to be a master of this cluster, and to mean this incarnation.
TEST_F(OneMaster, ANodeLetsGoForItsOwnMasterAlone) {
  start_node(card(4, "0123456789abcdef"));
  acquire("red", 2);
  const json record = json::parse(store_.read(node_key("n"), milliseconds(100))->entry->value);
  const json cluster = json::parse(store_.read(kClusterKey, milliseconds(100))->entry->value);
  json request = {{"call", "let_go"},
                  {"secret", "another"},
                  {"epoch", std::int64_t{1} << 40},
                  {"incarnation", record["incarnation"]}};
  EXPECT_FALSE(node_->handle(request).ok());
  request["secret"] = cluster["secret"];
  request["incarnation"] = "another";
  EXPECT_TRUE(node_->handle(request).ok());
  EXPECT_EQ(work_.has.size(), 1u);
  request["incarnation"] = record["incarnation"];
  request["epoch"] = 1;
  (void)node_->handle(request);
  request["epoch"] = std::int64_t{1} << 40;
  EXPECT_TRUE(node_->handle(request).ok());
  EXPECT_TRUE(work_.has.empty());
}

TEST_F(OneMaster, WhatNobodyUsesIsGivenBackAndAnothersOfThatNameIsNot) {
  start_node(card(4, "0123456789abcdef"));
  const AllocRecord red = node_->admit("x", acquire("red", 2, false)["ticket"]).value();
  const AllocRecord blue = node_->admit("x", acquire("blue", 3, false)["ticket"]).value();
  node_->count_user(red, 1);
  pass(milliseconds(8000));
  EXPECT_TRUE(node_->may_begin(red).ok());
  EXPECT_FALSE(node_->may_begin(blue).ok());
}

TEST_F(OneMaster, ASessionOfAnEarlierPlacementCountsForNoLaterOne) {
  start_node(card(4, "0123456789abcdef"));
  const AllocRecord before = node_->admit("x", acquire("red", 2, false)["ticket"]).value();
  node_->count_user(before, 1);
  is_paused_ = true;
  pass(milliseconds(6000));
  is_paused_ = false;
  pass(milliseconds(2000));
  const auto now = node_->admit("x", before.ticket);
  ASSERT_TRUE(now.ok()) << now.error().message;
  ASSERT_GT(now->epoch, before.epoch);
  node_->count_user(*now, 1);
  node_->count_user(before, -1);
  pass(milliseconds(8000));
  EXPECT_TRUE(node_->may_begin(*now).ok());
}

TEST_F(OneMaster, WhoAsksAgainWithTheSameTicketGetsTheSameAllocation) {
  start_node(card(4, "0123456789abcdef"));
  json request = {{"call", "acquire"}, {"cores", 4}, {"ticket", std::string(32, 'a')}};
  const json first = master_.handle(request).value(), second = master_.handle(request).value();
  EXPECT_EQ(first["alloc"], second["alloc"]);
  EXPECT_EQ(second["ticket"], request["ticket"]);
  EXPECT_EQ(free_cores(), 12);
  request["ticket"] = std::string(32, 'b');
  EXPECT_NE(master_.handle(request).value()["alloc"], first["alloc"]);
  EXPECT_EQ(free_cores(), 8);
  request["ticket"] = "short";
  EXPECT_FALSE(master_.handle(request).ok());
}

TEST_F(OneMaster, ANodeThatHasNeverAnsweredIsAskedLast) {
  start_node(card(4, "0123456789abcdef"));
  Work nothing;
  NodeAgent unreached(
      store_, nothing, *this, clock(),
      NodeOptions{.id = "a", .endpoint = "nowhere", .cards = {card(4, "0123456789abcdef")}});
  for (int i = 0; i < 20; ++i) {
    unreached.tick();
    pass(milliseconds(50));
  }
  const auto take = [&](const char* name) {
    return master_.handle(
        {{"call", "acquire"}, {"tenant", "red"}, {"name", name}, {"cores", 8}, {"kept", true}});
  };
  for (const char* const name : {"x", "y"}) EXPECT_EQ(take(name).value()["node"], "n");
  const auto refused = take("z");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(refused.error().message.starts_with("node 'a' does not answer"))
      << refused.error().message;
}

TEST_F(OneMaster, ANodeWhoseIdAnotherHasWaitsForItsLeaseAndSaysSo) {
  start_node(card(4, "0123456789abcdef"));
  Work nothing;
  NodeAgent second(store_, nothing, *this, clock(),
                   NodeOptions{.id = "n", .endpoint = "nowhere", .cards = {card(1, "0")}});
  second.tick();
  EXPECT_FALSE(second.is_registered());
  EXPECT_TRUE(second.is_id_taken());
  node_.reset();
  pass(milliseconds(6000));
  second.tick();
  EXPECT_TRUE(second.is_registered());
  EXPECT_FALSE(second.is_id_taken());
}

TEST_F(OneMaster, ANodeWhoseCoresAreNotClearYetIsAskedOnceMore) {
  start_node(card(4, "0123456789abcdef"));
  work_.refusals = 1;
  EXPECT_EQ(acquire("red", 16)["cores"].size(), 16u);
  ASSERT_TRUE(ask("release", "red").ok());
  work_.refusals = 2;
  const auto refused = master_.handle(
      {{"call", "acquire"}, {"tenant", "red"}, {"name", "x"}, {"cores", 16}, {"kept", true}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("no node takes it: "), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(work_.refusals, 0);
  EXPECT_EQ(free_cores(), 16);
}

TEST_F(OneMaster, AKeepingNodeThatComesBackWithASmallerCardHasLostWhatItHad) {
  start_node(card(4, "0123456789abcdef"), OnControlLoss::kKeep);
  acquire("red", 12);
  node_.reset();
  pass(milliseconds(4000));
  EXPECT_EQ(ask("locate", "red").value()["state"], "unreachable");
  start_node(card(1, "fedcba9876543210"), OnControlLoss::kKeep);
  EXPECT_EQ(ask("locate", "red").value()["state"], "waits");
  EXPECT_EQ(free_cores(), 4);
  EXPECT_TRUE(ask("release", "red").ok());
  EXPECT_EQ(acquire("blue", 4)["cores"].size(), 4u);
}

TEST_F(OneMaster, AKeepingNodeThatComesBackWithAnotherCardIsGivenItsAllocationsAnew) {
  start_node(card(4, "0123456789abcdef"), OnControlLoss::kKeep);
  const std::int64_t epoch = acquire("red", 12)["epoch"];
  node_.reset();
  pass(milliseconds(4000));
  start_node(card(4, "fedcba9876543210"), OnControlLoss::kKeep);
  const json now = ask("locate", "red").value();
  EXPECT_EQ(now["state"], "placed");
  EXPECT_GT(now["epoch"].get<std::int64_t>(), epoch);
  EXPECT_EQ(free_cores(), 4);
  EXPECT_EQ(work_.has.size(), 1u);
}

TEST_F(OneMaster, ARevocationThatComesWhileTheGrantIsUnderWayHolds) {
  start_node(card(4, "0123456789abcdef"));
  AllocRecord record;
  work_.while_granting = [&] {
    work_.while_granting = nullptr;
    const auto entry = store_.read(alloc_key("red", "x"), milliseconds(100)).value().entry;
    const auto cluster = store_.read(kClusterKey, milliseconds(100)).value().entry;
    ASSERT_TRUE(entry.has_value() && cluster.has_value());
    record = parse_alloc(entry->value).value();
    EXPECT_TRUE(node_
                    ->handle({{"call", "revoke"},
                              {"secret", parse_cluster(cluster->value).value().secret},
                              {"epoch", std::int64_t{1} << 40},
                              {"alloc", to_json(record)}})
                    .ok());
  };
  (void)master_.handle(
      {{"call", "acquire"}, {"tenant", "red"}, {"name", "x"}, {"cores", 2}, {"kept", true}});
  EXPECT_EQ(record.id, "x");
  EXPECT_TRUE(work_.has.empty());
  EXPECT_FALSE(node_->may_begin(record).ok());
}

}  // namespace
}  // namespace tessera::cluster

// What happens when parts of a cluster are killed, paused or lost: real processes over a real etcd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "../runtime/card_models.h"
#include "cluster_processes.h"
#include "tessera/runtime.h"
#include "tessera/session.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::ClusterProcesses;
using testing::error_of;
using testing::residual_network;
using testing::Sample;

#define SKIP_WITHOUT_ETCD() \
  if (const std::string why = ClusterProcesses::why_not(); !why.empty()) GTEST_SKIP() << why

Session open(const ClusterProcesses& cluster, const Sample& model, const std::string& name) {
  auto session = Session::open(model.network, {.cluster = cluster.address("cores=4&name=" + name)});
  EXPECT_TRUE(session.ok()) << session.error().to_string();
  return std::move(*session);
}

void expect_good_run(Session& session, const Sample& model) {
  const auto run = session.run(model.inputs);
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_TRUE(run->outputs == model.outputs);
}

TEST(Failures, AKilledNodesWorkGoesOnElsewhereAndItsRequestsAreMadeAgain) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 2});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model, "a");
  expect_good_run(session, model);
  const std::size_t before = cluster.node_of("a");
  cluster.nodes[before]->kill();
  expect_good_run(session, model);  // within the lease and what the master takes
  EXPECT_NE(cluster.node_of("a"), before);
  cluster.expect_one_owner_at_a_time();
  EXPECT_EQ(cluster.owners("a").size(), 2u);
}

TEST(Failures, AllTasksOfAStreamAreAnsweredOnceWhileTheirNodeIsKilled) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 2});
  const Sample model(residual_network(1, 24));
  auto runtime = Runtime::open({.devices = {{.cluster = cluster.address("name=a&arch=cloud16")}}});
  ASSERT_TRUE(runtime.ok()) << runtime.error().to_string();
  auto pipeline = runtime->open_pipeline(runtime->load(model.network).value()).value();
  auto stream = pipeline.open_stream();
  std::atomic<int> answers = 0, good = 0;
  constexpr int kTasks = 200;
  std::vector<Job> jobs;
  for (int i = 0; i < kTasks; ++i) {
    const auto callback = [&](const TaskOutcome& outcome) {
      ++answers;
      if (outcome.ok() && outcome.result().outputs() == model.outputs) ++good;
    };
    jobs.push_back(stream.submit(model.inputs, {.callback = callback}).value());
    if (i == kTasks / 2) cluster.nodes[cluster.node_of("a")]->kill();
  }
  stream.wait_until_done();
  EXPECT_EQ(answers, kTasks);
  EXPECT_EQ(good, kTasks);
  cluster.expect_one_owner_at_a_time();
}

// What the store keeps of a pool's allocations. Nodes report the figures of each once a second.
json kept_allocs(const json& pool) {
  json allocs = pool["allocs"];
  for (json& alloc : allocs) alloc.erase("figures");
  return allocs;
}

TEST(Failures, RunsGoOnWhileTheMasterIsKilledAndTheNextOneGoesOnFromTheStore) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.masters = 2, .nodes = 2});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model, "a");
  const auto before = cluster.ask({{"call", "status"}}).value();
  cluster.masters[cluster.leader(before)]->kill();
  expect_good_run(session, model);  // it needs no master
  const auto after = cluster.ask({{"call", "status"}});
  ASSERT_TRUE(after.ok()) << after.error().to_string();
  EXPECT_NE((*after)["master"], before["master"]);
  EXPECT_GT((*after)["epoch"], before["epoch"]);
  EXPECT_EQ(kept_allocs(*after), kept_allocs(before));
  Session another = open(cluster, model, "b");
  expect_good_run(another, model);
  expect_good_run(session, model);
  cluster.expect_one_owner_at_a_time();
}

TEST(Failures, APausedNodeHasLetGoBeforeAnotherOneHasItsWork) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 2});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model, "a");
  expect_good_run(session, model);
  const std::size_t before = cluster.node_of("a");
  cluster.nodes[before]->signal(SIGSTOP);
  expect_good_run(session, model);
  ASSERT_NE(cluster.node_of("a"), before);
  cluster.nodes[before]->signal(SIGCONT);
  // It comes back empty.
  const std::string id = "n" + std::to_string(before);
  EXPECT_TRUE(cluster.wait_for([&](const json& status) {
    for (const json& card : status["pool"]) {
      if (card["node"] == id) return card["free"] == card["cores"];
    }
    return false;
  }));
  expect_good_run(session, model);
  cluster.expect_one_owner_at_a_time();
}

TEST(Failures, WhatAKilledClientHadComesBack) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 1});
  const pid_t client = ::fork();
  if (client == 0) {
    // A process of its own with a session, which tells nobody of its end.
    const Sample model(residual_network(1, 24));
    auto session = Session::open(model.network, {.cluster = cluster.address("cores=4&name=a")});
    if (!session.ok() || !session->run(model.inputs).ok()) ::_exit(1);
    for (;;) ::pause();
  }
  EXPECT_TRUE(cluster.wait_for([](const json& status) { return status["allocs"].size() == 1; }));
  ::kill(client, SIGKILL);
  ::waitpid(client, nullptr, 0);
  EXPECT_TRUE(cluster.wait_for([](const json& status) {
    return status["allocs"].empty() && status["pool"][0]["free"] == 16;
  }));
}

TEST(Failures, WithoutTheStoreNothingIsAllocatedAndTheErrorSaysSo) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 1});
  cluster.etcd->pause(0);
  const auto refused = cluster.ask({{"call", "acquire"}, {"cores", 1}}, 3000);
  EXPECT_EQ(refused.ok() ? ErrorCode::kInternal : refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(error_of(refused), ::testing::HasSubstr("store"));
  cluster.etcd->resume(0);
  // The node has given up what it had, and registers again.
  EXPECT_TRUE(cluster.wait_for([&](const json& /*status*/) {
    return cluster.ask({{"call", "acquire"}, {"cores", 1}, {"name", "a"}}, 1000).ok();
  }));
  cluster.expect_one_owner_at_a_time();
}

TEST(Failures, WhatNodesRunIsWrittenDownAnewWhenTheStoreHasLostEverything) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 2, .ttl_ms = 10000});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model, "a");
  const json before = cluster.ask({{"call", "status"}}).value();
  cluster.lose_store();
  expect_good_run(session, model);
  // What the master knew before it has seen the loss would do as well, and is gone a moment later.
  json after;
  EXPECT_TRUE(cluster.wait_for([&](const json& status) {
    after = status;
    return status["pool"].size() == 2 && kept_allocs(status) == kept_allocs(before);
  }));
  EXPECT_EQ(kept_allocs(after), kept_allocs(before));
  std::int64_t free = 0;
  for (const json& card : after["pool"]) free += card["free"].get<std::int64_t>();
  EXPECT_EQ(free, 28);
  expect_good_run(session, model);
  EXPECT_EQ(cluster.owners("a").size(), 1u);
}

// As docs/runbook.md says it, with the programs of etcd.
TEST(Failures, MastersGoOnFromABackupOfTheStore) {
  SKIP_WITHOUT_ETCD();
  if (std::system("command -v etcdctl > /dev/null") != 0) {
    GTEST_SKIP() << "there is no etcdctl (package etcd-client)";
  }
  ClusterProcesses cluster({.nodes = 2});
  const Sample model(residual_network(1, 24));
  const auto acquire = [&](const char* name) {
    return cluster.ask({{"call", "acquire"}, {"cores", 4}, {"name", name}, {"kept", true}}).value();
  };
  const json kept = acquire("kept");
  const auto etcdctl = [&](const std::string& words) {
    return std::system(("ETCDCTL_API=3 etcdctl " + words + " > /dev/null 2>&1").c_str());
  };
  const std::string snapshot = cluster.folder() + "/tessera.snapshot";
  ASSERT_EQ(etcdctl("--endpoints " + cluster.etcd->endpoints()[0] + " snapshot save " + snapshot),
            0);
  (void)acquire("later");
  // Nobody writes; then a store of the backup alone.
  cluster.masters[0]->kill();
  cluster.etcd->kill(0);
  const std::string data = cluster.folder() + "/etcd/m0";
  std::filesystem::remove_all(data);
  ASSERT_EQ(etcdctl("snapshot restore " + snapshot + " --data-dir " + data), 0);
  const Status begun = cluster.etcd->restart(0);
  ASSERT_TRUE(begun.ok()) << begun.error().to_string();
  cluster.start_master(0);
  // Both nodes are there, with what the backup says and nothing else.
  EXPECT_TRUE(cluster.wait_for([&](const json& status) {
    std::int64_t free = 0;
    for (const json& card : status["pool"]) free += card["free"].get<std::int64_t>();
    return status["pool"].size() == 2 && free == 28 && status["allocs"].size() == 1 &&
           status["allocs"][0]["alloc"] == "kept" && status["allocs"][0]["state"] == "placed";
  }));
  auto session = Session::open(model.network, {.cluster = cluster.address("alloc=kept")});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  expect_good_run(*session, model);
  const json after = cluster.ask({{"call", "locate"}, {"alloc", "kept"}}).value();
  EXPECT_GE(after["epoch"], kept["epoch"]);
  (void)acquire("after");
  cluster.expect_one_owner_at_a_time();
}

TEST(Failures, ANodeThatKeepsGoesOnWithoutTheStore) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 1, .node_options = {"--on-control-loss", "keep"}});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model, "a");
  cluster.etcd->pause(0);
  // Longer than its lease.
  const auto last = std::chrono::steady_clock::now() + std::chrono::milliseconds(3000);
  while (std::chrono::steady_clock::now() < last) expect_good_run(session, model);
  cluster.etcd->resume(0);
  EXPECT_TRUE(cluster.wait_for([](const json& status) {
    return status["allocs"].size() == 1 && status["allocs"][0]["state"] == "placed";
  }));
  expect_good_run(session, model);
  EXPECT_EQ(cluster.owners("a").size(), 1u);
}

}  // namespace
}  // namespace tessera

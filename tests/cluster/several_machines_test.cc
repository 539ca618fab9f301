// A processor over cards of several nodes, as processes of their own: one is killed in the middle of a run, one is
// slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <thread>

#include "../runtime/card_models.h"
#include "cluster_processes.h"
#include "tessera/session.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::ClusterProcesses;
using testing::error_of;
using ::testing::HasSubstr;
using testing::residual_network;
using testing::Sample;

#define SKIP_WITHOUT_ETCD() \
  if (const std::string why = ClusterProcesses::why_not(); !why.empty()) GTEST_SKIP() << why

Session open(const ClusterProcesses& cluster, const Sample& model, int cards) {
  auto session = Session::open(
      model.network, {.cluster = cluster.address("name=a&cores=8&cards=" + std::to_string(cards))});
  EXPECT_TRUE(session.ok()) << session.error().to_string();
  return std::move(*session);
}

// A run on its way, of which the first node has begun its part.
class RunUnderWay {
 public:
  RunUnderWay(const ClusterProcesses& cluster, Session& session, const Sample& model) {
    const std::size_t before = cluster.runs_begun("a");
    thread_ = std::thread([this, &session, &model] { result_ = session.run(model.inputs); });
    EXPECT_TRUE(cluster.wait_for([&](const json&) { return cluster.runs_begun("a") > before; }));
  }
  ~RunUnderWay() {
    if (thread_.joinable()) thread_.join();
  }
  Result<RunResult> wait() {
    thread_.join();
    return std::move(*result_);
  }

 private:
  std::optional<Result<RunResult>> result_;
  std::thread thread_;
};

TEST(SeveralMachines, ANodeThatIsKilledInTheMiddleIsNamedAndTheCoresComeBack) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 2});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model, 2);
  const auto first = session.run(model.inputs);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_TRUE(first->outputs == model.outputs);
  // Stopped, it cannot have ended the run when it is killed.
  const std::size_t other = 1 - cluster.node_of("a");
  cluster.nodes[other]->signal(SIGSTOP);
  RunUnderWay run(cluster, session, model);
  cluster.nodes[other]->kill();
  const auto killed = run.wait();
  ASSERT_FALSE(killed.ok());
  EXPECT_THAT(killed.error().message,
              HasSubstr("node 'n" + std::to_string(other) +
                        "' has left a run over several machines in the middle"));
  // The other one's cores are free, and it waits for room.
  EXPECT_TRUE(cluster.wait_for([](const json& status) {
    return status["pool"].size() == 1 && status["pool"][0]["free"] == 16 &&
           status["allocs"][0]["state"] == "waits";
  }));
  cluster.start_node(other);
  const auto again = session.run(model.inputs);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_TRUE(again->outputs == model.outputs);
  EXPECT_EQ(again->cycles, first->cycles);
  cluster.expect_one_owner_at_a_time();
}

TEST(SeveralMachines, ASlowOneChangesNoCycle) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 3, .ttl_ms = 20000});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model, 3);
  const RunResult expected =
      Session::open(model.network, {.cores = 8, .cards = 3}).value().run(model.inputs).value();
  for (std::size_t slow = 1; slow < 3; ++slow) {
    cluster.nodes[slow]->signal(SIGSTOP);
    RunUnderWay run(cluster, session, model);
    cluster.nodes[slow]->signal(SIGCONT);
    const auto got = run.wait();
    ASSERT_TRUE(got.ok()) << got.error().to_string();
    EXPECT_TRUE(got->outputs == model.outputs);
    EXPECT_EQ(got->cycles, expected.cycles);
  }
  cluster.expect_one_owner_at_a_time();
}

}  // namespace
}  // namespace tessera

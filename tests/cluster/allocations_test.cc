// What a tenant has in a cluster: taken, listed, changed and given back from C++ and C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "../runtime/card_models.h"
#include "local_cluster.h"
#include "tessera/cluster.h"
#include "tessera/runtime.h"
#include "tessera/session.h"
#include "tessera/tessera_cluster_c.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::residual_network;
using testing::Sample;

template <typename T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

TEST(Allocations, AreTakenListedResizedAndReleased) {
  const LocalCluster cluster({.nodes = 2});
  const Cluster mine = Cluster::connect(cluster.address()).value();
  EXPECT_TRUE(mine.allocations().value().empty());
  const auto first = mine.acquire({.name = "b", .cores = 4, .arch = "cloud16", .weight = 3});
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_EQ(first->name, "b");
  EXPECT_EQ(first->state, "placed");
  EXPECT_EQ(first->cores, 4);
  EXPECT_EQ(first->weight, 3);
  EXPECT_EQ(first->device, cluster.address() + "&alloc=b");
  ASSERT_EQ(first->places.size(), 1u);
  EXPECT_EQ(first->places[0].cores.size(), 4u);
  const auto whole = mine.acquire({.name = "a", .cores = 0, .cards = 1, .node = "n9"});
  EXPECT_FALSE(whole.ok());
  const auto other = mine.acquire({.name = "a", .node = first->places[0].node});
  ASSERT_TRUE(other.ok()) << other.error().to_string();
  EXPECT_EQ(other->places[0].node, first->places[0].node);

  const auto resized = mine.resize("b", 6);
  ASSERT_TRUE(resized.ok()) << resized.error().to_string();
  EXPECT_EQ(resized->cores, 6);
  const std::vector<ClusterAllocation> all = mine.allocations().value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "a");
  EXPECT_EQ(all[1].name, "b");
  EXPECT_EQ(all[1].places.at(0).cores.size(), 6u);
  EXPECT_EQ(all[1].device, resized->device);

  EXPECT_TRUE(mine.release("b").ok());
  EXPECT_EQ(mine.allocations().value().size(), 1u);
  EXPECT_THAT(mine.release("b").error().message, HasSubstr("'b'"));
  EXPECT_EQ(mine.release("b").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(mine.resize("a", 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(mine.resize("a", 17).ok());
  EXPECT_EQ(mine.allocations().value()[0].cores, 1);  // it keeps what it has
  EXPECT_FALSE(mine.acquire({.name = "a/b"}).ok());
}

TEST(Allocations, BelongToTheirTenant) {
  testing::write_secret("red.token", "token-of-tenant-red");
  testing::write_secret("blue.token", "token-of-tenant-blue");
  const LocalCluster cluster(
      {.tenants = R"({"tenants": [{"name": "red", "token": "token-of-tenant-red", "cores_max": 6},
                                  {"name": "blue", "token": "token-of-tenant-blue"}]})"});
  cluster.wait_for_nodes_as("token-of-tenant-red", 1);
  const Cluster red = Cluster::connect(cluster.address("token_file=red.token")).value();
  const Cluster blue = Cluster::connect(cluster.address("token_file=blue.token")).value();
  const auto own = red.acquire({.name = "same", .cores = 2});
  ASSERT_TRUE(own.ok()) << own.error().to_string();
  EXPECT_EQ(own->tenant, "red");
  ASSERT_TRUE(blue.acquire({.name = "same", .cores = 3}).ok());
  ASSERT_EQ(red.allocations().value().size(), 1u);
  EXPECT_EQ(blue.allocations().value().at(0).cores, 3);
  EXPECT_THAT(message_of(red.resize("same", 7)), HasSubstr("quota"));
  EXPECT_TRUE(red.release("same").ok());
  EXPECT_EQ(blue.allocations().value().size(), 1u);
  EXPECT_FALSE(Cluster::connect(cluster.address()).value().allocations().ok());
}

TEST(Allocations, TheAddressIsOfACluster) {
  EXPECT_EQ(
      message_of(Cluster::connect("cluster:localhost:1?cores=2")),
      "'cluster:localhost:1?cores=2': cores, cards, arch, memory, weight, name, node and alloc are "
      "of a processor; give them to acquire()");
  EXPECT_FALSE(Cluster::connect("localhost:1").ok());
  for (const char* const key : {"cards=1", "weight=1", "arch=cloud16", "alloc=a"}) {
    EXPECT_FALSE(Cluster::connect(std::string("cluster:localhost:1?") + key).ok()) << key;
  }
  const Cluster nobody = Cluster::connect("cluster:127.0.0.1:1?patience=0").value();
  EXPECT_EQ(nobody.acquire().error().code, ErrorCode::kUnavailable);
}

// Runs go on while it gets other cores, with the bits of one core; whoever uses it when it is given back is told.
TEST(Allocations, AreResizedUnderTheRunsOfASession) {
  const LocalCluster cluster;
  const Cluster mine = Cluster::connect(cluster.address()).value();
  const Sample model(residual_network(1, 24));
  const auto taken = mine.acquire({.name = "p", .cores = 2});
  ASSERT_TRUE(taken.ok()) << taken.error().to_string();
  auto session = Session::open(model.network, {.cluster = taken->device});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  const RunResult before = session->run(model.inputs).value();
  EXPECT_EQ(before.cores.size(), 2u);
  EXPECT_TRUE(before.outputs == model.outputs);
  std::thread other([&mine] {
    for (const int cores : {4, 1, 8}) EXPECT_TRUE(mine.resize("p", cores).ok());
  });
  for (int run = 0; run < 10; ++run) {
    const auto ran = session->run(model.inputs);
    ASSERT_TRUE(ran.ok()) << ran.error().to_string();
    EXPECT_TRUE(ran->outputs == model.outputs);
  }
  other.join();
  EXPECT_EQ(session->run(model.inputs).value().cores.size(), 8u);
  ASSERT_TRUE(mine.release("p").ok());
  EXPECT_FALSE(session->run(model.inputs).ok());
}

std::string text_and_release(tessera_error* error) {
  if (error == nullptr) return "";
  std::string text = tessera_error_message(error);
  tessera_error_release(error);
  return text;
}

TEST(Allocations, FromC) {
  const LocalCluster cluster;
  tessera_cluster* mine = nullptr;
  ASSERT_EQ(text_and_release(tessera_cluster_connect(cluster.address().c_str(), &mine)), "");
  const tessera_cluster_request request = {
      .size = sizeof request, .name = "c", .cores = 4, .weight = 2};
  tessera_allocation* taken = nullptr;
  ASSERT_EQ(text_and_release(tessera_cluster_acquire(mine, &request, &taken)), "");
  EXPECT_STREQ(tessera_allocation_name(taken), "c");
  EXPECT_STREQ(tessera_allocation_state(taken), "placed");
  EXPECT_NE(tessera_allocation_node(taken, 0), nullptr);
  EXPECT_EQ(tessera_allocation_node(taken, 1), nullptr);
  tessera_allocation_status status = {.size = sizeof status};
  ASSERT_EQ(text_and_release(tessera_allocation_status_get(taken, &status)), "");
  EXPECT_EQ(status.cores, 4);
  EXPECT_EQ(status.places, 1);
  EXPECT_EQ(status.weight, 2);

  // Its name opens a device.
  const tessera_device_options device = {
      .size = sizeof device, .kind = TESSERA_SIM, .cluster = tessera_allocation_device(taken)};
  const tessera_runtime_options options = {
      .size = sizeof options, .devices = &device, .device_count = 1};
  tessera_runtime* runtime = nullptr;
  ASSERT_EQ(text_and_release(tessera_runtime_open(&options, &runtime)), "");
  tessera_runtime_release(runtime);

  tessera_allocation* resized = nullptr;
  ASSERT_EQ(text_and_release(tessera_cluster_resize(mine, "c", 6, &resized)), "");
  ASSERT_EQ(text_and_release(tessera_allocation_status_get(resized, &status)), "");
  EXPECT_EQ(status.cores, 6);
  ASSERT_EQ(text_and_release(tessera_cluster_resize(mine, "c", 3, nullptr)), "");
  tessera_allocation_list* list = nullptr;
  ASSERT_EQ(text_and_release(tessera_cluster_list(mine, &list)), "");
  ASSERT_EQ(tessera_allocation_list_count(list), 1u);
  tessera_allocation* listed = nullptr;
  ASSERT_EQ(text_and_release(tessera_allocation_list_get(list, 0, &listed)), "");
  ASSERT_EQ(text_and_release(tessera_allocation_status_get(listed, &status)), "");
  EXPECT_EQ(status.cores, 3);
  tessera_allocation* beyond = listed;
  ASSERT_EQ(text_and_release(tessera_allocation_list_get(list, 1, &beyond)), "");
  EXPECT_EQ(beyond, nullptr);
  EXPECT_EQ(text_and_release(tessera_cluster_free(mine, "c")), "");
  EXPECT_THAT(text_and_release(tessera_cluster_free(mine, "c")), HasSubstr("'c'"));
  EXPECT_EQ(text_and_release(tessera_cluster_free(mine, nullptr)), "name is NULL");
  EXPECT_EQ(text_and_release(tessera_cluster_acquire(nullptr, nullptr, &beyond)),
            "cluster is NULL");
  for (tessera_allocation* one : {taken, resized, listed}) tessera_allocation_release(one);
  tessera_allocation_list_release(list);
  tessera_cluster_release(mine);
}

}  // namespace
}  // namespace tessera

// What tenants of a cluster may do, what they see, and what is written of it; allocations as they come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../runtime/card_models.h"
#include "cluster/channel.h"
#include "cluster/messenger.h"
#include "local_cluster.h"
#include "tessera/session.h"
#include "transport/frame.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::error_of;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::residual_network;
using testing::Sample;

constexpr const char* kTenants = R"({"tenants": [
  {"name": "a", "token": "token-of-tenant-a", "cores_max": 6},
  {"name": "b", "token": "token-of-tenant-b", "memory_bytes_max": 17179869184},
  {"name": "o", "token": "token-of-operator", "operator": true}]})";

json with_token(json request, const std::string& token) {
  request["token"] = token;
  return request;
}

TEST(ClusterTenants, SeeTheirOwnAloneAndQuotasHold) {
  const LocalCluster cluster({.nodes = 2, .tenants = kTenants});
  cluster.wait_for_nodes_as("token-of-operator", 2);
  const auto ask = [&](const json& request, const std::string& token) {
    return cluster.ask(with_token(request, token));
  };
  const std::string a = "token-of-tenant-a", b = "token-of-tenant-b", o = "token-of-operator";
  EXPECT_EQ(error_of(ask({{"call", "acquire"}, {"name", "x"}, {"cores", 4}, {"kept", true}}, a)),
            "");
  EXPECT_EQ(error_of(ask({{"call", "acquire"}, {"name", "y"}, {"cores", 4}, {"kept", true}}, a)),
            "tenant 'a' has 4 cores and wants 4 more; its quota is 6");
  EXPECT_EQ(error_of(ask({{"call", "resize"}, {"alloc", "x"}, {"cores", 7}}, a)),
            "tenant 'a' has 4 cores and wants 3 more; its quota is 6");
  EXPECT_THAT(
      error_of(ask({{"call", "acquire"}, {"cores", 1}, {"memory_bytes", 17179869184 + 1}}, b)),
      HasSubstr("its quota is 17179869184"));
  // Another one's allocation is not there.
  EXPECT_EQ(error_of(ask({{"call", "release"}, {"alloc", "x"}}, b)),
            "tenant 'b' has no allocation 'x'");
  EXPECT_EQ(error_of(ask({{"call", "locate"}, {"alloc", "x"}}, b)),
            "tenant 'b' has no allocation 'x'");
  EXPECT_TRUE(ask({{"call", "status"}}, b).value()["allocs"].empty());
  EXPECT_EQ(ask({{"call", "status"}}, a).value()["allocs"].size(), 1u);
  EXPECT_EQ(ask({{"call", "status"}}, o).value()["allocs"].size(), 1u);
  const json events = ask({{"call", "events"}}, b).value();
  for (const json& event : events["events"]) {
    EXPECT_NE(event["kind"], "acquire");
  }
  EXPECT_EQ(error_of(ask({{"call", "drain"}, {"node", "n0"}}, a)),
            "tenant 'a' is no operator; nodes are theirs");
  EXPECT_THAT(error_of(ask({{"call", "status"}}, "token-of-nobody-x")),
              HasSubstr("none of a tenant"));
  EXPECT_EQ(error_of(ask({{"call", "release"}, {"alloc", "x"}}, a)), "");
  // A line for each acquisition, release and refusal.
  std::vector<std::string> lines;
  for (const json& line : cluster.audit()) {
    if (line["action"] != "status") {
      lines.push_back(line["action"].get<std::string>() + " " + line["tenant"].get<std::string>() +
                      " " + line["outcome"].get<std::string>());
    }
  }
  EXPECT_EQ(lines,
            (std::vector<std::string>{"acquire a done", "acquire a refused", "resize a refused",
                                      "acquire b refused", "release b refused", "drain a refused",
                                      "release a done"}));
}

TEST(ClusterTenants, MayGiveTheSameNameOnOneCard) {
  const LocalCluster cluster({.tenants = kTenants});
  cluster.wait_for_nodes_as("token-of-operator", 1);
  const json request = {{"call", "acquire"}, {"name", "web"}, {"cores", 2}, {"kept", true}};
  const auto of_a = cluster.ask(with_token(request, "token-of-tenant-a"));
  const auto of_b = cluster.ask(with_token(request, "token-of-tenant-b"));
  ASSERT_TRUE(of_a.ok() && of_b.ok()) << error_of(of_a) << error_of(of_b);
  EXPECT_EQ((*of_a)["node"], (*of_b)["node"]);
}

TEST(ClusterTenants, MemoryCountsInAllGroups) {
  const LocalCluster cluster({.tenants = R"({"tenants": [
    {"name": "c", "token": "token-of-tenant-c", "memory_bytes_max": 1000000, "operator": true}]})"});
  cluster.wait_for_nodes_as("token-of-tenant-c", 1);
  const auto ask = [&](json request) {
    return cluster.ask(with_token(std::move(request), "token-of-tenant-c"));
  };
  json request = {
      {"call", "acquire"}, {"name", "x"}, {"cores", 16}, {"kept", true}, {"memory_bytes", 300000}};
  EXPECT_EQ(error_of(ask(request)),
            "tenant 'c' has 0 bytes of memory in all groups and wants 1212416 more; its quota is "
            "1000000");
  request["cores"] = 4;
  EXPECT_EQ(error_of(ask(request)), "");
  EXPECT_EQ(error_of(ask({{"call", "resize"}, {"alloc", "x"}, {"cores", 12}})), "");
  EXPECT_EQ(error_of(ask({{"call", "resize"}, {"alloc", "x"}, {"cores", 16}})),
            "tenant 'c' has 909312 bytes of memory in all groups and wants 303104 more; its quota "
            "is 1000000");
}

TEST(ClusterTenants, ATokenComesFromAFile) {
  const LocalCluster cluster({.tenants = kTenants});
  cluster.wait_for_nodes_as("token-of-operator", 1);
  const std::string path = ::testing::TempDir() + "token";
  testing::write_secret(path, "token-of-tenant-a\n");
  const Sample model(residual_network(1, 24));
  auto session =
      Session::open(model.network, {.cluster = cluster.address("cores=2&token_file=" + path)});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  EXPECT_TRUE(session->run(model.inputs)->outputs == model.outputs);
  EXPECT_THAT(error_of(Session::open(model.network, {.cluster = cluster.address("cores=2")})),
              HasSubstr("token_file="));
  std::filesystem::permissions(path, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(
      error_of(Session::open(model.network, {.cluster = cluster.address("token_file=" + path)})),
      HasSubstr("'" + path + "' has secrets and others may read or change it (mode 0604)"));
  std::filesystem::remove(path);
}

TEST(ClusterAllocations, AreResizedWhileTheyRunAndComeBack) {
  const LocalCluster cluster;
  const Sample model(residual_network(1, 24));
  cluster.call(
      {{"call", "acquire"}, {"name", "a"}, {"cores", 2}, {"kept", true}, {"arch", "cloud16"}});
  {
    auto session = Session::open(model.network, {.cluster = cluster.address("alloc=a")});
    ASSERT_TRUE(session.ok()) << session.error().to_string();
    const std::int64_t with_two = session->run(model.inputs)->cycles;
    const json resized = cluster.call({{"call", "resize"}, {"alloc", "a"}, {"cores", 8}});
    EXPECT_EQ(resized["cores"].size(), 8u);
    const auto run = session->run(model.inputs);
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_TRUE(run->outputs == model.outputs);
    EXPECT_LT(run->cycles, with_two);
    EXPECT_EQ(run->cores.size(), 8u);
  }
  // It was not the session's, and stays.
  EXPECT_EQ(cluster.call({{"call", "status"}})["allocs"].size(), 1u);
  EXPECT_THAT(error_of(cluster.ask({{"call", "resize"}, {"alloc", "a"}, {"cores", 17}})),
              HasSubstr("17 cores are wanted; of the 1 cards"));
  cluster.call({{"call", "release"}, {"alloc", "a"}});
  EXPECT_EQ(cluster.call({{"call", "status"}})["pool"][0]["free"], 16);
}

TEST(ClusterAllocations, ADrainedNodeGetsNothingNew) {
  const LocalCluster cluster({.nodes = 2});
  cluster.call({{"call", "drain"}, {"node", "n0"}});
  for (const char* const name : {"a", "b"}) {
    EXPECT_EQ(
        cluster.call({{"call", "acquire"}, {"name", name}, {"cores", 2}, {"kept", true}})["node"],
        "n1");
  }
  cluster.call({{"call", "drain"}, {"node", "n0"}, {"on", false}});
  EXPECT_EQ(cluster.call({{"call", "acquire"}, {"cores", 16}, {"kept", true}})["node"], "n0");
}

TEST(ClusterNodes, WhoHasNoTicketIsAnsweredNothing) {
  const LocalCluster cluster;
  const auto dialer = cluster::Messenger::create().value();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  auto channel = dialer->open(cluster.nodes[0]->endpoint(), deadline).value();
  const auto ask = [&](const char* text) { return error_of(channel->call(text, {}, deadline)); };
  EXPECT_THAT(ask(R"({"call":"load","digest":"","name":""})"), HasSubstr("has shown no ticket"));
  EXPECT_THAT(ask(R"({"call":"open","alloc":"a","ticket":"b"})"),
              HasSubstr("has no allocation 'a'"));
  EXPECT_THAT(ask(R"({"call":"list","secret":"x","epoch":9})"),
              HasSubstr("no master of this cluster"));
  EXPECT_THAT(ask("[]"), HasSubstr("no JSON object"));
  // Nor may it send tensors: that ends its connection, and no other.
  const std::vector<std::byte> bytes(1000);
  const std::span<const std::byte> part = bytes;
  EXPECT_FALSE(channel->call("{}", std::span(&part, 1), deadline).ok());
  EXPECT_TRUE(dialer->open(cluster.nodes[0]->endpoint(), deadline).ok());
}

TEST(ClusterNodes, WhoSaysNothingAndWhoSaysHalfAMessageIsClosed) {
  class Nobody : public cluster::Responder {
   public:
    Result<cluster::Reply> handle(cluster::Request /*request*/) override {
      return cluster::Reply{};
    }
  } nobody;
  using transport::FrameKind;
  constexpr std::chrono::milliseconds kSoon{100};
  constexpr std::chrono::hours kLater{1};
  const auto is_closed = [&](std::chrono::milliseconds greeting, std::chrono::milliseconds progress,
                             std::span<const std::byte> said) {
    cluster::MessengerOptions options;
    options.handshake_time = greeting;
    options.progress_time = progress;
    options.silence_time = kLater;
    const auto messenger = cluster::Messenger::create(options).value();
    const auto server = messenger->serve({.responder = &nobody}).value();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(server->port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::array<char, 100> answer{};
    bool closed = ::connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
                  ::send(descriptor, said.data(), said.size(), MSG_NOSIGNAL) == std::ssize(said);
    ssize_t heard = 1;  // its greeting, and then the end
    while (heard > 0) heard = ::recv(descriptor, answer.data(), answer.size(), 0);
    closed = closed && heard == 0;
    ::close(descriptor);
    return closed;
  };
  std::vector<std::byte> said = transport::encode_signal(FrameKind::kGreeting);
  EXPECT_TRUE(is_closed(kSoon, kLater, {}));
  EXPECT_TRUE(is_closed(kSoon, kLater, std::span(said).first(3)));
  const auto message = transport::encode_message(
      cluster::encode_header({cluster::MessageKind::kRequest, 1, "{}"}), {});
  said.insert(said.end(), message.begin(), message.end() - 1);
  EXPECT_TRUE(is_closed(kLater, kSoon, said));
}

}  // namespace
}  // namespace tessera

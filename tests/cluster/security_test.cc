// Certificates of machines, tokens of tenants and quotas of requests, on the way to masters and to nodes; how tensors
// get there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "../runtime/card_models.h"
#include "breaking_proxy.h"
#include "cluster/messenger.h"
#include "local_cluster.h"
#include "tessera/runtime.h"
#include "tessera/session.h"
#include "tools/cluster/cluster_checks.h"
#include "transport/testing/certificates.h"
#include "transport/transport.h"

namespace tessera {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::error_of;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::residual_network;
using testing::Sample;
using transport::TlsFiles;

std::string new_folder(const char* name) {
  const std::string folder =
      ::testing::TempDir() + "tessera_" + name + "_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  return folder;
}

std::string keys_of(const TlsFiles& files) {
  return "tls_authority=" + files.authority + "&tls_certificate=" + files.certificate +
         "&tls_key=" + files.key;
}

class ClusterTls : public ::testing::Test {
 protected:
  ClusterTls() {
    const std::string tenants = R"({"tenants": [
      {"name": "a", "token": "token-of-tenant-a"}, {"name": "b", "token": "token-of-tenant-b"},
      {"name": "o", "token": "token-of-operator", "operator": true}]})";
    testing::LocalClusterOptions options{.tenants = tenants};
    options.messenger.tls = machine_;
    cluster_ = std::make_unique<LocalCluster>(options);
    cluster_->wait_for_nodes_as("token-of-operator", 1);
    testing::write_secret(folder_ + "/a", "token-of-tenant-a\n");
    testing::write_secret(folder_ + "/nobody", "token-of-nobody-at-all\n");
  }
  ~ClusterTls() override { std::filesystem::remove_all(folder_); }

  // Of opening a session as a tenant, with these certificates.
  std::string refusal(const std::string& certificates, const std::string& token = "a") {
    const std::string address = cluster_->address("cores=2&medium=tcp&token_file=" + folder_ + "/" +
                                                  token + "&" + certificates);
    auto session = Session::open(model_.network, {.cluster = address});
    if (!session.ok()) return session.error().to_string();
    EXPECT_TRUE(session->run(model_.inputs)->outputs == model_.outputs);
    return "";
  }
  // Of a connection to the node alone.
  std::string refusal_of_node(const std::optional<TlsFiles>& files) {
    cluster::MessengerOptions options;
    options.tls = files;
    const auto messenger = cluster::Messenger::create(options).value();
    return error_of(messenger->open(cluster_->nodes[0]->endpoint(),
                                    std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  }

  std::string folder_ = new_folder("cluster_tls");
  transport::testing::Authority authority_{folder_ + "/own"}, other_{folder_ + "/other"};
  const TlsFiles machine_ = authority_.sign("machine");
  const Sample model_{residual_network(1, 24)};
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(ClusterTls, MachinesOfOneAuthorityReachEachOtherAndTenantsSeeTheirOwn) {
  const std::string address = cluster_->address("cores=2&name=x&medium=tcp&token_file=" + folder_ +
                                                "/a&" + keys_of(authority_.sign("client")));
  auto session = Session::open(model_.network, {.cluster = address});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  EXPECT_TRUE(session->run(model_.inputs)->outputs == model_.outputs);
  const auto allocs = [&](const char* token) {
    return cluster_->call({{"call", "status"}, {"token", token}})["allocs"].size();
  };
  EXPECT_EQ(allocs("token-of-tenant-a"), 1u);
  EXPECT_EQ(allocs("token-of-tenant-b"), 0u);
  EXPECT_EQ(allocs("token-of-operator"), 1u);
  EXPECT_EQ(
      error_of(cluster_->ask({{"call", "locate"}, {"alloc", "x"}, {"token", "token-of-tenant-b"}})),
      "tenant 'b' has no allocation 'x'");
}

TEST_F(ClusterTls, WhoseCertificateIsNotGoodIsToldWhatIsWrongWithIt) {
  // Of another authority; that believes this one, so that it is the master who refuses.
  TlsFiles foreign = other_.sign("client");
  EXPECT_THAT(refusal(keys_of(foreign)), HasSubstr("the peer's certificate: "));
  foreign.authority = machine_.authority;
  EXPECT_THAT(refusal(keys_of(foreign)), HasSubstr("refuses this side's certificate: TLS: "));
  EXPECT_THAT(refusal_of_node(foreign), HasSubstr("refuses this side's certificate: TLS: "));
  const TlsFiles expired = authority_.sign_expired("client");
  EXPECT_THAT(refusal(keys_of(expired)), HasSubstr("certificate expired"));
  EXPECT_THAT(refusal_of_node(expired), HasSubstr("certificate expired"));
  EXPECT_THAT(refusal_of_node(TlsFiles{.authority = machine_.authority}),
              HasSubstr("certificate required"));
  EXPECT_THAT(refusal_of_node(std::nullopt), HasSubstr("speaks TLS, and this side does not"));
  EXPECT_THAT(refusal("tls_authority=" + machine_.authority), HasSubstr("belong together"));
  EXPECT_EQ(refusal(keys_of(authority_.sign("another client"))), "");
}

TEST_F(ClusterTls, AWrongTokenIsRefusedAndWrittenDown) {
  const std::string keys = keys_of(authority_.sign("client"));
  EXPECT_THAT(refusal(keys, "nobody"), HasSubstr("none of a tenant of this cluster"));
  EXPECT_THAT(refusal(keys, "there-is-no-such-file"), HasSubstr("there-is-no-such-file"));
  const auto lines = cluster_->audit();
  EXPECT_TRUE(std::ranges::any_of(lines, [](const json& line) {
    return line["outcome"] == "refused" && line["tenant"] == "?" && line["action"] == "acquire";
  }));
}

TEST_F(ClusterTls, WhoIsRefusedByMasterOrNodeIsWrittenDownWithTheReason) {
  const TlsFiles expired = authority_.sign_expired("late client");
  const auto wait_for_line = [&](const std::string& certificate, const std::string& reason) {
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < last) {
      for (const json& line : cluster_->audit()) {
        if (line["action"] != "connect" || line["certificate"] != certificate) continue;
        if (line["reason"].get<std::string>().find(reason) == std::string::npos) continue;
        EXPECT_EQ(line["outcome"], "refused");
        EXPECT_EQ(line["tenant"], "?");
        EXPECT_THAT(line["peer"].get<std::string>(), HasSubstr("127.0.0.1:"));
        using Milliseconds = std::chrono::duration<double, std::milli>;
        const Milliseconds now = std::chrono::system_clock::now().time_since_epoch();
        EXPECT_NEAR(line["unix_ms"].get<double>(), now.count(), 120'000);
        return true;
      }
      std::this_thread::sleep_for(milliseconds(2));
    }
    return false;
  };
  // The node.
  EXPECT_NE(refusal_of_node(expired), "");
  EXPECT_TRUE(wait_for_line("late client", "certificate has expired"));
  EXPECT_NE(refusal_of_node(TlsFiles{.authority = machine_.authority}), "");
  EXPECT_TRUE(wait_for_line("", "peer did not return a certificate"));
  // The master.
  TlsFiles foreign = other_.sign("foreign client");
  foreign.authority = machine_.authority;
  EXPECT_NE(refusal(keys_of(foreign)), "");
  EXPECT_TRUE(wait_for_line("foreign client", "the peer's certificate: "));
}

// Each connection that is refused is a line: one that is not made again is one.
std::vector<std::string> refused_connections(const LocalCluster& cluster) {
  std::vector<std::string> reasons;
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (reasons.empty() && std::chrono::steady_clock::now() < last) {
    std::this_thread::sleep_for(milliseconds(2));
    for (const json& line : cluster.audit()) {
      if (line["action"] == "connect") reasons.push_back(line["reason"]);
    }
  }
  return reasons;
}

TEST_F(ClusterTls, WhoHasNoCertificatesIsToldSoAndAsksOnce) {
  EXPECT_THAT(refusal("weight=1"),
              HasSubstr("speaks TLS, and this side does not; give it --tls-authority, "
                        "--tls-certificate and --tls-key (in a device's name "
                        "tls_authority=, tls_certificate= and tls_key=)"));
  EXPECT_THAT(
      refused_connections(*cluster_),
      ::testing::ElementsAre(HasSubstr("does not speak TLS, and this side does; give both")));
}

TEST_F(ClusterTls, WhoHasCertificatesForAClusterWithoutIsToldSoAndAsksOnce) {
  const LocalCluster plain;
  const std::string keys = keys_of(authority_.sign("client"));
  EXPECT_THAT(error_of(Session::open(model_.network, {.cluster = plain.address(keys)})),
              HasSubstr("does not speak TLS, and this side does; give both --tls-authority, "
                        "--tls-certificate and --tls-key (in a device's name tls_authority=, "
                        "tls_certificate= and tls_key=), or none"));
  EXPECT_THAT(refused_connections(plain),
              ::testing::ElementsAre(HasSubstr("speaks TLS, and this side does not; give it")));
}

TEST_F(ClusterTls, TheDoctorWithACertificateFindsNothingAndWithoutOneIsToldSo) {
  const auto checks = [&](const std::optional<TlsFiles>& files, std::chrono::seconds patience) {
    cluster::MessengerOptions options;
    options.tls = files;
    const auto dialer = cluster::Messenger::create(options).value();
    return tools::check_cluster({.masters = {cluster_->master->endpoint()},
                                 .token = "token-of-operator",
                                 .patience = patience},
                                *dialer);
  };
  const auto good = checks(authority_.sign("operator"), std::chrono::seconds(20));
  bool has_daemons = false;
  for (const tools::ClusterCheck& check : good) {
    EXPECT_EQ(check.outcome, tools::ClusterCheck::Outcome::kOk)
        << check.check << " " << check.subject << ": " << check.detail;
    has_daemons = has_daemons || check.detail == "1 of 1 nodes answer";
  }
  EXPECT_TRUE(has_daemons);
  for (const auto& files :
       {std::optional<TlsFiles>(), std::optional(authority_.sign_expired("operator"))}) {
    const auto bad = checks(files, std::chrono::seconds(1));
    const auto wrong = std::ranges::find_if(bad, [](const tools::ClusterCheck& check) {
      return check.check == "master" && check.outcome == tools::ClusterCheck::Outcome::kError;
    });
    ASSERT_NE(wrong, bad.end());
    EXPECT_EQ(wrong->subject, cluster_->master->endpoint());
    EXPECT_NE(wrong->remedy, "");
    if (files.has_value()) {
      EXPECT_THAT(wrong->detail, HasSubstr("certificate expired"));
    }
  }
}

TEST(ClusterTlsServer, ForAnotherHostOrExpiredIsNotBelieved) {
  const std::string folder = new_folder("cluster_hosts");
  transport::testing::Authority authority(folder);
  class Nobody : public cluster::Responder {
   public:
    Result<cluster::Reply> handle(cluster::Request /*request*/) override {
      return cluster::Reply{};
    }
  } nobody;
  const auto refusal = [&](const TlsFiles& of_server) {
    const auto server = cluster::Messenger::create({.tls = of_server}).value();
    const auto listening = server->serve({.responder = &nobody}).value();
    const auto client = cluster::Messenger::create({.tls = authority.sign("client")}).value();
    return error_of(client->open("127.0.0.1:" + std::to_string(listening->port()),
                                 std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  };
  EXPECT_EQ(refusal(authority.sign("node")), "");
  EXPECT_THAT(refusal(authority.sign("node", "elsewhere.example")),
              HasSubstr("IP address mismatch"));
  EXPECT_THAT(refusal(authority.sign_expired("node")), HasSubstr("certificate has expired"));
  std::filesystem::remove_all(folder);
}

TEST(ClusterMessengers, BeyondThisMachineWithoutTlsOnlyIfThatIsSaid) {
  class Nobody : public cluster::Responder {
   public:
    Result<cluster::Reply> handle(cluster::Request /*request*/) override {
      return cluster::Reply{};
    }
  } nobody;
  const auto listen = [&](bool is_allowed) {
    const auto messenger = cluster::Messenger::create({.allow_plain_network = is_allowed}).value();
    return error_of(messenger->serve({.address = "0.0.0.0", .responder = &nobody}));
  };
  EXPECT_THAT(listen(false), HasSubstr("not loopback, and without TLS"));
  EXPECT_EQ(listen(true), "");
  const Sample model(residual_network(1, 24));
  EXPECT_THAT(error_of(Session::open(model.network, {.cluster = "cluster:192.0.2.1:7400"})),
              HasSubstr("not loopback, and without TLS"));
}

TEST(ClusterMedia, CarryTheSameBits) {
  const std::string folder = new_folder("media");
  const bool has_ucx = transport::Transport::has_medium(transport::Medium::kUcx);
  testing::LocalClusterOptions options;
  options.shared_memory_folder = folder;
  options.ucx = has_ucx;
  const LocalCluster cluster(options);
  const Sample model(residual_network(1, 24));
  for (const char* const medium : {"auto", "shm", "tcp", "ucx"}) {
    if (medium == std::string("ucx") && !has_ucx) continue;
    auto session = Session::open(
        model.network, {.cluster = cluster.address(std::string("cores=2&medium=") + medium)});
    ASSERT_TRUE(session.ok()) << medium << ": " << session.error().to_string();
    for (int run = 0; run < 3; ++run) {
      EXPECT_TRUE(session->run(model.inputs)->outputs == model.outputs) << medium;
    }
  }
  const LocalCluster plain;
  EXPECT_THAT(error_of(Session::open(model.network, {.cluster = plain.address("medium=shm")})),
              HasSubstr("offers no shared memory"));
  EXPECT_THAT(error_of(Session::open(model.network, {.cluster = plain.address("medium=ucx")})),
              HasSubstr("start it with --ucx"));
  EXPECT_THAT(error_of(Session::open(model.network, {.cluster = plain.address("medium=tape")})),
              HasSubstr("allowed are auto, tcp, shm and ucx"));
  std::filesystem::remove_all(folder);
}

// A socket at which somebody listens until the descriptor is closed, and which stays then.
int listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket, 1), 0);
  return socket;
}

TEST(ClusterMedia, ANodeRemovesTheSocketsOfKilledOnesAndNothingElse) {
  const std::string folder = new_folder("dead_sockets");
  const std::string own = folder + "/tessera-" + std::to_string(::geteuid()) + "-";
  for (const std::string& name : {own + "1", own + "1a", folder + "/tessera-x-1"}) {
    ::close(listen_at(name));
  }
  const int alive = listen_at(own + "2");
  std::ofstream(own + "3") << "no socket";
  testing::LocalClusterOptions options;
  options.shared_memory_folder = folder;
  {
    const LocalCluster cluster(options);
    EXPECT_FALSE(std::filesystem::exists(own + "1"));
    for (const std::string& name : {own + "1a", folder + "/tessera-x-1", own + "2", own + "3"}) {
      EXPECT_TRUE(std::filesystem::exists(name)) << name;
    }
    const auto names = std::filesystem::directory_iterator(folder);
    EXPECT_EQ(std::distance(begin(names), end(names)), 5);  // the node's own besides
  }
  ::close(alive);
  std::filesystem::remove_all(folder);
}

// Hands requests on to a node, and counts them.
class Relay : public cluster::Responder {
 public:
  Relay() : server_(messenger_->serve({.responder = this}).value()) {}
  std::string endpoint() const { return "127.0.0.1:" + std::to_string(server_->port()); }
  void set_target(const std::string& endpoint) { target_ = endpoint; }

  Result<cluster::Reply> handle(cluster::Request request) override {
    ++messages;
    cluster::Channel* channel = nullptr;
    {
      const std::lock_guard lock(mutex_);
      auto& own = channels_[request.connection];
      if (own == nullptr) {
        TESSERA_TRY(own, messenger_->open(target_, cluster::TimePoint::max()));
        newest = request.connection;
      }
      channel = own.get();
    }
    const bool is_respelled = request.connection == respelled && respell(request.text);
    if (is_respelled) is_running = true;
    const std::vector<std::span<const std::byte>> body(request.body.pieces.begin(),
                                                       request.body.pieces.end());
    TESSERA_TRY(const cluster::Message answer,
                channel->call(request.text, body, cluster::TimePoint::max()));
    if (is_respelled) is_running = false;
    cluster::Reply reply{answer.text};
    for (const auto piece : answer.body.pieces) reply.body.emplace_back(piece.begin(), piece.end());
    return reply;
  }
  void disconnected(std::uint64_t connection) override {
    std::unique_ptr<cluster::Channel> ended;
    const std::lock_guard lock(mutex_);
    ended = std::move(channels_[connection]);
    channels_.erase(connection);
  }

  std::atomic<int> messages = 0;
  // Runs of that connection are asked for in other words, which mean the same.
  std::atomic<std::uint64_t> newest = 0, respelled = 0;
  std::atomic<bool> is_running = false;  // one of these

 private:
  // Whether it is a run.
  static bool respell(std::string& text) {
    const std::string as_written = R"("call":"infer")";
    const std::size_t at = text.find(as_written);
    if (at == std::string::npos) return false;
    text.replace(at, as_written.size(), "\"call\" :\t\"\\u0069nfer\"");
    return true;
  }

  const std::unique_ptr<cluster::Messenger> messenger_ = cluster::Messenger::create().value();
  std::string target_;
  std::mutex mutex_;  // of what follows
  std::map<std::uint64_t, std::unique_ptr<cluster::Channel>> channels_;
  std::unique_ptr<cluster::MessageServer> server_;
};

TEST(ClusterMessages, AnInferenceIsOneMessageThereAndOneBack) {
  Relay relay;
  const LocalCluster cluster({.advertised = relay.endpoint()});
  relay.set_target("127.0.0.1:" + std::to_string(cluster.nodes[0]->port()));
  const Sample model(residual_network(1, 24));
  auto session = Session::open(model.network, {.cluster = cluster.address("cores=2&medium=tcp")});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  EXPECT_TRUE(session->run(model.inputs)->outputs == model.outputs);
  const int before = relay.messages;
  constexpr int kRuns = 10;
  for (int run = 0; run < kRuns; ++run) {
    EXPECT_TRUE(session->run(model.inputs)->outputs == model.outputs);
  }
  EXPECT_EQ(relay.messages - before, kRuns);
}

TEST(ClusterMessages, AnAnswerThatStopsHalfWayOrDripsIsBounded) {
  class Echo : public cluster::Responder {
   public:
    Result<cluster::Reply> handle(cluster::Request request) override {
      return cluster::Reply{request.text, {std::vector<std::byte>(5000)}};
    }
  } echo;
  const auto server = cluster::Messenger::create().value();
  const auto listening = server->serve({.responder = &echo}).value();
  testing::BreakingProxy proxy("127.0.0.1:" + std::to_string(listening->port()));
  cluster::MessengerOptions options;
  options.progress_time = milliseconds(300);
  const auto client = cluster::Messenger::create(options).value();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const auto open = [&] { return client->open(proxy.endpoint(), deadline).value(); };
  const auto half = open();
  EXPECT_TRUE(half->call("{}", {}, deadline).ok());
  proxy.hold_after(100);
  EXPECT_THAT(error_of(half->call("{}", {}, deadline)), HasSubstr("bytes of a message in"));
  EXPECT_FALSE(half->is_open());
  proxy.pass();
  const auto cut = open();
  EXPECT_TRUE(cut->call("{}", {}, deadline).ok());
  proxy.cut_after(100);
  EXPECT_THAT(error_of(cut->call("{}", {}, deadline)), HasSubstr("in the middle of a message"));
  proxy.pass();
  // Slow, and yet it comes.
  const auto slow = open();
  proxy.drip(200, milliseconds(2));
  const auto answer = slow->call("{}", {}, deadline);
  ASSERT_TRUE(answer.ok()) << answer.error().to_string();
  EXPECT_EQ(answer->body.pieces[0].size(), 5000u);
}

TEST(ClusterQuotas, OfRequestsHoldAndRefusalsAreWrittenDown) {
  const LocalCluster cluster({.tenants = R"({"tenants": [
    {"name": "a", "token": "token-of-tenant-a", "requests_at_once_max": 2},
    {"name": "b", "token": "token-of-tenant-b", "requests_per_second_max": 1},
    {"name": "o", "token": "token-of-operator", "operator": true}]})"});
  cluster.wait_for_nodes_as("token-of-operator", 1);
  const std::string folder = new_folder("quotas");
  testing::write_secret(folder + "/a", "token-of-tenant-a\n");
  testing::write_secret(folder + "/b", "token-of-tenant-b\n");
  const Sample model(residual_network(1, 24));
  // Two at once are what it may send, four are not.
  const auto refusals = [&](int at_once) {
    auto runtime = Runtime::open(
        {.devices = {{.cluster = cluster.address("arch=cloud16&token_file=" + folder +
                                                 "/a&in_flight=" + std::to_string(at_once))}}});
    EXPECT_TRUE(runtime.ok()) << runtime.error().to_string();
    auto pipeline = runtime->open_pipeline(runtime->load(model.network).value()).value();
    auto stream = pipeline.open_stream();
    std::vector<Job> jobs;
    for (int i = 0; i < 24; ++i) jobs.push_back(stream.submit(model.inputs).value());
    int refused = 0;
    for (Job& job : jobs) {
      const TaskOutcome outcome = job.wait();
      if (outcome.ok()) {
        EXPECT_TRUE(outcome.result().outputs() == model.outputs);
      } else {
        EXPECT_THAT(outcome.error().error.message,
                    HasSubstr("more requests at once than its share of the tenant's quota, which "
                              "is 2"));
        ++refused;
      }
    }
    return refused;
  };
  EXPECT_EQ(refusals(2), 0);
  EXPECT_GT(refusals(4), 0);
  auto session = Session::open(model.network,
                               {.cluster = cluster.address("name=y&token_file=" + folder + "/b")});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  // As many as come within a second are more than one.
  std::string refused;
  for (int i = 0; i < 1000 && refused.empty(); ++i) refused = error_of(session->run(model.inputs));
  EXPECT_THAT(refused, HasSubstr("tenant 'b', allocation 'y': more requests a second than its "
                                 "share of the tenant's quota, which is 1; send fewer"));
  const auto lines = cluster.audit();
  for (const char* const tenant : {"a", "b"}) {
    EXPECT_TRUE(std::ranges::any_of(lines, [&](const json& line) {
      return line["action"] == "infer" && line["tenant"] == tenant && line["outcome"] == "refused";
    })) << tenant;
  }
  std::filesystem::remove_all(folder);
}

TEST(ClusterQuotas, OfRequestsAreDividedAmongTheAllocationsOfATenant) {
  const LocalCluster cluster({.nodes = 2, .tenants = R"({"tenants": [
    {"name": "a", "token": "token-of-tenant-a", "requests_at_once_max": 2, "operator": true}]})"});
  cluster.wait_for_nodes_as("token-of-tenant-a", 2);
  const std::string folder = new_folder("shares");
  testing::write_secret(folder + "/a", "token-of-tenant-a\n");
  const Sample model(residual_network(1, 24));
  const auto open = [&](const std::string& name) {
    return Session::open(model.network, {.cluster = cluster.address("cores=4&token_file=" + folder +
                                                                    "/a&name=" + name)})
        .value();
  };
  // One at once each: the third allocation has none.
  Session first = open("x1"), second = open("x2"), third = open("x3");
  const auto refused = [&](Session& session) { return error_of(session.run(model.inputs)); };
  const auto last = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto all_refused = [&] {
    return (refused(first).empty() ? 0 : 1) + (refused(second).empty() ? 0 : 1) +
           (refused(third).empty() ? 0 : 1);
  };
  while (all_refused() != 1 && std::chrono::steady_clock::now() < last) std::this_thread::yield();
  EXPECT_EQ(all_refused(), 1);
  std::filesystem::remove_all(folder);
}

TEST(ClusterQuotas, ARunHoldsItsPlaceHoweverItsRequestIsSpelled) {
  Relay relay;
  const LocalCluster cluster({.tenants = R"({"tenants": [
    {"name": "a", "token": "token-of-tenant-a", "requests_at_once_max": 1, "operator": true}]})",
                              .advertised = relay.endpoint()});
  relay.set_target("127.0.0.1:" + std::to_string(cluster.nodes[0]->port()));
  cluster.wait_for_nodes_as("token-of-tenant-a", 1);
  const std::string folder = new_folder("spelled");
  testing::write_secret(folder + "/a", "token-of-tenant-a\n");
  const Sample model(residual_network(1, 64));
  const std::string own = "medium=tcp&token_file=" + folder + "/a";
  Session spelled =
      Session::open(model.network, {.cluster = cluster.address("name=x&" + own)}).value();
  relay.respelled = relay.newest.load();
  Session usual =
      Session::open(model.network, {.cluster = cluster.address("alloc=x&" + own)}).value();
  std::atomic<bool> ends = false;
  std::thread runs([&] {
    while (!ends) (void)spelled.run(model.inputs);
  });
  // Once it is surely worked on, another one has no place; where it has ended by then, the next one is looked at.
  std::string refused;
  const auto last = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (int look = 0; look < 100 && refused.empty(); ++look) {
    while (!relay.is_running && std::chrono::steady_clock::now() < last) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(5));
    if (relay.is_running) refused = error_of(usual.run(model.inputs));
  }
  ends = true;
  runs.join();
  EXPECT_THAT(refused, HasSubstr("more requests at once than its share of the tenant's quota"));
  std::filesystem::remove_all(folder);
}

TEST(ClusterQuotas, LoadingCountsAsNoRequest) {
  const LocalCluster cluster({.tenants = R"({"tenants": [
    {"name": "a", "token": "token-of-tenant-a", "requests_at_once_max": 1, "operator": true}]})"});
  cluster.wait_for_nodes_as("token-of-tenant-a", 1);
  const std::string folder = new_folder("loading");
  testing::write_secret(folder + "/a", "token-of-tenant-a\n");
  const Sample model(residual_network(1, 24));
  const std::string name = cluster.address("cores=4&name=x&token_file=" + folder + "/a");
  const std::string same = cluster.address("alloc=x&token_file=" + folder + "/a");
  Session runs = Session::open(model.network, {.cluster = name}).value();
  std::atomic<bool> ends = false;
  std::thread loads([&] {
    while (!ends) EXPECT_EQ(error_of(Session::open(model.network, {.cluster = same})), "");
  });
  for (int i = 0; i < 30; ++i) EXPECT_EQ(error_of(runs.run(model.inputs)), "");
  ends = true;
  loads.join();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera

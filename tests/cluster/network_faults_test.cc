// What happens when parts of a cluster are cut off from each other, slow, on a full disk or under a clock that jumps:
// real processes behind proxies that break, or in network namespaces.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../runtime/card_models.h"
#include "cluster/master_client.h"
#include "cluster/messenger.h"
#include "cluster/package_cache.h"
#include "cluster_processes.h"
#include "http/client.h"
#include "model/testing/model_builder.h"
#include "package/sha256.h"
#include "tessera/runtime.h"
#include "tessera/session.h"
#include "transport/testing/certificates.h"

namespace tessera {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;
using testing::BackgroundProgram;
using testing::BreakingProxy;
using testing::ClusterProcesses;
using testing::error_of;
using testing::residual_network;
using testing::Sample;

#define SKIP_WITHOUT_ETCD() \
  if (const std::string why = ClusterProcesses::why_not(); !why.empty()) GTEST_SKIP() << why

Session open(const ClusterProcesses& cluster, const Sample& model) {
  auto session =
      Session::open(model.network, {.cluster = cluster.address("cores=4&name=a&medium=tcp")});
  EXPECT_TRUE(session.ok()) << session.error().to_string();
  return std::move(*session);
}

void expect_good_run(Session& session, const Sample& model) {
  const auto run = session.run(model.inputs);
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_TRUE(run->outputs == model.outputs);
}

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    lines.push_back(json::parse(text, nullptr, false));
  }
  return lines;
}

// Runs, all of them right, until another node has the allocation.
void run_until_elsewhere(ClusterProcesses& cluster, Session& session, const Sample& model,
                         std::size_t before) {
  const auto last = steady_clock::now() + std::chrono::minutes(2);
  while (cluster.node_of("a") == before && steady_clock::now() < last) {
    expect_good_run(session, model);
  }
  EXPECT_NE(cluster.node_of("a"), before);
  expect_good_run(session, model);
}

// The node's last word on the allocation, by the steady clock.
std::int64_t let_go_at(const ClusterProcesses& cluster, std::size_t node) {
  std::int64_t at = 0;
  for (const json& line : lines_of(cluster.log_path(node))) {
    if (line.is_object() && line["event"] == "disown") at = line["t_ns"];
  }
  return at;
}

TEST(NetworkFaults, ANodeThatIsCutOffFromTheStoreAloneLetsGoBeforeAnotherOneHasItsWork) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 2, .has_proxies = true});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model);
  expect_good_run(session, model);
  const std::size_t before = cluster.node_of("a");
  for (const auto& proxy : cluster.node_to_store[before]) proxy->hold();
  run_until_elsewhere(cluster, session, model, before);
  const auto owners = cluster.owners("a");
  ASSERT_EQ(owners.size(), 2u);
  // It said so itself, in time, while it still reached its client.
  const std::int64_t let_go = let_go_at(cluster, before);
  EXPECT_GT(let_go, 0);
  EXPECT_LE(let_go, owners[1].from);
  for (const auto& proxy : cluster.node_to_store[before]) proxy->pass();
  cluster.expect_one_owner_at_a_time();
}

// A connection to a node with an allocation's ticket, on which a network is loaded.
class DirectClient {
 public:
  DirectClient(const std::string& endpoint, const json& alloc, const Sample& model)
      : model_(model), channel_(messenger_->open(endpoint, last()).value()) {
    (void)ask({{"call", "open"}, {"alloc", alloc["alloc"]}, {"ticket", alloc["ticket"]}}).value();
    const std::vector<std::byte> bytes = cluster::network_bytes(*model.network.share());
    const std::string digest = package::sha256_text(package::sha256(bytes));
    (void)ask({{"call", "put"}, {"digest", digest}}, {bytes}).value();
    loaded_ = ask({{"call", "load"}, {"digest", digest}, {"name", "n"}}).value().at("loaded");
  }
  // Of a run; empty: it was answered.
  std::string refusal() {
    std::vector<std::span<const std::byte>> inputs;
    for (const Tensor& input : model_.inputs) inputs.emplace_back(input.bytes);
    const std::vector<int> none(inputs.size(), 0), sent(model_.outputs.size(), 0);
    return error_of(
        ask({{"call", "infer"}, {"loaded", loaded_}, {"inputs", none}, {"outputs", sent}}, inputs));
  }

 private:
  static std::chrono::steady_clock::time_point last() {
    return steady_clock::now() + std::chrono::seconds(60);
  }
  Result<json> ask(const json& request,
                   const std::vector<std::span<const std::byte>>& body = {}) const {
    auto answer = channel_->call(request.dump(), body, last());
    if (!answer.ok()) return answer.error();
    return answer->text.empty() ? json::object() : json::parse(answer->text);
  }

  const Sample& model_;
  const std::unique_ptr<cluster::Messenger> messenger_ = cluster::Messenger::create().value();
  const std::unique_ptr<cluster::Channel> channel_;
  json loaded_;
};

// When the node is fenced, a tenth of the lease before its end, as its last renewal has it; by the steady clock.
std::int64_t fenced_at(const ClusterProcesses& cluster, std::size_t node) {
  std::int64_t until = 0;
  for (const json& line : lines_of(cluster.log_path(node))) {
    if (line.is_object() && line.contains("until_ns")) until = line["until_ns"];
  }
  return until;
}

TEST(NetworkFaults, ANodeThatHasNotRenewedForThreeQuartersOfItsLeaseBeginsNothing) {
  SKIP_WITHOUT_ETCD();
  constexpr std::int64_t kTtlMs = 8000;
  ClusterProcesses cluster({.nodes = 1, .ttl_ms = kTtlMs, .has_proxies = true});
  const Sample model(residual_network(1, 24));
  const json alloc = cluster.ask({{"call", "acquire"}, {"cores", 4}, {"kept", true}}).value();
  DirectClient client(alloc["endpoint"], alloc, model);
  EXPECT_EQ(client.refusal(), "");
  for (const auto& proxy : cluster.node_to_store[0]) proxy->hold();
  const auto now = [] {
    return std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
  };
  // From three quarters of the lease until it is fenced it is here, and begins nothing.
  std::int64_t answered = 0;
  std::string refusal;
  for (; refusal.empty();) {
    const std::int64_t begun = now();
    refusal = client.refusal();
    if (refusal.empty()) answered = begun;
  }
  constexpr std::int64_t kLease = kTtlMs * 1'000'000;
  const std::int64_t begins_until = fenced_at(cluster, 0) + kLease / 10 - kLease / 4;
  EXPECT_GT(answered, 0);
  EXPECT_LT(answered, begins_until);
  EXPECT_GE(now(), begins_until);
  EXPECT_THAT(refusal, ::testing::HasSubstr(
                           "node 'n0' has not reached the store lately and begins nothing new"));
  EXPECT_EQ(let_go_at(cluster, 0), 0);
  // Whole again it works on, where it was or anew.
  for (const auto& proxy : cluster.node_to_store[0]) proxy->pass();
  EXPECT_TRUE(cluster.wait_for([](const json& status) {
    return status["allocs"].size() == 1 && status["allocs"][0]["state"] == "placed";
  }));
}

TEST(NetworkFaults, ANodeThatIsCutOffFromEverybodyIsFollowedByAnother) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 2, .has_proxies = true});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model);
  expect_good_run(session, model);
  const std::size_t before = cluster.node_of("a");
  for (const auto& proxy : cluster.node_to_store[before]) proxy->hold();
  cluster.to_node[before]->hold();
  expect_good_run(session, model);
  EXPECT_NE(cluster.node_of("a"), before);
  for (const auto& proxy : cluster.node_to_store[before]) proxy->pass();
  cluster.to_node[before]->pass();
  expect_good_run(session, model);
  cluster.expect_one_owner_at_a_time();
}

TEST(NetworkFaults, WhenAConnectionEndsInTheMiddleOfAnAnswerTheRunIsMadeOnceMore) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster({.nodes = 1, .has_proxies = true});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model);
  expect_good_run(session, model);
  for (const std::int64_t bytes : {1, 23, 24, 100, 1000}) {
    cluster.to_node[0]->cut_after(bytes);
    expect_good_run(session, model);
  }
  // Slow, but it comes; and a node that answers nobody for a while is waited for.
  cluster.to_node[0]->drip(500, std::chrono::milliseconds(1));
  expect_good_run(session, model);
  cluster.to_node[0]->pass();
  expect_good_run(session, model);
  EXPECT_EQ(cluster.owners("a").size(), 1u);
}

TEST(NetworkFaults, WithoutAQuorumNothingIsAllocatedAndWhatRunsGoesOnAsThePolicySays) {
  SKIP_WITHOUT_ETCD();
  ClusterProcesses cluster(
      {.nodes = 1, .etcd_members = 3, .node_options = {"--on-control-loss", "keep"}});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model);
  cluster.etcd->kill(1);
  cluster.etcd->kill(2);
  const auto refused = cluster.ask({{"call", "acquire"}, {"cores", 1}}, 1500);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("store"));
  const auto last = steady_clock::now() + std::chrono::milliseconds(2500);  // longer than the lease
  while (steady_clock::now() < last) expect_good_run(session, model);
  ASSERT_TRUE(cluster.etcd->restart(1).ok());
  EXPECT_TRUE(cluster.wait_for([&](const json& /*status*/) {
    return cluster.ask({{"call", "acquire"}, {"cores", 1}, {"name", "b"}}, 1000).ok();
  }));
  expect_good_run(session, model);
  EXPECT_EQ(cluster.owners("a").size(), 1u);
}

// As a disk that is full: files of the process cannot grow.
void set_full(const BackgroundProgram& program, bool is_full) {
  rlimit limit{.rlim_cur = is_full ? 0 : RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  EXPECT_EQ(::prlimit(program.process(), RLIMIT_FSIZE, &limit, nullptr), 0);
}

TEST(NetworkFaults, OnAFullDiskNothingStopsAndNoLineOfTheAuditIsLost) {
  SKIP_WITHOUT_ETCD();
  const std::string audit =
      ::testing::TempDir() + fmt::format("tessera_audit_{}.jsonl", ::getpid());
  std::filesystem::remove(audit);
  ClusterProcesses cluster({.nodes = 1, .master_options = {"--audit-file", audit}});
  const Sample model(residual_network(1, 24));
  set_full(*cluster.masters[0], true);
  set_full(*cluster.nodes[0], true);
  Session session = open(cluster, model);
  expect_good_run(session, model);
  const auto acquire = [&](const std::string& name) {
    return error_of(
        cluster.ask({{"call", "acquire"}, {"cores", 1}, {"name", name}, {"kept", true}}));
  };
  EXPECT_EQ(acquire("b"), "");
  EXPECT_TRUE(lines_of(audit).empty());
  set_full(*cluster.masters[0], false);
  set_full(*cluster.nodes[0], false);
  EXPECT_EQ(acquire("c"), "");
  std::vector<std::string> named;
  for (const json& line : lines_of(audit)) {
    ASSERT_TRUE(line.is_object());
    if (line["action"] == "acquire") named.push_back(line["alloc"]);
  }
  EXPECT_EQ(named, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(cluster.owners("a").size(), 1u);
  std::filesystem::remove(audit);
}

TEST(NetworkFaults, AClockThatJumpsEndsNoLease) {
  SKIP_WITHOUT_ETCD();
#ifdef TESSERA_SANITIZED
  GTEST_SKIP() << "the sanitizer has functions of the clock of its own";
#endif
  const std::string name = ::testing::TempDir() + fmt::format("tessera_clock_{}", ::getpid());
  const std::string audit = name + ".jsonl";
  std::filesystem::remove(audit);
  const auto set_clock = [&](const char* seconds) {
    std::ofstream(name, std::ios::in | std::ios::out | std::ios::ate).seekp(0) << seconds;
  };
  std::ofstream(name) << "0          ";
  ClusterProcesses cluster(
      {.nodes = 1,
       .master_options = {"--audit-file", audit},
       .environment = {"LD_PRELOAD=" TESSERA_JUMPING_CLOCK, "JUMPING_CLOCK_FILE=" + name}});
  const Sample model(residual_network(1, 24));
  Session session = open(cluster, model);
  for (const char* const seconds : {"86400      ", "-86400     ", "0          "}) {
    set_clock(seconds);
    const auto last = steady_clock::now() + std::chrono::milliseconds(700);
    while (steady_clock::now() < last) expect_good_run(session, model);
    EXPECT_EQ(error_of(cluster.ask({{"call", "acquire"}, {"cores", 1}})), "");
  }
  EXPECT_EQ(cluster.owners("a").size(), 1u);
  for (const json& line : lines_of(cluster.log_path(0))) EXPECT_NE(line["event"], "fenced");
  // They did see it.
  const auto lines = lines_of(audit);
  ASSERT_GE(lines.size(), 4u);
  EXPECT_GT(lines[1]["unix_ms"].get<std::int64_t>(),
            lines[0]["unix_ms"].get<std::int64_t>() + 80'000'000);
  EXPECT_LT(lines[2]["unix_ms"].get<std::int64_t>(),
            lines[0]["unix_ms"].get<std::int64_t>() - 80'000'000);
  std::filesystem::remove(audit);
  std::filesystem::remove(name);
}

// ---- namespaces ----

int command(const std::string& text) { return std::system((text + " 2>/dev/null").c_str()); }

// A network of its own, joined to this one by a pair of interfaces.
class Namespace {
 public:
  Namespace() {
    const int number = ::getpid() % 200;
    name_ = fmt::format("tessera{}", number);
    here_ = fmt::format("10.233.{}.1", number);
    there_ = fmt::format("10.233.{}.2", number);
    const std::string in = "ip netns exec " + name_ + " ";
    is_there_ =
        command("ip netns add " + name_) == 0 &&
        command(fmt::format("ip link add {0}a type veth peer name {0}b netns {0}", name_)) == 0 &&
        command(fmt::format("ip addr add {}/24 dev {}a", here_, name_)) == 0 &&
        command(fmt::format("ip link set {}a up", name_)) == 0 &&
        command(fmt::format("{}ip addr add {}/24 dev {}b", in, there_, name_)) == 0 &&
        command(fmt::format("{}ip link set {}b up", in, name_)) == 0 &&
        command(in + "ip link set lo up") == 0;
  }
  ~Namespace() {
    command(fmt::format("ip link del {}a", name_));
    command("ip netns del " + name_);
  }
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;

  bool is_there() const { return is_there_; }
  const std::string& name() const { return name_; }
  const std::string& here() const { return here_; }
  const std::string& there() const { return there_; }
  void set_cable(bool is_in) const {
    EXPECT_EQ(command(fmt::format("ip link set {}a {}", name_, is_in ? "up" : "down")), 0);
  }

 private:
  std::string name_, here_, there_;
  bool is_there_ = false;
};

std::vector<std::string> tls_options(const transport::TlsFiles& files) {
  return {"--tls-authority", files.authority, "--tls-certificate",
          files.certificate, "--tls-key",     files.key};
}

std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// A master and a node here, another node in the namespace, all over TLS.
class TwoMachines {
 public:
  explicit TwoMachines(const Namespace& network) : network_(network) {
    store::LocalEtcdOptions of_etcd;
    of_etcd.folder = folder_ + "/etcd";
    etcd_ = store::LocalEtcd::start(of_etcd).value();
    store_ = std::make_unique<BreakingProxy>(etcd_->endpoints()[0], network.here());
    const auto here = authority_.sign("here", "IP:" + network.here());
    const auto there = authority_.sign("there", "IP:" + network.there());
    master_ = std::make_unique<BackgroundProgram>(
        joined({"master", "--store", "etcd:" + store_->endpoint(), "--port", "0", "--ttl-ms",
                "2000", "--address", network.here()},
               tls_options(here)));
    endpoint_ = master_->event().value("endpoint", "");
    nodes_[0] = start_node(0, network.here(), here, {});
    nodes_[1] = start_node(1, network.there(), there, {"ip", "netns", "exec", network.name()});
    client_ = authority_.sign("client");
  }
  ~TwoMachines() {
    for (auto& node : nodes_) node.reset();
    master_.reset();
    store_.reset();
    etcd_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string address() const {
    return fmt::format(
        "cluster:{}?patience=60&name=a&cores=4&medium=tcp&node=n1&tls_authority={}&"
        "tls_certificate={}&tls_key={}",
        endpoint_, client_.authority, client_.certificate, client_.key);
  }
  json locate() const {
    const auto messenger = cluster::Messenger::create({.tls = client_}).value();
    cluster::MasterClient master(*messenger, {endpoint_});
    const auto where = master.call({{"call", "locate"}, {"alloc", "a"}}, std::chrono::seconds(30));
    EXPECT_TRUE(where.ok()) << error_of(where);
    return where.ok() ? *where : json::object();
  }
  void wait_for_nodes(std::size_t count) const {
    const auto messenger = cluster::Messenger::create({.tls = client_}).value();
    cluster::MasterClient master(*messenger, {endpoint_});
    const auto last = steady_clock::now() + std::chrono::minutes(1);
    while (steady_clock::now() < last) {
      const auto status = master.call({{"call", "status"}}, std::chrono::seconds(5));
      if (status.ok() && (*status)["pool"].size() == count) return;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "there are not " << count << " nodes";
  }
  std::string log_path(int node) const { return fmt::format("{}/n{}.log", folder_, node); }

 private:
  std::unique_ptr<BackgroundProgram> start_node(int number, const std::string& address,
                                                const transport::TlsFiles& files,
                                                const std::vector<std::string>& before) {
    auto node = std::make_unique<BackgroundProgram>(
        joined({"node", "--store", "etcd:" + store_->endpoint(), "--id", fmt::format("n{}", number),
                "--ttl-ms", "2000", "--address", address, "--owner-log", log_path(number)},
               tls_options(files)),
        before);
    EXPECT_EQ(node->event().value("event", ""), "start");
    return node;
  }

  const Namespace& network_;
  std::string folder_ = ::testing::TempDir() + fmt::format("tessera_machines_{}", ::getpid());
  transport::testing::Authority authority_{folder_ + "/tls"};
  std::unique_ptr<store::LocalEtcd> etcd_;
  std::unique_ptr<BreakingProxy> store_;
  std::unique_ptr<BackgroundProgram> master_, nodes_[2];
  std::string endpoint_;
  transport::TlsFiles client_;
};

TEST(NetworkFaults, ANodeWhoseCableIsOutIsFollowedByAnotherOverTls) {
  SKIP_WITHOUT_ETCD();
  const Namespace network;
  if (!network.is_there())
    GTEST_SKIP() << "no network namespace can be made here: it is not tested";
  const TwoMachines machines(network);
  machines.wait_for_nodes(2);
  const Sample model(residual_network(1, 24));
  auto session = Session::open(model.network, {.cluster = machines.address()});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  expect_good_run(*session, model);
  EXPECT_EQ(machines.locate()["node"], "n1");
  network.set_cable(false);
  expect_good_run(*session, model);
  EXPECT_EQ(machines.locate()["node"], "n0");
  network.set_cable(true);
  machines.wait_for_nodes(2);
  expect_good_run(*session, model);
  // The one had let go before the other took it: both by the machine's one steady clock.
  std::int64_t let_go = 0, taken = 0;
  for (const json& line : lines_of(machines.log_path(1))) {
    if (line["event"] == "disown") let_go = line["t_ns"];
  }
  for (const json& line : lines_of(machines.log_path(0))) {
    if (line["event"] == "own") taken = line["t_ns"];
  }
  EXPECT_GT(let_go, 0);
  EXPECT_LT(let_go, taken);
}

TEST(NetworkFaults, NobodyListensForOthersWithoutTlsUnlessItIsSaidTwice) {
  const auto first = [](std::vector<std::string> more) {
    BackgroundProgram node(
        joined({"node", "--store", "etcd:127.0.0.1:1", "--id", "n", "--address", "0.0.0.0"}, more));
    const json event = node.event();
    return event.is_object() ? event.value("event", "") : "";
  };
  EXPECT_EQ(first({}), "");  // it has ended
  EXPECT_EQ(first({"--without-tls"}), "start");
}

// ---- the service ----

// y = x * 3 for 16 numbers, as a file of a repository.
std::string write_model(const std::string& folder) {
  model::testing::ModelBuilder builder(13);
  Tensor factor = Tensor::zeros(Format::kF32, {1});
  factor.as<float>()[0] = 3;
  const std::string bytes = builder.input("x", Format::kF32, {1, 16})
                                .initializer("f", factor)
                                .node("Mul", {"x", "f"}, {"m"})
                                .node("Relu", {"m"}, {"y"})
                                .output("y")
                                .bytes();
  std::filesystem::create_directories(folder + "/m/1");
  std::ofstream(folder + "/m/1/model.onnx", std::ios::binary) << bytes;
  return bytes;
}

TEST(NetworkFaults, AServiceOverAClusterLosesNoRequestWhenANodeIsKilled) {
  SKIP_WITHOUT_ETCD();
  const std::string folder = ::testing::TempDir() + fmt::format("tessera_served_{}", ::getpid());
  const std::string bytes = write_model(folder);
  ClusterProcesses cluster({.nodes = 2});
  BackgroundProgram serve({"serve", "--model-repository", folder, "--http-port", "0", "--cluster",
                           cluster.endpoints()[0] + "?patience=60", "--cores", "2", "--instances",
                           "2"});
  int port = 0;
  for (json event = serve.event(); event.is_object(); event = serve.event()) {
    const std::string url = event.value("url", "");
    if (!url.empty()) port = std::stoi(url.substr(url.rfind(':') + 1));
    if (event["event"] == "model") {
      ASSERT_EQ(event["text"], "m: ready, 1 version");
      break;
    }
  }
  const auto status = cluster.ask({{"call", "status"}}).value();
  ASSERT_EQ(status["allocs"].size(), 2u);
  EXPECT_EQ(status["allocs"][0]["cores"].size(), 2u);
  const auto network =
      Network::load_bytes(std::as_bytes(std::span(bytes)), {.arch = "cloud16"}).value();
  constexpr int kClients = 4, kRequests = 100;
  std::atomic<int> good = 0, answered = 0;
  const auto ask = [&](int client) {
    // What a device of this process makes of each input.
    Session local = Session::open(network, {.device = DeviceKind::kSim}).value();
    http::Client of({.port = port, .answer_time = std::chrono::minutes(2)});
    for (int i = 0; i < kRequests; ++i) {
      json data = json::array();
      for (int j = 0; j < 16; ++j) data.push_back(client + i / 8.0 - j);
      const json request = {
          {"inputs", {{{"name", "x"}, {"shape", {1, 16}}, {"datatype", "FP32"}, {"data", data}}}}};
      const auto answer =
          of.ask({.method = "POST", .target = "/v2/models/m/infer", .body = request.dump()});
      ++answered;
      ASSERT_TRUE(answer.ok());
      ASSERT_EQ(answer->status, 200) << answer->body;
      Tensor input = Tensor::zeros(Format::kF32, {1, 16});
      const json out = json::parse(answer->body)["outputs"][0]["data"];
      ASSERT_EQ(out.size(), 16u);
      for (std::size_t j = 0; j < 16; ++j) input.as<float>()[j] = data[j].get<float>();
      const RunResult here = local.run({input}).value();
      bool is_good = true;
      for (std::size_t j = 0; j < 16; ++j) {
        is_good = is_good && out[j].get<float>() == here.outputs[0].as<float>()[j];
      }
      good += is_good ? 1 : 0;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) threads.emplace_back(ask, i);
  while (answered < kClients * kRequests / 4) std::this_thread::yield();
  const std::string node = status["allocs"][0]["node"];
  cluster.nodes[static_cast<std::size_t>(std::stoi(node.substr(1)))]->kill();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, kClients * kRequests);
  serve.signal(SIGTERM);
  json end;
  for (json event = serve.event(); event.is_object(); event = serve.event()) end = event;
  EXPECT_EQ(end, json({{"event", "end"}, {"all_answered", true}}));
  cluster.expect_one_owner_at_a_time();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera

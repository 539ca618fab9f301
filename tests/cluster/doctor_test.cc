// What `tessera doctor --cluster` finds: each check with what it looks for broken on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cluster/messenger.h"
#include "cluster/records.h"
#include "local_cluster.h"
#include "tools/cluster/cluster_checks.h"

namespace tessera::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using tools::ClusterCheck;
using Outcome = ClusterCheck::Outcome;

std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// A daemon that says of itself what a test wants.
class ScriptedDaemon : private cluster::Responder {
 public:
  explicit ScriptedDaemon(json health) : health_(std::move(health)) {
    server_ = messenger_->serve({.responder = this}).value();
  }
  std::string endpoint() const { return "127.0.0.1:" + std::to_string(server_->port()); }

 private:
  Result<cluster::Reply> handle(cluster::Request /*request*/) override {
    json health = health_;
    health["unix_ms"] = now_ms() + health.value("ahead_ms", 0);
    return cluster::Reply{health.dump(), {}};
  }
  const json health_;
  const std::unique_ptr<cluster::Messenger> messenger_ = cluster::Messenger::create().value();
  std::unique_ptr<cluster::MessageServer> server_;
};

json healthy() {
  return {
      {"role", "node"},           {"version", ""},
      {"protocol", "1.1"},        {"lease", {{"held", true}, {"ttl_ms", 3000}, {"left_ms", 2500}}},
      {"folders", json::array()}, {"cards", json::array()}};
}

void add_node(LocalCluster& cluster, const std::string& id, const std::string& endpoint) {
  const cluster::NodeRecord record{
      .id = id,
      .incarnation = "x",
      .endpoint = endpoint,
      .cards = {{.arch = "edge", .fingerprint = "0123456789abcdef", .memory_bytes = 1 << 20}}};
  store::Transaction put;
  put.puts.push_back({cluster::node_key(id), cluster::encode(record), 0});
  ASSERT_TRUE(cluster.store.commit(put, std::chrono::seconds(10)).value().succeeded());
}

std::vector<ClusterCheck> checks_of(const LocalCluster& cluster,
                                    tools::ClusterCheckOptions options = {}) {
  if (options.masters.empty()) options.masters = {cluster.master->endpoint()};
  options.patience = std::chrono::seconds(20);
  const auto dialer = cluster::Messenger::create().value();
  return tools::check_cluster(options, *dialer);
}

// The one of this kind that is not well; else the first of the kind.
ClusterCheck found(const std::vector<ClusterCheck>& checks, const std::string& kind) {
  ClusterCheck first{.check = "none", .subject = {}, .detail = {}, .remedy = {}};
  for (const ClusterCheck& check : checks) {
    if (check.check != kind) continue;
    if (check.outcome != Outcome::kOk) return check;
    if (first.check == "none") first = check;
  }
  return first;
}

// A cluster with one node besides, which says this of itself.
ClusterCheck with_daemon(const char* kind, const json& health) {
  LocalCluster cluster;
  const ScriptedDaemon daemon(health);
  add_node(cluster, "odd", daemon.endpoint());
  cluster.wait_for_nodes(2);
  const ClusterCheck check = found(checks_of(cluster), kind);
  if (check.outcome != Outcome::kOk) {
    EXPECT_THAT(check.remedy, ::testing::Not(::testing::IsEmpty()));
  }
  return check;
}

TEST(ClusterDoctor, FindsNothingWhereAllIsWell) {
  LocalCluster cluster({.nodes = 2});
  cluster.wait_for_nodes(2);
  const auto checks = checks_of(cluster);
  for (const ClusterCheck& check : checks) {
    EXPECT_EQ(check.outcome, Outcome::kOk)
        << check.check << " " << check.subject << ": " << check.detail;
  }
  for (const char* const kind :
       {"master", "store", "daemons", "leases", "architecture", "clocks", "versions", "disks"}) {
    EXPECT_EQ(found(checks, kind).check, kind);
  }
  EXPECT_EQ(found(checks, "daemons").detail, "2 of 2 nodes answer");
}

TEST(ClusterDoctor, NamesAMasterThatDoesNotAnswer) {
  const LocalCluster cluster;
  const ClusterCheck check =
      found(checks_of(cluster, {.masters = {cluster.master->endpoint(), "127.0.0.1:1"}}), "master");
  EXPECT_EQ(check.outcome, Outcome::kError);
  EXPECT_EQ(check.subject, "127.0.0.1:1");
  EXPECT_THAT(check.detail, HasSubstr("nobody answers at '127.0.0.1:1'"));
  EXPECT_THAT(check.remedy, HasSubstr("start it"));
}

// A store that can fall silent.
class FragileStore : public store::InProcessStore {
 public:
  Result<store::MaybeEntry> read(std::string_view key, Milliseconds timeout) override {
    if (is_silent) return Error{ErrorCode::kUnavailable, "no member of etcd answers"};
    return InProcessStore::read(key, timeout);
  }
  std::atomic<bool> is_silent = false;
};

TEST(ClusterDoctor, NamesAStoreThatDoesNotAnswer) {
  FragileStore store;
  const auto master = cluster::RunningMaster::start(store, {}).value();
  store.is_silent = true;
  const auto dialer = cluster::Messenger::create().value();
  const ClusterCheck check =
      found(tools::check_cluster({.masters = {master->endpoint()}}, *dialer), "store");
  EXPECT_EQ(check.outcome, Outcome::kError);
  EXPECT_THAT(check.detail, HasSubstr("no member of etcd answers"));
  EXPECT_THAT(check.remedy, HasSubstr("etcdctl endpoint health"));
}

TEST(ClusterDoctor, NamesADaemonThatDoesNotAnswer) {
  LocalCluster cluster;
  add_node(cluster, "gone", "127.0.0.1:1");
  cluster.wait_for_nodes(2);
  const auto checks = checks_of(cluster);
  EXPECT_EQ(found(checks, "daemon").outcome, Outcome::kError);
  EXPECT_EQ(found(checks, "daemon").subject, "gone");
  EXPECT_EQ(found(checks, "daemons").detail, "1 of 2 nodes answer");
}

TEST(ClusterDoctor, MeasuresClocks) {
  json health = healthy();
  EXPECT_EQ(with_daemon("clock", health).check, "none");
  health["ahead_ms"] = 600;
  EXPECT_EQ(with_daemon("clock", health).outcome, Outcome::kWarning);
  health["ahead_ms"] = -60000;
  const ClusterCheck check = with_daemon("clock", health);
  EXPECT_EQ(check.outcome, Outcome::kError);
  EXPECT_EQ(check.subject, "odd");
  EXPECT_THAT(check.detail, HasSubstr(" ms behind this machine's"));
}

TEST(ClusterDoctor, ComparesVersions) {
  json health = healthy();
  health["version"] = "0.0.9";
  const ClusterCheck check = with_daemon("versions", health);
  EXPECT_EQ(check.outcome, Outcome::kWarning);
  EXPECT_THAT(check.remedy, HasSubstr("finish the upgrade"));
}

TEST(ClusterDoctor, LooksAtLeases) {
  json health = healthy();
  health["lease"]["left_ms"] = 300;
  EXPECT_EQ(with_daemon("lease", health).outcome, Outcome::kWarning);
  health["lease"]["held"] = false;
  const ClusterCheck check = with_daemon("lease", health);
  EXPECT_EQ(check.outcome, Outcome::kError);
  EXPECT_EQ(check.detail, "it has no lease, so it has given up its cores");
}

TEST(ClusterDoctor, LooksForRoomOnDisks) {
  json health = healthy();
  const auto with_free = [&](std::int64_t free) {
    health["folders"] = {{{"path", "/var"}, {"bytes", 1'000'000'000}, {"free_bytes", free}}};
    return with_daemon("disk", health);
  };
  EXPECT_EQ(with_free(500'000'000).check, "none");
  EXPECT_EQ(with_free(60'000'000).outcome, Outcome::kWarning);
  const ClusterCheck check = with_free(10'000'000);
  EXPECT_EQ(check.outcome, Outcome::kError);
  EXPECT_EQ(check.detail, "'/var' has 0.0 of 1.0 GB free");
  health["folders"] = {{{"path", "/nowhere"}, {"error", "No such file or directory"}}};
  EXPECT_EQ(with_daemon("disk", health).outcome, Outcome::kError);
}

TEST(ClusterDoctor, ComparesFingerprintsOfArchitectures) {
  json health = healthy();
  health["cards"] = {{{"arch", "cloud16"}, {"fingerprint", "0123456789abcdef"}}};
  const ClusterCheck differ = with_daemon("architecture", health);
  EXPECT_EQ(differ.outcome, Outcome::kError);
  EXPECT_THAT(differ.detail, HasSubstr("cloud16 differ: 0123456789abcdef on odd"));
  health["cards"] = {{{"arch", "edge"}, {"fingerprint", "0123456789abcdef"}}};
  const ClusterCheck other = with_daemon("architecture", health);
  EXPECT_EQ(other.outcome, Outcome::kWarning);
  EXPECT_EQ(other.subject, "edge");
}

// A certificate that is valid for so many days from now.
std::string certificate(const std::string& name, int days) {
  const std::string path =
      (std::filesystem::temp_directory_path() / (name + std::to_string(getpid()) + ".pem"))
          .string();
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const made = X509_new();
  constexpr long kDay = 86400;
  X509_gmtime_adj(X509_getm_notBefore(made), -400 * kDay);
  X509_gmtime_adj(X509_getm_notAfter(made), days * kDay + 60);
  X509_set_pubkey(made, key);
  const auto* const text = reinterpret_cast<const unsigned char*>("node1");
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_sign(made, key, EVP_sha256());
  std::FILE* const file = std::fopen(path.c_str(), "w");
  PEM_write_X509(file, made);
  std::fclose(file);
  X509_free(made);
  EVP_PKEY_free(key);
  return path;
}

TEST(ClusterDoctor, SaysWhenCertificatesEnd) {
  const LocalCluster cluster;
  const auto check = [&](const std::string& path) {
    return found(checks_of(cluster, {.certificates = {path}}), "certificate");
  };
  const auto of_days = [&](int days) {
    const std::string path = certificate("certificate", days);
    const ClusterCheck result = check(path);
    std::filesystem::remove(path);
    return result;
  };
  EXPECT_EQ(of_days(300).outcome, Outcome::kOk);
  EXPECT_EQ(of_days(20).outcome, Outcome::kWarning);
  EXPECT_EQ(of_days(20).detail, "CN = node1: 20 days left");
  EXPECT_EQ(of_days(3).outcome, Outcome::kError);
  EXPECT_EQ(of_days(-5).detail, "CN = node1: ended 5 days ago");
  EXPECT_THAT(of_days(-5).remedy, HasSubstr("renew it"));
  EXPECT_THAT(check("/nowhere/a.pem").detail, HasSubstr("cannot read certificate"));
  EXPECT_THAT(check("/proc/self/status").detail, HasSubstr("status"));
}

}  // namespace
}  // namespace tessera::testing

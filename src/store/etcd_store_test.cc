// The client of etcd while members are killed, stopped and cut off: real processes.
#include "store/etcd_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "store/lease_keeper.h"
#include "store/local_etcd.h"
#include "store/testing/store_fixture.h"
#include "transport/testing/certificates.h"

namespace tessera::store {
namespace {

using testing::kLimit;
using testing::TestEtcd;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class EtcdMembers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why_not = testing::why_no_etcd()) GTEST_SKIP() << *why_not;
    etcd_ = TestEtcd::start(3);
    ASSERT_TRUE(etcd_);
    store_ = etcd_->connect();
  }
  LocalEtcd& etcd() { return etcd_->etcd(); }

  void put_until_done(const std::string& key, const std::string& value) {
    const auto deadline = Clock::now() + kLimit;
    for (;;) {
      const Result<CommitResult> result = store_->commit({.puts = {{key, value}}}, 5s);
      if (result.ok()) {
        ASSERT_TRUE(result->succeeded());
        return;
      }
      ASSERT_EQ(result.error().code, ErrorCode::kUnavailable) << result.error().to_string();
      ASSERT_LT(Clock::now(), deadline) << result.error().to_string();
    }
  }

  std::unique_ptr<TestEtcd> etcd_;
  std::unique_ptr<Store> store_;
};

TEST_F(EtcdMembers, AWatchAndAllCallsGoOnWhenAnyOneMemberIsKilled) {
  const auto watch = store_->watch("/k/", {}, kLimit).value();
  Revision last = 0;
  for (int member = 0; member < 3; ++member) {  // one of them leads
    etcd().kill(member);
    put_until_done("/k/a", std::to_string(member));
    const Result<MaybeEntry> found = store_->read("/k/a", kLimit);
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    EXPECT_EQ(found->entry->value, std::to_string(member));
    // All changes up to this one, none twice; one whose outcome was not known may have been made twice.
    std::string seen;
    while (seen != std::to_string(member)) {
      const std::optional<Batch> batch = watch->next(kLimit).value();
      ASSERT_TRUE(batch && !batch->is_gap);
      for (const Change& change : batch->changes) {
        EXPECT_GT(change.entry.modified, last);
        last = change.entry.modified;
        seen = change.entry.value;
      }
    }
    ASSERT_TRUE(etcd().restart(member).ok());
  }
}

TEST_F(EtcdMembers, AWatchAndAllCallsGoOnWhenAnyOneMemberIsStopped) {
  const auto watch = store_->watch("/k/", {}, kLimit).value();
  for (int member = 0; member < 3; ++member) {
    etcd().pause(member);
    put_until_done("/k/a", std::to_string(member));
    std::string seen;
    while (seen != std::to_string(member)) {
      const std::optional<Batch> batch = watch->next(kLimit).value();
      ASSERT_TRUE(batch && !batch->is_gap);
      seen = batch->changes.back().entry.value;
    }
    etcd().resume(member);
  }
}

TEST_F(EtcdMembers, WithoutAQuorumCallsSaySoWithinTheirTimeAndGoOnWithIt) {
  const Revision revision = store_->commit({.puts = {{"/k/a", "1"}}}, kLimit)->revision;
  etcd().kill(0);
  etcd().kill(1);
  const auto began = Clock::now();
  const Result<MaybeEntry> read = store_->read("/k/a", 4s);
  EXPECT_LT(Clock::now() - began, 4s + kLimit);  // it came back
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(read.error().message.find("read '/k/a': no quorum within 4000 ms"), std::string::npos)
      << read.error().message;
  const Result<CommitResult> commit = store_->commit({.puts = {{"/k/a", "2"}}}, 2s);
  ASSERT_FALSE(commit.ok());
  EXPECT_NE(commit.error().message.find("commit: no quorum within 2000 ms"), std::string::npos)
      << commit.error().message;
  EXPECT_EQ(store_->grant_lease(2s, 500ms).error().code, ErrorCode::kUnavailable);
  // The member that is left refuses, so nothing was changed.
  ASSERT_TRUE(etcd().restart(0).ok());
  const Result<MaybeEntry> after = store_->read("/k/a", kLimit);
  ASSERT_TRUE(after.ok()) << after.error().to_string();
  EXPECT_EQ(after->entry->modified, revision);
}

TEST_F(EtcdMembers, WhereNoMemberCanBeReachedTheErrorNamesThemAll) {
  for (int member = 0; member < 3; ++member) etcd().kill(member);
  const Result<MaybeEntry> read = store_->read("/a", 5s);
  ASSERT_FALSE(read.ok());
  const auto& at = etcd().endpoints();
  EXPECT_NE(read.error().message.find("read '/a': no member can be reached within 5000 ms"),
            std::string::npos)
      << read.error().message;
  for (const std::string& endpoint : at) {
    EXPECT_NE(read.error().message.find(endpoint + ": cannot be reached"), std::string::npos)
        << read.error().message;
  }
}

TEST_F(EtcdMembers, AChangeOfUnknownOutcomeSaysThatItIsUnknown) {
  ASSERT_TRUE(store_->read("/a", kLimit).ok());
  for (int member = 0; member < 3; ++member) etcd().pause(member);
  const Result<CommitResult> commit = store_->commit({.puts = {{"/a", "1"}}}, 500ms);
  for (int member = 0; member < 3; ++member) etcd().resume(member);
  ASSERT_FALSE(commit.ok());
  EXPECT_EQ(commit.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(commit.error().message.find("whether it was carried out is not known: read again"),
            std::string::npos)
      << commit.error().message;
}

TEST_F(EtcdMembers, AKeeperHoldsItsLeaseWhileTheLeaderChanges) {
  LeaseKeeper keeper(*store_, Clock::now, {.ttl = 5s, .timeout = 1s});
  keeper.hold(keeper.grant().value());
  ASSERT_TRUE(store_->commit({.puts = {{"/k/a", "1", keeper.lease()}}}, kLimit)->succeeded());
  for (int member = 0; member < 3; ++member) {
    const auto before = keeper.held_until();
    etcd().kill(member);
    const auto deadline = Clock::now() + kLimit;
    while (keeper.held_until() == before && Clock::now() < deadline) {
      ASSERT_NE(keeper.renew_if_due(), LeaseKeeper::Renewal::kEnded);
      std::this_thread::yield();
    }
    EXPECT_GT(keeper.held_until(), before);
    ASSERT_TRUE(etcd().restart(member).ok());
  }
  EXPECT_TRUE(store_->read("/k/a", kLimit)->entry.has_value());
}

TEST_F(EtcdMembers, ACompactionWhileAWatchIsCutOffIsAGap) {
  // The watch begins at a member that then loses the others, and is behind when it hears of them.
  const auto own = connect_etcd({.endpoints = {etcd().endpoints()[2]}}).value();
  const auto watch = own->watch("/k/", {}, kLimit).value();
  ASSERT_TRUE(store_->commit({.puts = {{"/k/a", "0"}}}, kLimit)->succeeded());
  ASSERT_TRUE(watch->next(kLimit).value());
  etcd().kill(2);
  put_until_done("/k/a", "1");
  put_until_done("/k/a", "2");
  const Revision last = store_->read("/k/a", kLimit)->revision;
  ASSERT_TRUE(store_->compact(last, kLimit).ok());
  ASSERT_TRUE(etcd().restart(2).ok());
  const std::optional<Batch> batch = watch->next(kLimit).value();
  ASSERT_TRUE(batch);
  EXPECT_TRUE(batch->is_gap);
  EXPECT_EQ(batch->revision, last);
}

// One member with TLS for its clients, in a folder of its own.
class SecureEtcd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why_not = testing::why_no_etcd()) GTEST_SKIP() << *why_not;
    const transport::TlsFiles files = authority_.sign("etcd");
    auto etcd = LocalEtcd::start({.folder = folder_ + "/etcd",
                                  .authority_file = files.authority,
                                  .certificate_file = files.certificate,
                                  .key_file = files.key});
    ASSERT_TRUE(etcd.ok()) << etcd.error().to_string();
    etcd_ = std::move(etcd).value();
  }
  ~SecureEtcd() override {
    etcd_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  Result<MaybeEntry> read_with(const EtcdOptions& options) {
    const auto store = connect_etcd(options);
    if (!store.ok()) return store.error();
    return (*store)->read("/a", 2s);
  }

  const std::string folder_ =
      ::testing::TempDir() + "tessera_secure_etcd_" + std::to_string(::getpid());
  transport::testing::Authority authority_{folder_ + "/a"}, other_{folder_ + "/b"};
  std::unique_ptr<LocalEtcd> etcd_;
};

TEST_F(SecureEtcd, ACertificateOfTheAuthorityIsLetInAndNothingElse) {
  const transport::TlsFiles own = authority_.sign("tessera"), foreign = other_.sign("tessera");
  EtcdOptions options{.endpoints = etcd_->endpoints(),
                      .authority_file = own.authority,
                      .certificate_file = own.certificate,
                      .key_file = own.key};
  const Result<MaybeEntry> let_in = read_with(options);
  EXPECT_TRUE(let_in.ok()) << let_in.error().to_string();
  options.certificate_file = foreign.certificate;
  options.key_file = foreign.key;
  EXPECT_EQ(read_with(options).error().code, ErrorCode::kUnavailable);
  options.authority_file = foreign.authority;
  EXPECT_EQ(read_with(options).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(read_with({.endpoints = etcd_->endpoints()}).error().code, ErrorCode::kUnavailable);
}

TEST(EtcdUser, IsAskedForHisPasswordAndRefusedByWhatHeMayNot) {
  if (const auto why_not = testing::why_no_etcd()) GTEST_SKIP() << *why_not;
  if (!find_etcd("etcdctl").ok()) {
    GTEST_SKIP() << "etcdctl is not installed: users of etcd are not tested";
  }
  const auto etcd = TestEtcd::start(1);
  ASSERT_TRUE(etcd);
  const std::string at = "ETCDCTL_API=3 etcdctl --endpoints=" + etcd->etcd().endpoints()[0] + " ";
  for (const char* command :
       {"user add root:r", "user add tessera:secret", "role add tessera",
        "role grant-permission --prefix=true tessera readwrite /tessera/",
        "user grant-role tessera tessera", "user grant-role root root", "auth enable"}) {
    ASSERT_EQ(std::system((at + command + " > /dev/null").c_str()), 0) << command;
  }
  const std::string password =
      ::testing::TempDir() + "tessera_password_" + std::to_string(::getpid());
  std::ofstream(password) << "secret\n";
  std::filesystem::permissions(
      password, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto store =
      connect_etcd(
          {.endpoints = etcd->etcd().endpoints(), .user = "tessera", .password_file = password})
          .value();
  LeaseKeeper keeper(*store, Clock::now, {.ttl = 2s, .timeout = kLimit});
  keeper.hold(keeper.grant().value());
  const auto watch = store->watch("/tessera/", {}, kLimit).value();
  EXPECT_TRUE(store->commit({.puts = {{"/tessera/a", "1", keeper.lease()}}}, kLimit)->succeeded());
  EXPECT_TRUE(watch->next(kLimit).value());
  EXPECT_TRUE(store->renew_lease(keeper.lease(), kLimit)->is_alive);
  const Result<MaybeEntry> elsewhere = store->read("/other", kLimit);
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(elsewhere.error().message.find("permission denied"), std::string::npos);
  const auto refused = store->watch("/other", {.from = 1}, kLimit).value()->next(kLimit);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << refused.error().to_string();
  std::ofstream(password) << "wrong\n";
  const auto wrong =
      connect_etcd(
          {.endpoints = etcd->etcd().endpoints(), .user = "tessera", .password_file = password})
          .value()
          ->read("/tessera/a", kLimit);
  std::filesystem::remove(password);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("authentication failed"), std::string::npos)
      << wrong.error().message;
}

std::string error_of(const EtcdOptions& options) {
  const auto store = connect_etcd(options);
  return store.ok() ? "fine" : store.error().to_string();
}

TEST(EtcdOptions, WrongOnesAreRefusedByName) {
  EXPECT_EQ(error_of({}),
            "etcd: no endpoint, at least one HOST:PORT is needed   [invalid argument]");
  EXPECT_EQ(error_of({.endpoints = {"http://127.0.0.1:2379"}}),
            "etcd: endpoint 'http://127.0.0.1:2379', allowed is HOST:PORT   [invalid argument]");
  EXPECT_EQ(
      error_of({.endpoints = {"a:1"}, .certificate_file = "c", .key_file = "k"}),
      "etcd: a certificate or key without the authority that signs the servers'; name its file "
      "  [invalid argument]");
  EXPECT_EQ(
      error_of({.endpoints = {"a:1"}, .authority_file = "a", .key_file = "k"}),
      "etcd: a certificate needs its key, and a key its certificate; name both files or none   "
      "[invalid argument]");
  EXPECT_EQ(error_of({.endpoints = {"a:1"}, .authority_file = "/nowhere"}),
            "etcd: the file of the authority '/nowhere' is empty or cannot be read   [invalid "
            "argument]");
  EXPECT_EQ(
      error_of({.endpoints = {"a:1"}, .user = "u"}),
      "etcd: a user needs the file of the password, and the file its user   [invalid argument]");
}

TEST(LocalEtcd, WhereThereIsNoEtcdTheErrorSaysWhatToInstall) {
  EXPECT_EQ(
      find_etcd("no_such_etcd").error().to_string(),
      "no program 'no_such_etcd'; install etcd (Debian: etcd-server), or do without: the store "
      "in the process needs none   [unsupported]");
}

TEST(LocalEtcd, AMemberThatCannotStartIsShownWithTheEndOfItsLog) {
  if (const auto why_not = testing::why_no_etcd()) GTEST_SKIP() << *why_not;
  const std::string folder = ::testing::TempDir() + "tessera_broken_etcd";
  const auto etcd = LocalEtcd::start({.folder = folder, .arguments = {"--no-such-option"}});
  std::filesystem::remove_all(folder);
  ASSERT_FALSE(etcd.ok());
  EXPECT_NE(etcd.error().message.find("member 0 ended"), std::string::npos) << etcd.error().message;
  EXPECT_NE(etcd.error().message.find("no-such-option"), std::string::npos) << etcd.error().message;
}

}  // namespace
}  // namespace tessera::store

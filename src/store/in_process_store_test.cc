// The store in the process with manual time, as simulations use it.
#include "store/in_process_store.h"

#include <gtest/gtest.h>

#include "store/election.h"

namespace tessera::store {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds kNow{0};

class ManualStore : public ::testing::Test {
 protected:
  Revision put(const std::string& key, LeaseId lease = 0) {
    return store_.commit({.puts = {{key, "v", lease}}}, kNow)->revision;
  }
  bool has(const std::string& key) { return store_.read(key, kNow)->entry.has_value(); }

  InProcessStore store_{StoreTime::kManual, 100};
};

TEST_F(ManualStore, ALeaseEndsAtItsMillisecondAndNotBefore) {
  const LeaseId lease = store_.grant_lease(50ms, kNow)->id;
  put("/a", lease);
  EXPECT_EQ(store_.next_lease_end(), 50ms);
  store_.advance(49ms);
  EXPECT_TRUE(has("/a"));
  store_.advance(1ms);
  EXPECT_FALSE(has("/a"));
  EXPECT_EQ(store_.now(), 50ms);
  EXPECT_EQ(store_.next_lease_end(), std::chrono::milliseconds::max());
}

TEST_F(ManualStore, ARenewedLeaseHasItsWholeTimeAgain) {
  const LeaseId lease = store_.grant_lease(50ms, kNow)->id;
  store_.advance(49ms);
  EXPECT_TRUE(store_.renew_lease(lease, kNow)->is_alive);
  store_.advance(49ms);
  EXPECT_TRUE(store_.renew_lease(lease, kNow)->is_alive);
  store_.advance(50ms);
  EXPECT_FALSE(store_.renew_lease(lease, kNow)->is_alive);
}

TEST_F(ManualStore, LeasesEndInTheOrderOfTheirEndsWhateverTheStep) {
  const LeaseId late = store_.grant_lease(90ms, kNow)->id,
                early = store_.grant_lease(30ms, kNow)->id;
  put("/late", late);
  put("/early", early);
  const auto watch = store_.watch("/", {}, kNow).value();
  store_.advance(1000ms);
  const Batch batch = *watch->next(kNow).value();
  ASSERT_EQ(batch.changes.size(), 2U);
  EXPECT_EQ(batch.changes[0].entry.key, "/early");
  EXPECT_EQ(batch.changes[1].entry.key, "/late");
}

TEST_F(ManualStore, NothingWaitsWhateverTimeItIsGiven) {
  const auto watch = store_.watch("/", {}, 10h).value();
  EXPECT_FALSE(watch->next(10h).value());
  const LeaseId first = store_.grant_lease(1h, kNow)->id, second = store_.grant_lease(2h, kNow)->id;
  (void)Candidate::stand(store_, "/m", "a", first, kNow).value();
  Candidate b = Candidate::stand(store_, "/m", "b", second, kNow).value();
  EXPECT_FALSE(b.wait_until_leading(10h).value());
  store_.advance(1h);
  EXPECT_TRUE(b.wait_until_leading(10h).value());
}

TEST_F(ManualStore, AReaderBehindTheBoundOfTheHistoryFindsAGap) {
  const auto watch = store_.watch("/", {}, kNow).value();
  for (int i = 0; i < 101; ++i) put("/a");
  const Batch batch = *watch->next(kNow).value();
  EXPECT_TRUE(batch.is_gap);
  EXPECT_EQ(
      store_.watch("/", {.from = batch.revision}, kNow).value()->next(kNow).value()->changes.size(),
      100U);
}

TEST_F(ManualStore, AnUnavailableStoreSaysWhyAndEndsNoLease) {
  const LeaseId lease = store_.grant_lease(50ms, kNow)->id;
  put("/a", lease);
  store_.set_unavailable("no quorum");
  EXPECT_EQ(store_.read("/a", kNow).error().to_string(),
            "store in process: no quorum   [unavailable]");
  EXPECT_EQ(store_.commit({.puts = {{"/b", "v"}}}, kNow).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(store_.renew_lease(lease, kNow).error().code, ErrorCode::kUnavailable);
  store_.advance(1000ms);
  store_.set_unavailable("");
  EXPECT_TRUE(has("/a"));
  EXPECT_FALSE(has("/b"));
  store_.advance(49ms);
  EXPECT_TRUE(has("/a"));
  store_.advance(1ms);
  EXPECT_FALSE(has("/a"));
}

TEST_F(ManualStore, AWatchMayOutliveItsStoreAndFindsNothingMore) {
  auto store = std::make_unique<InProcessStore>(StoreTime::kManual);
  const auto watch = store->watch("/", {}, kNow).value();
  store = nullptr;
  EXPECT_FALSE(watch->next(kNow).value());
}

}  // namespace
}  // namespace tessera::store

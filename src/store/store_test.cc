// What every store does. Each test runs on the store in the process and on etcd.
#include "store/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "store/election.h"
#include "store/lease_keeper.h"
#include "store/testing/store_fixture.h"

namespace tessera::store {
namespace {

using testing::kLimit;
using namespace std::chrono_literals;

template <typename Maker>
class AnyStore : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto why_not = testing::why_no_etcd();
    if (std::is_same_v<Maker, testing::EtcdMaker> && why_not) GTEST_SKIP() << *why_not;
    store_ = Maker::make();
    ASSERT_TRUE(store_);
    prefix_ =
        std::string("/") + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
  }

  std::string key(const std::string& name) const { return prefix_ + name; }
  CommitResult commit(const Transaction& transaction) {
    const Result<CommitResult> result = store_->commit(transaction, kLimit);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().to_string());
    return result.ok() ? *result : CommitResult{.outcome = CommitOutcome::kComparisonFailed};
  }
  Revision put(const std::string& name, const std::string& value, LeaseId lease = 0) {
    const CommitResult result = commit({.puts = {{key(name), value, lease}}});
    EXPECT_TRUE(result.succeeded());
    return result.revision;
  }
  MaybeEntry read(const std::string& name) { return store_->read(key(name), kLimit).value(); }
  std::unique_ptr<Watch> watch(Revision from) {
    return store_->watch(prefix_, {.from = from}, kLimit).value();
  }
  // The next `count` changes, however they are batched.
  static std::vector<Change> take(Watch& watch, std::size_t count) {
    std::vector<Change> taken;
    Revision last = 0;
    while (taken.size() < count) {
      const std::optional<Batch> batch = watch.next(kLimit).value();
      if (!batch || batch->is_gap) {
        ADD_FAILURE() << "no changes: " << taken.size() << " of " << count;
        break;
      }
      EXPECT_GT(batch->changes.front().entry.modified, last);
      last = batch->revision;
      EXPECT_EQ(batch->changes.back().entry.modified, last);
      taken.insert(taken.end(), batch->changes.begin(), batch->changes.end());
    }
    return taken;
  }
  // Waits until the entry is gone.
  void wait_until_gone(Watch& watch, const std::string& name) {
    for (;;) {
      const std::optional<Batch> batch = watch.next(kLimit).value();
      ASSERT_TRUE(batch && !batch->is_gap);
      for (const Change& change : batch->changes) {
        if (change.kind == ChangeKind::kDelete && change.entry.key == key(name)) return;
      }
    }
  }

  std::unique_ptr<Store> store_;
  std::string prefix_;
};

using Makers = ::testing::Types<testing::InProcessMaker, testing::EtcdMaker>;
struct MakerName {
  template <typename Maker>
  static std::string GetName(int) {
    return std::is_same_v<Maker, testing::EtcdMaker> ? "Etcd" : "InProcess";
  }
};
TYPED_TEST_SUITE(AnyStore, Makers, MakerName);

TYPED_TEST(AnyStore, AnEntryHasTheRevisionsOfItsMakingAndOfItsLastChange) {
  const Revision made = this->put("a", "1");
  const Revision changed = this->put("a", "2");
  EXPECT_EQ(changed, made + 1);
  const MaybeEntry found = this->read("a");
  EXPECT_EQ(found.revision, changed);
  ASSERT_TRUE(found.entry);
  EXPECT_EQ(*found.entry,
            (Entry{.key = this->key("a"), .value = "2", .created = made, .modified = changed}));
}

TYPED_TEST(AnyStore, AnEntryThatIsMadeAgainHasANewRevisionOfItsMaking) {
  this->put("a", "1");
  this->commit({.deletes = {this->key("a")}});
  EXPECT_FALSE(this->read("a").entry);
  const Revision again = this->put("a", "1");
  EXPECT_EQ(this->read("a").entry->created, again);
}

TYPED_TEST(AnyStore, APrefixIsReadInTheOrderOfItsKeysAndNothingBesides) {
  this->put("b", "2");
  this->put("a\xff", "1");
  this->put("a", "0");
  const std::string beside = this->prefix_.substr(0, this->prefix_.size() - 1) + "0";
  this->commit({.puts = {{beside, "no"}}});
  const Entries found = this->store_->read_prefix(this->prefix_, kLimit).value();
  ASSERT_EQ(found.entries.size(), 3U);
  EXPECT_EQ(found.entries[0].key, this->key("a"));
  EXPECT_EQ(found.entries[1].key, this->key("a\xff"));
  EXPECT_EQ(found.entries[2].key, this->key("b"));
  const Entries everything = this->store_->read_prefix("", kLimit).value();
  EXPECT_GE(everything.entries.size(), 4U);
}

TYPED_TEST(AnyStore, KeysAndValuesAreBytes) {
  const std::string bytes("\0\xff\n\x80", 4);
  this->put(bytes, bytes);
  EXPECT_EQ(this->read(bytes).entry->value, bytes);
}

TYPED_TEST(AnyStore, ChangesAreMadeAllOrNone) {
  const Revision revision = this->put("a", "1");
  const CommitResult failed =
      this->commit({.comparisons = {modified_at(this->key("a"), revision), absent(this->key("a"))},
                    .puts = {{this->key("b"), "x"}},
                    .deletes = {this->key("a")}});
  EXPECT_EQ(failed.outcome, CommitOutcome::kComparisonFailed);
  EXPECT_EQ(failed.revision, revision);
  EXPECT_TRUE(this->read("a").entry);
  EXPECT_FALSE(this->read("b").entry);
  const CommitResult done = this->commit({.comparisons = {modified_at(this->key("a"), revision)},
                                          .puts = {{this->key("b"), "x"}, {this->key("c"), "y"}},
                                          .deletes = {this->key("a")}});
  EXPECT_TRUE(done.succeeded());
  EXPECT_EQ(done.revision, revision + 1);
  EXPECT_FALSE(this->read("a").entry);
  EXPECT_EQ(this->read("b").entry->modified, this->read("c").entry->modified);
}

TYPED_TEST(AnyStore, ComparisonsAreThoseOfNumbersAndOfBytes) {
  const Revision made = this->put("a", "m");
  const Revision changed = this->put("a", "m");
  const auto holds = [&](CompareWith with, Relation relation, Revision revision,
                         const std::string& value) {
    return this
        ->commit({.comparisons = {{.key = this->key("a"),
                                   .with = with,
                                   .relation = relation,
                                   .revision = revision,
                                   .value = value}}})
        .succeeded();
  };
  EXPECT_TRUE(holds(CompareWith::kModified, Relation::kEqual, changed, ""));
  EXPECT_FALSE(holds(CompareWith::kModified, Relation::kEqual, made, ""));
  EXPECT_TRUE(holds(CompareWith::kModified, Relation::kGreater, made, ""));
  EXPECT_TRUE(holds(CompareWith::kModified, Relation::kLess, changed + 1, ""));
  EXPECT_TRUE(holds(CompareWith::kCreated, Relation::kEqual, made, ""));
  EXPECT_TRUE(holds(CompareWith::kCreated, Relation::kNotEqual, changed, ""));
  EXPECT_TRUE(holds(CompareWith::kValue, Relation::kEqual, 0, "m"));
  EXPECT_TRUE(holds(CompareWith::kValue, Relation::kLess, 0, "\xff"));
  EXPECT_TRUE(holds(CompareWith::kValue, Relation::kGreater, 0, "a"));
  EXPECT_FALSE(holds(CompareWith::kValue, Relation::kNotEqual, 0, "m"));
}

TYPED_TEST(AnyStore, AnEntryThatIsNotThereHasRevisionsOfZeroAndNoValue) {
  const auto holds = [&](const Comparison& comparison) {
    return this->commit({.comparisons = {comparison}}).succeeded();
  };
  EXPECT_TRUE(holds(absent(this->key("a"))));
  EXPECT_TRUE(holds(modified_at(this->key("a"), 0)));
  EXPECT_FALSE(holds(has_value(this->key("a"), "")));
  EXPECT_FALSE(holds({.key = this->key("a"),
                      .with = CompareWith::kValue,
                      .relation = Relation::kNotEqual,
                      .value = "x"}));
}

TYPED_TEST(AnyStore, ATransactionThatChangesNothingHasNoRevisionOfItsOwn) {
  const Revision revision = this->put("a", "1");
  EXPECT_EQ(this->commit({.deletes = {this->key("none")}}).revision, revision);
  EXPECT_EQ(this->commit({}).revision, revision);
}

TYPED_TEST(AnyStore, TransactionsBeyondTheLimitsAreRefusedByName) {
  const auto error = [&](const Transaction& transaction) {
    const Result<CommitResult> result = this->store_->commit(transaction, kLimit);
    return result.ok() ? "fine" : result.error().to_string();
  };
  EXPECT_EQ(error({.puts = {{"", "x"}}}),
            "transaction: the key of a put is empty   [invalid argument]");
  EXPECT_EQ(error({.puts = {{"/k", "x"}}, .deletes = {"/k"}}),
            "transaction: key '/k' is changed twice, allowed is one put or delete   [invalid "
            "argument]");
  Transaction many;
  for (int i = 0; i < 129; ++i) many.deletes.push_back("/k" + std::to_string(i));
  EXPECT_EQ(error(many),
            "transaction: 129 puts and deletes, allowed are 128; divide it   [does not fit]");
  EXPECT_EQ(error({.puts = {{"/k", std::string(kTransactionBytesMax, 'x')}}}),
            "transaction: 1048578 bytes of keys and values, allowed are 1048576; divide it   [does "
            "not fit]");
  EXPECT_EQ(error({.deletes = {std::string(5000, 'k')}}),
            "transaction: the key of a delete has 5000 bytes, allowed are 4096   [does not fit]");
}

TYPED_TEST(AnyStore, TheLargestTransactionIsTaken) {
  Transaction largest;
  std::size_t left = kTransactionBytesMax;
  for (std::size_t i = 0; i < kChangesMax; ++i) {
    const std::string name = this->key(std::to_string(1000 + i));
    const std::size_t bytes = kTransactionBytesMax / kChangesMax - name.size();
    largest.puts.push_back({name, std::string(bytes, 'v')});
    largest.comparisons.push_back(absent(name));
    left -= name.size() + bytes;
  }
  std::size_t compared = 0;
  for (const Comparison& each : largest.comparisons) compared += each.key.size();
  largest.puts[0].value.resize(largest.puts[0].value.size() - (compared - left));
  EXPECT_TRUE(this->commit(largest).succeeded());
  EXPECT_EQ(this->store_->read_prefix(this->prefix_, kLimit)->entries.size(), kChangesMax);
}

TYPED_TEST(AnyStore, OneOfManyWhoCompareTheSameRevisionSucceeds) {
  this->put("counter", "0");
  constexpr int kThreads = 8, kRounds = 10;
  std::atomic<int> successes = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int done = 0; done < kRounds;) {
        const MaybeEntry found = this->store_->read(this->key("counter"), kLimit).value();
        const int next = std::stoi(found.entry->value) + 1;
        const CommitResult result =
            this->store_
                ->commit({.comparisons = {modified_at(this->key("counter"), found.entry->modified)},
                          .puts = {{this->key("counter"), std::to_string(next)}}},
                         kLimit)
                .value();
        if (!result.succeeded()) continue;
        ++done;
        ++successes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(successes, kThreads * kRounds);
  EXPECT_EQ(this->read("counter").entry->value, std::to_string(kThreads * kRounds));
}

TYPED_TEST(AnyStore, ALeaseThatNobodyRenewsEndsWithItsEntries) {
  const auto began = std::chrono::steady_clock::now();
  const Lease lease = this->store_->grant_lease(1s, kLimit).value();
  EXPECT_GE(lease.ttl, 1s);
  EXPECT_NE(lease.id, 0);
  const auto watch = this->watch(0);
  const Revision revision = this->put("a", "1", lease.id);
  this->put("b", "1", lease.id);
  this->put("c", "1");
  EXPECT_EQ(this->read("a").entry->lease, lease.id);
  this->take(*watch, 3);
  const std::vector<Change> gone = this->take(*watch, 2);
  // Never before its time. How long after it depends on the machine.
  EXPECT_GE(std::chrono::steady_clock::now() - began, lease.ttl);
  EXPECT_EQ(gone[0].kind, ChangeKind::kDelete);
  EXPECT_EQ(gone[0].entry, (Entry{.key = this->key("a"), .modified = revision + 3}));
  EXPECT_EQ(gone[1].entry, (Entry{.key = this->key("b"), .modified = revision + 3}));
  EXPECT_TRUE(this->read("c").entry);
  EXPECT_FALSE(this->store_->renew_lease(lease.id, kLimit)->is_alive);
}

TYPED_TEST(AnyStore, APutWithALeaseThatHasEndedIsAnOutcome) {
  const Lease lease = this->store_->grant_lease(10s, kLimit).value();
  ASSERT_TRUE(this->store_->revoke_lease(lease.id, kLimit).ok());
  const CommitResult result = this->commit({.puts = {{this->key("a"), "1", lease.id}}});
  EXPECT_EQ(result.outcome, CommitOutcome::kLeaseEnded);
  EXPECT_FALSE(this->read("a").entry);
}

TYPED_TEST(AnyStore, ARevokedLeaseTakesItsEntriesAtOnceAndMayBeRevokedAgain) {
  const Lease lease = this->store_->grant_lease(600s, kLimit).value();
  this->put("a", "1", lease.id);
  EXPECT_TRUE(this->store_->renew_lease(lease.id, kLimit)->is_alive);
  EXPECT_TRUE(this->store_->revoke_lease(lease.id, kLimit).ok());
  EXPECT_FALSE(this->read("a").entry);
  EXPECT_TRUE(this->store_->revoke_lease(lease.id, kLimit).ok());
}

TYPED_TEST(AnyStore, AnEntryBelongsToTheLeaseOfItsLastPut) {
  const Lease first = this->store_->grant_lease(600s, kLimit).value();
  const Lease second = this->store_->grant_lease(600s, kLimit).value();
  this->put("a", "1", first.id);
  this->put("a", "2", second.id);
  this->put("b", "1", first.id);
  this->put("b", "2");
  ASSERT_TRUE(this->store_->revoke_lease(first.id, kLimit).ok());
  EXPECT_EQ(this->read("a").entry->value, "2");
  EXPECT_EQ(this->read("b").entry->value, "2");
  ASSERT_TRUE(this->store_->revoke_lease(second.id, kLimit).ok());
  EXPECT_FALSE(this->read("a").entry);
  EXPECT_TRUE(this->read("b").entry);
}

TYPED_TEST(AnyStore, TheTimeOfALeaseHasBounds) {
  const auto error = [&](std::chrono::milliseconds ttl) {
    return this->store_->grant_lease(ttl, kLimit).error().to_string();
  };
  EXPECT_EQ(error(0ms), "store: a lease of 0 ms, allowed are 1 to 86400000   [invalid argument]");
  EXPECT_EQ(error(48h),
            "store: a lease of 172800000 ms, allowed are 1 to 86400000   [invalid argument]");
}

TYPED_TEST(AnyStore, AKeptLeaseStaysAndEndsWhenItsKeeperStops) {
  LeaseKeeper keeper(*this->store_, std::chrono::steady_clock::now, {.ttl = 2s, .timeout = kLimit});
  EXPECT_EQ(keeper.renew_if_due(), LeaseKeeper::Renewal::kNotDue);
  keeper.hold(keeper.grant().value());
  const auto watch = this->watch(0);
  this->put("a", "1", keeper.lease());
  const auto first = keeper.held_until();
  // Until it has been renewed twice beyond its first end.
  while (keeper.held_until() < first + keeper.ttl()) {
    EXPECT_NE(keeper.renew_if_due(), LeaseKeeper::Renewal::kEnded);
    ASSERT_FALSE(watch->next(100ms).value() && !this->read("a").entry);
  }
  EXPECT_TRUE(this->read("a").entry);
  EXPECT_NE(keeper.forget(), 0);
  EXPECT_EQ(keeper.lease(), 0);
  EXPECT_EQ(keeper.renew_if_due(), LeaseKeeper::Renewal::kNotDue);
  const auto watch_of_end = this->watch(0);
  this->wait_until_gone(*watch_of_end, "a");
  EXPECT_GE(std::chrono::steady_clock::now(), keeper.held_until());
}

TYPED_TEST(AnyStore, AKeeperHearsThatItsLeaseWasEnded) {
  LeaseKeeper keeper(*this->store_, std::chrono::steady_clock::now, {.ttl = 2s, .timeout = kLimit});
  keeper.hold(keeper.grant().value());
  ASSERT_TRUE(this->store_->revoke_lease(keeper.lease(), kLimit).ok());
  const auto last = std::chrono::steady_clock::now() + kLimit;
  auto heard = LeaseKeeper::Renewal::kNotDue;
  while (heard == LeaseKeeper::Renewal::kNotDue && std::chrono::steady_clock::now() < last) {
    heard = keeper.renew_if_due();
    std::this_thread::yield();
  }
  EXPECT_EQ(heard, LeaseKeeper::Renewal::kEnded);
  EXPECT_EQ(keeper.lease(), 0);
  // What is not held, or no more, ends at once.
  const auto another = keeper.grant().value();
  keeper.give_back(another);
  EXPECT_FALSE(this->store_->renew_lease(another.lease.id, kLimit)->is_alive);
  const auto third = keeper.grant().value();
  keeper.hold(third);
  keeper.revoke();
  EXPECT_FALSE(this->store_->renew_lease(third.lease.id, kLimit)->is_alive);
}

TYPED_TEST(AnyStore, AWatchHasTheChangesOfItsPrefixInOrderFromItsRevision) {
  this->put("before", "0");
  const Revision from = this->put("a", "1");
  this->put("a", "2");
  this->commit({.puts = {{"/elsewhere" + this->key("x"), "no"}}});
  this->commit({.puts = {{this->key("c"), "3"}}, .deletes = {this->key("a")}});
  const auto watch = this->watch(from);
  const std::vector<Change> seen = this->take(*watch, 4);
  EXPECT_EQ(seen[0].entry, (Entry{this->key("a"), "1", from, from}));
  EXPECT_EQ(seen[1].entry, (Entry{this->key("a"), "2", from, from + 1}));
  EXPECT_EQ(seen[2], (Change{ChangeKind::kPut, {this->key("c"), "3", from + 3, from + 3}}));
  EXPECT_EQ(seen[3], (Change{ChangeKind::kDelete, {.key = this->key("a"), .modified = from + 3}}));
  EXPECT_FALSE(watch->next(0ms).value());
}

TYPED_TEST(AnyStore, AWatchFromNowOnBeginsBehindTheLastChange) {
  this->put("a", "1");
  const auto watch = this->watch(0);
  const Revision revision = this->put("a", "2");
  EXPECT_EQ(this->take(*watch, 1)[0].entry.modified, revision);
}

TYPED_TEST(AnyStore, AWatchFromARevisionToComeWaitsForIt) {
  const Revision now = this->put("a", "1");
  const auto watch = this->watch(now + 2);
  this->put("a", "2");
  const Revision expected = this->put("a", "3");
  EXPECT_EQ(this->take(*watch, 1)[0].entry.modified, expected);
}

TYPED_TEST(AnyStore, AWatchWhoseChangesWereForgottenFindsAGapAndNothingElse) {
  const Revision first = this->put("a", "1");
  this->put("a", "2");
  const Revision last = this->put("a", "3");
  ASSERT_TRUE(this->store_->compact(last, kLimit).ok());
  const auto watch = this->watch(first);
  const std::optional<Batch> batch = watch->next(kLimit).value();
  ASSERT_TRUE(batch);
  EXPECT_TRUE(batch->is_gap);
  EXPECT_EQ(batch->revision, last);
  this->put("a", "4");
  EXPECT_FALSE(watch->next(100ms).value());
  // Read again, watch from there.
  const Entries again = this->store_->read_prefix(this->prefix_, kLimit).value();
  const auto next = this->watch(again.revision + 1);
  const Revision after = this->put("a", "5");
  EXPECT_EQ(this->take(*next, 1)[0].entry.modified, after);
}

TYPED_TEST(AnyStore, AWatchFromTheRevisionOfACompactionHasIt) {
  this->put("a", "1");
  const Revision last = this->put("a", "2");
  ASSERT_TRUE(this->store_->compact(last, kLimit).ok());
  EXPECT_EQ(this->take(*this->watch(last), 1)[0].entry.modified, last);
}

TYPED_TEST(AnyStore, ACompactionUnderAWatchThatHasSeenEverythingIsNoGap) {
  const auto watch = this->watch(0);
  const Revision first = this->put("a", "1");
  this->take(*watch, 1);
  const Revision last = this->put("a", "2");
  this->take(*watch, 1);
  ASSERT_TRUE(this->store_->compact(last, kLimit).ok());
  ASSERT_GT(last, first);
  const Revision after = this->put("a", "3");
  EXPECT_EQ(this->take(*watch, 1)[0].entry.modified, after);
}

TYPED_TEST(AnyStore, ThousandsOfChangesComeWholeToASlowReader) {
  const auto watch = this->watch(0);
  constexpr int kRounds = 40;
  Transaction transaction;
  for (std::size_t i = 0; i < kChangesMax; ++i) {
    transaction.puts.push_back({this->key(std::to_string(i)), std::string(100, 'v')});
  }
  std::thread writer([&] {
    for (int i = 0; i < kRounds; ++i) this->commit(transaction);
  });
  const std::vector<Change> seen = this->take(*watch, kRounds * kChangesMax);
  writer.join();
  ASSERT_EQ(seen.size(), kRounds * kChangesMax);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end(), [](const Change& a, const Change& b) {
    return a.entry.modified < b.entry.modified;
  }));
}

TYPED_TEST(AnyStore, WhoWaitsForAWatchIsWokenByChangesAndByCancel) {
  const auto watch = this->watch(0);
  std::thread writer([&] { this->put("a", "1"); });
  EXPECT_EQ(this->take(*watch, 1).size(), 1U);
  writer.join();
  std::thread other([&] { watch->cancel(); });
  EXPECT_FALSE(watch->next(kLimit).value());
  other.join();
  EXPECT_FALSE(watch->next(kLimit).value());
}

TYPED_TEST(AnyStore, TheWatchTellsOnceUntilItWasEmptied) {
  std::mutex mutex;
  std::condition_variable changed;
  int told = 0;
  const auto watch = this->store_
                         ->watch(this->prefix_,
                                 {.on_ready =
                                      [&] {
                                        const std::lock_guard lock(mutex);
                                        ++told;
                                        changed.notify_all();
                                      }},
                                 kLimit)
                         .value();
  const auto wait_for = [&](int times) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kLimit, [&] { return told >= times; });
  };
  this->put("a", "1");
  this->put("a", "2");
  ASSERT_TRUE(wait_for(1));
  this->take(*watch, 2);
  EXPECT_FALSE(watch->next(0ms).value());
  EXPECT_EQ(told, 1);
  this->put("a", "3");
  EXPECT_TRUE(wait_for(2));
}

TYPED_TEST(AnyStore, TheFirstCandidateLeadsWithTheRevisionOfItsEntryAsEpoch) {
  Store& store = *this->store_;
  const std::string name = this->key("master");
  EXPECT_FALSE(current_leader(store, name, kLimit).value());
  const LeaseId first = store.grant_lease(600s, kLimit)->id,
                second = store.grant_lease(600s, kLimit)->id;
  Candidate a = Candidate::stand(store, name, "a", first, kLimit).value();
  Candidate b = Candidate::stand(store, name, "b", second, kLimit).value();
  EXPECT_TRUE(a.is_leading(kLimit).value());
  EXPECT_FALSE(b.is_leading(kLimit).value());
  EXPECT_FALSE(b.wait_until_leading(1s).value());
  EXPECT_EQ(current_leader(store, name, kLimit).value(), (Leader{"a", a.epoch(), first}));
  EXPECT_GT(b.epoch(), a.epoch());
}

TYPED_TEST(AnyStore, TheNextCandidateLeadsWhenTheFirstResignsOrItsLeaseEnds) {
  Store& store = *this->store_;
  const std::string name = this->key("master");
  const auto lease = [&] { return store.grant_lease(600s, kLimit)->id; };
  Candidate a = Candidate::stand(store, name, "a", lease(), kLimit).value();
  const LeaseId of_b = lease();
  Candidate b = Candidate::stand(store, name, "b", of_b, kLimit).value();
  Candidate c = Candidate::stand(store, name, "c", lease(), kLimit).value();
  std::thread resigns([&] { EXPECT_TRUE(a.resign(kLimit).ok()); });
  EXPECT_TRUE(b.wait_until_leading(kLimit).value());
  resigns.join();
  std::thread ends([&] { EXPECT_TRUE(store.revoke_lease(of_b, kLimit).ok()); });
  EXPECT_TRUE(c.wait_until_leading(kLimit).value());
  ends.join();
  EXPECT_EQ(current_leader(store, name, kLimit).value()->epoch, c.epoch());
  const Result<bool> gone = b.is_leading(kLimit);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().message,
            "election: the candidate's entry '" + b.key() +
                "' is gone: it resigned, or its lease has ended; stand again");
}

TYPED_TEST(AnyStore, AnEarlierLeaderChangesNothingUnderItsGuard) {
  Store& store = *this->store_;
  const std::string name = this->key("master");
  const LeaseId lease = store.grant_lease(600s, kLimit)->id;
  Candidate a = Candidate::stand(store, name, "a", lease, kLimit).value();
  EXPECT_TRUE(
      this->commit({.comparisons = {a.guard()}, .puts = {{this->key("x"), "1"}}}).succeeded());
  ASSERT_TRUE(a.resign(kLimit).ok());
  Candidate again = Candidate::stand(store, name, "a", lease, kLimit).value();
  EXPECT_GT(again.epoch(), a.epoch());
  EXPECT_FALSE(
      this->commit({.comparisons = {a.guard()}, .puts = {{this->key("x"), "2"}}}).succeeded());
  EXPECT_TRUE(a.resign(kLimit).ok());  // of an entry that is not its own any more
  EXPECT_TRUE(again.is_leading(kLimit).value());
}

TYPED_TEST(AnyStore, StandingAgainWithTheSameLeaseKeepsTheEpochAndChangesTheValue) {
  Store& store = *this->store_;
  const std::string name = this->key("master");
  const LeaseId lease = store.grant_lease(600s, kLimit)->id;
  const Candidate a = Candidate::stand(store, name, "a", lease, kLimit).value();
  const Candidate b = Candidate::stand(store, name, "b", lease, kLimit).value();
  EXPECT_EQ(a.epoch(), b.epoch());
  EXPECT_EQ(current_leader(store, name, kLimit).value(), (Leader{"b", a.epoch(), lease}));
}

TYPED_TEST(AnyStore, AnObserverHearsOfEachLeader) {
  Store& store = *this->store_;
  const std::string name = this->key("master");
  LeaderObserver observer = LeaderObserver::start(store, name, kLimit).value();
  EXPECT_FALSE(observer.leader());
  const auto lease = [&] { return store.grant_lease(600s, kLimit)->id; };
  Candidate a = Candidate::stand(store, name, "a", lease(), kLimit).value();
  EXPECT_TRUE(observer.wait_for_change(kLimit).value());
  EXPECT_EQ(observer.leader()->value, "a");
  Candidate b = Candidate::stand(store, name, "b", lease(), kLimit).value();
  EXPECT_FALSE(observer.wait_for_change(50ms).value());
  ASSERT_TRUE(a.resign(kLimit).ok());
  EXPECT_TRUE(observer.wait_for_change(kLimit).value());
  EXPECT_EQ(observer.leader()->epoch, b.epoch());
  ASSERT_TRUE(b.resign(kLimit).ok());
  EXPECT_TRUE(observer.wait_for_change(kLimit).value());
  EXPECT_FALSE(observer.leader());
}

}  // namespace
}  // namespace tessera::store

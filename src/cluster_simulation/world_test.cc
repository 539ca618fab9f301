#include "cluster_simulation/world.h"

#include <gtest/gtest.h>

#include <vector>

#include "store/election.h"

namespace tessera::cluster_simulation {
namespace {

using namespace std::chrono_literals;

TEST(World, EventsHappenAtTheirMomentsAndInTheirOrder) {
  World world({});
  std::vector<int> seen;
  world.at(20ms, [&] { seen.push_back(2); });
  world.at(10ms, [&] {
    seen.push_back(0);
    world.after(0ms, [&] { seen.push_back(1); });
  });
  world.at(20ms, [&] { seen.push_back(3); });
  world.run_until(19ms);
  EXPECT_EQ(seen, (std::vector<int>{0, 1}));
  world.run_until(20ms);
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(world.now(), 20ms);
}

TEST(World, MessagesOfOneWayKeepTheirOrderAndStopAtACut) {
  World world({.delay_min = 1ms, .delay_max = 50ms});
  std::vector<int> seen;
  for (int i = 0; i < 20; ++i) world.send("a", "b", [&seen, i] { seen.push_back(i); });
  world.run_until(1s);
  ASSERT_EQ(seen.size(), 20U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  world.send("a", "b", [&] { seen.push_back(-1); });
  world.cut("b", "a");
  world.run_until(2s);
  world.heal("a", "b");
  world.run_until(3s);
  EXPECT_EQ(seen.size(), 20U);
}

TEST(World, WhatAKilledMemberSentOrWantedIsGone) {
  World world({.delay_min = 10ms, .delay_max = 10ms});
  int seen = 0;
  world.send("a", "b", [&] { ++seen; });
  world.at_member("a", 20ms, [&] { ++seen; });
  world.kill("a");
  world.send("a", "b", [&] { seen += 10; });  // of its next life
  world.run_until(1s);
  EXPECT_EQ(seen, 10);
}

TEST(World, AMemberThatIsCutOffFromTheStoreLosesItsLeaseThere) {
  World world({});
  store::Store& a = world.store("a");
  const store::LeaseId lease = a.grant_lease(100ms, 0ms)->id;
  ASSERT_TRUE(a.commit({.puts = {{"/a", "1", lease}}}, 0ms)->succeeded());
  const auto watch = world.store("a").watch("/", {}, 0ms).value();
  world.cut("a", World::kStore);
  EXPECT_EQ(a.renew_lease(lease, 0ms).error().code, ErrorCode::kUnavailable);
  world.run_until(200ms);
  EXPECT_FALSE(watch->next(0ms).value());
  EXPECT_FALSE(world.store("b").read("/a", 0ms)->entry);
  world.heal("a", World::kStore);
  EXPECT_EQ(watch->next(0ms).value()->changes.size(), 1U);
  EXPECT_FALSE(a.renew_lease(lease, 0ms)->is_alive);
}

TEST(World, AnAnswerThatIsLostMayStandForAChangeThatWasMade) {
  World world({.lost_answer_share = 1});
  EXPECT_EQ(world.store("a").commit({.puts = {{"/a", "1"}}}, 0ms).error().code,
            ErrorCode::kUnavailable);
  EXPECT_TRUE(world.whole_store().read("/a", 0ms)->entry);
}

// Three candidates that renew their leases and are cut off from the store at random: the terms of office
// in the order of their beginnings. Each stops to lead before its lease ends.
std::vector<std::pair<store::Epoch, Milliseconds>> elect(std::uint64_t seed) {
  World world({.seed = seed, .lost_answer_share = 0.05});
  constexpr Milliseconds kTtl = 300ms, kHours = 2h;
  struct Member {
    std::string name;
    store::LeaseId lease = 0;
    Milliseconds held_until{0};
    std::optional<store::Candidate> candidate;
  };
  std::vector<Member> members(3);
  std::vector<std::pair<store::Epoch, Milliseconds>> terms;
  const std::function<void(Member&)> step = [&](Member& member) {
    store::Store& store = world.store(member.name);
    if (member.lease != 0) {
      const auto renewal = store.renew_lease(member.lease, 0ms);
      if (renewal.ok() && renewal->is_alive) member.held_until = world.now() + kTtl;
      if (renewal.ok() && !renewal->is_alive) member.lease = 0;
    }
    if (member.lease == 0) {
      member.candidate.reset();
      const auto lease = store.grant_lease(kTtl, 0ms);
      if (lease.ok()) member.lease = lease->id;
    }
    if (member.lease != 0 && !member.candidate) {
      auto stands = store::Candidate::stand(store, "/m", member.name, member.lease, 0ms);
      if (stands.ok()) member.candidate = std::move(stands).value();
    }
    if (member.candidate && world.now() < member.held_until) {
      const auto leads = member.candidate->is_leading(0ms);
      const bool is_new = terms.empty() || terms.back().first != member.candidate->epoch();
      if (leads.ok() && *leads && is_new)
        terms.emplace_back(member.candidate->epoch(), world.now());
    }
    world.after(100ms, [&] { step(member); });
  };
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i].name = "m" + std::to_string(i);
    world.after(Milliseconds(i), [&, i] { step(members[i]); });
  }
  const std::function<void()> break_something = [&] {
    const std::string& name = members[world.random_below(members.size())].name;
    world.cut(name, World::kStore);
    world.after(Milliseconds(static_cast<std::int64_t>(world.random_below(2000))),
                [&, name] { world.heal(name, World::kStore); });
    world.after(1s, break_something);
  };
  world.after(1s, break_something);
  world.run_until(kHours);
  return terms;
}

TEST(World, TheSameSeedGivesTheSameRunAndAnotherOneAnother) {
  const auto first = elect(7);
  EXPECT_GT(first.size(), 100U);
  EXPECT_EQ(elect(7), first);
  EXPECT_NE(elect(8), first);
  // No leader comes again, and each epoch is larger than the one before.
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
}

}  // namespace
}  // namespace tessera::cluster_simulation

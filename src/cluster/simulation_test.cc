// Masters and nodes in simulated time, over a network and a store that fail as one seed says. The same classes run
// in the programs.
//
// At every step each allocation has at most one node that would begin or answer a run of it, whatever is paused, cut
// off or killed; and once everything is whole again, what runs is what is written down.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/test_volume.h"
#include "cluster/master.h"
#include "cluster/node_agent.h"
#include "store/in_process_store.h"

namespace tessera::cluster {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kStep{50};

// A store that one process does not reach.
class Gate : public store::Store {
 public:
  explicit Gate(store::Store& behind) : behind_(behind) {}
  Result<store::Entries> read_prefix(std::string_view prefix, Milliseconds timeout) override {
    if (is_cut) return cut();
    return behind_.read_prefix(prefix, timeout);
  }
  Result<store::MaybeEntry> read(std::string_view key, Milliseconds timeout) override {
    if (is_cut) return cut();
    return behind_.read(key, timeout);
  }
  Result<store::CommitResult> commit(const store::Transaction& transaction,
                                     Milliseconds timeout) override {
    if (is_cut) return cut();
    return behind_.commit(transaction, timeout);
  }
  Result<store::Lease> grant_lease(Milliseconds ttl, Milliseconds timeout) override {
    if (is_cut) return cut();
    return behind_.grant_lease(ttl, timeout);
  }
  Result<store::Renewal> renew_lease(store::LeaseId lease, Milliseconds timeout) override {
    if (is_cut) return cut();
    return behind_.renew_lease(lease, timeout);
  }
  Status revoke_lease(store::LeaseId lease, Milliseconds timeout) override {
    if (is_cut) return cut();
    return behind_.revoke_lease(lease, timeout);
  }
  Result<std::unique_ptr<store::Watch>> watch(std::string_view prefix, store::WatchOptions options,
                                              Milliseconds timeout) override {
    return behind_.watch(prefix, std::move(options), timeout);
  }
  Status compact(store::Revision revision, Milliseconds timeout) override {
    return behind_.compact(revision, timeout);
  }
  std::string describe() const override { return "simulated"; }

  bool is_cut = false;

 private:
  static Error cut() { return {ErrorCode::kUnavailable, "cut off"}; }
  store::Store& behind_;
};

// Cores of one card, each of one allocation at most.
class Cores : public NodeWork {
 public:
  explicit Cores(std::string node) : node_(std::move(node)) {}
  Status grant(const AllocRecord& alloc) override {
    for (const int core : cores_of(alloc)) {
      if (owner_.contains(core)) return Error{ErrorCode::kUnavailable, "taken"};
    }
    for (const int core : cores_of(alloc)) owner_[core] = key_of(alloc);
    return {};
  }
  Status move(const AllocRecord& alloc) override {
    for (const int core : cores_of(alloc)) {
      if (owner_.contains(core) && owner_[core] != key_of(alloc)) {
        return Error{ErrorCode::kUnavailable, "taken"};
      }
    }
    revoke(alloc);
    return grant(alloc);
  }
  void revoke(const AllocRecord& alloc) override {
    std::erase_if(owner_, [&](const auto& one) { return one.second == key_of(alloc); });
  }

 private:
  std::vector<int> cores_of(const AllocRecord& alloc) const {
    const std::vector<AllocPart> parts = parts_on(alloc, node_);
    return parts.empty() ? std::vector<int>() : parts.front().cores;
  }
  const std::string node_;
  std::map<int, AllocKey> owner_;
};

class World : public Caller {
 public:
  // With `several` some allocations are over several cards.
  explicit World(std::uint64_t seed, bool several = false) : random_(seed), several_(several) {
    for (int i = 0; i < 2; ++i) start_master(i);
    for (int i = 0; i < 4; ++i) start_node(i);
  }

  // A request may get lost, and so may its answer.
  Result<json> call(const std::string& endpoint, const json& request,
                    milliseconds /*timeout*/) override {
    const Error lost{ErrorCode::kUnavailable, "lost"};
    if (chance(loses_)) return lost;
    Result<json> answer = lost;
    if (endpoint[0] == 'm') {
      Process<Master>& of = masters_.at(endpoint);
      if (of.logic != nullptr && !of.is_paused) answer = of.logic->handle(request);
    } else {
      Process<NodeAgent>& of = nodes_.at(endpoint);
      if (of.logic != nullptr && !of.is_paused) answer = of.logic->handle(request);
    }
    if (chance(loses_)) return lost;
    return answer;
  }

  void step(bool breaks) {
    loses_ = breaks ? 0.02 : 0;
    store_.advance(kStep);
    if (breaks) break_something();
    use();
    for (auto& [endpoint, of] : masters_) {
      if (of.logic != nullptr && !of.is_paused) of.logic->tick();
    }
    for (auto& [endpoint, of] : nodes_) {
      if (of.logic != nullptr && !of.is_paused) of.logic->tick();
    }
    check_owners();
  }

  void heal() {
    for (int i = 0; i < 2; ++i) heal(masters_.at(fmt::format("m{}", i)), [&] { start_master(i); });
    for (int i = 0; i < 4; ++i) heal(nodes_.at(fmt::format("n{}", i)), [&] { start_node(i); });
  }

  // What runs is what is written down.
  void check_whole() {
    int leaders = 0;
    for (auto& [endpoint, of] : masters_) {
      if (!of.logic->is_leading()) continue;
      ++leaders;
      const json status = of.logic->handle({{"call", "status"}}).value();
      EXPECT_EQ(status["nodes"].size(), 4u);
      std::map<std::string, int> taken;
      for (const json& alloc : status["allocs"]) {
        if (alloc["state"] != "placed") continue;
        const json known =
            of.logic
                ->handle(
                    {{"call", "locate"}, {"alloc", alloc["alloc"]}, {"tenant", alloc["tenant"]}})
                .value();
        AllocRecord record;
        record.id = alloc["alloc"];
        record.tenant = alloc["tenant"];
        record.epoch = alloc["epoch"];
        record.ticket = known["ticket"];
        for (const json& part : alloc.value("cards", json::array({alloc}))) {
          taken[part["node"]] += static_cast<int>(part["cores"].size());
          EXPECT_TRUE(nodes_.at(part["node"]).logic->may_begin(record).ok()) << alloc;
        }
      }
      for (const json& card : status["pool"]) {
        EXPECT_EQ(card["free"].get<int>(), 16 - taken[card["node"]]) << card;
      }
    }
    EXPECT_EQ(leaders, 1);
  }

  std::int64_t acquired = 0, fences = 0, spans = 0;
  bool is_good = true;

 private:
  template <typename Logic>
  struct Process {
    std::unique_ptr<Gate> gate;
    std::unique_ptr<Cores> cores;
    std::unique_ptr<Logic> logic;
    bool is_paused = false;
  };

  bool chance(double part) { return std::uniform_real_distribution<>(0, 1)(random_) < part; }
  int below(int end) { return std::uniform_int_distribution<>(0, end - 1)(random_); }
  Clock clock() {
    return [this] { return steady_clock::time_point(std::chrono::hours(1)) + store_.now(); };
  }

  void start_master(int number) {
    auto& of = masters_[fmt::format("m{}", number)];
    of.gate = std::make_unique<Gate>(store_);
    of.is_paused = false;
    of.logic = std::make_unique<Master>(*of.gate, *this, clock(),
                                        MasterOptions{.endpoint = fmt::format("m{}", number)});
  }
  void start_node(int number) {
    auto& of = nodes_[fmt::format("n{}", number)];
    of.gate = std::make_unique<Gate>(store_);
    of.cores = std::make_unique<Cores>(fmt::format("n{}", number));
    of.is_paused = false;
    NodeOptions options{.id = fmt::format("n{}", number)};
    options.endpoint = options.id;
    options.cards = {{.arch = "card",
                      .fingerprint = "0123456789abcdef",
                      .groups = 4,
                      .cores_per_group = 4,
                      .memory_bytes = 1 << 20}};
    options.log = [this](const json& line) { fences += line["event"] == "fenced" ? 1 : 0; };
    of.logic = std::make_unique<NodeAgent>(*of.gate, *of.cores, *this, clock(), options);
  }

  template <typename Logic>
  void heal(Process<Logic>& of, const auto& start) {
    of.is_paused = false;
    if (of.gate != nullptr) of.gate->is_cut = false;
    if (of.logic == nullptr) start();
  }

  template <typename Logic>
  void harm(Process<Logic>& of, const auto& start) {
    switch (below(4)) {
      case 0:
        of.is_paused = !of.is_paused;
        return;
      case 1:
        if (of.gate != nullptr) of.gate->is_cut = !of.gate->is_cut;
        return;
      case 2:
        of.logic.reset();
        return;
      default:
        heal(of, start);
    }
  }

  void break_something() {
    if (!chance(0.02)) return;
    if (chance(0.3)) {
      const int i = below(2);
      harm(masters_.at(fmt::format("m{}", i)), [&] { start_master(i); });
    } else {
      const int i = below(4);
      harm(nodes_.at(fmt::format("n{}", i)), [&] { start_node(i); });
    }
  }

  // What clients do.
  void use() {
    if (!chance(0.2)) return;
    const std::string name = fmt::format("a{}", below(6));
    const std::string master = fmt::format("m{}", below(2));
    const std::string tenant = below(2) == 0 ? "red" : "blue";  // with names of their own
    switch (below(3)) {
      case 0:
        if (several_ && chance(0.5)) {
          spans += call(master,
                        {{"call", "acquire"},
                         {"tenant", tenant},
                         {"name", name},
                         {"cards", 2 + below(2)},
                         {"cores", 0},
                         {"kept", true}},
                        {})
                           .ok()
                       ? 1
                       : 0;
          return;
        }
        acquired += call(master,
                         {{"call", "acquire"},
                          {"tenant", tenant},
                          {"name", name},
                          {"cores", 1 + below(8)},
                          {"kept", true}},
                         {})
                            .ok()
                        ? 1
                        : 0;
        return;
      case 1:
        (void)call(master, {{"call", "release"}, {"tenant", tenant}, {"alloc", name}}, {});
        return;
      default:
        (void)call(
            master,
            {{"call", "resize"}, {"tenant", tenant}, {"alloc", name}, {"cores", 1 + below(8)}}, {});
    }
  }

  // Also of those that are paused: they could go on now.
  void check_owners() {
    std::map<AllocKey, std::pair<std::string, std::int64_t>> owner;
    for (auto& [endpoint, of] : nodes_) {
      if (of.logic == nullptr) continue;
      for (const AllocRecord& record : of.logic->allocations()) {
        if (!of.logic->may_answer(record).ok()) continue;
        const auto [at, is_first] = owner.try_emplace(key_of(record), endpoint, record.epoch);
        // Nodes of one placement have it together.
        if (is_first || (record.cards_wanted > 1 && at->second.second == record.epoch)) continue;
        is_good = false;
        ADD_FAILURE() << record.tenant << "/" << record.id << " is on " << at->second.first
                      << " and on " << endpoint << " at " << store_.now().count() << " ms";
      }
    }
  }

  std::mt19937_64 random_;
  const bool several_;
  store::InProcessStore store_{store::StoreTime::kManual};
  double loses_ = 0;
  std::map<std::string, Process<Master>> masters_;
  std::map<std::string, Process<NodeAgent>> nodes_;
};

TEST(Simulation, NeverTwoOwnersAndWholeAgainAfterFaults) {
  std::int64_t acquired = 0, fences = 0;
  const std::uint64_t seeds = 240 / static_cast<std::uint64_t>(visit_one_in(20, 80));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World world(seed);
    for (int round = 0; round < 4 && world.is_good; ++round) {
      for (int i = 0; i < 1200 && world.is_good; ++i) world.step(true);
      world.heal();
      for (int i = 0; i < 400 && world.is_good; ++i) world.step(false);
    }
    world.heal();
    ASSERT_TRUE(world.is_good);
    world.check_whole();
    acquired += world.acquired;
    fences += world.fences;
  }
  EXPECT_GT(acquired, 10 * static_cast<std::int64_t>(seeds));
  EXPECT_GT(fences, static_cast<std::int64_t>(seeds));
}

TEST(Simulation, SeveralCardsComeAndGoTogether) {
  std::int64_t spans = 0;
  const std::uint64_t seeds = 240 / static_cast<std::uint64_t>(visit_one_in(40, 120));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World world(seed, true);
    for (int round = 0; round < 3 && world.is_good; ++round) {
      for (int i = 0; i < 1200 && world.is_good; ++i) world.step(true);
      world.heal();
      for (int i = 0; i < 400 && world.is_good; ++i) world.step(false);
    }
    world.heal();
    ASSERT_TRUE(world.is_good);
    world.check_whole();
    spans += world.spans;
  }
  EXPECT_GT(spans, 0);
}

}  // namespace
}  // namespace tessera::cluster

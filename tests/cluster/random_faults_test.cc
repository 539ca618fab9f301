// Requests while daemons, masters and members of the store are killed, paused and cut off at random: none is lost,
// answered twice or answered wrongly, no allocation has two owners at once, and how long nobody is served.
//
//   TESSERA_FAULT_REQUESTS   how many requests       3000
//   TESSERA_FAULT_COUNT      faults at least         2
//   TESSERA_FAULT_SEED       of all that is drawn    1
//   TESSERA_FAULT_SECONDS    then it ends, with fewer requests; 0: never    0
//   TESSERA_FAULT_KIND       of faults those alone whose name has this text; all
//   TESSERA_FAULT_REPORT     a file for the result as JSON
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "../runtime/card_models.h"
#include "arch/architecture_file.h"
#include "cluster_processes.h"
#include "compile/testing/random_graph.h"
#include "network/network.h"
#include "tessera/runtime.h"

namespace tessera {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::BreakingProxy;
using testing::ClusterProcesses;
using testing::Sample;

constexpr int kNodes = 3, kMasters = 2, kMembers = 3, kClients = 3;

std::int64_t setting(const char* name, std::int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

Network small_network() {
  compile::testing::GraphBuilder builder(3);
  const graph::TensorId x = builder.input({1, 8, 4, 4});
  builder.output(builder.conv(x, {.output_channels = 8, .kernel = 3, .pad = 1}));
  return network::network_from_graph(builder.take(), *load_chip_config("cloud16"), {}).value();
}

std::vector<Sample> samples() {
  const Network network = small_network();
  std::vector<Sample> all;
  constexpr unsigned kSamples = 8;
  for (unsigned seed = 1; seed <= kSamples; ++seed) all.emplace_back(network, seed);
  return all;
}

// Who sends requests, several at once, to a processor of its own.
class Client {
 public:
  Client(const std::vector<Sample>& samples, const ClusterProcesses& cluster, int number)
      : samples_(samples), number_(number) {
    const std::string address =
        cluster.address(fmt::format("name=client{}&arch=cloud16&in_flight=4&medium=tcp", number));
    auto runtime = Runtime::open({.devices = {{.cluster = address}}, .metrics = false});
    EXPECT_TRUE(runtime.ok()) << runtime.error().to_string();
    runtime_.emplace(std::move(*runtime));
    pipeline_.emplace(runtime_->open_pipeline(runtime_->load(samples[0].network).value()).value());
  }

  // Until so many are answered, and longer as long as `goes_on`.
  void send(std::int64_t requests, const std::atomic<bool>& goes_on) {
    auto stream = pipeline_->open_stream({.order = StreamOrder::kCompletion});
    last_answer_ = steady_clock::now();
    for (std::int64_t i = 0; (i < requests && !has_no_time_) || goes_on; ++i) {
      constexpr std::int64_t kAtOnce = 16;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return std::ssize(answers_) - answered_ < kAtOnce; });
        answers_.push_back(0);
      }
      const auto place = static_cast<std::size_t>(i);
      const Sample& sample =
          samples_[(place * 5 + static_cast<std::size_t>(number_)) % samples_.size()];
      const auto callback = [this, place, &sample](const TaskOutcome& outcome) {
        note(place, outcome, sample);
      };
      EXPECT_TRUE(stream.submit(sample.inputs, {.callback = callback}).ok());
    }
    stream.wait_until_done();
    is_done_ = true;
  }
  bool is_done() const { return is_done_; }
  void end_soon() { has_no_time_ = true; }

  // The longest time without a right answer since the last call.
  milliseconds take_gap() {
    const std::lock_guard lock(mutex_);
    const auto now = steady_clock::now();
    const auto gap = std::max(gap_, now - last_answer_);
    gap_ = {};
    last_answer_ = now;
    return std::chrono::duration_cast<milliseconds>(gap);
  }
  std::int64_t answered() const {
    const std::lock_guard lock(mutex_);
    return answered_;
  }
  struct Counts {
    std::int64_t requests = 0, lost = 0, twice = 0, wrong = 0, errors = 0;
    std::string first_error;
  };
  Counts counts() const {
    const std::lock_guard lock(mutex_);
    Counts all{std::ssize(answers_), std::ranges::count(answers_, 0), 0, wrong_, errors_,
               first_error_};
    all.twice = std::ranges::count_if(answers_, [](int count) { return count > 1; });
    return all;
  }

 private:
  void note(std::size_t place, const TaskOutcome& outcome, const Sample& sample) {
    const bool is_right = outcome.ok() && outcome.result().outputs() == sample.outputs;
    const std::lock_guard lock(mutex_);
    ++answers_[place];
    ++answered_;
    if (!outcome.ok()) {
      if (errors_++ == 0) first_error_ = outcome.error().error.to_string();
    } else if (!is_right) {
      ++wrong_;
    }
    changed_.notify_all();
    if (!is_right) return;
    const auto now = steady_clock::now();
    gap_ = std::max(gap_, now - last_answer_);
    last_answer_ = now;
  }

  const std::vector<Sample>& samples_;
  const int number_;
  std::optional<Runtime> runtime_;
  std::optional<Pipeline> pipeline_;
  std::atomic<bool> is_done_ = false, has_no_time_ = false;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::uint8_t> answers_;  // of each request, how often
  std::int64_t answered_ = 0, wrong_ = 0, errors_ = 0;
  std::string first_error_;
  steady_clock::time_point last_answer_;
  steady_clock::duration gap_{};
};

// What can be broken, and how it is mended.
enum class Target { kNode, kMaster, kMember };
struct Fault {
  const char* name;
  Target target;
  std::function<void(ClusterProcesses&, std::size_t which)> begin, end;
};

// Where in an answer a connection ends: anywhere in the first 2,000 bytes, another place each time.
std::int64_t next_cut() {
  constexpr std::int64_t kStep = 617, kMost = 2000;
  static std::int64_t at = 0;
  at = (at + kStep) % kMost;
  return at + 1;
}

void hold_all(ClusterProcesses::Proxies& proxies) {
  for (const auto& proxy : proxies) proxy->hold();
}
void pass_all(ClusterProcesses::Proxies& proxies) {
  for (const auto& proxy : proxies) proxy->pass();
}

// Clients and other members: whoever sends it anything. It hears of others what it asks them for itself.
void each_way_to_member(ClusterProcesses& cluster, std::size_t member,
                        void (BreakingProxy::*act)()) {
  (*cluster.to_member[member].*act)();
  for (const auto& proxies : cluster.node_to_store) (*proxies[member].*act)();
  for (const auto& proxies : cluster.master_to_store) (*proxies[member].*act)();
}

std::vector<Fault> faults() {
  using All = ClusterProcesses;
  return {
      {"node killed", Target::kNode, [](All& c, std::size_t i) { c.nodes[i % kNodes]->kill(); },
       [](All& c, std::size_t i) { c.start_node(i % kNodes); }},
      {"node paused", Target::kNode,
       [](All& c, std::size_t i) { c.nodes[i % kNodes]->signal(SIGSTOP); },
       [](All& c, std::size_t i) { c.nodes[i % kNodes]->signal(SIGCONT); }},
      {"node cut off from the store", Target::kNode,
       [](All& c, std::size_t i) { hold_all(c.node_to_store[i % kNodes]); },
       [](All& c, std::size_t i) { pass_all(c.node_to_store[i % kNodes]); }},
      {"node cut off from all", Target::kNode,
       [](All& c, std::size_t i) {
         hold_all(c.node_to_store[i % kNodes]);
         c.to_node[i % kNodes]->hold();
       },
       [](All& c, std::size_t i) {
         pass_all(c.node_to_store[i % kNodes]);
         c.to_node[i % kNodes]->pass();
       }},
      {"node's connection ends in a frame", Target::kNode,
       [](All& c, std::size_t i) { c.to_node[i % kNodes]->cut_after(next_cut()); },
       [](All& c, std::size_t i) { c.to_node[i % kNodes]->pass(); }},
      {"master killed", Target::kMaster,
       [](All& c, std::size_t i) { c.masters[i % kMasters]->kill(); },
       [](All& c, std::size_t i) { c.start_master(i % kMasters); }},
      {"master paused", Target::kMaster,
       [](All& c, std::size_t i) { c.masters[i % kMasters]->signal(SIGSTOP); },
       [](All& c, std::size_t i) { c.masters[i % kMasters]->signal(SIGCONT); }},
      {"master cut off from the store", Target::kMaster,
       [](All& c, std::size_t i) { hold_all(c.master_to_store[i % kMasters]); },
       [](All& c, std::size_t i) { pass_all(c.master_to_store[i % kMasters]); }},
      {"etcd member killed", Target::kMember,
       [](All& c, std::size_t i) { c.etcd->kill(static_cast<int>(i % kMembers)); },
       [](All& c, std::size_t i) {
         EXPECT_TRUE(c.etcd->restart(static_cast<int>(i % kMembers)).ok());
       }},
      {"etcd member paused", Target::kMember,
       [](All& c, std::size_t i) { c.etcd->pause(static_cast<int>(i % kMembers)); },
       [](All& c, std::size_t i) { c.etcd->resume(static_cast<int>(i % kMembers)); }},
      {"etcd member cut off", Target::kMember,
       [](All& c, std::size_t i) { each_way_to_member(c, i % kMembers, &BreakingProxy::hold); },
       [](All& c, std::size_t i) { each_way_to_member(c, i % kMembers, &BreakingProxy::pass); }},
      {"etcd without quorum", Target::kMember,
       [](All& c, std::size_t i) {
         c.etcd->pause(static_cast<int>(i % kMembers));
         c.etcd->pause(static_cast<int>((i + 1) % kMembers));
       },
       [](All& c, std::size_t i) {
         c.etcd->resume(static_cast<int>(i % kMembers));
         c.etcd->resume(static_cast<int>((i + 1) % kMembers));
       }},
  };
}

class FaultRun {
 public:
  explicit FaultRun(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < kClients; ++i) {
      clients_.push_back(std::make_unique<Client>(samples_, cluster_, i));
    }
  }

  // `seconds`: then no more are sent; 0: no limit.
  void work(std::int64_t requests, std::int64_t faults_min, std::int64_t seconds) {
    const auto begin = steady_clock::now();
    std::atomic<bool> goes_on = true;
    std::atomic<int> working = kClients;
    std::vector<std::thread> threads;
    for (const auto& client : clients_) {
      threads.emplace_back([&, one = client.get()] {
        one->send(requests / kClients, goes_on);
        --working;
      });
    }
    std::vector<Fault> all = faults();
    if (const char* const kind = std::getenv("TESSERA_FAULT_KIND"); kind != nullptr) {
      std::erase_if(all, [kind](const Fault& fault) {
        return std::string(fault.name).find(kind) == std::string::npos;
      });
      ASSERT_FALSE(all.empty()) << kind;
    }
    // Each kind in turn, in an order that is drawn anew each time.
    std::vector<std::size_t> order;
    for (std::int64_t i = 0; i < faults_min || working == kClients; ++i) {
      if (order.empty()) {
        for (std::size_t kind = 0; kind < all.size(); ++kind) order.push_back(kind);
        std::ranges::shuffle(order, random_);
      }
      break_one(all[order.back()]);
      order.pop_back();
      if (i + 1 >= faults_min) goes_on = false;
      if (seconds > 0 && steady_clock::now() - begin > std::chrono::seconds(seconds)) {
        for (const auto& client : clients_) client->end_soon();
      }
      constexpr std::int64_t kFaults = 300;  // about as many in the whole run
      calm_down(requests / kFaults);
    }
    for (std::thread& thread : threads) thread.join();
  }

  void report(std::uint64_t seed, double seconds) {
    Client::Counts all;
    for (const auto& client : clients_) {
      const Client::Counts own = client->counts();
      all.requests += own.requests;
      all.lost += own.lost;
      all.twice += own.twice;
      all.wrong += own.wrong;
      all.errors += own.errors;
      if (all.first_error.empty()) all.first_error = own.first_error;
    }
    const std::size_t placements = cluster_.expect_one_owner_at_a_time();
    json document = {{"seed", seed},           {"requests", all.requests},
                     {"lost", all.lost},       {"answered_twice", all.twice},
                     {"wrong", all.wrong},     {"errors", all.errors},
                     {"seconds", seconds},     {"placements", placements},
                     {"faults", json::array()}};
    std::string text = fmt::format(
        "seed {}: {} requests in {:.0f} s, {} lost, {} answered twice, {} wrong, {} errors; {} "
        "placements\n{:<36} {:>6} {:>12} {:>12}\n",
        seed, all.requests, seconds, all.lost, all.twice, all.wrong, all.errors, placements,
        "fault", "times", "median ms", "longest ms");
    for (auto& [name, gaps] : gaps_) {
      std::ranges::sort(gaps);
      document["faults"].push_back({{"fault", name},
                                    {"times", gaps.size()},
                                    {"without_service_median_ms", gaps[gaps.size() / 2]},
                                    {"without_service_longest_ms", gaps.back()}});
      text += fmt::format("{:<36} {:>6} {:>12} {:>12}\n", name, gaps.size(), gaps[gaps.size() / 2],
                          gaps.back());
    }
    fmt::print("{}", text);
    if (const char* const path = std::getenv("TESSERA_FAULT_REPORT"); path != nullptr) {
      std::ofstream(path) << document.dump(2) << "\n";
    }
    EXPECT_EQ(all.lost, 0);
    EXPECT_EQ(all.twice, 0);
    EXPECT_EQ(all.wrong, 0);
    EXPECT_EQ(all.errors, 0) << all.first_error;
  }

 private:
  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_);
  }

  std::size_t node_of(const std::string& alloc) const {
    std::string node;
    EXPECT_TRUE(cluster_.wait_for([&](const json& status) {
      for (const json& one : status["allocs"]) {
        if (one["alloc"] == alloc) node = one["node"];
      }
      return !node.empty();
    })) << alloc;
    return node.empty() ? 0 : static_cast<std::size_t>(std::stoi(node.substr(1)));
  }

  // A node that serves a client, the master that leads, or any member of the store.
  std::size_t choose(Target target) {
    if (target == Target::kNode) return node_of(fmt::format("client{}", below(kClients)));
    if (target == Target::kMember) return static_cast<std::size_t>(below(kMembers));
    std::size_t leader = 0;
    EXPECT_TRUE(cluster_.wait_for([&](const json& status) {
      leader = cluster_.leader(status);
      return true;
    }));
    return leader;
  }

  // So many requests more are answered.
  void calm_down(std::int64_t requests) {
    const auto answered = [&] {
      std::int64_t all = 0;
      for (const auto& client : clients_) all += client->answered();
      return all;
    };
    const auto is_over = [&] {
      return std::ranges::any_of(clients_, [](const auto& one) { return one->is_done(); });
    };
    const std::int64_t before = answered();
    while (answered() < before + requests && !is_over()) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  // By the clock of the nodes' logs, beside them.
  void note(const char* fault, std::size_t which, const char* what) {
    std::ofstream(cluster_.folder() + "/faults.log", std::ios::app) << fmt::format(
        "{} {} {} {}\n", steady_clock::now().time_since_epoch().count(), fault, which, what);
  }

  // Begins, lasts, ends; then all of it is whole again. What is measured is the longest time in which one of the
  // clients had no answer.
  void break_one(const Fault& fault) {
    const std::size_t which = choose(fault.target);
    const milliseconds lasts(200 + below(5000));
    for (const auto& client : clients_) (void)client->take_gap();
    note(fault.name, which, "begins");
    fault.begin(cluster_, which);
    std::this_thread::sleep_for(lasts);  // how long the fault lasts, not a wait for anything
    note(fault.name, which, "ends");
    fault.end(cluster_, which);
    EXPECT_TRUE(cluster_.wait_for([](const json& status) {
      return status["pool"].size() == kNodes &&
             std::ranges::all_of(status["allocs"],
                                 [](const json& one) { return one["state"] == "placed"; });
    })) << fault.name;
    std::int64_t gap = 0;
    for (const auto& client : clients_) {
      const std::int64_t before = client->answered();
      const auto last = steady_clock::now() + std::chrono::minutes(2);
      while (client->answered() == before && !client->is_done() && steady_clock::now() < last) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      gap = std::max<std::int64_t>(gap, client->take_gap().count());
    }
    gaps_[fault.name].push_back(gap);
  }

  std::mt19937_64 random_;
  const std::vector<Sample> samples_ = samples();
  ClusterProcesses cluster_{{.masters = kMasters,
                             .nodes = kNodes,
                             .etcd_members = kMembers,
                             .ttl_ms = 3000,
                             .idle_ms = 5000,
                             .has_proxies = true}};
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<std::string, std::vector<std::int64_t>> gaps_;  // milliseconds by kind of fault
};

TEST(RandomFaults, NoRequestIsLostAnsweredTwiceOrWronglyAndNobodyHasTwoOwners) {
  if (const std::string why = ClusterProcesses::why_not(); !why.empty()) GTEST_SKIP() << why;
  const auto seed = static_cast<std::uint64_t>(setting("TESSERA_FAULT_SEED", 1));
  const bool is_long = std::getenv("TESSERA_TEST_WHOLE") != nullptr;
  constexpr std::int64_t kMillion = 1'000'000;
  const std::int64_t requests = setting("TESSERA_FAULT_REQUESTS", is_long ? kMillion : 3000);
  fmt::print("seed {} (TESSERA_FAULT_SEED)\n", seed);
  std::fflush(stdout);
  const auto begin = steady_clock::now();
  FaultRun run(seed);
  run.work(requests, setting("TESSERA_FAULT_COUNT", is_long ? 100 : 2),
           setting("TESSERA_FAULT_SECONDS", 0));
  run.report(seed, std::chrono::duration<double>(steady_clock::now() - begin).count());
}

}  // namespace
}  // namespace tessera

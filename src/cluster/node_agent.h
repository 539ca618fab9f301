// What a node daemon has to do with the cluster: it registers under a lease, keeps that, does what the master
// says, and gives up everything before the lease can end without it.
//
//   held_until = when the last renewal that succeeded was sent + TTL
//   ├─ until 3/4 of the TTL   runs begin
//   ├─ until 9/10             runs are answered
//   └─ then                   fenced: it has no allocation any more, whatever the store or the master think
//
// So a daemon that was cut off or paused has let go before anybody else can be given what it had. It does not run
// anything itself: that is behind NodeWork.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/caller.h"
#include "cluster/records.h"
#include "cluster/request_quota.h"
#include "store/lease_keeper.h"
#include "store/store.h"

namespace tessera::cluster {

// Does on the cards what the agent says. For several threads at once, but for
// those of one allocation.
class NodeWork {
 public:
  virtual ~NodeWork() = default;
  virtual Status grant(const AllocRecord& alloc) = 0;
  // Other cores of the same card. After an error it has what it had.
  virtual Status move(const AllocRecord& alloc) = 0;
  // Of its last move: how long the programs for other cores took, and where they came from.
  struct Link {
    std::chrono::nanoseconds time{};
    int compiled = 0, filled_in = 0, kept = 0;  // networks
  };
  virtual Link last_link(const AllocRecord& /*alloc*/) { return {}; }
  // Nothing of it begins or is answered any more. Its cores may take a while to be clear.
  virtual void revoke(const AllocRecord& alloc) = 0;
};

struct NodeOptions {
  std::string id = {};
  std::string endpoint = {};                               // where it answers, HOST:PORT
  std::string machine = {}, shared_memory = {}, ucx = {};  // as NodeRecord has them
  std::vector<CardRecord> cards = {};
  std::chrono::milliseconds ttl{3000};
  OnControlLoss on_control_loss = OnControlLoss::kFence;
  std::chrono::milliseconds store_timeout{700};
  // An allocation that is not kept, and that nobody has used for so long, is given back.
  std::chrono::milliseconds idle_limit{5000};
  // Counts of each allocation, for the master to show: "tenant", "alloc" and numbers. Null: none are sent.
  std::function<nlohmann::json()> figures = {};
  // Who owned what, line by line, JSON: "held", "own", "disown" with times of the steady clock.
  std::function<void(const nlohmann::json&)> log = {};
  // A line for each request that is refused, since its tenant sends too many.
  std::function<void(const nlohmann::json&)> audit = {};
};

// For several threads at once, but for tick() and report_figures(), which have one each.
class NodeAgent {
 public:
  // All of them outlive it.
  NodeAgent(store::Store& store, NodeWork& work, Caller& caller, Clock clock, NodeOptions options);
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  // Registers, renews, fences, reports. To be called every TTL / 12 or more often, by one thread.
  void tick();
  // Tells the master the counts of each allocation. Waits for it and for the store, as renewals must not.
  void report_figures();
  // Gives up what it has, and its lease.
  void leave();

  // A request of the master.
  Result<nlohmann::json> handle(const nlohmann::json& request);

  // The allocation, where the ticket is the one that the master gave out for it.
  Result<AllocRecord> admit(const std::string& id, const std::string& ticket);
  // kUnavailable: the allocation is not here (any more), or the store has been silent for too long.
  Status may_begin(const AllocRecord& alloc);
  Status may_answer(const AllocRecord& alloc);
  // Its requests; null: it is not here (any more).
  std::shared_ptr<RequestCounter> requests_of(const AllocRecord& alloc) const;
  void note_refusal(const AllocRecord& alloc, const std::string& why) const;
  // How many use it: 1 more, or 1 less.
  void count_user(const AllocRecord& alloc, int more);

  std::vector<AllocRecord> allocations() const;  // that it has now
  std::string secret()
      const;  // by which nodes of a cluster know each other; empty: none is known yet
  bool is_registered() const;
  // A node of this id was there when it last tried to register: another one, or itself before a restart.
  bool is_id_taken() const { return is_id_taken_; }
  // Whether it is registered, and the time that its lease lasts still.
  nlohmann::json health() const;
  const NodeOptions& options() const { return options_; }

 private:
  struct Held {
    AllocRecord record;
    std::string cluster;  // whose store had it
    int users = 0;
    std::shared_ptr<RequestCounter> requests = {};  // shared with those who count
    std::chrono::steady_clock::time_point unused_since;
    std::chrono::steady_clock::time_point reported;
  };
  struct Granting {
    std::string ticket;
    bool is_revoked = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void renew();
  void register_now();
  void report_unused();
  void fence(const std::string& why);
  void drop(const AllocKey& key, const std::string& why);
  Status check_master(const nlohmann::json& request);
  Result<nlohmann::json> let_go(const nlohmann::json& request);
  Result<nlohmann::json> grant(const nlohmann::json& request, Lock& lock);
  Result<nlohmann::json> move(const nlohmann::json& request, Lock& lock);
  Result<nlohmann::json> revoke(const nlohmann::json& request);
  Result<nlohmann::json> limit(const nlohmann::json& request);
  nlohmann::json list() const;
  Error not_here(const std::string& id) const;
  bool is_held(const AllocRecord& alloc) const;       // in this placement
  bool is_for_this(const AllocRecord& record) const;  // and incarnation
  std::chrono::steady_clock::time_point begins_until() const;
  std::chrono::steady_clock::time_point fenced_at() const;
  void log(const char* event, nlohmann::json fields) const;
  void log_own(const AllocRecord& record) const;

  store::Store& store_;
  NodeWork& work_;
  Caller& caller_;
  const Clock clock_;
  const NodeOptions options_;

  store::LeaseKeeper lease_;  // none: not registered
  std::atomic<bool> is_id_taken_ = false;
  mutable std::mutex mutex_;  // of what follows
  ClusterRecord cluster_;     // empty: none is known yet
  std::string incarnation_;
  std::chrono::steady_clock::time_point next_report_{};
  std::string figures_to_;  // the master that took the last ones; of the thread of report_figures()
  std::int64_t master_epoch_ = 0;  // the largest that has called
  std::map<AllocKey, Held> held_;
  std::map<AllocKey, Granting> granting_;  // grants under way
};

}  // namespace tessera::cluster

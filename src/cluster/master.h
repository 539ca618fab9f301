// The master of a cluster: which node has what, written down before anybody is told.
//
//   client ─ acquire ─► choose cores ─► one transaction ─► node: grant ─► client: where, and the ticket
//
// There may be several; one is elected, and the others refuse with its address. What it knows comes from the
// store, so the next one goes on where it ended. A transaction holds only while its master leads, the pool of
// the card has not changed and the node is the same incarnation; nodes refuse masters of a smaller epoch.
//
// Allocations of a node whose lease has ended are placed elsewhere, or wait for room.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/caller.h"
#include "cluster/card_table.h"
#include "cluster/placement.h"
#include "cluster/records.h"
#include "cluster/tenants.h"
#include "store/election.h"
#include "store/lease_keeper.h"
#include "store/store.h"

namespace tessera::cluster {

struct MasterOptions {
  std::string endpoint = {};  // where it answers, HOST:PORT
  std::chrono::milliseconds ttl{3000};
  std::chrono::milliseconds store_timeout{700};
  std::chrono::milliseconds node_timeout{2000};
  Tenants tenants = {};
  // A line for each acquisition, release and refusal.
  std::function<void(const nlohmann::json&)> audit = {};
};

// For several threads at once, but for tick().
class Master {
 public:
  // All of them outlive it.
  Master(store::Store& store, Caller& caller, Clock clock, MasterOptions options);
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  // Stands for election, renews, looks at the nodes. To be called every TTL / 12 or more often, by one thread.
  void tick();
  // Gives up its lease, so that the next one leads at once.
  void leave();

  // A request of a client or a node. kUnavailable of a master that does not lead names the one that does:
  // "the master is at HOST:PORT".
  Result<nlohmann::json> handle(const nlohmann::json& request);

  bool is_leading() const;
  // Whether it leads, the time that its lease lasts still, and whether the store answers it now.
  nlohmann::json health();

 private:
  using Time = std::chrono::steady_clock::time_point;
  using Lock = std::unique_lock<std::mutex>;
  // After what did not come about.
  static constexpr std::chrono::milliseconds kBetweenTries{500};
  struct Node {
    NodeRecord record;
    store::Revision created = 0;
    bool is_here = true;      // false: of a kept one whose lease has ended
    bool is_checked = false;  // it has answered, and what it runs is what is written down
    Time next_check{};
  };
  struct Pool {
    PoolRecord record;
    store::Revision modified = 0;  // 0: not in the store yet
  };
  struct Alloc {
    AllocRecord record;
    store::Revision modified = 0;
    bool changes = false;                    // somebody works on it
    bool ends = false;                       // nobody waits for it any more: it is to be freed
    Time next_try{};                         // of one that waits
    std::optional<RequestQuota> quota = {};  // that its node has last been told
    nlohmann::json figures = {};             // that its node has sent last; null: none
  };
  struct Event {
    std::int64_t number = 0;
    std::int64_t unix_ms = 0;
    std::string kind, tenant, text;
  };
  using PoolKey = std::pair<std::string, int>;

  // ---- leading (master_lead.cc)
  void keep_lease();
  void stand();
  void take_over();
  Status read_all();
  Result<ClusterRecord> ensure_cluster();
  void look_at_nodes();
  bool ask_to_let_go(const store::Entries& nodes);
  void take_in_nodes(const std::vector<store::Entry>& entries);
  void add_node(NodeRecord record, store::Revision created);
  void lose_node(const std::string& id);
  Status lose_allocs(const std::string& node, const std::function<bool(int card)>& of_card);
  bool fits_pools(const NodeRecord& node) const;
  bool has_other_card(const NodeRecord& node, int card) const;
  PoolRecord renewed_pool(const NodeRecord& node, int card) const;
  void check_nodes();
  void check_node(const std::string& id);
  void compare_with_node(const std::string& id, const nlohmann::json& listed,
                         std::vector<nlohmann::json>& calls);
  void adopt(const AllocRecord& record);
  void place_waiting();
  void place_again(const AllocKey& key);
  void free_ending();
  void share_quotas();
  void step_down(const std::string& why);

  // ---- requests (master.cc)
  Result<nlohmann::json> acquire(const nlohmann::json& request, const Tenant& tenant);
  Result<AllocRecord> acquire_on(const AllocRecord& wanted, const PlacementRequest& placement,
                                 const Tenant& tenant, nlohmann::json& times);
  static Result<AllocRecord> acquired_before(const Alloc& known, const AllocRecord& wanted);
  Result<nlohmann::json> release(const nlohmann::json& request, const Tenant& tenant);
  Result<nlohmann::json> resize(const nlohmann::json& request, const Tenant& tenant);
  Result<AllocRecord> resized(const AllocRecord& before, int cores) const;
  Status settle_resize(const AllocKey& key, const AllocRecord& before, const AllocRecord& after,
                       const Result<nlohmann::json>& moved);
  static Result<int> cores_of_cards(const AllocRecord& record, int cores);

  // ---- where an allocation is, on one card or several (master_parts.cc)
  // Chooses cards and cores; the error says what there is no room for.
  Status place(const PlacementRequest& placement, const std::set<std::string>& without_nodes,
               AllocRecord& record) const;
  static void unplace(AllocRecord& record);
  // The pools of all its cards, with its cores free or not.
  std::vector<PoolRecord> pools_of(const AllocRecord& record, bool is_free) const;
  bool is_reachable(const AllocRecord& record) const;  // all of its nodes
  std::string where_text(const AllocRecord& record) const;
  // All of its nodes, without the lock. The first one's answer; or an error, and whose it is.
  Result<nlohmann::json> call_nodes(const AllocRecord& record, const nlohmann::json& request,
                                    std::string* failed = nullptr);
  Status break_alloc(const AllocRecord& record, const std::string& gone);
  void mend_broken();
  void mend(const AllocKey& key);

  Result<nlohmann::json> locate(const nlohmann::json& request, const Tenant& tenant);
  Result<nlohmann::json> drain(const nlohmann::json& request, const Tenant& tenant);
  Result<nlohmann::json> unused(const nlohmann::json& request);
  Result<nlohmann::json> take_figures(const nlohmann::json& request);
  nlohmann::json status(const Tenant& tenant) const;
  nlohmann::json events(const nlohmann::json& request, const Tenant& tenant) const;
  Status free_alloc(const AllocKey& key, const std::string& why);

  // ---- shared; with the lock held, but for call_node and is_taken_back
  Status check_leading() const;
  RequestQuota share_of(const AllocRecord& record) const;
  std::int64_t memory_held(const AllocRecord& record) const;
  Status check_quota(const Tenant& tenant, int more_cores, std::int64_t more_memory) const;
  std::set<std::string> unreached_nodes() const;  // takes the lock
  Result<AllocKey> find_alloc(const nlohmann::json& request, const Tenant& tenant) const;
  void put_alloc(const AllocRecord& record, store::Revision modified);
  void erase_alloc(const AllocKey& key);
  void leave_cards(const AllocRecord& record);
  std::vector<AllocKey> allocs_on(const std::string& node) const;
  void renew_card(const PoolKey& key);
  void renew_cards(const std::string& node);
  void renew_cards_of(const AllocRecord& record);
  PoolRecord pool_of(const PoolKey& key) const;
  static void set_free(PoolRecord& pool, const std::vector<int>& cores, bool is_free);
  Status commit(store::Transaction transaction, const std::vector<PoolRecord>& pools,
                const std::optional<AllocRecord>& alloc);
  Status forget_alloc(const AllocKey& key);
  nlohmann::json to_node(const char* call, const AllocRecord& record) const;
  Result<nlohmann::json> call_node(const std::string& node, const nlohmann::json& request);
  bool is_taken_back(const AllocRecord& record);
  void note(const std::string& kind, const std::string& tenant, const std::string& text);
  void audit(const std::string& what, const Tenant& tenant, const nlohmann::json& fields,
             const std::string& refused = {}) const;
  nlohmann::json alloc_json(const AllocRecord& record) const;

  store::Store& store_;
  Caller& caller_;
  const Clock clock_;
  const MasterOptions options_;

  store::LeaseKeeper lease_;
  mutable std::mutex mutex_;  // of what follows
  Time next_look_{}, leads_since_{};
  std::optional<store::Candidate> candidate_;
  bool leads_ = false;
  ClusterRecord cluster_;
  std::string leader_endpoint_;  // as last known, where it does not lead
  std::map<std::string, Node> nodes_;
  // Whose lease was gone when this master read the store anew, before they were asked to let go.
  std::map<std::string, NodeRecord> unasked_;
  std::set<std::string> asked_;  // of them, and not lost yet
  std::map<PoolKey, Pool> pools_;
  std::map<AllocKey, Alloc> allocs_;
  std::map<PoolKey, std::set<AllocKey>> on_card_;  // those of allocs_, by the card that they are on
  CardTable table_;                                // of the cards of nodes that are here
  std::deque<Event> events_;
  std::int64_t next_event_ = 1;
};

}  // namespace tessera::cluster

// How a master comes to lead, and how it keeps what it knows true: the nodes' leases, and what they really run.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cluster/fields.h"
#include "cluster/master.h"
#include "cluster/names.h"

namespace tessera::cluster {

using nlohmann::json;

void Master::tick() {
  keep_lease();
  stand();
  bool leads = false, look = false;
  {
    const Lock lock(mutex_);
    leads = leads_;
    look = leads && clock_() >= next_look_;
    if (look) next_look_ = clock_() + options_.ttl / 12;
  }
  if (!leads) take_over();
  if (look) look_at_nodes();
  check_nodes();
  mend_broken();
  place_waiting();
  free_ending();
  share_quotas();
}

void Master::leave() {
  {
    const Lock lock(mutex_);
    leads_ = false;
    candidate_.reset();
  }
  lease_.revoke();
}

// With the lock held. What it knows is read again before it leads once more.
void Master::step_down(const std::string& why) {
  if (leads_) note("master", "", fmt::format("does not lead: {}", why));
  leads_ = false;
}

void Master::keep_lease() {
  {
    const Lock lock(mutex_);
    if (lease_.lease() != 0 && clock_() >= lease_.held_until()) {
      step_down("its lease may have ended");
      lease_.forget();
      candidate_.reset();
    }
  }
  if (lease_.renew_if_due() != store::LeaseKeeper::Renewal::kEnded) return;
  const Lock lock(mutex_);
  step_down("its lease has ended");
  candidate_.reset();
}

void Master::stand() {
  {
    const Lock lock(mutex_);
    if (candidate_.has_value()) return;
  }
  const auto granted = lease_.grant();
  if (!granted.ok()) return;
  auto candidate = store::Candidate::stand(store_, kMasterKey, options_.endpoint, granted->lease.id,
                                           options_.store_timeout);
  if (!candidate.ok()) {
    lease_.give_back(*granted);
    return;
  }
  const Lock lock(mutex_);
  lease_.hold(*granted);
  candidate_.emplace(std::move(*candidate));
}

// Leads if it is its turn.
void Master::take_over() {
  std::optional<store::Candidate> candidate;
  {
    const Lock lock(mutex_);
    if (!candidate_.has_value() || clock_() < next_look_) return;
    next_look_ = clock_() + options_.ttl / 24;
    candidate = candidate_;
  }
  const auto leads = candidate->is_leading(options_.store_timeout);
  if (!leads.ok()) {
    const auto current = store_.read(candidate->key(), options_.store_timeout);
    const Lock lock(mutex_);
    if (current.ok() && !current->entry.has_value()) {  // the store has lost it
      lease_.forget();
      candidate_.reset();
    }
    leader_endpoint_.clear();
    return;
  }
  if (!*leads) {
    const auto leader = store::current_leader(store_, kMasterKey, options_.store_timeout);
    const Lock lock(mutex_);
    leader_endpoint_ = leader.ok() && leader->has_value() ? (*leader)->value : "";
    return;
  }
  const auto cluster = ensure_cluster();
  if (!cluster.ok()) return;
  const Lock lock(mutex_);
  cluster_ = *cluster;
  if (!read_all().ok()) return;
  leads_ = true;
  leads_since_ = clock_();
  leader_endpoint_ = options_.endpoint;
  next_look_ = clock_();
  note("master", "", fmt::format("{} leads with epoch {}", options_.endpoint, candidate->epoch()));
}

// Of a store that has none yet: a new one.
Result<ClusterRecord> Master::ensure_cluster() {
  for (int tries = 0; tries < 2; ++tries) {
    TESSERA_TRY(const store::MaybeEntry at, store_.read(kClusterKey, options_.store_timeout));
    if (at.entry.has_value()) return parse_cluster(at.entry->value);
    const ClusterRecord record{random_name(), random_name()};
    TESSERA_TRY(const auto done, store_.commit({.comparisons = {store::absent(kClusterKey)},
                                                .puts = {{kClusterKey, encode(record), 0}}},
                                               options_.store_timeout));
    if (done.succeeded()) return record;
  }
  return Error{ErrorCode::kUnavailable, "the cluster's record cannot be made"};
}

// With the lock held, by one that does not lead yet: nobody waits for it. What is no record of ours is left alone.
Status Master::read_all() {
  TESSERA_TRY(const store::Entries pools, store_.read_prefix(kPoolPrefix, options_.store_timeout));
  TESSERA_TRY(const store::Entries allocs,
              store_.read_prefix(kAllocPrefix, options_.store_timeout));
  TESSERA_TRY(const store::Entries nodes, store_.read_prefix(kNodesPrefix, options_.store_timeout));
  pools_.clear();
  allocs_.clear();
  on_card_.clear();
  table_.clear();
  std::map<std::string, Node> before = std::exchange(nodes_, {});
  for (const store::Entry& entry : pools.entries) {
    auto pool = parse_pool(entry.value);
    if (!pool.ok()) continue;
    pools_[{pool->node, pool->card}] = {*pool, entry.modified};
  }
  for (const store::Entry& entry : allocs.entries) {
    auto alloc = parse_alloc(entry.value);
    if (!alloc.ok()) continue;
    put_alloc(*alloc, entry.modified);
  }
  // What is free follows from what is allocated: a change may have been left half done.
  for (auto& [key, pool] : pools_) pool.record.free.assign(pool.record.free.size(), true);
  for (const auto& [key, alloc] : allocs_) {
    for (const AllocPart& part : parts_of(alloc.record)) {
      const auto pool = pools_.find({part.node, part.card});
      if (pool != pools_.end()) set_free(pool->second.record, part.cores, false);
    }
  }
  for (const store::Entry& entry : nodes.entries) {
    auto node = parse_node(entry.value);
    if (node.ok()) nodes_[node->id] = {.record = *node, .created = entry.created};
  }
  for (auto& [id, node] : before) {
    if (node.is_here && !nodes_.contains(id)) unasked_.emplace(id, std::move(node.record));
  }
  for (const auto& [key, pool] : pools_) renew_card(key);
  return {};
}

// ---- nodes ----

void Master::look_at_nodes() {
  const auto nodes = store_.read_prefix(kNodesPrefix, options_.store_timeout);
  if (!nodes.ok()) return;
  if (!ask_to_let_go(*nodes)) return;
  const Lock lock(mutex_);
  if (leads_) take_in_nodes(nodes->entries);
}

// A store may end a lease that its node has renewed (docs/cluster.md). So a node that is gone is asked to let go of
// all that it has, before anybody else gets it. Not where the store has lost this master, too: then nodes say what they
// run. False: it is not known whether this master leads, and nobody is asked or loses anything.
bool Master::ask_to_let_go(const store::Entries& nodes) {
  std::set<std::string> here;
  for (const store::Entry& entry : nodes.entries) here.insert(entry.key);
  std::vector<NodeRecord> gone;
  std::optional<store::Candidate> candidate;
  json request;
  {
    const Lock lock(mutex_);
    if (!leads_) return false;
    candidate = candidate_;
    request = to_node("let_go", {});
    for (const auto& [id, node] : nodes_) {
      if (node.is_here && !here.contains(node_key(id))) gone.push_back(node.record);
    }
    for (const auto& [id, record] : unasked_) {
      gone.push_back(record);
      asked_.insert(id);
    }
    unasked_.clear();
    std::erase_if(gone, [this](const NodeRecord& record) {
      return record.on_control_loss == OnControlLoss::kKeep || allocs_on(record.id).empty();
    });
  }
  if (gone.empty()) return true;
  const auto leads = candidate->is_leading(options_.store_timeout);
  if (!leads.ok() || !*leads) {
    const Lock lock(mutex_);
    for (NodeRecord& record : gone) unasked_.emplace(record.id, std::move(record));
    return false;
  }
  request.erase("alloc");
  constexpr std::chrono::milliseconds kForAll{200};
  const auto last = clock_() + kForAll;
  for (std::size_t i = 0; i < gone.size(); ++i) {
    // One that does not answer leaves time for the others.
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(last - clock_()) /
                      static_cast<std::int64_t>(gone.size() - i);
    request["incarnation"] = gone[i].incarnation;
    if (left.count() > 0) (void)caller_.call(gone[i].endpoint, request, left);
  }
  return true;
}

void Master::take_in_nodes(const std::vector<store::Entry>& entries) {
  std::set<std::string> here;
  for (const store::Entry& entry : entries) {
    auto record = parse_node(entry.value);
    if (!record.ok() || node_key(record->id) != entry.key) continue;
    here.insert(record->id);
    const auto known = nodes_.find(record->id);
    const bool is_same = known != nodes_.end() && known->second.created == entry.created;
    if (is_same && known->second.is_here && fits_pools(*record)) continue;
    add_node(std::move(*record), entry.created);
    if (!leads_) return;
  }
  std::vector<std::string> gone;
  for (const auto& [id, node] : nodes_) {
    if (node.is_here && !here.contains(id)) gone.push_back(id);
  }
  // Also those that had ended before this master led: one that it has never asked has fenced itself a TTL later.
  const bool have_fenced = clock_() >= leads_since_ + options_.ttl;
  for (const auto& [key, alloc] : allocs_) {
    for (const std::string& id : nodes_of(alloc.record)) {
      if (nodes_.contains(id) || std::ranges::count(gone, id) > 0) continue;
      const auto pool = pools_.lower_bound({id, 0});
      const bool keeps =
          pool != pools_.end() && pool->first.first == id && pool->second.record.keeps;
      if (have_fenced || keeps || asked_.contains(id)) gone.push_back(id);
    }
  }
  for (const std::string& id : gone) {
    lose_node(id);
    if (!leads_) return;
  }
}

// What is written down of its cards is of the cards that it has.
bool Master::fits_pools(const NodeRecord& node) const {
  for (int card = 0; card < std::ssize(node.cards); ++card) {
    const CardRecord& shape = node.cards[static_cast<std::size_t>(card)];
    const PoolRecord pool = pool_of({node.id, card});
    if (std::ssize(pool.free) != shape.cores() || pool.fingerprint != shape.fingerprint) {
      return false;
    }
  }
  const auto beyond = on_card_.lower_bound({node.id, static_cast<int>(node.cards.size())});
  return beyond == on_card_.end() || beyond->first.first != node.id;
}

void Master::add_node(NodeRecord record, store::Revision created) {
  const auto known = nodes_.find(record.id);
  const bool is_another = known == nodes_.end() || known->second.created != created;
  // What is on a card that it has no more is lost; it runs it no more, since cards change only with a new process.
  const auto is_gone = [&](int card) {
    return card >= std::ssize(record.cards) || has_other_card(record, card);
  };
  if (!lose_allocs(record.id, is_gone).ok()) return;
  std::vector<PoolRecord> pools;
  for (int card = 0; card < std::ssize(record.cards); ++card) {
    PoolRecord pool = renewed_pool(record, card);
    const PoolRecord before = pool_of({record.id, card});
    if (pool.free.size() == before.free.size() && pool.keeps == before.keeps &&
        pool.fingerprint == before.fingerprint) {
      continue;
    }
    ++pool.generation;
    pools.push_back(std::move(pool));
  }
  if (!pools.empty() && !commit({}, pools, std::nullopt).ok()) return;
  if (is_another) {
    note("node", "", fmt::format("{} at {} is here", record.id, record.endpoint));
  }
  const std::string id = record.id;
  nodes_[id] = {.record = std::move(record), .created = created};
  renew_cards(id);
}

bool Master::has_other_card(const NodeRecord& node, int card) const {
  const CardRecord& shape = node.cards[static_cast<std::size_t>(card)];
  const PoolRecord pool = pool_of({node.id, card});
  const bool is_other = !pool.fingerprint.empty() && pool.fingerprint != shape.fingerprint;
  return !pool.free.empty() && (is_other || std::ssize(pool.free) != shape.cores());
}

// The record of the cores of a card as the node has it now.
PoolRecord Master::renewed_pool(const NodeRecord& node, int card) const {
  const CardRecord& shape = node.cards[static_cast<std::size_t>(card)];
  PoolRecord pool = pool_of({node.id, card});
  pool.node = node.id;
  pool.card = card;
  pool.keeps = node.on_control_loss == OnControlLoss::kKeep;
  pool.fingerprint = shape.fingerprint;
  if (std::ssize(pool.free) == shape.cores() && !has_other_card(node, card)) return pool;
  pool.free.assign(static_cast<std::size_t>(shape.cores()), true);
  const auto on = on_card_.find({node.id, card});
  if (on == on_card_.end()) return pool;
  for (const AllocKey& key : on->second) {
    for (const AllocPart& part : parts_on(allocs_.at(key).record, node.id)) {
      if (part.card == card) set_free(pool, part.cores, false);
    }
  }
  return pool;
}

// They wait for room from now on.
Status Master::lose_allocs(const std::string& node, const std::function<bool(int card)>& of_card) {
  std::vector<AllocRecord> lost;
  for (const AllocKey& key : allocs_on(node)) {
    const AllocRecord& record = allocs_.at(key).record;
    const std::vector<AllocPart> parts = parts_on(record, node);
    if (std::ranges::any_of(parts, [&](const AllocPart& part) { return of_card(part.card); })) {
      lost.push_back(record);
    }
  }
  for (AllocRecord record : lost) {
    if (record.cards_wanted > 1) {
      TESSERA_RETURN_IF_ERROR(break_alloc(record, node));
      continue;
    }
    const std::vector<PoolRecord> pools = pools_of(record, true);
    unplace(record);
    TESSERA_RETURN_IF_ERROR(commit({}, pools, record));
    note("lost", record.tenant, fmt::format("'{}' was on node {}", record.id, node));
  }
  return {};
}

// Its lease has ended: what it had is placed elsewhere, unless it keeps it.
void Master::lose_node(const std::string& id) {
  const auto pool = pools_.lower_bound({id, 0});
  if (pool != pools_.end() && pool->first.first == id && pool->second.record.keeps) {
    Node& node = nodes_[id];
    node.record.id = id;
    node.record.on_control_loss = OnControlLoss::kKeep;
    node.is_here = false;
    renew_cards(id);
    note("node", "", fmt::format("{} is unreachable and keeps what it runs", id));
    return;
  }
  note("node", "", fmt::format("the lease of {} has ended", id));
  if (!lose_allocs(id, [](int /*card*/) { return true; }).ok()) return;
  store::Transaction forget;
  std::vector<PoolKey> keys;
  for (const auto& [key, pool] : pools_) {
    if (key.first == id) keys.push_back(key);
  }
  for (const PoolKey& key : keys) forget.deletes.push_back(pool_key(key.first, key.second));
  if (!commit(std::move(forget), {}, std::nullopt).ok()) return;
  for (const PoolKey& key : keys) pools_.erase(key);
  nodes_.erase(id);
  asked_.erase(id);
  renew_cards(id);
}

// ---- what they run ----

void Master::check_nodes() {
  std::vector<std::string> unchecked;
  {
    const Lock lock(mutex_);
    if (!leads_) return;
    for (auto& [id, node] : nodes_) {
      if (!node.is_here || node.is_checked || clock_() < node.next_check) continue;
      node.next_check = clock_() + kBetweenTries;
      unchecked.push_back(id);
    }
  }
  for (const std::string& id : unchecked) check_node(id);
}

void Master::check_node(const std::string& id) {
  json request;
  {
    const Lock lock(mutex_);
    if (!leads_) return;
    request = to_node("list", {});
    request.erase("alloc");
  }
  const auto listed = call_node(id, request);
  if (!listed.ok()) return;
  std::vector<json> calls;
  {
    const Lock lock(mutex_);
    const auto found = nodes_.find(id);
    if (!leads_ || found == nodes_.end()) return;
    if (listed->value("incarnation", "") != found->second.record.incarnation) return;
    found->second.is_checked = true;
    compare_with_node(id, *listed, calls);
  }
  bool all_done = true;
  for (const json& call : calls) all_done = call_node(id, call).ok() && all_done;
  const Lock lock(mutex_);
  const auto found = nodes_.find(id);
  if (found != nodes_.end() && !all_done) found->second.is_checked = false;
}

// What is to be said to it so that it runs what is written down. What it runs of a store that lost everything is
// written down anew.
void Master::compare_with_node(const std::string& id, const json& listed,
                               std::vector<json>& calls) {
  const json* const list = listed.contains("allocs") ? &listed["allocs"] : nullptr;
  std::set<AllocKey> runs;
  for (std::size_t i = 0; list != nullptr && list->is_array() && i < list->size(); ++i) {
    const auto record = alloc_from_json((*list)[i]);
    if (!record.ok()) continue;
    const AllocKey key{record->tenant, record->id};
    auto known = allocs_.find(key);
    if (known == allocs_.end() && (*list)[i].value("cluster", "") != cluster_.id) {
      // One over several nodes when all of them are here.
      if (!is_reachable(*record) && clock_() < leads_since_ + 2 * options_.ttl) {
        nodes_.at(id).is_checked = false;
        continue;
      }
      adopt(*record);
      if (!leads_) return;
      known = allocs_.find(key);
    }
    if (known != allocs_.end() && known->second.changes) {
      runs.insert(key);
      continue;
    }
    if (known == allocs_.end() || known->second.record.broken ||
        parts_on(known->second.record, id).empty() || known->second.record.epoch != record->epoch) {
      calls.push_back(to_node("revoke", *record));
      continue;
    }
    runs.insert(key);
    if (known->second.record.cores != record->cores ||
        known->second.record.cores_wanted != record->cores_wanted) {
      calls.push_back(to_node("move", known->second.record));
    }
  }
  for (const AllocKey& key : allocs_on(id)) {
    const Alloc& alloc = allocs_.at(key);
    const std::vector<AllocPart> parts = parts_on(alloc.record, id);
    if (parts.empty() || alloc.record.broken || alloc.changes || runs.contains(key)) continue;
    // It has registered again without it, or never heard of it.
    AllocRecord record = alloc.record;
    if (parts.front().incarnation == nodes_.at(id).record.incarnation) {
      calls.push_back(to_node("grant", record));
      continue;
    }
    if (record.cards_wanted > 1) {  // the others have begun a run that it knows nothing of
      if (!break_alloc(record, id).ok()) return;
      continue;
    }
    record.incarnation = nodes_.at(id).record.incarnation;
    ++record.epoch;
    if (!commit({}, {}, record).ok()) return;
    calls.push_back(to_node("grant", record));
  }
}

void Master::adopt(const AllocRecord& record) {
  for (const AllocPart& part : parts_of(record)) {
    const PoolRecord pool = pool_of({part.node, part.card});
    for (const int core : part.cores) {
      if (core >= std::ssize(pool.free) || !pool.free[static_cast<std::size_t>(core)]) return;
    }
  }
  if (!commit({}, pools_of(record, false), record).ok()) return;
  note("rebuilt", record.tenant,
       fmt::format("'{}' runs on {}; the store had lost it", record.id,
                   record.cards_wanted == 1 ? "node " + record.node : where_text(record)));
}

// ---- those that wait ----

void Master::place_waiting() {
  std::vector<AllocKey> waiting;
  {
    const Lock lock(mutex_);
    if (!leads_) return;
    for (auto& [key, alloc] : allocs_) {
      const bool waits = alloc.record.node.empty() && !alloc.record.broken;
      if (!waits || alloc.changes || clock_() < alloc.next_try) continue;
      alloc.next_try = clock_() + kBetweenTries;
      waiting.push_back(key);
    }
  }
  for (const AllocKey& key : waiting) place_again(key);
}

void Master::place_again(const AllocKey& key) {
  AllocRecord record;
  json grant;
  const std::set<std::string> unreached = unreached_nodes();
  {
    const Lock lock(mutex_);
    const auto found = allocs_.find(key);
    if (!leads_ || found == allocs_.end() || found->second.changes) return;
    record = found->second.record;
    const PlacementRequest placement{.arch = record.arch,
                                     .cores = record.cores_wanted,
                                     .memory_bytes = record.memory_bytes,
                                     .cards = record.cards_wanted};
    if (!place(placement, unreached, record).ok() && !place(placement, {}, record).ok()) return;
    ++record.epoch;
    if (!commit({}, pools_of(record, false), record).ok()) return;
    allocs_.at(key).changes = true;
    grant = to_node("grant", record);
  }
  const auto granted = call_nodes(record, grant);
  const bool is_back = !granted.ok() && is_taken_back(record);
  const Lock lock(mutex_);
  const auto found = allocs_.find(key);
  if (found == allocs_.end()) return;
  found->second.changes = false;
  const AllocRecord& now = found->second.record;
  if (now.node != record.node || now.epoch != record.epoch || now.broken) {
    return;  // it has lost the node meanwhile
  }
  if (granted.ok()) {
    note("placed", key.first, fmt::format("'{}': {}", key.second, where_text(record)));
    return;
  }
  if (!is_back) {  // it may have it: it is asked again, until it has or its lease ends
    for (const std::string& name : nodes_of(record)) {
      const auto node = nodes_.find(name);
      if (node != nodes_.end()) node->second.is_checked = false;
    }
    return;
  }
  const std::vector<PoolRecord> pools = pools_of(record, true);
  unplace(record);
  (void)commit({}, pools, record);
}

// A tenant's requests are divided among its allocations; when one comes or goes the others' shares change.
void Master::share_quotas() {
  struct Change {
    AllocKey key;
    std::string node;
    RequestQuota share;
    json request;
  };
  std::vector<Change> changes;
  {
    const Lock lock(mutex_);
    if (!leads_ || options_.tenants.is_open()) return;
    for (auto& [key, alloc] : allocs_) {
      const auto node = nodes_.find(alloc.record.node);
      if (alloc.changes || node == nodes_.end() || !node->second.is_here) continue;
      const RequestQuota share = share_of(alloc.record);
      if (alloc.quota == share || clock_() < alloc.next_try) continue;
      alloc.next_try = clock_() + kBetweenTries;
      changes.push_back({key, alloc.record.node, share, to_node("limit", alloc.record)});
    }
  }
  for (const Change& change : changes) {
    const bool is_told = call_node(change.node, change.request).ok();
    const Lock lock(mutex_);
    const auto found = allocs_.find(change.key);
    if (is_told && found != allocs_.end()) found->second.quota = change.share;
  }
}

void Master::free_ending() {
  std::vector<AllocKey> ending;
  {
    const Lock lock(mutex_);
    if (!leads_) return;
    for (auto& [key, alloc] : allocs_) {
      if (!alloc.ends || alloc.changes || clock_() < alloc.next_try) continue;
      alloc.next_try = clock_() + kBetweenTries;
      ending.push_back(key);
    }
  }
  for (const AllocKey& key : ending)
    (void)free_alloc(key, "its node did not answer when it was acquired");
}

}  // namespace tessera::cluster

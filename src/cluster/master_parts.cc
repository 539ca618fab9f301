// Where an allocation is: on some cores of a card, or on several cards of one or more nodes, which come, go and fail
// together.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/errors.h"
#include "cluster/master.h"

namespace tessera::cluster {

using nlohmann::json;

namespace {

std::vector<CardState> states_of(const CardTable& table,
                                 const std::set<std::string>& without_nodes) {
  std::vector<CardState> states;
  for (const auto& [key, card] : table.cards()) {
    if (!without_nodes.contains(key.first)) states.push_back(card);
  }
  return states;
}

}  // namespace

Status Master::place(const PlacementRequest& placement, const std::set<std::string>& without_nodes,
                     AllocRecord& record) const {
  std::vector<AllocPart> parts;
  const auto add = [&](const CardState& card, std::vector<int> cores) {
    const NodeRecord& node = nodes_.at(card.node).record;
    parts.push_back({card.node, node.incarnation, node.endpoint, card.card, std::move(cores)});
  };
  if (placement.cards == 1) {
    auto choice = table_.choose(placement, without_nodes);
    if (!choice.has_value()) {
      return unavailable(room_text(states_of(table_, without_nodes), placement));
    }
    add(*choice->card, std::move(choice->cores));
    record.arch = choice->card->shape.arch;
    record.memory_bytes = choice->memory_bytes;
  } else {
    const std::vector<CardState> all = states_of(table_, without_nodes);
    const auto chosen = choose_whole_cards(all, placement);
    if (!chosen.has_value()) return unavailable(room_text(all, placement));
    for (const std::size_t card : *chosen) {
      std::vector<int> cores;
      for (int core = 0; core < all[card].shape.cores(); ++core) cores.push_back(core);
      add(all[card], std::move(cores));
    }
    const CardRecord& shape = all[chosen->front()].shape;
    record.arch = shape.arch;
    record.memory_bytes = shape.memory_bytes;
    if (record.cores_wanted == 0) record.cores_wanted = placement.cards * shape.cores();
  }
  record.node = parts.front().node;
  record.incarnation = parts.front().incarnation;
  record.card = parts.front().card;
  record.cores = parts.front().cores;
  record.more.assign(parts.begin() + 1, parts.end());
  record.broken = false;
  return {};
}

std::set<std::string> Master::unreached_nodes() const {
  std::set<std::string> unreached;
  const Lock lock(mutex_);
  for (const auto& [id, node] : nodes_) {
    if (node.is_here && !node.is_checked) unreached.insert(id);
  }
  return unreached;
}

void Master::unplace(AllocRecord& record) {
  record.node.clear();
  record.incarnation.clear();
  record.cores.clear();
  record.more.clear();
  record.broken = false;
}

std::vector<PoolRecord> Master::pools_of(const AllocRecord& record, bool is_free) const {
  std::vector<PoolRecord> pools;
  for (const AllocPart& part : parts_of(record)) {
    const auto found = pools_.find({part.node, part.card});
    if (found == pools_.end()) continue;
    pools.push_back(found->second.record);
    set_free(pools.back(), part.cores, is_free);
    ++pools.back().generation;
  }
  return pools;
}

bool Master::is_reachable(const AllocRecord& record) const {
  const std::vector<std::string> nodes = nodes_of(record);
  return !nodes.empty() && std::ranges::all_of(nodes, [this](const std::string& name) {
    const auto node = nodes_.find(name);
    return node != nodes_.end() && node->second.is_here;
  });
}

std::string Master::where_text(const AllocRecord& record) const {
  if (record.cards_wanted == 1) {
    return fmt::format("{} cores on node {}, card {}", record.cores.size(), record.node,
                       record.card);
  }
  std::vector<std::string> cards;
  for (const AllocPart& part : parts_of(record)) {
    cards.push_back(fmt::format("{}/{}", part.node, part.card));
  }
  return fmt::format("{} cores on {} cards ({})", record.cores_wanted, cards.size(),
                     fmt::join(cards, ", "));
}

Result<json> Master::call_nodes(const AllocRecord& record, const json& request,
                                std::string* failed) {
  Result<json> answer = json::object();
  bool is_first = true;
  for (const std::string& node : nodes_of(record)) {
    auto called = call_node(node, request);
    if (!called.ok()) {
      if (failed != nullptr) *failed = node;
      return called.error();
    }
    if (std::exchange(is_first, false)) answer = std::move(called);
  }
  return answer;
}

// ---- several cards, of which a node has gone ----

// With the lock held. The cards of that node are free; the others are the allocation's until their nodes have let
// go of them (mend()).
Status Master::break_alloc(const AllocRecord& record, const std::string& gone) {
  AllocRecord left = record;
  left.broken = true;
  std::vector<PoolRecord> pools;
  for (PoolRecord& pool : pools_of(record, true)) {
    if (pool.node == gone) pools.push_back(std::move(pool));
  }
  if (left.node == gone) {
    left.node.clear();
    left.incarnation.clear();
    left.cores.clear();
  }
  std::erase_if(left.more, [&](const AllocPart& part) { return part.node == gone; });
  TESSERA_RETURN_IF_ERROR(commit({}, pools, left));
  note("lost", record.tenant,
       fmt::format("'{}' was on {} cards, of which node {} has gone with its own", record.id,
                   record.cards_wanted, gone));
  return {};
}

void Master::mend_broken() {
  std::vector<AllocKey> broken;
  {
    const Lock lock(mutex_);
    if (!leads_) return;
    for (auto& [key, alloc] : allocs_) {
      if (!alloc.record.broken || alloc.changes || clock_() < alloc.next_try) continue;
      alloc.next_try = clock_() + kBetweenTries;
      broken.push_back(key);
    }
  }
  for (const AllocKey& key : broken) mend(key);
}

// All nodes that are there let go; then it waits for room as any other.
void Master::mend(const AllocKey& key) {
  AllocRecord record;
  json revoke;
  {
    const Lock lock(mutex_);
    const auto found = allocs_.find(key);
    if (!leads_ || found == allocs_.end() || found->second.changes) return;
    found->second.changes = true;
    record = found->second.record;
    revoke = to_node("revoke", record);
  }
  revoke["why"] = "another node of it has gone";
  bool is_back = true;
  for (const std::string& node : nodes_of(record)) {
    is_back = call_node(node, revoke).ok() && is_back;
  }
  const Lock lock(mutex_);
  const auto found = allocs_.find(key);
  if (found == allocs_.end()) return;
  found->second.changes = false;
  // A node whose lease has ended meanwhile is out of the record.
  if (!is_back || found->second.record.epoch != record.epoch) return;
  const std::vector<PoolRecord> pools = pools_of(found->second.record, true);
  AllocRecord waits = found->second.record;
  unplace(waits);
  (void)commit({}, pools, waits);
}

}  // namespace tessera::cluster

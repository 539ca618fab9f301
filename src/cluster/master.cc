#include "cluster/master.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/errors.h"
#include "cluster/fields.h"
#include "cluster/names.h"

namespace tessera::cluster {

using nlohmann::json;
using std::chrono::steady_clock;

namespace {

constexpr std::size_t kEventsMax = 1000;
// Counted since the node has the allocation; "waiting" is how many requests stand behind the one that is worked on.
constexpr const char* kFigureNames[] = {
    "runs",      "failures", "waiting",           "bytes_in",
    "bytes_out", "busy_us",  "prepared_programs", "prepared_clearings",
    "preparing"};

double microseconds(steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// What a tenant has: of one over several cards all of their cores.
std::int64_t cores_held(const AllocRecord& record) {
  if (record.cards_wanted == 1) return record.cores_wanted;
  std::int64_t cores = 0;
  for (const AllocPart& part : parts_of(record)) cores += std::ssize(part.cores);
  return std::max<std::int64_t>(cores, record.cores_wanted);
}

std::vector<int> groups_of(const std::vector<int>& cores, int cores_per_group) {
  std::vector<int> groups;
  for (const int core : cores) {
    const int group = core / cores_per_group;
    if (std::ranges::count(groups, group) == 0) groups.push_back(group);
  }
  return groups;
}

}  // namespace

Master::Master(store::Store& store, Caller& caller, Clock clock, MasterOptions options)
    : store_(store),
      caller_(caller),
      clock_(std::move(clock)),
      options_(std::move(options)),
      lease_(store, clock_, {.ttl = options_.ttl, .timeout = options_.store_timeout}) {}

bool Master::is_leading() const {
  const Lock lock(mutex_);
  return leads_ && clock_() < lease_.held_until();
}

void Master::note(const std::string& kind, const std::string& tenant, const std::string& text) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  events_.push_back({next_event_++,
                     std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), kind,
                     tenant, text});
  if (events_.size() > kEventsMax) events_.pop_front();
}

void Master::audit(const std::string& what, const Tenant& tenant, const json& fields,
                   const std::string& refused) const {
  if (!options_.audit) return;
  json line = fields.is_object() ? fields : json::object();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  line["unix_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  line["action"] = what;
  line["tenant"] = tenant.name;
  line["outcome"] = refused.empty() ? "done" : "refused";
  if (!refused.empty()) line["reason"] = refused;
  options_.audit(line);
}

// ---- what several requests need ----

Status Master::check_leading() const {
  if (leads_ && clock_() < lease_.held_until()) return {};
  if (!leads_ && !leader_endpoint_.empty() && leader_endpoint_ != options_.endpoint) {
    return unavailable(fmt::format("the master is at {}", leader_endpoint_));
  }
  return unavailable(fmt::format(
      "no master leads at present: the store ({}) has not answered lately, or the one before has "
      "just ended; nothing is allocated until then",
      store_.describe()));
}

// By the cores of those that are placed, so that the shares add up to the quota.
RequestQuota Master::share_of(const AllocRecord& record) const {
  const RequestQuota quota = options_.tenants.requests_of(record.tenant);
  if (quota == RequestQuota{}) return quota;
  std::int64_t before = 0, own = record.cores_wanted, all = 0;
  bool is_counted = false;
  for (auto one = allocs_.lower_bound({record.tenant, ""});
       one != allocs_.end() && one->first.first == record.tenant; ++one) {
    const auto& [key, alloc] = *one;
    if (alloc.record.node.empty()) continue;
    is_counted = is_counted || key.second == record.id;
    if (key.second < record.id) before += alloc.record.cores_wanted;
    all += alloc.record.cores_wanted;
  }
  if (!is_counted) all += own;
  RequestQuota share;
  if (quota.per_second.has_value()) {
    share.per_second = *quota.per_second * static_cast<double>(own) / static_cast<double>(all);
  }
  if (quota.at_once.has_value()) {
    share.at_once = *quota.at_once * (before + own) / all - *quota.at_once * before / all;
  }
  return share;
}

// In all of its groups; those of a node that has gone count as one.
std::int64_t Master::memory_held(const AllocRecord& record) const {
  std::size_t groups = 0;
  for (const AllocPart& part : parts_of(record)) {
    const auto node = nodes_.find(part.node);
    const bool is_known = node != nodes_.end() && part.card < std::ssize(node->second.record.cards);
    groups +=
        is_known
            ? groups_of(
                  part.cores,
                  node->second.record.cards[static_cast<std::size_t>(part.card)].cores_per_group)
                  .size()
            : 1;
  }
  return record.memory_bytes * static_cast<std::int64_t>(std::max<std::size_t>(groups, 1));
}

Status Master::check_quota(const Tenant& tenant, int more_cores, std::int64_t more_memory) const {
  std::int64_t cores = 0, memory = 0;
  if (tenant.cores_max == 0 && tenant.memory_bytes_max == 0) return {};
  for (auto own = allocs_.lower_bound({tenant.name, ""});
       own != allocs_.end() && own->first.first == tenant.name; ++own) {
    cores += cores_held(own->second.record);
    memory += memory_held(own->second.record);
  }
  if (tenant.cores_max > 0 && cores + more_cores > tenant.cores_max) {
    return invalid(fmt::format("tenant '{}' has {} cores and wants {} more; its quota is {}",
                               tenant.name, cores, more_cores, tenant.cores_max));
  }
  if (tenant.memory_bytes_max > 0 && memory + more_memory > tenant.memory_bytes_max) {
    return invalid(fmt::format(
        "tenant '{}' has {} bytes of memory in all groups and wants {} more; its quota is {}",
        tenant.name, memory, more_memory, tenant.memory_bytes_max));
  }
  return {};
}

// A tenant finds its own alone; an operator those of others, too, where no two of them have the same name.
Result<AllocKey> Master::find_alloc(const json& request, const Tenant& tenant) const {
  RequestFields fields(request, "request");
  const std::string id = fields.name("alloc");
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (allocs_.contains({tenant.name, id})) return AllocKey{tenant.name, id};
  std::vector<AllocKey> of_others;
  for (const auto& [key, alloc] : allocs_) {
    if (key.second == id && tenant.is_operator) of_others.push_back(key);
  }
  if (of_others.size() == 1) return of_others.front();
  return invalid(
      of_others.empty()
          ? fmt::format("tenant '{}' has no allocation '{}'", tenant.name, id)
          : fmt::format("{} tenants have an allocation '{}', and tenant '{}' has none; ask as the "
                        "tenant whose it is",
                        of_others.size(), id, tenant.name));
}

// ---- what is known of allocations and cards, by card

void Master::put_alloc(const AllocRecord& record, store::Revision modified) {
  const AllocKey key = key_of(record);
  Alloc& alloc = allocs_[key];
  leave_cards(alloc.record);
  if (alloc.record.node != record.node || alloc.record.epoch != record.epoch) alloc.quota = {};
  alloc.record = record;
  alloc.modified = modified;
  for (const AllocPart& part : parts_of(record)) on_card_[{part.node, part.card}].insert(key);
}

void Master::leave_cards(const AllocRecord& record) {
  for (const AllocPart& part : parts_of(record)) {
    const auto on = on_card_.find({part.node, part.card});
    if (on == on_card_.end()) continue;
    on->second.erase(key_of(record));
    if (on->second.empty()) on_card_.erase(on);
  }
}

void Master::erase_alloc(const AllocKey& key) {
  const auto known = allocs_.find(key);
  if (known == allocs_.end()) return;
  leave_cards(known->second.record);
  allocs_.erase(known);
}

std::vector<AllocKey> Master::allocs_on(const std::string& node) const {
  std::vector<AllocKey> keys;
  std::set<AllocKey> known;  // one over several of its cards comes once
  for (auto on = on_card_.lower_bound({node, 0}); on != on_card_.end() && on->first.first == node;
       ++on) {
    for (const AllocKey& key : on->second) {
      if (known.insert(key).second) keys.push_back(key);
    }
  }
  return keys;
}

// After its node, its pool or an allocation on it has changed.
void Master::renew_card(const PoolKey& key) {
  const auto node = nodes_.find(key.first);
  const auto pool = pools_.find(key);
  if (node == nodes_.end() || !node->second.is_here || pool == pools_.end() ||
      key.second >= std::ssize(node->second.record.cards)) {
    return table_.remove(key);
  }
  CardState card{.node = key.first,
                 .card = key.second,
                 .shape = node->second.record.cards[static_cast<std::size_t>(key.second)],
                 .free = pool->second.record.free,
                 .memory_taken = {},
                 .draining = pool->second.record.draining};
  card.memory_taken.resize(static_cast<std::size_t>(card.shape.groups));
  const auto on = on_card_.find(key);
  for (const AllocKey& one : on == on_card_.end() ? std::set<AllocKey>() : on->second) {
    const AllocRecord& record = allocs_.at(one).record;
    for (const AllocPart& part : parts_on(record, key.first)) {
      if (part.card != key.second) continue;
      for (const int group : groups_of(part.cores, card.shape.cores_per_group)) {
        const auto place = static_cast<std::size_t>(group);
        if (place < card.memory_taken.size()) card.memory_taken[place] += record.memory_bytes;
      }
    }
  }
  table_.put(std::move(card));
}

void Master::renew_cards_of(const AllocRecord& record) {
  for (const AllocPart& part : parts_of(record)) renew_card({part.node, part.card});
}

void Master::renew_cards(const std::string& node) {
  std::vector<PoolKey> keys;
  const auto collect = [&](const auto& map) {
    for (auto at = map.lower_bound({node, 0}); at != map.end() && at->first.first == node; ++at) {
      keys.push_back(at->first);
    }
  };
  collect(pools_);
  collect(table_.cards());
  for (const PoolKey& key : keys) renew_card(key);
}

PoolRecord Master::pool_of(const PoolKey& key) const {
  const auto found = pools_.find(key);
  if (found != pools_.end()) return found->second.record;
  return {};
}

// What the card does not have (any more) is left out.
void Master::set_free(PoolRecord& pool, const std::vector<int>& cores, bool is_free) {
  for (const int core : cores) {
    const auto place = static_cast<std::size_t>(core);
    if (place < pool.free.size()) pool.free[place] = is_free;
  }
}

// Changes pools and an allocation together, in the store and then here.
Status Master::commit(store::Transaction transaction, const std::vector<PoolRecord>& pools,
                      const std::optional<AllocRecord>& alloc) {
  TESSERA_RETURN_IF_ERROR(check_leading());
  transaction.comparisons.push_back(candidate_->guard());
  for (const PoolRecord& pool : pools) {
    const PoolKey key{pool.node, pool.card};
    transaction.comparisons.push_back(
        store::modified_at(pool_key(pool.node, pool.card), pools_[key].modified));
    transaction.puts.push_back({pool_key(pool.node, pool.card), encode(pool), 0});
  }
  if (alloc.has_value()) {
    const AllocKey key{alloc->tenant, alloc->id};
    const auto known = allocs_.find(key);
    transaction.comparisons.push_back(store::modified_at(
        alloc_key(alloc->tenant, alloc->id), known == allocs_.end() ? 0 : known->second.modified));
    transaction.puts.push_back({alloc_key(alloc->tenant, alloc->id), encode(*alloc), 0});
    for (const std::string& name : nodes_of(*alloc)) {
      const auto node = nodes_.find(name);
      if (node == nodes_.end() || !node->second.is_here) continue;
      transaction.comparisons.push_back(store::created_at(node_key(name), node->second.created));
    }
  }
  auto done = store_.commit(transaction, options_.store_timeout);
  if (!done.ok()) {
    // It may have been carried out: what is known is read again.
    step_down("the store has not answered");
    return done.error().with_context("nothing is allocated without the store");
  }
  if (!done->succeeded()) {
    step_down("the store has changed meanwhile");
    return unavailable("the store has changed meanwhile; try again");
  }
  for (const PoolRecord& pool : pools) {
    pools_[{pool.node, pool.card}] = {pool, done->revision};
  }
  for (const PoolRecord& pool : pools) renew_card({pool.node, pool.card});
  if (!alloc.has_value()) return {};
  const auto known = allocs_.find(key_of(*alloc));
  const AllocRecord before = known == allocs_.end() ? AllocRecord{} : known->second.record;
  put_alloc(*alloc, done->revision);
  renew_cards_of(before);
  renew_cards_of(*alloc);
  return {};
}

Status Master::forget_alloc(const AllocKey& key) {
  const auto found = allocs_.find(key);
  if (found == allocs_.end()) return {};
  const AllocRecord record = found->second.record;
  const std::vector<PoolRecord> pools = pools_of(record, true);
  store::Transaction transaction;
  const std::string at = alloc_key(key.first, key.second);
  transaction.comparisons.push_back(store::modified_at(at, found->second.modified));
  transaction.deletes.push_back(at);
  TESSERA_RETURN_IF_ERROR(commit(std::move(transaction), pools, std::nullopt));
  erase_alloc(key);
  renew_cards_of(record);
  return {};
}

json Master::to_node(const char* call, const AllocRecord& record) const {
  return {{"call", call},
          {"secret", cluster_.secret},
          {"epoch", candidate_.has_value() ? candidate_->epoch() : 1},
          {"alloc", to_json(record)},
          {"requests", to_json(share_of(record))}};
}

Result<json> Master::call_node(const std::string& node, const json& request) {
  std::string endpoint;
  {
    const Lock lock(mutex_);
    const auto found = nodes_.find(node);
    if (found == nodes_.end()) return unavailable(fmt::format("node '{}' is not there", node));
    endpoint = found->second.record.endpoint;
  }
  return caller_.call(endpoint, request, options_.node_timeout);
}

// After a grant that may or may not have been heard: nobody else gets the allocation before the node has said that
// it has it not.
bool Master::is_taken_back(const AllocRecord& record) {
  json revoke;
  {
    const Lock lock(mutex_);
    revoke = to_node("revoke", record);
  }
  revoke["why"] = "its grant was not confirmed";
  return call_nodes(record, revoke).ok();
}

json Master::alloc_json(const AllocRecord& record) const {
  const auto node = nodes_.find(record.node);
  // One over several cards may have lost its first node, and be taken back from the others.
  const bool is_here = node != nodes_.end() && is_reachable(record);
  json document = {{"alloc", record.id},
                   {"tenant", record.tenant},
                   {"node", record.node},
                   {"endpoint", is_here ? node->second.record.endpoint : ""},
                   {"machine", is_here ? node->second.record.machine : ""},
                   {"shared_memory", is_here ? node->second.record.shared_memory : ""},
                   {"ucx", is_here ? node->second.record.ucx : ""},
                   {"card", record.card},
                   {"cores", record.cores},
                   {"cores_wanted", record.cores_wanted},
                   {"arch", record.arch},
                   {"memory_bytes", record.memory_bytes},
                   {"weight", record.weight},
                   {"epoch", record.epoch},
                   {"kept", record.kept},
                   {"state", record.node.empty() || record.broken ? "waits"
                             : is_here                            ? "placed"
                                                                  : "unreachable"}};
  if (record.cards_wanted == 1) return document;
  json parts = json::array();
  for (const AllocPart& part : parts_of(record)) {
    parts.push_back({{"node", part.node}, {"card", part.card}, {"cores", part.cores}});
  }
  document["cards"] = std::move(parts);
  return document;
}

// ---- requests ----

Result<json> Master::handle(const json& request) {
  const json name = request.is_object() ? request.value("call", json()) : json();
  const std::string call = name.is_string() ? name.get<std::string>() : "";
  if (call == "unused") return unused(request);
  if (call == "figures") return take_figures(request);
  auto tenant = options_.tenants.of_request(request);
  if (!tenant.ok()) {
    audit(call, {.name = "?", .token = {}}, {}, tenant.error().message);
    return tenant.error();
  }
  const auto audited = [&](Result<json> result) {
    json fields = json::object();
    for (const char* const key : {"alloc", "cores", "node"}) {
      if (result.ok() && result->contains(key)) {
        fields[key] = (*result)[key];
      } else if (request.contains(key)) {
        fields[key] = request[key];
      }
    }
    audit(call, *tenant, fields, result.ok() ? "" : result.error().message);
    return result;
  };
  if (call == "acquire") return audited(acquire(request, *tenant));
  if (call == "release") return audited(release(request, *tenant));
  if (call == "resize") return audited(resize(request, *tenant));
  if (call == "drain") return audited(drain(request, *tenant));
  if (call == "locate") return locate(request, *tenant);
  const Lock lock(mutex_);
  TESSERA_RETURN_IF_ERROR(check_leading());
  if (call == "status") return status(*tenant);
  if (call == "events") return events(request, *tenant);
  return invalid(fmt::format("a master does not know the call '{}'", call));
}

namespace {

// What an acquisition asks for.
Result<AllocRecord> wanted_of(const json& request, const Tenant& tenant) {
  RequestFields fields(request, "request");
  AllocRecord record;
  record.tenant = tenant.name;
  record.cards_wanted = static_cast<int>(fields.integer("cards", 1, 64, 1));
  // 0: all of its cards.
  const int least = record.cards_wanted > 1 ? 0 : 1;
  record.cores_wanted = static_cast<int>(fields.integer("cores", least, 1024, least));
  record.arch = fields.text("arch", "");
  record.memory_bytes = fields.integer("memory_bytes", 0, std::int64_t{1} << 50, 0);
  record.weight = fields.integer("weight", 1, 16, 1);
  record.kept = fields.flag("kept", false);
  // One that asks again, since it has heard no answer, shows the ticket of the first time.
  record.ticket = fields.has("ticket") ? fields.name("ticket") : random_name();
  constexpr std::size_t kTicketBytesMin = 32;
  if (record.ticket.size() < kTicketBytesMin) {
    fields.refuse(fmt::format("'ticket' has less than {} characters", kTicketBytesMin));
  }
  record.id = fields.has("name") ? fields.name("name") : "a" + record.ticket.substr(0, 12);
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (record.cards_wanted == 1) return record;
  if (record.cores_wanted != 0 && record.cores_wanted < record.cards_wanted) {
    return invalid(fmt::format("{} cores on {} cards; each card has one or more of them",
                               record.cores_wanted, record.cards_wanted));
  }
  if (record.memory_bytes != 0 || record.weight != 1) {
    return invalid(
        "memory or a weight with several cards, of which it has all memory and all time of the "
        "channels; leave them out");
  }
  return record;
}

}  // namespace

Result<json> Master::acquire(const json& request, const Tenant& tenant) {
  TESSERA_TRY(const AllocRecord wanted, wanted_of(request, tenant));
  RequestFields fields(request, "request");
  const PlacementRequest placement{.arch = wanted.arch,
                                   .cores = wanted.cores_wanted,
                                   .memory_bytes = wanted.memory_bytes,
                                   .node = fields.text("node", ""),
                                   .cards = wanted.cards_wanted};
  TESSERA_RETURN_IF_ERROR(fields.status());
  const auto begin = steady_clock::now();
  json times;
  TESSERA_TRY(const AllocRecord record, acquire_on(wanted, placement, tenant, times));
  const Lock lock(mutex_);
  json reply = alloc_json(record);
  reply["ticket"] = record.ticket;
  times["total_us"] = microseconds(steady_clock::now() - begin);
  reply["times"] = times;
  return reply;
}

// What is answered where there is one of its name: it, if it was asked for with the same ticket.
Result<AllocRecord> Master::acquired_before(const Alloc& known, const AllocRecord& wanted) {
  if (known.record.ticket != wanted.ticket) {
    return invalid(
        fmt::format("tenant '{}' has an allocation '{}'; choose another name, or free it",
                    wanted.tenant, wanted.id));
  }
  if (!known.changes && !known.ends) return known.record;
  return unavailable(fmt::format("allocation '{}' is {} at present; try again", wanted.id,
                                 known.ends ? "being taken back" : "being set up"));
}

// Where the node that was chosen does not take it, the next one is asked, and all of them once more: cores that have
// come back may take a while to be clear, for which a node waits before it refuses. Nodes that have not answered yet,
// or no more, are asked where the others have no room.
Result<AllocRecord> Master::acquire_on(const AllocRecord& wanted, const PlacementRequest& placement,
                                       const Tenant& tenant, json& times) {
  std::set<std::string> refused = unreached_nodes();
  std::string why;
  for (bool is_first_round = true;;) {
    AllocRecord record = wanted;
    const AllocKey key{record.tenant, record.id};
    json grant;
    {
      const Lock lock(mutex_);
      TESSERA_RETURN_IF_ERROR(check_leading());
      if (const auto known = allocs_.find(key); known != allocs_.end()) {
        return acquired_before(known->second, record);
      }
      const auto chooses = steady_clock::now();
      const Status placed = place(placement, refused, record);
      TESSERA_RETURN_IF_ERROR(
          check_quota(tenant, static_cast<int>(cores_held(record)), memory_held(record)));
      if (!placed.ok()) {
        if (refused.empty() || placed.error().code != ErrorCode::kUnavailable)
          return placed.error();
        if (!std::exchange(is_first_round, false)) {
          return why.empty() ? placed.error()
                             : unavailable(fmt::format("no node takes it: {}", why));
        }
        refused.clear();
        continue;
      }
      const std::vector<PoolRecord> pools = pools_of(record, false);
      times["choose_us"] = microseconds(steady_clock::now() - chooses);
      const auto begin = steady_clock::now();
      TESSERA_RETURN_IF_ERROR(commit({}, pools, record));
      times["store_us"] = microseconds(steady_clock::now() - begin);
      allocs_.at(key).changes = true;
      grant = to_node("grant", record);
    }
    const auto begin = steady_clock::now();
    std::string failed;
    const auto granted = call_nodes(record, grant, &failed);
    times["node_us"] = microseconds(steady_clock::now() - begin);
    const bool is_back = !granted.ok() && is_taken_back(record);
    const Lock lock(mutex_);
    const auto found = allocs_.find(key);
    if (found != allocs_.end()) {
      found->second.changes = false;
      found->second.ends = !granted.ok() && !is_back;
    }
    if (granted.ok()) {
      note("acquire", tenant.name, fmt::format("'{}': {}", record.id, where_text(record)));
      return record;
    }
    why = granted.error().message;
    refused.insert(failed);
    if (!is_back) {
      if (const auto node = nodes_.find(failed); node != nodes_.end())
        node->second.is_checked = false;
      note("silent", tenant.name,
           fmt::format("node {} does not answer ({}); '{}' is taken back from it", failed, why,
                       record.id));
      return unavailable(fmt::format("node '{}' does not answer ({}); try again", failed, why));
    }
    TESSERA_RETURN_IF_ERROR(forget_alloc(key));
    if (granted.error().code != ErrorCode::kUnavailable) return granted.error();
  }
}

// The node lets go first: nobody else gets the cores before.
Status Master::free_alloc(const AllocKey& key, const std::string& why) {
  json revoke;
  AllocRecord record;
  {
    const Lock lock(mutex_);
    TESSERA_RETURN_IF_ERROR(check_leading());
    const auto found = allocs_.find(key);
    if (found == allocs_.end()) return {};
    if (found->second.changes) {
      return unavailable(
          fmt::format("allocation '{}' is being changed at present; try again", key.second));
    }
    found->second.changes = true;
    record = found->second.record;
    revoke = to_node("revoke", record);
    revoke["why"] = why;
  }
  std::string failed;
  const auto revoked = call_nodes(record, revoke, &failed);
  const Lock lock(mutex_);
  const auto found = allocs_.find(key);
  if (found == allocs_.end()) return {};
  found->second.changes = false;
  if (!revoked.ok()) {
    return unavailable(
        fmt::format("'{}' is not given back yet, since node '{}' does not answer "
                    "({}); it comes back when that node's lease ends",
                    key.second, failed, revoked.error().message));
  }
  TESSERA_RETURN_IF_ERROR(forget_alloc(key));
  note("release", key.first, fmt::format("'{}': {}", key.second, why));
  return {};
}

Result<json> Master::release(const json& request, const Tenant& tenant) {
  AllocKey key;
  {
    const Lock lock(mutex_);
    TESSERA_RETURN_IF_ERROR(check_leading());
    TESSERA_TRY(key, find_alloc(request, tenant));
  }
  TESSERA_RETURN_IF_ERROR(free_alloc(key, "its tenant gives it back"));
  return json{{"alloc", key.second}};
}

Result<json> Master::unused(const json& request) {
  RequestFields fields(request, "request of a node");
  const std::string secret = fields.text("secret"), node = fields.name("node");
  const json* const list = fields.array("allocs");
  TESSERA_RETURN_IF_ERROR(fields.status());
  std::vector<AllocKey> keys;
  {
    const Lock lock(mutex_);
    TESSERA_RETURN_IF_ERROR(check_leading());
    if (secret != cluster_.secret) return invalid("who calls is no node of this cluster");
    for (const AllocKey& key : allocs_on(node)) {
      const AllocRecord& record = allocs_.at(key).record;
      const json entry = {{"tenant", key.first}, {"alloc", key.second}, {"epoch", record.epoch}};
      // Of one over several nodes the first one knows its users.
      const bool is_first = record.node == node;
      if (is_first && !record.kept && std::ranges::count(*list, entry) > 0) keys.push_back(key);
    }
  }
  for (const AllocKey& key : keys) {
    const Status freed = free_alloc(key, "its user has gone");
    audit("release", {.name = key.first, .token = {}},
          {{"alloc", key.second}, {"why", "its user has gone"}},
          freed.ok() ? "" : freed.error().message);
  }
  return json::object();
}

// What nodes count of the allocations on them; only for who looks.
Result<json> Master::take_figures(const json& request) {
  RequestFields fields(request, "request of a node");
  const std::string secret = fields.text("secret"), node = fields.name("node");
  const json* const list = fields.array("allocs");
  TESSERA_RETURN_IF_ERROR(fields.status());
  const Lock lock(mutex_);
  TESSERA_RETURN_IF_ERROR(check_leading());
  if (secret != cluster_.secret) return invalid("who calls is no node of this cluster");
  for (const json& entry : *list) {
    Fields one(entry, "figures of an allocation");
    const AllocKey key{one.name("tenant"), one.name("alloc")};
    json figures;
    for (const char* const name : kFigureNames) {
      figures[name] = one.integer(name, 0, std::int64_t{1} << 53, 0);
    }
    TESSERA_RETURN_IF_ERROR(one.status());
    const auto found = allocs_.find(key);
    if (found != allocs_.end() && found->second.record.node == node) {
      found->second.figures = std::move(figures);
    }
  }
  return json::object();
}

json Master::health() {
  const auto begin = steady_clock::now();
  const auto read = store_.read(kClusterKey, options_.store_timeout);
  const double store_ms = microseconds(steady_clock::now() - begin) / 1e3;
  const Lock lock(mutex_);
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(lease_.held_until() - clock_());
  return {{"role", "master"},
          {"endpoint", options_.endpoint},
          {"leads", leads_},
          {"leader", leads_ ? options_.endpoint : leader_endpoint_},
          {"lease",
           {{"held", lease_.lease() != 0},
            {"ttl_ms", options_.ttl.count()},
            {"left_ms", left.count()}}},
          {"store",
           {{"name", store_.describe()},
            {"answers", read.ok()},
            {"error", read.ok() ? "" : read.error().message},
            {"milliseconds", store_ms}}}};
}

// The allocation with so many cores, of which it keeps what it can.
Result<AllocRecord> Master::resized(const AllocRecord& before, int cores) const {
  if (before.cards_wanted > 1) {
    AllocRecord after = before;
    TESSERA_TRY(after.cores_wanted, cores_of_cards(before, cores));
    return after;
  }
  const PlacementRequest placement{.arch = {},
                                   .cores = cores,
                                   .memory_bytes = before.memory_bytes,
                                   .node = before.node,
                                   .own = before.cores};
  const CardState* const known = table_.find({before.node, before.card});
  if (known == nullptr) return unavailable(fmt::format("node '{}' is not there", before.node));
  CardState card = *known;
  for (const int group : groups_of(before.cores, card.shape.cores_per_group)) {
    const auto place = static_cast<std::size_t>(group);
    if (place < card.memory_taken.size()) card.memory_taken[place] -= before.memory_bytes;
  }
  const auto choice = choose_on_card(card, placement);
  if (!choice.has_value()) return unavailable(room_text({card}, placement));
  AllocRecord after = before;
  after.cores = choice->cores;
  after.cores_wanted = cores;
  return after;
}

// Of cards that it has as a whole.
Result<int> Master::cores_of_cards(const AllocRecord& record, int cores) {
  const auto all = static_cast<int>(cores_held(record));
  if (cores >= record.cards_wanted && cores <= all) return cores;
  return invalid(fmt::format(
      "{} cores; allocation '{}' has {} cards as a whole, allowed are {} to {} cores of "
      "them. For other cards free it and take them anew",
      cores, record.id, record.cards_wanted, record.cards_wanted, all));
}

// The new cores are taken before the node is asked, and the old ones are free when it has moved.
Result<json> Master::resize(const json& request, const Tenant& tenant) {
  RequestFields fields(request, "request");
  const int cores = static_cast<int>(fields.integer("cores", 1, 1024));
  TESSERA_RETURN_IF_ERROR(fields.status());
  const auto begin = steady_clock::now();
  AllocRecord before, after;
  AllocKey key;
  json move;
  double store_us = 0;
  {
    const Lock lock(mutex_);
    TESSERA_RETURN_IF_ERROR(check_leading());
    TESSERA_TRY(key, find_alloc(request, tenant));
    Alloc& alloc = allocs_.at(key);
    before = alloc.record;
    if (alloc.changes || before.node.empty() || before.broken) {
      return unavailable(
          fmt::format("allocation '{}' {}; try again", before.id,
                      alloc.changes ? "is being changed at present" : "has no cores at present"));
    }
    TESSERA_TRY(after, resized(before, cores));
    if (before.cards_wanted == 1) {
      TESSERA_RETURN_IF_ERROR(check_quota(tenant, cores - before.cores_wanted,
                                          memory_held(after) - memory_held(before)));
    }
    const auto writes = steady_clock::now();
    TESSERA_RETURN_IF_ERROR(commit({}, pools_of(after, false), std::nullopt));
    store_us = microseconds(steady_clock::now() - writes);
    alloc.changes = true;
    move = to_node("move", after);
  }
  const auto called = steady_clock::now();
  const auto moved = call_nodes(before, move);
  const double node_us = microseconds(steady_clock::now() - called);
  const Lock lock(mutex_);
  const auto writes = steady_clock::now();
  TESSERA_RETURN_IF_ERROR(settle_resize(key, before, after, moved));
  store_us += microseconds(steady_clock::now() - writes);
  json reply = alloc_json(after);
  reply["linked"] = moved->value("linked", json::object());
  reply["times"] = {{"store_us", store_us},
                    {"node_us", node_us},
                    {"move_us", moved->value("move_us", 0.0)},
                    {"link_us", moved->value("link_us", 0.0)},
                    {"total_us", microseconds(steady_clock::now() - begin)}};
  return reply;
}

// Where the node has not moved it, the allocation has what it had.
Status Master::settle_resize(const AllocKey& key, const AllocRecord& before,
                             const AllocRecord& after, const Result<json>& moved) {
  const auto found = allocs_.find(key);
  const auto node = nodes_.find(before.node);
  if (found != allocs_.end()) found->second.changes = false;
  if (found == allocs_.end() || node == nodes_.end() ||
      found->second.record.epoch != before.epoch || found->second.record.node != before.node) {
    return unavailable(fmt::format("allocation '{}' has lost its node meanwhile", key.second));
  }
  const AllocRecord& has = moved.ok() ? after : before;
  std::vector<PoolRecord> pools = pools_of(has, false);
  if (before.cards_wanted == 1) {
    PoolRecord pool = pool_of({before.node, before.card});
    set_free(pool, before.cores, true);
    set_free(pool, after.cores, true);
    set_free(pool, has.cores, false);
    ++pool.generation;
    pools = {std::move(pool)};
  }
  if (!moved.ok()) node->second.is_checked = false;
  TESSERA_RETURN_IF_ERROR(commit({}, pools, has));
  if (!moved.ok()) return moved.error();
  note("resize", key.first,
       fmt::format("'{}': {} cores, was {}", key.second, after.cores_wanted, before.cores_wanted));
  return {};
}

Result<json> Master::locate(const json& request, const Tenant& tenant) {
  const Lock lock(mutex_);
  TESSERA_RETURN_IF_ERROR(check_leading());
  TESSERA_TRY(const AllocKey key, find_alloc(request, tenant));
  const Alloc& alloc = allocs_.at(key);
  json reply = alloc_json(alloc.record);
  reply["ticket"] = alloc.record.ticket;
  if (alloc.changes && reply["state"] == "placed") reply["state"] = "waits";
  return reply;
}

Result<json> Master::drain(const json& request, const Tenant& tenant) {
  if (!tenant.is_operator) {
    return invalid(fmt::format("tenant '{}' is no operator; nodes are theirs", tenant.name));
  }
  RequestFields fields(request, "request");
  const std::string node = fields.name("node");
  const bool drains = fields.flag("on", true);
  TESSERA_RETURN_IF_ERROR(fields.status());
  const Lock lock(mutex_);
  TESSERA_RETURN_IF_ERROR(check_leading());
  std::vector<PoolRecord> pools;
  for (const auto& [key, pool] : pools_) {
    if (key.first != node) continue;
    pools.push_back(pool.record);
    pools.back().draining = drains;
    ++pools.back().generation;
  }
  if (pools.empty()) {
    std::string known;
    for (const auto& [id, one] : nodes_) known += (known.empty() ? "" : ", ") + id;
    return invalid(fmt::format("there is no node '{}'; there are {}", node, known));
  }
  TESSERA_RETURN_IF_ERROR(commit({}, pools, std::nullopt));
  const auto left = std::ssize(allocs_on(node));
  note("drain", tenant.name,
       fmt::format("node {} {}; {} allocations are on it", node,
                   drains ? "gets nothing new" : "is in use again", left));
  return json{{"node", node}, {"draining", drains}, {"allocs", left}};
}

json Master::status(const Tenant& tenant) const {
  json nodes = json::array(), pool = json::array(), allocs = json::array();
  for (const auto& [id, node] : nodes_) {
    json cards = json::array();
    for (const CardRecord& card : node.record.cards)
      cards.push_back({{"arch", card.arch}, {"cores", card.cores()}});
    nodes.push_back({{"node", id},
                     {"endpoint", node.record.endpoint},
                     {"incarnation", node.record.incarnation},
                     {"on_control_loss", on_control_loss_name(node.record.on_control_loss)},
                     {"state", node.is_here ? "here" : "unreachable"},
                     {"cards", cards}});
  }
  for (const auto& [key, card] : table_.cards()) {
    pool.push_back({{"node", card.node},
                    {"card", card.card},
                    {"arch", card.shape.arch},
                    {"cores", card.shape.cores()},
                    {"groups", card.shape.groups},
                    {"free", std::ranges::count(card.free, true)},
                    {"generation", pool_of({card.node, card.card}).generation},
                    {"draining", card.draining}});
  }
  for (const auto& [key, alloc] : allocs_) {
    if (!tenant.is_operator && key.first != tenant.name) continue;
    allocs.push_back(alloc_json(alloc.record));
    if (!alloc.figures.is_null()) allocs.back()["figures"] = alloc.figures;
  }
  return {{"master", options_.endpoint},
          {"epoch", candidate_->epoch()},
          {"store", store_.describe()},
          {"nodes", nodes},
          {"pool", pool},
          {"allocs", allocs}};
}

json Master::events(const json& request, const Tenant& tenant) const {
  const json after = request.value("after", json(0));
  const std::int64_t from = after.is_number_integer() ? after.get<std::int64_t>() : 0;
  json list = json::array();
  for (const Event& event : events_) {
    const bool own = event.tenant == tenant.name || tenant.is_operator;
    if (event.number <= from || !own) continue;
    list.push_back({{"number", event.number},
                    {"unix_ms", event.unix_ms},
                    {"kind", event.kind},
                    {"tenant", event.tenant},
                    {"text", event.text}});
  }
  return {{"events", list}};
}

}  // namespace tessera::cluster

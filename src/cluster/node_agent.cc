#include "cluster/node_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/guarded.h"
#include "cluster/errors.h"
#include "cluster/fields.h"
#include "cluster/names.h"
#include "store/election.h"

namespace tessera::cluster {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

std::int64_t nanoseconds(steady_clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

}  // namespace

NodeAgent::NodeAgent(store::Store& store, NodeWork& work, Caller& caller, Clock clock,
                     NodeOptions options)
    : store_(store),
      work_(work),
      caller_(caller),
      clock_(std::move(clock)),
      options_(std::move(options)),
      lease_(store, clock_, {.ttl = options_.ttl, .timeout = options_.store_timeout}) {}

void NodeAgent::log(const char* event, json fields) const {
  if (!options_.log) return;
  fields["event"] = event;
  fields["t_ns"] = nanoseconds(clock_());
  fields["node"] = options_.id;
  options_.log(fields);
}

steady_clock::time_point NodeAgent::begins_until() const {
  return lease_.held_until() - lease_.ttl() / 4;
}
steady_clock::time_point NodeAgent::fenced_at() const {
  return lease_.held_until() - lease_.ttl() / 10;
}

bool NodeAgent::is_registered() const { return lease_.lease() != 0; }

std::string NodeAgent::secret() const {
  const Lock lock(mutex_);
  return cluster_.secret;
}

std::vector<AllocRecord> NodeAgent::allocations() const {
  const Lock lock(mutex_);
  std::vector<AllocRecord> all;
  for (const auto& [key, held] : held_) all.push_back(held.record);
  return all;
}

// ---- the lease ----

void NodeAgent::tick() {
  {
    const Lock lock(mutex_);
    if (is_registered() && clock_() >= fenced_at() &&
        options_.on_control_loss == OnControlLoss::kFence) {
      fence("the store has been silent for too long");
    }
  }
  renew();
  if (!is_registered()) register_now();
  report_unused();
}

json NodeAgent::health() const {
  const Lock lock(mutex_);
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(lease_.held_until() - clock_());
  return {{"role", "node"},
          {"node", options_.id},
          {"endpoint", options_.endpoint},
          {"lease",
           {{"held", lease_.lease() != 0},
            {"ttl_ms", options_.ttl.count()},
            {"left_ms", left.count()}}}};
}

// Nothing depends on them: what does not arrive is sent the next time.
void NodeAgent::report_figures() {
  if (!options_.figures) return;
  json request = {{"call", "figures"}, {"node", options_.id}};
  {
    const Lock lock(mutex_);
    if (!is_registered()) return;
    request["secret"] = cluster_.secret;
  }
  request["allocs"] = options_.figures();
  if (request["allocs"].empty()) return;
  if (figures_to_.empty()) {
    const auto leader = store::current_leader(store_, kMasterKey, options_.store_timeout);
    if (!leader.ok() || !leader->has_value()) return;
    figures_to_ = (*leader)->value;
  }
  constexpr std::chrono::milliseconds kForAnswer{300};
  if (!caller_.call(figures_to_, request, kForAnswer).ok())
    figures_to_.clear();  // another may lead
}

// Where it has ended, what is held is looked at when the node registers.
void NodeAgent::renew() {
  if (lease_.renew_if_due() != store::LeaseKeeper::Renewal::kRenewed) return;
  const Lock lock(mutex_);
  log("held", {{"until_ns", nanoseconds(fenced_at())}});
}

// Its entry under a new lease. What it holds stays if the store has lost what it knew, and so nobody can have
// been given it.
void NodeAgent::register_now() {
  const auto at = store_.read(kClusterKey, options_.store_timeout);
  if (!at.ok() || !at->entry.has_value()) return;
  const auto cluster = parse_cluster(at->entry->value);
  if (!cluster.ok()) return;
  const auto granted = lease_.grant();
  if (!granted.ok()) return;
  NodeRecord record{.id = options_.id,
                    .incarnation = random_name(),
                    .endpoint = options_.endpoint,
                    .machine = options_.machine,
                    .shared_memory = options_.shared_memory,
                    .ucx = options_.ucx,
                    .on_control_loss = options_.on_control_loss,
                    .cards = options_.cards};
  const std::string key = node_key(options_.id);
  const auto done = store_.commit(
      {.comparisons = {store::absent(key)}, .puts = {{key, encode(record), granted->lease.id}}},
      options_.store_timeout);
  if (!done.ok() || !done->succeeded()) {
    // The one before it is still there, until its lease ends.
    is_id_taken_ = done.ok();
    lease_.give_back(*granted);
    return;
  }
  const Lock lock(mutex_);
  const bool keeps = options_.on_control_loss == OnControlLoss::kKeep;
  if (!keeps && cluster_.id == cluster->id) fence("its lease has ended");
  if (cluster_.id != cluster->id) master_epoch_ = 0;
  cluster_ = *cluster;
  incarnation_ = record.incarnation;
  lease_.hold(*granted);
  is_id_taken_ = false;
  log("registered", {{"incarnation", incarnation_}, {"until_ns", nanoseconds(fenced_at())}});
}

void NodeAgent::leave() {
  store::LeaseId lease = 0;
  {
    const Lock lock(mutex_);
    lease = lease_.lease();
    fence("the node leaves");
  }
  if (lease != 0) (void)store_.revoke_lease(lease, options_.store_timeout);
}

// With the lock held.
void NodeAgent::fence(const std::string& why) {
  while (!held_.empty()) drop(held_.begin()->first, why);
  if (lease_.forget() != 0) log("fenced", {{"why", why}});
}

void NodeAgent::drop(const AllocKey& key, const std::string& why) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  const AllocRecord record = found->second.record;
  held_.erase(found);
  work_.revoke(record);
  log("disown",
      {{"alloc", record.id}, {"tenant", record.tenant}, {"epoch", record.epoch}, {"why", why}});
}

// Those whose users have gone are given back, by the master.
void NodeAgent::report_unused() {
  json unused = json::array();
  std::string secret;
  {
    const Lock lock(mutex_);
    const auto now = clock_();
    if (!is_registered() || now < next_report_) return;
    secret = cluster_.secret;
    for (const auto& [key, held] : held_) {
      if (held.record.kept || held.users > 0) continue;
      if (now - held.unused_since < options_.idle_limit) continue;
      unused.push_back(
          {{"tenant", key.first}, {"alloc", key.second}, {"epoch", held.record.epoch}});
    }
    if (unused.empty()) return;
    next_report_ = now + std::chrono::milliseconds(500);
  }
  const auto leader = store::current_leader(store_, kMasterKey, options_.store_timeout);
  if (!leader.ok() || !leader->has_value()) return;
  constexpr std::chrono::milliseconds kForAnswer{300};
  (void)caller_.call(
      (*leader)->value,
      {{"call", "unused"}, {"secret", secret}, {"node", options_.id}, {"allocs", unused}},
      kForAnswer);
}

// ---- the master's requests ----

Status NodeAgent::check_master(const json& request) {
  RequestFields fields(request, "request of a master");
  const std::string secret = fields.text("secret");
  const std::int64_t epoch = fields.integer("epoch", 1, std::int64_t{1} << 53);
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (!is_registered()) {
    return unavailable(fmt::format("node '{}' is not registered at present", options_.id));
  }
  if (secret != cluster_.secret) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("node '{}': who calls is no master of this cluster", options_.id)};
  }
  if (epoch < master_epoch_) {
    return unavailable(
        fmt::format("node '{}': a master of epoch {} calls, which one of epoch {} has followed",
                    options_.id, epoch, master_epoch_));
  }
  master_epoch_ = epoch;
  return {};
}

// The store has ended its lease, whatever it was told itself; it may not have noticed, or be about to register anew.
Result<json> NodeAgent::let_go(const json& request) {
  RequestFields fields(request, "request of a master");
  const std::string secret = fields.text("secret"), incarnation = fields.name("incarnation");
  const std::int64_t epoch = fields.integer("epoch", 1, std::int64_t{1} << 53);
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (secret != cluster_.secret || epoch < master_epoch_) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("node '{}': who calls is no master of this cluster", options_.id)};
  }
  const bool fences = options_.on_control_loss == OnControlLoss::kFence;
  if (fences && incarnation == incarnation_) fence("a master says that its lease has ended");
  return json::object();
}

Result<json> NodeAgent::handle(const json& request) {
  Lock lock(mutex_);
  const std::string call =
      request.value("call", json("")).is_string() ? request.value("call", "") : std::string();
  if (call == "let_go") return let_go(request);
  TESSERA_RETURN_IF_ERROR(check_master(request));
  if (call == "grant") return grant(request, lock);
  if (call == "move") return move(request, lock);
  if (call == "revoke") return revoke(request);
  if (call == "limit") return limit(request);
  if (call == "list") return list();
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("a node does not know the call '{}'", call)};
}

namespace {

json reply_of(const AllocRecord& record) {
  return {{"alloc", record.id},
          {"tenant", record.tenant},
          {"epoch", record.epoch},
          {"card", record.card},
          {"cores", record.cores}};
}

Result<AllocRecord> alloc_of(const json& request) {
  if (!request.contains("alloc")) {
    return Error{ErrorCode::kInvalidModel, "request of a master: 'alloc' is missing"};
  }
  return alloc_from_json(request["alloc"]);
}

Result<RequestQuota> quota_of(const json& request) {
  return quota_from_json(request.contains("requests") ? request["requests"] : json::object());
}

}  // namespace

bool NodeAgent::is_for_this(const AllocRecord& record) const {
  const std::vector<AllocPart> parts = parts_on(record, options_.id);
  return !parts.empty() && std::ranges::all_of(parts, [this](const AllocPart& part) {
    return part.incarnation == incarnation_;
  });
}

// The lock is not held while the work is done; that of one allocation comes from one master, which waits for it.
Result<json> NodeAgent::grant(const json& request, Lock& lock) {
  TESSERA_TRY(const AllocRecord record, alloc_of(request));
  TESSERA_TRY(const RequestQuota quota, quota_of(request));
  if (!is_for_this(record)) {
    return unavailable(fmt::format("node '{}' has registered again since", options_.id));
  }
  if (clock_() >= begins_until()) {
    return unavailable(fmt::format("node '{}' has not reached the store lately", options_.id));
  }
  const AllocKey key = key_of(record);
  if (granting_.contains(key)) {
    return unavailable(fmt::format("allocation '{}' is just being set up on node '{}'; try again",
                                   record.id, options_.id));
  }
  if (is_held(record)) return reply_of(held_.at(key).record);
  drop(key, "it comes again");
  granting_[key] = {.ticket = record.ticket};
  lock.unlock();
  const Status done = guarded("granting", [&] { return work_.grant(record); });
  lock.lock();
  const bool is_revoked = granting_.at(key).is_revoked;
  granting_.erase(key);
  TESSERA_RETURN_IF_ERROR(done);
  if (is_revoked || !is_registered() || !is_for_this(record)) {
    work_.revoke(record);
    return unavailable(is_revoked
                           ? fmt::format("allocation '{}' was taken back meanwhile", record.id)
                           : fmt::format("node '{}' has registered again since", options_.id));
  }
  auto requests = std::make_shared<RequestCounter>(clock_);
  requests->set(quota);
  held_[key] = {record, cluster_.id, 0, std::move(requests), clock_(), {}};
  log_own(record);
  return reply_of(record);
}

// A line for each of its cards here.
void NodeAgent::log_own(const AllocRecord& record) const {
  for (const AllocPart& part : parts_on(record, options_.id)) {
    json line = reply_of(record);
    line["card"] = part.card;
    line["cores"] = part.cores;
    log("own", std::move(line));
  }
}

Result<json> NodeAgent::move(const json& request, Lock& lock) {
  TESSERA_TRY(const AllocRecord record, alloc_of(request));
  if (!is_held(record)) return not_here(record.id);
  const auto begin = clock_();
  lock.unlock();
  const Status done = work_.move(record);
  const NodeWork::Link link = work_.last_link(record);
  lock.lock();
  TESSERA_RETURN_IF_ERROR(done);
  if (!is_held(record)) return not_here(record.id);
  const std::chrono::duration<double, std::micro> lasted = clock_() - begin;
  held_.at(key_of(record)).record = record;
  log_own(record);
  json reply = reply_of(record);
  reply["move_us"] = lasted.count();
  reply["link_us"] = std::chrono::duration<double, std::micro>(link.time).count();
  reply["linked"] = {
      {"compiled", link.compiled}, {"filled_in", link.filled_in}, {"kept", link.kept}};
  return reply;
}

Result<json> NodeAgent::revoke(const json& request) {
  RequestFields fields(request, "request of a master");
  const std::string why = fields.text("why", "the master says so");
  TESSERA_RETURN_IF_ERROR(fields.status());
  TESSERA_TRY(const AllocRecord record, alloc_of(request));
  const AllocKey key = key_of(record);
  const auto granting = granting_.find(key);
  if (granting != granting_.end() && granting->second.ticket == record.ticket) {
    granting->second.is_revoked = true;  // the grant lets go of it
  }
  const auto found = held_.find(key);
  if (found != held_.end() && found->second.record.ticket == record.ticket) drop(key, why);
  return json::object();
}

Result<json> NodeAgent::limit(const json& request) {
  TESSERA_TRY(const AllocRecord record, alloc_of(request));
  TESSERA_TRY(const RequestQuota quota, quota_of(request));
  if (!is_held(record)) return not_here(record.id);
  held_.at(key_of(record)).requests->set(quota);
  return json::object();
}

json NodeAgent::list() const {
  json allocs = json::array();
  for (const auto& [key, held] : held_) {
    json one = to_json(held.record);
    one["cluster"] = held.cluster;
    allocs.push_back(std::move(one));
  }
  return {{"incarnation", incarnation_}, {"allocs", allocs}};
}

// ---- its users ----

Result<AllocRecord> NodeAgent::admit(const std::string& id, const std::string& ticket) {
  const Lock lock(mutex_);
  for (const auto& [key, held] : held_) {
    if (key.second == id && held.record.ticket == ticket) return held.record;
  }
  return not_here(id);
}

Error NodeAgent::not_here(const std::string& id) const {
  return unavailable(fmt::format("node '{}' has no allocation '{}'", options_.id, id));
}

bool NodeAgent::is_held(const AllocRecord& alloc) const {
  const auto found = held_.find(key_of(alloc));
  return found != held_.end() && found->second.record.epoch == alloc.epoch &&
         found->second.record.ticket == alloc.ticket;
}

Status NodeAgent::may_begin(const AllocRecord& alloc) {
  const Lock lock(mutex_);
  if (!is_held(alloc)) return not_here(alloc.id);
  if (options_.on_control_loss == OnControlLoss::kKeep || clock_() < begins_until()) return {};
  return unavailable(fmt::format(
      "node '{}' has not reached the store lately and begins nothing new", options_.id));
}

Status NodeAgent::may_answer(const AllocRecord& alloc) {
  const Lock lock(mutex_);
  const bool in_time = options_.on_control_loss == OnControlLoss::kKeep || clock_() < fenced_at();
  if (is_held(alloc) && in_time) return {};
  return unavailable(
      fmt::format("node '{}' has lost allocation '{}' while it ran; its result is not used",
                  options_.id, alloc.id));
}

std::shared_ptr<RequestCounter> NodeAgent::requests_of(const AllocRecord& alloc) const {
  const Lock lock(mutex_);
  return is_held(alloc) ? held_.at(key_of(alloc)).requests : nullptr;
}

void NodeAgent::note_refusal(const AllocRecord& alloc, const std::string& why) const {
  if (!options_.audit) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  options_.audit({{"unix_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now).count()},
                  {"action", "infer"},
                  {"tenant", alloc.tenant},
                  {"alloc", alloc.id},
                  {"node", options_.id},
                  {"outcome", "refused"},
                  {"reason", why}});
}

void NodeAgent::count_user(const AllocRecord& alloc, int more) {
  const Lock lock(mutex_);
  if (!is_held(alloc)) return;  // a session of an earlier placement has no part in this one
  Held& held = held_.at(key_of(alloc));
  held.users += more;
  held.unused_since = clock_();
}

}  // namespace tessera::cluster

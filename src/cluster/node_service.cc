#include "cluster/node_service.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>

#include "arch/architecture_file.h"
#include "arch/card_placement.h"
#include "base/guarded.h"
#include "cluster/client_session.h"
#include "cluster/fields.h"
#include "cluster/tenants.h"

namespace tessera::cluster {

using nlohmann::json;

// Waits for runs whose allocation is gone, so that nobody else has to.
class NodeService::Closer {
 public:
  Closer() : thread_([this] { work(); }) {}
  ~Closer() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  struct Work {
    std::vector<std::shared_ptr<ClientSession>> sessions;  // shared with their connections
    std::vector<std::shared_ptr<device::VirtualProcessor>> processors;  // shared with them
    std::shared_ptr<NodePart> part;
  };
  void add(Work work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  bool wait_until_idle(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return queue_.empty() && !works_; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Work work = std::move(queue_.front());
      queue_.pop_front();
      works_ = true;
      lock.unlock();
      for (const auto& session : work.sessions) session->close();
      work = {};
      lock.lock();
      works_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool works_ = false, ends_ = false;
  std::thread thread_;
};

Result<std::unique_ptr<NodeService>> NodeService::create(NodeServiceOptions options) {
  std::unique_ptr<NodeService> service(new NodeService(std::move(options)));
  for (const ChipConfig& chip : service->options_.cards) {
    TESSERA_TRY(service->cards_.emplace_back(), device::VirtualCard::create(chip));
  }
  return service;
}

NodeService::NodeService(NodeServiceOptions options)
    : options_(std::move(options)),
      packages_(options_.package_bytes_max, options_.cards),
      closer_(std::make_unique<Closer>()) {}

NodeService::~NodeService() {
  for (const auto& [connection, session] : sessions_) session->close();
}

std::vector<CardRecord> NodeService::card_records() const {
  std::vector<CardRecord> records;
  for (const ChipConfig& chip : options_.cards) {
    records.push_back({.arch = chip.name,
                       .fingerprint = fmt::format("{:016x}", fingerprint(chip)),
                       .groups = chip.card.groups,
                       .cores_per_group = chip.card.cores_per_group,
                       .memory_bytes = chip.dram.bytes,
                       .is_whole = is_taken_whole(chip)});
  }
  return records;
}

// ---- the agent's orders ----

// Of one tenant alone, which any may be without tokens, the allocation's; two tenants may give theirs the same.
std::string NodeService::name_on_card(const AllocRecord& alloc) {
  return alloc.tenant == kOpenTenant ? alloc.id : fmt::format("{}/{}", alloc.tenant, alloc.id);
}

// One of several cards has them as a whole.
Result<std::vector<std::shared_ptr<device::VirtualProcessor>>> NodeService::take_cards(
    const AllocRecord& alloc) {
  std::vector<std::shared_ptr<device::VirtualProcessor>> taken;
  for (const AllocPart& part : parts_on(alloc, agent_->options().id)) {
    if (part.card >= std::ssize(cards_)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("card {}, of {}", part.card, cards_.size())};
    }
    const auto& card = cards_[static_cast<std::size_t>(part.card)];
    const bool is_whole = alloc.cards_wanted > 1;
    TESSERA_TRY(taken.emplace_back(),
                card->take({.name = name_on_card(alloc),
                            .core_numbers = part.cores,
                            .memory_bytes = is_whole ? card->chip().dram.bytes : alloc.memory_bytes,
                            .weight = alloc.weight}));
  }
  if (!taken.empty()) return taken;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("no card of allocation '{}' is on this node", alloc.id)};
}

// What others have just given up may still run on the cores, or be cleared from them.
Result<std::vector<std::shared_ptr<device::VirtualProcessor>>> NodeService::take_cards_when_free(
    const AllocRecord& alloc) {
  constexpr std::chrono::milliseconds kForOthers{1500}, kBetweenTries{5};
  const auto last = std::chrono::steady_clock::now() + kForOthers;
  (void)closer_->wait_until_idle(kForOthers);
  for (;;) {
    auto taken = take_cards(alloc);
    if (taken.ok() || taken.error().code != ErrorCode::kUnavailable) return taken;
    if (std::chrono::steady_clock::now() >= last) return taken;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Status NodeService::grant(const AllocRecord& alloc) {
  Granted granted{
      .record = alloc, .processors = {}, .traffic = std::make_shared<Traffic>(), .part = nullptr};
  TESSERA_TRY(granted.processors, take_cards_when_free(alloc));
  if (alloc.cards_wanted > 1) {
    granted.part =
        std::make_shared<NodePart>(alloc, agent_->options().id,
                                   NodePart::Parts{.chip = granted.processors.front()->chip(),
                                                   .agent = agent_,
                                                   .packages = &packages_,
                                                   .dialer = options_.dialer,
                                                   .log = options_.log});
  }
  if (granted.part == nullptr) granted.processors.front()->prepare_changes();
  const std::lock_guard lock(mutex_);
  granted_[key_of(alloc)] = std::move(granted);
  return {};
}

std::shared_ptr<device::VirtualProcessor> NodeService::processor_of(const AllocRecord& alloc) {
  const std::lock_guard lock(mutex_);
  const auto found = granted_.find(key_of(alloc));
  return found == granted_.end() ? nullptr : found->second.processors.front();
}

Status NodeService::move(const AllocRecord& alloc) {
  std::shared_ptr<NodePart> part;
  {
    const std::lock_guard lock(mutex_);
    const auto found = granted_.find(key_of(alloc));
    if (found != granted_.end()) part = found->second.part;
  }
  if (part != nullptr) {
    part->move(alloc);
    return {};
  }
  const auto processor = processor_of(alloc);
  if (processor == nullptr) {
    return Error{ErrorCode::kUnavailable, fmt::format("there is no allocation '{}'", alloc.id)};
  }
  return processor->move(alloc.cores);
}

NodeWork::Link NodeService::last_link(const AllocRecord& alloc) {
  const auto processor = processor_of(alloc);
  if (processor == nullptr) return {};
  const auto link = processor->last_link();
  return {link.time, link.compiled, link.filled_in, link.kept};
}

void NodeService::revoke(const AllocRecord& alloc) {
  const AllocKey key = key_of(alloc);
  const std::lock_guard lock(mutex_);
  const auto found = granted_.find(key);
  if (found == granted_.end()) return;
  std::vector<std::shared_ptr<ClientSession>> sessions;
  for (const auto& [connection, session] : sessions_) {
    if (key_of(session->alloc()) == key) sessions.push_back(session);
  }
  if (const auto& part = found->second.part; part != nullptr) {
    part->end({ErrorCode::kUnavailable,
               fmt::format("node '{}' has allocation '{}' no more, which was over several "
                           "machines; what is placed anew can run it again",
                           agent_->options().id, alloc.id)});
    std::erase_if(peers_, [&](const auto& one) { return one.second.part == part; });
  }
  closer_->add(
      {std::move(sessions), std::move(found->second.processors), std::move(found->second.part)});
  granted_.erase(found);
}

// ---- connections ----

std::shared_ptr<ClientSession> NodeService::session_of(std::uint64_t connection) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(connection);
  return found == sessions_.end() ? nullptr : found->second;
}

std::optional<NodeService::Peer> NodeService::peer_of(std::uint64_t connection) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(connection);
  if (found == peers_.end()) return std::nullopt;
  return found->second;
}

void NodeService::note_exchange(std::uint64_t connection) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(connection);
  if (found != peers_.end()) found->second.exchanges = true;
}

MessageLimits NodeService::limits(std::uint64_t connection) {
  // Who has shown no ticket sends no tensors.
  if (session_of(connection) == nullptr && !peer_of(connection).has_value())
    return {.text_bytes = 1 << 20, .body_bytes = 0};
  return {.text_bytes = 1 << 20,
          .body_bytes = static_cast<std::uint64_t>(options_.package_bytes_max)};
}

std::shared_ptr<void> NodeService::arrived(std::uint64_t connection, std::string_view text) {
  const auto session = session_of(connection);
  return session == nullptr ? nullptr : session->arrived(text);
}

void NodeService::disconnected(std::uint64_t connection) {
  std::shared_ptr<ClientSession> session;
  if (const auto peer = peer_of(connection); peer.has_value()) {
    if (peer->exchanges) peer->part->left(peer->process);
    const std::lock_guard lock(mutex_);
    peers_.erase(connection);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(connection);
    if (found == sessions_.end()) return;
    session = std::move(found->second);
    sessions_.erase(found);
  }
  session->close();
}

Result<Reply> NodeService::handle(Request request) {
  TESSERA_TRY(const json text, parse_object(request.text, "request", ErrorCode::kInvalidArgument));
  if (text.contains("secret")) {
    TESSERA_TRY(const json answer, agent_->handle(text));
    return Reply{dump(answer), {}};
  }
  if (text.contains("ticket") && text.contains("process")) {
    return open_as_peer(text, request.connection);
  }
  if (text.contains("ticket")) return open(text, request.connection);
  if (const auto peer = peer_of(request.connection); peer.has_value()) {
    if (text.value("call", json()) == "window") note_exchange(request.connection);
    return peer->part->handle(peer->process, request, text);
  }
  const auto session = session_of(request.connection);
  std::shared_ptr<Traffic> traffic;
  if (session != nullptr) {
    const std::lock_guard lock(mutex_);
    const auto found = granted_.find(key_of(session->alloc()));
    if (found != granted_.end()) traffic = found->second.traffic;
  }
  if (traffic != nullptr) return count(request, text, *session, *traffic);
  if (session != nullptr) return session->handle(request, text);
  return Error{ErrorCode::kInvalidArgument,
               "this connection has shown no ticket of an allocation; the master gives them out"};
}

Result<Reply> NodeService::count(const Request& request, const json& text, ClientSession& session,
                                 Traffic& traffic) {
  const bool runs = text.contains("call") && text["call"] == "infer";
  traffic.waiting = static_cast<std::int64_t>(request.waiting);
  for (const auto piece : request.body.pieces) traffic.bytes_in += std::ssize(piece);
  const auto begin = std::chrono::steady_clock::now();
  auto reply = session.handle(request, text);
  if (!runs) return reply;
  const auto took = std::chrono::steady_clock::now() - begin;
  traffic.busy_us += std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  ++traffic.runs;
  if (!reply.ok() || reply->text.starts_with(R"({"failed")")) ++traffic.failures;
  for (std::size_t i = 0; reply.ok() && i < reply->body.size(); ++i) {
    traffic.bytes_out += std::ssize(reply->body[i]);
  }
  return reply;
}

json NodeService::figures() {
  const std::lock_guard lock(mutex_);
  json list = json::array();
  for (const auto& [key, granted] : granted_) {
    const Traffic& traffic = *granted.traffic;
    const auto prepared = granted.processors.front()->prepared_changes();
    list.push_back({{"tenant", key.first},
                    {"alloc", key.second},
                    {"runs", traffic.runs.load()},
                    {"failures", traffic.failures.load()},
                    {"waiting", traffic.waiting.load()},
                    {"bytes_in", traffic.bytes_in.load()},
                    {"bytes_out", traffic.bytes_out.load()},
                    {"busy_us", traffic.busy_us.load()},
                    {"prepared_programs", prepared.programs},
                    {"prepared_clearings", prepared.clearings},
                    {"preparing", prepared.over ? 0 : 1}});
  }
  return list;
}

// Who has the allocation's ticket and the cluster's secret is one of its nodes.
Result<Reply> NodeService::open_as_peer(const json& request, std::uint64_t connection) {
  RequestFields fields(request, "request of a node");
  const std::string id = fields.name("alloc"), ticket = fields.name("ticket");
  const auto process = static_cast<int>(fields.integer("process", 0, 63));
  TESSERA_RETURN_IF_ERROR(fields.status());
  TESSERA_TRY(const AllocRecord record, agent_->admit(id, ticket));
  if (agent_->secret().empty() || fields.text("cluster_secret", "") != agent_->secret()) {
    return Error{ErrorCode::kInvalidArgument, "who joins an allocation is no node of this cluster"};
  }
  const std::lock_guard lock(mutex_);
  const auto found = granted_.find(key_of(record));
  if (found == granted_.end() || found->second.part == nullptr || sessions_.contains(connection)) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("allocation '{}' cannot be joined on this connection", id)};
  }
  peers_[connection] = {.part = found->second.part, .process = process};
  return Reply{};
}

Result<Reply> NodeService::open(const json& request, std::uint64_t connection) {
  RequestFields fields(request, "request of a client");
  const std::string id = fields.name("alloc"), ticket = fields.name("ticket");
  TESSERA_RETURN_IF_ERROR(fields.status());
  TESSERA_TRY(const AllocRecord record, agent_->admit(id, ticket));
  const AllocKey key = key_of(record);
  std::shared_ptr<device::VirtualProcessor> processor;
  std::shared_ptr<NodePart> part;
  {
    const std::lock_guard lock(mutex_);
    const auto found = granted_.find(key);
    const bool is_here = found != granted_.end() && !sessions_.contains(connection);
    if (is_here && (found->second.part == nullptr || found->second.part->leads())) {
      processor = found->second.processors.front();
      part = found->second.part;
    }
  }
  if (processor == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("allocation '{}' cannot be opened on this connection", id)};
  }
  // Made without the lock, since it tells the agent of itself.
  const auto session = std::make_shared<ClientSession>(record, processor, part, *agent_, packages_,
                                                       options_.is_timed);
  {
    const std::lock_guard lock(mutex_);
    sessions_[connection] = session;
    const auto found = granted_.find(key);
    if (found == granted_.end() || found->second.processors.front() != processor) session->close();
  }
  return Reply{dump({{"alloc", id},
                     {"arch", processor->chip().name},
                     {"fingerprint", fmt::format("{:016x}", fingerprint(processor->chip()))},
                     {"memory_bytes", processor->memory_bytes()},
                     {"cores", record.cores}}),
               {}};
}

}  // namespace tessera::cluster

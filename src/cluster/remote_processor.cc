#include "cluster/remote_processor.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "cluster/fields.h"

namespace tessera::cluster {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

RemoteProcessor::RemoteProcessor(ClusterAddress address, std::unique_ptr<Messenger> messenger)
    : address_(std::move(address)),
      messenger_(std::move(messenger)),
      master_(*messenger_, address_.masters) {}

json RemoteProcessor::request(const char* call) const {
  json document = {{"call", call}};
  if (!address_.tenant.empty()) document["tenant"] = address_.tenant;
  if (!address_.token.empty()) document["token"] = address_.token;
  return document;
}

json RemoteProcessor::acquisition() const {
  json request = this->request("acquire");
  request["cores"] = address_.cores;
  if (address_.cards > 1) request["cards"] = address_.cards;
  request["arch"] = address_.arch;
  request["memory_bytes"] = address_.memory_bytes;
  request["weight"] = address_.weight;
  if (!address_.node.empty()) request["node"] = address_.node;
  const std::string& name = name_.empty() ? address_.name : name_;
  if (!name.empty()) request["name"] = name;
  return request;
}

// Of an allocation that there is: that it has the cores that are said.
Status check_cores(const ClusterAddress& address, const json& where) {
  Fields fields(where, "answer of a master");
  const std::int64_t cores = fields.integer("cores_wanted", 0, kNumberMax);
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (!address.has_cores || cores == address.cores) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("allocation '{}' has {} cores, and cores={} says otherwise; leave it out, "
                  "or resize the allocation",
                  address.alloc, cores, address.cores)};
}

// Where it is. One that was given back, as its user seemed to be gone, is acquired anew.
Result<json> RemoteProcessor::locate(milliseconds patience) {
  json request = this->request("locate");
  request["alloc"] = name_;
  auto where = master_.call(request, patience);
  const bool is_gone = !where.ok() && where.error().code == ErrorCode::kInvalidArgument;
  return is_gone && is_own_ ? master_.call(acquisition(), patience) : where;
}

Result<std::unique_ptr<RemoteProcessor>> RemoteProcessor::acquire(const ClusterAddress& address) {
  TESSERA_TRY(auto messenger, Messenger::create(address.messenger));
  std::unique_ptr<RemoteProcessor> processor(new RemoteProcessor(address, std::move(messenger)));
  json request = processor->acquisition();
  if (!address.alloc.empty()) {
    request = processor->request("locate");
    request["alloc"] = address.alloc;
    processor->is_own_ = false;
  }
  // Who waits for room asks again; a refusal comes at once.
  const auto got = processor->master_.call(request, address.patience);
  if (!got.ok()) return got.error();
  Fields fields(*got, "answer of a master");
  processor->name_ = fields.name("alloc");
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (!address.alloc.empty()) TESSERA_RETURN_IF_ERROR(check_cores(address, *got));
  const TimePoint deadline = steady_clock::now() + address.patience;
  if (const Status opened = processor->open(*got, deadline); !opened.ok()) {
    TESSERA_TRY(const auto link, processor->link());
  }
  processor->watcher_ = std::thread([one = processor.get()] { one->watch(); });
  return processor;
}

RemoteProcessor::~RemoteProcessor() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    ended_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  if (!is_own_ || name_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    link_.reset();
  }
  json request = this->request("release");
  request["alloc"] = name_;
  // Where nobody answers the node notices that its user has gone.
  constexpr milliseconds kForRelease{2000};
  (void)master_.call(request, std::min(kForRelease, address_.patience));
}

int RemoteProcessor::cores() const {
  const std::lock_guard lock(mutex_);
  return cores_;
}

Status RemoteProcessor::open(const json& where, TimePoint deadline) {
  Fields fields(where, "answer of a master");
  const std::string ticket = fields.text("ticket");
  const std::string node = fields.text("node"), state = fields.text("state");
  const std::int64_t epoch = fields.integer("epoch", 1, std::int64_t{1} << 53);
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (state != "placed") {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("allocation '{}' has no cores at present ({}); it waits for a node "
                             "with room",
                             name_, state)};
  }
  constexpr milliseconds kForNode{3000};
  deadline = std::min(deadline, steady_clock::now() + kForNode);
  auto link = std::make_shared<NodeLink>();
  link->node = node;
  link->epoch = epoch;
  TESSERA_TRY(link->channel, open_channel(where, deadline));
  TESSERA_TRY(const Message answer,
              link->channel->call(dump({{"call", "open"}, {"alloc", name_}, {"ticket", ticket}}),
                                  {}, deadline));
  TESSERA_TRY(const json opened, parse_object(answer.text, "answer of a node"));
  Fields of_node(opened, "answer of a node");
  const std::string arch = of_node.text("arch"), print = of_node.text("fingerprint");
  const std::int64_t memory = of_node.integer("memory_bytes", 0, std::int64_t{1} << 53);
  const auto cores = of_node.integers("cores", 0, 1 << 20);
  TESSERA_RETURN_IF_ERROR(of_node.status());
  const std::lock_guard lock(mutex_);
  if (arch_.empty()) {
    arch_ = arch;
    fingerprint_ = print;
    memory_bytes_ = memory;
  }
  if (print != fingerprint_) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("node '{}' has '{}' ({}), the one before had '{}' ({})", node, arch,
                             print, arch_, fingerprint_)};
  }
  link->number = next_link_++;
  cores_ = static_cast<int>(cores.size());
  link_ = std::move(link);
  return {};
}

// As the address says; or by shared memory on the node's machine, where this user may, and else by TCP.
Result<std::unique_ptr<Channel>> RemoteProcessor::open_channel(const json& where,
                                                               TimePoint deadline) {
  Fields fields(where, "answer of a master");
  const std::string endpoint = fields.text("endpoint"), node = fields.text("node");
  const std::string machine = fields.text("machine", "");
  const std::string shared_memory = fields.text("shared_memory", "");
  const std::string ucx = fields.text("ucx", "");
  TESSERA_RETURN_IF_ERROR(fields.status());
  const bool is_here = !shared_memory.empty() && machine == machine_name();
  const NodeMedium medium = address_.medium;
  if (medium == NodeMedium::kUcx) {
    if (!ucx.empty()) return messenger_->open("ucx:" + ucx, deadline);
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("node '{}' has no UCX; start it with --ucx, or leave medium=ucx out", node)};
  }
  if (medium == NodeMedium::kSharedMemory && !is_here) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("node '{}' {}; leave medium=shm out", node,
                    shared_memory.empty() ? "offers no shared memory" : "is on another machine")};
  }
  if (is_here && medium != NodeMedium::kTcp) {
    auto channel = messenger_->open("shm:" + shared_memory, deadline);
    if (channel.ok() || medium == NodeMedium::kSharedMemory) return channel;
  }
  return messenger_->open(endpoint, deadline);
}

Result<std::shared_ptr<NodeLink>> RemoteProcessor::link() {
  const std::lock_guard opening(opening_);
  const TimePoint deadline = steady_clock::now() + address_.patience;
  constexpr milliseconds kBetweenTries{50};
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (link_ != nullptr && link_->channel->is_open()) return link_;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    const auto where = locate(std::max(left, kBetweenTries));
    const Status opened = where.ok() ? open(*where, deadline) : Status(where.error());
    if (opened.ok()) continue;
    if (opened.error().code != ErrorCode::kUnavailable ||
        steady_clock::now() + kBetweenTries >= deadline) {
      return opened.error();
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Result<Message> RemoteProcessor::call(NodeLink& link, const std::string& text, Parts body) {
  ++link.calls;
  auto answer = link.channel->call(text, body, TimePoint::max());
  --link.calls;
  return answer;
}

// A node that is paused or cut off answers nothing and ends no connection; the master knows better. Where the
// connection has ended while nothing runs, the next place is looked for all the same: there it would have no user,
// and would be given back.
void RemoteProcessor::watch() {
  constexpr milliseconds kBetweenLooks{500};
  for (;;) {
    bool looks = false, has_lost = false;
    {
      std::unique_lock lock(mutex_);
      if (ended_.wait_for(lock, kBetweenLooks, [this] { return ends_; })) return;
      looks = link_ != nullptr && link_->calls > 0;
      has_lost = link_ == nullptr || !link_->channel->is_open();
    }
    if (looks) look_for_another_place();
    if (has_lost) open_again();
  }
}

// Once, and not beside a run that does so. What its tenant has given back stays so.
void RemoteProcessor::open_again() {
  const std::unique_lock opening(opening_, std::try_to_lock);
  if (!opening.owns_lock()) return;
  json request = this->request("locate");
  request["alloc"] = name_;
  constexpr milliseconds kForAnswer{400};
  const auto where = master_.call(request, kForAnswer);
  if (where.ok()) (void)open(*where, steady_clock::now() + kForAnswer);
}

void RemoteProcessor::look_for_another_place() {
  std::shared_ptr<NodeLink> link;
  {
    const std::lock_guard lock(mutex_);
    link = link_;
  }
  if (link == nullptr) return;
  json request = this->request("locate");
  request["alloc"] = name_;
  constexpr milliseconds kForAnswer{400};
  const auto where = master_.call(request, kForAnswer);
  const bool is_gone = !where.ok() && where.error().code != ErrorCode::kUnavailable;
  if (where.ok() ? where->value("epoch", link->epoch) != link->epoch : is_gone) {
    link->channel->end();
  }
}

void RemoteProcessor::give_up(const std::shared_ptr<NodeLink>& link) {
  const std::lock_guard lock(mutex_);
  if (link_ == link) link_.reset();
}

}  // namespace tessera::cluster

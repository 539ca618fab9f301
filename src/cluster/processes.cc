#include "cluster/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/guarded.h"
#include "cluster/fields.h"
#include "cluster/master_client.h"
#include "cluster/node_service.h"

namespace tessera::cluster {
namespace {

using std::chrono::milliseconds;

// Calls a function again and again, until its end.
class Ticker {
 public:
  Ticker(milliseconds period, std::function<void()> tick)
      : period_(period), tick_(std::move(tick)), thread_([this] { run(); }) {}
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      lock.unlock();
      // What has no memory now is done next time.
      (void)guarded("", [this]() -> Status {
        tick_();
        return {};
      });
      lock.lock();
      changed_.wait_for(lock, period_, [this] { return ends_; });
    }
  }

  const milliseconds period_;
  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

constexpr milliseconds kFiguresPeriod{1000};

milliseconds period_of(milliseconds ttl) {
  return std::clamp(ttl / 30, milliseconds(5), milliseconds(100));
}

std::string endpoint_of(const std::string& advertised, const std::string& address, int port) {
  // HOST:PORT, or [V6]:PORT.
  const bool is_whole = advertised.find(':') != std::string::npos &&
                        (advertised.find(':') == advertised.rfind(':') || advertised[0] == '[');
  if (is_whole) return advertised;
  const std::string& host = advertised.empty() ? address : advertised;
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

class MasterRuns : public RunningMaster, private Responder {
 public:
  Status start(store::Store& store, RunningMasterOptions options) {
    options.messenger.audit = options.master.audit;
    TESSERA_TRY(messenger_, Messenger::create(options.messenger));
    caller_ = std::make_unique<ChannelCaller>(*messenger_);
    TESSERA_TRY(
        server_,
        messenger_->serve({.address = options.address, .port = options.port, .responder = this}));
    endpoint_ = endpoint_of(options.advertised, options.address, server_->port());
    options.master.endpoint = endpoint_;
    facts_ = std::move(options.facts);
    const milliseconds period = period_of(options.master.ttl);
    auto master = std::make_shared<Master>(
        store, *caller_, [] { return std::chrono::steady_clock::now(); },
        std::move(options.master));
    {
      const std::lock_guard lock(mutex_);
      master_ = master;
    }
    ticker_ = std::make_unique<Ticker>(period, [master] { master->tick(); });
    return {};
  }
  ~MasterRuns() override {
    ticker_.reset();
    server_.reset();
    if (master_ != nullptr) master_->leave();
  }
  const std::string& endpoint() const override { return endpoint_; }
  bool is_leading() const override { return master_->is_leading(); }

 private:
  Result<Reply> handle(Request request) override {
    std::shared_ptr<Master> master;
    {
      const std::lock_guard lock(mutex_);
      master = master_;
    }
    if (master == nullptr) return Error{ErrorCode::kUnavailable, "the master is just starting"};
    if (asks_for_health(request.text)) {
      nlohmann::json health = facts_json(facts_);
      health.update(master->health());
      return Reply{dump(health), {}};
    }
    TESSERA_TRY(const nlohmann::json text,
                parse_object(request.text, "request", ErrorCode::kInvalidArgument));
    auto answer = master->handle(text);
    if (answer.ok()) return Reply{dump(*answer), {}};
    // Of one that leads it is the answer; else another one is to be asked.
    if (answer.error().code == ErrorCode::kUnavailable && !master->is_leading()) {
      return answer.error();
    }
    return Reply{dump({{"refused", error_text(answer.error())}}), {}};
  }
  MessageLimits limits(std::uint64_t /*connection*/) override {
    return {.text_bytes = 1 << 20, .body_bytes = 0};
  }

  std::unique_ptr<Messenger> messenger_;
  std::unique_ptr<ChannelCaller> caller_;
  std::string endpoint_;
  DaemonFacts facts_;               // before there is a master
  std::mutex mutex_;                // of the pointer, while the server starts before the master
  std::shared_ptr<Master> master_;  // shared with requests
  std::unique_ptr<MessageServer> server_;
  std::unique_ptr<Ticker> ticker_;
};

class NodeRuns : public RunningNode, private Responder {
 public:
  Status start(store::Store& store, RunningNodeOptions options) {
    options.messenger.audit = options.node.audit;
    TESSERA_TRY(messenger_, Messenger::create(options.messenger));
    caller_ = std::make_unique<ChannelCaller>(*messenger_);
    TESSERA_TRY(service_, NodeService::create({.cards = options.cards,
                                               .is_timed = options.is_timed,
                                               .log = options.node.log,
                                               .dialer = messenger_.get()}));
    TESSERA_RETURN_IF_ERROR(listen(options));
    options.node.cards = service_->card_records();
    options.node.figures = [this] { return service_->figures(); };
    facts_ = std::move(options.facts);
    const milliseconds period = period_of(options.node.ttl);
    agent_ = std::make_unique<NodeAgent>(
        store, *service_, *caller_, [] { return std::chrono::steady_clock::now(); },
        std::move(options.node));
    service_->set_agent(agent_.get());
    is_ready_ = true;
    ticker_ = std::make_unique<Ticker>(period, [this] { agent_->tick(); });
    figures_ = std::make_unique<Ticker>(kFiguresPeriod, [this] { agent_->report_figures(); });
    return {};
  }
  ~NodeRuns() override {
    figures_.reset();
    ticker_.reset();
    if (agent_ != nullptr) agent_->leave();
    server_.reset();
    service_.reset();  // its sessions tell the agent that they end
  }
  const std::string& endpoint() const override { return endpoint_; }
  int port() const override { return server_->port(); }
  bool is_registered() const override { return agent_->is_registered(); }
  bool is_id_taken() const override { return agent_->is_id_taken(); }

 private:
  Result<Reply> handle(Request request) override {
    if (is_ready_ && request.body.pieces.empty() && asks_for_health(request.text)) return health();
    if (is_ready_) return service_->handle(std::move(request));
    return Error{ErrorCode::kUnavailable, "the node is just starting"};
  }
  Reply health() const {
    nlohmann::json health = facts_json(facts_);
    health.update(agent_->health());
    for (const CardRecord& card : agent_->options().cards) {
      health["cards"].push_back({{"arch", card.arch}, {"fingerprint", card.fingerprint}});
    }
    return {dump(health), {}};
  }
  std::shared_ptr<void> arrived(std::uint64_t connection, std::string_view text) override {
    return service_->arrived(connection, text);
  }
  void disconnected(std::uint64_t connection) override { service_->disconnected(connection); }
  MessageLimits limits(std::uint64_t connection) override { return service_->limits(connection); }

  Status listen(RunningNodeOptions& options) {
    TESSERA_TRY(server_, messenger_->serve({.address = options.address,
                                            .port = options.port,
                                            .shared_memory_folder = options.shared_memory_folder,
                                            .ucx = options.ucx,
                                            .responder = this}));
    endpoint_ = endpoint_of(options.advertised, options.address, server_->port());
    options.node.endpoint = endpoint_;
    options.node.shared_memory = server_->shared_memory();
    if (!options.node.shared_memory.empty()) options.node.machine = machine_name();
    if (options.ucx) {
      options.node.ucx = endpoint_of("", options.address, server_->ucx_port());
    }
    return {};
  }

  std::unique_ptr<Messenger> messenger_;
  std::unique_ptr<ChannelCaller> caller_;
  std::string endpoint_;
  DaemonFacts facts_;  // before it is ready
  std::unique_ptr<NodeService> service_;
  std::unique_ptr<NodeAgent> agent_;
  std::atomic<bool> is_ready_ = false;
  std::unique_ptr<MessageServer> server_;
  std::unique_ptr<Ticker> ticker_, figures_;
};

}  // namespace

Result<std::unique_ptr<RunningMaster>> RunningMaster::start(store::Store& store,
                                                            RunningMasterOptions options) {
  auto master = std::make_unique<MasterRuns>();
  TESSERA_RETURN_IF_ERROR(master->start(store, std::move(options)));
  return std::unique_ptr<RunningMaster>(std::move(master));
}

Result<std::unique_ptr<RunningNode>> RunningNode::start(store::Store& store,
                                                        RunningNodeOptions options) {
  auto node = std::make_unique<NodeRuns>();
  TESSERA_RETURN_IF_ERROR(node->start(store, std::move(options)));
  return std::unique_ptr<RunningNode>(std::move(node));
}

}  // namespace tessera::cluster

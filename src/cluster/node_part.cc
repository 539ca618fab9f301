#include "cluster/node_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "arch/architecture_file.h"
#include "base/guarded.h"
#include "cluster/errors.h"
#include "cluster/fields.h"
#include "package/sha256.h"

namespace tessera::cluster {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds kForNode{5};

std::string card_text(const ChipConfig& chip) {
  return fmt::format("{:016x}", card_fingerprint(chip));
}

json options_json(const device::ApartOptions& options) {
  return {{"timing_only", options.timing_only}, {"trace", options.trace}, {"traps", options.traps}};
}

device::ApartOptions options_of(Fields& fields) {
  device::ApartOptions options;
  options.timing_only = fields.flag("timing_only", false);
  options.trace = fields.flag("trace", false);
  options.traps = static_cast<std::uint8_t>(fields.integer("traps", 0, 255, 0));
  return options;
}

}  // namespace

// For what a network is compiled.
struct NodePart::Spec {
  int cores = 1, images = 1;
  CoreSplit split = CoreSplit::kAuto;
};

// A network of a client of the leader.
struct NodePart::Loaded : public device::Loaded {
  std::shared_ptr<NodePart> part;  // shared with the node
  std::shared_ptr<const NetworkState> network;
  Spec spec;
  std::int64_t number = 0;  // in the other processes
  std::string digest;       // of the package
  std::unique_ptr<device::ApartNetwork> here;
  ~Loaded() override { part->unload(*this); }
};

NodePart::NodePart(const AllocRecord& alloc, const std::string& node, Parts parts)
    : parts_(std::move(parts)),
      node_(node),
      nodes_(nodes_of(alloc)),
      endpoints_(nodes_.size()),
      own_(static_cast<int>(std::ranges::find(nodes_, node) - nodes_.begin())),
      exchange_(own_, nodes_, [this](int process) { return connect(process); }),
      controls_(nodes_.size()),
      record_(alloc) {
  for (const AllocPart& part : parts_of(alloc)) {
    const auto process = std::ranges::find(nodes_, part.node) - nodes_.begin();
    process_of_card_.push_back(static_cast<int>(process));
    if (!part.endpoint.empty()) endpoints_[static_cast<std::size_t>(process)] = part.endpoint;
  }
}

NodePart::~NodePart() = default;

AllocRecord NodePart::record() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

void NodePart::move(const AllocRecord& alloc) {
  const std::lock_guard lock(mutex_);
  record_ = alloc;
}

void NodePart::end(const Error& why) { exchange_.end(why); }

// With the ticket and the cluster's secret, as one of the allocation's processes.
Result<std::shared_ptr<Channel>> NodePart::connect(int process) const {
  const AllocRecord of = record();
  const TimePoint deadline = std::chrono::steady_clock::now() + kForNode;
  TESSERA_TRY(std::shared_ptr<Channel> channel,
              parts_.dialer->open(endpoints_[static_cast<std::size_t>(process)], deadline));
  TESSERA_TRY(const Message opened,
              channel->call(dump({{"call", "open"},
                                  {"alloc", of.id},
                                  {"ticket", of.ticket},
                                  {"process", own_},
                                  {"cluster_secret", parts_.agent->secret()}}),
                            {}, deadline));
  (void)opened;
  return channel;
}

Result<std::unique_ptr<device::ApartNetwork>> NodePart::load(
    const std::shared_ptr<const NetworkState>& network, const Spec& spec) {
  device::CardsApart apart{.cores = spec.cores,
                           .cards = static_cast<int>(process_of_card_.size()),
                           .split = spec.split,
                           .images = spec.images};
  apart.here = {.process_of_card = process_of_card_,
                .process = own_,
                .peers = nodes_.size() > 1 ? &exchange_ : nullptr};
  return device::ApartNetwork::load(network, parts_.chip, apart);
}

// ---- what the leader says ----

Result<Reply> NodePart::handle(int process, const Request& request, const json& text) {
  RequestFields fields(text, "request of a node");
  const std::string call = fields.text("call");
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (call == "stop") {
    return exchange_.stopped(fields.integer("run", 1, kNumberMax),
                             parse_error_text(fields.text("why", "")));
  }
  if (call == "window") {
    const std::int64_t run = fields.integer("run", 1, kNumberMax);
    TESSERA_RETURN_IF_ERROR(fields.status());
    TESSERA_TRY(const auto batch, only_piece(request.body));
    return exchange_.window(process, run, {batch.begin(), batch.end()});
  }
  if (process != 0) return invalid("a node that does not lead says what to do");
  if (call == "part_put") {
    TESSERA_TRY(const auto package, only_piece(request.body));
    TESSERA_RETURN_IF_ERROR(parts_.packages->put(fields.text("digest", ""), package));
    return Reply{};
  }
  if (call == "part_load") return load_here(text);
  if (call == "part_segment") {
    TESSERA_TRY(const auto host_bytes, only_piece(request.body));
    return run_here(text, host_bytes);
  }
  if (call == "part_unload") {
    const std::lock_guard running(running_);
    networks_.erase(fields.integer("number", 1, kNumberMax));
    return Reply{};
  }
  return invalid(fmt::format("a node does not know the call '{}' of another one", call));
}

Result<Reply> NodePart::load_here(const json& request) {
  RequestFields fields(request, "request of a node");
  const std::int64_t number = fields.integer("number", 1, kNumberMax);
  const std::string digest = fields.text("digest"), name = fields.text("name");
  Spec spec;
  spec.cores = static_cast<int>(fields.integer("cores", 1, 1024));
  spec.images = static_cast<int>(fields.integer("images", 1, 1024));
  const auto split = core_split_from_name(fields.text("split"));
  const std::string card = fields.text("card");
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (!split.ok()) return split.error();
  // Packages go together with any card; cards that run one together are the same.
  if (const std::string own = card_text(parts_.chip); card != own) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("its cards of '{}' are others ({}) than those of node '{}' ({}); give "
                             "the nodes the same architecture file",
                             parts_.chip.name, own, nodes_.front(), card)};
  }
  spec.split = *split;
  const auto network = parts_.packages->find(digest, name);
  if (network == nullptr) return Reply{dump({{"missing", true}}), {}};
  const std::lock_guard running(running_);
  networks_.erase(number);
  TESSERA_TRY(auto loaded, load(network, spec));
  const json reply = {{"program", loaded->digest()}};
  networks_[number] = std::move(loaded);
  return Reply{dump(reply), {}};
}

Result<Reply> NodePart::run_here(const json& request, std::span<const std::byte> host_bytes) {
  RequestFields fields(request, "request of a node");
  const std::int64_t number = fields.integer("number", 1, kNumberMax);
  const std::int64_t run = fields.integer("run", 1, kNumberMax);
  const std::int64_t segment = fields.integer("segment", 0, kNumberMax);
  const device::ApartOptions options = options_of(fields);
  TESSERA_RETURN_IF_ERROR(fields.status());
  const std::lock_guard running(running_);
  const auto found = networks_.find(number);
  if (found == networks_.end()) {
    return Error{ErrorCode::kUnavailable, fmt::format("network {} is not on this node", number)};
  }
  const AllocRecord of = record();
  TESSERA_RETURN_IF_ERROR(parts_.agent->may_begin(of));
  TESSERA_RETURN_IF_ERROR(exchange_.begin(run));
  auto done = guarded("a segment", [&] {
    return found->second->run(static_cast<std::size_t>(segment), options, host_bytes);
  });
  exchange_.finish();
  // What the run itself says is the leader's to tell, who has it too.
  if (!done.ok()) return Reply{dump({{"failed", error_text(done.error())}}), {}};
  TESSERA_RETURN_IF_ERROR(parts_.agent->may_answer(of));
  return Reply{"{}", {std::move(*done)}};
}

// ---- the leader ----

Result<std::shared_ptr<Channel>> NodePart::control(int process) {
  auto& channel = controls_[static_cast<std::size_t>(process)];
  if (channel == nullptr || !channel->is_open()) {
    TESSERA_TRY(channel, connect(process));
  }
  return channel;
}

Status NodePart::tell(int process, Loaded& loaded) {
  TESSERA_TRY(const auto channel, control(process));
  const std::string request = dump({{"call", "part_load"},
                                    {"number", loaded.number},
                                    {"digest", loaded.digest},
                                    {"name", loaded.network->path},
                                    {"cores", loaded.spec.cores},
                                    {"images", loaded.spec.images},
                                    {"split", core_split_name(loaded.spec.split)},
                                    {"card", card_text(parts_.chip)}});
  TESSERA_TRY(Message answer, channel->call(request, {}, TimePoint::max()));
  TESSERA_TRY(json text, parse_object(answer.text, "answer of a node"));
  if (text.contains("missing")) {
    const std::vector<std::byte> bytes = network_bytes(*loaded.network);
    const std::span<const std::byte> part = bytes;
    TESSERA_TRY(answer, channel->call(dump({{"call", "part_put"}, {"digest", loaded.digest}}),
                                      std::span(&part, 1), TimePoint::max()));
    TESSERA_TRY(answer, channel->call(request, {}, TimePoint::max()));
    TESSERA_TRY(text, parse_object(answer.text, "answer of a node"));
  }
  Fields fields(text, "answer of a node");
  const std::string program = fields.text("program");
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (program == loaded.here->digest()) return {};
  return Error{ErrorCode::kUnsupported,
               "it has linked another program; run the same version of tessera on all nodes"};
}

Status NodePart::load_elsewhere(Loaded& loaded) {
  if (loaded.digest.empty()) {
    loaded.digest = package::sha256_text(package::sha256(network_bytes(*loaded.network)));
  }
  for (int process = 1; process < static_cast<int>(nodes_.size()); ++process) {
    const Status told = tell(process, loaded);
    if (told.ok()) continue;
    return told.error().with_context(
        fmt::format("node '{}'", nodes_[static_cast<std::size_t>(process)]));
  }
  return {};
}

// For the cores that it has now, in all processes.
Status NodePart::ensure(Loaded& loaded) {
  const int cores = record().cores_wanted;
  if (loaded.here != nullptr && loaded.spec.cores == cores) return {};
  loaded.here.reset();
  loaded.spec.cores = cores;
  TESSERA_TRY(loaded.here, load(loaded.network, loaded.spec));
  const Status elsewhere = load_elsewhere(loaded);
  if (!elsewhere.ok()) loaded.here.reset();
  return elsewhere;
}

void NodePart::unload(const Loaded& loaded) {
  const std::lock_guard running(running_);
  for (const auto& channel : controls_) {
    if (channel == nullptr || !channel->is_open()) continue;
    (void)channel->call(dump({{"call", "part_unload"}, {"number", loaded.number}}), {},
                        std::chrono::steady_clock::now() + kForNode);
  }
}

// Segments of the other processes, each called by a thread of its own.
class NodePart::Others : public device::CardOthers {
 public:
  Others(NodePart& part, const Loaded& loaded) : part_(part), loaded_(loaded) {}
  ~Others() override { finish(); }

  Status begin(std::size_t segment, const device::ApartOptions& options,
               std::span<const std::byte> host_bytes) override {
    answers_.assign(part_.nodes_.size(), std::vector<std::byte>{});
    const std::int64_t run = ++part_.run_;
    TESSERA_RETURN_IF_ERROR(part_.exchange_.begin(run));
    json request = options_json(options);
    request["call"] = "part_segment";
    request["number"] = loaded_.number;
    request["run"] = run;
    request["segment"] = segment;
    const std::string text = dump(request);
    for (int process = 1; process < static_cast<int>(part_.nodes_.size()); ++process) {
      const auto opened = part_.control(process);
      if (!opened.ok()) {
        part_.exchange_.stop(part_.exchange_.gone(process, opened.error().message));
        return part_.exchange_.gone(process, opened.error().message);
      }
      auto& answer = answers_[static_cast<std::size_t>(process)];
      threads_.emplace_back([this, channel = *opened, text, host_bytes, &answer, process] {
        answer = guarded("a segment", [&] { return ask(*channel, text, host_bytes); });
        // Who has not begun is not waited for.
        if (answer.ok()) return;
        part_.exchange_.stop(channel->is_open()
                                 ? answer.error()
                                 : part_.exchange_.gone(process, answer.error().message));
      });
    }
    return {};
  }

  Result<std::vector<std::vector<std::byte>>> end() override {
    finish();
    std::vector<std::vector<std::byte>> bytes;
    for (std::size_t process = 0; process < answers_.size(); ++process) {
      if (!answers_[process].ok()) {
        return answers_[process].error().with_context(
            fmt::format("node '{}'", part_.nodes_[process]));
      }
      bytes.push_back(std::move(*answers_[process]));
    }
    return bytes;
  }

 private:
  static Result<std::vector<std::byte>> ask(Channel& channel, const std::string& text,
                                            std::span<const std::byte> host_bytes) {
    TESSERA_TRY(Message answer, channel.call(text, std::span(&host_bytes, 1), TimePoint::max()));
    TESSERA_TRY(const json document, parse_object(answer.text, "answer of a node"));
    if (!document.contains("failed")) {
      TESSERA_TRY(const auto bytes, only_piece(answer.body));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }
    return parse_error_text(document["failed"].is_string() ? document["failed"].get<std::string>()
                                                           : "");
  }
  void finish() {
    if (threads_.empty()) return;
    part_.exchange_.stop_others();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    part_.exchange_.finish();
  }

  NodePart& part_;
  const Loaded& loaded_;
  std::vector<Result<std::vector<std::byte>>> answers_;  // by process
  std::vector<std::thread> threads_;
};

device::RunOutcome NodePart::run(Loaded& loaded, const device::RunViews& views,
                                 const device::DeviceConfig& config) {
  const std::lock_guard running(running_);
  device::RunOutcome outcome;
  outcome.status = ensure(loaded);
  if (!outcome.status.ok()) return outcome;
  if (parts_.log) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    parts_.log({{"event", "run"},
                {"alloc", record().id},
                {"node", node_},
                {"t_ns", std::chrono::nanoseconds(now).count()}});
  }
  Others others(*this, loaded);
  const bool timing_only = config.values == device::Values::kNone;
  auto result =
      loaded.here->lead(others, timing_only ? nullptr : &views,
                        {.timing_only = timing_only, .trace = config.trace, .traps = config.traps});
  if (!result.ok()) {
    outcome.status = result.error();
    return outcome;
  }
  outcome.details = std::make_shared<const RunResult>(std::move(*result));
  outcome.cycles = outcome.details->cycles;
  outcome.clock_hertz = outcome.details->clock_hertz;
  outcome.status_flags = outcome.details->status_flags;
  return outcome;
}

class NodePart::Backend : public device::Backend {
 public:
  Backend(std::shared_ptr<NodePart> part, const device::DeviceConfig& config)
      : part_(std::move(part)), config_(config) {
    properties_ = {.name = "sim",
                   .kind = "sim",
                   .kernels = 1,
                   .clock_hertz = part_->chip().clock_hertz,
                   .memory = Bytes{part_->chip().dram.bytes},
                   .functions = 1,
                   .shared_memory = false,
                   .values = config.values != device::Values::kNone};
  }
  const device::Properties& properties() const override { return properties_; }
  Result<device::LoadedSet> load(const std::shared_ptr<const NetworkState>& network) override {
    auto loaded = std::make_unique<Loaded>();
    loaded->part = part_;
    loaded->network = network;
    loaded->name = network->path;
    loaded->spec = {.cores = 0, .images = config_.images, .split = config_.split};
    {
      const std::lock_guard running(part_->running_);
      loaded->number = part_->next_number_++;
      TESSERA_RETURN_IF_ERROR(part_->ensure(*loaded));
    }
    loaded->inputs = loaded->here->inputs;
    loaded->outputs = loaded->here->outputs;
    device::LoadedSet set;
    set.entries.push_back({std::move(loaded), {}});
    return set;
  }
  Result<device::LoadedSet> load_layers(
      const std::shared_ptr<const NetworkState>& /*network*/) override {
    return Error{ErrorCode::kUnsupported,
                 "single layers on cards of several machines; a device of one core runs them"};
  }
  Status place(device::LoadedSet& /*set*/, std::span<const std::byte> /*region*/) override {
    return {};
  }
  device::RunOutcome run(const device::ActivityObserver::Run& /*run*/, device::Loaded& loaded,
                         const device::RunViews& views, device::RunTurn& /*turn*/) override {
    return part_->run(static_cast<Loaded&>(loaded), views, config_);
  }

 private:
  const std::shared_ptr<NodePart> part_;
  const device::DeviceConfig config_;
  device::Properties properties_;
};

Result<std::unique_ptr<device::Backend>> NodePart::make_backend(
    std::shared_ptr<NodePart> part, const device::DeviceConfig& config) {
  if (config.check_hazards) {
    return Error{ErrorCode::kUnsupported,
                 "a check of hazards follows the bytes of all cores in one process; on cards of a "
                 "cluster it is not there, leave it out or run it on cards of this process"};
  }
  return std::unique_ptr<device::Backend>(std::make_unique<Backend>(std::move(part), config));
}

}  // namespace tessera::cluster

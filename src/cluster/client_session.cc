#include "cluster/client_session.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/errors.h"
#include "cluster/fields.h"
#include "cluster/message.h"
#include "cluster/run_details.h"
#include "device/backends.h"
#include "device/timed_backend.h"

namespace tessera::cluster {

using nlohmann::json;

namespace {

// The processor's runs follow each other without one.
class NoTurn : public device::RunTurn {
 public:
  explicit NoTurn(TimePoint since) : RunTurn(0, since) {}
  bool wait() override { return true; }
  void wait_until_over() override {}
  void begin(TimePoint /*at*/) override {}
  void over() override {}
};

json tensors_json(const std::vector<device::Loaded::Tensor>& tensors) {
  json list = json::array();
  for (const auto& tensor : tensors)
    list.push_back({{"name", tensor.name}, {"bytes", tensor.bytes.value}});
  return list;
}

Result<Reply> reply_of(const json& document) { return Reply{dump(document), {}}; }

}  // namespace

struct ClientSession::Network {
  std::unique_ptr<device::Backend> backend;
  device::LoadedSet set;
  device::Loaded& loaded() { return *set.entries.front().loaded; }
};

// A run's tensors: in the body, in blocks, or in memory that is sent back.
struct ClientSession::Run {
  Network* network = nullptr;
  std::vector<std::span<std::byte>> inputs = {}, outputs = {};
  std::vector<std::vector<std::byte>> made = {};  // by output
  std::vector<std::int64_t> blocks = {};          // by output; 0: it is sent back
  bool computes = true;
};

ClientSession::ClientSession(AllocRecord alloc, std::shared_ptr<device::VirtualProcessor> processor,
                             std::shared_ptr<NodePart> part, NodeAgent& agent,
                             PackageCache& packages, bool is_timed)
    : alloc_(std::move(alloc)),
      agent_(agent),
      packages_(packages),
      requests_(agent.requests_of(alloc_)),
      is_timed_(is_timed),
      processor_(std::move(processor)),
      part_(std::move(part)) {
  agent_.count_user(alloc_, 1);
}

ClientSession::~ClientSession() { agent_.count_user(alloc_, -1); }

void ClientSession::close() {
  const std::lock_guard lock(mutex_);
  networks_.clear();
  blocks_.clear();
  processor_.reset();
  part_.reset();
}

Result<Reply> ClientSession::handle(const Request& request, const json& text) {
  const std::lock_guard lock(mutex_);
  if (processor_ == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("allocation '{}' is no more on this node", alloc_.id)};
  }
  RequestFields fields(text, "request of a client");
  const std::string call = fields.text("call");
  TESSERA_RETURN_IF_ERROR(fields.status());
  if (call == "infer") return infer(text, request);
  if (call == "put") {
    if (request.body.pieces.size() != 1) return invalid("a package is one piece behind the text");
    TESSERA_RETURN_IF_ERROR(packages_.put(fields.text("digest", ""), request.body.pieces[0]));
    return Reply{};
  }
  if (call == "load") return load(text);
  if (call == "unload") return unload(text);
  if (call == "fetch") return fetch(text);
  if (call == "status") return status();
  return invalid(fmt::format("a node does not know the call '{}'", call));
}

Result<Reply> ClientSession::load(const json& request) {
  RequestFields fields(request, "request of a client");
  const std::string digest = fields.text("digest"), name = fields.text("name");
  device::DeviceConfig config;
  config.chip = processor_->chip();
  config.processor = processor_;
  config.images = static_cast<int>(fields.integer("images", 1, 1024, 1));
  config.trace = fields.flag("trace", false);
  config.check_hazards = fields.flag("check_hazards", false);
  config.traps = static_cast<std::uint8_t>(fields.integer("traps", 0, 255, 0));
  if (fields.flag("timing_only", false) || is_timed_) config.values = device::Values::kNone;
  const auto split = core_split_from_name(fields.text("split", "auto"));
  if (!split.ok()) return split.error();
  config.split = *split;
  TESSERA_RETURN_IF_ERROR(fields.status());
  auto network = packages_.find(digest, name);
  if (network == nullptr) return reply_of({{"missing", true}});
  network = network::repeated(network, config.images);
  auto made = std::make_unique<Network>();
  if (part_ != nullptr) {
    config.processor = nullptr;
    TESSERA_TRY(made->backend, NodePart::make_backend(part_, config));
  } else {
    TESSERA_TRY(made->backend, device::make_virtual_backend(config));
  }
  if (is_timed_) made->backend = device::make_timed_backend(std::move(made->backend));
  auto set = made->backend->load(network);
  // That it does not load is what the client wants to know, and no fault of the node.
  if (!set.ok()) return reply_of({{"failed", error_text(set.error())}});
  made->set = std::move(*set);
  const std::int64_t number = next_network_++;
  const json reply = {{"loaded", number},
                      {"inputs", tensors_json(made->loaded().inputs)},
                      {"outputs", tensors_json(made->loaded().outputs)},
                      {"expected_cycles", made->loaded().expected_cycles}};
  networks_[number] = std::move(made);
  return reply_of(reply);
}

Result<Reply> ClientSession::unload(const json& request) {
  RequestFields fields(request, "request of a client");
  const std::int64_t number = fields.integer("loaded", 1, kNumberMax);
  TESSERA_RETURN_IF_ERROR(fields.status());
  networks_.erase(number);
  return Reply{};
}

// ---- a run ----

Status ClientSession::place_inputs(const json& request, const Body& body, Run& run) {
  RequestFields fields(request, "request of a client");
  const auto from = fields.integers("inputs", 0, kNumberMax);  // 0: in the body
  TESSERA_RETURN_IF_ERROR(fields.status());
  const auto& tensors = run.network->loaded().inputs;
  if (from.size() != tensors.size()) {
    return invalid(fmt::format("{} inputs, the network has {}", from.size(), tensors.size()));
  }
  std::size_t next = 0;  // piece of the body
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(tensors[i].bytes.value);
    if (from[i] == 0) {
      const std::size_t came = next < body.pieces.size() ? body.pieces[next].size() : 0;
      if (came != bytes) {
        return invalid(
            fmt::format("input '{}' has {} bytes, {} came", tensors[i].name, bytes, came));
      }
      run.inputs.push_back(next < body.pieces.size() ? body.pieces[next] : std::span<std::byte>());
      ++next;
      continue;
    }
    const auto block = blocks_.find(from[i]);
    if (block == blocks_.end() || block->second.size() != bytes) {
      return invalid(fmt::format("input '{}' is in block {}, which is not of its size, or not here",
                                 tensors[i].name, from[i]));
    }
    run.inputs.emplace_back(block->second);
  }
  if (next >= body.pieces.size()) return {};
  return invalid(fmt::format("{} tensors came behind the last input", body.pieces.size() - next));
}

Status ClientSession::place_outputs(const json& request, Run& run) {
  RequestFields fields(request, "request of a client");
  run.blocks = fields.integers("outputs", 0, kNumberMax);  // 0: sent back
  TESSERA_RETURN_IF_ERROR(fields.status());
  const auto& tensors = run.network->loaded().outputs;
  if (run.blocks.size() != tensors.size()) {
    return invalid(
        fmt::format("{} outputs, the network has {}", run.blocks.size(), tensors.size()));
  }
  std::int64_t kept = block_bytes_;
  std::map<std::int64_t, std::int64_t> sizes;  // of blocks of this run
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    run.made.emplace_back(run.computes ? static_cast<std::size_t>(tensors[i].bytes.value) : 0);
    run.outputs.emplace_back(run.made.back());
    if (run.blocks[i] == 0) continue;
    const auto before = blocks_.find(run.blocks[i]);
    const auto [size, is_first] =
        sizes.emplace(run.blocks[i], before == blocks_.end() ? 0 : std::ssize(before->second));
    kept += std::ssize(run.made.back()) - size->second;
    size->second = std::ssize(run.made.back());
  }
  if (kept <= std::max<std::int64_t>(alloc_.memory_bytes, 1)) return {};
  return Error{ErrorCode::kDoesNotFit,
               fmt::format("{} bytes in blocks; allocation '{}' has {} of memory", kept, alloc_.id,
                           alloc_.memory_bytes)};
}

// Runs alone count, which a client's own writer says like this; what says it otherwise counts from when it is read.
std::shared_ptr<void> ClientSession::arrived(std::string_view text) const {
  constexpr std::string_view kRun = R"("call":"infer")";
  const bool counts = requests_ != nullptr && text.find(kRun) != std::string_view::npos;
  return counts ? requests_->arrived() : nullptr;
}

Status ClientSession::check_quota(const std::shared_ptr<void>& admission) const {
  if (requests_ == nullptr) return {};
  const Status admitted = requests_->admit(admission);
  if (admitted.ok()) return {};
  const Error refused{ErrorCode::kInvalidArgument,
                      fmt::format("tenant '{}', allocation '{}': {}", alloc_.tenant, alloc_.id,
                                  admitted.error().message)};
  agent_.note_refusal(alloc_, refused.message);
  return refused;
}

Result<Reply> ClientSession::infer(const json& request, const Request& message) {
  RequestFields fields(request, "request of a client");
  const std::int64_t number = fields.integer("loaded", 1, kNumberMax);
  TESSERA_RETURN_IF_ERROR(fields.status());
  const auto found = networks_.find(number);
  if (found == networks_.end()) return invalid(fmt::format("network {} is not loaded", number));
  // Part of the answer, since to ask another time is the client's affair.
  const bool counts_now = message.admission == nullptr && requests_ != nullptr;
  const std::shared_ptr<void> admission = counts_now ? requests_->arrived() : message.admission;
  if (const Status refused = check_quota(admission); !refused.ok()) {
    return reply_of({{"failed", error_text(refused.error())}});
  }
  Run run{.network = found->second.get()};
  run.computes = run.network->backend->properties().values;
  TESSERA_RETURN_IF_ERROR(place_inputs(request, message.body, run));
  TESSERA_RETURN_IF_ERROR(place_outputs(request, run));
  TESSERA_RETURN_IF_ERROR(agent_.may_begin(alloc_));
  NoTurn turn(message.received);
  const device::RunOutcome outcome =
      run.network->backend->run({}, run.network->loaded(), {run.inputs, run.outputs}, turn);
  TESSERA_RETURN_IF_ERROR(agent_.may_answer(alloc_));
  return answer(outcome, run);
}

Result<Reply> ClientSession::answer(const device::RunOutcome& outcome, Run& run) {
  if (!outcome.status.ok()) return reply_of({{"failed", error_text(outcome.status.error())}});
  Reply reply;
  for (std::size_t i = 0; i < run.made.size(); ++i) {
    if (run.blocks[i] == 0) {
      reply.body.push_back(std::move(run.made[i]));
      continue;
    }
    std::vector<std::byte>& block = blocks_[run.blocks[i]];
    block_bytes_ += std::ssize(run.made[i]) - std::ssize(block);
    block = std::move(run.made[i]);
  }
  if (outcome.details != nullptr) reply.body.push_back(encode_details(*outcome.details));
  json text = {{"flags", outcome.status_flags}, {"details", outcome.details != nullptr}};
  if (outcome.details != nullptr) {
    text["values"] = layer_values(*outcome.details);
    text["bars"] = bar_bytes(*outcome.details);
    // With a trace alone: there are thousands.
    if (!outcome.details->timeline.empty()) text["waits"] = core_waits(*outcome.details);
  }
  reply.text = dump(text);
  return reply;
}

Result<Reply> ClientSession::fetch(const json& request) {
  RequestFields fields(request, "request of a client");
  const std::int64_t number = fields.integer("block", 1, kNumberMax);
  TESSERA_RETURN_IF_ERROR(fields.status());
  const auto found = blocks_.find(number);
  if (found == blocks_.end()) return invalid(fmt::format("block {} is not here", number));
  return Reply{"{}", {found->second}};
}

Reply ClientSession::status() const {
  const ProcessorStatus now = processor_->status();
  return {dump({{"name", now.name},
                {"cores", now.cores},
                {"groups", now.groups},
                {"memory_bytes", now.memory_bytes},
                {"networks", now.networks},
                {"runs", now.runs},
                {"failures", now.failures},
                {"last_run_cycles", now.last_run_cycles},
                {"changes", now.changes}}),
          {}};
}

}  // namespace tessera::cluster

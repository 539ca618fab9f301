#include "cluster/remote_backend.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "arch/architecture_file.h"
#include "cluster/errors.h"
#include "cluster/fields.h"
#include "cluster/message.h"
#include "cluster/package_cache.h"
#include "cluster/remote_processor.h"
#include "cluster/resident_tensors.h"
#include "cluster/run_details.h"
#include "device/backend.h"
#include "device/queued_device.h"
#include "device/virtual_card.h"
#include "package/sha256.h"

namespace tessera::cluster {
namespace {

using nlohmann::json;

// A network on a node, or on the one that followed it.
class LoadedRemote : public device::Loaded {
 public:
  std::shared_ptr<const NetworkState> network;  // shared with the caller; its package is sent again
  std::string digest;
  std::mutex mutex;        // of what follows
  std::uint64_t link = 0;  // to which node
  std::int64_t number = 0;
  std::weak_ptr<NodeLink> at;
};

class RemoteBackend : public device::Backend {
 public:
  RemoteBackend(std::unique_ptr<RemoteProcessor> processor, const device::DeviceConfig& options)
      : options_(options), processor_(std::move(processor)) {
    properties_ = {.name = options.name.empty() ? processor_->name() : options.name,
                   .kind = "sim",
                   .kernels = options.kernels,
                   .clock_hertz = options.chip->clock_hertz,
                   .memory = Bytes{processor_->memory_bytes()},
                   .functions = 1,
                   .shared_memory = false,
                   .values = options.values != device::Values::kNone,
                   .ends_runs = true};  // at the latest after the cluster's patience
  }

  const device::Properties& properties() const override { return properties_; }

  Result<device::LoadedSet> load(const std::shared_ptr<const NetworkState>& network) override;
  Result<device::LoadedSet> load_layers(
      const std::shared_ptr<const NetworkState>& /*network*/) override {
    return Error{ErrorCode::kUnsupported,
                 "single layers on a virtual processor; a device of one core runs them"};
  }
  Status place(device::LoadedSet& /*set*/, std::span<const std::byte> /*region*/) override {
    return {};
  }
  device::RunOutcome run(const device::ActivityObserver::Run& run, device::Loaded& loaded,
                         const device::RunViews& views, device::RunTurn& turn) override;
  void host_wrote(std::span<const std::byte> bytes) override { tensors_.host_wrote(bytes); }
  Status host_reads(std::span<std::byte> bytes) override;
  void unload(LoadedRemote& loaded) const;

 private:
  json load_request(const LoadedRemote& loaded) const;
  Status load_on(LoadedRemote& loaded, const std::shared_ptr<NodeLink>& link);
  Result<std::int64_t> number_on(LoadedRemote& loaded, const std::shared_ptr<NodeLink>& link);
  Result<Message> send(LoadedRemote& loaded, const std::shared_ptr<NodeLink>& link,
                       const device::RunViews& views, std::vector<std::int64_t>& blocks);
  Status take(const Message& answer, const device::RunViews& views,
              const std::vector<std::int64_t>& blocks, std::uint64_t link,
              device::RunOutcome& outcome);

  const device::DeviceConfig options_;
  const std::unique_ptr<RemoteProcessor> processor_;
  device::Properties properties_;
  ResidentTensors tensors_;
};

// Tells the node that it is not needed any more.
class UnloadingRemote : public LoadedRemote {
 public:
  explicit UnloadingRemote(const RemoteBackend& of) : backend_(of) {}
  ~UnloadingRemote() override { backend_.unload(*this); }

 private:
  const RemoteBackend& backend_;
};

std::vector<device::Loaded::Tensor> tensors_of(const json& list) {
  std::vector<device::Loaded::Tensor> tensors;
  for (const json& one : list) {
    Fields fields(one, "tensor");
    tensors.push_back({fields.text("name"), Bytes{fields.integer("bytes", 0, kNumberMax)}});
    if (!fields.status().ok()) return {};
  }
  return tensors;
}

// A call to a node; the answer's object.
Result<json> ask(NodeLink& link, const json& request, Parts body = {}) {
  TESSERA_TRY(const Message answer, RemoteProcessor::call(link, dump(request), body));
  return parse_object(answer.text, "answer of a node");
}

json RemoteBackend::load_request(const LoadedRemote& loaded) const {
  return {{"call", "load"},
          {"digest", loaded.digest},
          {"name", loaded.network->path},
          {"images", options_.images},
          {"split", core_split_name(options_.split)},
          {"timing_only", options_.values == device::Values::kNone},
          {"trace", options_.trace},
          {"check_hazards", options_.check_hazards},
          {"traps", options_.traps}};
}

// The package goes over if the node has it not. Once after another failure.
Status RemoteBackend::load_on(LoadedRemote& loaded, const std::shared_ptr<NodeLink>& link) {
  const json request = load_request(loaded);
  TESSERA_TRY(json answer, ask(*link, request));
  if (answer.contains("missing")) {
    const std::vector<std::byte> bytes = network_bytes(*loaded.network);
    const std::span<const std::byte> part = bytes;
    TESSERA_TRY(const json put,
                ask(*link, {{"call", "put"}, {"digest", loaded.digest}}, std::span(&part, 1)));
    TESSERA_TRY(answer, ask(*link, request));
  }
  if (answer.contains("failed")) {
    return parse_error_text(answer["failed"].is_string() ? answer["failed"].get<std::string>()
                                                         : "");
  }
  Fields fields(answer, "answer of a node");
  loaded.number = fields.integer("loaded", 1, kNumberMax);
  const json* const inputs = fields.array("inputs");
  const json* const outputs = fields.array("outputs");
  loaded.expected_cycles = fields.integer("expected_cycles", 0, kNumberMax);
  TESSERA_RETURN_IF_ERROR(fields.status());
  loaded.inputs = tensors_of(*inputs);
  loaded.outputs = tensors_of(*outputs);
  loaded.link = link->number;
  loaded.at = link;
  return {};
}

Result<device::LoadedSet> RemoteBackend::load(const std::shared_ptr<const NetworkState>& network) {
  TESSERA_RETURN_IF_ERROR(device::check_chip(*network, *options_.chip));
  auto loaded = std::make_unique<UnloadingRemote>(*this);
  loaded->network = network;
  loaded->name = network->path;
  loaded->digest = package::sha256_text(package::sha256(network_bytes(*network)));
  Error last;
  for (int tries = 0; tries < 2; ++tries) {
    TESSERA_TRY(const auto link, processor_->link());
    const Status done = load_on(*loaded, link);
    if (done.ok()) {
      device::LoadedSet set;
      set.entries.push_back({std::move(loaded), {}});
      return set;
    }
    last = done.error();
    if (last.code != ErrorCode::kUnavailable) return last;
    processor_->give_up(link);
  }
  return last;
}

void RemoteBackend::unload(LoadedRemote& loaded) const {
  const auto link = loaded.at.lock();
  if (link == nullptr || !link->channel->is_open() || loaded.number == 0) return;
  constexpr std::chrono::seconds kForAnswer{2};
  (void)link->channel->call(dump({{"call", "unload"}, {"loaded", loaded.number}}), {},
                            std::chrono::steady_clock::now() + kForAnswer);
}

// Its number on the node, where it may have to be loaded first.
Result<std::int64_t> RemoteBackend::number_on(LoadedRemote& loaded,
                                              const std::shared_ptr<NodeLink>& link) {
  const std::lock_guard lock(loaded.mutex);
  if (loaded.link != link->number) TESSERA_RETURN_IF_ERROR(load_on(loaded, link));
  return loaded.number;
}

Result<Message> RemoteBackend::send(LoadedRemote& loaded, const std::shared_ptr<NodeLink>& link,
                                    const device::RunViews& views,
                                    std::vector<std::int64_t>& blocks) {
  TESSERA_TRY(const std::int64_t number, number_on(loaded, link));
  std::vector<std::int64_t> from;
  std::vector<std::span<const std::byte>> body;
  for (std::size_t i = 0; i < views.inputs.size(); ++i) {
    const auto block = tensors_.to_read(views.inputs[i], link->number);
    if (!block.has_value()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("input '{}' was on a node that is gone; begin its state anew",
                               loaded.inputs[i].name)};
    }
    from.push_back(*block);
    if (*block == 0) body.emplace_back(views.inputs[i]);
  }
  blocks.clear();
  for (const std::span<std::byte> output : views.outputs) {
    blocks.push_back(properties_.values ? tensors_.to_write(output) : 0);
  }
  const json request = {
      {"call", "infer"}, {"loaded", number}, {"inputs", from}, {"outputs", blocks}};
  return RemoteProcessor::call(*link, dump(request), body);
}

// One message there and one back. If the node goes meanwhile the run is made once more on the next one: its
// inputs are still here, and nobody has seen its outputs. A node that refuses it, since it has not reached the store
// or has the allocation no more, has not begun it: that is waited out.
device::RunOutcome RemoteBackend::run(const device::ActivityObserver::Run& /*run*/,
                                      device::Loaded& loaded, const device::RunViews& views,
                                      device::RunTurn& /*turn*/) {
  device::RunOutcome outcome;
  auto& remote = static_cast<LoadedRemote&>(loaded);
  const TimePoint deadline = std::chrono::steady_clock::now() + processor_->patience();
  constexpr int kLostMax = 2;
  constexpr std::chrono::milliseconds kBetweenTries{50};
  for (int lost = 0;;) {
    const auto link = processor_->link();
    if (!link.ok()) {
      outcome.status = link.error();
      return outcome;
    }
    std::vector<std::int64_t> blocks;
    const auto answer = send(remote, *link, views, blocks);
    outcome.status = answer.ok() ? take(*answer, views, blocks, (*link)->number, outcome)
                                 : Status(answer.error());
    if (answer.ok() || answer.error().code != ErrorCode::kUnavailable) return outcome;
    const bool is_refused = (*link)->channel->is_open();
    processor_->give_up(*link);
    if (!is_refused && ++lost == kLostMax) return outcome;
    if (std::chrono::steady_clock::now() >= deadline) return outcome;
    if (is_refused) std::this_thread::sleep_for(kBetweenTries);
  }
}

Status RemoteBackend::take(const Message& answer, const device::RunViews& views,
                           const std::vector<std::int64_t>& blocks, std::uint64_t link,
                           device::RunOutcome& outcome) {
  TESSERA_TRY(const json text, parse_object(answer.text, "answer of a node"));
  if (text.contains("failed")) {
    return parse_error_text(text["failed"].is_string() ? text["failed"].get<std::string>() : "");
  }
  Fields fields(text, "answer of a node");
  const bool has_details = fields.flag("details", false);
  outcome.status_flags = static_cast<std::uint32_t>(fields.integer("flags", 0, UINT32_MAX, 0));
  TESSERA_RETURN_IF_ERROR(fields.status());
  // A piece for each output that is not in a block; without values they have no bytes.
  const auto& pieces = answer.body.pieces;
  std::size_t next = 0;
  bool fits = blocks.size() == views.outputs.size();
  for (std::size_t i = 0; fits && i < blocks.size(); ++i) {
    if (blocks[i] != 0) continue;
    const std::size_t bytes = properties_.values ? views.outputs[i].size() : 0;
    fits = next < pieces.size() && pieces[next].size() == bytes;
    ++next;
  }
  if (!fits || pieces.size() != next + (has_details ? 1 : 0)) {
    return Error{ErrorCode::kInternal, "a node's answer has outputs of other sizes"};
  }
  next = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] == 0) {
      const std::span<const std::byte> piece = pieces[next++];
      if (!piece.empty()) std::memcpy(views.outputs[i].data(), piece.data(), piece.size());
    }
    if (properties_.values) tensors_.written(views.outputs[i], blocks[i], link);
  }
  if (!has_details) return {};
  TESSERA_TRY(RunResult result, parse_details(pieces.back()));
  if (text.contains("values")) take_layer_values(text["values"], result);
  if (text.contains("bars")) take_bar_bytes(text["bars"], result);
  if (text.contains("waits")) take_core_waits(text["waits"], result);
  outcome.details = std::make_shared<const RunResult>(std::move(result));
  outcome.cycles = outcome.details->cycles;
  outcome.clock_hertz = outcome.details->clock_hertz;
  return {};
}

Status RemoteBackend::host_reads(std::span<std::byte> bytes) {
  const auto place = tensors_.away(bytes);
  if (!place.has_value()) return {};
  TESSERA_TRY(const auto link, processor_->link());
  if (link->number != place->link) {
    return unavailable("a tensor was on a node that is gone; begin its state anew");
  }
  TESSERA_TRY(const Message answer,
              RemoteProcessor::call(*link, dump({{"call", "fetch"}, {"block", place->block}}), {}));
  if (answer.body.pieces.size() != 1 || answer.body.pieces[0].size() != bytes.size()) {
    return Error{ErrorCode::kInternal, "a node's block has another size"};
  }
  std::memcpy(bytes.data(), answer.body.pieces[0].data(), bytes.size());
  tensors_.brought(bytes);
  return {};
}

}  // namespace

Result<RemoteDevice> make_remote_device(const ClusterAddress& address,
                                        const device::DeviceConfig& options) {
  ClusterAddress wanted = address;
  device::DeviceConfig config = options;
  if (wanted.arch.empty() && config.chip.has_value()) wanted.arch = config.chip->name;
  TESSERA_TRY(auto processor, RemoteProcessor::acquire(wanted));
  if (!config.chip.has_value()) {
    TESSERA_TRY(config.chip, load_chip_config(processor->arch()));
  }
  const std::string own = fmt::format("{:016x}", fingerprint(*config.chip));
  if (processor->fingerprint() != own) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the cluster's '{}' has the fingerprint {}, the architecture given is "
                             "'{}' ({}); use the same",
                             processor->arch(), processor->fingerprint(), config.chip->name, own)};
  }
  RemoteDevice made{nullptr, *config.chip};
  TESSERA_TRY(made.device, device::QueuedDevice::create(
                               std::make_unique<RemoteBackend>(std::move(processor), config),
                               device::QueueOptions{.queue_depth = options.queue_depth,
                                                    .run_limit = options.run_limit}));
  return made;
}

}  // namespace tessera::cluster

#include "runtime/runtime_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "base/guarded.h"
#include "cluster/remote_backend.h"
#include "device/device_form.h"
#include "device/make_device.h"
#include "device/virtual_card.h"
#include "runtime/delete_elsewhere.h"

namespace tessera::runtime {
namespace {

constexpr std::size_t kDevicesMax = 64;

Error wrong_option(const std::string& device, const std::string& what) {
  return {ErrorCode::kInvalidArgument, fmt::format("device '{}': {}", device, what)};
}

// A virtual processor's is that of its card.
Result<ChipConfig> chip_of(const DeviceOptions& options) {
  if (options.processor) return options.processor.state()->chip();
  return load_chip_config(options.arch);
}

// What belongs to a device of this machine.
Status check_cluster(const DeviceOptions& options, const std::string& name) {
  if (options.cluster.empty()) return {};
  const char* const wrong = options.kind != DeviceKind::kSim ? "another kind of device than sim"
                            : options.processor              ? "a part of a card"
                            : options.cores != 1             ? "cores, which are its cores="
                            : options.cards != 1             ? "cards"
                            : options.virtual_functions != 1 ? "virtual functions"
                            : options.kernels != 1           ? "kernels, which are its in_flight="
                            : options.pace != 0              ? "a pace"
                                                             : nullptr;
  if (wrong == nullptr) return {};
  return wrong_option(name,
                      fmt::format("'{}' with {}; leave one of them out", options.cluster, wrong));
}

Result<device::DeviceConfig> device_options(const DeviceOptions& options, const std::string& name) {
  if (options.kernels < 1 || options.kernels > 64) {
    return wrong_option(name, fmt::format("{} kernels; allowed 1 to 64", options.kernels));
  }
  // Not a number is none of these.
  if (options.pace != 0 && !(options.pace >= 1e-9 && options.pace <= 1e9)) {
    return wrong_option(
        name, fmt::format("a pace of {}; allowed 0 (none) and 1e-9 to 1e9", options.pace));
  }
  if (options.threads < 0 || options.threads > 1024) {
    return wrong_option(name,
                        fmt::format("{} threads; allowed 0 (one a core) to 1024", options.threads));
  }
  constexpr std::chrono::milliseconds kYear = std::chrono::hours(24 * 365);
  if (options.hang_timeout.count() < 0 || options.hang_timeout > kYear) {
    return wrong_option(name, fmt::format("a hang timeout of {} ms; allowed 0 (none) to a year",
                                          options.hang_timeout.count()));
  }
  const bool simulated = options.kind == DeviceKind::kSim;
  if (!simulated && (options.pace != 0 || options.timing_only)) {
    return wrong_option(name, "pace and timing-only are of the device sim, which has a clock");
  }
  if (!simulated && (options.cores != 1 || options.cards != 1 || options.processor)) {
    return wrong_option(name, "cores, cards and parts of a card are of the device sim");
  }
  if (options.cores > 1 && options.virtual_functions > 1) {
    return wrong_option(name,
                        fmt::format("{} cores and {} virtual functions; allowed is one of them",
                                    options.cores, options.virtual_functions));
  }
  if (options.processor && options.virtual_functions > 1) {
    return wrong_option(name,
                        fmt::format("{} virtual functions of a virtual processor; allowed is 1",
                                    options.virtual_functions));
  }
  if (options.traps != 0 && (!simulated || options.timing_only || options.pace > 0)) {
    return wrong_option(name,
                        "traps are of the device sim where it computes the values: not with "
                        "timing-only, nor at a pace, where the host computes them");
  }
  TESSERA_RETURN_IF_ERROR(check_cluster(options, name));
  const bool remote = !options.cluster.empty();
  device::DeviceConfig made;
  made.kind = options.kind;
  made.name = name;
  if (simulated && (!remote || options.arch != DeviceOptions{}.arch)) {
    TESSERA_TRY(made.chip, chip_of(options));
  }
  if (simulated && !options.processor && !remote) {
    const auto placement = spread_cores(*made.chip, options.cards, options.cores);
    if (!placement.ok()) return wrong_option(name, placement.error().message);
  }
  made.kernels = options.kernels;
  made.threads = options.threads;
  made.queue_depth = 16;
  // Against the wall clock the host executor computes the same bits, and the timing is simulated
  // once: simulating values is slower than the processor by orders of magnitude.
  made.values = options.timing_only ? device::Values::kNone
                : options.pace > 0  ? device::Values::kHost
                                    : device::Values::kSimulated;
  made.reuse_timing = options.timing_only || options.pace > 0;
  made.pace = {.enabled = options.pace > 0, .factor = options.pace > 0 ? 1 / options.pace : 1};
  made.run_limit = options.hang_timeout;
  made.traps = options.traps;
  made.cores = options.cores;
  made.cards = options.cards;
  made.split = options.split;
  made.processor = options.processor.state();
  return made;
}

}  // namespace

std::shared_ptr<RuntimeState> RuntimeState::make(bool metrics) {
  return {new RuntimeState(metrics), [](RuntimeState* state) {
            if (state->here()) delete_elsewhere(state);
          }};
}

RuntimeState::RuntimeState(bool metrics)
    : recorder_({.recording = metrics}), collector_(recorder_) {}

Result<std::shared_ptr<RuntimeState>> RuntimeState::open(const RuntimeOptions& options) {
  auto state = make(options.metrics);
  if (options.devices.size() > kDevicesMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a runtime with {} devices; allowed 1 to {}", options.devices.size(),
                             kDevicesMax)};
  }
  std::map<std::string, int> numbers;
  for (DeviceOptions wanted : options.devices) {
    // Its kind need not be said.
    if (!wanted.cluster.empty() && wanted.kind == DeviceKind::kHost) wanted.kind = DeviceKind::kSim;
    const std::string kind = device_kind_name(wanted.kind);
    const std::string name =
        wanted.name.empty() ? fmt::format("{}{}", kind, numbers[kind]++) : wanted.name;
    TESSERA_RETURN_IF_ERROR(state->check_name(name));
    TESSERA_TRY(device::DeviceConfig made, device_options(wanted, name));
    if (!wanted.cluster.empty()) {
      TESSERA_TRY(const auto address, cluster::parse_cluster_address(wanted.cluster));
      made.kernels = address.in_flight;
      if (!address.arch.empty()) {
        TESSERA_TRY(made.chip, load_chip_config(address.arch));
      }
      TESSERA_TRY(auto remote, cluster::make_remote_device(address, made));
      state->add(wanted.kind, remote.chip, std::move(remote.device));
      continue;
    }
    auto functions = device::make_functions(made, wanted.virtual_functions);
    if (!functions.ok()) {
      if (wanted.virtual_functions == 1) return functions.error();
      return functions.error().with_context(fmt::format("device '{}'", name));
    }
    TESSERA_TRY(const ChipConfig chip, chip_of(wanted));
    for (auto& device : *functions) {
      TESSERA_RETURN_IF_ERROR(state->check_name(device->properties().name));
      state->add(wanted.kind, chip, std::move(device));
    }
  }
  if (state->devices_.empty()) {
    return Error{ErrorCode::kInvalidArgument, "a runtime without a device; give at least one"};
  }
  return state;
}

Status RuntimeState::check_name(const std::string& name) const {
  for (const auto& other : devices_) {
    if (other->name() == name) return wrong_option(name, "there are two of this name");
  }
  return {};
}

void RuntimeState::add(DeviceKind kind, const ChipConfig& chip,
                       std::unique_ptr<device::Device> device) {
  devices_.push_back(std::make_unique<DeviceEntry>(kind, chip, std::move(device), recorder_));
}

Result<DeviceEntry*> RuntimeState::find(const std::string& name) const {
  TESSERA_RETURN_IF_ERROR(check_process("runtime"));
  std::string known;
  for (const auto& entry : devices_) {
    if (entry->name() == name) return entry.get();
    known += (known.empty() ? "" : ", ") + entry->name();
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("there is no device '{}'; there are {}", name, known)};
}

Result<std::shared_ptr<ModelState>> RuntimeState::load(const Network& network,
                                                       const std::vector<std::string>& names,
                                                       bool device_form) {
  TESSERA_RETURN_IF_ERROR(check_process("runtime"));
  for (const std::string& name : names) {
    const auto found = find(name);
    if (!found.ok()) return found.error();
  }
  auto model = make_shared_here<ModelState>(shared_from_this(), network);
  if (device_form) {
    TESSERA_RETURN_IF_ERROR(network::check_package(network.state(), "device form"));
    LoadOptions options;
    for (const auto& entry : devices_) {
      const double share = 1.0 / entry->device().properties().functions;
      options.region_share = std::min(options.region_share, share);
    }
    TESSERA_TRY(device::NetworkInDeviceForm form, device::in_device_form(network.state(), options));
    model->on_devices = std::move(form.network);
    model->inputs = std::move(form.inputs);
    model->outputs = std::move(form.outputs);
  } else {
    model->inputs = network.state().input_layouts;
    model->outputs = network.state().output_layouts;
  }
  model->places.reserve(devices_.size());  // what was loaded is always noted
  for (const auto& entry : devices_) {
    if (!names.empty() && std::find(names.begin(), names.end(), entry->name()) == names.end()) {
      continue;
    }
    const auto loaded = entry->device().load(model->on_devices.share());
    if (!loaded.ok()) {
      return loaded.error().with_context(fmt::format("loading to device '{}'", entry->name()));
    }
    model->places.push_back({entry.get(), *loaded});
    entry->times().set_modelled(*loaded, entry->device().modelled_time(*loaded).count());
  }
  return model;
}

ModelState::~ModelState() {
  const auto unload = [](const Place& place) {
    (void)guarded("", [&] { return place.device->device().unload(place.loaded); });
  };
  for (const Place& place : places) unload(place);
  if (debugging_.device != nullptr) unload(debugging_);
}

Result<ModelState::Place> ModelState::place_for_debugging() {
  const std::lock_guard lock(debugging_mutex_);
  if (debugging_.device == nullptr) {
    TESSERA_TRY(DeviceEntry* const entry, runtime->device_for_debugging());
    TESSERA_TRY(debugging_.loaded, entry->device().load(on_devices.share()));
    debugging_.device = entry;
  }
  return debugging_;
}

Result<DeviceEntry*> RuntimeState::device_for_debugging() {
  const std::lock_guard lock(debugging_mutex_);
  if (debugging_ == nullptr) {
    device::DeviceConfig options;
    options.kind = DeviceKind::kHost;
    options.name = "debug";
    options.queue_depth = 16;
    TESSERA_TRY(std::unique_ptr<device::Device> device, device::make_device(options));
    debugging_ = std::make_unique<DeviceEntry>(DeviceKind::kHost, ChipConfig{}, std::move(device),
                                               recorder_);
  }
  return debugging_.get();
}

}  // namespace tessera::runtime

#include "runtime/runtime_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/chip_config.h"
#include "device/device_form.h"

namespace tessera::runtime {
namespace {

Error wrong_option(const std::string& device, const std::string& what) {
  return {ErrorCode::kInvalidArgument, fmt::format("device '{}': {}", device, what)};
}

Result<device::DeviceOptions> device_options(const DeviceOptions& options,
                                             const std::string& name) {
  if (options.kernels < 1 || options.kernels > 64) {
    return wrong_option(name, fmt::format("{} kernels; allowed 1 to 64", options.kernels));
  }
  if (!(options.pace >= 0) || options.pace > 1e9) {
    return wrong_option(name, fmt::format("a pace of {}; allowed 0 (none) to 1e9", options.pace));
  }
  const bool simulated = options.kind == DeviceKind::kSim;
  if (!simulated && (options.pace != 0 || options.timing_only)) {
    return wrong_option(name, "pace and timing-only are of the device sim, which has a clock");
  }
  device::DeviceOptions made;
  made.kind = options.kind;
  made.name = name;
  if (simulated) {
    TESSERA_TRY(made.chip, load_chip_config(options.arch));
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
  return made;
}

metrics::SourceId source(metrics::Recorder& recorder, metrics::SourceKind kind,
                         const std::string& name, const std::string& device) {
  const auto id = recorder.add_source({.kind = kind, .name = name, .device = device});
  return id.ok() ? *id : metrics::SourceId{};
}

}  // namespace

DeviceObserver::DeviceObserver(metrics::Recorder& recorder, const device::Properties& properties)
    : recorder_(recorder),
      start_(std::chrono::steady_clock::now() - std::chrono::nanoseconds(recorder.now())),
      whole_(source(recorder, metrics::SourceKind::kDevice, properties.name, properties.name)),
      running_since_(static_cast<std::size_t>(properties.kernels)),
      busy_(static_cast<std::size_t>(properties.kernels)) {
  for (auto& since : running_since_) since = kIdle;
  for (int kernel = 0; kernel < properties.kernels; ++kernel) {
    kernels_.push_back(source(recorder, metrics::SourceKind::kKernel,
                              fmt::format("kernel {}", kernel), properties.name));
  }
}

std::chrono::nanoseconds DeviceObserver::running_for(device::TimePoint now) const {
  std::int64_t longest = 0;
  for (const auto& since : running_since_) {
    const std::int64_t begin = since.load(std::memory_order_relaxed);
    if (begin != kIdle) longest = std::max(longest, since_start(now) - begin);
  }
  return std::chrono::nanoseconds(longest);
}

std::vector<std::chrono::nanoseconds> DeviceObserver::busy() const {
  std::vector<std::chrono::nanoseconds> busy;
  for (const auto& kernel : busy_) busy.emplace_back(kernel.load(std::memory_order_relaxed));
  return busy;
}

void DeviceObserver::run_began(const Run& run, device::TimePoint begin) {
  running_since_[static_cast<std::size_t>(run.kernel)].store(since_start(begin),
                                                             std::memory_order_relaxed);
  recorder_.set_running(kernels_[static_cast<std::size_t>(run.kernel)], since_start(begin));
}

void DeviceObserver::run_ended(const Run& run, const device::Completion& completion) {
  const metrics::SourceId kernel = kernels_[static_cast<std::size_t>(run.kernel)];
  recorder_.set_running(kernel, metrics::Recorder::kNotRunning);
  running_since_[static_cast<std::size_t>(run.kernel)].store(kIdle, std::memory_order_relaxed);
  const std::int64_t lasted = (completion.end - completion.begin).count();
  busy_[static_cast<std::size_t>(run.kernel)].fetch_add(lasted, std::memory_order_relaxed);
  std::int64_t longest = longest_.load(std::memory_order_relaxed);
  while (completion.status.ok() && lasted > longest &&
         !longest_.compare_exchange_weak(longest, lasted, std::memory_order_relaxed)) {
  }
  runs_.fetch_add(1, std::memory_order_relaxed);
  recorder_.record({.kind = metrics::EventKind::kKernelRun,
                    .source = kernel,
                    .begin_ns = since_start(completion.begin),
                    .end_ns = since_start(completion.end),
                    .packet = run.tag,
                    .value = completion.cycles});
}

void DeviceObserver::transferred(const Transfer& transfer) {
  const int kernel = transfer.tag.kernel;
  recorder_.record({.kind = transfer.to_device ? metrics::EventKind::kTransferIn
                                               : metrics::EventKind::kTransferOut,
                    .source = kernel == device::kWholeDevice
                                  ? whole_
                                  : kernels_[static_cast<std::size_t>(kernel)],
                    .begin_ns = since_start(transfer.begin),
                    .end_ns = since_start(transfer.end),
                    .packet = transfer.tag.task,
                    .value = transfer.bytes.value});
}

void DeviceObserver::failed(std::int64_t what) {
  const std::int64_t now = recorder_.now();
  recorder_.record({.kind = metrics::EventKind::kFault,
                    .source = whole_,
                    .begin_ns = now,
                    .end_ns = now,
                    .value = what});
}

DeviceEntry::DeviceEntry(DeviceKind kind, ChipConfig chip, std::unique_ptr<device::Device> device,
                         metrics::Recorder& recorder)
    : kind_(kind),
      chip_(std::move(chip)),
      observer_(recorder, device->properties()),
      device_(std::move(device)) {
  device_->set_observer(&observer_);
}

bool DeviceEntry::usable() {
  if (!suspect_.load(std::memory_order_relaxed)) return true;
  const std::unique_lock probe(probing_, std::try_to_lock);
  if (!probe.owns_lock()) return false;
  const device::HealthState state = device_->health().state;
  if (state == device::HealthState::kOk) {
    suspect_.store(false, std::memory_order_relaxed);
    return true;
  }
  if (state == device::HealthState::kProbing) return true;
  const pipeline::Nanoseconds now = pipeline::now();
  if (now < next_probe_) return false;
  next_probe_ = now + kProbePeriod;
  return device_->reset(std::chrono::steady_clock::now()).ok();
}

void DeviceEntry::note(bool good, const std::string& message) {
  if (good) {
    failures_.store(0, std::memory_order_relaxed);
    return;
  }
  suspect_.store(true, std::memory_order_relaxed);
  const int failures = failures_.fetch_add(1, std::memory_order_relaxed) + 1;
  observer_.failed(failures);
  if (failures < kFailuresMax) return;
  failures_.store(0, std::memory_order_relaxed);
  device_->fail(fmt::format("{} runs in a row failed, the last one with: {}", failures, message));
}

void DeviceEntry::note_late() {
  const std::chrono::nanoseconds longest = observer_.longest();
  if (longest.count() == 0) return;  // nothing to compare with
  const std::chrono::nanoseconds running = observer_.running_for(std::chrono::steady_clock::now());
  if (running < kHangLeast || running < kHangFactor * longest) return;
  suspect_.store(true, std::memory_order_relaxed);
  const auto seconds = [](std::chrono::nanoseconds time) {
    return 1e-9 * static_cast<double>(time.count());
  };
  device_->fail(fmt::format("a run has lasted {:.1f} s, the longest before it {:.4f} s",
                            seconds(running), seconds(longest)));
}

DeviceStatus DeviceEntry::status() const {
  const device::Health health = device_->health();
  const device::DeviceCounters counters = device_->counters();
  DeviceStatus status;
  status.name = name();
  status.kind = kind_;
  status.kernels = device_->properties().kernels;
  status.healthy = health.state == device::HealthState::kOk;
  status.fault = status.healthy ? "" : health.reason;
  status.runs = observer_.runs();
  status.late_runs = counters.late_runs;
  status.bytes_in = counters.bytes_to_device;
  status.bytes_out = counters.bytes_to_host;
  status.weight_bytes = weight_bytes_.load();
  status.kernel_busy = observer_.busy();
  for (const std::chrono::nanoseconds busy : status.kernel_busy) status.busy += busy;
  return status;
}

RuntimeState::RuntimeState(bool metrics)
    : recorder_({.recording = metrics}), collector_(recorder_) {}

Result<std::shared_ptr<RuntimeState>> RuntimeState::open(const RuntimeOptions& options) {
  auto state = std::make_shared<RuntimeState>(options.metrics);
  std::map<std::string, int> numbers;
  for (const DeviceOptions& wanted : options.devices) {
    const std::string kind = device_kind_name(wanted.kind);
    const std::string name =
        wanted.name.empty() ? fmt::format("{}{}", kind, numbers[kind]++) : wanted.name;
    for (const auto& other : state->devices_) {
      if (other->name() == name) return wrong_option(name, "there are two of this name");
    }
    TESSERA_TRY(const device::DeviceOptions made, device_options(wanted, name));
    TESSERA_TRY(std::unique_ptr<device::Device> device, device::make_device(made));
    TESSERA_TRY(const ChipConfig chip, load_chip_config(wanted.arch));
    state->add(wanted.kind, chip, std::move(device));
  }
  if (state->devices_.empty()) {
    return Error{ErrorCode::kInvalidArgument, "a runtime without a device; give at least one"};
  }
  return state;
}

void RuntimeState::add(DeviceKind kind, const ChipConfig& chip,
                       std::unique_ptr<device::Device> device) {
  devices_.push_back(std::make_unique<DeviceEntry>(kind, chip, std::move(device), recorder_));
}

Result<DeviceEntry*> RuntimeState::find(const std::string& name) const {
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
  for (const std::string& name : names) {
    const auto found = find(name);
    if (!found.ok()) return found.error();
  }
  auto model = std::make_shared<ModelState>(ModelState{network, network, {}, {}, {}, nullptr});
  if (device_form) {
    TESSERA_TRY(device::NetworkInDeviceForm form, device::in_device_form(network.state()));
    model->on_devices = std::move(form.network);
    model->inputs = std::move(form.inputs);
    model->outputs = std::move(form.outputs);
  }
  for (const auto& entry : devices_) {
    if (!names.empty() && std::find(names.begin(), names.end(), entry->name()) == names.end()) {
      continue;
    }
    const std::int64_t before = entry->device().counters().bytes_to_device;
    TESSERA_TRY(const device::LoadedId id, entry->device().load(model->on_devices.share()));
    entry->add_weights({entry->device().counters().bytes_to_device - before});
    model->places.push_back({entry.get(), id});
  }
  model->runtime = shared_from_this();
  return model;
}

Result<std::pair<DeviceEntry*, device::LoadedId>> RuntimeState::load_for_debugging(
    const Network& network) {
  const std::lock_guard lock(debugging_mutex_);
  if (debugging_ == nullptr) {
    device::DeviceOptions options;
    options.kind = DeviceKind::kHost;
    options.name = "debug";
    options.queue_depth = 16;
    TESSERA_TRY(std::unique_ptr<device::Device> device, device::make_device(options));
    debugging_ = std::make_unique<DeviceEntry>(DeviceKind::kHost, network.state().chip,
                                               std::move(device), recorder_);
  }
  TESSERA_TRY(const device::LoadedId id, debugging_->device().load(network.share()));
  return std::pair{debugging_.get(), id};
}

}  // namespace tessera::runtime

#include "runtime/device_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/guarded.h"

namespace tessera::runtime {
namespace {

// A run that lasts this long, and this many times as long as any before of the same program, hangs.
constexpr std::chrono::seconds kHangLeast{1};
constexpr int kHangFactor = 20;

metrics::SourceId source(metrics::Recorder& recorder, metrics::SourceKind kind,
                         const std::string& name, const std::string& device) {
  const auto id = recorder.add_source({.kind = kind, .name = name, .device = device});
  return id.ok() ? *id : metrics::SourceId{};
}

}  // namespace

DeviceObserver::DeviceObserver(metrics::Recorder& recorder, const device::Properties& properties)
    : recorder_(recorder),
      start_(std::chrono::steady_clock::now() - std::chrono::nanoseconds(recorder.now())),
      times_(properties.kernels),
      whole_(source(recorder, metrics::SourceKind::kDevice, properties.name, properties.name)),
      running_since_(static_cast<std::size_t>(properties.kernels)),
      running_what_(static_cast<std::size_t>(properties.kernels)),
      busy_(static_cast<std::size_t>(properties.kernels)),
      busy_told_(static_cast<std::size_t>(properties.kernels)) {
  for (auto& since : running_since_) since = kIdle;
  for (int kernel = 0; kernel < properties.kernels; ++kernel) {
    kernels_.push_back(source(recorder, metrics::SourceKind::kKernel,
                              fmt::format("kernel {}", kernel), properties.name));
  }
}

std::optional<DeviceObserver::Stuck> DeviceObserver::stuck(device::TimePoint now) const {
  for (std::size_t kernel = 0; kernel < running_since_.size(); ++kernel) {
    const std::int64_t begin = running_since_[kernel].load(std::memory_order_relaxed);
    if (begin == kIdle) continue;
    const std::uint64_t what = running_what_[kernel].load(std::memory_order_relaxed);
    const Stuck run{
        std::chrono::nanoseconds(since_start(now) - begin),
        std::chrono::nanoseconds(longest_[what % longest_.size()].load(std::memory_order_relaxed))};
    if (run.longest_before.count() == 0) continue;  // nothing to compare with
    if (run.lasted >= kHangLeast && run.lasted >= kHangFactor * run.longest_before) return run;
  }
  return std::nullopt;
}

bool DeviceObserver::runs_since_before(device::TimePoint time) const {
  return std::any_of(running_since_.begin(), running_since_.end(), [&](const auto& since) {
    const std::int64_t begin = since.load(std::memory_order_relaxed);
    return begin != kIdle && begin <= since_start(time);
  });
}

std::vector<std::chrono::nanoseconds> DeviceObserver::busy() const {
  std::vector<std::chrono::nanoseconds> busy;
  const std::lock_guard lock(busy_mutex_);
  const std::int64_t now = since_start(std::chrono::steady_clock::now());
  for (std::size_t kernel = 0; kernel < busy_.size(); ++kernel) {
    const std::int64_t begin = running_since_[kernel].load(std::memory_order_relaxed);
    const std::int64_t running = begin == kIdle ? 0 : std::max<std::int64_t>(now - begin, 0);
    std::int64_t& told = busy_told_[kernel];
    told = std::max(told, busy_[kernel] + running);
    busy.emplace_back(told);
  }
  return busy;
}

void DeviceObserver::run_began(const Run& run, device::TimePoint begin) {
  running_what_[run.kernel].store(static_cast<std::uint64_t>(run.loaded),
                                  std::memory_order_relaxed);
  {
    const std::lock_guard lock(busy_mutex_);
    running_since_[run.kernel].store(since_start(begin), std::memory_order_relaxed);
  }
  recorder_.set_running(kernels_[run.kernel], since_start(begin));
}

void DeviceObserver::run_ended(const Run& run, const device::Completion& completion) {
  const metrics::SourceId kernel = kernels_[run.kernel];
  const std::int64_t lasted = (completion.end - completion.begin).count();
  {
    const std::lock_guard lock(busy_mutex_);
    running_since_[run.kernel].store(kIdle, std::memory_order_relaxed);
    busy_[run.kernel] += lasted;
  }
  auto& longest_of = longest_[static_cast<std::uint64_t>(run.loaded) % longest_.size()];
  std::int64_t longest = longest_of.load(std::memory_order_relaxed);
  while (completion.status.ok() && lasted > longest &&
         !longest_of.compare_exchange_weak(longest, lasted, std::memory_order_relaxed)) {
  }
  if (completion.status.ok()) times_.ran(run.loaded, run.kernel, lasted, pipeline::now());
  runs_.fetch_add(1, std::memory_order_relaxed);
  recorder_.record({.kind = metrics::EventKind::kKernelRun,
                    .source = kernel,
                    .begin_ns = since_start(completion.begin),
                    .end_ns = since_start(completion.end),
                    .packet = run.tag,
                    .value = completion.cycles});
  recorder_.set_running(kernel, metrics::Recorder::kNotRunning);
}

void DeviceObserver::transferred(const Transfer& transfer) {
  const int kernel = transfer.tag.kernel;
  recorder_.record({.kind = transfer.to_device ? metrics::EventKind::kTransferIn
                                               : metrics::EventKind::kTransferOut,
                    .source = kernel == device::kWholeDevice ? whole_ : kernels_[kernel],
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
      device_(std::move(device)),
      mirror_(*device_),
      run_memory_(*device_) {
  device_->set_observer(&observer_);
}

bool DeviceEntry::idle() const {
  for (int kernel = 0; kernel < device_->properties().kernels; ++kernel) {
    if (device_->queued(kernel) > 0) return false;
  }
  return true;
}

DeviceEntry::Usable DeviceEntry::usable() {
  if (given_up_at_.load(std::memory_order_relaxed) != kNothing) look_for_a_hang();
  if (!suspect_.load(std::memory_order_relaxed)) return Usable::kYes;
  const std::lock_guard probe(probing_);
  const device::HealthState state = device_->health().state;
  if (state == device::HealthState::kOk) {
    suspect_.store(false, std::memory_order_relaxed);
    probe_period_ = kProbeFirst;
    return Usable::kYes;
  }
  if (state == device::HealthState::kFailed) {
    const pipeline::Nanoseconds now = pipeline::now();
    if (now < next_probe_) return Usable::kNo;
    next_probe_ = now + probe_period_;
    probe_period_ = std::min(2 * probe_period_, kProbeLast);
    if (!device_->reset(std::chrono::steady_clock::now()).ok()) return Usable::kNo;
  }
  return idle() ? Usable::kYes : Usable::kOnTrial;
}

void DeviceEntry::look_after() {
  if (may_have_failed()) suspect_.store(true, std::memory_order_relaxed);
  (void)usable();
}

void DeviceEntry::note_good() { failures_.store(0, std::memory_order_relaxed); }

pipeline::Failure DeviceEntry::judge(const Error& error, pipeline::Nanoseconds deadline) {
  if (error.code != ErrorCode::kUnavailable) return pipeline::Failure::kError;
  const bool late = pipeline::now() >= deadline;
  // Whoever tells of a failure goes on, also where there is no memory for what is said of it.
  (void)guarded("", [&]() -> Status {
    if (late) {
      note_given_up();
      look_for_a_hang();
    } else {
      note_failure(error.message);
    }
    return {};
  });
  return late ? pipeline::Failure::kDeadline : pipeline::Failure::kDevice;
}

bool DeviceEntry::may_have_failed() const {
  try {
    return device_->health().state == device::HealthState::kFailed;
  } catch (...) {  // no memory for the reason
    return true;
  }
}

void DeviceEntry::note_failure(const std::string& message) {
  suspect_.store(true, std::memory_order_relaxed);
  const int failures = failures_.fetch_add(1, std::memory_order_relaxed) + 1;
  observer_.failed(failures);
  // Those who meet a device that has failed add nothing to it.
  if (failures < kFailuresMax || device_->health().state == device::HealthState::kFailed) return;
  failures_.store(0, std::memory_order_relaxed);
  device_->fail(fmt::format("{} runs in a row failed, the last one with: {}", failures, message));
}

void DeviceEntry::note_refusal(const Error& error) {
  if (error.code == ErrorCode::kUnavailable) suspect_.store(true, std::memory_order_relaxed);
}

void DeviceEntry::note_made_again() {
  note_given_up();
  observer_.failed(made_again_.fetch_add(1, std::memory_order_relaxed) + 1);
}

void DeviceEntry::look_for_a_hang() {
  pipeline::Nanoseconds given_up_at = given_up_at_.load(std::memory_order_relaxed);
  const device::TimePoint given_up{std::chrono::nanoseconds(given_up_at)};
  const device::TimePoint now = std::chrono::steady_clock::now();
  const bool may_hang = observer_.runs_since_before(given_up);
  const auto run = observer_.stuck(now);
  if (may_hang && (!run.has_value() || now - run->lasted > given_up)) return;
  if (may_hang) {
    suspect_.store(true, std::memory_order_relaxed);
    const auto seconds = [](std::chrono::nanoseconds time) {
      return 1e-9 * static_cast<double>(time.count());
    };
    device_->fail(fmt::format("a run has lasted {:.1f} s, the longest before it {:.4f} s",
                              seconds(run->lasted), seconds(run->longest_before)));
  }
  // Where there was no memory for that, or another was given up, it is looked at again.
  given_up_at_.compare_exchange_strong(given_up_at, kNothing, std::memory_order_relaxed);
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
  status.functions = device_->properties().functions;
  status.joint_runs = counters.joint_runs;
  status.late_runs = counters.late_runs;
  status.runs_made_again = made_again_.load(std::memory_order_relaxed);
  status.bytes_in = counters.bytes_to_device;
  status.bytes_out = counters.bytes_to_host;
  status.weight_bytes = counters.weight_bytes;
  status.bytes_copied = counters.bytes_copied + copied_.load(std::memory_order_relaxed);
  status.kernel_busy = observer_.busy();
  for (const std::chrono::nanoseconds busy : status.kernel_busy) status.busy += busy;
  return status;
}

}  // namespace tessera::runtime

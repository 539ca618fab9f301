#include "metrics/limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace tessera::metrics {
namespace {

constexpr double kKernelsFull = 0.95;
constexpr double kFull = 0.8;  // of threads and links, which also wait for each other
// As the runtime judges a device whose task is late.
constexpr double kStuckLeastSeconds = 1, kStuckFactor = 20;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

double kernels_busy(const Use& use) {
  double most = 0;
  for (const DeviceUse& device : use.devices) most = std::max(most, device.kernels_busy);
  return most;
}

// The device or stage for which `of` is largest; null where there is none.
template <typename Part, typename Of>
const Part* largest(const std::vector<Part>& parts, const Of& of) {
  const auto found = std::max_element(parts.begin(), parts.end(),
                                      [&](const Part& a, const Part& b) { return of(a) < of(b); });
  return found == parts.end() ? nullptr : &*found;
}

std::string busiest_text(const Use& use) {
  const auto* const stage = largest(use.stages, [](const StageUse& s) { return s.busy; });
  const std::string kernels = fmt::format("kernels {}", percent(kernels_busy(use)));
  if (stage == nullptr) return kernels;
  return fmt::format("the busiest, '{}', is {} busy; {}", stage->name, percent(stage->busy),
                     kernels);
}

std::optional<Limit> bad_device(const Use& use) {
  for (const DeviceUse& device : use.devices) {
    if (!device.healthy) {
      return Limit{LimitCause::kDevice, device.name,
                   fmt::format("device '{}' has failed: {}", device.name, device.fault)};
    }
    if (device.stuck_seconds > 0) {
      return Limit{LimitCause::kDevice, device.name,
                   fmt::format("device '{}' may hang: a run has lasted {:.1f} s, the longest "
                               "before it {:.4f} s",
                               device.name, device.stuck_seconds, device.longest_seconds)};
    }
  }
  return {};
}

std::optional<Limit> idle(const Use& use) {
  if (use.in_flight > 0) return {};
  return Limit{LimitCause::kIdle, "", "nothing is in flight: no task was submitted that is left"};
}

std::optional<Limit> full_kernels(const Use& use) {
  const auto* const most = largest(use.devices, [](const DeviceUse& d) { return d.kernels_busy; });
  if (most == nullptr || most->kernels_busy <= kKernelsFull) return {};
  return Limit{LimitCause::kKernels, most->name,
               fmt::format("the kernels are the limit ({} busy): more kernels or devices make it "
                           "faster, threads do not",
                           percent(most->kernels_busy))};
}

std::optional<Limit> full_memory(const Use& use) {
  const auto waits = [](const DeviceUse& device) { return device.runs_wait_for_memory; };
  const auto found = std::find_if(use.devices.begin(), use.devices.end(), waits);
  if (found == use.devices.end()) return {};
  return Limit{LimitCause::kMemory, found->name,
               fmt::format("the memory of device '{}' is the limit: runs wait for room in it while "
                           "the kernels are {} busy; fewer threads hold less of it",
                           found->name, percent(kernels_busy(use)))};
}

std::optional<Limit> full_link(const Use& use) {
  const auto* const most = largest(use.devices, [](const DeviceUse& d) { return d.link_busy; });
  if (most == nullptr || most->link_busy <= kFull) return {};
  return Limit{LimitCause::kTransfers, most->name,
               fmt::format("transfers are the limit: the link to device '{}' is {} busy while the "
                           "kernels are {}; the device form moves half the bytes",
                           most->name, percent(most->link_busy), percent(kernels_busy(use)))};
}

std::optional<Limit> full_stage(const Use& use) {
  const auto* const most = largest(use.stages, [](const StageUse& s) { return s.busy; });
  if (most == nullptr || most->busy <= kFull) return {};
  if (most->executes) {
    return Limit{LimitCause::kTransfers, most->name,
                 fmt::format("transfers are the limit: the threads of stage '{}' are {} busy while "
                             "the kernels are {}; give it more threads or larger batches",
                             most->name, percent(most->busy), percent(kernels_busy(use)))};
  }
  return Limit{
      LimitCause::kStage, most->name,
      fmt::format("stage '{}' is the limit ({} busy, the kernels {}): give it more threads",
                  most->name, percent(most->busy), percent(kernels_busy(use)))};
}

std::optional<Limit> full_room(const Use& use) {
  if (use.in_flight_max == 0 || use.in_flight < use.in_flight_max) return {};
  return Limit{LimitCause::kRoom, "",
               fmt::format("all {} tasks that may be in flight are, and nothing is full ({}): more "
                           "in flight make it faster",
                           use.in_flight_max, busiest_text(use))};
}

double in_seconds(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

// A run that may never end, of this kernel.
void note_stuck(const SourceSnapshot& kernel, std::int64_t now_ns, DeviceUse& device) {
  if (kernel.running_since_ns == Recorder::kNotRunning || kernel.run.count == 0) return;
  const double lasted = in_seconds(now_ns - kernel.running_since_ns);
  const double longest = in_seconds(kernel.run.max);
  if (lasted < kStuckLeastSeconds || lasted < kStuckFactor * longest) return;
  if (lasted <= device.stuck_seconds) return;
  device.stuck_seconds = lasted;
  device.longest_seconds = longest;
}

DeviceUse& device_named(std::vector<DeviceUse>& devices, const std::string& name) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const DeviceUse& device) { return device.name == name; });
  if (found != devices.end()) return *found;
  devices.push_back({.name = name});
  return devices.back();
}

}  // namespace

const char* name_of(LimitCause cause) {
  static constexpr std::array<const char*, kLimitCauses> kNames = {
      "device", "idle", "kernels", "memory", "transfers", "stage", "room", "source"};
  return kNames.at(static_cast<std::size_t>(cause));
}

Limit limit_of(const Use& use) {
  constexpr std::array kLooks = {bad_device, idle,       full_kernels, full_memory,
                                 full_link,  full_stage, full_room};
  for (const auto& look : kLooks) {
    if (std::optional<Limit> found = look(use)) return std::move(*found);
  }
  return {LimitCause::kSource, "",
          fmt::format("the source is the limit: nothing is full ({}); submit more tasks, or from "
                      "more threads",
                      busiest_text(use))};
}

Use use_of(const Snapshot& snapshot, const Conditions& conditions) {
  Use use;
  use.in_flight = snapshot.tasks.in_flight();
  use.in_flight_max = conditions.in_flight_max;
  for (const DeviceCondition& device : conditions.devices) {
    use.devices.push_back({.name = device.name,
                           .runs_wait_for_memory = device.runs_wait_for_memory,
                           .healthy = device.healthy,
                           .fault = device.fault});
  }
  std::vector<int> kernels;  // of each device
  for (const SourceSnapshot& source : snapshot.sources) {
    const SourceDescription& what = source.description;
    if (what.kind == SourceKind::kStage) {
      const auto& executing = conditions.execute_stages;
      const bool executes =
          std::find(executing.begin(), executing.end(), what.name) != executing.end();
      use.stages.push_back({what.name, executes, what.threads, source.utilisation});
      continue;
    }
    if (what.kind != SourceKind::kKernel && what.kind != SourceKind::kDevice) continue;
    DeviceUse& device = device_named(use.devices, what.device);
    const auto place = static_cast<std::size_t>(&device - use.devices.data());
    kernels.resize(use.devices.size());
    device.link_busy = std::max({device.link_busy, source.in_share, source.out_share});
    if (what.kind == SourceKind::kDevice) continue;
    // A mean that grows by one kernel after the other.
    device.kernels_busy += (source.utilisation - device.kernels_busy) / ++kernels[place];
    note_stuck(source, snapshot.at_ns, device);
  }
  return use;
}

}  // namespace tessera::metrics

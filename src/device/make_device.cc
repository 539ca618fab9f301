#include "device/make_device.h"

#include <fmt/format.h>

#include <utility>

#include "device/backends.h"
#include "device/fault_plan.h"
#include "device/queued_device.h"

namespace tessera::device {

namespace {

Status check_times(const DeviceConfig& options) {
  const Pace& pace = options.pace;
  // Not a number is none of these.
  if (pace.enabled && !(pace.factor > 0 && pace.factor <= 1e9)) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("a pace of {} times the clock; allowed: more than 0, up to 1e9", pace.factor)};
  }
  if (pace.link_bytes_per_second < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a link of {} bytes a second; allowed: 0 (no limit) or more",
                             pace.link_bytes_per_second)};
  }
  if (options.run_limit < std::chrono::nanoseconds(0) ||
      options.run_limit > std::chrono::hours(24 * 365)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a limit of {} s for a run; allowed: 0 (none) to a year",
                             1e-9 * static_cast<double>(options.run_limit.count()))};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Device>> make_device(const DeviceConfig& options) {
  return make_failing_device(options, {});
}

Result<std::unique_ptr<Device>> make_failing_device(const DeviceConfig& options, FaultPlan faults) {
  if (options.kernels < 1 || options.kernels > 256) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a device with {} kernels; allowed: 1 to 256", options.kernels)};
  }
  if (options.queue_depth < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("a queue for {} submissions; allowed: 1 or more", options.queue_depth)};
  }
  if (options.threads < 0 || options.threads > 1024) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("a device with {} threads; allowed: 0 (one a core) to 1024", options.threads)};
  }
  TESSERA_RETURN_IF_ERROR(check_times(options));
  const bool clocked = options.kind == DeviceKind::kSim;
  if (!clocked && (options.pace.enabled || options.values != Values::kSimulated)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a device '{}' that is paced or leaves values out; only 'sim' has a "
                             "clock of its own",
                             device_kind_name(options.kind))};
  }
  std::unique_ptr<Backend> backend;
  if (options.kind == DeviceKind::kSim) {
    TESSERA_TRY(backend, make_sim_backend(options));
  } else {
    TESSERA_TRY(backend, make_executor_backend(options));
  }
  return QueuedDevice::create(
      std::move(backend),
      QueueOptions{options.queue_depth, options.pace, options.run_limit, std::move(faults)});
}

}  // namespace tessera::device

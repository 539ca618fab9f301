#include "device/make_device.h"

#include <fmt/format.h>

#include <utility>

#include "device/backends.h"
#include "device/fault_plan.h"
#include "device/queued_device.h"
#include "isa/verify_networks.h"

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

Status check_options(const DeviceConfig& options) {
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
  if (options.cores < 1 || options.cores > kCardCoresMax || (!clocked && options.cores > 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a device '{}' of {} cores; allowed: 1 to {} of 'sim'",
                             device_kind_name(options.kind), options.cores, kCardCoresMax)};
  }
  if (options.cards < 1 || options.cards > options.cores) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} cores on {} cards; allowed are 1 to {} cards, a core on each",
                             options.cores, options.cards, options.cores)};
  }
  if (!clocked && (options.pace.enabled || options.values != Values::kSimulated)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a device '{}' that is paced or leaves values out; only 'sim' has a "
                             "clock of its own",
                             device_kind_name(options.kind))};
  }
  return {};
}

Status check_functions(const DeviceConfig& options, int functions) {
  const auto wrong = [&](const std::string& allowed) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} virtual functions; {}", functions, allowed)};
  };
  constexpr int kFunctionsMax = 16;
  if (functions < 1 || functions > kFunctionsMax) {
    return wrong(fmt::format("allowed 1 to {}", kFunctionsMax));
  }
  if (functions == 1) return {};
  if (options.kind != DeviceKind::kSim || !options.chip) {
    return wrong(
        fmt::format("they are of the device sim, this is '{}'", device_kind_name(options.kind)));
  }
  const ChipConfig& chip = *options.chip;
  if (functions > chip.task_manager.queues) {
    return wrong(
        fmt::format("the task manager of '{}' has {} queues, one for each function; "
                    "allowed 1 to {}, or an architecture with more task_manager.queues",
                    chip.name, chip.task_manager.queues, chip.task_manager.queues));
  }
  const Status counts = isa::check_network_count(static_cast<std::size_t>(functions), chip);
  return counts.ok() ? counts : counts.error().with_context("virtual functions");
}

Result<std::unique_ptr<Device>> queued(std::unique_ptr<Backend> backend,
                                       const DeviceConfig& options, FaultPlan faults) {
  return QueuedDevice::create(
      std::move(backend),
      QueueOptions{options.queue_depth, options.pace, options.run_limit, std::move(faults)});
}

}  // namespace

Result<std::unique_ptr<Device>> make_device(const DeviceConfig& options) {
  return make_failing_device(options, {});
}

Result<std::unique_ptr<Device>> make_failing_device(const DeviceConfig& options, FaultPlan faults) {
  TESSERA_RETURN_IF_ERROR(check_options(options));
  std::unique_ptr<Backend> backend;
  if (options.processor != nullptr) {
    TESSERA_TRY(backend, make_virtual_backend(options));
  } else if (options.kind == DeviceKind::kSim) {
    TESSERA_TRY(backend,
                options.cores > 1 ? make_card_backend(options) : make_sim_backend(options));
  } else {
    TESSERA_TRY(backend, make_executor_backend(options));
  }
  return queued(std::move(backend), options, std::move(faults));
}

Result<std::vector<std::unique_ptr<Device>>> make_functions(const DeviceConfig& options,
                                                            int functions) {
  return make_failing_functions(options, functions, {});
}

Result<std::vector<std::unique_ptr<Device>>> make_failing_functions(
    const DeviceConfig& options, int functions, const std::vector<FaultPlan>& faults) {
  TESSERA_RETURN_IF_ERROR(check_options(options));
  TESSERA_RETURN_IF_ERROR(check_functions(options, functions));
  const auto plan = [&faults](int function) {
    const auto place = static_cast<std::size_t>(function);
    return place < faults.size() ? faults[place] : FaultPlan{};
  };
  std::vector<std::unique_ptr<Device>> devices;
  if (functions == 1) {
    TESSERA_TRY(devices.emplace_back(), make_failing_device(options, plan(0)));
    return devices;
  }
  FunctionPlace place{.functions = functions};
  const FunctionCoreOptions core_options{.timing_only = options.values != Values::kSimulated,
                                         .check_hazards = options.check_hazards,
                                         .traps = options.traps,
                                         .pace = options.pace};
  for (int kernel = 0; kernel < options.kernels; ++kernel) {
    TESSERA_TRY(place.cores.emplace_back(),
                FunctionCore::create(*options.chip, functions, core_options));
  }
  for (int function = 0; function < functions; ++function) {
    place.function = function;
    DeviceConfig of = options;
    of.name = fmt::format("{}.{}", options.name.empty() ? "sim" : options.name, function);
    TESSERA_TRY(auto backend, make_sim_backend(of, place));
    TESSERA_TRY(devices.emplace_back(), queued(std::move(backend), of, plan(function)));
  }
  return devices;
}

}  // namespace tessera::device

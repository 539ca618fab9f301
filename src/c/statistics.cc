// What the C interface shows of a runtime: figures as of now, and the live page.
#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

void add_devices(tessera_statistics& statistics) {
  for (const DeviceStatus& device : statistics.device_states) {
    std::vector<std::int64_t>& kernels = statistics.kernel_busy.emplace_back();
    for (const std::chrono::nanoseconds busy : device.kernel_busy) kernels.push_back(busy.count());
    statistics.devices.push_back({sizeof(tessera_device_statistics), device.name.c_str(),
                                  kind_in_c(device.kind), device.kernels, device.healthy,
                                  device.fault.c_str(), device.runs, device.bytes_in,
                                  device.bytes_out, device.weight_bytes, device.busy.count(),
                                  device.late_runs, kernels.data(), device.bytes_copied,
                                  device.runs_made_again, device.functions, device.joint_runs});
  }
}

void add_stages(tessera_statistics& statistics) {
  for (const StageStatus& stage : statistics.pipeline.stages) {
    statistics.stages.push_back({sizeof(tessera_stage_statistics), stage.name.c_str(),
                                 static_cast<tessera_stage_kind>(stage.kind), stage.threads,
                                 stage.running, stage.kernels, stage.queued, stage.capacity,
                                 stage.tasks, stage.batches, stage.busy.count(),
                                 stage.thread_time.count()});
  }
}

// Entry `index` of `list`, whose entries are called `what`.
template <typename Structure>
tessera_error* hand_out(const std::vector<Structure>& list, std::size_t index, const char* what,
                        Structure* structure) {
  return guarded([&] {
    if (index < list.size()) return make_error(fill(list[index], structure));
    return make_error(Error{
        ErrorCode::kInvalidArgument,
        std::string(what) + " " + std::to_string(index) + " of " + std::to_string(list.size())});
  });
}

Result<LiveViewOptions> live_view_of(const tessera_live_view_options* options) {
  LiveViewOptions wanted;
  TESSERA_TRY(const tessera_live_view_options given, sized(options));
  if (given.listen != nullptr) wanted.listen = given.listen;
  if (given.title != nullptr) wanted.title = given.title;
  TESSERA_RETURN_IF_ERROR(check_array(given.pipelines, given.pipeline_count, "pipelines"));
  for (std::size_t i = 0; i < given.pipeline_count; ++i) {
    if (given.pipelines[i] == nullptr) {
      return Error{ErrorCode::kInvalidArgument, "pipelines[" + std::to_string(i) + "] is NULL"};
    }
    wanted.pipelines.push_back(given.pipelines[i]->pipeline);
  }
  return wanted;
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_statistics_take(const tessera_runtime* runtime,
                                       const tessera_pipeline* pipeline,
                                       tessera_statistics** statistics) {
  if (statistics == nullptr) return is_null("statistics");
  *statistics = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  return guarded([&]() -> tessera_error* {
    const tessera::Status usable = runtime->runtime.usable();
    if (!usable.ok()) return make_error(usable);
    auto taken = std::make_unique<tessera_statistics>();
    taken->device_states = runtime->runtime.devices();
    add_devices(*taken);
    if (pipeline != nullptr) taken->pipeline = pipeline->pipeline.status();
    add_stages(*taken);
    *statistics = taken.release();
    return nullptr;
  });
}

size_t tessera_statistics_device_count(const tessera_statistics* statistics) {
  return statistics == nullptr ? 0 : statistics->devices.size();
}

size_t tessera_statistics_stage_count(const tessera_statistics* statistics) {
  return statistics == nullptr ? 0 : statistics->stages.size();
}

tessera_error* tessera_statistics_device(const tessera_statistics* statistics, size_t index,
                                         tessera_device_statistics* device) {
  if (statistics == nullptr) return is_null("statistics");
  if (device == nullptr) return is_null("device");
  return hand_out(statistics->devices, index, "device", device);
}

tessera_error* tessera_statistics_stage(const tessera_statistics* statistics, size_t index,
                                        tessera_stage_statistics* stage) {
  if (statistics == nullptr) return is_null("statistics");
  if (stage == nullptr) return is_null("stage");
  return hand_out(statistics->stages, index, "stage", stage);
}

tessera_error* tessera_statistics_tasks(const tessera_statistics* statistics,
                                        tessera_task_statistics* tasks) {
  if (statistics == nullptr) return is_null("statistics");
  if (tasks == nullptr) return is_null("tasks");
  return guarded([&] {
    const tessera::PipelineStatus& from = statistics->pipeline;
    tessera_task_statistics full = {};
    full.in_flight = from.in_flight;
    full.jobs_max = from.jobs_max;
    full.submitted = from.submitted;
    full.succeeded = from.succeeded;
    full.failed = from.failed;
    full.cancelled = from.cancelled;
    full.late = from.late;
    full.compared = from.compared;
    full.mismatches = from.mismatches;
    full.tuning = from.tuning;
    full.debug = static_cast<tessera_debug_mode>(from.debug);
    full.callbacks_threw = from.callbacks_threw;
    full.callback_error = from.callback_error.c_str();
    return make_error(fill(full, tasks));
  });
}
void tessera_statistics_release(tessera_statistics* statistics) { delete statistics; }

tessera_error* tessera_live_view_open(tessera_runtime* runtime,
                                      const tessera_live_view_options* options,
                                      tessera_live_view** view) {
  if (view == nullptr) return is_null("view");
  *view = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  return guarded([&]() -> tessera_error* {
    const auto wanted = live_view_of(options);
    if (!wanted.ok()) return make_error(wanted.error());
    auto opened = runtime->runtime.open_live_view(*wanted);
    if (!opened.ok()) return make_error(opened.error());
    *view = new tessera_live_view{*opened, opened->url()};
    return nullptr;
  });
}

const char* tessera_live_view_url(const tessera_live_view* view) {
  return view == nullptr ? "" : view->url.c_str();
}
void tessera_live_view_release(tessera_live_view* view) { delete view; }

}  // extern "C"

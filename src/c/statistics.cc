// What the C interface shows of a runtime: figures as of now, and the live page.
#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

void add_devices(tessera_statistics& statistics) {
  for (const DeviceStatus& device : statistics.device_states) {
    std::vector<std::int64_t>& kernels = statistics.kernel_busy.emplace_back();
    for (const std::chrono::nanoseconds busy : device.kernel_busy) kernels.push_back(busy.count());
    statistics.devices.push_back({device.name.c_str(), kind_in_c(device.kind), device.kernels,
                                  device.healthy, device.fault.c_str(), device.runs,
                                  device.bytes_in, device.bytes_out, device.weight_bytes,
                                  device.busy.count(), device.late_runs, kernels.data()});
  }
}

void add_stages(tessera_statistics& statistics) {
  for (const StageStatus& stage : statistics.pipeline.stages) {
    statistics.stages.push_back({stage.name.c_str(), static_cast<tessera_stage_kind>(stage.kind),
                                 stage.threads, stage.running, stage.kernels, stage.queued,
                                 stage.capacity, stage.tasks, stage.batches, stage.busy.count(),
                                 stage.thread_time.count()});
  }
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
    auto taken = std::make_unique<tessera_statistics>();
    taken->device_states = runtime->runtime.devices();
    add_devices(*taken);
    if (pipeline != nullptr) taken->pipeline = pipeline->pipeline.status();
    add_stages(*taken);
    *statistics = taken.release();
    return nullptr;
  });
}

const tessera_device_statistics* tessera_statistics_devices(const tessera_statistics* statistics,
                                                            size_t* count) {
  *count = statistics->devices.size();
  return statistics->devices.data();
}

const tessera_stage_statistics* tessera_statistics_stages(const tessera_statistics* statistics,
                                                          size_t* count) {
  *count = statistics->stages.size();
  return statistics->stages.data();
}

tessera_task_statistics tessera_statistics_tasks(const tessera_statistics* statistics) {
  const tessera::PipelineStatus& tasks = statistics->pipeline;
  return {tasks.in_flight,
          tasks.jobs_max,
          tasks.submitted,
          tasks.succeeded,
          tasks.failed,
          tasks.cancelled,
          tasks.late,
          tasks.compared,
          tasks.mismatches,
          tasks.tuning,
          static_cast<tessera_debug_mode>(tasks.debug)};
}

void tessera_statistics_release(tessera_statistics* statistics) { delete statistics; }

tessera_error* tessera_live_view_open(tessera_runtime* runtime,
                                      const tessera_live_view_options* options,
                                      tessera_live_view** view) {
  if (view == nullptr) return is_null("view");
  *view = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  return guarded([&]() -> tessera_error* {
    tessera::LiveViewOptions wanted;
    if (options != nullptr) {
      if (options->listen != nullptr) wanted.listen = options->listen;
      if (options->title != nullptr) wanted.title = options->title;
      if (options->pipelines == nullptr && options->pipeline_count > 0) return is_null("pipelines");
      for (size_t i = 0; i < options->pipeline_count; ++i) {
        if (options->pipelines[i] == nullptr) return is_null("a pipeline of the live view");
        wanted.pipelines.push_back(options->pipelines[i]->pipeline);
      }
    }
    auto opened = runtime->runtime.open_live_view(wanted);
    if (!opened.ok()) return make_error(opened.error());
    *view = new tessera_live_view{*opened, opened->url()};
    return nullptr;
  });
}

const char* tessera_live_view_url(const tessera_live_view* view) { return view->url.c_str(); }
void tessera_live_view_release(tessera_live_view* view) { delete view; }

}  // extern "C"

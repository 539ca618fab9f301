// Devices, models, pipelines and tasks of the C interface.
#include <algorithm>

#include "c/handles.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

Result<DeviceKind> kind_of(std::uint32_t kind) {
  switch (kind) {
    case TESSERA_HOST:
      return DeviceKind::kHost;
    case TESSERA_SIM:
      return DeviceKind::kSim;
    case TESSERA_REF:
      return DeviceKind::kRef;
    default:
      return Error{ErrorCode::kInvalidArgument,
                   "device kind " + std::to_string(kind) + " is none of TESSERA_HOST, _SIM, _REF"};
  }
}

tessera_device_kind kind_in_c(DeviceKind kind) {
  return kind == DeviceKind::kHost  ? TESSERA_HOST
         : kind == DeviceKind::kSim ? TESSERA_SIM
                                    : TESSERA_REF;
}

Result<DeviceOptions> device_of(const tessera_device_options& options) {
  DeviceOptions device;
  TESSERA_TRY(device.kind, kind_of(number_in(options.kind)));
  device.name = text_of(options.name);
  if (options.arch != nullptr) device.arch = options.arch;
  if (options.kernels != 0) device.kernels = options.kernels;
  device.threads = options.threads;
  device.timing_only = options.timing_only;
  device.pace = options.pace;
  device.hang_timeout = std::chrono::milliseconds(options.hang_timeout_ms);
  return device;
}

Result<RuntimeOptions> runtime_of(const tessera_runtime_options* options) {
  RuntimeOptions runtime;
  if (options == nullptr) return runtime;
  runtime.metrics = !options->no_metrics;
  if (options->devices == nullptr) return runtime;
  runtime.devices.clear();
  for (std::size_t i = 0; i < options->device_count; ++i) {
    TESSERA_TRY(DeviceOptions device, device_of(options->devices[i]));
    runtime.devices.push_back(std::move(device));
  }
  return runtime;
}

PipelineOptions pipeline_of(const tessera_pipeline_options* options) {
  PipelineOptions pipeline;
  if (options == nullptr) return pipeline;
  if (options->jobs_max != 0) pipeline.jobs_max = options->jobs_max;
  if (options->lock_step) pipeline.handover = Handover::kLockStep;
  if (options->low_latency) pipeline.hint = Hint::kLatency;
  pipeline.tune = options->tune;
  if (options->compare_every != 0) {
    pipeline.debug = {.mode = DebugMode::kBoth, .every = options->compare_every};
  }
  return pipeline;
}

SubmitOptions submit_of(const tessera_submit_options* options) {
  SubmitOptions submit;
  if (options == nullptr) return submit;
  if (options->deadline_ns != 0) submit.deadline = std::chrono::nanoseconds(options->deadline_ns);
  if (options->callback != nullptr) {
    submit.callback = [callback = options->callback,
                       context = options->context](TaskOutcome outcome) {
      if (outcome.ok()) {
        callback(context, new tessera_result{std::move(outcome.result())}, nullptr);
      } else {
        callback(context, nullptr, make_error(outcome.error()));
      }
    };
  }
  return submit;
}

Result<std::vector<Tensor>> tensors_of(const tessera_tensor* inputs, std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    TESSERA_TRY(Tensor tensor, tensor_of(inputs[i], "input " + std::to_string(i)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Jobs that are named by pointers, as wait_any takes them.
std::vector<Job> jobs_of(tessera_job* const* jobs, std::size_t count) {
  std::vector<Job> list;
  for (std::size_t i = 0; i < count; ++i) {
    if (jobs[i] != nullptr) list.push_back(jobs[i]->job);
  }
  return list;
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_runtime_open(const tessera_runtime_options* options,
                                    tessera_runtime** runtime) {
  if (runtime == nullptr) return is_null("runtime");
  *runtime = nullptr;
  return guarded([&]() -> tessera_error* {
    const auto wanted = runtime_of(options);
    if (!wanted.ok()) return make_error(wanted.error());
    auto opened = tessera::Runtime::open(*wanted);
    if (!opened.ok()) return make_error(opened.error());
    *runtime = new tessera_runtime{std::move(*opened)};
    return nullptr;
  });
}

tessera_error* tessera_runtime_write_trace(const tessera_runtime* runtime, const char* path) {
  if (runtime == nullptr) return is_null("runtime");
  if (path == nullptr) return is_null("path");
  return guarded([&] { return make_error(runtime->runtime.write_trace(path)); });
}

void tessera_runtime_release(tessera_runtime* runtime) { delete runtime; }

tessera_error* tessera_model_load(tessera_runtime* runtime, const tessera_network* network,
                                  const char* const* devices, size_t device_count,
                                  tessera_model** model) {
  if (model == nullptr) return is_null("model");
  *model = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  if (network == nullptr) return is_null("network");
  if (devices == nullptr && device_count > 0) return is_null("devices");
  return guarded([&]() -> tessera_error* {
    std::vector<std::string> names;
    for (size_t i = 0; i < device_count; ++i) names.push_back(text_of(devices[i]));
    auto loaded = runtime->runtime.load(network->network, names);
    if (!loaded.ok()) return make_error(loaded.error());
    *model = new tessera_model{std::move(*loaded)};
    return nullptr;
  });
}

void tessera_model_release(tessera_model* model) { delete model; }

tessera_error* tessera_pipeline_open(tessera_runtime* runtime, const tessera_model* model,
                                     const tessera_pipeline_options* options,
                                     tessera_pipeline** pipeline) {
  if (pipeline == nullptr) return is_null("pipeline");
  *pipeline = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  if (model == nullptr) return is_null("model");
  return guarded([&]() -> tessera_error* {
    auto opened = runtime->runtime.open_pipeline(model->model, pipeline_of(options));
    if (!opened.ok()) return make_error(opened.error());
    *pipeline = new tessera_pipeline{std::move(*opened)};
    return nullptr;
  });
}

tessera_error* tessera_pipeline_set_threads(tessera_pipeline* pipeline, const char* stage,
                                            int threads) {
  if (pipeline == nullptr) return is_null("pipeline");
  return guarded(
      [&] { return make_error(pipeline->pipeline.set_threads(text_of(stage), threads)); });
}

tessera_error* tessera_pipeline_set_kernels(tessera_pipeline* pipeline, const char* stage,
                                            int kernels) {
  if (pipeline == nullptr) return is_null("pipeline");
  return guarded(
      [&] { return make_error(pipeline->pipeline.set_kernels(text_of(stage), kernels)); });
}

void tessera_pipeline_wait_until_done(tessera_pipeline* pipeline) {
  pipeline->pipeline.wait_until_done();
}
void tessera_pipeline_release(tessera_pipeline* pipeline) { delete pipeline; }

tessera_error* tessera_stream_open(tessera_pipeline* pipeline, tessera_stream** stream) {
  if (stream == nullptr) return is_null("stream");
  *stream = nullptr;
  if (pipeline == nullptr) return is_null("pipeline");
  return guarded([&]() -> tessera_error* {
    *stream = new tessera_stream{pipeline->pipeline.open_stream()};
    return nullptr;
  });
}

bool tessera_stream_wait_for_room(tessera_stream* stream, int64_t patience_ns) {
  return stream->stream.wait_for_room(patience_of(patience_ns));
}
void tessera_stream_wait_until_done(tessera_stream* stream) { stream->stream.wait_until_done(); }
void tessera_stream_release(tessera_stream* stream) { delete stream; }

tessera_error* tessera_submit(tessera_stream* stream, const tessera_tensor* inputs,
                              size_t input_count, const tessera_submit_options* options,
                              tessera_job** job) {
  if (job != nullptr) *job = nullptr;
  if (stream == nullptr) return is_null("stream");
  if (inputs == nullptr && input_count > 0) return is_null("inputs");
  if (job == nullptr && (options == nullptr || options->callback == nullptr)) {
    return is_null("job, which only a task with a callback can do without,");
  }
  return guarded([&]() -> tessera_error* {
    auto tensors = tensors_of(inputs, input_count);
    if (!tensors.ok()) return make_error(tensors.error());
    const bool fail_if_full = options != nullptr && options->fail_if_full;
    auto submitted = fail_if_full
                         ? stream->stream.submit(std::move(*tensors), submit_of(options))
                         : stream->stream.submit_when_room(std::move(*tensors), submit_of(options));
    if (!submitted.ok()) return make_error(submitted.error());
    if (job != nullptr) *job = new tessera_job{std::move(*submitted)};
    return nullptr;
  });
}

tessera_error* tessera_job_wait(tessera_job* job, int64_t patience_ns, tessera_result** result) {
  if (result == nullptr) return is_null("result");
  *result = nullptr;
  if (job == nullptr) return is_null("job");
  return guarded([&]() -> tessera_error* {
    std::optional<tessera::TaskOutcome> outcome =
        patience_ns < 0 ? job->job.wait() : job->job.wait_for(patience_of(patience_ns));
    if (!outcome.has_value()) return nullptr;
    if (!outcome->ok()) return make_error(outcome->error());
    *result = new tessera_result{std::move(outcome->result())};
    return nullptr;
  });
}

bool tessera_wait_any(tessera_job* const* jobs, size_t job_count, int64_t patience_ns,
                      size_t* index) {
  const std::vector<tessera::Job> list = jobs_of(jobs, job_count);
  const auto found = tessera::wait_any(list, patience_of(patience_ns));
  if (!found.has_value()) return false;
  // Entries that are NULL are passed by.
  size_t left = *found;
  for (size_t i = 0; i < job_count; ++i) {
    if (jobs[i] == nullptr) continue;
    if (left-- == 0) *index = i;
  }
  return true;
}

bool tessera_job_done(const tessera_job* job) { return job->job.done(); }
void tessera_job_cancel(tessera_job* job) { job->job.cancel(); }
uint64_t tessera_job_id(const tessera_job* job) { return job->job.id(); }
void tessera_job_release(tessera_job* job) { delete job; }

size_t tessera_result_output_count(const tessera_result* result) {
  return result->result.runs.empty() ? 0 : result->result.outputs().size();
}

tessera_tensor tessera_result_output(const tessera_result* result, size_t index) {
  if (index >= tessera_result_output_count(result)) return {};
  const tessera::Tensor& tensor = result->result.outputs()[index];
  return {static_cast<tessera_format>(tensor.format), tensor.dims.size(), tensor.dims.data(),
          tensor.bytes.data(), tensor.bytes.size()};
}

int64_t tessera_result_cycles(const tessera_result* result) { return result->result.cycles; }
const char* tessera_result_device(const tessera_result* result) {
  return result->result.device.c_str();
}
uint64_t tessera_result_sequence(const tessera_result* result) { return result->result.sequence; }

tessera_times tessera_result_times(const tessera_result* result) {
  const tessera::TaskTimes& times = result->result.times;
  tessera_times found = {};
  found.total_ns = times.total.count();
  for (const tessera::TaskTimes::Stage& stage : times.stages) {
    found.queued_ns += stage.queued.count();
  }
  found.transfer_in_ns = times.transfer_in.count();
  found.kernel_ns = times.kernel.count();
  found.transfer_out_ns = times.transfer_out.count();
  return found;
}

void tessera_result_release(tessera_result* result) { delete result; }

tessera_error* tessera_statistics_take(const tessera_runtime* runtime,
                                       const tessera_pipeline* pipeline,
                                       tessera_statistics** statistics) {
  if (statistics == nullptr) return is_null("statistics");
  *statistics = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  return guarded([&]() -> tessera_error* {
    auto taken = std::make_unique<tessera_statistics>();
    taken->device_states = runtime->runtime.devices();
    for (const tessera::DeviceStatus& device : taken->device_states) {
      taken->devices.push_back({device.name.c_str(), kind_in_c(device.kind), device.kernels,
                                device.healthy, device.fault.c_str(), device.runs, device.bytes_in,
                                device.bytes_out, device.weight_bytes, device.busy.count()});
    }
    if (pipeline != nullptr) taken->pipeline = pipeline->pipeline.status();
    for (const tessera::StageStatus& stage : taken->pipeline.stages) {
      taken->stages.push_back({stage.name.c_str(), stage.threads, stage.running, stage.kernels,
                               stage.queued, stage.capacity, stage.tasks, stage.batches,
                               stage.busy.count()});
    }
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
  return {tasks.in_flight, tasks.jobs_max, tasks.submitted, tasks.succeeded, tasks.failed,
          tasks.cancelled, tasks.late,     tasks.compared,  tasks.mismatches};
}

void tessera_statistics_release(tessera_statistics* statistics) { delete statistics; }

}  // extern "C"

// Streams, tasks and their results in the C interface, and what a stage sees of a task.
#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

Result<std::vector<std::vector<Tensor>>> runs_of(const tessera_run* runs, std::size_t count) {
  std::vector<std::vector<Tensor>> list;
  for (std::size_t i = 0; i < count; ++i) {
    // With one run it goes without saying which.
    const std::string what = count == 1 ? "input" : "run " + std::to_string(i) + ": input";
    TESSERA_TRY(std::vector<Tensor> tensors, tensors_of(runs[i], what));
    list.push_back(std::move(tensors));
  }
  return list;
}

bool may_fail(const tessera_submit_options* options) {
  return options != nullptr && options->fail_if_full;
}

// Nobody would hear of the task.
bool unheard(const tessera_submit_options* options, tessera_job* const* job) {
  return job == nullptr && (options == nullptr || options->callback == nullptr);
}

tessera_error* submit_runs(tessera_stream* stream, std::vector<std::vector<Tensor>> runs,
                           SubmitOptions submit, bool fail_if_full, tessera_job** job) {
  auto submitted = fail_if_full
                       ? stream->stream.submit_runs(std::move(runs), std::move(submit))
                       : stream->stream.submit_runs_when_room(std::move(runs), std::move(submit));
  if (!submitted.ok()) return make_error(submitted.error());
  if (job != nullptr) *job = new tessera_job{std::move(*submitted)};
  return nullptr;
}

// Of tasks that bring no tensors with them, so that they can be offered again.
template <typename Submit>
tessera_error* submit_small(tessera_stream* stream, const tessera_submit_options* options,
                            tessera_job** job, const Submit& submit) {
  const SubmitOptions wanted = submit_of(options);
  for (;;) {
    auto submitted = submit(wanted);
    if (submitted.ok()) {
      if (job != nullptr) *job = new tessera_job{std::move(*submitted)};
      return nullptr;
    }
    if (submitted.error().code != ErrorCode::kUnavailable || may_fail(options)) {
      return make_error(submitted.error());
    }
    stream->stream.wait_for_room();
  }
}

// Jobs that are named by pointers, as wait_any takes them.
std::vector<Job> jobs_of(tessera_job* const* jobs, std::size_t count) {
  std::vector<Job> list;
  for (std::size_t i = 0; i < count; ++i) {
    if (jobs[i] != nullptr) list.push_back(jobs[i]->job);
  }
  return list;
}

Result<std::vector<Block>> blocks_of(tessera_block* const* blocks, std::size_t count,
                                     const char* what) {
  std::vector<Block> list;
  for (std::size_t i = 0; i < count; ++i) {
    if (blocks == nullptr || blocks[i] == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   std::string(what) + " " + std::to_string(i) + " of the layer is NULL"};
    }
    list.push_back(blocks[i]->block);
  }
  return list;
}

std::int64_t at_least_one(std::int64_t size) { return size == 0 ? 1 : size; }

Result<operations::Operation> operation_of(const tessera_operation& given) {
  const operations::ImageSize image{at_least_one(given.image_rows),
                                    at_least_one(given.image_columns),
                                    at_least_one(given.image_channels)};
  const operations::Window window{at_least_one(given.window_size),
                                  at_least_one(given.window_stride), given.window_pad};
  const std::int64_t rows = at_least_one(given.rows), columns = at_least_one(given.columns);
  switch (number_in(given.kind)) {
    case TESSERA_IM2COL:
      return operations::Operation(operations::Im2col{image, window});
    case TESSERA_MATRIX_PRODUCT:
      return operations::Operation(
          operations::MatrixProduct{rows, at_least_one(given.inner), columns});
    case TESSERA_RELU:
      return operations::Operation(operations::Relu{rows, columns});
    case TESSERA_MAXIMUM_POOL:
      return operations::Operation(operations::MaximumPool{image, window});
    default:
      return Error{ErrorCode::kInvalidArgument,
                   "operation " + std::to_string(number_in(given.kind)) +
                       " is none of TESSERA_IM2COL, _MATRIX_PRODUCT, _RELU, _MAXIMUM_POOL"};
  }
}

}  // namespace
}  // namespace tessera::c

extern "C" {

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
uint32_t tessera_stream_id(const tessera_stream* stream) { return stream->stream.id(); }
void tessera_stream_release(tessera_stream* stream) { delete stream; }

tessera_error* tessera_submit(tessera_stream* stream, const tessera_tensor* inputs,
                              size_t input_count, const tessera_submit_options* options,
                              tessera_job** job) {
  const tessera_run run = {inputs, input_count};
  return tessera_submit_runs(stream, &run, 1, options, job);
}

tessera_error* tessera_submit_runs(tessera_stream* stream, const tessera_run* runs,
                                   size_t run_count, const tessera_submit_options* options,
                                   tessera_job** job) {
  return guarded([&]() -> tessera_error* {
    tessera::SubmitOptions submit = submit_of(options);
    if (job != nullptr) *job = nullptr;
    if (stream == nullptr) return is_null("stream");
    if (runs == nullptr && run_count > 0) return is_null("runs");
    if (unheard(options, job)) {
      return is_null("job, which only a task with a callback can do without,");
    }
    auto list = runs_of(runs, run_count);
    if (!list.ok()) return make_error(list.error());
    return submit_runs(stream, std::move(*list), std::move(submit), may_fail(options), job);
  });
}

tessera_error* tessera_submit_batch(tessera_stream* stream, const tessera_run* tasks,
                                    size_t task_count, const tessera_submit_options* options,
                                    tessera_job** jobs) {
  return guarded([&]() -> tessera_error* {
    const tessera::SubmitOptions submit = submit_of(options);
    for (size_t i = 0; jobs != nullptr && i < task_count; ++i) jobs[i] = nullptr;
    if (stream == nullptr) return is_null("stream");
    if (tasks == nullptr && task_count > 0) return is_null("tasks");
    if (unheard(options, jobs)) return is_null("jobs, which only a callback can do without,");
    for (size_t i = 0; i < task_count; ++i) {
      auto inputs = tensors_of(tasks[i], "task " + std::to_string(i) + ": input");
      if (!inputs.ok()) return make_error(inputs.error());
      std::vector<std::vector<tessera::Tensor>> runs;
      runs.push_back(std::move(*inputs));
      tessera_error* const refused = submit_runs(stream, std::move(runs), submit, may_fail(options),
                                                 jobs == nullptr ? nullptr : &jobs[i]);
      if (refused != nullptr) return refused;
    }
    return nullptr;
  });
}

tessera_error* tessera_submit_layer(tessera_stream* stream, const tessera_layers* layers,
                                    const tessera_layer_task* task,
                                    const tessera_submit_options* options, tessera_job** job) {
  return guarded([&]() -> tessera_error* {
    if (job != nullptr) *job = nullptr;
    // In any case what the options hold is given back.
    const auto refuse = [options](tessera_error* error) {
      (void)submit_of(options);
      return error;
    };
    if (stream == nullptr) return refuse(is_null("stream"));
    if (layers == nullptr) return refuse(is_null("layers"));
    if (task == nullptr) return refuse(is_null("task"));
    if (unheard(options, job)) {
      return refuse(is_null("job, which only a task with a callback can do without,"));
    }
    auto inputs = blocks_of(task->inputs, task->input_count, "input");
    if (!inputs.ok()) return refuse(make_error(inputs.error()));
    auto outputs = blocks_of(task->outputs, task->output_count, "output");
    if (!outputs.ok()) return refuse(make_error(outputs.error()));
    const tessera::LayerTask wanted{task->layer, std::move(*inputs), std::move(*outputs),
                                    task->fetch};
    return submit_small(stream, options, job, [&](const tessera::SubmitOptions& submit) {
      return stream->stream.submit_layer(layers->layers, wanted, submit);
    });
  });
}

tessera_error* tessera_submit_operation(tessera_stream* stream, const tessera_operation_task* task,
                                        const tessera_submit_options* options, tessera_job** job) {
  return guarded([&]() -> tessera_error* {
    if (job != nullptr) *job = nullptr;
    const auto refuse = [options](tessera_error* error) {
      (void)submit_of(options);
      return error;
    };
    if (stream == nullptr) return refuse(is_null("stream"));
    if (task == nullptr) return refuse(is_null("task"));
    if (task->input == nullptr) return refuse(is_null("input"));
    if (task->output == nullptr) return refuse(is_null("output"));
    if (unheard(options, job)) {
      return refuse(is_null("job, which only a task with a callback can do without,"));
    }
    const auto operation = operation_of(task->operation);
    if (!operation.ok()) return refuse(make_error(operation.error()));
    tessera::OperationTask wanted{*operation, task->input->block,  task->output->block,
                                  {},         task->weight_offset, task->fetch};
    if (task->weights != nullptr) wanted.weights = task->weights->block;
    return submit_small(stream, options, job, [&](const tessera::SubmitOptions& submit) {
      return stream->stream.submit_operation(wanted, submit);
    });
  });
}

size_t tessera_task_run_count(const tessera_task* task) { return task->task.runs.size(); }
size_t tessera_task_tensor_count(const tessera_task* task, size_t run) {
  return run < task->task.runs.size() ? task->task.runs[run].size() : 0;
}
tessera_tensor tessera_task_tensor(const tessera_task* task, size_t run, size_t index) {
  return run < task->task.runs.size() ? view_of(task->task.runs[run], index) : tessera_tensor{};
}
void* tessera_task_data(tessera_task* task, size_t run, size_t index) {
  if (index >= tessera_task_tensor_count(task, run)) return nullptr;
  return task->task.runs[run][index].bytes.data();
}
tessera_error* tessera_task_set_runs(tessera_task* task, const tessera_run* runs,
                                     size_t run_count) {
  if (task == nullptr) return is_null("task");
  if (runs == nullptr && run_count > 0) return is_null("runs");
  return guarded([&]() -> tessera_error* {
    auto list = runs_of(runs, run_count);
    if (!list.ok()) return make_error(list.error());
    task->task.runs = std::move(*list);
    return nullptr;
  });
}
void* tessera_task_payload(const tessera_task* task) { return task->task.payload.get(); }
uint32_t tessera_task_stream(const tessera_task* task) { return task->task.stream; }
uint64_t tessera_task_sequence(const tessera_task* task) { return task->task.sequence; }

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
  return tessera_result_run_output_count(result, 0);
}
tessera_tensor tessera_result_output(const tessera_result* result, size_t index) {
  return tessera_result_run_output(result, 0, index);
}
size_t tessera_result_run_count(const tessera_result* result) { return result->result.runs.size(); }
size_t tessera_result_run_output_count(const tessera_result* result, size_t run) {
  return run < result->result.runs.size() ? result->result.runs[run].size() : 0;
}
tessera_tensor tessera_result_run_output(const tessera_result* result, size_t run, size_t index) {
  const auto& runs = result->result.runs;
  return run < runs.size() ? view_of(runs[run], index) : tessera_tensor{};
}
void* tessera_result_payload(const tessera_result* result) { return result->result.payload.get(); }
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

tessera_stage_times tessera_result_stage_times(const tessera_result* result, size_t stage) {
  if (stage >= result->result.times.stages.size()) return {};
  const tessera::TaskTimes::Stage& times = result->result.times.stages[stage];
  return {times.queued.count(), times.busy.count()};
}

void tessera_result_release(tessera_result* result) { delete result; }

}  // extern "C"

// Streams, tasks and their results in the C interface, and what a stage sees of a task.
#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

Result<std::vector<std::vector<Tensor>>> runs_of(const tessera_run* runs, std::size_t count) {
  TESSERA_RETURN_IF_ERROR(check_array(runs, count, "runs"));
  std::vector<std::vector<Tensor>> list;
  for (std::size_t i = 0; i < count; ++i) {
    // With one run it goes without saying which.
    const std::string what = count == 1 ? "input" : "run " + std::to_string(i) + ": input";
    TESSERA_TRY(std::vector<Tensor> tensors, tensors_of(runs[i], what));
    list.push_back(std::move(tensors));
  }
  return list;
}

tessera_error* take_job(Result<Job> submitted, tessera_job** job) {
  if (!submitted.ok()) return make_error(submitted.error());
  if (job != nullptr) *job = new tessera_job{std::move(*submitted)};
  return nullptr;
}

tessera_error* submit_runs(tessera_stream* stream, std::vector<std::vector<Tensor>> runs,
                           Submission submission, tessera_job** job) {
  auto submitted =
      submission.fail_if_full
          ? stream->stream.submit_runs(std::move(runs), std::move(submission.options))
          : stream->stream.submit_runs_when_room(std::move(runs), std::move(submission.options));
  return take_job(std::move(submitted), job);
}

// Jobs that are named by pointers, as wait_any takes them.
std::vector<Job> jobs_of(tessera_job* const* jobs, std::size_t count) {
  std::vector<Job> list;
  for (std::size_t i = 0; jobs != nullptr && i < count; ++i) {
    if (jobs[i] != nullptr) list.push_back(jobs[i]->job);
  }
  return list;
}

Result<std::vector<Block>> blocks_of(tessera_block* const* blocks, std::size_t count,
                                     const std::string& what) {
  TESSERA_RETURN_IF_ERROR(check_array(blocks, count, what + "s of the layer"));
  std::vector<Block> list;
  for (std::size_t i = 0; i < count; ++i) {
    if (blocks[i] == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   what + " " + std::to_string(i) + " of the layer is NULL"};
    }
    list.push_back(blocks[i]->block);
  }
  return list;
}

std::int64_t at_least_one(std::int64_t size) { return size == 0 ? 1 : size; }

Result<operations::Operation> operation_of(const tessera_operation* operation) {
  TESSERA_TRY(const tessera_operation given, sized(operation));
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

Result<LayerTask> layer_task_of(const tessera_layer_task* task) {
  TESSERA_TRY(const tessera_layer_task given, sized(task));
  LayerTask wanted;
  wanted.layer = given.layer;
  TESSERA_TRY(wanted.inputs, blocks_of(given.inputs, given.input_count, "input"));
  TESSERA_TRY(wanted.outputs, blocks_of(given.outputs, given.output_count, "output"));
  wanted.fetch = given.fetch;
  return wanted;
}

Result<OperationTask> operation_task_of(const tessera_operation_task* task) {
  TESSERA_TRY(const tessera_operation_task given, sized(task));
  const auto null = [](const char* what) {
    return Error{ErrorCode::kInvalidArgument, std::string(what) + " is NULL"};
  };
  if (given.operation == nullptr) return null("operation");
  if (given.input == nullptr) return null("input");
  if (given.output == nullptr) return null("output");
  TESSERA_TRY(const operations::Operation operation, operation_of(given.operation));
  OperationTask wanted{operation, given.input->block,  given.output->block,
                       {},        given.weight_offset, given.fetch};
  if (given.weights != nullptr) wanted.weights = given.weights->block;
  return wanted;
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_stream_open(tessera_pipeline* pipeline, tessera_stream** stream) {
  return tessera_stream_open_with(pipeline, nullptr, stream);
}
tessera_error* tessera_stream_open_with(tessera_pipeline* pipeline,
                                        const tessera_stream_options* options,
                                        tessera_stream** stream) {
  if (stream == nullptr) return is_null("stream");
  *stream = nullptr;
  if (pipeline == nullptr) return is_null("pipeline");
  return guarded([&]() -> tessera_error* {
    const auto wanted = tessera::c::stream_of(options);
    if (!wanted.ok()) return make_error(wanted.error());
    const tessera::Status usable = pipeline->pipeline.usable();
    if (!usable.ok()) return make_error(usable.error());
    *stream = new tessera_stream{pipeline->pipeline.open_stream(*wanted)};
    return nullptr;
  });
}

bool tessera_stream_wait_for_room(tessera_stream* stream, int64_t patience_ns) {
  return stream != nullptr && stream->stream.wait_for_room(patience_of(patience_ns));
}
void tessera_stream_wait_until_done(tessera_stream* stream) {
  if (stream != nullptr) stream->stream.wait_until_done();
}
uint32_t tessera_stream_id(const tessera_stream* stream) {
  return stream == nullptr ? 0 : stream->stream.id();
}
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
  return submitting(stream, options, job, [&](auto submission) {
    auto list = runs_of(runs, run_count);
    if (!list.ok()) return make_error(list.error());
    return submit_runs(stream, std::move(*list), std::move(submission), job);
  });
}

tessera_error* tessera_submit_batch(tessera_stream* stream, const tessera_run* tasks,
                                    size_t task_count, const tessera_submit_options* options,
                                    tessera_job** jobs) {
  return guarded([&]() -> tessera_error* {
    const auto submission = submission_of(options);
    if (!submission.ok()) return make_error(submission.error());
    const tessera::Status array = check_array(tasks, task_count, "tasks");
    if (!array.ok()) return make_error(array);
    for (size_t i = 0; jobs != nullptr && i < task_count; ++i) jobs[i] = nullptr;
    if (stream == nullptr) return is_null("stream");
    if (tessera_error* const unheard = check_heard(submission->options, jobs)) return unheard;
    for (size_t i = 0; i < task_count; ++i) {
      auto inputs = tensors_of(tasks[i], "task " + std::to_string(i) + ": input");
      if (!inputs.ok()) return make_error(inputs.error());
      std::vector<std::vector<tessera::Tensor>> runs;
      runs.push_back(std::move(*inputs));
      tessera_error* const refused =
          submit_runs(stream, std::move(runs), *submission, jobs == nullptr ? nullptr : &jobs[i]);
      if (refused != nullptr) return refused;
    }
    return nullptr;
  });
}

tessera_error* tessera_submit_layer(tessera_stream* stream, const tessera_layers* layers,
                                    const tessera_layer_task* task,
                                    const tessera_submit_options* options, tessera_job** job) {
  return submitting(stream, options, job, [&](const auto& submission) {
    if (layers == nullptr) return is_null("layers");
    if (task == nullptr) return is_null("task");
    const auto wanted = layer_task_of(task);
    if (!wanted.ok()) return make_error(wanted.error());
    const auto submit = submission.fail_if_full ? &tessera::Stream::submit_layer
                                                : &tessera::Stream::submit_layer_when_room;
    return take_job((stream->stream.*submit)(layers->layers, *wanted, submission.options), job);
  });
}

tessera_error* tessera_submit_operation(tessera_stream* stream, const tessera_operation_task* task,
                                        const tessera_submit_options* options, tessera_job** job) {
  return submitting(stream, options, job, [&](const auto& submission) {
    if (task == nullptr) return is_null("task");
    const auto wanted = operation_task_of(task);
    if (!wanted.ok()) return make_error(wanted.error());
    const auto submit = submission.fail_if_full ? &tessera::Stream::submit_operation
                                                : &tessera::Stream::submit_operation_when_room;
    return take_job((stream->stream.*submit)(*wanted, submission.options), job);
  });
}

size_t tessera_task_run_count(const tessera_task* task) {
  return task == nullptr ? 0 : task->task.runs.size();
}
size_t tessera_task_tensor_count(const tessera_task* task, size_t run) {
  return run < tessera_task_run_count(task) ? task->task.runs[run].size() : 0;
}
tessera_tensor tessera_task_tensor(const tessera_task* task, size_t run, size_t index) {
  if (run >= tessera_task_run_count(task)) return {};
  return view_of(task->task.runs[run], index);
}
void* tessera_task_data(tessera_task* task, size_t run, size_t index) {
  if (index >= tessera_task_tensor_count(task, run)) return nullptr;
  return task->task.runs[run][index].bytes.data();
}
tessera_error* tessera_task_set_runs(tessera_task* task, const tessera_run* runs,
                                     size_t run_count) {
  if (task == nullptr) return is_null("task");
  return guarded([&]() -> tessera_error* {
    auto list = runs_of(runs, run_count);
    if (!list.ok()) return make_error(list.error());
    task->task.runs = std::move(*list);
    return nullptr;
  });
}
void* tessera_task_payload(const tessera_task* task) {
  return task == nullptr ? nullptr : task->task.payload.get();
}
uint32_t tessera_task_stream(const tessera_task* task) {
  return task == nullptr ? 0 : task->task.stream;
}
uint64_t tessera_task_sequence(const tessera_task* task) {
  return task == nullptr ? 0 : task->task.sequence;
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
  bool found = false;
  tessera_error_release(guarded([&]() -> tessera_error* {
    const tessera::Status array = check_array(jobs, job_count, "jobs");
    if (!array.ok()) return make_error(array);
    const std::vector<tessera::Job> list = jobs_of(jobs, job_count);
    const auto done = tessera::wait_any(list, patience_of(patience_ns));
    found = done.has_value();
    // Entries that are NULL are passed by.
    size_t left = done.value_or(0);
    for (size_t i = 0; found && index != nullptr && i < job_count; ++i) {
      if (jobs[i] == nullptr) continue;
      if (left-- == 0) *index = i;
    }
    return nullptr;
  }));
  return found;
}

bool tessera_job_done(const tessera_job* job) { return job == nullptr || job->job.done(); }
void tessera_job_cancel(tessera_job* job) {
  if (job != nullptr) job->job.cancel();
}
uint64_t tessera_job_id(const tessera_job* job) { return job == nullptr ? 0 : job->job.id(); }
void tessera_job_release(tessera_job* job) { delete job; }

size_t tessera_result_output_count(const tessera_result* result) {
  return tessera_result_run_output_count(result, 0);
}
tessera_tensor tessera_result_output(const tessera_result* result, size_t index) {
  return tessera_result_run_output(result, 0, index);
}
size_t tessera_result_run_count(const tessera_result* result) {
  return result == nullptr ? 0 : result->result.runs.size();
}
size_t tessera_result_run_output_count(const tessera_result* result, size_t run) {
  return run < tessera_result_run_count(result) ? result->result.runs[run].size() : 0;
}
tessera_tensor tessera_result_run_output(const tessera_result* result, size_t run, size_t index) {
  if (run >= tessera_result_run_count(result)) return {};
  return view_of(result->result.runs[run], index);
}
void* tessera_result_payload(const tessera_result* result) {
  return result == nullptr ? nullptr : result->result.payload.get();
}
int64_t tessera_result_cycles(const tessera_result* result) {
  return result == nullptr ? 0 : result->result.cycles;
}
int64_t tessera_result_host_cycles(const tessera_result* result) {
  return result == nullptr ? 0 : result->result.host_cycles;
}
int64_t tessera_result_transfer_cycles(const tessera_result* result) {
  return result == nullptr ? 0 : result->result.transfer_cycles;
}
const char* tessera_result_device(const tessera_result* result) {
  return result == nullptr ? "" : result->result.device.c_str();
}
uint64_t tessera_result_sequence(const tessera_result* result) {
  return result == nullptr ? 0 : result->result.sequence;
}

size_t tessera_result_value_note_count(const tessera_result* result) {
  return result == nullptr ? 0 : result->result.value_notes.size();
}
tessera_error* tessera_result_value_note(const tessera_result* result, size_t index,
                                         tessera_value_note* note) {
  if (result == nullptr) return is_null("result");
  if (note == nullptr) return is_null("note");
  return guarded([&] {
    const std::vector<tessera::ValueNote>& notes = result->result.value_notes;
    tessera_value_note full = {};
    if (index < notes.size()) {
      full.layer = notes[index].layer.c_str();
      full.trouble = static_cast<tessera_value_trouble>(notes[index].trouble);
      full.format = static_cast<tessera_format>(notes[index].format);
    }
    return make_error(fill(full, note));
  });
}

tessera_error* tessera_result_times(const tessera_result* result, tessera_times* times) {
  if (result == nullptr) return is_null("result");
  if (times == nullptr) return is_null("times");
  return guarded([&] {
    const tessera::TaskTimes& from = result->result.times;
    tessera_times full = {};
    full.total_ns = from.total.count();
    for (const tessera::TaskTimes::Stage& stage : from.stages) {
      full.queued_ns += stage.queued.count();
    }
    full.transfer_in_ns = from.transfer_in.count();
    full.kernel_ns = from.kernel.count();
    full.transfer_out_ns = from.transfer_out.count();
    return make_error(fill(full, times));
  });
}

tessera_error* tessera_result_stage_times(const tessera_result* result, size_t stage,
                                          tessera_stage_times* times) {
  if (result == nullptr) return is_null("result");
  if (times == nullptr) return is_null("times");
  return guarded([&] {
    const auto& stages = result->result.times.stages;
    tessera_stage_times full = {};
    if (stage < stages.size()) {
      full.queued_ns = stages[stage].queued.count();
      full.busy_ns = stages[stage].busy.count();
    }
    return make_error(fill(full, times));
  });
}

void tessera_result_release(tessera_result* result) { delete result; }

}  // extern "C"

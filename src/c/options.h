// The structures of the C interface as options of the C++ one.
#pragma once

#include "c/handles.h"
#include "c/sized.h"

namespace tessera::c {

// An object of the application, released when its last owner is gone. What the function throws is
// ignored.
std::shared_ptr<void> owned(void* what, tessera_release_function release);
tessera_device_kind kind_in_c(DeviceKind kind);
Result<DeviceKind> kind_of(std::uint32_t kind);
Result<LoadOptions> load_options(const tessera_load_options* options);
Result<DynamicOptions> dynamic_of(const tessera_dynamic_options* options);
Result<RuntimeOptions> runtime_of(const tessera_runtime_options* options);
Result<StreamOptions> stream_of(const tessera_stream_options* options);
Result<DebugOptions> debug_of(const tessera_debug_options* options);
// Whatever comes of it, the release functions in `options` are called once, but for those of a
// structure whose size is wrong.
Result<PipelineOptions> pipeline_of(const tessera_pipeline_options* options);
Result<PictureInput> picture_of(const tessera_picture_input* how);
// How a task is offered.
struct Submission {
  SubmitOptions options;
  bool fail_if_full = false;
};
// Whatever comes of it, `release_payload` is called once, but where the size is wrong.
Result<Submission> submission_of(const tessera_submit_options* options);
// A task without a job and a callback has no observable outcome.
inline tessera_error* check_heard(const SubmitOptions& options, tessera_job* const* job) {
  if (job != nullptr || options.callback) return nullptr;
  return is_null("job, which only a task with a callback can do without,");
}
// What every call that submits one task begins with: it reads the options first of all, so that what they hold
// is released in any case, and then submits: `submit(Submission) -> tessera_error*`.
template <typename Submit>
tessera_error* submitting(const void* stream, const tessera_submit_options* options,
                          tessera_job** job, Submit&& submit) {
  return guarded([&]() -> tessera_error* {
    auto submission = submission_of(options);
    if (job != nullptr) *job = nullptr;
    if (!submission.ok()) return make_error(submission.error());
    if (stream == nullptr) return is_null("stream");
    if (tessera_error* const unheard = check_heard(submission->options, job)) return unheard;
    return submit(std::move(*submission));
  });
}
// Submits a task to a stream of a dynamic or a growing pipeline.
template <typename Stream>
tessera_error* submit_task(Stream& stream, const tessera_run& inputs, Submission submission,
                           tessera_job** job) {
  auto tensors = tensors_of(inputs, "inputs");
  if (!tensors.ok()) return make_error(tensors.error());
  // Before the task is on its way.
  auto made = job == nullptr ? nullptr : std::make_unique<tessera_job>();
  auto submitted = submission.fail_if_full
                       ? stream.submit(*tensors, std::move(submission.options))
                       : stream.submit_when_room(*tensors, std::move(submission.options));
  if (!submitted.ok()) return make_error(submitted.error());
  if (job == nullptr) return nullptr;
  made->job = std::move(*submitted);
  *job = made.release();
  return nullptr;
}

}  // namespace tessera::c

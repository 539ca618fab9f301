// Tasks of many shapes in one stream, in the C interface.
#include "tessera/dynamic_pipeline.h"

#include "c/options.h"
#include "tessera/tessera_dynamic_c.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

// NOLINTBEGIN(readability-identifier-naming): the names of tessera_dynamic_c.h
struct tessera_dynamic_pipeline {
  tessera::DynamicPipeline pipeline;
};
struct tessera_dynamic_stream {
  tessera::DynamicStream stream;
};
// NOLINTEND(readability-identifier-naming)

namespace tessera::c {

template <>
inline constexpr const char* kStructureName<tessera_dynamic_pipeline_options> =
    "tessera_dynamic_pipeline_options";

namespace {

Result<tessera_dynamic_pipeline> open_pipeline(Runtime& runtime, const char* path,
                                               const tessera_dynamic_pipeline_options* options) {
  TESSERA_TRY(const tessera_dynamic_pipeline_options given, sized(options));
  DynamicPipelineOptions how;
  // First of all, so that what the options hold is released in any case.
  TESSERA_TRY(how.pipeline, pipeline_of(given.pipeline));
  TESSERA_TRY(how.devices, texts_of(given.devices, given.device_count, "devices"));
  if (given.pipelines_max != 0) how.pipelines_max = given.pipelines_max;
  TESSERA_TRY(const DynamicOptions networks, dynamic_of(given.networks));
  TESSERA_TRY(const DynamicNetwork network, DynamicNetwork::open(path, networks));
  TESSERA_TRY(DynamicPipeline opened, runtime.open_pipeline(network, how));
  return tessera_dynamic_pipeline{std::move(opened)};
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_dynamic_pipeline_open(tessera_runtime* runtime, const char* path,
                                             const tessera_dynamic_pipeline_options* options,
                                             tessera_dynamic_pipeline** pipeline) {
  if (pipeline == nullptr) return is_null("pipeline");
  *pipeline = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  if (path == nullptr) return is_null("path");
  return guarded(
      [&] { return hand_over(open_pipeline(runtime->runtime, path, options), pipeline); });
}
tessera_dynamic_pipeline_counters tessera_dynamic_pipeline_status(
    const tessera_dynamic_pipeline* pipeline) {
  if (pipeline == nullptr) return {};
  const tessera::DynamicPipelineStatus status = pipeline->pipeline.status();
  return {status.pipelines, status.pipelines_opened, status.submitted,        status.failed_shapes,
          status.waiting,   status.ran_in_parts,     status.networks.compiled};
}
void tessera_dynamic_pipeline_wait_until_done(tessera_dynamic_pipeline* pipeline) {
  if (pipeline != nullptr) pipeline->pipeline.wait_until_done();
}
void tessera_dynamic_pipeline_release(tessera_dynamic_pipeline* pipeline) { delete pipeline; }

tessera_error* tessera_dynamic_stream_open(tessera_dynamic_pipeline* pipeline,
                                           const tessera_stream_options* options,
                                           tessera_dynamic_stream** stream) {
  if (stream == nullptr) return is_null("stream");
  *stream = nullptr;
  if (pipeline == nullptr) return is_null("pipeline");
  return guarded([&]() -> tessera_error* {
    const auto wanted = stream_of(options);
    if (!wanted.ok()) return make_error(wanted.error());
    *stream = new tessera_dynamic_stream{pipeline->pipeline.open_stream(*wanted)};
    return nullptr;
  });
}
tessera_error* tessera_dynamic_submit(tessera_dynamic_stream* stream, const tessera_tensor* inputs,
                                      size_t input_count, const tessera_submit_options* options,
                                      tessera_job** job) {
  return submitting(stream, options, job, [&](auto submission) {
    return submit_task(stream->stream, {inputs, input_count}, std::move(submission), job);
  });
}
void tessera_dynamic_stream_wait_until_done(tessera_dynamic_stream* stream) {
  if (stream != nullptr) stream->stream.wait_until_done();
}
void tessera_dynamic_stream_release(tessera_dynamic_stream* stream) { delete stream; }

}  // extern "C"

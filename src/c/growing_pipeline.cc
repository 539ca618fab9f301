// Sequences whose states grow, in the C interface.
#include "tessera/growing_pipeline.h"

#include "c/options.h"
#include "tessera/tessera_growing_c.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

// NOLINTBEGIN(readability-identifier-naming): the names of tessera_growing_c.h
struct tessera_growing_pipeline {
  tessera::GrowingPipeline pipeline;
};
struct tessera_growing_stream {
  tessera::GrowingStream stream;
};
// NOLINTEND(readability-identifier-naming)

namespace tessera::c {

template <>
inline constexpr const char* kStructureName<tessera_growing_options> = "tessera_growing_options";

namespace {

Result<tessera_growing_pipeline> open_growing(Runtime& runtime, const char* path,
                                              const tessera_growing_options* options) {
  TESSERA_TRY(const tessera_growing_options given, sized(options));
  GrowingPipelineOptions how;
  // First of all, so that what the options hold is released in any case.
  TESSERA_TRY(how.pipeline, pipeline_of(given.pipeline));
  TESSERA_TRY(how.devices, texts_of(given.devices, given.device_count, "devices"));
  GrowingOptions growing;
  TESSERA_TRY(growing.load, load_options(given.load));
  if (given.states == nullptr && given.state_count != 0) {
    return Error{ErrorCode::kInvalidArgument, "states is NULL"};
  }
  for (std::size_t i = 0; i < given.state_count; ++i) {
    growing.states.push_back({text_of(given.states[i].input), text_of(given.states[i].output)});
  }
  if (given.rows_max != 0) growing.rows_max = given.rows_max;
  if (given.capacity_min != 0) growing.capacity_min = given.capacity_min;
  TESSERA_TRY(GrowingPipeline opened, runtime.open_pipeline(path, growing, how));
  return tessera_growing_pipeline{std::move(opened)};
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_growing_pipeline_open(tessera_runtime* runtime, const char* path,
                                             const tessera_growing_options* options,
                                             tessera_growing_pipeline** pipeline) {
  if (pipeline == nullptr) return is_null("pipeline");
  *pipeline = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  if (path == nullptr) return is_null("path");
  return guarded(
      [&] { return hand_over(open_growing(runtime->runtime, path, options), pipeline); });
}
size_t tessera_growing_input_count(const tessera_growing_pipeline* pipeline) {
  return pipeline == nullptr ? 0 : pipeline->pipeline.inputs().size();
}
tessera_tensor_description tessera_growing_input(const tessera_growing_pipeline* pipeline,
                                                 size_t index) {
  if (index >= tessera_growing_input_count(pipeline)) return {};
  const tessera::DeclaredShape& input = pipeline->pipeline.inputs()[index];
  return {input.name.c_str(), static_cast<tessera_format>(input.format), input.dims.size(),
          input.dims.data()};
}
tessera_growing_counters tessera_growing_pipeline_status(const tessera_growing_pipeline* pipeline) {
  if (pipeline == nullptr) return {};
  const tessera::GrowingPipelineStatus status = pipeline->pipeline.status();
  return {status.streams, status.submitted, status.networks_compiled};
}
void tessera_growing_pipeline_wait_until_done(tessera_growing_pipeline* pipeline) {
  if (pipeline != nullptr) pipeline->pipeline.wait_until_done();
}
void tessera_growing_pipeline_release(tessera_growing_pipeline* pipeline) { delete pipeline; }

tessera_error* tessera_growing_stream_open(tessera_growing_pipeline* pipeline, const char* device,
                                           const tessera_stream_options* options,
                                           tessera_growing_stream** stream) {
  if (stream == nullptr) return is_null("stream");
  *stream = nullptr;
  if (pipeline == nullptr) return is_null("pipeline");
  return guarded([&]() -> tessera_error* {
    const auto wanted = stream_of(options);
    if (!wanted.ok()) return make_error(wanted.error());
    auto opened = pipeline->pipeline.open_stream({.stream = *wanted, .device = text_of(device)});
    if (!opened.ok()) return make_error(opened.error());
    *stream = new tessera_growing_stream{std::move(*opened)};
    return nullptr;
  });
}
tessera_error* tessera_growing_submit(tessera_growing_stream* stream, const tessera_tensor* inputs,
                                      size_t input_count, const tessera_submit_options* options,
                                      tessera_job** job) {
  return submitting(stream, options, job, [&](auto submission) {
    return submit_task(stream->stream, {inputs, input_count}, std::move(submission), job);
  });
}
int64_t tessera_growing_rows(const tessera_growing_stream* stream) {
  return stream == nullptr ? 0 : stream->stream.rows();
}
int64_t tessera_growing_capacity(const tessera_growing_stream* stream) {
  return stream == nullptr ? 0 : stream->stream.capacity();
}
tessera_error* tessera_growing_keep_rows(tessera_growing_stream* stream, int64_t rows) {
  if (stream == nullptr) return is_null("stream");
  return guarded([&]() -> tessera_error* {
    const tessera::Status kept = stream->stream.keep_rows(rows);
    return kept.ok() ? nullptr : make_error(kept.error());
  });
}
void tessera_growing_stream_wait_until_done(tessera_growing_stream* stream) {
  if (stream != nullptr) stream->stream.wait_until_done();
}
void tessera_growing_stream_release(tessera_growing_stream* stream) { delete stream; }

}  // extern "C"

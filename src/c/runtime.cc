// Runtimes, models and pipelines of the C interface.
#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

// To the devices named; `load` is one of the two ways.
template <typename Load>
tessera_error* load_model(const char* const* devices, std::size_t count, tessera_model** model,
                          const Load& load) {
  return guarded([&]() -> tessera_error* {
    const auto names = texts_of(devices, count, "devices");
    if (!names.ok()) return make_error(names.error());
    return hand_over(load(*names), model);
  });
}

template <typename Open>
tessera_error* open_pipeline(const tessera_runtime* runtime,
                             const tessera_pipeline_options* options, tessera_pipeline** pipeline,
                             const Open& open) {
  return guarded([&]() -> tessera_error* {
    auto wanted = pipeline_of(options);
    if (pipeline == nullptr) return is_null("pipeline");
    *pipeline = nullptr;
    if (runtime == nullptr) return is_null("runtime");
    if (!wanted.ok()) return make_error(wanted.error());
    return open(std::move(*wanted));
  });
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
    return hand_over(tessera::Runtime::open(*wanted), runtime);
  });
}

tessera_error* tessera_runtime_write_trace(const tessera_runtime* runtime, const char* path) {
  if (runtime == nullptr) return is_null("runtime");
  if (path == nullptr) return is_null("path");
  return guarded([&] { return make_error(runtime->runtime.write_trace(path)); });
}

tessera_error* tessera_runtime_write_events(const tessera_runtime* runtime, const char* path) {
  if (runtime == nullptr) return is_null("runtime");
  if (path == nullptr) return is_null("path");
  return guarded([&] { return make_error(runtime->runtime.write_events(path)); });
}

tessera_error* tessera_runtime_prometheus(const tessera_runtime* runtime, tessera_text** text) {
  if (text == nullptr) return is_null("text");
  *text = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  return guarded([&]() -> tessera_error* {
    const tessera::Status usable = runtime->runtime.usable();
    if (!usable.ok()) return make_error(usable);
    *text = new tessera_text{runtime->runtime.prometheus()};
    return nullptr;
  });
}

void tessera_runtime_release(tessera_runtime* runtime) { delete runtime; }

const char* tessera_text_value(const tessera_text* text) {
  return text == nullptr ? "" : text->value.c_str();
}
void tessera_text_release(tessera_text* text) { delete text; }

tessera_error* tessera_model_load(tessera_runtime* runtime, const tessera_network* network,
                                  const char* const* devices, size_t device_count,
                                  tessera_model** model) {
  if (model == nullptr) return is_null("model");
  *model = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  if (network == nullptr) return is_null("network");
  return load_model(devices, device_count, model, [&](const std::vector<std::string>& names) {
    return runtime->runtime.load(network->network, names);
  });
}

tessera_error* tessera_model_load_in_device_form(tessera_runtime* runtime,
                                                 const tessera_network* network,
                                                 const char* const* devices, size_t device_count,
                                                 tessera_model** model) {
  if (model == nullptr) return is_null("model");
  *model = nullptr;
  if (runtime == nullptr) return is_null("runtime");
  if (network == nullptr) return is_null("network");
  return load_model(devices, device_count, model, [&](const std::vector<std::string>& names) {
    return runtime->runtime.load_in_device_form(network->network, names);
  });
}

void tessera_model_release(tessera_model* model) { delete model; }

tessera_error* tessera_pipeline_open(tessera_runtime* runtime, const tessera_model* model,
                                     const tessera_pipeline_options* options,
                                     tessera_pipeline** pipeline) {
  return open_pipeline(
      runtime, options, pipeline, [&](tessera::PipelineOptions wanted) -> tessera_error* {
        if (!wanted.stages.empty()) {
          return hand_over(runtime->runtime.open_pipeline(std::move(wanted)), pipeline);
        }
        if (model == nullptr) return is_null("model, without which a pipeline needs stages,");
        return hand_over(runtime->runtime.open_pipeline(model->model, std::move(wanted)), pipeline);
      });
}

tessera_error* tessera_operations_open(tessera_runtime* runtime,
                                       const tessera_pipeline_options* options,
                                       tessera_pipeline** pipeline) {
  return open_pipeline(runtime, options, pipeline, [&](tessera::PipelineOptions wanted) {
    return hand_over(runtime->runtime.open_operations(std::move(wanted)), pipeline);
  });
}

tessera_error* tessera_pipeline_set_threads(tessera_pipeline* pipeline, const char* stage,
                                            int threads) {
  if (pipeline == nullptr) return is_null("pipeline");
  if (stage == nullptr) return is_null("stage");
  return guarded([&] { return make_error(pipeline->pipeline.set_threads(stage, threads)); });
}

tessera_error* tessera_pipeline_set_kernels(tessera_pipeline* pipeline, const char* stage,
                                            int kernels) {
  if (pipeline == nullptr) return is_null("pipeline");
  if (stage == nullptr) return is_null("stage");
  return guarded([&] { return make_error(pipeline->pipeline.set_kernels(stage, kernels)); });
}

void tessera_pipeline_set_tuning(tessera_pipeline* pipeline, bool on) {
  if (pipeline != nullptr) pipeline->pipeline.set_tuning(on);
}

tessera_error* tessera_pipeline_set_debug(tessera_pipeline* pipeline,
                                          const tessera_debug_options* options) {
  if (pipeline == nullptr) return is_null("pipeline");
  return guarded([&]() -> tessera_error* {
    const auto wanted = debug_of(options);
    if (!wanted.ok()) return make_error(wanted.error());
    pipeline->pipeline.set_debug(*wanted);
    return nullptr;
  });
}

void tessera_pipeline_wait_until_done(tessera_pipeline* pipeline) {
  if (pipeline != nullptr) pipeline->pipeline.wait_until_done();
}
void tessera_pipeline_release(tessera_pipeline* pipeline) { delete pipeline; }

}  // extern "C"

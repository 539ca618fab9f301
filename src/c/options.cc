#include "c/options.h"

namespace tessera::c {
namespace {

// As many as the C++ interface takes.
constexpr std::size_t kDevicesMax = 64;
constexpr std::size_t kStagesMax = 16;

Error wrong_number(const std::string& what, std::uint32_t number, const std::string& allowed) {
  return {ErrorCode::kInvalidArgument,
          what + " " + std::to_string(number) + " is none of " + allowed};
}

}  // namespace

Result<DeviceKind> kind_of(std::uint32_t kind) {
  switch (kind) {
    case TESSERA_HOST:
      return DeviceKind::kHost;
    case TESSERA_SIM:
      return DeviceKind::kSim;
    case TESSERA_REF:
      return DeviceKind::kRef;
    default:
      return wrong_number("device kind", kind, "TESSERA_HOST, _SIM, _REF");
  }
}

namespace {

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
  if (options.virtual_functions != 0) device.virtual_functions = options.virtual_functions;
  if (options.traps != nullptr) {
    TESSERA_TRY(device.traps, traps_from_names(options.traps));
  }
  if (options.cores != 0) device.cores = options.cores;
  if (options.cards != 0) device.cards = options.cards;
  if (options.split != nullptr) {
    TESSERA_TRY(device.split, core_split_from_name(options.split));
  }
  if (options.processor != nullptr) device.processor = options.processor->processor;
  device.cluster = text_of(options.cluster);
  return device;
}

// The application's function on the application's context.
HostFunction function_of(tessera_stage_function function, std::shared_ptr<void> context) {
  return [function, context = std::move(context)](Task& task) -> Status {
    tessera_task view{task};
    tessera_error* const failed = function(context.get(), &view);
    if (failed == nullptr) return {};
    Error error = failed->error.error;
    tessera_error_release(failed);
    return error;
  };
}

// A picture's path is a shared pointer to std::string in C++, text in C.
HostFunction picture_function(HostFunction decode) {
  return [decode = std::move(decode)](Task& task) -> Status {
    if (task.payload == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   "a picture's task has its path as payload, text that ends with a zero"};
    }
    const auto path = std::make_shared<std::string>(static_cast<const char*>(task.payload.get()));
    const std::shared_ptr<void> payload = std::exchange(task.payload, path);
    Status status = decode(task);
    task.payload = payload;
    return status;
  };
}

Result<StageKind> stage_kind_of(std::uint32_t kind) {
  switch (kind) {
    case TESSERA_STAGE_HOST:
    case TESSERA_STAGE_PICTURE:
      return StageKind::kHost;
    case TESSERA_STAGE_PRE:
      return StageKind::kPre;
    case TESSERA_STAGE_EXECUTE:
      return StageKind::kExecute;
    case TESSERA_STAGE_POST:
      return StageKind::kPost;
    default:
      return wrong_number("stage kind", kind,
                          "TESSERA_STAGE_HOST, _PRE, _EXECUTE, _POST, _PICTURE");
  }
}

Result<StageOptions> stage_of(const tessera_stage_options& options, std::shared_ptr<void> context) {
  const std::uint32_t kind = number_in(options.kind);
  const auto wrong = [&options](const char* what) {
    return Error{ErrorCode::kInvalidArgument, "stage '" + text_of(options.name) + "': " + what};
  };
  StageOptions stage;
  TESSERA_TRY(stage.kind, stage_kind_of(kind));
  if (options.devices == nullptr && options.device_count > 0) return wrong("devices is NULL");
  if (kind == TESSERA_STAGE_PICTURE) {
    if (options.model == nullptr) return wrong("a picture stage belongs to a model; model is NULL");
    if (options.function != nullptr) return wrong("a picture stage has no function");
    TESSERA_TRY(const PictureInput how, picture_of(options.picture));
    stage = picture_stage(options.model->model, how);
    stage.function = picture_function(std::move(stage.function));
  } else {
    if (options.model != nullptr) stage.model = options.model->model;
    if (options.function != nullptr) {
      stage.function = function_of(options.function, std::move(context));
    }
  }
  if (options.name != nullptr) stage.name = options.name;
  TESSERA_TRY(stage.devices, texts_of(options.devices, options.device_count, "devices"));
  stage.threads = options.threads;
  stage.capacity = options.capacity;
  stage.batch = options.batch;
  return stage;
}

}  // namespace

std::shared_ptr<void> owned(void* what, tessera_release_function release) {
  return {what, [release](void* gone) {
            if (release == nullptr) return;
            try {
              release(gone);
            } catch (...) {
              return;
            }
          }};
}

tessera_device_kind kind_in_c(DeviceKind kind) {
  return kind == DeviceKind::kHost  ? TESSERA_HOST
         : kind == DeviceKind::kSim ? TESSERA_SIM
                                    : TESSERA_REF;
}

Result<RuntimeOptions> runtime_of(const tessera_runtime_options* options) {
  RuntimeOptions runtime;
  TESSERA_TRY(const tessera_runtime_options given, sized(options));
  runtime.metrics = !given.no_metrics;
  TESSERA_TRY(const auto devices,
              sized_list(given.devices, given.device_count, kDevicesMax, "devices"));
  if (given.devices == nullptr) return runtime;
  runtime.devices.clear();
  for (const tessera_device_options& wanted : devices) {
    TESSERA_TRY(DeviceOptions device, device_of(wanted));
    runtime.devices.push_back(std::move(device));
  }
  return runtime;
}

Result<StreamOptions> stream_of(const tessera_stream_options* options) {
  TESSERA_TRY(const tessera_stream_options given, sized(options));
  const std::uint32_t order = number_in(given.order);
  if (order > TESSERA_ORDER_COMPLETION) {
    return wrong_number("stream order", order,
                        "TESSERA_ORDER_SUBMISSION, TESSERA_ORDER_COMPLETION");
  }
  if (given.priority < kPriorityLowest || given.priority > kPriorityHighest) {
    return Error{ErrorCode::kInvalidArgument,
                 "a priority of " + std::to_string(given.priority) + "; allowed -7 to 7"};
  }
  return StreamOptions{.order = static_cast<StreamOrder>(order), .priority = given.priority};
}

Result<DebugOptions> debug_of(const tessera_debug_options* options) {
  TESSERA_TRY(const tessera_debug_options given, sized(options));
  const std::uint32_t mode = number_in(given.mode);
  if (mode > TESSERA_DEBUG_BOTH) {
    return wrong_number("debug mode", mode, "TESSERA_DEBUG_DEVICE, _HOST, _BOTH");
  }
  if (given.every < 0) {
    return Error{ErrorCode::kInvalidArgument, "debugging of one task in " +
                                                  std::to_string(given.every) +
                                                  "; allowed 1 and more, and 0 for each"};
  }
  return DebugOptions{.mode = static_cast<DebugMode>(mode),
                      .every = given.every == 0 ? 1 : given.every};
}

Result<PipelineOptions> pipeline_of(const tessera_pipeline_options* options) {
  PipelineOptions pipeline;
  TESSERA_TRY(const tessera_pipeline_options given, sized(options));
  // First of all, so that each is released in any case.
  std::shared_ptr<void> log_context = owned(given.tuning_context, given.release_tuning_context);
  TESSERA_TRY(const auto stages, sized_list(given.stages, given.stage_count, kStagesMax, "stages"));
  std::vector<std::shared_ptr<void>> contexts;
  for (const tessera_stage_options& stage : stages) {
    contexts.push_back(owned(stage.context, stage.release_context));
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    TESSERA_TRY(StageOptions stage, stage_of(stages[i], std::move(contexts[i])));
    pipeline.stages.push_back(std::move(stage));
  }
  if (given.jobs_max != 0) pipeline.jobs_max = given.jobs_max;
  if (given.lock_step) pipeline.handover = Handover::kLockStep;
  if (given.low_latency) pipeline.hint = Hint::kLatency;
  pipeline.tune = given.tune;
  TESSERA_TRY(pipeline.debug, debug_of(given.debug));
  if (given.tuning_log != nullptr) {
    pipeline.tuning_log = [log = given.tuning_log, context = std::move(log_context)](
                              const std::string& text) { log(context.get(), text.c_str()); };
  }
  return pipeline;
}

Result<PictureInput> picture_of(const tessera_picture_input* how) {
  PictureInput input;
  TESSERA_TRY(const tessera_picture_input given, sized(how));
  for (int c = 0; c < 3; ++c) {
    input.mean[c] = given.mean[c];
    if (given.deviation[c] != 0) input.deviation[c] = given.deviation[c];
  }
  input.bgr = given.bgr;
  return input;
}

Result<Submission> submission_of(const tessera_submit_options* options) {
  TESSERA_TRY(const tessera_submit_options given, sized(options));
  Submission submission;
  submission.fail_if_full = given.fail_if_full;
  SubmitOptions& submit = submission.options;
  if (given.payload != nullptr) submit.payload = owned(given.payload, given.release_payload);
  if (given.priority != nullptr) submit.priority = *given.priority;
  if (given.deadline_ns != 0) submit.deadline = std::chrono::nanoseconds(given.deadline_ns);
  TESSERA_TRY(submit.skipped_stages,
              texts_of(given.skipped_stages, given.skipped_stage_count, "skipped_stages"));
  if (given.callback != nullptr) {
    submit.callback = [callback = given.callback, context = given.context](TaskOutcome outcome) {
      if (outcome.ok()) {
        callback(context, new tessera_result{std::move(outcome.result())}, nullptr);
      } else {
        callback(context, nullptr, make_error(outcome.error()));
      }
    };
  }
  return submission;
}

}  // namespace tessera::c

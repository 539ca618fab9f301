#include "serve/served_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace tessera::serve {

using std::chrono::nanoseconds;

void TimeBuckets::add(nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  std::size_t bucket = 0;
  while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
  ++counts[bucket];
}

// A request on its way.
struct ServedModel::Open {
  std::shared_ptr<ServedModel> model;  // stays until it is answered
  InferRequest request;
  std::function<void(Answer)> done;
  Clock::time_point begin = Clock::now();
};

ServedModel::ServedModel(std::string name, const ModelFile& file, Network network, Runtime runtime,
                         Pipeline pipeline, const ModelConfig& config)
    : name_(std::move(name)),
      version_(std::to_string(file.version)),
      platform_(std::filesystem::path(file.path).extension() == ".onnx" ? "onnx_tessera"
                                                                        : "tessera"),
      timeout_(config.timeout),
      network_(std::move(network)),
      runtime_(std::move(runtime)),
      pipeline_(std::move(pipeline)),
      stream_(pipeline_.open_stream({.order = StreamOrder::kCompletion})) {}

Result<std::shared_ptr<ServedModel>> ServedModel::load(const std::string& name,
                                                       const ModelFile& file,
                                                       const ModelConfig& config) {
  LoadOptions load;
  load.arch = config.arch;
  load.shapes = config.shapes;
  TESSERA_TRY(Network network, Network::load(file.path, load));
  DeviceOptions device;
  device.kind = config.device;
  device.arch = config.arch;
  device.kernels = config.instances;
  device.threads = config.threads;
  device.cores = config.cores;
  device.cards = config.cards;
  TESSERA_TRY(Runtime runtime, Runtime::open({.devices = {device}}));
  TESSERA_TRY(const Model model, runtime.load(network));
  PipelineOptions options;
  options.jobs_max = config.queue;
  TESSERA_TRY(Pipeline pipeline, runtime.open_pipeline(model, std::move(options)));
  return std::shared_ptr<ServedModel>(new ServedModel(
      name, file, std::move(network), std::move(runtime), std::move(pipeline), config));
}

ModelStatistics ServedModel::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void ServedModel::infer(std::string_view body, std::optional<std::size_t> header_bytes,
                        std::function<void(Answer)> done) {
  auto open = std::make_shared<Open>();
  open->model = shared_from_this();
  open->done = std::move(done);
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.pending;
  }
  auto request = parse_infer(body, header_bytes, network_.inputs(), network_.outputs());
  if (!request.ok()) return fail(*open, {Refusal::kInput, request.error().message});
  open->request = std::move(*request);
  SubmitOptions options;
  options.priority = open->request.priority;
  const auto timeout = open->request.timeout.value_or(timeout_);
  if (timeout.count() > 0) options.deadline = timeout;
  options.callback = [open](TaskOutcome outcome) {
    // The model goes behind this call, where nothing else has it any more.
    const std::shared_ptr<ServedModel> model = open->model;
    model->finish(*open, std::move(outcome));
  };
  const auto job = stream_.submit(std::move(open->request.inputs), std::move(options));
  if (job.ok()) return;
  const bool is_full = job.error().code == ErrorCode::kUnavailable;
  fail(*open, {is_full ? Refusal::kFull : Refusal::kInput, job.error().message});
}

void ServedModel::finish(Open& open, TaskOutcome outcome) {
  if (!outcome.ok()) {
    const TaskError& error = outcome.error();
    const bool is_late = error.failure == TaskFailure::kDeadline;
    return fail(open,
                {is_late ? Refusal::kLate : Refusal::kRun,
                 is_late ? "the request's time was over before it was done" : error.error.message});
  }
  const TaskResult& result = outcome.result();
  Answer answer;
  answer.answer = write_infer(name_, version_, open.request, network_.outputs(), result.outputs());
  note(result, Clock::now() - open.begin);
  std::exchange(open.done, {})(std::move(answer));
}

void ServedModel::note(const TaskResult& result, Clock::duration total) {
  const std::lock_guard lock(mutex_);
  nanoseconds queued{0};
  for (const TaskTimes::Stage& stage : result.times.stages) queued += stage.queued;
  statistics_.success.add(total);
  statistics_.times.add(total);
  statistics_.queue.add(queued);
  // pre, execute, post: the stages that a pipeline of one model has.
  statistics_.input.add(result.times.stages[0].busy);
  statistics_.infer.add(result.times.stages[1].busy);
  statistics_.output.add(result.times.stages[2].busy);
  statistics_.cycles += result.cycles;
  statistics_.last_inference_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                      std::chrono::system_clock::now().time_since_epoch())
                                      .count();
  --statistics_.pending;
}

void ServedModel::fail(Open& open, Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    statistics_.failure.add(Clock::now() - open.begin);
    switch (failure.refusal) {
      case Refusal::kInput:
        ++statistics_.failed_input;
        break;
      case Refusal::kFull:
        ++statistics_.failed_full;
        break;
      case Refusal::kLate:
        ++statistics_.failed_late;
        break;
      case Refusal::kRun:
        ++statistics_.failed_run;
        break;
    }
    --statistics_.pending;
  }
  std::exchange(open.done, {})(Answer{{}, std::move(failure)});
}

}  // namespace tessera::serve

#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "serve/open_request.h"
#include "serve/request_queue.h"
#include "serve/trace_file.h"

namespace tessera::serve {
namespace {

using std::chrono::nanoseconds;

// Requests that follow the last answer sooner have waited for the thread that brings them: it is to go on
// with the next while others do the work.
constexpr nanoseconds kBetweenRequests{20'000};

std::size_t level_of(int priority) { return static_cast<std::size_t>(priority - kPriorityLowest); }

double milliseconds_of(nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::int64_t milliseconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Rows `begin` to `begin + rows` of a tensor of `all` rows.
Tensor part_of(const Tensor& tensor, std::int64_t begin, std::int64_t rows, std::int64_t all) {
  const std::size_t row_bytes = tensor.bytes.size() / static_cast<std::size_t>(all);
  Tensor part{tensor.format, tensor.dims, {}};
  part.dims[0] = tensor.dims[0] / all * rows;
  const auto from = tensor.bytes.begin() +
                    static_cast<std::ptrdiff_t>(row_bytes * static_cast<std::size_t>(begin));
  part.bytes.assign(from,
                    from + static_cast<std::ptrdiff_t>(row_bytes * static_cast<std::size_t>(rows)));
  return part;
}

// The inputs of all requests behind each other, with zeros up to the rows that were compiled.
std::vector<Tensor> batch_inputs(const CompiledModel& compiled,
                                 const std::vector<std::shared_ptr<OpenRequest>>& requests) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < compiled.network.inputs().size(); ++i) {
    const TensorDescription& input = compiled.network.inputs()[i];
    Tensor tensor{input.format, input.dims, {}};
    const std::size_t bytes = static_cast<std::size_t>(element_count(input.dims)) *
                              static_cast<std::size_t>(format_bytes(input.format));
    tensor.bytes.reserve(bytes);
    for (const auto& request : requests) {
      const Tensor& own = request->request.inputs[i];
      tensor.bytes.insert(tensor.bytes.end(), own.bytes.begin(), own.bytes.end());
    }
    tensor.bytes.resize(bytes);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace

ServedModel::ServedModel(std::string name, const ModelFile& file, const ModelConfig& config,
                         std::unique_ptr<CompiledShapes> shapes, std::shared_ptr<TraceFile> trace)
    : answering_(std::make_shared<AnsweringModel>(
          AnsweringModel{std::move(name), std::to_string(file.version), shapes->form()})),
      platform_(std::filesystem::path(file.path).extension() == ".onnx" ? "onnx_tessera"
                                                                        : "tessera"),
      config_(config),
      shapes_(std::move(shapes)),
      trace_(std::move(trace)) {
  statistics_.instances = config.instances;
}

ServedModel::~ServedModel() = default;

Result<std::shared_ptr<ServedModel>> ServedModel::load(const std::string& name,
                                                       const ModelFile& file,
                                                       const ModelConfig& config,
                                                       std::shared_ptr<TraceFile> trace) {
  TESSERA_TRY(std::unique_ptr<CompiledShapes> shapes, CompiledShapes::open(file.path, config));
  CompiledShapes& compiled = *shapes;
  std::shared_ptr<ServedModel> model(
      new ServedModel(name, file, config, std::move(shapes), std::move(trace)));
  if (compiled.is_open()) {
    RequestQueueOptions options;
    options.batch_max = config.batch_max;
    options.delay = config.batch_delay;
    options.requests_max = config.queue;
    options.runs_max = 2 * config.instances;
    // Each request that waits keeps the model.
    options.submit = [raw = model.get()](const auto& of, auto requests, std::int64_t rows) {
      raw->submit(of, std::move(requests), rows);
    };
    options.fail = [raw = model.get()](OpenRequest& request, Failure failure) {
      raw->fail(request, std::move(failure));
    };
    TESSERA_TRY(model->queue_, RequestQueue::start(compiled, options));
  }
  return model;
}

ModelStatistics ServedModel::statistics() const {
  const std::lock_guard lock(mutex_);
  ModelStatistics now = statistics_;
  now.shapes = shapes_->size();
  return now;
}

void ServedModel::infer(Result<InferRequest> request, Clock::time_point begin, Encode encode) {
  auto open = std::make_shared<OpenRequest>();
  open->model = shared_from_this();
  open->encode = std::move(encode);
  open->begin = begin;
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.pending;
  }
  if (!request.ok()) return fail(*open, {Problem::kInput, request.error().message});
  open->request = std::move(*request);
  const auto timeout = open->request.timeout.value_or(config_.timeout);
  if (timeout.count() > 0) open->deadline = begin + timeout;
  for (const Tensor& input : open->request.inputs) open->shapes.push_back(input.dims);
  if (config_.batch_max > 1) open->rows = open->shapes[0][0];
  if (auto refused = admit(*open)) return fail(*open, std::move(*refused));
  if (config_.batch_max <= 1) {
    const std::shared_ptr<CompiledModel> compiled =
        shapes_->is_open() ? shapes_->find(open->shapes) : shapes_->first();
    if (compiled != nullptr) return submit(compiled, {open}, 0);
  }
  open->is_queued = true;
  if (!queue_->push(open)) {
    fail(*open,
         {Problem::kFull, fmt::format("the model has {} requests waiting, and takes no more; "
                                      "ask again",
                                      config_.queue)});
  }
}

// Refuses what cannot be done in time, by what is known of its run and of those before it.
std::optional<Failure> ServedModel::admit(OpenRequest& open) {
  std::vector<Shape> shapes = open.shapes;
  nanoseconds own{0}, delay{0};
  if (config_.batch_max > 1) {
    delay = config_.batch_delay;
    for (Shape& shape : shapes) shape[0] = batch_size(open.rows, config_.batch_max);
  }
  const std::shared_ptr<CompiledModel> compiled =
      shapes_->is_open() ? shapes_->find(shapes) : shapes_->first();
  if (compiled != nullptr) own = compiled->predicted();
  const std::size_t level = level_of(open.request.priority);
  const std::lock_guard lock(mutex_);
  const nanoseconds before = std::accumulate(backlog_.begin() + static_cast<std::ptrdiff_t>(level),
                                             backlog_.end(), nanoseconds{0});
  const nanoseconds waits = before / config_.instances + delay;
  const Clock::time_point now = Clock::now();
  if (own.count() > 0 && open.deadline != Clock::time_point::max() &&
      now + waits + own > open.deadline) {
    return Failure{
        Problem::kTooSlow,
        fmt::format("it would take {:.3f} ms: {:.3f} ms until its turn, {:.3f} ms for its run{}; "
                    "its time is {:.3f} ms",
                    milliseconds_of(waits + own), milliseconds_of(waits), milliseconds_of(own),
                    compiled->cycles > 0 ? fmt::format(" of {} cycles", compiled->cycles) : "",
                    milliseconds_of(open.deadline - open.begin))};
  }
  open.in_place = open.begin - last_answer_.load(std::memory_order_relaxed) > kBetweenRequests;
  // Of a batch each has its share.
  open.predicted =
      own / (config_.batch_max > 1 ? batch_size(open.rows, config_.batch_max) : 1) * open.rows;
  backlog_[level] += open.predicted;
  return {};
}

void ServedModel::submit(const std::shared_ptr<CompiledModel>& compiled,
                         std::vector<std::shared_ptr<OpenRequest>> requests, std::int64_t rows) {
  SubmitOptions options;
  options.priority = requests.front()->request.priority;
  options.in_place = requests.front()->in_place && !requests.front()->is_queued;
  const Clock::time_point now = Clock::now();
  for (const auto& each : requests) each->submitted = now;
  const Clock::time_point deadline = requests.front()->deadline;
  if (requests.size() == 1 && deadline != Clock::time_point::max()) {
    options.deadline = std::max(deadline - now, Clock::duration(1));
  }
  std::vector<Tensor> inputs =
      rows > 0 ? batch_inputs(*compiled, requests) : std::move(requests.front()->request.inputs);
  options.callback = [this, compiled, requests](TaskOutcome outcome) {
    // The model goes behind this call, where nothing else has it any more.
    const std::shared_ptr<const void> model = requests.front()->model;
    finish_all(requests, *compiled, std::move(outcome));
  };
  const auto job = compiled->stream.submit(std::move(inputs), std::move(options));
  if (job.ok()) return;
  const bool is_full = job.error().code == ErrorCode::kUnavailable;
  for (const auto& each : requests) {
    fail(*each, {is_full ? Problem::kFull : Problem::kInput, job.error().message});
  }
  if (requests.front()->is_queued) queue_->run_ended();
}

void ServedModel::finish_all(const std::vector<std::shared_ptr<OpenRequest>>& requests,
                             CompiledModel& compiled, TaskOutcome outcome) {
  if (requests.front()->is_queued) queue_->run_ended();
  if (!outcome.ok()) {
    const TaskError& error = outcome.error();
    const bool is_late = error.failure == TaskFailure::kDeadline;
    for (const auto& each : requests) {
      fail(*each,
           {is_late ? Problem::kLate : Problem::kRun,
            is_late ? "the request's time was over before it was done" : error.error.message});
    }
    return;
  }
  TaskResult& result = outcome.result();
  const TaskTimes& of = result.times;
  RunTimes times;
  times.input = of.transfer_in;
  times.output = of.transfer_out;
  times.infer = std::max(of.kernel, nanoseconds(1));
  // For a thread, and for a kernel.
  const nanoseconds waited = of.stages[0].busy - times.input - times.infer - times.output;
  times.queued = of.stages[0].queued + std::max(waited, nanoseconds(0));
  times.cycles = result.cycles;
  note_run(compiled, times);
  if (requests.size() == 1 && requests.front()->shapes == compiled.input_shapes) {
    return finish(*requests.front(), compiled, std::move(result.runs.front()), times);
  }
  const std::int64_t all = compiled.input_shapes[0][0];
  std::int64_t row = 0;
  for (const auto& each : requests) {
    std::vector<Tensor> outputs;
    for (const Tensor& output : result.outputs()) {
      outputs.push_back(part_of(output, row, each->rows, all));
    }
    row += each->rows;
    finish(*each, compiled, std::move(outputs), times);
  }
}

bool ServedModel::take(OpenRequest& open) { return !open.is_answered.exchange(true); }

void ServedModel::note_run(CompiledModel& compiled, const RunTimes& times) {
  compiled.note(times.infer);
  const std::lock_guard lock(mutex_);
  ++statistics_.runs;
  statistics_.cycles += times.cycles;
  const std::vector<std::int64_t>& busy = compiled.core_busy;
  if (busy.size() > statistics_.core_busy.size()) statistics_.core_busy.resize(busy.size());
  for (std::size_t core = 0; core < busy.size(); ++core) statistics_.core_busy[core] += busy[core];
  statistics_.busy += times.infer;
  const std::int64_t rows = config_.batch_max > 1 ? compiled.input_shapes[0][0] : 1;
  ModelStatistics::Batch& batch = statistics_.batches[rows];
  batch.input.add(times.input);
  batch.infer.add(times.infer);
  batch.output.add(times.output);
}

void ServedModel::finish(OpenRequest& open, const CompiledModel& compiled,
                         std::vector<Tensor> outputs, const RunTimes& times) {
  if (!take(open)) return;
  for (const WantedOutput& wanted : open.request.outputs) {
    if (!wanted.region) continue;
    const Status written =
        write_region(wanted, form().outputs[wanted.index], outputs[wanted.index]);
    if (!written.ok()) return answer_failure(open, {Problem::kInput, written.error().message});
  }
  const Clock::time_point done = Clock::now();
  const nanoseconds queued = open.submitted - open.arrival + times.queued;
  const nanoseconds input = open.arrival - open.begin + times.input;
  const nanoseconds infer = times.infer;
  const std::size_t level = level_of(open.request.priority);
  const std::string id = trace_ == nullptr ? "" : open.request.id;
  const std::int64_t rows_of_run = config_.batch_max > 1 ? compiled.input_shapes[0][0] : 1;
  const Send send = open.encode({std::move(open.request), std::move(outputs), answering_,
                                 std::nullopt, infer * open.rows / rows_of_run});
  const nanoseconds output = times.output + (Clock::now() - done);
  {
    const std::lock_guard lock(mutex_);
    const nanoseconds total = Clock::now() - open.begin;
    backlog_[level] -= open.predicted;
    statistics_.success.add(total);
    statistics_.queue.add(queued);
    statistics_.input.add(input);
    statistics_.infer.add(infer);
    statistics_.output.add(output);
    statistics_.times.total.add(total);
    statistics_.times.queue.add(queued);
    statistics_.times.input.add(input);
    statistics_.times.infer.add(infer);
    statistics_.times.output.add(output);
    statistics_.last_inference_ms = milliseconds_since_1970();
    --statistics_.pending;
  }
  if (trace_ != nullptr) {
    trace_->add({name(), version(), id, open.begin, open.arrival - open.begin, queued, times.input,
                 infer, output, rows_of_run, times.cycles});
  }
  send();
  last_answer_.store(Clock::now(), std::memory_order_relaxed);
}

void ServedModel::fail(OpenRequest& open, Failure failure) {
  if (take(open)) answer_failure(open, std::move(failure));
}

void ServedModel::answer_failure(OpenRequest& open, Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    backlog_[level_of(open.request.priority)] -= open.predicted;
    statistics_.failure.add(Clock::now() - open.begin);
    ++statistics_.failures[failure.problem];
    --statistics_.pending;
  }
  open.encode({std::move(open.request), {}, answering_, std::move(failure), {}})();
}

}  // namespace tessera::serve

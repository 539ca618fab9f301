// Tasks: submitting them, what stages in Python do with them, waiting for them, their results.
#include "tasks.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tessera/dynamic_pipeline.h"

namespace tessera::python {
namespace {

// ------------------------------------------------------------------------------------ stages

// What a stage in Python sees of a task. Arrays are made when they are first asked for.
class TaskView {
 public:
  using BoundInPython = void;
  TaskView(Task& task, const std::optional<Network>& next)
      : stream(task.stream),
        sequence(task.sequence),
        task_(&task),
        payload_(std::static_pointer_cast<Payload>(task.payload)),
        next_(next) {}

  py::list runs() {
    if (runs_.is_none()) {
      if (task_ == nullptr) fail("the stage has returned, and the task went on");
      py::list arrays;
      for (std::vector<Tensor>& run : task_->runs) arrays.append(to_arrays(std::move(run)));
      task_->runs.clear();
      runs_ = arrays;
    }
    return runs_;
  }
  void set_runs(const py::object& runs) {
    if (task_ == nullptr) fail("the stage has returned, and the task went on");
    runs_ = py::list(runs);
  }
  py::object payload() const { return open_payload().object; }
  void set_payload(const py::object& object) { open_payload().object = object; }
  // The task goes on with what the stage left.
  void give_back() {
    if (runs_.is_none()) return;
    std::vector<std::vector<Tensor>> made;
    for (const py::handle& run : py::list(runs_)) {
      made.push_back(to_tensors(run, next_.has_value() ? &*next_ : nullptr,
                                "run " + std::to_string(made.size()) + " of the task"));
    }
    task_->runs = std::move(made);
  }
  // Keeping the view does not keep the task.
  void close() {
    task_ = nullptr;
    payload_.reset();
  }

  const std::uint32_t stream;
  const std::uint64_t sequence;

 private:
  Payload& open_payload() const {
    if (payload_ == nullptr) fail("the stage has returned, and the task went on");
    return *payload_;
  }

  Task* task_;                        // while the call lasts
  std::shared_ptr<Payload> payload_;  // shared with the task, while the call lasts
  const std::optional<Network> next_;
  py::object runs_ = py::none();
};

// In Python.
Status call_stage(const py::object& function, Task& task, const std::optional<Network>& next) {
  const auto view = std::make_shared<TaskView>(task, next);
  Status status;
  try {
    function(view);
    view->give_back();
  } catch (const py::error_already_set& thrown) {
    status = error_of(thrown);
    const py::object& exception = thrown.value();
    if (thrown.trace()) PyException_SetTraceback(exception.ptr(), thrown.trace().ptr());
    if (task.payload != nullptr) {
      std::static_pointer_cast<Payload>(task.payload)->cause->exception = exception;
    }
  } catch (const Failure& failure) {
    status = failure.error.error;
  } catch (const std::exception& thrown) {
    status = Error{ErrorCode::kInternal, thrown.what()};
  }
  view->close();
  return status;
}

// ------------------------------------------------------------------------------------ results

struct JobOfPipeline {
  Job job;
  std::shared_ptr<const PipelineInfo> info;
  std::shared_ptr<Cause> cause;  // shared with the task
};
using JobHandle = Handle<JobOfPipeline>;

Outputs outputs_of(TaskOutcome outcome, const PipelineInfo& info, Cause& cause) {
  if (!outcome.ok()) throw Failure{outcome.error(), cause.take()};
  TaskResult& result = outcome.result();
  Outputs outputs;
  for (std::vector<Tensor>& run : result.runs) outputs.runs.append(to_arrays(std::move(run)));
  for (std::size_t i = 0; i < result.blocks.size(); ++i) {
    if (result.blocks[i]) py::list(outputs.runs[0])[i] = py::cast(*result.blocks[i]);
  }
  outputs.names = info.last ? output_names(info.last) : info.outputs;
  outputs.cycles = result.cycles;
  outputs.host_cycles = result.host_cycles;
  outputs.transfer_cycles = result.transfer_cycles;
  outputs.sequence = result.sequence;
  outputs.device = result.device;
  outputs.times = result.times;
  outputs.value_notes = std::move(result.value_notes);
  if (result.payload != nullptr) {
    outputs.payload = std::static_pointer_cast<Payload>(result.payload)->object;
  }
  outputs.stages = info.stages;
  return outputs;
}

py::object output_named(const Outputs& outputs, const std::string& name) {
  const py::list arrays = outputs.arrays();
  for (std::size_t i = 0; i < outputs.names.size(); ++i) {
    if (outputs.names[i] == name && i < arrays.size()) return arrays[i];
  }
  throw py::key_error(name);
}

py::object output_at(const Outputs& outputs, std::ptrdiff_t index) {
  const py::list arrays = outputs.arrays();
  const auto count = static_cast<std::ptrdiff_t>(arrays.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) throw py::index_error("no such output");
  return arrays[static_cast<std::size_t>(index)];
}

py::dict times_of(const Outputs& outputs) {
  py::dict all;
  all["total"] = seconds_of(outputs.times.total);
  all["transfer_in"] = seconds_of(outputs.times.transfer_in);
  all["kernel"] = seconds_of(outputs.times.kernel);
  all["transfer_out"] = seconds_of(outputs.times.transfer_out);
  py::list stages;
  for (std::size_t s = 0; s < outputs.stages.size(); ++s) {
    const TaskTimes::Stage& stage = outputs.times.stages[s];
    stages.append(
        py::make_tuple(outputs.stages[s], seconds_of(stage.queued), seconds_of(stage.busy)));
  }
  all["stages"] = stages;
  return all;
}

// ------------------------------------------------------------------------------------ jobs

Outputs wait_for_job(JobHandle& job, std::optional<double> timeout) {
  std::optional<TaskOutcome> outcome;
  const bool came = wait_without_lock(timeout, [&](std::chrono::nanoseconds patience) {
    outcome = job->job.wait_for(patience);
    return outcome.has_value();
  });
  if (!came) {
    PyErr_SetString(PyExc_TimeoutError, "the task is not done");
    throw py::error_already_set();
  }
  return outputs_of(std::move(*outcome), *job->info, *job->cause);
}

std::optional<std::size_t> wait_for_any(const std::vector<std::shared_ptr<JobHandle>>& handles,
                                        std::optional<double> timeout) {
  std::vector<Job> jobs;
  for (const auto& handle : handles) jobs.push_back((*handle)->job);
  if (jobs.empty()) return std::nullopt;
  std::optional<std::size_t> found;
  wait_without_lock(timeout, [&](std::chrono::nanoseconds patience) {
    found = wait_any(jobs, patience);
    return found.has_value();
  });
  return found;
}

// Called by threads of the runtime: with the result or with the error, the other is None.
std::function<void(TaskOutcome)> to_callback(const py::object& function,
                                             std::shared_ptr<const PipelineInfo> info,
                                             std::shared_ptr<Cause> cause) {
  if (function.is_none()) return {};
  return [kept = keep(function), info = std::move(info),
          cause = std::move(cause)](TaskOutcome outcome) {
    const Entry python;
    if (!python) return;
    try {
      if (outcome.ok()) {
        (*kept)(outputs_of(std::move(outcome), *info, *cause), py::none());
      } else {
        (*kept)(py::none(), error_object(outcome.error(), cause->take()));
      }
    } catch (py::error_already_set& thrown) {
      // What it raised is left for Job.wait(), and shown, since there may be no wait().
      const Error error = error_of(thrown);
      cause->exception = thrown.value();
      thrown.discard_as_unraisable("a callback of tessera");
      throw std::runtime_error(error.message);
    }
  };
}

// ------------------------------------------------------------------------------------ submitting

struct SubmitArguments {
  py::object callback = py::none(), payload = py::none();
  std::optional<double> deadline;
  std::optional<int> priority;
  bool wait = true;
  std::vector<std::string> skip;
};

// An argument of submit(), of which `needed` says what it has to be.
template <typename T>
T submit_argument(const std::string& name, const py::handle& value, const char* needed) {
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    throw py::type_error("submit: " + name + " is " + std::string(py::repr(value)) +
                         "; needed: " + needed);
  }
}

SubmitArguments submit_arguments(const py::kwargs& given) {
  SubmitArguments arguments;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    if (name == "callback") {
      arguments.callback = py::reinterpret_borrow<py::object>(value);
    } else if (name == "payload") {
      arguments.payload = py::reinterpret_borrow<py::object>(value);
    } else if (name == "deadline") {
      arguments.deadline =
          submit_argument<std::optional<double>>(name, value, "seconds from now, or None");
      if (arguments.deadline.has_value() && std::isnan(*arguments.deadline)) {
        throw py::value_error("submit: deadline is nan; needed: seconds from now");
      }
    } else if (name == "priority") {
      arguments.priority =
          submit_argument<std::optional<int>>(name, value, "a whole number from -7 to 7, or None");
    } else if (name == "wait") {
      arguments.wait = submit_argument<bool>(name, value, "True or False");
    } else if (name == "skip") {
      arguments.skip = submit_argument<std::vector<std::string>>(name, value, "a list of stages");
    } else {
      throw py::type_error(
          "submit knows callback, deadline, payload, priority, skip and wait, not '" + name + "'");
    }
  }
  return arguments;
}

SubmitOptions submit_options(const SubmitArguments& arguments,
                             const std::shared_ptr<Payload>& payload,
                             const std::shared_ptr<const PipelineInfo>& info) {
  SubmitOptions options;
  options.payload = payload;
  options.skipped_stages = arguments.skip;
  options.priority = arguments.priority;
  options.callback = to_callback(arguments.callback, info, payload->cause);
  if (arguments.deadline.has_value()) {
    options.deadline = std::chrono::nanoseconds(
        static_cast<std::int64_t>(std::clamp(*arguments.deadline, 0.0, 1e9) * 1e9));
  }
  return options;
}

// Submits with `call(options, wait)`, when there is room if it may wait for it.
template <typename Call>
std::shared_ptr<JobHandle> submit_with(StreamObject& stream, const py::kwargs& keywords,
                                       const Call& call) {
  check(stream->usable());  // else there would never be room
  const SubmitArguments arguments = submit_arguments(keywords);
  const std::shared_ptr<Payload> payload = make_payload(arguments.payload);
  const SubmitOptions options = submit_options(arguments, payload, stream.info);
  // So that a signal is heard meanwhile. Threads of the pipeline cannot wait, and get an error
  // below.
  if (arguments.wait && !stream->would_wait_for_itself()) {
    wait_without_lock(std::nullopt, [&](std::chrono::nanoseconds patience) {
      return stream->wait_for_room(patience);
    });
  }
  auto job = unlocked([&] { return call(options, arguments.wait); });
  return std::make_shared<JobHandle>(
      JobOfPipeline{take(std::move(job)), stream.info, payload->cause});
}

const Network* first_network(const StreamObject& stream) {
  return stream.info->first.has_value() ? &*stream.info->first : nullptr;
}

std::shared_ptr<JobHandle> submit_tensors(StreamObject& stream,
                                          std::vector<std::vector<Tensor>> runs,
                                          const py::kwargs& keywords) {
  return submit_with(stream, keywords, [&](const SubmitOptions& options, bool wait) {
    return wait ? stream->submit_runs_when_room(std::move(runs), options)
                : stream->submit_runs(std::move(runs), options);
  });
}

// With blocks among its inputs or places for its outputs, or without copies.
std::shared_ptr<JobHandle> submit_on_blocks(StreamObject& stream, NetworkTask task,
                                            const py::kwargs& keywords) {
  return submit_with(stream, keywords, [&](const SubmitOptions& options, bool wait) {
    return wait ? stream->submit_network_when_room(std::move(task), options)
                : stream->submit_network(std::move(task), options);
  });
}

bool names_blocks(const py::args& inputs) {
  const auto is_block = [](const py::handle& value) { return py::isinstance<Block>(value); };
  if (inputs.size() == 1 && py::isinstance<py::dict>(inputs[0])) {
    for (const auto& [name, value] : py::dict(inputs[0])) {
      if (is_block(value)) return true;
    }
    return false;
  }
  return std::any_of(inputs.begin(), inputs.end(), is_block);
}

std::shared_ptr<JobHandle> submit(StreamObject& stream, const py::args& inputs,
                                  const py::kwargs& keywords) {
  const auto option = [&](const char* name, py::object fallback) {
    return keywords.contains(name) ? py::object(keywords.attr("pop")(name)) : std::move(fallback);
  };
  const py::object outputs = option("outputs", py::none());
  const bool fetch = option("fetch", py::bool_(false)).cast<bool>();
  const bool copy = option("copy", py::bool_(true)).cast<bool>();
  if (!outputs.is_none() || !copy || stream.with_states || names_blocks(inputs)) {
    NetworkTask task = to_network_task(first_network(stream), inputs, copy);
    task.outputs = to_outputs(outputs, fetch);
    return submit_on_blocks(stream, std::move(task), keywords);
  }
  std::vector<std::vector<Tensor>> runs;
  if (!stream.info->first.has_value() && inputs.empty()) {
    // A task that its first function makes something of: a picture's path, say.
    return submit_tensors(stream, std::move(runs), keywords);
  }
  runs.push_back(to_inputs(first_network(stream), inputs));
  return submit_tensors(stream, std::move(runs), keywords);
}

std::vector<std::vector<Tensor>> to_runs(const StreamObject& stream, const py::iterable& given) {
  std::vector<std::vector<Tensor>> runs;
  for (const py::handle& run : given) {
    runs.push_back(to_tensors(run, first_network(stream), "run " + std::to_string(runs.size())));
  }
  return runs;
}

std::shared_ptr<JobHandle> submit_runs(StreamObject& stream, const py::iterable& runs,
                                       const py::kwargs& keywords) {
  return submit_tensors(stream, to_runs(stream, runs), keywords);
}

std::vector<std::shared_ptr<JobHandle>> submit_batch(StreamObject& stream,
                                                     const py::iterable& tasks,
                                                     const py::kwargs& keywords) {
  // First of all, so that a wrong one is reported before any is submitted.
  std::vector<std::vector<Tensor>> list = to_runs(stream, tasks);
  std::vector<std::shared_ptr<JobHandle>> jobs;
  for (std::vector<Tensor>& inputs : list) {
    std::vector<std::vector<Tensor>> runs;
    runs.push_back(std::move(inputs));
    jobs.push_back(submit_tensors(stream, std::move(runs), keywords));
  }
  return jobs;
}

std::shared_ptr<JobHandle> submit_layer(StreamObject& stream, const Layers& layers,
                                        std::size_t layer, std::vector<Block> inputs,
                                        std::vector<Block> outputs, bool fetch,
                                        const py::kwargs& keywords) {
  const LayerTask task{layer, std::move(inputs), std::move(outputs), fetch};
  return submit_with(stream, keywords, [&](const SubmitOptions& options, bool wait) {
    return wait ? stream->submit_layer_when_room(layers, task, options)
                : stream->submit_layer(layers, task, options);
  });
}

std::shared_ptr<JobHandle> submit_operation(StreamObject& stream, const OperationBox& operation,
                                            const Block& input, const Block& output,
                                            const py::kwargs& keywords) {
  OperationTask task{operation.operation, input, output};
  py::dict others(keywords);
  const auto option = [&](const char* name, const auto& fallback) {
    return others.contains(name) ? others.attr("pop")(name).cast<std::decay_t<decltype(fallback)>>()
                                 : fallback;
  };
  task.weights = option("weights", std::optional<Block>());
  task.weight_offset = option("weight_offset", std::int64_t{0});
  task.fetch = option("fetch", false);
  return submit_with(stream, py::kwargs(others), [&](const SubmitOptions& options, bool wait) {
    return wait ? stream->submit_operation_when_room(task, options)
                : stream->submit_operation(task, options);
  });
}

void bind_states(StreamObject& stream, MemoryHandle& memory, const py::iterable& bindings) {
  const std::vector<StateBinding> list = to_bindings(bindings);
  check(unlocked([&] { return stream->bind_states(memory->memory, list); }));
  stream.with_states = !list.empty();
}

void define_jobs(py::module_& module) {
  py::class_<JobHandle, std::shared_ptr<JobHandle>>(module, "Job", "A task that was submitted.")
      .def("wait", &wait_for_job, py::arg("timeout") = std::nullopt)
      .def("done", [](JobHandle& job) { return job->job.done(); })
      .def("cancel", [](JobHandle& job) { unlocked([&] { job->job.cancel(); }); })
      .def_property_readonly("id", [](JobHandle& job) { return job->job.id(); });
  module.def("wait_any", &wait_for_any, py::arg("jobs"), py::arg("timeout") = std::nullopt);
}

// Layers whose values left their range: {"layer", "trouble", "format", "text"}.
py::list value_notes_of(const Outputs& outputs) {
  py::list list;
  for (const ValueNote& note : outputs.value_notes) {
    py::dict entry;
    entry["layer"] = note.layer;
    entry["trouble"] = std::string(value_trouble_name(note.trouble));
    entry["format"] = std::string(format_name(note.format));
    entry["text"] = value_note_text(note);
    list.append(std::move(entry));
  }
  return list;
}

void define_results(py::module_& module) {
  py::class_<Outputs>(module, "Result", "Outputs, by place and by name, and what they cost.")
      .def_property_readonly("outputs", &Outputs::arrays)
      .def_readonly("runs", &Outputs::runs)
      .def_readonly("names", &Outputs::names)
      .def_readonly("cycles", &Outputs::cycles)
      .def_readonly("host_cycles", &Outputs::host_cycles)
      .def_readonly("transfer_cycles", &Outputs::transfer_cycles)
      .def_property_readonly("value_notes", &value_notes_of)
      .def_readonly("device", &Outputs::device)
      .def_readonly("sequence", &Outputs::sequence)
      .def_readonly("payload", &Outputs::payload)
      .def_property_readonly("times", &times_of)
      .def_property_readonly("seconds", [](const Outputs& o) { return seconds_of(o.times.total); })
      .def_property_readonly("kernel_seconds",
                             [](const Outputs& o) { return seconds_of(o.times.kernel); })
      .def("__len__", [](const Outputs& o) { return o.arrays().size(); })
      .def("__iter__", [](const Outputs& o) { return py::iter(o.arrays()); })
      .def("__getitem__", &output_at, py::arg("key"))
      .def("__getitem__", &output_named, py::arg("key"));
}

}  // namespace

// ------------------------------------------------------------------------------------ functions

FunctionSet::~FunctionSet() {
  if (!owned_) return;
  const Entry python;
  if (!python) return;
  for (PyObject* const function : functions_) Py_DECREF(function);
}

std::size_t FunctionSet::add(const py::object& function) {
  functions_.push_back(function.ptr());
  return functions_.size() - 1;
}
py::object FunctionSet::at(std::size_t index) const {
  return py::reinterpret_borrow<py::object>(functions_[index]);
}
py::tuple FunctionSet::all() const {
  py::tuple list(functions_.size());
  for (std::size_t i = 0; i < functions_.size(); ++i) list[i] = at(i);
  return list;
}
void FunctionSet::let_go() {
  if (--holders_ > 0 || owned_) return;
  owned_ = true;
  for (PyObject* const function : functions_) Py_INCREF(function);
}

Hold::Hold(std::shared_ptr<FunctionSet> set) : set_(std::move(set)), functions_(set_->all()) {
  set_->hold();
}
void Hold::let_go() {
  if (set_ != nullptr) set_->let_go();
  // The set may end now, without the lock or with it.
  set_.reset();
}
int Hold::visit(visitproc visit, void* arg) const {
  Py_VISIT(functions_.ptr());
  return 0;
}

std::shared_ptr<Payload> make_payload(const py::object& object) {
  std::shared_ptr<Payload> payload(new Payload(), [](Payload* gone) {
    const Entry python;
    if (python) delete gone;
  });
  payload->cause = std::shared_ptr<Cause>(new Cause(), [](Cause* gone) {
    const Entry python;
    if (python) delete gone;
  });
  payload->object = object;
  const py::object path = py::reinterpret_steal<py::object>(PyOS_FSPath(object.ptr()));
  PyErr_Clear();  // it is none
  if (path) payload->path = path_text(path);
  return payload;
}

std::vector<std::string> output_names(const std::optional<Network>& network) {
  std::vector<std::string> names;
  if (!network.has_value()) return names;
  for (const TensorDescription& output : network->outputs()) names.push_back(output.name);
  return names;
}

HostFunction host_function(std::shared_ptr<FunctionSet> set, std::size_t index,
                           std::optional<Network> next) {
  return [set = std::move(set), index, next = std::move(next)](Task& task) -> Status {
    const Entry python;
    if (!python) {
      return Error{ErrorCode::kUnavailable, "the Python interpreter is ending; wait for the tasks"};
    }
    return call_stage(set->at(index), task, next);
  };
}

namespace {

// A pipeline of a dynamic network, and what its streams' jobs share.
struct DynamicParts {
  DynamicPipeline pipeline;
  std::vector<DeclaredShape> inputs;
  std::shared_ptr<const PipelineInfo> info;
};
using DynamicPipelineHandle = Handle<DynamicParts>;
struct DynamicStreamParts {
  DynamicStream stream;
  std::vector<DeclaredShape> inputs;
  std::shared_ptr<const PipelineInfo> info;
};
using DynamicStreamHandle = Handle<DynamicStreamParts>;

std::shared_ptr<DynamicPipelineHandle> open_dynamic_pipeline(
    RuntimeHandle& runtime, Handle<DynamicNetwork>& network,
    const std::vector<std::string>& devices, std::int64_t pipelines_max, std::size_t jobs_max) {
  DynamicPipelineOptions options;
  options.devices = devices;
  options.pipelines_max = pipelines_max;
  options.pipeline.jobs_max = jobs_max;
  auto info = std::make_shared<PipelineInfo>();
  info->stages = {"pre", "execute", "post"};
  info->outputs = network->output_names();
  auto opened = take(unlocked([&] { return runtime->open_pipeline(*network, options); }));
  return std::make_shared<DynamicPipelineHandle>(
      DynamicParts{std::move(opened), network->inputs(), std::move(info)});
}

py::dict dynamic_status(DynamicPipelineHandle& pipeline) {
  const DynamicPipelineStatus status = pipeline->pipeline.status();
  py::dict entry;
  entry["pipelines"] = status.pipelines;
  entry["pipelines_opened"] = status.pipelines_opened;
  entry["submitted"] = status.submitted;
  entry["failed_shapes"] = status.failed_shapes;
  entry["waiting"] = status.waiting;
  entry["ran_in_parts"] = status.ran_in_parts;
  entry["compiled"] = status.networks.compiled;
  return entry;
}

py::object submit_dynamic(DynamicStreamHandle& stream, const py::args& inputs,
                          const py::kwargs& keywords) {
  const std::vector<Tensor> tensors = ordered_inputs(stream->inputs, inputs);
  return submitted(keywords, stream->info, [&](SubmitOptions options, bool wait) {
    return wait ? stream->stream.submit_when_room(tensors, std::move(options))
                : stream->stream.submit(tensors, std::move(options));
  });
}

void define_dynamic_pipelines(py::module_& module) {
  py::class_<DynamicPipelineHandle, std::shared_ptr<DynamicPipelineHandle>>(
      module, "DynamicPipeline", "Tasks of many shapes of one model on the devices of a runtime.")
      .def(py::init(&open_dynamic_pipeline), py::arg("runtime"), py::arg("network"), py::kw_only(),
           py::arg("devices") = std::vector<std::string>(), py::arg("pipelines_max") = 8,
           py::arg("jobs_max") = 256)
      .def(
          "stream",
          [](DynamicPipelineHandle& pipeline, const std::string& order, int priority) {
            return std::make_shared<DynamicStreamHandle>(
                DynamicStreamParts{pipeline->pipeline.open_stream(stream_options(order, priority)),
                                   pipeline->inputs, pipeline->info});
          },
          py::kw_only(), py::arg("order") = "submission", py::arg("priority") = 0)
      .def("status", &dynamic_status)
      .def("wait_until_done", [](DynamicPipelineHandle& pipeline) {
        unlocked([&] { pipeline->pipeline.wait_until_done(); });
      });
  py::class_<DynamicStreamHandle, std::shared_ptr<DynamicStreamHandle>>(
      module, "DynamicStream", "Tasks of any shapes whose results come out in their order.")
      .def("submit", &submit_dynamic)
      .def("wait_until_done",
           [](DynamicStreamHandle& stream) { unlocked([&] { stream->stream.wait_until_done(); }); })
      .def_property_readonly("id", [](DynamicStreamHandle& stream) { return stream->stream.id(); });
}

}  // namespace

py::object submitted(const py::kwargs& keywords, const std::shared_ptr<const PipelineInfo>& info,
                     const Submit& submit) {
  const SubmitArguments arguments = submit_arguments(keywords);
  const std::shared_ptr<Payload> payload = make_payload(arguments.payload);
  SubmitOptions options = submit_options(arguments, payload, info);
  auto job = unlocked([&] { return submit(std::move(options), arguments.wait); });
  return py::cast(
      std::make_shared<JobHandle>(JobOfPipeline{take(std::move(job)), info, payload->cause}));
}

StreamOptions stream_options(const std::string& order, int priority) {
  if (order != "submission" && order != "completion") {
    throw py::value_error("order is 'submission' or 'completion', not '" + order + "'");
  }
  if (priority < kPriorityLowest || priority > kPriorityHighest) {
    throw py::value_error("a priority of " + std::to_string(priority) + "; allowed -7 to 7");
  }
  return {.order = order == "submission" ? StreamOrder::kSubmission : StreamOrder::kCompletion,
          .priority = priority};
}

HostFunction picture_function(HostFunction decode) {
  return [decode = std::move(decode)](Task& task) -> Status {
    const auto payload = std::static_pointer_cast<Payload>(task.payload);
    if (payload == nullptr || payload->path.empty()) {
      return Error{ErrorCode::kInvalidArgument, "a picture's task has its path as payload"};
    }
    task.payload = std::shared_ptr<std::string>(payload, &payload->path);
    Status status = decode(task);
    task.payload = payload;
    return status;
  };
}

void define_tasks(py::module_& module) {
  define_results(module);
  define_jobs(module);
  define_dynamic_pipelines(module);
  py::class_<TaskView, std::shared_ptr<TaskView>>(module, "Task",
                                                  "What a stage in Python sees of a task.")
      .def_property("runs", &TaskView::runs, &TaskView::set_runs)
      .def_property("payload", &TaskView::payload, &TaskView::set_payload)
      .def_readonly("stream", &TaskView::stream)
      .def_readonly("sequence", &TaskView::sequence);
  py::class_<StreamObject, std::shared_ptr<StreamObject>>(
      module, "Stream", "Tasks whose results come out in the order they went in.",
      collected<StreamObject>())
      .def("submit", &submit)
      .def("submit_runs", &submit_runs, py::arg("runs"))
      .def("submit_batch", &submit_batch, py::arg("tasks"))
      .def("bind_states", &bind_states, py::arg("memory"), py::arg("bindings"))
      .def("submit_layer", &submit_layer, py::arg("layers"), py::arg("layer"), py::arg("inputs"),
           py::arg("outputs"), py::arg("fetch") = false)
      .def("submit_operation", &submit_operation, py::arg("operation"), py::arg("input"),
           py::arg("output"))
      .def("wait_until_done",
           [](StreamObject& stream) {
             check(stream->usable());
             unlocked([&] { stream->wait_until_done(); });
           })
      .def_property_readonly("id", [](StreamObject& stream) { return stream->id(); });
}

}  // namespace tessera::python

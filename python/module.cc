// The Python module tessera._native: networks, sessions and the runtime, with NumPy arrays.
//
//   array ─► Tensor        one copy, since a task owns its inputs
//   Tensor ─► array        none: the array keeps the tensor
//
// Whatever takes long or waits releases the interpreter's lock; so does letting go of a handle,
// because the last one of a pipeline waits for its tasks, and those may wait for a Python callback.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tessera/runtime.h"

namespace py = pybind11;

namespace tessera::python {
namespace {

using namespace std::chrono_literals;

// ------------------------------------------------------------------------------------ errors

// On its way to Python, where it becomes a tessera.Error.
struct Failure {
  TaskError error;
};

[[noreturn]] void fail(const Error& error) {
  TaskError task;
  task.failure = TaskFailure::kNone;
  task.error = error;
  throw Failure{std::move(task)};
}
[[noreturn]] void fail(const std::string& message) {
  fail(Error{ErrorCode::kInvalidArgument, message});
}
template <typename T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}
void check(const Status& status) {
  if (!status.ok()) fail(status.error());
}

// tessera.Error; made once, for as long as the process lives.
PyObject* error_type = nullptr;

py::object error_object(const TaskError& error) {
  py::object made = py::reinterpret_borrow<py::object>(error_type)(error.error.message);
  made.attr("code") = error_code_name(error.error.code);
  made.attr("failure") = task_failure_name(error.failure);
  made.attr("stage") = error.stage;
  made.attr("device") = error.device;
  made.attr("layer") = error.layer;
  return made;
}

// ------------------------------------------------------------------------------------ handles

// Let go of without the interpreter's lock.
template <typename T>
class Handle {
 public:
  explicit Handle(T value) : value_(std::move(value)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    const py::gil_scoped_release release;
    value_.reset();
  }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }

 private:
  std::optional<T> value_;
};

// A session belongs to one thread at a time, and without the lock there may be several.
struct SessionAndNetwork {
  SessionAndNetwork(Network what, Session opened)
      : network(std::move(what)), session(std::move(opened)) {}
  Network network;
  Session session;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};
struct StreamOfModel {
  Stream stream;
  Network network;
};
struct JobOfModel {
  Job job;
  Network network;
};
struct PipelineOfModel {
  Pipeline pipeline;
  Network network;
};

using SessionHandle = Handle<SessionAndNetwork>;
using StreamHandle = Handle<StreamOfModel>;
using JobHandle = Handle<JobOfModel>;
using PipelineHandle = Handle<PipelineOfModel>;
using RuntimeHandle = Handle<Runtime>;
using ModelHandle = Handle<Model>;

// ------------------------------------------------------------------------------------ arrays

// NumPy's kind of number and its bytes. bf16 has no NumPy type: its bits travel as uint16.
struct NumpyType {
  Format format;
  char kind;
  const char* name;
};
constexpr NumpyType kNumpyTypes[] = {
    {Format::kF16, 'f', "float16"}, {Format::kF32, 'f', "float32"}, {Format::kF64, 'f', "float64"},
    {Format::kI8, 'i', "int8"},     {Format::kI16, 'i', "int16"},   {Format::kI32, 'i', "int32"},
    {Format::kI64, 'i', "int64"},   {Format::kU8, 'u', "uint8"},    {Format::kU16, 'u', "uint16"},
    {Format::kU32, 'u', "uint32"},  {Format::kU64, 'u', "uint64"},  {Format::kBool, 'b', "bool"},
    {Format::kBf16, 'u', "uint16"}};

std::string dtype_name(Format format) {
  for (const NumpyType& type : kNumpyTypes) {
    if (type.format == format) return type.name;
  }
  return "none";
}

Format format_of(const py::array& array, std::optional<Format> wanted, const std::string& what) {
  const py::dtype dtype = array.dtype();
  const bool native = dtype.attr("isnative").cast<bool>();
  for (const NumpyType& type : kNumpyTypes) {
    if (!native || type.kind != dtype.kind() || format_bytes(type.format) != dtype.itemsize()) {
      continue;
    }
    return type.format == Format::kU16 && wanted == Format::kBf16 ? Format::kBf16 : type.format;
  }
  fail(what + " has the dtype " + std::string(py::str(py::object(dtype))) +
       ", which no tensor has" + (wanted ? "; needed: " + dtype_name(*wanted) : std::string()));
}

// Rows that do not lie one behind the other are put so first, by NumPy.
Tensor to_tensor(const py::array& array, std::optional<Format> wanted, const std::string& what) {
  Tensor tensor;
  tensor.format = format_of(array, wanted, what);
  const py::array dense = py::array::ensure(array, py::array::c_style);
  tensor.dims.assign(dense.shape(), dense.shape() + dense.ndim());
  tensor.bytes.resize(static_cast<std::size_t>(dense.nbytes()));
  if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), dense.data(), tensor.bytes.size());
  return tensor;
}

// The array's memory is the tensor's.
py::array to_array(Tensor tensor) {
  auto owned = std::make_unique<Tensor>(std::move(tensor));
  Tensor& kept = *owned;
  const py::capsule owner(owned.release(), [](void* gone) { delete static_cast<Tensor*>(gone); });
  return py::array(py::dtype(dtype_name(kept.format)),
                   std::vector<py::ssize_t>(kept.dims.begin(), kept.dims.end()), kept.bytes.data(),
                   owner);
}

// f(a, b): in the model's order; f({"b": ..., "a": ...}): by name.
std::vector<Tensor> to_inputs(const Network& network, const py::args& in_order,
                              const std::optional<py::dict>& by_name) {
  const std::vector<TensorDescription>& wanted = network.inputs();
  std::vector<Tensor> inputs;
  const bool named = by_name.has_value();
  const std::size_t given = named ? by_name->size() : in_order.size();
  if (given != wanted.size()) {
    fail("given " + std::to_string(given) + " inputs; the model has " +
         std::to_string(wanted.size()));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string what = "input '" + wanted[i].name + "'";
    if (named && !by_name->contains(wanted[i].name)) fail(what + " is missing");
    const py::object value =
        named ? py::object((*by_name)[wanted[i].name.c_str()]) : py::object(in_order[i]);
    const py::array array = py::array::ensure(value);
    if (!array) {
      PyErr_Clear();
      fail(what + " is no array of numbers");
    }
    inputs.push_back(to_tensor(array, wanted[i].format, what));
  }
  return inputs;
}

std::vector<Tensor> inputs_from(const Network& network, const py::args& arguments) {
  if (arguments.size() == 1 && py::isinstance<py::dict>(arguments[0])) {
    return to_inputs(network, arguments, py::dict(arguments[0]));
  }
  return to_inputs(network, arguments, std::nullopt);
}

// ------------------------------------------------------------------------------------ results

// What a run gave: outputs by place or by name.
struct Outputs {
  py::list arrays;
  std::vector<std::string> names;
  std::int64_t cycles = 0;
  std::uint64_t sequence = 0;
  std::string device;
  double seconds = 0, kernel_seconds = 0;
};

std::vector<std::string> output_names(const Network& network) {
  std::vector<std::string> names;
  for (const TensorDescription& output : network.outputs()) names.push_back(output.name);
  return names;
}

py::list to_arrays(std::vector<Tensor> tensors) {
  py::list arrays;
  for (Tensor& tensor : tensors) arrays.append(to_array(std::move(tensor)));
  return arrays;
}

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

Outputs outputs_of(TaskOutcome outcome, const Network& network) {
  if (!outcome.ok()) throw Failure{outcome.error()};
  TaskResult& result = outcome.result();
  Outputs outputs;
  outputs.arrays =
      to_arrays(result.runs.empty() ? std::vector<Tensor>{} : std::move(result.runs.front()));
  outputs.names = output_names(network);
  outputs.cycles = result.cycles;
  outputs.sequence = result.sequence;
  outputs.device = result.device;
  outputs.seconds = seconds_of(result.times.total);
  outputs.kernel_seconds = seconds_of(result.times.kernel);
  return outputs;
}

py::object output_named(const Outputs& outputs, const std::string& name) {
  for (std::size_t i = 0; i < outputs.names.size(); ++i) {
    if (outputs.names[i] == name && i < outputs.arrays.size()) return outputs.arrays[i];
  }
  throw py::key_error(name);
}

py::object output_at(const Outputs& outputs, std::ptrdiff_t index) {
  const auto count = static_cast<std::ptrdiff_t>(outputs.arrays.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) throw py::index_error("no such output");
  return outputs.arrays[static_cast<std::size_t>(index)];
}

// ------------------------------------------------------------------------------------ calls

// A wait without the lock that Control-C ends.
constexpr auto kSlice = 100ms;

// `ready(patience)` waits and says whether what is awaited has come; false after `seconds`.
template <typename Ready>
bool wait_without_lock(std::optional<double> seconds, const Ready& ready) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    std::chrono::nanoseconds patience = kSlice;
    if (seconds.has_value()) {
      const auto left =
          std::chrono::duration<double>(*seconds) - (std::chrono::steady_clock::now() - begin);
      if (left < kSlice) {
        patience = std::max(0ns, std::chrono::duration_cast<std::chrono::nanoseconds>(left));
      }
    }
    {
      const py::gil_scoped_release release;
      if (ready(patience)) return true;
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (seconds.has_value() && patience < kSlice) return false;
  }
}

[[noreturn]] void time_out() {
  PyErr_SetString(PyExc_TimeoutError, "the task is not done");
  throw py::error_already_set();
}

Outputs wait_for_job(JobHandle& job, std::optional<double> timeout) {
  std::optional<TaskOutcome> outcome;
  const bool came = wait_without_lock(timeout, [&](std::chrono::nanoseconds patience) {
    outcome = job->job.wait_for(patience);
    return outcome.has_value();
  });
  if (!came) time_out();
  return outputs_of(std::move(*outcome), job->network);
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
std::function<void(TaskOutcome)> to_callback(const py::object& function, const Network& network) {
  if (function.is_none()) return {};
  // Given up with the lock held, wherever the last copy goes.
  const std::shared_ptr<py::object> kept(new py::object(function), [](py::object* gone) {
    const py::gil_scoped_acquire acquire;
    delete gone;
  });
  return [kept, network](TaskOutcome outcome) {
    const py::gil_scoped_acquire acquire;
    try {
      if (outcome.ok()) {
        (*kept)(outputs_of(std::move(outcome), network), py::none());
      } else {
        (*kept)(py::none(), error_object(outcome.error()));
      }
    } catch (py::error_already_set& thrown) {
      thrown.discard_as_unraisable("a callback of tessera");
    }
  };
}

struct SubmitArguments {
  py::object callback = py::none();
  std::optional<double> deadline;
  bool wait = true;
};

SubmitArguments submit_arguments(const py::kwargs& given) {
  SubmitArguments arguments;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    if (name == "callback") {
      arguments.callback = py::reinterpret_borrow<py::object>(value);
    } else if (name == "deadline") {
      arguments.deadline = value.cast<std::optional<double>>();
    } else if (name == "wait") {
      arguments.wait = value.cast<bool>();
    } else {
      throw py::type_error("submit() knows callback, deadline and wait, not '" + name + "'");
    }
  }
  return arguments;
}

std::shared_ptr<JobHandle> submit(StreamHandle& stream, const py::args& inputs,
                                  const py::kwargs& keywords) {
  const SubmitArguments arguments = submit_arguments(keywords);
  std::vector<Tensor> tensors = inputs_from(stream->network, inputs);
  SubmitOptions options;
  options.callback = to_callback(arguments.callback, stream->network);
  if (arguments.deadline.has_value()) {
    options.deadline = std::chrono::nanoseconds(
        static_cast<std::int64_t>(std::max(0.0, *arguments.deadline) * 1e9));
  }
  if (arguments.wait) {
    wait_without_lock(std::nullopt, [&](std::chrono::nanoseconds patience) {
      return stream->stream.wait_for_room(patience);
    });
  }
  const auto go = [&] {
    const py::gil_scoped_release release;
    return arguments.wait ? stream->stream.submit_when_room(std::move(tensors), std::move(options))
                          : stream->stream.submit(std::move(tensors), std::move(options));
  };
  return std::make_shared<JobHandle>(JobOfModel{take(go()), stream->network});
}

Outputs run_session(SessionHandle& session, const py::args& inputs) {
  const std::vector<Tensor> tensors = inputs_from(session->network, inputs);
  const auto begin = std::chrono::steady_clock::now();
  const auto go = [&] {
    const py::gil_scoped_release release;
    const std::lock_guard lock(*session->mutex);
    return session->session.run(tensors);
  };
  RunResult result = take(go());
  Outputs outputs;
  outputs.seconds = seconds_of(std::chrono::steady_clock::now() - begin);
  outputs.arrays = to_arrays(std::move(result.outputs));
  outputs.names = output_names(session->network);
  outputs.cycles = result.cycles;
  return outputs;
}

Network load_network(const std::string& path, const std::string& arch,
                     const std::map<std::string, Shape>& shapes,
                     const std::map<std::string, py::array>& constants) {
  LoadOptions options;
  options.arch = arch;
  options.shapes = shapes;
  for (const auto& [name, array] : constants) {
    options.constants[name] = to_tensor(array, std::nullopt, "constant '" + name + "'");
  }
  const auto go = [&] {
    const py::gil_scoped_release release;
    return Network::load(path, options);
  };
  return take(go());
}

py::list descriptions(const std::vector<TensorDescription>& tensors) {
  py::list list;
  for (const TensorDescription& tensor : tensors) {
    list.append(
        py::make_tuple(tensor.name, dtype_name(tensor.format), py::tuple(py::cast(tensor.dims))));
  }
  return list;
}

DeviceOptions to_device(const py::handle& given) {
  if (py::isinstance<py::str>(given)) {
    DeviceOptions options;
    options.kind = take(device_kind_from_name(given.cast<std::string>()));
    return options;
  }
  return given.cast<DeviceOptions>();
}

DeviceOptions make_device(const std::string& kind, const std::string& name, const std::string& arch,
                          int kernels, int threads, double pace) {
  DeviceOptions options;
  options.kind = take(device_kind_from_name(kind));
  options.name = name;
  options.arch = arch;
  options.kernels = kernels;
  options.threads = threads;
  options.pace = pace;
  return options;
}

std::shared_ptr<RuntimeHandle> open_runtime(const std::optional<py::list>& devices) {
  RuntimeOptions options;
  if (devices.has_value()) {
    options.devices.clear();
    for (const py::handle& device : *devices) options.devices.push_back(to_device(device));
  }
  const auto go = [&] {
    const py::gil_scoped_release release;
    return Runtime::open(options);
  };
  return std::make_shared<RuntimeHandle>(take(go()));
}

std::shared_ptr<ModelHandle> load_model(RuntimeHandle& runtime, const Network& network,
                                        const std::vector<std::string>& devices) {
  const auto go = [&] {
    const py::gil_scoped_release release;
    return runtime->load(network, devices);
  };
  return std::make_shared<ModelHandle>(take(go()));
}

std::shared_ptr<PipelineHandle> open_pipeline(RuntimeHandle& runtime, const py::object& what,
                                              std::size_t jobs_max, const std::string& handover,
                                              const std::string& hint, bool tune,
                                              std::int64_t compare_every) {
  PipelineOptions options;
  options.jobs_max = jobs_max;
  options.tune = tune;
  if (handover != "free-flow" && handover != "lock-step") {
    fail("handover '" + handover + "'; allowed: 'free-flow', 'lock-step'");
  }
  if (hint != "throughput" && hint != "latency") {
    fail("hint '" + hint + "'; allowed: 'throughput', 'latency'");
  }
  if (handover == "lock-step") options.handover = Handover::kLockStep;
  if (hint == "latency") options.hint = Hint::kLatency;
  if (compare_every != 0) options.debug = {.mode = DebugMode::kBoth, .every = compare_every};
  const std::shared_ptr<ModelHandle> model =
      py::isinstance<Network>(what) ? load_model(runtime, what.cast<const Network&>(), {})
                                    : what.cast<std::shared_ptr<ModelHandle>>();
  const auto go = [&] {
    const py::gil_scoped_release release;
    return runtime->open_pipeline(**model, std::move(options));
  };
  Pipeline opened = take(go());
  return std::make_shared<PipelineHandle>(PipelineOfModel{std::move(opened), (*model)->network()});
}

py::list device_list(RuntimeHandle& runtime) {
  py::list list;
  for (const DeviceStatus& device : runtime->devices()) {
    py::dict entry;
    entry["name"] = device.name;
    entry["kind"] = device_kind_name(device.kind);
    entry["kernels"] = device.kernels;
    entry["healthy"] = device.healthy;
    entry["fault"] = device.fault;
    entry["runs"] = device.runs;
    entry["bytes_in"] = device.bytes_in;
    entry["bytes_out"] = device.bytes_out;
    entry["weight_bytes"] = device.weight_bytes;
    entry["busy_seconds"] = seconds_of(device.busy);
    list.append(entry);
  }
  return list;
}

py::dict pipeline_status(PipelineHandle& pipeline) {
  const PipelineStatus status = pipeline->pipeline.status();
  py::list stages;
  for (const StageStatus& stage : status.stages) {
    py::dict entry;
    entry["name"] = stage.name;
    entry["threads"] = stage.threads;
    entry["kernels"] = stage.kernels;
    entry["queued"] = stage.queued;
    entry["tasks"] = stage.tasks;
    entry["busy_seconds"] = seconds_of(stage.busy);
    stages.append(entry);
  }
  py::dict all;
  all["stages"] = stages;
  all["in_flight"] = status.in_flight;
  all["jobs_max"] = status.jobs_max;
  all["submitted"] = status.submitted;
  all["succeeded"] = status.succeeded;
  all["failed"] = status.failed;
  all["cancelled"] = status.cancelled;
  all["late"] = status.late;
  all["compared"] = status.compared;
  all["mismatches"] = status.mismatches;
  return all;
}

// ------------------------------------------------------------------------------------ classes

void define_error(py::module_& module) {
  error_type = PyErr_NewExceptionWithDoc(
      "tessera.Error",
      "What went wrong, in words.\n\ncode says what to do about it; of a task, failure says why it "
      "has no result, and stage, device and layer where, as far as known.",
      nullptr, nullptr);
  module.attr("Error") = py::reinterpret_borrow<py::object>(error_type);
  // pybind11 wants a function of exactly this type.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      PyErr_SetObject(error_type, error_object(failure.error).ptr());
    }
  });
}

void define_networks(py::module_& module) {
  py::class_<Network>(module, "Network", "An ONNX model or a package, compiled. Never changes.")
      .def(py::init(&load_network), py::arg("path"), py::kw_only(), py::arg("arch") = "tessera128",
           py::arg("shapes") = std::map<std::string, Shape>(),
           py::arg("constants") = std::map<std::string, py::array>())
      .def_property_readonly("inputs", [](const Network& n) { return descriptions(n.inputs()); })
      .def_property_readonly("outputs", [](const Network& n) { return descriptions(n.outputs()); })
      .def_property_readonly("nodes_on_processor",
                             [](const Network& n) { return n.placement().nodes_on_processor; })
      .def_property_readonly("nodes_on_host",
                             [](const Network& n) { return n.placement().nodes_on_host; })
      .def(
          "save_package",
          [](const Network& n, const std::string& path) { check(n.save_package(path)); },
          py::arg("path"));
  py::class_<Outputs>(module, "Result", "Outputs, by place and by name, and what they cost.")
      .def_property_readonly("outputs", [](const Outputs& o) { return o.arrays; })
      .def_readonly("names", &Outputs::names)
      .def_readonly("cycles", &Outputs::cycles)
      .def_readonly("device", &Outputs::device)
      .def_readonly("sequence", &Outputs::sequence)
      .def_readonly("seconds", &Outputs::seconds)
      .def_readonly("kernel_seconds", &Outputs::kernel_seconds)
      .def("__len__", [](const Outputs& o) { return o.arrays.size(); })
      .def("__iter__", [](const Outputs& o) { return py::iter(o.arrays); })
      .def("__getitem__", &output_at, py::arg("key"))
      .def("__getitem__", &output_named, py::arg("key"));
  py::class_<SessionHandle, std::shared_ptr<SessionHandle>>(
      module, "Session", "A network on one device, one run after the other.")
      .def(py::init([](const Network& network, const std::string& device, int threads) {
             const SessionOptions options{.device = take(device_kind_from_name(device)),
                                          .threads = threads};
             return std::make_shared<SessionHandle>(
                 SessionAndNetwork(network, take(Session::open(network, options))));
           }),
           py::arg("network"), py::arg("device") = "host", py::arg("threads") = 0)
      .def("run", &run_session);
}

void define_tasks(py::module_& module) {
  py::class_<JobHandle, std::shared_ptr<JobHandle>>(module, "Job", "A task that was submitted.")
      .def("wait", &wait_for_job, py::arg("timeout") = std::nullopt)
      .def("done", [](JobHandle& job) { return job->job.done(); })
      .def("cancel", [](JobHandle& job) { job->job.cancel(); })
      .def_property_readonly("id", [](JobHandle& job) { return job->job.id(); });
  py::class_<StreamHandle, std::shared_ptr<StreamHandle>>(
      module, "Stream", "Tasks whose results come out in the order they went in.")
      .def("submit", &submit)
      .def("wait_until_done", [](StreamHandle& stream) {
        const py::gil_scoped_release release;
        stream->stream.wait_until_done();
      });
  py::class_<PipelineHandle, std::shared_ptr<PipelineHandle>>(
      module, "Pipeline", "pre | execute | post of one model, each stage with own threads.")
      .def("stream",
           [](PipelineHandle& pipeline) {
             return std::make_shared<StreamHandle>(
                 StreamOfModel{pipeline->pipeline.open_stream(), pipeline->network});
           })
      .def("status", &pipeline_status)
      .def(
          "set_threads",
          [](PipelineHandle& pipeline, const std::string& stage, int threads) {
            const auto go = [&] {
              const py::gil_scoped_release release;
              return pipeline->pipeline.set_threads(stage, threads);
            };
            check(go());
          },
          py::arg("stage"), py::arg("threads"))
      .def(
          "set_kernels",
          [](PipelineHandle& pipeline, const std::string& stage, int kernels) {
            check(pipeline->pipeline.set_kernels(stage, kernels));
          },
          py::arg("stage"), py::arg("kernels"))
      .def("wait_until_done", [](PipelineHandle& pipeline) {
        const py::gil_scoped_release release;
        pipeline->pipeline.wait_until_done();
      });
}

void define_runtime(py::module_& module) {
  py::class_<DeviceOptions>(module, "Device", "A processor to open: its kind and how much of it.")
      .def(py::init(&make_device), py::arg("kind") = "host", py::kw_only(), py::arg("name") = "",
           py::arg("arch") = "tessera128", py::arg("kernels") = 1, py::arg("threads") = 0,
           py::arg("pace") = 0.0);
  py::class_<ModelHandle, std::shared_ptr<ModelHandle>>(module, "Model",
                                                        "A network on devices of a runtime.")
      .def_property_readonly("network", [](ModelHandle& model) { return model->network(); });
  py::class_<RuntimeHandle, std::shared_ptr<RuntimeHandle>>(module, "Runtime",
                                                            "Devices that work side by side.")
      .def(py::init(&open_runtime), py::arg("devices") = std::nullopt)
      .def("load", &load_model, py::arg("network"), py::kw_only(),
           py::arg("devices") = std::vector<std::string>())
      .def("pipeline", &open_pipeline, py::arg("model"), py::kw_only(), py::arg("jobs_max") = 256,
           py::arg("handover") = "free-flow", py::arg("hint") = "throughput",
           py::arg("tune") = false, py::arg("compare_every") = 0)
      .def("devices", &device_list)
      .def(
          "write_trace",
          [](RuntimeHandle& runtime, const std::string& path) {
            check(runtime->write_trace(path));
          },
          py::arg("path"))
      .def("prometheus", [](RuntimeHandle& runtime) { return runtime->prometheus(); });
  module.def("wait_any", &wait_for_any, py::arg("jobs"), py::arg("timeout") = std::nullopt);
}

}  // namespace
}  // namespace tessera::python

PYBIND11_MODULE(_native, module) {
  module.attr("__version__") = tessera::version();
  tessera::python::define_error(module);
  tessera::python::define_networks(module);
  tessera::python::define_tasks(module);
  tessera::python::define_runtime(module);
}

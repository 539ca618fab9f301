// Devices, models, stages, pipelines, and what a runtime shows of itself.
#include <stdexcept>

#include "tasks.h"

namespace tessera::python {
namespace {

// ------------------------------------------------------------------------------------ devices

DeviceOptions to_device(const py::handle& given) {
  if (py::isinstance<py::str>(given)) {
    DeviceOptions options;
    const auto name = given.cast<std::string>();
    if (name.starts_with("cluster:")) {
      options.cluster = name;
    } else {
      options.kind = take(device_kind_from_name(name));
    }
    return options;
  }
  return given.cast<DeviceOptions>();
}

std::shared_ptr<RuntimeHandle> open_runtime(const std::optional<py::list>& devices, bool metrics) {
  RuntimeOptions options;
  options.metrics = metrics;
  if (devices.has_value()) {
    options.devices.clear();
    for (const py::handle& device : *devices) options.devices.push_back(to_device(device));
  }
  return std::make_shared<RuntimeHandle>(take(unlocked([&] { return Runtime::open(options); })));
}

std::shared_ptr<ModelHandle> load_model(RuntimeHandle& runtime, const Network& network,
                                        const std::vector<std::string>& devices, bool device_form) {
  return std::make_shared<ModelHandle>(take(unlocked([&] {
    return device_form ? runtime->load_in_device_form(network, devices)
                       : runtime->load(network, devices);
  })));
}

// ------------------------------------------------------------------------------------ stages

constexpr const char* kStageKinds[] = {"host", "pre", "execute", "post"};

// A stage before its pipeline is opened.
class StageObject {
 public:
  using BoundInPython = void;
  StageOptions options;                // without function and model
  std::shared_ptr<ModelHandle> model;  // shared with the application
  std::optional<PictureInput> picture;
  py::object function = py::none();

  const StageObject& hold() const { return *this; }
  int visit(visitproc visit, void* arg) const {
    Py_VISIT(function.ptr());
    return 0;
  }
  void let_go() {}
  void clear() { function = py::none(); }
};

std::shared_ptr<StageObject> host_stage(const std::string& name, const py::object& function,
                                        int threads, std::size_t capacity, std::size_t batch) {
  if (PyCallable_Check(function.ptr()) == 0) fail("stage '" + name + "': its function is none");
  auto stage = std::make_shared<StageObject>();
  stage->options.name = name;
  stage->options.threads = threads;
  stage->options.capacity = capacity;
  stage->options.batch = batch;
  stage->function = function;
  return stage;
}

std::shared_ptr<StageObject> model_stage(StageKind kind, const std::shared_ptr<ModelHandle>& model,
                                         const std::string& name, int threads, std::size_t capacity,
                                         std::size_t batch) {
  auto stage = std::make_shared<StageObject>();
  stage->options.kind = kind;
  stage->options.name = name;
  stage->options.threads = threads;
  stage->options.capacity = capacity;
  stage->options.batch = batch;
  stage->model = model;
  return stage;
}

using Stages = std::vector<std::shared_ptr<StageObject>>;

Stages default_stages_of(const std::shared_ptr<ModelHandle>& model, const std::string& prefix) {
  Stages stages;
  for (const StageKind kind : {StageKind::kPre, StageKind::kExecute, StageKind::kPost}) {
    stages.push_back(
        model_stage(kind, model, prefix + kStageKinds[static_cast<int>(kind)], 0, 0, 0));
  }
  return stages;
}

// The network that the runs of stage `index` go to.
std::optional<Network> next_network(const Stages& stages, std::size_t index) {
  for (std::size_t i = index; i < stages.size(); ++i) {
    if (stages[i]->options.kind != StageKind::kHost) return (*stages[i]->model)->network();
  }
  return std::nullopt;
}

std::vector<StageOptions> options_of(const Stages& stages,
                                     const std::shared_ptr<FunctionSet>& functions) {
  std::vector<StageOptions> list;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageObject& stage = *stages[i];
    StageOptions options = stage.options;
    if (stage.picture.has_value()) {
      options.function = picture_function(picture_stage(**stage.model, *stage.picture).function);
    } else if (options.kind == StageKind::kHost) {
      options.function =
          host_function(functions, functions->add(stage.function), next_network(stages, i));
    } else {
      options.model = **stage.model;
    }
    list.push_back(std::move(options));
  }
  return list;
}

// ------------------------------------------------------------------------------------ pipelines

DebugOptions debug_options(const std::string& mode, std::int64_t every) {
  if (every < 1) fail("debugging of one task in " + std::to_string(every) + "; allowed 1 and more");
  if (mode == "device") return {.mode = DebugMode::kDevice, .every = every};
  if (mode == "host") return {.mode = DebugMode::kHost, .every = every};
  if (mode == "both") return {.mode = DebugMode::kBoth, .every = every};
  fail("debug '" + mode + "'; allowed: 'device', 'host', 'both'");
}

// What opens a pipeline beside its stages.
struct Wishes {
  PipelineOptions options;
  std::shared_ptr<FunctionSet> functions = std::make_shared<FunctionSet>();
};

void set_log(Wishes& wishes, const py::object& log) {
  if (log.is_none()) return;
  wishes.options.tuning_log = [set = wishes.functions,
                               index = wishes.functions->add(log)](const std::string& text) {
    const Entry python;
    if (!python) return;
    try {
      set->at(index)(text);
    } catch (py::error_already_set& thrown) {
      const Error error = error_of(thrown);
      thrown.discard_as_unraisable("a tuning log of tessera");
      throw std::runtime_error(error.message);
    }
  };
}

Wishes wishes_of(const py::kwargs& given) {
  Wishes wishes;
  PipelineOptions& options = wishes.options;
  std::string debug = "device";
  std::int64_t debug_every = 1;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    if (name == "jobs_max") {
      options.jobs_max = value.cast<std::size_t>();
    } else if (name == "handover") {
      const auto handover = value.cast<std::string>();
      if (handover == "lock-step")
        options.handover = Handover::kLockStep;
      else if (handover != "free-flow") {
        fail("handover '" + handover + "'; allowed: 'free-flow', 'lock-step'");
      }
    } else if (name == "hint") {
      const auto hint = value.cast<std::string>();
      if (hint == "latency")
        options.hint = Hint::kLatency;
      else if (hint != "throughput")
        fail("hint '" + hint + "'; allowed: 'throughput', 'latency'");
    } else if (name == "tune") {
      options.tune = value.cast<bool>();
    } else if (name == "tuning_log") {
      set_log(wishes, py::reinterpret_borrow<py::object>(value));
    } else if (name == "debug") {
      debug = value.cast<std::string>();
    } else if (name == "debug_every") {
      debug_every = value.cast<std::int64_t>();
    } else {
      throw py::type_error(
          "a pipeline knows jobs_max, handover, hint, tune, tuning_log, debug and "
          "debug_every, not '" +
          name + "'");
    }
  }
  options.debug = debug_options(debug, debug_every);
  return wishes;
}

std::shared_ptr<PipelineObject> make_pipeline(Pipeline opened, const Stages& stages,
                                              const std::shared_ptr<FunctionSet>& functions) {
  auto info = std::make_shared<PipelineInfo>();
  for (const StageStatus& stage : opened.status().stages) info->stages.push_back(stage.name);
  if (!stages.empty()) {
    if (stages.front()->options.kind != StageKind::kHost) info->first = next_network(stages, 0);
    info->last = next_network(stages, stages.size() - 1);
  }
  return std::make_shared<PipelineObject>(std::move(opened), std::move(info), functions);
}

std::shared_ptr<PipelineObject> open_pipeline(RuntimeHandle& runtime, const py::object& what,
                                              const py::kwargs& keywords) {
  Wishes wishes = wishes_of(keywords);
  Stages stages;
  if (py::isinstance<Network>(what)) {
    stages = default_stages_of(load_model(runtime, what.cast<const Network&>(), {}, false), "");
  } else if (py::isinstance<ModelHandle>(what)) {
    stages = default_stages_of(what.cast<std::shared_ptr<ModelHandle>>(), "");
  } else {
    try {
      stages = what.cast<Stages>();
    } catch (const py::cast_error&) {
      fail("a pipeline is of a Network, a Model or a list of Stages");
    }
  }
  wishes.options.stages = options_of(stages, wishes.functions);
  Pipeline opened =
      take(unlocked([&] { return runtime->open_pipeline(std::move(wishes.options)); }));
  return make_pipeline(std::move(opened), stages, wishes.functions);
}

std::shared_ptr<PipelineObject> open_operations(RuntimeHandle& runtime,
                                                const py::kwargs& keywords) {
  Wishes wishes = wishes_of(keywords);
  Pipeline opened =
      take(unlocked([&] { return runtime->open_operations(std::move(wishes.options)); }));
  return make_pipeline(std::move(opened), {}, wishes.functions);
}

// ------------------------------------------------------------------------------------ seeing

py::list device_list(RuntimeHandle& runtime) {
  check(runtime->usable());
  py::list list;
  for (const DeviceStatus& device : unlocked([&] { return runtime->devices(); })) {
    py::dict entry;
    entry["name"] = device.name;
    entry["kind"] = device_kind_name(device.kind);
    entry["kernels"] = device.kernels;
    entry["healthy"] = device.healthy;
    entry["fault"] = device.fault;
    entry["runs"] = device.runs;
    entry["functions"] = device.functions;
    entry["joint_runs"] = device.joint_runs;
    entry["late_runs"] = device.late_runs;
    entry["runs_made_again"] = device.runs_made_again;
    entry["bytes_in"] = device.bytes_in;
    entry["bytes_out"] = device.bytes_out;
    entry["weight_bytes"] = device.weight_bytes;
    entry["bytes_copied"] = device.bytes_copied;
    entry["busy_seconds"] = seconds_of(device.busy);
    py::list kernels;
    for (const std::chrono::nanoseconds busy : device.kernel_busy) kernels.append(seconds_of(busy));
    entry["kernel_busy_seconds"] = kernels;
    list.append(entry);
  }
  return list;
}

py::list stage_list(const PipelineStatus& status) {
  py::list stages;
  for (const StageStatus& stage : status.stages) {
    py::dict entry;
    entry["name"] = stage.name;
    entry["kind"] = kStageKinds[static_cast<int>(stage.kind)];
    entry["threads"] = stage.threads;
    entry["running"] = stage.running;
    entry["kernels"] = stage.kernels;
    entry["queued"] = stage.queued;
    entry["capacity"] = stage.capacity;
    entry["tasks"] = stage.tasks;
    entry["batches"] = stage.batches;
    entry["busy_seconds"] = seconds_of(stage.busy);
    entry["thread_seconds"] = seconds_of(stage.thread_time);
    stages.append(entry);
  }
  return stages;
}

py::dict pipeline_status(PipelineObject& pipeline) {
  check(pipeline->usable());
  const PipelineStatus status = unlocked([&] { return pipeline->status(); });
  constexpr const char* kModes[] = {"device", "host", "both"};
  py::dict all;
  all["stages"] = stage_list(status);
  all["in_flight"] = status.in_flight;
  all["jobs_max"] = status.jobs_max;
  all["submitted"] = status.submitted;
  all["succeeded"] = status.succeeded;
  all["failed"] = status.failed;
  all["cancelled"] = status.cancelled;
  all["late"] = status.late;
  all["compared"] = status.compared;
  all["mismatches"] = status.mismatches;
  all["tuning"] = status.tuning;
  all["debug"] = kModes[static_cast<int>(status.debug)];
  all["callbacks_threw"] = status.callbacks_threw;
  all["callback_error"] = status.callback_error;
  return all;
}

// A live page, and the functions of the pipelines that it keeps open.
class LiveViewObject {
 public:
  using BoundInPython = void;
  LiveViewObject(LiveView view, std::vector<Hold> holds)
      : holds_(std::move(holds)), view_(std::move(view)) {}
  ~LiveViewObject() {
    for (Hold& hold : holds_) hold.let_go();
    view_.let_go();
  }
  std::string url() { return view_->url(); }

 private:
  std::vector<Hold> holds_;
  Handle<LiveView> view_;
};

std::shared_ptr<LiveViewObject> open_live_view(
    RuntimeHandle& runtime, const std::vector<std::shared_ptr<PipelineObject>>& pipelines,
    const std::string& listen, const std::string& title) {
  LiveViewOptions options;
  options.listen = listen;
  options.title = title;
  std::vector<Hold> holds;
  for (const auto& pipeline : pipelines) {
    options.pipelines.push_back(**pipeline);
    holds.emplace_back(pipeline->hold().set());
  }
  LiveView view = take(unlocked([&] { return runtime->open_live_view(options); }));
  return std::make_shared<LiveViewObject>(std::move(view), std::move(holds));
}

// ------------------------------------------------------------------------------------ classes

void define_devices(py::module_& module) {
  py::class_<DeviceOptions>(module, "Device", "A processor to open: its kind and how much of it.")
      .def(py::init([](const std::string& kind, const std::string& name, const std::string& arch,
                       int kernels, int threads, double pace, bool timing_only, double hang_timeout,
                       int virtual_functions, const std::string& traps, int cores, int cards,
                       const std::string& split, const VirtualProcessor& processor,
                       const std::string& cluster) {
             DeviceOptions options;
             options.cluster = cluster;
             options.cores = cores;
             options.cards = cards;
             options.split = take(core_split_from_name(split));
             options.processor = processor;
             if (!traps.empty()) options.traps = take(traps_from_names(traps));
             options.virtual_functions = virtual_functions;
             options.kind = take(device_kind_from_name(kind));
             options.name = name;
             options.arch = arch;
             options.kernels = kernels;
             options.threads = threads;
             options.pace = pace;
             options.timing_only = timing_only;
             if (!(hang_timeout >= 0 && hang_timeout <= 1e9)) {
               fail("a hang_timeout of " + std::to_string(hang_timeout) +
                    " seconds; allowed 0 (none) to 1e9");
             }
             options.hang_timeout =
                 std::chrono::milliseconds(static_cast<std::int64_t>(hang_timeout * 1e3));
             return options;
           }),
           py::arg("kind") = "host", py::kw_only(), py::arg("name") = "",
           py::arg("arch") = "tessera128", py::arg("kernels") = 1, py::arg("threads") = 0,
           py::arg("pace") = 0.0, py::arg("timing_only") = false, py::arg("hang_timeout") = 0.0,
           py::arg("virtual_functions") = 1, py::arg("traps") = "", py::arg("cores") = 1,
           py::arg("cards") = 1, py::arg("split") = "auto",
           py::arg("processor") = VirtualProcessor(), py::arg("cluster") = "");
  py::class_<ModelHandle, std::shared_ptr<ModelHandle>>(module, "Model",
                                                        "A network on devices of a runtime.")
      .def_property_readonly("network", [](ModelHandle& model) { return model->network(); });
}

template <StageKind kind>
void define_model_stage(py::class_<StageObject, std::shared_ptr<StageObject>>& stage) {
  const char* const name = kStageKinds[static_cast<int>(kind)];
  stage.def_static(
      name,
      [](const std::shared_ptr<ModelHandle>& model, const std::string& name, int threads,
         std::size_t capacity,
         std::size_t batch) { return model_stage(kind, model, name, threads, capacity, batch); },
      py::arg("model"), py::kw_only(), py::arg("name") = name, py::arg("threads") = 0,
      py::arg("capacity") = 0, py::arg("batch") = 0);
}

void define_stages(py::module_& module) {
  py::class_<StageObject, std::shared_ptr<StageObject>> stage(
      module, "Stage", "A step of a pipeline, with threads of its own.", collected<StageObject>());
  stage.def(py::init(&host_stage), py::arg("name"), py::arg("function"), py::kw_only(),
            py::arg("threads") = 0, py::arg("capacity") = 0, py::arg("batch") = 0);
  define_model_stage<StageKind::kPre>(stage);
  define_model_stage<StageKind::kPost>(stage);
  stage.def_static(
      "execute",
      [](const std::shared_ptr<ModelHandle>& model, const std::string& name,
         const std::vector<std::string>& devices, int threads, std::size_t capacity,
         std::size_t batch) {
        auto made = model_stage(StageKind::kExecute, model, name, threads, capacity, batch);
        made->options.devices = devices;
        return made;
      },
      py::arg("model"), py::kw_only(), py::arg("name") = "execute",
      py::arg("devices") = std::vector<std::string>(), py::arg("threads") = 0,
      py::arg("capacity") = 0, py::arg("batch") = 0);
  stage.def_static(
      "picture",
      [](const std::shared_ptr<ModelHandle>& model, const std::string& name,
         const std::vector<float>& mean, const std::vector<float>& deviation, bool bgr,
         int threads) {
        auto made = model_stage(StageKind::kHost, model, name, threads, 0, 0);
        made->picture = picture_input(mean, deviation, bgr);
        return made;
      },
      py::arg("model"), py::kw_only(), py::arg("name") = "decode",
      py::arg("mean") = std::vector<float>{0, 0, 0},
      py::arg("deviation") = std::vector<float>{255, 255, 255}, py::arg("bgr") = false,
      py::arg("threads") = 0);
  stage.def_property_readonly("name", [](const StageObject& s) { return s.options.name; });
  stage.def_property_readonly(
      "kind", [](const StageObject& s) { return kStageKinds[static_cast<int>(s.options.kind)]; });
  module.def("default_stages", &default_stages_of, py::arg("model"), py::arg("prefix") = "");
}

void define_pipeline(py::module_& module) {
  py::class_<PipelineObject, std::shared_ptr<PipelineObject>>(
      module, "Pipeline", "Stages in a row, each with threads of its own.",
      collected<PipelineObject>())
      .def(
          "stream",
          [](PipelineObject& pipeline, const std::string& order, int priority) {
            return std::make_shared<StreamObject>(
                pipeline->open_stream(stream_options(order, priority)), pipeline.info,
                pipeline.hold().set());
          },
          py::kw_only(), py::arg("order") = "submission", py::arg("priority") = 0)
      .def("status", &pipeline_status)
      .def(
          "set_threads",
          [](PipelineObject& pipeline, const std::string& stage, int threads) {
            check(unlocked([&] { return pipeline->set_threads(stage, threads); }));
          },
          py::arg("stage"), py::arg("threads"))
      .def(
          "set_kernels",
          [](PipelineObject& pipeline, const std::string& stage, int kernels) {
            check(unlocked([&] { return pipeline->set_kernels(stage, kernels); }));
          },
          py::arg("stage"), py::arg("kernels"))
      .def(
          "set_tuning",
          [](PipelineObject& pipeline, bool on) {
            check(pipeline->usable());
            unlocked([&] { pipeline->set_tuning(on); });
          },
          py::arg("on"))
      .def(
          "set_debug",
          [](PipelineObject& pipeline, const std::string& mode, std::int64_t every) {
            check(pipeline->usable());
            pipeline->set_debug(debug_options(mode, every));
          },
          py::arg("mode"), py::arg("every") = 1)
      .def("wait_until_done", [](PipelineObject& pipeline) {
        check(pipeline->usable());
        unlocked([&] { pipeline->wait_until_done(); });
      });
}

void define_runtime(py::module_& module) {
  py::class_<LiveViewObject, std::shared_ptr<LiveViewObject>>(
      module, "LiveView", "A server of the live page, for as long as this object lives.")
      .def_property_readonly("url", &LiveViewObject::url);
  py::class_<RuntimeHandle, std::shared_ptr<RuntimeHandle>>(module, "Runtime",
                                                            "Devices that work side by side.")
      .def(py::init(&open_runtime), py::arg("devices") = std::nullopt, py::kw_only(),
           py::arg("metrics") = true)
      .def("load", &load_model, py::arg("network"), py::kw_only(),
           py::arg("devices") = std::vector<std::string>(), py::arg("device_form") = false)
      .def("pipeline", &open_pipeline, py::arg("what"))
      .def("operations", &open_operations)
      .def(
          "memory",
          [](RuntimeHandle& runtime, const std::string& device) {
            Memory memory = take(unlocked([&] { return runtime->open_memory(device); }));
            return std::make_shared<MemoryHandle>(MemoryOfRuntime{*runtime, std::move(memory)});
          },
          py::arg("device"))
      .def("devices", &device_list)
      .def(
          "write_trace",
          [](RuntimeHandle& runtime, const std::string& path) {
            check(unlocked([&] { return runtime->write_trace(path); }));
          },
          py::arg("path"))
      .def(
          "write_events",
          [](RuntimeHandle& runtime, const std::string& path) {
            check(unlocked([&] { return runtime->write_events(path); }));
          },
          py::arg("path"))
      .def("prometheus",
           [](RuntimeHandle& runtime) {
             check(runtime->usable());
             return unlocked([&] { return runtime->prometheus(); });
           })
      .def("live_view", &open_live_view,
           py::arg("pipelines") = std::vector<std::shared_ptr<PipelineObject>>(), py::kw_only(),
           py::arg("listen") = "127.0.0.1:0", py::arg("title") = "Tessera");
}

}  // namespace

void define_pipelines(py::module_& module) {
  define_devices(module);
  define_stages(module);
  define_pipeline(module);
  define_runtime(module);
}

}  // namespace tessera::python

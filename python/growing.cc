// Models whose states grow: a session of one sequence, and pipelines of many.
#include <mutex>

#include "tasks.h"
#include "tessera/growing_pipeline.h"

namespace tessera::python {
namespace {

using States = std::vector<std::pair<std::string, std::string>>;

struct GrowingSessionParts {
  explicit GrowingSessionParts(GrowingSession opened) : session(std::move(opened)) {}
  GrowingSession session;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};
using GrowingSessionHandle = Handle<GrowingSessionParts>;
// A pipeline or a stream, and what jobs share.
struct GrowingPipelineParts {
  GrowingPipeline pipeline;
  std::shared_ptr<const PipelineInfo> info;
};
using GrowingPipelineHandle = Handle<GrowingPipelineParts>;
struct GrowingStreamParts {
  GrowingStream stream;
  std::vector<DeclaredShape> inputs;
  std::shared_ptr<const PipelineInfo> info;
};
using GrowingStreamHandle = Handle<GrowingStreamParts>;

// What grows, from the keywords that are the same for a session and a pipeline.
struct GrowingArguments {
  const States& states;
  std::int64_t rows_max, capacity_min;
  const std::string& arch;
  const std::map<std::string, Shape>& shapes;

  GrowingOptions options() const {
    GrowingOptions growing;
    growing.load.arch = arch;
    growing.load.shapes = shapes;
    for (const auto& [input, output] : states) growing.states.push_back({input, output});
    growing.rows_max = rows_max;
    growing.capacity_min = capacity_min;
    return growing;
  }
};

std::shared_ptr<GrowingSessionHandle> open_growing_session(
    const py::object& path, const States& states, const std::string& device, int threads,
    std::int64_t rows_max, std::int64_t capacity_min, const std::string& arch,
    const std::map<std::string, Shape>& shapes, int cores) {
  const GrowingOptions growing =
      GrowingArguments{states, rows_max, capacity_min, arch, shapes}.options();
  const SessionOptions options{
      .device = take(device_kind_from_name(device)), .threads = threads, .cores = cores};
  const std::string text = path_text(path);
  return std::make_shared<GrowingSessionHandle>(GrowingSessionParts(
      take(unlocked([&] { return GrowingSession::open(text, growing, options); }))));
}

Outputs run_growing(GrowingSessionHandle& session, const py::args& arguments) {
  const std::vector<Tensor> inputs = ordered_inputs(session->session.inputs(), arguments);
  const auto begin = std::chrono::steady_clock::now();
  RunResult result = take(unlocked([&] {
    const std::lock_guard lock(*session->mutex);
    return session->session.run(inputs);
  }));
  Outputs made;
  made.names = session->session.output_names();
  made.times.total = std::chrono::steady_clock::now() - begin;
  made.runs.append(to_arrays(std::move(result.outputs)));
  made.cycles = result.cycles;
  made.host_cycles = result.host_cycles;
  made.transfer_cycles = result.transfer_cycles;
  made.value_notes = std::move(result.value_notes);
  return made;
}

// A call of the session's, by one thread at a time.
template <typename Call>
auto of_session(const Call& call) {
  return [call](GrowingSessionHandle& session) {
    return unlocked([&] {
      const std::lock_guard lock(*session->mutex);
      return call(session->session);
    });
  };
}

void keep_rows_of_session(GrowingSessionHandle& session, std::int64_t rows) {
  check(unlocked([&] {
    const std::lock_guard lock(*session->mutex);
    return session->session.keep_rows(rows);
  }));
}

std::shared_ptr<GrowingPipelineHandle> open_growing_pipeline(
    RuntimeHandle& runtime, const py::object& path, const States& states, std::int64_t rows_max,
    std::int64_t capacity_min, const std::string& arch, const std::map<std::string, Shape>& shapes,
    const std::vector<std::string>& devices, std::size_t jobs_max) {
  const GrowingOptions growing =
      GrowingArguments{states, rows_max, capacity_min, arch, shapes}.options();
  GrowingPipelineOptions options;
  options.devices = devices;
  options.pipeline.jobs_max = jobs_max;
  const std::string text = path_text(path);
  auto opened = take(unlocked([&] { return runtime->open_pipeline(text, growing, options); }));
  auto info = std::make_shared<PipelineInfo>();
  info->stages = {"pre", "execute", "post"};
  info->outputs = opened.output_names();
  return std::make_shared<GrowingPipelineHandle>(
      GrowingPipelineParts{std::move(opened), std::move(info)});
}

std::shared_ptr<GrowingStreamHandle> open_growing_stream(GrowingPipelineHandle& pipeline,
                                                         const std::string& device,
                                                         const std::string& order, int priority) {
  auto stream = take(pipeline->pipeline.open_stream(
      {.stream = stream_options(order, priority), .device = device}));
  return std::make_shared<GrowingStreamHandle>(
      GrowingStreamParts{std::move(stream), pipeline->pipeline.inputs(), pipeline->info});
}

py::dict growing_status(GrowingPipelineHandle& pipeline) {
  const GrowingPipelineStatus status = pipeline->pipeline.status();
  py::dict entry;
  entry["streams"] = status.streams;
  entry["submitted"] = status.submitted;
  entry["networks_compiled"] = status.networks_compiled;
  return entry;
}

py::object submit_growing(GrowingStreamHandle& stream, const py::args& inputs,
                          const py::kwargs& keywords) {
  const std::vector<Tensor> tensors = ordered_inputs(stream->inputs, inputs);
  return submitted(keywords, stream->info, [&](SubmitOptions options, bool wait) {
    return wait ? stream->stream.submit_when_room(tensors, std::move(options))
                : stream->stream.submit(tensors, std::move(options));
  });
}

void keep_rows_of_stream(GrowingStreamHandle& stream, std::int64_t rows) {
  check(unlocked([&] { return stream->stream.keep_rows(rows); }));
}

void define_growing_session(py::module_& module) {
  py::class_<GrowingSessionHandle, std::shared_ptr<GrowingSessionHandle>>(
      module, "GrowingSession", "One sequence of a model whose states grow by a row with each run.")
      .def(py::init(&open_growing_session), py::arg("path"), py::arg("states"),
           py::arg("device") = "host", py::arg("threads") = 0, py::kw_only(),
           py::arg("rows_max") = 1024, py::arg("capacity_min") = 64, py::arg("arch") = "tessera128",
           py::arg("shapes") = std::map<std::string, Shape>(), py::arg("cores") = 1)
      .def("run", &run_growing)
      .def("keep_rows", &keep_rows_of_session, py::arg("rows"))
      .def("clear", [](GrowingSessionHandle& session) { keep_rows_of_session(session, 0); })
      .def_property_readonly(
          "inputs",
          [](GrowingSessionHandle& session) { return declared_list(session->session.inputs()); })
      .def_property_readonly("rows", of_session([](GrowingSession& s) { return s.rows(); }))
      .def_property_readonly("capacity", of_session([](GrowingSession& s) { return s.capacity(); }))
      .def_property_readonly("networks_compiled",
                             of_session([](GrowingSession& s) { return s.networks_compiled(); }));
}

void define_growing_pipeline(py::module_& module) {
  py::class_<GrowingPipelineHandle, std::shared_ptr<GrowingPipelineHandle>>(
      module, "GrowingPipeline", "Sequences whose states grow, many on the devices of a runtime.")
      .def(py::init(&open_growing_pipeline), py::arg("runtime"), py::arg("path"), py::arg("states"),
           py::kw_only(), py::arg("rows_max") = 1024, py::arg("capacity_min") = 64,
           py::arg("arch") = "tessera128", py::arg("shapes") = std::map<std::string, Shape>(),
           py::arg("devices") = std::vector<std::string>(), py::arg("jobs_max") = 256)
      .def("stream", &open_growing_stream, py::kw_only(), py::arg("device") = "",
           py::arg("order") = "submission", py::arg("priority") = 0)
      .def("status", &growing_status)
      .def("wait_until_done",
           [](GrowingPipelineHandle& pipeline) {
             unlocked([&] { pipeline->pipeline.wait_until_done(); });
           })
      .def_property_readonly("inputs", [](GrowingPipelineHandle& pipeline) {
        return declared_list(pipeline->pipeline.inputs());
      });
  py::class_<GrowingStreamHandle, std::shared_ptr<GrowingStreamHandle>>(
      module, "GrowingStream", "One sequence, whose tasks append a row each.")
      .def("submit", &submit_growing)
      .def("keep_rows", &keep_rows_of_stream, py::arg("rows"))
      .def("clear", [](GrowingStreamHandle& stream) { keep_rows_of_stream(stream, 0); })
      .def("wait_until_done",
           [](GrowingStreamHandle& stream) { unlocked([&] { stream->stream.wait_until_done(); }); })
      .def_property_readonly("rows",
                             [](GrowingStreamHandle& stream) {
                               return unlocked([&] { return stream->stream.rows(); });
                             })
      .def_property_readonly("capacity",
                             [](GrowingStreamHandle& stream) {
                               return unlocked([&] { return stream->stream.capacity(); });
                             })
      .def_property_readonly("device",
                             [](GrowingStreamHandle& stream) { return stream->stream.device(); })
      .def_property_readonly("id", [](GrowingStreamHandle& stream) { return stream->stream.id(); });
}

}  // namespace

void define_growing(py::module_& module) {
  define_growing_session(module);
  define_growing_pipeline(module);
}

}  // namespace tessera::python

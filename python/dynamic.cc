// Dynamic networks: one model for arrays of many shapes.
#include <mutex>

#include "tasks.h"
#include "tessera/dynamic_network.h"

namespace tessera::python {
namespace {

// Closed in both directions; None: no end.
using Range = std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>>;
using Ranges = std::map<std::string, std::vector<Range>>;
using Buckets = std::map<std::string, std::vector<std::vector<std::int64_t>>>;

struct SessionAndMutex {
  explicit SessionAndMutex(DynamicNetwork of, DynamicSession opened)
      : network(std::move(of)), session(std::move(opened)) {}
  DynamicNetwork network;
  DynamicSession session;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};
using DynamicSessionHandle = Handle<SessionAndMutex>;
using DynamicNetworkHandle = Handle<DynamicNetwork>;

std::map<std::string, std::vector<DimensionRange>> to_ranges(const Ranges& given) {
  std::map<std::string, std::vector<DimensionRange>> ranges;
  for (const auto& [name, dims] : given) {
    for (const auto& [least, most] : dims) {
      ranges[name].push_back({least.value_or(0), most.value_or(INT64_MAX)});
    }
  }
  return ranges;
}

std::shared_ptr<DynamicNetworkHandle> open_dynamic(const py::object& path, const std::string& arch,
                                                   const std::map<std::string, Shape>& shapes,
                                                   const Ranges& ranges, const Buckets& buckets,
                                                   std::int64_t networks_max,
                                                   const std::string& cache_folder,
                                                   std::int64_t cache_bytes_max) {
  DynamicOptions options;
  options.load.arch = arch;
  options.load.shapes = shapes;
  options.ranges = to_ranges(ranges);
  options.buckets = buckets;
  options.networks_max = networks_max;
  options.cache_folder = cache_folder;
  options.cache_bytes_max = cache_bytes_max;
  const std::string text = path_text(path);
  return std::make_shared<DynamicNetworkHandle>(
      take(unlocked([&] { return DynamicNetwork::open(text, options); })));
}

py::list declared_inputs(DynamicNetworkHandle& network) { return declared_list(network->inputs()); }

py::dict counters_of(DynamicNetworkHandle& network) {
  const DynamicCounters counters = network->counters();
  py::dict entry;
  entry["kept"] = counters.kept;
  entry["loaded"] = counters.loaded;
  entry["compiled"] = counters.compiled;
  return entry;
}

std::shared_ptr<DynamicSessionHandle> open_session(DynamicNetworkHandle& network,
                                                   const std::string& device, int threads,
                                                   int cores, std::int64_t sessions_max) {
  const SessionOptions options{
      .device = take(device_kind_from_name(device)), .threads = threads, .cores = cores};
  return std::make_shared<DynamicSessionHandle>(
      SessionAndMutex(*network, take(DynamicSession::open(*network, options, sessions_max))));
}

Outputs run_dynamic(DynamicSessionHandle& session, const py::args& arguments) {
  check(session->session.usable());
  const std::vector<Tensor> inputs = ordered_inputs(session->network.inputs(), arguments);
  const auto begin = std::chrono::steady_clock::now();
  Outputs made;
  RunResult result = take(unlocked([&] {
    const std::lock_guard lock(*session->mutex);
    auto run = session->session.run(inputs);
    made.names = session->session.output_names();
    return run;
  }));
  made.times.total = std::chrono::steady_clock::now() - begin;
  made.runs.append(to_arrays(std::move(result.outputs)));
  made.cycles = result.cycles;
  made.host_cycles = result.host_cycles;
  made.transfer_cycles = result.transfer_cycles;
  made.value_notes = std::move(result.value_notes);
  return made;
}

}  // namespace

std::string path_text(const py::object& path) {
  return py::module_::import("os").attr("fsencode")(path).cast<std::string>();
}

py::list declared_list(const std::vector<DeclaredShape>& inputs) {
  py::list list;
  for (const DeclaredShape& input : inputs) {
    list.append(py::make_tuple(input.name, dtype_name(input.format), py::cast(input.dims)));
  }
  return list;
}

void define_dynamic(py::module_& module) {
  py::class_<DynamicNetworkHandle, std::shared_ptr<DynamicNetworkHandle>>(
      module, "DynamicNetwork", "One model for inputs of many shapes, compiled as they come.")
      .def(py::init(&open_dynamic), py::arg("path"), py::kw_only(), py::arg("arch") = "tessera128",
           py::arg("shapes") = std::map<std::string, Shape>(), py::arg("ranges") = Ranges(),
           py::arg("buckets") = Buckets(), py::arg("networks_max") = 16,
           py::arg("cache_folder") = "", py::arg("cache_bytes_max") = std::int64_t{4} << 30)
      .def_property_readonly("inputs", &declared_inputs)
      .def_property_readonly(
          "deciding_inputs",
          [](DynamicNetworkHandle& network) { return network->deciding_inputs(); })
      .def_property_readonly("counters", &counters_of);
  py::class_<DynamicSessionHandle, std::shared_ptr<DynamicSessionHandle>>(
      module, "DynamicSession", "A dynamic network on one device, one run after the other.")
      .def(py::init(&open_session), py::arg("network"), py::arg("device") = "host",
           py::arg("threads") = 0, py::kw_only(), py::arg("cores") = 1, py::arg("sessions_max") = 4)
      .def("run", &run_dynamic);
}

}  // namespace tessera::python

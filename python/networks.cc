// Arrays and tensors, networks, sessions and pictures.
//
//   array ─► Tensor        one copy, since a task owns its inputs
//   Tensor ─► array        none: the array keeps the tensor
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "formats.h"
#include "tasks.h"

namespace tessera::python {
namespace {

// NumPy's kind of number and its bytes.
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

Error other_input(const TensorDescription& wanted, Format format, const Shape& dims) {
  const auto text = [](Format f, const Shape& shape) {
    std::string extents;
    for (const std::int64_t extent : shape) {
      extents += (extents.empty() ? "" : "x") + std::to_string(extent);
    }
    return std::string(format_name(f)) + " [" + extents + "]";
  };
  return {ErrorCode::kInvalidArgument, "input '" + wanted.name + "': found " + text(format, dims) +
                                           ", the model takes " + text(wanted.format, wanted.dims)};
}

// Arrays in this order, or one dict by name, as tensors that the network takes.
std::vector<Tensor> session_inputs(const std::vector<TensorDescription>& wanted,
                                   const py::args& arguments) {
  std::vector<Tensor> inputs = ordered_inputs(wanted, arguments);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& tensor = inputs[i];
    if (tensor.format == wanted[i].format && tensor.dims == wanted[i].dims) continue;
    fail(other_input(wanted[i], tensor.format, tensor.dims));
  }
  return inputs;
}

// A session belongs to one thread at a time, and without the lock there may be several.
struct SessionAndNetwork {
  SessionAndNetwork(Network what, Session opened)
      : network(std::move(what)), session(std::move(opened)) {}
  Network network;
  Session session;
  std::vector<std::size_t> state_inputs, state_outputs;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};
using SessionHandle = Handle<SessionAndNetwork>;

// Those that are no states of the session.
std::vector<TensorDescription> others(const std::vector<TensorDescription>& tensors,
                                      const std::vector<std::size_t>& states) {
  std::vector<TensorDescription> list;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (std::find(states.begin(), states.end(), i) == states.end()) list.push_back(tensors[i]);
  }
  return list;
}

struct SessionOutputs {
  std::vector<Tensor> tensors;  // those that are filled by the library
  std::vector<TensorView> views;
  std::vector<std::span<std::byte>> bytes;
};

// New tensors, or arrays of the caller's to be filled.
SessionOutputs session_outputs(const std::vector<TensorDescription>& wanted,
                               const py::object& given) {
  SessionOutputs outputs;
  if (given.is_none()) {
    for (const TensorDescription& output : wanted) {
      outputs.tensors.push_back(Tensor::zeros(output.format, output.dims));
    }
    for (Tensor& tensor : outputs.tensors) outputs.bytes.emplace_back(tensor.bytes);
    return outputs;
  }
  for (const py::handle& array : given) {
    const std::size_t i = outputs.views.size();
    auto view = i < wanted.size() ? to_view(array, wanted[i].format, true) : std::nullopt;
    if (!view || view->format != wanted[i].format || view->dims != wanted[i].dims) {
      fail("out: array " + std::to_string(i) +
           " may not be written, or has another dtype or shape than the network's output");
    }
    outputs.bytes.push_back(view->bytes);
    outputs.views.push_back(std::move(*view));
  }
  return outputs;
}

// Arrays are read where they lie; what is not what the network takes becomes it by a copy.
Outputs run_session(SessionHandle& session, const py::args& arguments, const py::kwargs& keywords) {
  // Before the lock, which another thread may have held when this process was forked off.
  check(session->session.usable());
  const Network& network = session->network;
  const auto inputs = others(network.inputs(), session->state_inputs);
  const auto wanted = others(network.outputs(), session->state_outputs);
  std::vector<TensorView> views;
  if (!(arguments.size() == 1 && py::isinstance<py::dict>(arguments[0]))) {
    for (std::size_t i = 0; i < arguments.size() && i < inputs.size(); ++i) {
      auto view = to_view(arguments[i], inputs[i].format, false);
      if (!view || view->format != inputs[i].format || view->dims != inputs[i].dims) break;
      views.push_back(std::move(*view));
    }
  }
  std::vector<Tensor> copies;
  std::vector<std::span<const std::byte>> from;
  if (views.size() == inputs.size() && arguments.size() == inputs.size()) {
    for (const TensorView& view : views) from.emplace_back(view.bytes);
  } else {
    copies = session_inputs(inputs, arguments);
    for (const Tensor& copy : copies) from.emplace_back(copy.bytes);
  }
  SessionOutputs outputs =
      session_outputs(wanted, keywords.contains("out") ? py::object(keywords["out"]) : py::none());
  const auto begin = std::chrono::steady_clock::now();
  RunResult result = take(unlocked([&] {
    const std::lock_guard lock(*session->mutex);
    return session->session.run_into(from, outputs.bytes);
  }));
  Outputs made;
  made.times.total = std::chrono::steady_clock::now() - begin;
  if (outputs.views.empty()) {
    made.runs.append(to_arrays(std::move(outputs.tensors)));
  } else {
    made.runs.append(py::list(keywords["out"]));
  }
  for (const TensorDescription& output : wanted) made.names.push_back(output.name);
  made.cycles = result.cycles;
  made.host_cycles = result.host_cycles;
  made.transfer_cycles = result.transfer_cycles;
  made.value_notes = std::move(result.value_notes);
  return made;
}

void bind_session(SessionHandle& session, const py::iterable& bindings) {
  const std::vector<StateBinding> list = to_bindings(bindings);
  check(session->session.usable());
  const std::lock_guard lock(*session->mutex);
  check(session->session.bind_states(list));
  session->state_inputs.clear();
  session->state_outputs.clear();
  for (const StateBinding& binding : list) {
    session->state_inputs.push_back(binding.input);
    session->state_outputs.push_back(binding.output);
  }
}

py::dict session_traffic(SessionHandle& session) {
  const SessionTraffic traffic = session->session.traffic();
  py::dict entry;
  entry["bytes_in"] = traffic.bytes_in;
  entry["bytes_out"] = traffic.bytes_out;
  entry["bytes_copied"] = traffic.bytes_copied;
  return entry;
}

// ---------------------------------------------------------------- several networks on one core

struct SharedAndNetworks {
  SharedAndNetworks(std::vector<Network> what, SharedSession opened)
      : networks(std::move(what)), session(std::move(opened)) {}
  std::vector<Network> networks;
  SharedSession session;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
};
using SharedHandle = Handle<SharedAndNetworks>;

// One of `values` for each network, or none.
template <typename T>
T one_of(const std::vector<T>& values, std::size_t network, std::size_t networks,
         const char* what) {
  if (values.empty()) return T{};
  if (values.size() == networks) return values[network];
  fail(std::string(what) + ": " + std::to_string(values.size()) + " given for " +
       std::to_string(networks) + " networks; give one for each");
}

std::shared_ptr<SharedHandle> open_shared(const std::vector<Network>& networks,
                                          const std::vector<std::int32_t>& priorities,
                                          const std::vector<double>& arrivals_us,
                                          const std::vector<double>& shares, bool timing_only,
                                          bool check_hazards, const std::string& traps) {
  std::vector<SharedNetwork> list;
  for (std::size_t n = 0; n < networks.size(); ++n) {
    list.push_back({.network = networks[n],
                    .priority = one_of(priorities, n, networks.size(), "priorities"),
                    .arrival_us = one_of(arrivals_us, n, networks.size(), "arrivals_us"),
                    .share = one_of(shares, n, networks.size(), "shares")});
  }
  SharedSessionOptions options{.timing_only = timing_only, .check_hazards = check_hazards};
  if (!traps.empty()) options.traps = take(traps_from_names(traps));
  return std::make_shared<SharedHandle>(SharedAndNetworks(
      networks, take(unlocked([&] { return SharedSession::open(list, options); }))));
}

// Of each network a list of arrays, or a dict by name.
py::dict run_shared(SharedHandle& shared, const py::args& arguments) {
  const std::vector<Network>& networks = shared->networks;
  if (arguments.size() != networks.size()) {
    fail("inputs of " + std::to_string(arguments.size()) + " networks, the session has " +
         std::to_string(networks.size()));
  }
  std::vector<std::vector<Tensor>> inputs;
  for (std::size_t n = 0; n < networks.size(); ++n) {
    const py::object given = arguments[n];
    const py::args one = py::isinstance<py::dict>(given) ? py::args(py::make_tuple(given))
                                                         : py::args(py::tuple(given));
    inputs.push_back(session_inputs(networks[n].inputs(), one));
  }
  SharedRunResult result = take(unlocked([&] {
    const std::lock_guard lock(*shared->mutex);
    return shared->session.run(inputs);
  }));
  py::list list;
  for (SharedNetworkResult& network : result.networks) {
    py::dict entry;
    entry["outputs"] = to_arrays(std::move(network.result.outputs));
    entry["error"] = network.status.ok() ? py::object(py::none())
                                         : py::object(py::str(network.status.error().message));
    entry["arrival"] = network.arrival;
    entry["end"] = network.end;
    entry["host_cycles"] = network.result.host_cycles;
    entry["transfer_cycles"] = network.result.transfer_cycles;
    list.append(std::move(entry));
  }
  py::dict all;
  all["cycles"] = result.cycles;
  all["networks"] = std::move(list);
  return all;
}

using NamedArrays = std::map<std::string, py::array>;

std::map<std::string, Tensor> to_named_tensors(const NamedArrays& arrays, const std::string& what) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, array] : arrays) {
    std::string place = what;
    place.append(" '").append(name).append("'");
    tensors[name] = to_tensor(array, std::nullopt, place);
  }
  return tensors;
}

constexpr double kDeadlineMax = 1e9;  // seconds

// A path, or what lies in memory: bytes, a memoryview, an array of bytes.
Network load_network(const py::object& source, const std::string& arch,
                     const std::map<std::string, Shape>& shapes, const NamedArrays& constants,
                     bool require_full_offload, const std::string& folder, double region_share,
                     const std::string& weights_file, std::optional<double> deadline,
                     const py::object& layer_formats) {
  LoadOptions options;
  options.layer_formats = to_layer_formats(layer_formats);
  if (deadline) {
    if (!(*deadline > 0 && *deadline <= kDeadlineMax)) {
      fail("deadline is " + std::to_string(*deadline) +
           " seconds, allowed above 0 and at most 1e9");
    }
    options.deadline = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                           std::chrono::duration<double>(*deadline));
  }
  options.arch = arch;
  options.shapes = shapes;
  options.constants = to_named_tensors(constants, "constant");
  options.require_full_offload = require_full_offload;
  options.folder = folder;
  options.weights_file = weights_file;
  options.region_share = region_share;
  if (PyObject_CheckBuffer(source.ptr()) == 0) {
    const std::string text = path_text(py::reinterpret_borrow<py::object>(source));
    return take(unlocked([&] { return Network::load(text, options); }));
  }
  const py::buffer_info view = py::reinterpret_borrow<py::buffer>(source).request();
  if (PyBuffer_IsContiguous(view.view(), 'C') == 0) {
    fail("the bytes of the network do not lie one behind the other");
  }
  const auto* const first = static_cast<const std::byte*>(view.ptr);
  const auto bytes = static_cast<std::size_t>(view.size * view.itemsize);
  return take(unlocked([&] { return Network::load_bytes({first, bytes}, options); }));
}

// ------------------------------------------------------------------------------------ pictures

Picture to_picture(const py::array& array) {
  const Tensor tensor = to_tensor(array, Format::kU8, "the picture");
  if (tensor.format != Format::kU8 || tensor.dims.size() != 3 || tensor.dims[2] != 3 ||
      tensor.bytes.empty()) {
    fail("a picture is an array of uint8 with the shape (height, width, 3)");
  }
  Picture picture = Picture::blank(tensor.dims[1], tensor.dims[0], 0);
  std::memcpy(picture.rgb.data(), tensor.bytes.data(), tensor.bytes.size());
  return picture;
}

py::array picture_array(const Picture& picture) {
  Tensor tensor = Tensor::zeros(Format::kU8, {picture.height, picture.width, 3});
  std::memcpy(tensor.bytes.data(), picture.rgb.data(), tensor.bytes.size());
  return to_array(std::move(tensor));
}

py::array resize_picture(const py::array& array, std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1 || width > 100'000'000 / height) {
    fail("a picture of " + std::to_string(width) + "x" + std::to_string(height) +
         "; allowed 1x1 to 100 million pixels");
  }
  const Picture picture = to_picture(array);
  return picture_array(unlocked([&] { return resize(picture, width, height); }));
}

py::array make_picture_input(const py::array& array, const Network& network, std::size_t input,
                             const PictureInput& how) {
  if (input >= network.inputs().size()) {
    fail("input " + std::to_string(input) + " of a network with " +
         std::to_string(network.inputs().size()));
  }
  const Picture picture = to_picture(array);
  return to_array(
      take(unlocked([&] { return picture_tensor(picture, network.inputs()[input], how); })));
}

void define_pictures(py::module_& module) {
  module.def(
      "read_picture",
      [](const std::string& path) {
        return picture_array(take(unlocked([&] { return read_picture(path); })));
      },
      py::arg("path"));
  module.def(
      "write_png",
      [](const std::string& path, const py::array& picture) {
        const Picture pixels = to_picture(picture);
        check(unlocked([&] { return write_png(path, pixels); }));
      },
      py::arg("path"), py::arg("picture"));
  module.def("resize_picture", &resize_picture, py::arg("picture"), py::arg("width"),
             py::arg("height"));
  module.def(
      "picture_input",
      [](const py::array& picture, const Network& network, std::size_t input,
         const std::vector<float>& mean, const std::vector<float>& deviation, bool bgr) {
        return make_picture_input(picture, network, input, picture_input(mean, deviation, bgr));
      },
      py::arg("picture"), py::arg("network"), py::arg("input") = 0, py::kw_only(),
      py::arg("mean") = std::vector<float>{0, 0, 0},
      py::arg("deviation") = std::vector<float>{255, 255, 255}, py::arg("bgr") = false);
}

}  // namespace

std::string dtype_name(Format format) {
  for (const NumpyType& type : kNumpyTypes) {
    if (type.format == format) return type.name;
  }
  return "none";
}

Format format_named(const std::string& dtype) {
  if (dtype == "bfloat16") return Format::kBf16;
  std::string known;
  for (const NumpyType& type : kNumpyTypes) {
    if (type.format == Format::kBf16) continue;
    if (dtype == type.name) return type.format;
    known += std::string(type.name) + ", ";
  }
  fail("the dtype '" + dtype + "' is none of " + known + "bfloat16");
}

// Rows that are not contiguous are copied first, by NumPy.
Tensor to_tensor(const py::handle& value, std::optional<Format> wanted, const std::string& what) {
  const py::array dense = py::array::ensure(value, py::array::c_style);
  if (!dense) {
    PyErr_Clear();
    const auto view = to_view(value, wanted, false);
    if (!view) fail(what + " is no array of numbers");
    return {view->format, view->dims, {view->bytes.begin(), view->bytes.end()}};
  }
  Tensor tensor;
  tensor.format = format_of(dense, wanted, what);
  tensor.dims.assign(dense.shape(), dense.shape() + dense.ndim());
  tensor.bytes.resize(static_cast<std::size_t>(dense.nbytes()));
  if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), dense.data(), tensor.bytes.size());
  return tensor;
}

std::vector<Tensor> to_tensors(const py::handle& values, const Network* network,
                               const std::string& what) {
  if (!py::isinstance<py::list>(values) && !py::isinstance<py::tuple>(values)) {
    fail(what + " is a " + py::str(py::type::of(values).attr("__name__")).cast<std::string>() +
         "; needed: a list of arrays");
  }
  std::vector<Tensor> tensors;
  for (const py::handle& value : values) {
    const std::size_t i = tensors.size();
    const bool known = network != nullptr && i < network->inputs().size();
    tensors.push_back(to_tensor(value,
                                known ? std::optional(network->inputs()[i].format) : std::nullopt,
                                what + ", array " + std::to_string(i)));
  }
  return tensors;
}

py::array to_array(Tensor tensor) {
  auto owned = std::make_unique<Tensor>(std::move(tensor));
  Tensor& kept = *owned;
  const py::capsule owner(owned.release(), [](void* gone) { delete static_cast<Tensor*>(gone); });
  return py::array(py::dtype(dtype_name(kept.format)),
                   std::vector<py::ssize_t>(kept.dims.begin(), kept.dims.end()), kept.bytes.data(),
                   owner);
}

py::list to_arrays(std::vector<Tensor> tensors) {
  py::list arrays;
  for (Tensor& tensor : tensors) arrays.append(to_array(std::move(tensor)));
  return arrays;
}

std::vector<Tensor> to_inputs(const Network* network, const py::args& arguments) {
  const bool named = arguments.size() == 1 && py::isinstance<py::dict>(arguments[0]);
  if (named && network == nullptr) {
    fail(
        "inputs by name are for pipelines that begin with a model; this one begins with a "
        "function");
  }
  if (network != nullptr) return ordered_inputs(network->inputs(), arguments);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    inputs.push_back(to_tensor(arguments[i], std::nullopt, "input " + std::to_string(i)));
  }
  return inputs;
}

py::list descriptions(const std::vector<TensorDescription>& tensors) {
  py::list list;
  for (const TensorDescription& tensor : tensors) {
    list.append(
        py::make_tuple(tensor.name, dtype_name(tensor.format), py::tuple(py::cast(tensor.dims))));
  }
  return list;
}

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

PictureInput picture_input(const std::vector<float>& mean, const std::vector<float>& deviation,
                           bool bgr) {
  if (mean.size() != 3 || deviation.size() != 3) {
    fail("mean and deviation have a number for each of the 3 channels");
  }
  PictureInput how;
  std::copy(mean.begin(), mean.end(), how.mean);
  std::copy(deviation.begin(), deviation.end(), how.deviation);
  how.bgr = bgr;
  return how;
}

void define_networks(py::module_& module) {
  py::class_<Network>(module, "Network",
                      "A model, a package or a program, ready to run. Never changes.")
      .def(py::init(&load_network), py::arg("path"), py::kw_only(), py::arg("arch") = "tessera128",
           py::arg("shapes") = std::map<std::string, Shape>(), py::arg("constants") = NamedArrays(),
           py::arg("require_full_offload") = false, py::arg("folder") = "",
           py::arg("region_share") = 1.0, py::arg("weights_file") = "",
           py::arg("deadline") = py::none(), py::arg("layer_formats") = py::none())
      .def_property_readonly("inputs", [](const Network& n) { return descriptions(n.inputs()); })
      .def_property_readonly("outputs", [](const Network& n) { return descriptions(n.outputs()); })
      .def_property_readonly("nodes_on_processor",
                             [](const Network& n) { return n.placement().nodes_on_processor; })
      .def_property_readonly("nodes_on_host",
                             [](const Network& n) { return n.placement().nodes_on_host; })
      .def(
          "save_package",
          [](const Network& n, const std::string& path) {
            check(unlocked([&] { return n.save_package(path); }));
          },
          py::arg("path"));
  py::class_<SessionHandle, std::shared_ptr<SessionHandle>>(
      module, "Session", "A network on one device, one run after the other.")
      .def(py::init([](const Network& network, const std::string& device, int threads,
                       const std::string& traps, int cores, int cards, const std::string& split,
                       const VirtualProcessor& processor) {
             const bool is_remote = device.starts_with("cluster:");
             SessionOptions options{
                 .device = is_remote ? DeviceKind::kSim : take(device_kind_from_name(device)),
                 .threads = threads,
                 .cores = cores,
                 .cards = cards,
                 .split = take(core_split_from_name(split)),
                 .processor = processor,
                 .cluster = is_remote ? device : ""};
             if (!traps.empty()) options.traps = take(traps_from_names(traps));
             return std::make_shared<SessionHandle>(SessionAndNetwork(
                 network, take(unlocked([&] { return Session::open(network, options); }))));
           }),
           py::arg("network"), py::arg("device") = "host", py::arg("threads") = 0, py::kw_only(),
           py::arg("traps") = "", py::arg("cores") = 1, py::arg("cards") = 1,
           py::arg("split") = "auto", py::arg("processor") = VirtualProcessor())
      .def("run", &run_session)
      .def("bind_states", &bind_session, py::arg("bindings"))
      .def_property_readonly("traffic", &session_traffic);
  py::class_<SharedHandle, std::shared_ptr<SharedHandle>>(
      module, "SharedSession", "Several networks on one core of the virtual processor.")
      .def(py::init(&open_shared), py::arg("networks"), py::kw_only(),
           py::arg("priorities") = std::vector<std::int32_t>(),
           py::arg("arrivals_us") = std::vector<double>(),
           py::arg("shares") = std::vector<double>(), py::arg("timing_only") = false,
           py::arg("check_hazards") = false, py::arg("traps") = "")
      .def("run", &run_shared);
  module.def("load", &load_network, py::arg("source"), py::kw_only(),
             py::arg("arch") = "tessera128", py::arg("shapes") = std::map<std::string, Shape>(),
             py::arg("constants") = NamedArrays(), py::arg("require_full_offload") = false,
             py::arg("folder") = "", py::arg("region_share") = 1.0, py::arg("weights_file") = "",
             py::arg("deadline") = py::none(), py::arg("layer_formats") = py::none(),
             "The Network of a path, or of bytes.");
  define_pictures(module);
}

}  // namespace tessera::python

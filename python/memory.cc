// Memory that host and device hold together, the layers of a network on it, single operations.
#include "tasks.h"

namespace tessera::python {
namespace {

// The block's bytes as an array; the array keeps the block.
py::array block_array(const py::object& self, const std::string& dtype,
                      const std::optional<std::vector<py::ssize_t>>& shape) {
  const auto bytes = self.cast<const Block&>().bytes();
  const py::dtype type(dtype);
  const auto size = static_cast<py::ssize_t>(bytes.size());
  const std::vector<py::ssize_t> dims =
      shape.has_value() ? *shape : std::vector<py::ssize_t>{size / type.itemsize()};
  py::ssize_t needed = type.itemsize();
  for (const py::ssize_t extent : dims) {
    if (extent < 0 || __builtin_mul_overflow(needed, extent, &needed)) fail("a negative extent");
  }
  if (type.attr("hasobject").cast<bool>() || needed != size) {
    fail("an array of " + std::to_string(needed) + " bytes; the block has " + std::to_string(size));
  }
  return py::array(type, dims, bytes.data(), self);
}

// Of a number of bytes, or of a tensor.
Block allocate(MemoryHandle& memory, const py::object& size,
               const std::optional<std::string>& dtype) {
  if (!dtype.has_value()) {
    const auto bytes = size.cast<std::int64_t>();
    return take(unlocked([&] { return memory->memory.allocate(bytes); }));
  }
  TensorDescription tensor;
  tensor.format = format_named(*dtype);
  tensor.dims = size.cast<Shape>();
  return take(unlocked([&] { return memory->memory.allocate(tensor); }));
}

Block upload(MemoryHandle& memory, const py::object& array) {
  Tensor tensor = to_tensor(array, std::nullopt, "the array");
  return take(unlocked([&] { return memory->memory.upload(std::move(tensor)); }));
}

Block wrap(MemoryHandle& memory, const py::object& array) {
  auto view = to_view(array, std::nullopt, true);
  if (!view) {
    fail(
        "memory to wrap is an array that may be written, of numbers, with its rows one behind the "
        "other, by the buffer protocol or DLPack");
  }
  return take(unlocked([&] {
    return memory->memory.wrap(view->bytes, {"", view->format, view->dims}, std::move(view->owner));
  }));
}

py::list layer_list(const Layers& layers) {
  py::list list;
  for (const Layer& layer : layers.list()) {
    py::dict entry;
    entry["name"] = layer.name;
    entry["inputs"] = descriptions(layer.inputs);
    entry["outputs"] = descriptions(layer.outputs);
    entry["weight_offset"] = layer.weight_offset;
    entry["weight_bytes"] = layer.weight_bytes;
    list.append(entry);
  }
  return list;
}

using Extents = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
operations::ImageSize image_of(const Extents& image) {
  return {std::get<0>(image), std::get<1>(image), std::get<2>(image)};
}

void define_operations(py::module_& module) {
  py::class_<OperationBox>(module, "Operation",
                           "One of the four functions of a simple accelerator.")
      .def_static(
          "im2col",
          [](const Extents& image, std::int64_t size, std::int64_t stride, std::int64_t pad) {
            return OperationBox{operations::Im2col{image_of(image), {size, stride, pad}}};
          },
          py::arg("image"), py::arg("size"), py::arg("stride") = 1, py::arg("pad") = 0)
      .def_static(
          "matrix_product",
          [](std::int64_t rows, std::int64_t inner, std::int64_t columns) {
            return OperationBox{operations::MatrixProduct{rows, inner, columns}};
          },
          py::arg("rows"), py::arg("inner"), py::arg("columns"))
      .def_static(
          "relu",
          [](std::int64_t rows, std::int64_t columns) {
            return OperationBox{operations::Relu{rows, columns}};
          },
          py::arg("rows"), py::arg("columns"))
      .def_static(
          "maximum_pool",
          [](const Extents& image, std::int64_t size, std::int64_t stride, std::int64_t pad) {
            return OperationBox{operations::MaximumPool{image_of(image), {size, stride, pad}}};
          },
          py::arg("image"), py::arg("size"), py::arg("stride") = 1, py::arg("pad") = 0);
}

}  // namespace

std::variant<Tensor, TensorView, Block> to_input(const py::handle& value,
                                                 std::optional<Format> wanted,
                                                 const std::string& what, bool copy) {
  if (py::isinstance<Block>(value)) return value.cast<Block>();
  if (!copy) {
    auto view = to_view(value, wanted, false);
    if (view && (!wanted || view->format == *wanted)) return std::move(*view);
  }
  return to_tensor(value, wanted, what);
}

NetworkTask to_network_task(const Network* network, const py::args& arguments, bool copy) {
  NetworkTask task;
  if (arguments.size() == 1 && py::isinstance<py::dict>(arguments[0])) {
    if (network == nullptr) {
      fail(
          "inputs by name are for pipelines that begin with a model; this one begins with a "
          "function");
    }
    const py::dict by_name(arguments[0]);
    std::size_t known = 0;
    for (const TensorDescription& input : network->inputs()) {
      if (!by_name.contains(input.name)) continue;  // a state, or missed when it runs
      ++known;
      task.inputs.push_back(
          to_input(by_name[input.name.c_str()], input.format, "input '" + input.name + "'", copy));
    }
    if (known != by_name.size()) fail("an input by a name that the model has not");
    return task;
  }
  // Where states are left out it is unknown here which format belongs to which.
  const bool known = network != nullptr && arguments.size() == network->inputs().size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    task.inputs.push_back(to_input(
        arguments[i], known ? std::optional(network->inputs()[i].format) : std::nullopt,
        known ? "input '" + network->inputs()[i].name + "'" : "input " + std::to_string(i), copy));
  }
  return task;
}

std::vector<NetworkOutput> to_outputs(const py::object& outputs, bool fetch) {
  std::vector<NetworkOutput> list;
  if (outputs.is_none()) return list;
  for (const py::handle& wanted : outputs) {
    NetworkOutput& output = list.emplace_back();
    if (wanted.is_none()) continue;
    if (py::isinstance<Block>(wanted)) {
      output.block = wanted.cast<Block>();
      output.fetch = fetch;
    } else if (py::isinstance<py::str>(wanted) && wanted.cast<std::string>() == "keep") {
      output.keep = true;
      output.fetch = fetch;
    } else {
      output.view = to_view(wanted, std::nullopt, true);
      if (!output.view) {
        fail("output " + std::to_string(list.size() - 1) +
             " goes to None, a block, \"keep\", or an array that may be written, with its rows "
             "one behind the other");
      }
    }
  }
  return list;
}

std::vector<StateBinding> to_bindings(const py::iterable& bindings) {
  std::vector<StateBinding> list;
  for (const py::handle& entry : bindings) {
    const py::tuple binding(py::reinterpret_borrow<py::object>(entry));
    if (binding.size() < 2 || binding.size() > 3) {
      fail("a state is (output, input) or (output, input, initial value)");
    }
    StateBinding& state = list.emplace_back();
    state.output = binding[0].cast<std::size_t>();
    state.input = binding[1].cast<std::size_t>();
    if (binding.size() == 3) state.initial = to_tensor(binding[2], std::nullopt, "the state");
  }
  return list;
}

void define_memory(py::module_& module) {
  py::class_<Block>(module, "Block", "Bytes that host and device hold together.",
                    py::buffer_protocol())
      .def_buffer(&block_buffer)
      .def("__dlpack__",
           [](Block& block, const py::args&, const py::kwargs&) { return block_capsule(block); })
      .def("__dlpack_device__", [](const Block&) { return py::make_tuple(1, 0); })
      .def_property_readonly("dtype", [](const Block& block) { return dtype_name(block.format()); })
      .def_property_readonly("shape",
                             [](const Block& block) { return py::tuple(py::cast(block.dims())); })
      .def_property_readonly("dense_shape",
                             [](const Block& block) -> py::object {
                               if (block.dense_dims().empty()) return py::none();
                               return py::tuple(py::cast(block.dense_dims()));
                             })
      .def_property_readonly("device", [](const Block& block) { return block.device(); })
      .def("array", &block_array, py::arg("dtype") = "float16", py::arg("shape") = std::nullopt)
      .def_property_readonly("nbytes", [](const Block& block) { return block.bytes().size(); })
      .def("wrote", [](Block& block) { check(unlocked([&] { return block.wrote(); })); })
      .def("fetch", [](Block& block) { check(unlocked([&] { return block.fetch(); })); });
  py::class_<Layers>(module, "Layers", "A network on a device, layer by layer.")
      .def("__len__", [](const Layers& layers) { return layers.list().size(); })
      .def_property_readonly("descriptions", &layer_list);
  py::class_<MemoryHandle, std::shared_ptr<MemoryHandle>>(module, "Memory",
                                                          "The memory of one device.")
      .def_property_readonly("device", [](MemoryHandle& memory) { return memory->memory.device(); })
      .def("allocate", &allocate, py::arg("size"), py::arg("dtype") = std::nullopt)
      .def("upload", &upload, py::arg("array"))
      .def("wrap", &wrap, py::arg("array"))
      .def(
          "load",
          [](MemoryHandle& memory, const Network& network) {
            return take(
                unlocked([&] { return memory->runtime.load_layers(network, memory->memory); }));
          },
          py::arg("network"));
  define_operations(module);
}

}  // namespace tessera::python

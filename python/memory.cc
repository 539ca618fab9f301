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

void define_memory(py::module_& module) {
  py::class_<Block>(module, "Block", "Bytes that host and device hold together.")
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
      .def(
          "allocate",
          [](MemoryHandle& memory, std::int64_t nbytes) {
            return take(unlocked([&] { return memory->memory.allocate(nbytes); }));
          },
          py::arg("nbytes"))
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

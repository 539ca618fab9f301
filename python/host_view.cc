// Memory of Python's without a copy: objects with the buffer protocol or DLPack as tensors, and
// blocks as both.
#include <algorithm>

#include "dlpack.h"
#include "tasks.h"

namespace tessera::python {
namespace {

struct DenseType {
  Format format;
  dlpack::TypeCode code;
};
constexpr DenseType kDenseTypes[] = {
    {Format::kF16, dlpack::kFloat},    {Format::kBf16, dlpack::kBfloat},
    {Format::kF32, dlpack::kFloat},    {Format::kF64, dlpack::kFloat},
    {Format::kI8, dlpack::kInt},       {Format::kI16, dlpack::kInt},
    {Format::kI32, dlpack::kInt},      {Format::kI64, dlpack::kInt},
    {Format::kU8, dlpack::kUnsigned},  {Format::kU16, dlpack::kUnsigned},
    {Format::kU32, dlpack::kUnsigned}, {Format::kU64, dlpack::kUnsigned},
    {Format::kBool, dlpack::kBool}};

dlpack::DataType dense_type(Format format) {
  for (const DenseType& type : kDenseTypes) {
    if (type.format != format) continue;
    return {type.code, static_cast<std::uint8_t>(8 * format_bytes(format)), 1};
  }
  return {};
}

// Of the buffer protocol: a letter, after what says the order of bytes.
std::optional<Format> format_of_buffer(const std::string& text, std::int64_t item,
                                       std::optional<Format> wanted) {
  const bool prefixed = text.size() == 2 && std::string_view("@=<").find(text[0]) != text.npos;
  if (text.size() != 1 && !prefixed) return std::nullopt;
  const auto is_one_of = [&](std::string_view letters) {
    return letters.find(text.back()) != std::string_view::npos;
  };
  for (const DenseType& type : kDenseTypes) {
    const bool same = type.code == dlpack::kFloat ? is_one_of("efd")
                      : type.code == dlpack::kInt ? is_one_of("bhilqn")
                      : type.code == dlpack::kUnsigned
                          ? is_one_of("BHILQN")
                          : type.code == dlpack::kBool && is_one_of("?");
    if (!same || format_bytes(type.format) != item) continue;
    return type.format == Format::kU16 && wanted == Format::kBf16 ? Format::kBf16 : type.format;
  }
  return std::nullopt;
}

bool is_dense(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& strides) {
  std::int64_t stride = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] != 1 && strides[axis] != stride) return false;
    stride *= dims[axis];
  }
  return true;
}

// Given up with the lock held, wherever the last owner goes; where Python is ending, never.
template <typename T, typename Delete>
std::shared_ptr<void> owned_by_python(T* what, Delete give_up) {
  return {static_cast<void*>(what), [give_up](void* gone) {
            const Entry python;
            if (python) give_up(static_cast<T*>(gone));
          }};
}

std::optional<TensorView> view_of_buffer(const py::handle& value, std::optional<Format> wanted,
                                         bool writable) {
  auto buffer = std::make_unique<Py_buffer>();
  const int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(value.ptr(), buffer.get(), flags) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  TensorView view;
  view.bytes = {static_cast<std::byte*>(buffer->buf), static_cast<std::size_t>(buffer->len)};
  view.dims.assign(buffer->shape, buffer->shape + buffer->ndim);
  const std::string text = buffer->format == nullptr ? "B" : buffer->format;
  const py::ssize_t item = buffer->itemsize;
  view.owner = owned_by_python(buffer.release(), [](Py_buffer* gone) {
    PyBuffer_Release(gone);
    delete gone;
  });
  const std::optional<Format> format = format_of_buffer(text, item, wanted);
  if (!format) return std::nullopt;
  view.format = *format;
  return view;
}

std::optional<TensorView> view_of_dlpack(const py::handle& value, std::optional<Format> wanted) {
  if (!py::hasattr(value, "__dlpack__") || !py::hasattr(value, "__dlpack_device__")) {
    return std::nullopt;
  }
  const py::tuple device = value.attr("__dlpack_device__")();
  if (device[0].cast<std::int32_t>() != dlpack::kCpu) return std::nullopt;
  const py::object capsule = value.attr("__dlpack__")();
  auto* const managed =
      static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kCapsule));
  if (managed == nullptr) throw py::error_already_set();
  PyCapsule_SetName(capsule.ptr(), dlpack::kTaken);
  TensorView view;
  view.owner = owned_by_python(managed, [](dlpack::ManagedTensor* gone) {
    if (gone->deleter != nullptr) gone->deleter(gone);
  });
  const dlpack::DenseTensor& tensor = managed->tensor;
  view.dims.assign(tensor.shape, tensor.shape + tensor.rank);
  if (tensor.strides != nullptr &&
      !is_dense(view.dims, {tensor.strides, tensor.strides + tensor.rank})) {
    return std::nullopt;
  }
  for (const DenseType& type : kDenseTypes) {
    if (type.code != tensor.type.code || tensor.type.lanes != 1 ||
        8 * format_bytes(type.format) != tensor.type.bits) {
      continue;
    }
    view.format =
        type.format == Format::kU16 && wanted == Format::kBf16 ? Format::kBf16 : type.format;
    view.bytes = {static_cast<std::byte*>(tensor.data) + tensor.byte_offset,
                  static_cast<std::size_t>(element_count(view.dims) * format_bytes(view.format))};
    return view;
  }
  return std::nullopt;
}

// What keeps a block while its memory is in use by DLPack.
struct Lent {
  Block block;
  std::vector<std::int64_t> shape;
  dlpack::ManagedTensor managed;
};

void give_back(dlpack::ManagedTensor* managed) { delete static_cast<Lent*>(managed->context); }

}  // namespace

std::optional<TensorView> to_view(const py::handle& value, std::optional<Format> wanted,
                                  bool writable) {
  if (PyObject_CheckBuffer(value.ptr()) != 0) return view_of_buffer(value, wanted, writable);
  return view_of_dlpack(value, wanted);
}

py::buffer_info block_buffer(const Block& block) {
  // Plain bytes where NumPy's dtype has no letter.
  const py::dtype type(dtype_name(block.format()));
  std::vector<py::ssize_t> shape(block.dims().begin(), block.dims().end());
  std::vector<py::ssize_t> strides(shape.size());
  py::ssize_t stride = type.itemsize();
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return {block.bytes().data(),
          type.itemsize(),
          std::string(1, type.char_()),
          static_cast<py::ssize_t>(shape.size()),
          std::move(shape),
          std::move(strides)};
}

py::capsule block_capsule(Block& block) {
  check(unlocked([&] { return block.fetch(); }));
  auto lent = std::make_unique<Lent>(Lent{block, block.dims(), {}});
  lent->managed.tensor = {.data = block.bytes().data(),
                          .device = {},
                          .rank = static_cast<std::int32_t>(lent->shape.size()),
                          .type = dense_type(block.format()),
                          .shape = lent->shape.data(),
                          .strides = nullptr,
                          .byte_offset = 0};
  lent->managed.context = lent.get();
  lent->managed.deleter = &give_back;
  dlpack::ManagedTensor* const managed = &lent.release()->managed;
  return py::capsule(managed, dlpack::kCapsule, [](PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, dlpack::kCapsule) == 0) return;  // taken over
    auto* const left =
        static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kCapsule));
    left->deleter(left);
  });
}

}  // namespace tessera::python

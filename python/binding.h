// What the units of the Python module share: errors, the interpreter's lock, handles, arrays.
//
//   threads of Python  ── Unlocked ──► the library        whatever waits releases the lock
//   threads of the library ── Entry ──► Python            callbacks, stages, what they hold
//
// When the interpreter ends, Entry refuses: stages fail, callbacks are not called, and objects that
// only the library still holds stay where they are. Those that are inside are waited for.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/cluster.h"
#include "tessera/memory.h"
#include "tessera/picture.h"
#include "tessera/runtime.h"
#include "tessera/shared_session.h"
#include "tessera/virtual_card.h"

namespace tessera::python {

namespace py = pybind11;

// ------------------------------------------------------------------------------------ half-made

// The classes of the module: those of the library that are bound as they are, and those made for
// it, which say so with a member type.
template <typename T, typename = void>
inline constexpr bool kBound = false;
template <typename T>
inline constexpr bool kBound<T, std::void_t<typename T::BoundInPython>> = true;
template <>
inline constexpr bool kBound<Network> = true;
template <>
inline constexpr bool kBound<DeviceOptions> = true;
template <>
inline constexpr bool kBound<Block> = true;
template <>
inline constexpr bool kBound<Layers> = true;
template <>
inline constexpr bool kBound<VirtualCard> = true;
template <>
inline constexpr bool kBound<VirtualProcessor> = true;
template <>
inline constexpr bool kBound<Cluster> = true;

}  // namespace tessera::python

namespace pybind11::detail {

// Python makes objects without calling __init__: by __new__, or in a subclass that uses itself
// before it calls super().__init__(). pybind11 takes such an object's value from unwritten
// memory.
template <typename T>
class type_caster<T, std::enable_if_t<tessera::python::kBound<T>>> : public type_caster_base<T> {
 public:
  bool load(handle source, bool convert) {
    return type_caster_base<T>::template load_impl<type_caster>(source, convert);
  }
  void load_value(value_and_holder&& made) {
    if (!made.holder_constructed()) {
      throw type_error(std::string(this->typeinfo->type->tp_name) +
                       ".__init__() has not been called for this object");
    }
    type_caster_base<T>::load_value(std::move(made));
  }
};

}  // namespace pybind11::detail

namespace tessera::python {

// ------------------------------------------------------------------------------------ errors

// On its way to Python, where it becomes a tessera.Error.
struct Failure {
  TaskError error;
  py::object cause = py::none();  // the exception of a stage
};

[[noreturn]] void fail(const Error& error);
[[noreturn]] void fail(const std::string& message);
template <typename T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}
inline void check(const Status& status) {
  if (!status.ok()) fail(status.error());
}
py::object error_object(const TaskError& error, const py::object& cause);
// An exception of the application as an error: its kind, its text, its place.
Error error_of(const py::error_already_set& thrown);

// ------------------------------------------------------------------------------------ the lock

// A thread of the library in Python. False: the interpreter is ending.
class Entry {
 public:
  Entry();
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
  PyGILState_STATE state_{};
};

// A thread of Python in the library, without the lock.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* const thread_;
};

template <typename Call>
auto unlocked(const Call& call) {
  const Unlocked here;
  return call();
}

// A wait without the lock that Control-C ends: `ready(patience)` waits and says whether what is
// awaited has come. False after `seconds`.
bool wait_without_lock(std::optional<double> seconds,
                       const std::function<bool(std::chrono::nanoseconds)>& ready);

// An object that the library keeps; given up with the lock held, wherever the last copy goes.
std::shared_ptr<py::object> keep(const py::object& object);

// ------------------------------------------------------------------------------------ handles

// Let go of without the lock: the last handle of a pipeline waits for its tasks, and those may wait
// for Python.
template <typename T>
class Handle {
 public:
  using BoundInPython = void;
  explicit Handle(T value) : value_(std::move(value)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { let_go(); }
  void let_go() {
    if (!value_.has_value()) return;
    const Unlocked here;
    value_.reset();
  }
  T& operator*() {
    if (!value_.has_value()) fail("the garbage collector has let go of this object");
    return *value_;
  }
  T* operator->() { return &**this; }

 private:
  std::optional<T> value_;
};

using RuntimeHandle = Handle<Runtime>;
using ModelHandle = Handle<Model>;

// ------------------------------------------------------------------------------------ arrays

Format format_named(const std::string& dtype);  // the error says what there is
std::string dtype_name(Format format);          // bf16 has no NumPy type: its bits travel as uint16
// A copy. The error names `what` and what was needed.
Tensor to_tensor(const py::handle& value, std::optional<Format> wanted, const std::string& what);
// Of a model's inputs (TensorDescription, DeclaredShape): arrays in their order, or one dict by name.
template <typename Input>
std::vector<Tensor> ordered_inputs(const std::vector<Input>& wanted, const py::args& arguments) {
  const bool named = arguments.size() == 1 && py::isinstance<py::dict>(arguments[0]);
  const std::size_t given = named ? py::dict(arguments[0]).size() : arguments.size();
  if (given != wanted.size()) {
    fail("given " + std::to_string(given) + " inputs; the model has " +
         std::to_string(wanted.size()));
  }
  std::vector<Tensor> inputs;
  for (const Input& input : wanted) {
    const std::string what = "input '" + input.name + "'";
    if (named && !py::dict(arguments[0]).contains(input.name)) fail(what + " is missing");
    const py::object array = named ? py::object(py::dict(arguments[0])[input.name.c_str()])
                                   : py::object(arguments[inputs.size()]);
    inputs.push_back(to_tensor(array, input.format, what));
  }
  return inputs;
}
std::vector<Tensor> to_tensors(const py::handle& values, const Network* network,
                               const std::string& what);
// The memory of an object with the buffer protocol or DLPack, kept by the view; nothing where its
// rows are not contiguous, or no format is its.
std::optional<TensorView> to_view(const py::handle& value, std::optional<Format> wanted,
                                  bool writable);
py::buffer_info block_buffer(const Block& block);
py::capsule block_capsule(Block& block);  // of DLPack; fetches the block
// A block, a view without a copy where one is wanted and can be, or else a tensor.
std::variant<Tensor, TensorView, Block> to_input(const py::handle& value,
                                                 std::optional<Format> wanted,
                                                 const std::string& what, bool copy);
// Arrays in the order of the network's inputs, or one dict by name; inputs that are states of the
// stream are left out.
NetworkTask to_network_task(const Network* network, const py::args& arguments, bool copy);
// None, a block, "keep", or an array to be filled, for each.
std::vector<NetworkOutput> to_outputs(const py::object& outputs, bool fetch);
// (output, input) or (output, input, initial value), by place.
std::vector<StateBinding> to_bindings(const py::iterable& bindings);
// The array's memory is the tensor's.
py::array to_array(Tensor tensor);
py::list to_arrays(std::vector<Tensor> tensors);
// Arrays in the order of the network's inputs, or one dict by name; any arrays where there is none.
std::vector<Tensor> to_inputs(const Network* network, const py::args& arguments);
py::list descriptions(const std::vector<TensorDescription>& tensors);  // name, dtype, shape

py::list declared_list(const std::vector<DeclaredShape>& inputs);  // name, dtype, shape with -1
std::string path_text(const py::object& path);                     // str, or what has __fspath__

double seconds_of(std::chrono::nanoseconds time);
PictureInput picture_input(const std::vector<float>& mean, const std::vector<float>& deviation,
                           bool bgr);

// ------------------------------------------------------------------------------------ classes

void define_errors(py::module_& module);
void define_networks(py::module_& module);
void define_dynamic(py::module_& module);
void define_growing(py::module_& module);  // after the tasks
void define_formats(py::module_& module);
void define_tasks(py::module_& module);
void define_pipelines(py::module_& module);
void define_memory(py::module_& module);
void define_cards(py::module_& module);
void define_clusters(py::module_& module);

}  // namespace tessera::python

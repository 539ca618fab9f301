// Tasks in the Python module: what a pipeline knows of its Python functions and arrays, and what a
// task carries.
//
//   Pipeline, Stream ── Hold ──► FunctionSet ◄── stages and log of the pipeline in C++
//
// A pipeline's functions belong to the Python objects Pipeline and Stream, where the garbage
// collector sees them: an object that holds a pipeline whose stage is one of its methods is
// collected. When the last of them goes, the set owns the functions until the pipeline is gone.
// The collector finalizes all of its garbage before it takes any of it apart, and a function that
// was taken apart cannot be called: that is when a pipeline waits for its tasks.
#pragma once

#include "binding.h"

namespace tessera::python {

// The Python functions of one pipeline. The lock is held in all calls but the destructor.
class FunctionSet {
 public:
  FunctionSet() = default;
  ~FunctionSet();
  FunctionSet(const FunctionSet&) = delete;
  FunctionSet& operator=(const FunctionSet&) = delete;

  std::size_t add(const py::object& function);  // its index
  py::object at(std::size_t index) const;
  py::tuple all() const;
  void hold() { ++holders_; }
  void let_go();

 private:
  std::vector<PyObject*> functions_;  // borrowed from the holders; owned where there are none
  int holders_ = 0;
  bool owned_ = false;
};

// A Python object's part in a pipeline's functions. With the lock.
class Hold {
 public:
  explicit Hold(std::shared_ptr<FunctionSet> set);
  Hold(Hold&& other) noexcept = default;
  Hold& operator=(Hold&&) = delete;
  ~Hold() { let_go(); }
  void let_go();  // of the set
  void clear() { functions_ = py::tuple(); }
  int visit(visitproc visitor, void* argument) const;
  const std::shared_ptr<FunctionSet>& set() const { return set_; }

 private:
  std::shared_ptr<FunctionSet> set_;  // shared with the pipeline
  py::tuple functions_;
};

// What tasks of a pipeline bring and give.
struct PipelineInfo {
  std::optional<Network> first, last;  // whose inputs and outputs they are, where that is known
  std::vector<std::string> stages;
  std::vector<std::string> outputs = {};  // their names, where there is no `last`
};

// A Python object with a handle of a pipeline.
template <typename T>
class OfPipeline {
 public:
  using BoundInPython = void;
  OfPipeline(T value, std::shared_ptr<const PipelineInfo> info, std::shared_ptr<FunctionSet> set)
      : info(std::move(info)), hold_(std::move(set)), value_(std::move(value)) {}
  ~OfPipeline() { let_go(); }
  void let_go() {
    hold_.let_go();
    value_.let_go();
  }
  void clear() { hold_.clear(); }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const Hold& hold() const { return hold_; }

  const std::shared_ptr<const PipelineInfo> info;  // shared by the pipeline's streams and jobs
  bool with_states = false;                        // of a stream

 private:
  Hold hold_;
  Handle<T> value_;
};
using PipelineObject = OfPipeline<Pipeline>;
using StreamObject = OfPipeline<Stream>;

// What `stream` takes; a ValueError says what is allowed.
StreamOptions stream_options(const std::string& order, int priority);

// Lets the garbage collector see the Python objects that a T holds.
//   hold().visit   shows them        let_go   stops what uses them        clear   gives them up
template <typename T>
py::custom_type_setup collected() {
  return py::custom_type_setup([](PyHeapTypeObject* heap_type) {
    static const auto value_of = [](PyObject* self) -> T* {
      auto held = reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder();
      return held.holder_constructed() ? static_cast<T*>(held.value_ptr()) : nullptr;
    };
    PyTypeObject& type = heap_type->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(self));
      T* const value = value_of(self);
      return value == nullptr ? 0 : value->hold().visit(visit, arg);
    };
    type.tp_finalize = [](PyObject* self) {
      const py::error_scope kept;
      if (T* const value = value_of(self)) value->let_go();
    };
    type.tp_clear = [](PyObject* self) {
      if (T* const value = value_of(self)) value->clear();
      return 0;
    };
    // Its destructor releases the lock: no thread may find it half way.
    type.tp_dealloc = [](PyObject* self) {
      PyObject_GC_UnTrack(self);
      py::detail::pybind11_object_dealloc(self);
    };
  });
}

// The exception of the stage that ended a task.
struct Cause {
  py::object exception = py::none();
  py::object take() { return std::exchange(exception, py::none()); }
};
// What a task from Python carries through a pipeline. Its job keeps the cause only: an object that
// is the payload and has the job is the collector's alone.
struct Payload {
  py::object object = py::none();  // the application's own
  std::string path;                // of a picture, where the object is one
  std::shared_ptr<Cause> cause;    // shared with the job
};
std::shared_ptr<Payload> make_payload(const py::object& object);

// A memory of a runtime, and a single operation on it. (pybind11 would take the variant apart.)
struct MemoryOfRuntime {
  Runtime runtime;
  Memory memory;
};
using MemoryHandle = Handle<MemoryOfRuntime>;
struct OperationBox {
  using BoundInPython = void;
  operations::Operation operation;
};

// What a run gave: outputs by place or by name.
struct Outputs {
  using BoundInPython = void;
  py::list runs;  // of each a list of arrays
  std::vector<std::string> names;
  std::int64_t cycles = 0, host_cycles = 0, transfer_cycles = 0;
  std::uint64_t sequence = 0;
  std::string device;
  std::vector<ValueNote> value_notes;
  TaskTimes times;
  py::object payload = py::none();
  std::vector<std::string> stages;

  py::list arrays() const { return runs.empty() ? py::list() : py::list(runs[0]); }
};
std::vector<std::string> output_names(const std::optional<Network>& network);

// The Job of what `submit` brings in; the keywords are those of Stream.submit. Without the lock; it may wait for room.
using Submit = std::function<Result<Job>(SubmitOptions, bool wait)>;
py::object submitted(const py::kwargs& keywords, const std::shared_ptr<const PipelineInfo>& info,
                     const Submit& submit);

// The stage that calls function `index` of the set. `next`: whose inputs its runs become.
HostFunction host_function(std::shared_ptr<FunctionSet> set, std::size_t index,
                           std::optional<Network> next);
// The same stage with a Python payload in place of its own.
HostFunction picture_function(HostFunction decode);

}  // namespace tessera::python

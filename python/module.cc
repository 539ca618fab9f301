// The Python module tessera._native: its errors, and the interpreter's lock: which threads may
// enter Python, and what becomes of the others at its end. The classes are in the other units.
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "binding.h"

namespace tessera::python {
namespace {

using namespace std::chrono_literals;

// A wait looks for Control-C so often.
constexpr auto kSlice = 100ms;

// The way into Python for threads of the library. Never destroyed: they may outlive the module.
struct Door {
  std::mutex mutex;
  std::condition_variable left;
  int inside = 0;
  bool closed = false;
  std::thread::id closer{};  // the thread that ends the interpreter
};
Door* current_door = new Door();
Door& door() { return *current_door; }
thread_local int entries_of_this_thread = 0;

// The threads that were inside, or held the lock, are not in the child: it gets a door of its own.
void after_fork_in_child() {
  current_door = new Door();
  current_door->inside = entries_of_this_thread;
}

// tessera.Error; made once, for as long as the process lives.
PyObject* error_type = nullptr;

// Registered with atexit, which comes before the interpreter ends. A stage that never returns is
// waited for, as a thread of Python's own is; Control-C then ends the process at once, because a
// thread that is in Python can be neither stopped nor left behind.
void close_door() {
  Door& way = door();
  {
    const std::lock_guard lock(way.mutex);
    way.closed = true;
    way.closer = std::this_thread::get_id();
  }
  const auto empty = [&](std::chrono::nanoseconds patience) {
    std::unique_lock lock(way.mutex);
    return way.left.wait_for(lock, patience, [&] { return way.inside == 0; });
  };
  try {
    wait_without_lock(std::nullopt, empty);
  } catch (py::error_already_set& interrupted) {
    interrupted.restore();
    PyErr_Print();
    if (PyRun_SimpleString("import sys; sys.stdout.flush(); sys.stderr.flush()") != 0)
      PyErr_Clear();
    std::_Exit(130);
  }
}

std::string text_of_exception(const py::object& value) {
  const py::object text = py::reinterpret_steal<py::object>(PyObject_Str(value.ptr()));
  if (text) return text.cast<std::string>();
  PyErr_Clear();
  return "its text cannot be had";
}

// "reader.py:12, in crop", of the innermost frame; "" without one.
std::string place_of(py::object trace) {
  if (!trace || trace.is_none()) return "";
  for (py::object next = trace.attr("tb_next"); !next.is_none(); next = trace.attr("tb_next")) {
    trace = next;
  }
  const py::object code = trace.attr("tb_frame").attr("f_code");
  const auto file = code.attr("co_filename").cast<std::string>();
  return file.substr(file.rfind('/') + 1) + ":" +
         std::to_string(trace.attr("tb_lineno").cast<int>()) + ", in " +
         code.attr("co_name").cast<std::string>();
}

// Texts quote what files hold, which may be no UTF-8.
py::object escaped(const std::string& text) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

}  // namespace

void fail(const Error& error) {
  TaskError task;
  task.failure = TaskFailure::kNone;
  task.error = error;
  throw Failure{std::move(task)};
}
void fail(const std::string& message) { fail(Error{ErrorCode::kInvalidArgument, message}); }

py::object error_object(const TaskError& error, const py::object& cause) {
  py::object made = py::reinterpret_borrow<py::object>(error_type)(escaped(error.error.message));
  made.attr("code") = error_code_name(error.error.code);
  made.attr("failure") = task_failure_name(error.failure);
  made.attr("task") = error.task;
  made.attr("sequence") = error.sequence;
  made.attr("stage") = escaped(error.stage);
  made.attr("device") = escaped(error.device);
  made.attr("layer") = escaped(error.layer);
  if (!cause.is_none()) PyException_SetCause(made.ptr(), py::object(cause).release().ptr());
  return made;
}

Error error_of(const py::error_already_set& thrown) {
  const py::object& value = thrown.value();
  Error error{ErrorCode::kInvalidArgument, text_of_exception(value)};
  if (!thrown.matches(error_type)) {
    error.message =
        py::str(thrown.type().attr("__name__")).cast<std::string>() + ": " + error.message;
  } else {
    const auto code = py::str(py::getattr(value, "code", py::none())).cast<std::string>();
    for (const ErrorCode known :
         {ErrorCode::kInvalidModel, ErrorCode::kDoesNotFit, ErrorCode::kUnsupported,
          ErrorCode::kUnavailable, ErrorCode::kInternal}) {
      if (code == error_code_name(known)) error.code = known;
    }
  }
  const std::string place = place_of(thrown.trace());
  if (!place.empty()) error.message += " (" + place + ")";
  return error;
}

Entry::Entry() {
  {
    const std::lock_guard lock(door().mutex);
    entered_ = !door().closed;
    if (!entered_) return;
    ++door().inside;
  }
  ++entries_of_this_thread;
  state_ = PyGILState_Ensure();
}

Entry::~Entry() {
  if (!entered_) return;
  PyGILState_Release(state_);
  --entries_of_this_thread;
  const std::lock_guard lock(door().mutex);
  if (--door().inside == 0) door().left.notify_all();
}

// A daemon thread of Python that comes back to an interpreter that is ending would be ended in the
// middle of C++, which ends the process: it stays here instead, as in Python 3.14.
Unlocked::~Unlocked() {
  const auto must_stay = [] {
    if (entries_of_this_thread > 0) return false;
    const std::lock_guard lock(door().mutex);
    return door().closed && door().closer != std::this_thread::get_id();
  };
  while (must_stay()) std::this_thread::sleep_for(1h);
  PyEval_RestoreThread(thread_);
}

bool wait_without_lock(std::optional<double> seconds,
                       const std::function<bool(std::chrono::nanoseconds)>& ready) {
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
    if (unlocked([&] { return ready(patience); })) return true;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (seconds.has_value() && patience < kSlice) return false;
  }
}

std::shared_ptr<py::object> keep(const py::object& object) {
  return {new py::object(object), [](py::object* gone) {
            const Entry python;
            if (python) delete gone;
          }};
}

void define_errors(py::module_& module) {
  error_type = PyErr_NewExceptionWithDoc(
      "tessera.Error",
      "What went wrong, in words.\n\ncode says what to do about it; of a task, failure says why it "
      "has no result, and stage, device and layer where, as far as known. The exception of a stage "
      "is its __cause__.",
      nullptr, nullptr);
  module.attr("Error") = py::reinterpret_borrow<py::object>(error_type);
  // pybind11 wants a function of exactly this type.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      PyErr_SetObject(error_type, error_object(failure.error, failure.cause).ptr());
    }
  });
  py::module_::import("atexit").attr("register")(py::cpp_function(&close_door));
  py::module_::import("os").attr("register_at_fork")(py::arg("after_in_child") =
                                                         py::cpp_function(&after_fork_in_child));
}

// Handles have no copies: what Python would make of one ends the process where its protocol is 0,
// and is an object without a value otherwise.
void refuse_copies(py::module_& module) {
  for (const auto& [name, value] : py::dict(module.attr("__dict__"))) {
    if (!py::isinstance<py::type>(value) || PyExceptionClass_Check(value.ptr())) continue;
    const auto refuse = [what = name.cast<std::string>()](const py::object&, const py::args&) {
      throw py::type_error("a tessera." + what +
                           " cannot be copied or pickled; load or open another one");
    };
    for (const char* const method : {"__reduce__", "__reduce_ex__"}) {
      py::setattr(value, method, py::cpp_function(refuse, py::name(method), py::is_method(value)));
    }
  }
}

}  // namespace tessera::python

PYBIND11_MODULE(_native, module) {
  module.attr("__version__") = tessera::version();
  tessera::python::define_errors(module);
  tessera::python::define_cards(module);  // which sessions and devices name
  tessera::python::define_clusters(module);
  tessera::python::define_networks(module);
  tessera::python::define_dynamic(module);
  tessera::python::define_formats(module);
  tessera::python::define_tasks(module);
  tessera::python::define_growing(module);
  tessera::python::define_memory(module);
  tessera::python::define_pipelines(module);
  tessera::python::refuse_copies(module);
}

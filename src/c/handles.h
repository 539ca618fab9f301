// What is behind the handles of the C interface, and how errors cross it.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "c/sized.h"
#include "tessera/dynamic_network.h"
#include "tessera/memory.h"
#include "tessera/picture.h"
#include "tessera/runtime.h"
#include "tessera/shared_session.h"
#include "tessera/tessera_c.h"
#include "tessera/virtual_card.h"

// NOLINTBEGIN(readability-identifier-naming): the names of tessera_c.h
struct tessera_error {
  tessera::TaskError error;
};
struct tessera_network {
  tessera::Network network;
};
struct tessera_shared_session {
  tessera::SharedSession session;
};
struct tessera_shared_result {
  tessera::SharedRunResult result;
};
struct tessera_dynamic_session {
  tessera::DynamicNetwork network;
  tessera::DynamicSession session;
};
struct tessera_dynamic_result {
  tessera::RunResult result;
  std::vector<std::string> names;
};
struct tessera_runtime {
  tessera::Runtime runtime;
};
struct tessera_model {
  tessera::Model model;
};
struct tessera_pipeline {
  tessera::Pipeline pipeline;
};
struct tessera_stream {
  tessera::Stream stream;
};
struct tessera_job {
  tessera::Job job;
};
struct tessera_result {
  tessera::TaskResult result;
};
struct tessera_statistics {
  std::vector<tessera::DeviceStatus> device_states;  // hold the texts
  tessera::PipelineStatus pipeline;
  std::vector<std::vector<std::int64_t>> kernel_busy;  // of each device
  std::vector<tessera_device_statistics> devices;
  std::vector<tessera_stage_statistics> stages;
};
struct tessera_text {
  std::string value;
};
struct tessera_live_view {
  tessera::LiveView view;
  std::string url;
};
struct tessera_picture {
  tessera::Picture picture;
};
struct tessera_memory {
  tessera::Memory memory;
};
struct tessera_block {
  tessera::Block block;
};
struct tessera_layers {
  tessera::Layers layers;
};
struct tessera_card {
  tessera::VirtualCard card;
};
struct tessera_processor {
  tessera::VirtualProcessor processor;
};
struct tessera_task {
  tessera::Task& task;
};
// NOLINTEND(readability-identifier-naming)

namespace tessera::c {

// The number in a field of an enumeration that a caller filled: it may be any, so it is no value of
// the enumeration before it is checked.
template <typename Enumeration>
std::uint32_t number_in(const Enumeration& field) {
  std::uint32_t number = 0;
  static_assert(sizeof number == sizeof field);
  std::memcpy(&number, &field, sizeof number);
  return number;
}

inline tessera_error* make_error(Error error) {
  TaskError task;
  task.failure = TaskFailure::kNone;
  task.error = std::move(error);
  return new tessera_error{std::move(task)};
}
inline tessera_error* make_error(TaskError error) { return new tessera_error{std::move(error)}; }
inline tessera_error* make_error(const Status& status) {
  return status.ok() ? nullptr : make_error(status.error());
}
inline tessera_error* is_null(const char* what) {
  return make_error(Error{ErrorCode::kInvalidArgument, std::string(what) + " is NULL"});
}

// An error that takes no memory to make.
tessera_error* out_of_memory();

// Nothing may be thrown into C: what the standard library throws becomes an error.
template <typename Function>
tessera_error* guarded(const Function& function) {
  try {
    try {
      return function();
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::exception& thrown) {
      return make_error(Error{ErrorCode::kInternal, thrown.what()});
    }
  } catch (...) {
    return out_of_memory();  // telling what it was failed
  }
}

// The value goes behind a new handle, or its error comes back.
template <typename Handle, typename T>
tessera_error* hand_over(Result<T> made, Handle** handle) {
  if (!made.ok()) return make_error(made.error());
  *handle = new Handle{std::move(made).value()};
  return nullptr;
}

inline constexpr std::size_t kRankMax = 64;  // of a tensor
inline std::string text_of(const char* text) { return text == nullptr ? "" : text; }
// The entries of any array of the application's; `what` names it in errors.
inline constexpr std::size_t kEntriesMax = std::size_t{1} << 20;
Status check_given(bool given, std::size_t count, const std::string& what);
template <typename Entry>
Status check_array(const Entry* array, std::size_t count, const std::string& what) {
  return check_given(array != nullptr, count, what);
}
Result<std::vector<std::string>> texts_of(const char* const* texts, std::size_t count,
                                          const std::string& what);
Result<Shape> shape_of(std::size_t rank, const std::int64_t* dims, const std::string& what);
// Its format and shape. The error names what does not go together.
Result<TensorDescription> header_of(const tessera_tensor& view, const std::string& what);
// A copy.
Result<Tensor> tensor_of(const tessera_tensor& view, const std::string& what);
Result<std::vector<Tensor>> tensors_of(const tessera_run& run, const std::string& what);
// Points into the tensor; zeros for an index beyond the last.
tessera_tensor view_of(const std::vector<Tensor>& tensors, std::size_t index);
tessera_tensor_description description_of(const std::vector<TensorDescription>& list,
                                          std::size_t index);
// Negative: no limit.
std::chrono::nanoseconds patience_of(std::int64_t nanoseconds);

}  // namespace tessera::c

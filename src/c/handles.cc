#include "c/handles.h"

namespace tessera::c {
namespace {

// As many dimensions as a model may have (src/model/ops/call.h).

}  // namespace

Status check_given(bool given, std::size_t count, const std::string& what) {
  if (!given && count > 0) {
    return Error{ErrorCode::kInvalidArgument, what + " is NULL"};
  }
  return check_count(count, kEntriesMax, what);
}

Result<std::vector<std::string>> texts_of(const char* const* texts, std::size_t count,
                                          const std::string& what) {
  TESSERA_RETURN_IF_ERROR(check_array(texts, count, what));
  std::vector<std::string> list;
  for (std::size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) {
      return Error{ErrorCode::kInvalidArgument, what + "[" + std::to_string(i) + "] is NULL"};
    }
    list.emplace_back(texts[i]);
  }
  return list;
}

Result<Shape> shape_of(std::size_t rank, const std::int64_t* dims, const std::string& what) {
  if (rank > kRankMax) {
    return Error{ErrorCode::kInvalidArgument, what + " has rank " + std::to_string(rank) +
                                                  "; allowed are at most " +
                                                  std::to_string(kRankMax)};
  }
  if (rank == 0) return Shape{};
  if (dims == nullptr) {
    return Error{ErrorCode::kInvalidArgument, what + " has no extents: dims is NULL"};
  }
  return Shape(dims, dims + rank);
}

Result<TensorDescription> header_of(const tessera_tensor& view, const std::string& what) {
  const auto wrong = [&what](const std::string& found) {
    return Error{ErrorCode::kInvalidArgument, what + " " + found};
  };
  const std::uint32_t format = number_in(view.format);
  if (format >= static_cast<std::uint32_t>(kFormatCount)) {
    return wrong("has the format " + std::to_string(format) + ", which there is not");
  }
  TensorDescription header;
  header.format = static_cast<Format>(format);
  TESSERA_TRY(header.dims, shape_of(view.rank, view.dims, what));
  auto bytes = static_cast<std::size_t>(format_bytes(header.format));
  for (const std::int64_t extent : header.dims) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
      return wrong("has the extent " + std::to_string(extent));
    }
  }
  if (view.bytes != bytes) {
    return wrong("has " + std::to_string(view.bytes) + " bytes; its shape needs " +
                 std::to_string(bytes));
  }
  if (bytes > 0 && view.data == nullptr) return wrong("has no elements: data is NULL");
  return header;
}

Result<Tensor> tensor_of(const tessera_tensor& view, const std::string& what) {
  TESSERA_TRY(TensorDescription header, header_of(view, what));
  Tensor tensor;
  tensor.format = header.format;
  tensor.dims = std::move(header.dims);
  tensor.bytes.resize(view.bytes);
  if (view.bytes > 0) std::memcpy(tensor.bytes.data(), view.data, view.bytes);
  return tensor;
}

Result<std::vector<Tensor>> tensors_of(const tessera_run& run, const std::string& what) {
  std::vector<Tensor> tensors;
  TESSERA_RETURN_IF_ERROR(check_array(run.tensors, run.count, what + "s"));
  for (std::size_t i = 0; i < run.count; ++i) {
    TESSERA_TRY(Tensor tensor, tensor_of(run.tensors[i], what + " " + std::to_string(i)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

tessera_tensor view_of(const std::vector<Tensor>& tensors, std::size_t index) {
  if (index >= tensors.size()) return {};
  const Tensor& tensor = tensors[index];
  return {static_cast<tessera_format>(tensor.format), tensor.dims.size(), tensor.dims.data(),
          tensor.bytes.data(), tensor.bytes.size()};
}

tessera_tensor_description description_of(const std::vector<TensorDescription>& list,
                                          std::size_t index) {
  if (index >= list.size()) return {};
  const TensorDescription& found = list[index];
  return {found.name.c_str(), static_cast<tessera_format>(found.format), found.dims.size(),
          found.dims.data()};
}

tessera_error* out_of_memory() {
  static tessera_error error = [] {
    tessera_error made;
    made.error.failure = TaskFailure::kNone;
    made.error.error = {ErrorCode::kUnavailable, "no memory is left"};
    return made;
  }();
  return &error;
}

std::chrono::nanoseconds patience_of(std::int64_t nanoseconds) {
  return nanoseconds < 0 ? std::chrono::nanoseconds::max() : std::chrono::nanoseconds(nanoseconds);
}

}  // namespace tessera::c

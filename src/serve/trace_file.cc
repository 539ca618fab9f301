#include "serve/trace_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace tessera::serve {

using std::chrono::nanoseconds;

Result<std::shared_ptr<TraceFile>> TraceFile::open(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("cannot write the trace '{}': {}", path, std::strerror(errno))};
  }
  std::shared_ptr<TraceFile> trace(new TraceFile(file));
  std::fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", file);
  return trace;
}

TraceFile::~TraceFile() {
  std::fputs("\n]}\n", file_);
  std::fclose(file_);
}

void TraceFile::add(const TracedRequest& request) {
  using Json = nlohmann::json;
  const std::string category = Json(request.model + " " + request.version)
                                   .dump(-1, ' ', true, Json::error_handler_t::replace);
  const std::string id = Json(request.id).dump(-1, ' ', true, Json::error_handler_t::replace);
  const std::lock_guard lock(mutex_);
  if (!status_.ok()) return;
  ++requests_;
  std::string text;
  double at = std::chrono::duration<double, std::micro>(request.begin - begin_).count();
  const auto part = [&](const char* name, nanoseconds time) {
    const double end = at + std::chrono::duration<double, std::micro>(time).count();
    for (const bool is_begin : {true, false}) {
      fmt::format_to(std::back_inserter(text),
                     "{}{{\"ph\":\"{}\",\"cat\":{},\"id\":{},\"pid\":1,\"tid\":1,\"name\":\"{}\","
                     "\"ts\":{:.3f},\"args\":{{\"id\":{},\"rows\":{},\"cycles\":{}}}}}",
                     requests_ == 1 && text.empty() ? "" : ",\n", is_begin ? 'b' : 'e', category,
                     requests_, name, is_begin ? at : end, id, request.rows, request.cycles);
    }
    at = end;
  };
  part("decode", request.decode);
  part("queue", request.queue);
  part("input", request.input);
  part("compute", request.compute);
  part("output", request.output);
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) {
    status_ = Error{ErrorCode::kUnavailable,
                    fmt::format("the trace ends early: {}", std::strerror(errno))};
  }
}

Status TraceFile::status() const {
  const std::lock_guard lock(mutex_);
  std::fflush(file_);
  return status_;
}

}  // namespace tessera::serve

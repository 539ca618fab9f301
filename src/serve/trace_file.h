// A file of what became of each request, as Perfetto and Chrome read it: queue, input, compute and output, one row of
// the picture for each model. For several threads at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"

namespace tessera::serve {

// The parts of a request, one behind the other.
struct TracedRequest {
  std::string model, version, id;
  std::chrono::steady_clock::time_point begin;
  std::chrono::nanoseconds decode{0}, queue{0}, input{0}, compute{0}, output{0};
  std::int64_t rows = 1;  // of the batch that it was in
  std::int64_t cycles = 0;
};

class TraceFile {
 public:
  // What is at `path` is replaced.
  static Result<std::shared_ptr<TraceFile>> open(const std::string& path);
  ~TraceFile();  // writes the end
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void add(const TracedRequest& request);
  // Of the disk: the first error; requests behind it are not in the file.
  Status status() const;

 private:
  explicit TraceFile(std::FILE* file) : file_(file) {}
  mutable std::mutex mutex_;
  std::FILE* const file_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::uint64_t requests_ = 0;
  Status status_;
};

}  // namespace tessera::serve

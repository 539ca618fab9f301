// Which threads work for a pipeline. One of them must not wait for what only it can bring about:
// room in its own pipeline, or that pipeline's end.
#pragma once

namespace tessera::pipeline {

// Marks the calling thread as one of `owner`, for as long as the mark lives.
class OwnThread {
 public:
  explicit OwnThread(const void* owner);
  ~OwnThread();
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

  // Whose the calling thread is; null: the application's.
  static const void* owner();

 private:
  const void* const before_;
};

}  // namespace tessera::pipeline

// The end of what has threads of its own and waits for them: one of them cannot bring it about.
#pragma once

#include <chrono>
#include <thread>

#include "device/device.h"
#include "device/kernel_thread.h"
#include "pipeline/own_thread.h"
#include "runtime/job.h"

namespace tessera::runtime {

// Whether the thread is the library's, or is in a callback of the application.
inline bool in_own_thread() {
  return JobState::in_callback_of() != nullptr || pipeline::OwnThread::owner() != nullptr ||
         device::in_thread_of_kernel();
}

// The last handle may go in a callback or a stage, with what a task carries, or with what a kernel
// had of it: then a thread of its own deletes the object.
template <typename T>
void delete_elsewhere(T* object) {
  constexpr int kAttempts = 100;
  if (!in_own_thread()) {
    delete object;
    return;
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      return std::thread([object] { delete object; }).detach();
    } catch (...) {  // no thread now, or no memory for one
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  // It stays as it is, idle and for ever.
}

}  // namespace tessera::runtime

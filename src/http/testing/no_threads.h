// Takes the place of pthread_create in a test's program, so that the system has no thread for a
// while. Included by one file of the program. The sanitizers have a function of their own there.
#pragma once

#ifndef TESSERA_SANITIZED
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace tessera::http {
// How many more threads there are; below zero: any number.
inline std::atomic<int> threads_left = -1;
}  // namespace tessera::http

extern "C" inline __attribute__((used)) int pthread_create(pthread_t* thread,
                                                           const pthread_attr_t* attributes,
                                                           void* (*function)(void*),
                                                           void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  const int left = tessera::http::threads_left.load();
  if (left == 0) return EAGAIN;
  if (left > 0) --tessera::http::threads_left;
  return create(thread, attributes, function, argument);
}
#endif

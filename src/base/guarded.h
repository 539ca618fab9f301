// Where exceptions of the standard library become errors: at the public interface, in the threads
// of the library, and in main(). Inside it, memory that ends is thrown like anywhere else in C++,
// and passes through.
#pragma once

#include <string_view>

#include "base/result.h"

namespace tessera {

// The exception that is being handled (call it in a catch block) as an error:
//
//   memory that ended, a size beyond all memory   kDoesNotFit
//   a thread that the system does not give        kUnavailable
//   anything else                                 kInternal
//
// `doing` stands in front, "running the model" say; it may be empty. Throws nothing: where there is
// no memory for the message either, that is "out of memory".
Error thrown_error(std::string_view doing) noexcept;

// function(), which returns a Result or Status; what it throws becomes the error.
template <typename Function>
auto guarded(std::string_view doing, Function&& function) -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    return thrown_error(doing);
  }
}

// make(), an Error; where there is no memory for its message, one that says so. For callers that
// must go on: they hold a lock, or others wait for them.
template <typename Make>
Error error_or_no_memory(const Make& make) noexcept {
  try {
    return make();
  } catch (...) {
    return thrown_error("");
  }
}

}  // namespace tessera

// fork() copies a process with one of its threads only. Whatever the others were doing stays half
// done in the child: locks stay held without an owner, and what waits for a thread waits forever.
// So what owns threads remembers the process that opened it, and refuses to work in another.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tessera/result.h"

namespace tessera {

// The process in which it was made. Costs no system call.
class ProcessMark {
 public:
  ProcessMark();
  bool here() const;  // false in a process that was forked off since
  // kUnavailable there; `what` was opened.
  Status check(const char* what) const;

 private:
  std::uint64_t forks_;  // between the first process and this one
};

// Elsewhere an object is left as it is: its destructor would wait for its threads.
struct DeleteHere {
  ProcessMark made;
  template <typename T>
  void operator()(T* object) const {
    if (made.here()) delete object;
  }
};

template <typename T, typename... Arguments>
std::shared_ptr<T> make_shared_here(Arguments&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), DeleteHere{});
}

}  // namespace tessera

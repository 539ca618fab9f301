// Preloaded into a program: its clock of the day is off by as many seconds as a file says, from one moment to the
// next. Its steady clock is that of the system.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

long long offset() {
  static const int file = [] {
    const char* const path = std::getenv("JUMPING_CLOCK_FILE");
    return path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  }();
  char text[32] = {};
  if (file < 0 || ::pread(file, text, sizeof text - 1, 0) <= 0) return 0;
  return std::atoll(text);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* at) noexcept {
  const long failed = ::syscall(SYS_clock_gettime, clock, at);
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    at->tv_sec += offset();
  }
  return static_cast<int>(failed);
}

extern "C" int gettimeofday(timeval* at, void* /*zone*/) noexcept {
  timespec now{};
  const int failed = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return failed;
}

extern "C" time_t time(time_t* at) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != nullptr) *at = now.tv_sec;
  return now.tv_sec;
}

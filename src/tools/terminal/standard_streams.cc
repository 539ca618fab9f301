#include "tools/terminal/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/file_place.h"

namespace tessera::tools {

Error standard_output_failed(int error) {
  return {ErrorCode::kUnavailable,
          fmt::format("writing standard output: {}",
                      error == 0 ? "not all of it could be written" : std::strerror(error))};
}

void prepare_standard_streams() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    // Opened the wrong way round: using it stays an error.
    (void)!::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void restore_signals() {
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
}

Status check_standard_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return standard_output_failed(errno);
}

Status finish_standard_output() {
  TESSERA_RETURN_IF_ERROR(check_standard_output());
  // A copy, because the C library still looks at the original when the process ends.
  const int error = Descriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)).close();
  return error == 0 ? Status() : standard_output_failed(error);
}

}  // namespace tessera::tools

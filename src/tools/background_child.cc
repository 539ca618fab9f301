#include "tools/background_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

namespace tessera::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// In the child, between fork and exec.
[[noreturn]] void become(std::vector<char*>& words, int input, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
  // Ctrl-C is for this program, which then ends the child.
  ::setpgid(0, 0);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<BackgroundChild>> BackgroundChild::start(
    const std::vector<std::string>& words, Output output) {
  const auto failed = [&] {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot start '{}': {}", words[0], std::strerror(errno))};
  };
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int in[2] = {-1, -1}, out[2] = {-1, -1};
  if (::pipe2(in, O_CLOEXEC) != 0) return failed();
  bool opened = true;
  if (output == Output::kRead) {
    opened = ::pipe2(out, O_CLOEXEC) == 0;
  } else if (output == Output::kDropped) {
    out[1] = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  } else {
    out[1] = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  }
  const pid_t parent = ::getpid();
  const pid_t child = opened ? ::fork() : -1;
  if (child == 0) become(pointers, in[0], out[1], parent);
  const Error error = failed();
  ::close(in[0]);
  if (out[1] >= 0) ::close(out[1]);
  if (child < 0) {
    ::close(in[1]);
    if (out[0] >= 0) ::close(out[0]);
    return error;
  }
  return std::unique_ptr<BackgroundChild>(new BackgroundChild(words[0], child, in[1], out[0]));
}

BackgroundChild::~BackgroundChild() {
  end(milliseconds(0));
  if (output_ >= 0) ::close(output_);
}

Result<std::string> BackgroundChild::read_line(milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  for (;;) {
    const std::size_t line_end = read_.find('\n');
    if (line_end != std::string::npos) {
      std::string line = read_.substr(0, line_end);
      read_.erase(0, line_end + 1);
      return line;
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    pollfd waited{.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = left.count() > 0 ? ::poll(&waited, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("'{}' has said nothing for {:.0f} s", name_,
                               std::chrono::duration<double>(time).count())};
    }
    char bytes[4096];
    const ssize_t count = ::read(output_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("'{}' has ended; what it printed says why", name_)};
    }
    read_.append(bytes, static_cast<std::size_t>(count));
  }
}

bool BackgroundChild::has_ended() {
  int status = 0;
  if (!ended_ && ::waitpid(process_, &status, WNOHANG) == process_) {
    ended_ = true;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return ended_;
}

bool BackgroundChild::wait_for_end(milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  while (!has_ended() && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return has_ended();
}

void BackgroundChild::end(milliseconds time) {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
  constexpr milliseconds kAfterTerm{3000}, kAfterKill{10'000};
  if (wait_for_end(time)) return;
  ::kill(process_, SIGTERM);
  if (wait_for_end(kAfterTerm)) return;
  ::kill(process_, SIGKILL);
  (void)wait_for_end(kAfterKill);
}

}  // namespace tessera::tools

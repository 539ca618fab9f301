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

// In the child.
void leave_alone(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
  // Ctrl-C is for this program, which then ends the child.
  ::setpgid(0, 0);
}

// The file descriptor to which the child writes, and ours to read it; -1: none.
struct OutputEnds {
  int ours = -1, of_child = -1;
};

OutputEnds open_output(BackgroundChild::Output output) {
  OutputEnds ends;
  if (output == BackgroundChild::Output::kDropped) {
    ends.of_child = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  } else if (output == BackgroundChild::Output::kOurs) {
    ends.of_child = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  } else if (int pipe[2]; ::pipe2(pipe, O_CLOEXEC) == 0) {
    ends = {pipe[0], pipe[1]};
  }
  return ends;
}

void close_if_open(int descriptor) {
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace

Result<std::unique_ptr<BackgroundChild>> BackgroundChild::fork_off(
    const std::string& name, Output output,
    const std::function<void(int input, int output)>& in_child) {
  int in[2] = {-1, -1};
  const bool has_input = ::pipe2(in, O_CLOEXEC) == 0;
  const OutputEnds out = has_input ? open_output(output) : OutputEnds{};
  const pid_t parent = ::getpid();
  const pid_t child = out.of_child >= 0 ? ::fork() : -1;
  if (child == 0) {
    leave_alone(parent);
    ::close(in[1]);
    close_if_open(out.ours);
    in_child(in[0], out.of_child);
    ::_exit(127);
  }
  const Error error{ErrorCode::kUnavailable,
                    fmt::format("cannot start '{}': {}", name, std::strerror(errno))};
  close_if_open(in[0]);
  close_if_open(out.of_child);
  if (child < 0) {
    close_if_open(in[1]);
    close_if_open(out.ours);
    return error;
  }
  return std::unique_ptr<BackgroundChild>(new BackgroundChild(name, child, in[1], out.ours));
}

Result<std::unique_ptr<BackgroundChild>> BackgroundChild::start(
    const std::vector<std::string>& words, Output output) {
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return fork_off(words[0], output, [&pointers](int in, int out) {
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::execvp(pointers[0], pointers.data());
  });
}

Result<std::unique_ptr<BackgroundChild>> BackgroundChild::start_function(
    const std::string& name, const std::function<void(int output)>& work) {
  return fork_off(name, Output::kRead, [&work](int /*in*/, int out) { work(out); });
}

BackgroundChild::~BackgroundChild() {
  end(milliseconds(0));
  close_if_open(output_);
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

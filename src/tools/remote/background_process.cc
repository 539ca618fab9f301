#include "tools/remote/background_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace tessera::tools {
namespace {

std::string line_of(std::FILE* from) {
  std::string line;
  for (int c = std::fgetc(from); c != EOF && c != '\n'; c = std::fgetc(from)) {
    line += static_cast<char>(c);
  }
  return line;
}

}  // namespace

Result<std::unique_ptr<BackgroundProcess>> BackgroundProcess::start(
    const std::function<void(int output)>& in_child, const std::string& what) {
  int ends[2] = {-1, -1};
  const bool has_pipe = ::pipe2(ends, O_CLOEXEC) == 0;
  const pid_t process = has_pipe ? ::fork() : -1;
  if (process < 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot start {}: {}", what, std::strerror(errno))};
  }
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    in_child(ends[1]);
    ::_exit(127);
  }
  ::close(ends[1]);
  std::unique_ptr<BackgroundProcess> started(
      new BackgroundProcess(process, ::fdopen(ends[0], "r")));
  const std::string line = line_of(started->output_);
  started->start_ = nlohmann::json::parse(line, nullptr, false);
  if (started->start_.is_object()) return started;
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} has not started; it says '{}'", what, line)};
}

Result<std::unique_ptr<BackgroundProcess>> BackgroundProcess::start_tessera(
    std::vector<std::string> words) {
  words.insert(words.begin(), "tessera");
  words.emplace_back("--json");
  std::vector<char*> pointers;
  std::string text;
  for (std::string& word : words) {
    pointers.push_back(word.data());
    text += (text.empty() ? "" : " ") + word;
  }
  pointers.push_back(nullptr);
  return start(
      [&pointers](int output) {
        // As they were before this program took them.
        ::signal(SIGPIPE, SIG_DFL);
        ::signal(SIGXFSZ, SIG_DFL);
        ::dup2(output, STDOUT_FILENO);
        ::execv("/proc/self/exe", pointers.data());
      },
      "'" + text + "'");
}

Result<std::unique_ptr<BackgroundProcess>> BackgroundProcess::start_function(
    const std::function<void(std::FILE* events)>& work) {
  return start([&work](int output) { work(::fdopen(output, "w")); }, "a process");
}

BackgroundProcess::~BackgroundProcess() {
  ::kill(process_, SIGTERM);
  ::waitpid(process_, nullptr, 0);
  std::fclose(output_);
}

double BackgroundProcess::processor_seconds() const {
  std::ifstream file(fmt::format("/proc/{}/stat", process_));
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  // The 14th and 15th field: in the program, and in the system for it.
  long user = 0, system = 0;
  std::sscanf(text.c_str() + end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user,
              &system);
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace tessera::tools

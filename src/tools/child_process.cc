#include "tools/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tessera::tools {
namespace {

constexpr std::size_t kPrintedMax = 4000;

std::string tail_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.substr(text.size() - std::min(text.size(), kPrintedMax));
}

}  // namespace

Result<ChildResult> run_child(const std::vector<std::string>& words, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<std::string> copies = words;  // of the child's own, by posix_spawnp()'s signature
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // The child has the signals that the command leaves alone.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot start '{}': {}", words[0], std::strerror(error))};
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return ChildResult{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                     tail_of(log)};
}

Result<ScratchFolder> ScratchFolder::make() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string name = ((error ? "/tmp" : parent) / "tessera_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot make a folder '{}': {}; set TMPDIR to one that can be written",
                             name, std::strerror(errno))};
  }
  return ScratchFolder(name);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace tessera::tools

#include "tools/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/terminal/standard_streams.h"

namespace tessera::tools {

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::string find_program(const std::vector<std::string>& places) {
  const std::filesystem::path folder = program_folder();
  std::error_code error;
  for (const std::string& place : places) {
    const std::filesystem::path candidate = (folder / place).lexically_normal();
    if (std::filesystem::is_regular_file(candidate, error)) return candidate.string();
  }
  return "";
}

Status become(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  restore_signals();
  execv(argv[0], argv.data());
  return Error{ErrorCode::kUnavailable,
               fmt::format("cannot start '{}': {}", words[0], std::strerror(errno))};
}

Status start_service() {
  const std::string program = find_program({"tessera-service", TESSERA_SERVICE_INSTALLED});
  if (program.empty()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("there is no program 'tessera-service' beside '{0}/tessera' nor at "
                             "'{0}/{1}', and it does this; install all of the package, or build "
                             "the target tessera_service",
                             program_folder(), TESSERA_SERVICE_INSTALLED)};
  }
  std::vector<std::string> words = {program};
  std::ifstream own("/proc/self/cmdline", std::ios::binary);
  std::string word;
  std::getline(own, word, '\0');  // the name of this program
  while (std::getline(own, word, '\0')) words.push_back(word);
  if (words.size() > 1) return become(std::move(words));
  return Error{ErrorCode::kUnavailable,
               "/proc/self/cmdline cannot be read, where the arguments of this command are"};
}

}  // namespace tessera::tools

#include "tools/remote/background_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

namespace tessera::tools {

Result<std::unique_ptr<BackgroundProcess>> BackgroundProcess::started(
    std::unique_ptr<BackgroundChild> child) {
  constexpr std::chrono::minutes kForStart{2};
  std::unique_ptr<BackgroundProcess> process(new BackgroundProcess(std::move(child)));
  TESSERA_TRY(const std::string line, process->child_->read_line(kForStart));
  process->start_ = nlohmann::json::parse(line, nullptr, false);
  if (process->start_.is_object()) return process;
  return Error{ErrorCode::kUnavailable,
               fmt::format("a process has not started; it says '{}'", line)};
}

Result<std::unique_ptr<BackgroundProcess>> BackgroundProcess::start_tessera(
    std::vector<std::string> words) {
  words.insert(words.begin(), "/proc/self/exe");
  words.emplace_back("--json");
  TESSERA_TRY(auto child, BackgroundChild::start(words, BackgroundChild::Output::kRead));
  return started(std::move(child));
}

Result<std::unique_ptr<BackgroundProcess>> BackgroundProcess::start_function(
    const std::function<void(std::FILE* events)>& work) {
  TESSERA_TRY(auto child, BackgroundChild::start_function(
                              "a process", [&work](int output) { work(::fdopen(output, "w")); }));
  return started(std::move(child));
}

double BackgroundProcess::processor_seconds() const {
  std::ifstream file(fmt::format("/proc/{}/stat", child_->process()));
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

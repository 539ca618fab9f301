#include "tools/service/until_end.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"

namespace tessera::tools {
namespace {

std::atomic<bool> interrupted = false;

// Whether there will be nothing more on standard input; what comes is dropped.
bool has_input_ended() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, 0) <= 0) return false;
  char bytes[256];
  const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
  return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
}

}  // namespace

void tell_event(bool json, const nlohmann::json& document, const std::string& text) {
  show_lines(json ? json_line(document) + "\n" : text + "\n");
  std::fflush(stdout);
}

void end_on_signals() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its write
  const auto interrupt = [](int) { interrupted = true; };
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  // The end of a terminal or a session, which nohup has a program ignore.
  struct sigaction before{};
  const bool is_ignored =
      ::sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
  if (!is_ignored) std::signal(SIGHUP, interrupt);
}

bool was_interrupted() { return interrupted; }

void wait_until_end(double seconds, bool input) {
  const auto begin = std::chrono::steady_clock::now();
  while (!interrupted) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (seconds > 0 && elapsed.count() >= seconds) return;
    if (input && has_input_ended()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace tessera::tools

// tessera top: asks a running pipeline's server again and again, and shows what it says.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "dashboard/http_client.h"
#include "tools/top_text.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct TopArguments {
  std::string url;
  int http = 0;
  double interval = 1;
  bool once = false, json = false;
};

std::atomic<bool> top_interrupted = false;

// The terminal's other screen, without its cursor; all is as before when this ends.
class Screen {
 public:
  explicit Screen(bool on) : on_(on) {
    if (!on_) return;
    fmt::print("\x1b[?1049h\x1b[?25l");
    std::signal(SIGINT, [](int) { top_interrupted = true; });
    std::signal(SIGTERM, [](int) { top_interrupted = true; });
  }
  ~Screen() {
    if (on_) fmt::print("\x1b[?25h\x1b[?1049l");
    std::fflush(stdout);
  }
  void show(const std::string& text) const {
    if (!on_) {
      fmt::print("{}", text);
    } else {
      // Each line is cleared to its end, then the rest: no flicker.
      std::string lines = "\x1b[H";
      for (const char c : text) lines += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
      fmt::print("{}\x1b[J", lines);
    }
    std::fflush(stdout);
  }

 private:
  const bool on_;
};

Result<std::string> ask(dashboard::HttpClient& client) {
  TESSERA_TRY(dashboard::Answer answer, client.get("/state"));
  if (answer.status != 200) {
    return Error{ErrorCode::kUnavailable, fmt::format("{} answers with status {}: {}", client.url(),
                                                      answer.status, answer.body.substr(0, 200))};
  }
  return std::move(answer.body);
}

Result<std::string> text_of(const TopArguments& arguments, const std::string& body) {
  if (arguments.json) return body + "\n";
  return top_text(nlohmann::json::parse(body, nullptr, false));
}

Status top(const TopArguments& arguments) {
  const std::string place = arguments.url.empty() ? std::to_string(arguments.http) : arguments.url;
  TESSERA_TRY(dashboard::HttpClient client, dashboard::HttpClient::at(place));
  // An error before the first picture leaves the terminal alone.
  TESSERA_TRY(std::string body, ask(client));
  TESSERA_TRY(std::string text, text_of(arguments, body));
  const bool live = !arguments.once && !arguments.json && isatty(STDOUT_FILENO) != 0;
  const Screen screen(live);
  while (true) {
    screen.show(live ? text + fmt::format("\n{}   ends with Ctrl-C\n", client.url()) : text);
    if (arguments.once) return {};
    const auto next =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.interval);
    while (std::chrono::steady_clock::now() < next) {
      if (top_interrupted) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    TESSERA_TRY(body, ask(client));
    TESSERA_TRY(text, text_of(arguments, body));
    if (!live && !arguments.json) text.insert(0, "\n");
  }
}

}  // namespace

Action top_verb(CLI::App& app) {
  auto arguments = std::make_shared<TopArguments>();
  auto* const url =
      app.add_option("url", arguments->url, "address of a running pipeline: http://127.0.0.1:8080");
  app.add_option("--http", arguments->http, "its port, on this machine")
      ->check(CLI::Range(1, 65535))
      ->default_val(8080)
      ->excludes(url);
  app.add_option("--interval", arguments->interval, "seconds between two pictures")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  app.add_flag("--once", arguments->once, "print once and end");
  app.add_flag("--json", arguments->json, "print the state as it comes, an object a line");
  return [arguments] { return top(*arguments); };
}

}  // namespace tessera::tools

// tessera top: asks a running pipeline's server again and again, and shows what it says.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "dashboard/http_client.h"
#include "tools/terminal/console.h"
#include "tools/terminal/standard_streams.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/top_text.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct TopArguments {
  std::string url;
  int http = 0;
  double interval = 1;
  bool once = false, json = false;
};

Result<std::string> ask(dashboard::HttpClient& client) {
  TESSERA_TRY(dashboard::Answer answer, client.get("/state"));
  if (answer.status != 200) {
    return Error{ErrorCode::kUnavailable, fmt::format("{} answers with status {}: {}", client.url(),
                                                      answer.status, answer.body.substr(0, 200))};
  }
  return std::move(answer.body);
}

Result<std::string> picture(const std::string& body, int columns) {
  return top_text(nlohmann::json::parse(body, nullptr, false), columns);
}

// On a terminal, until it is ended or the server goes.
Status live(const TopArguments& arguments, dashboard::HttpClient& client, std::string body) {
  const auto interval = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(arguments.interval));
  Terminal terminal;
  auto next = std::chrono::steady_clock::now() + interval;
  while (true) {
    TESSERA_TRY(const std::string text, picture(body, Terminal::size().columns));
    Terminal::show(text, client.url() + "   ends with q or Ctrl-C");
    switch (terminal.wait(next)) {
      case Terminal::Event::kEnd:
        return {};
      case Terminal::Event::kResized:
        break;
      case Terminal::Event::kNothing:
        TESSERA_TRY(body, ask(client));
        next = std::chrono::steady_clock::now() + interval;
        break;
    }
  }
}

// Into a file or a pipe, until the server goes.
Status in_lines(const TopArguments& arguments, dashboard::HttpClient& client, std::string body) {
  while (true) {
    std::string text;
    if (!arguments.json) {
      TESSERA_TRY(text, picture(body, 100));
    } else if (nlohmann::json::parse(body, nullptr, false).is_object()) {
      text = visible_json(body, LineBreaks::kShown) + "\n";  // an object per line
    } else {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("the server there is no pipeline of this version: {} bytes that are "
                               "no JSON object",
                               body.size())};
    }
    show_lines(text);
    TESSERA_RETURN_IF_ERROR(check_standard_output());
    if (arguments.once) return {};
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.interval));
    TESSERA_TRY(body, ask(client));
    if (!arguments.json) show("\n");
  }
}

Status top(const TopArguments& arguments) {
  const std::string place = arguments.url.empty() ? std::to_string(arguments.http) : arguments.url;
  TESSERA_TRY(dashboard::HttpClient client, dashboard::HttpClient::at(place));
  // An error before the first picture leaves the terminal alone.
  TESSERA_TRY(std::string body, ask(client));
  if (!arguments.json) {
    TESSERA_TRY(const std::string checked, picture(body, 100));
  }
  const bool lines = arguments.once || arguments.json || isatty(STDOUT_FILENO) == 0;
  return lines ? in_lines(arguments, client, std::move(body))
               : live(arguments, client, std::move(body));
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

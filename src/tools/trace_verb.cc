// tessera trace: the events of a long run, as `tessera watch --record` writes them, as a trace.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "metrics/event_lines.h"
#include "tools/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct TraceArguments {
  std::string events, output;
  double from = 0, to = 0;
  bool json = false;
};

struct ReadEvents {
  metrics::EventLines lines;
  bool cut = false;  // the last line is not whole
};

Result<ReadEvents> read_events(const TraceArguments& arguments) {
  std::ifstream file(arguments.events, std::ios::binary);
  if (!file) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}': {}", arguments.events, std::strerror(errno))};
  }
  ReadEvents read;
  std::vector<metrics::Event>& events = read.lines.events();
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    const bool whole = !file.eof();  // ended by a newline
    const Status added = read.lines.add(line);
    // A program that was killed leaves the piece of a line.
    if (!added.ok() && !whole) read.cut = true;
    if (!added.ok() && whole) {
      return added.error().with_context(fmt::format("'{}', line {}", arguments.events, number));
    }
    const auto outside = [&](const metrics::Event& event) {
      return 1e-9 * static_cast<double>(event.end_ns) < arguments.from ||
             (arguments.to > 0 && 1e-9 * static_cast<double>(event.begin_ns) > arguments.to);
    };
    if (!events.empty() && outside(events.back())) events.pop_back();
  }
  if (file.bad()) {
    return Error{ErrorCode::kUnavailable, fmt::format("'{}': it cannot be read", arguments.events)};
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return read;
}

Status write_trace(const std::string& path, ReadEvents& read) {
  std::ofstream file(path, std::ios::binary);
  const auto failed = [&] {
    return Error{ErrorCode::kUnavailable, fmt::format("'{}': {}", path, std::strerror(errno))};
  };
  if (!file) return failed();
  TESSERA_RETURN_IF_ERROR(metrics::write_perfetto(
      read.lines.events(), read.lines.sources(), [&](const std::string& piece) -> Status {
        if (!file.write(piece.data(), std::ssize(piece))) return failed();
        return {};
      }));
  if (!file.flush()) return failed();
  return {};
}

Status trace(const TraceArguments& arguments) {
  std::string output = arguments.output;
  if (output.empty()) output = arguments.events + ".trace.json";
  TESSERA_TRY(ReadEvents read, read_events(arguments));
  TESSERA_RETURN_IF_ERROR(write_trace(output, read));
  const auto events = static_cast<std::int64_t>(read.lines.events().size());
  const auto& end = read.lines.end();
  if (arguments.json) {
    nlohmann::json document = {{"file", output}, {"events", events}, {"complete", end.has_value()}};
    if (end) document["lost"] = end->lost;
    fmt::print("{}\n", json_text(document));
    return {};
  }
  fmt::print("wrote {}: {} events; open it at ui.perfetto.dev\n", output, with_separators(events));
  if (end && end->lost > 0) fmt::print("{} events were lost\n", with_separators(end->lost));
  if (!end) {
    fmt::print("the end of '{}' is not there{}: its program was killed, or still writes\n",
               arguments.events, read.cut ? ", and its last line is not whole" : "");
  }
  return {};
}

}  // namespace

Action trace_verb(CLI::App& app) {
  auto arguments = std::make_shared<TraceArguments>();  // shared with the returned action
  app.add_option("events", arguments->events, "file of `tessera watch --record`")->required();
  app.add_option("-o,--output", arguments->output, "trace to write (default: EVENTS.trace.json)");
  app.add_option("--from", arguments->from, "seconds of the run: leave out what ended before")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--to", arguments->to, "and what began later (0: to the end)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--json", arguments->json, "print one JSON object");
  return [arguments] { return trace(*arguments); };
}

}  // namespace tessera::tools

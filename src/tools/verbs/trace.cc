// tessera trace: the events of a long run, as `tessera watch --record` writes them, as a trace.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/input_file.h"
#include "base/output_file.h"
#include "metrics/event_lines.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

constexpr std::int64_t kEventsBytesMax = std::int64_t{1} << 40;
constexpr std::size_t kLineBytesMax = 1 << 16;
constexpr std::size_t kPieceBytes = 1 << 20;

struct TraceArguments {
  std::string events, output;
  double from = 0, to = 0;
  bool json = false;
};

struct ReadEvents {
  metrics::EventLines lines;
  bool cut = false;  // the last line is not whole
};

// Calls `take` for every line, and says of each whether a newline ends it. The file may still grow.
Status read_lines(const std::string& path,
                  const std::function<Status(std::string_view, bool)>& take) {
  const auto failed = [&](const Error& error) { return error.with_context("'" + path + "'"); };
  auto file = InputFile::open(path, {.bytes_max = kEventsBytesMax, .descriptors = true});
  if (!file.ok()) return failed(file.error());
  std::vector<std::byte> piece(kPieceBytes);
  std::string rest;
  while (true) {
    const auto got = file->read_some(piece);
    if (!got.ok()) return failed(got.error());
    if (*got == 0) return rest.empty() ? Status() : take(rest, false);
    rest.append(reinterpret_cast<const char*>(piece.data()), *got);
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = rest.find('\n', begin)) != std::string::npos;) {
      TESSERA_RETURN_IF_ERROR(take(std::string_view(rest).substr(begin, end - begin), true));
      begin = end + 1;
    }
    rest.erase(0, begin);
    if (rest.size() <= kLineBytesMax) continue;
    return failed(
        {ErrorCode::kInvalidArgument,
         fmt::format("a line has more than {} bytes; it is no file of events", kLineBytesMax)});
  }
}

Result<ReadEvents> read_events(const TraceArguments& arguments) {
  ReadEvents read;
  std::vector<metrics::Event>& events = read.lines.events();
  std::int64_t number = 0;
  const Status status = read_lines(arguments.events, [&](std::string_view line, bool whole) {
    ++number;
    const Status added = read.lines.add(line);
    // A program that was killed leaves the piece of a line.
    if (!added.ok() && !whole) read.cut = true;
    if (!added.ok() && whole) {
      return Status(
          added.error().with_context(fmt::format("'{}', line {}", arguments.events, number)));
    }
    const auto outside = [&](const metrics::Event& event) {
      return 1e-9 * static_cast<double>(event.end_ns) < arguments.from ||
             (arguments.to > 0 && 1e-9 * static_cast<double>(event.begin_ns) > arguments.to);
    };
    if (!events.empty() && outside(events.back())) events.pop_back();
    return Status();
  });
  TESSERA_RETURN_IF_ERROR(status);
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return read;
}

Status write_trace(const std::string& path, ReadEvents& read) {
  TESSERA_TRY(OutputFile file, OutputFile::create(path));
  TESSERA_RETURN_IF_ERROR(
      metrics::write_perfetto(read.lines.events(), read.lines.sources(),
                              [&](const std::string& piece) { return file.write(piece); }));
  return file.commit();
}

Status trace(const TraceArguments& arguments) {
  if (arguments.to > 0 && arguments.to < arguments.from) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("--from {} is behind --to {}", arguments.from, arguments.to)};
  }
  std::string output = arguments.output;
  if (output.empty()) output = arguments.events + ".trace.json";
  FileRoles roles;
  roles.read("the recording", arguments.events);
  roles.write("-o", output);
  TESSERA_RETURN_IF_ERROR(roles.check());
  TESSERA_TRY(ReadEvents read, read_events(arguments));
  TESSERA_RETURN_IF_ERROR(write_trace(output, read));
  const auto events = static_cast<std::int64_t>(read.lines.events().size());
  const auto& end = read.lines.end();
  if (arguments.json) {
    const bool complete = end && end->lost == 0;
    nlohmann::json document = {{"file", output}, {"events", events}, {"complete", complete}};
    if (end) document["lost"] = end->lost;
    show_lines(json_text(document) + "\n");
    return {};
  }
  show("wrote {}: {} events; open it at ui.perfetto.dev\n", output, with_separators(events));
  if (end && end->lost > 0) show("{} events were lost\n", with_separators(end->lost));
  if (!end) {
    show("the end of '{}' is not there{}: its program was killed, or still writes\n",
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

#include "tools/terminal/top_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/utf8.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using nlohmann::json;

// How wide lines and bars may be: bars give way first.
struct Width {
  explicit Width(int columns)
      : line(static_cast<std::size_t>(std::clamp(columns, 80, 100))),
        bar(static_cast<std::int64_t>(line) - 80) {}
  std::size_t line;
  std::int64_t bar;
};

std::string time_text(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.1f} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string rate_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B/s", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} KB/s", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB/s", bytes / 1e6);
  return fmt::format("{:.2f} GB/s", bytes / 1e9);
}

// A number with a fraction or an exponent may be larger than any integer.
std::int64_t whole(const json& number) {
  constexpr double kMost = 9e18;
  return number.is_number_float()
             ? static_cast<std::int64_t>(std::clamp(number.get<double>(), -kMost, kMost))
             : number.get<std::int64_t>();
}

std::string bar_text(double share, const Width& width) {
  const double shown = share > 0 ? std::min(share, 1.0) : 0.0;
  const auto full = static_cast<std::int64_t>(shown * static_cast<double>(width.bar) + 0.5);
  return std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(width.bar - full), '.');
}

bool is_kind(const json& source, const char* kind) { return source.at("kind") == kind; }

std::string named(const json& source) {
  const std::string device = source.at("device");
  return device.empty() ? source.at("name").get<std::string>()
                        : device + " " + source.at("name").get<std::string>();
}

std::string tasks_text(const json& state) {
  const json& snapshot = state.at("snapshot");
  const json& tasks = snapshot.at("tasks");
  const json& latency = tasks.at("latency_late");
  std::string text =
      fmt::format("{}   pid {}   {:.1f} s{}{}\n",
                  first_bytes(visible_text(state.at("title").get<std::string>()), 50),
                  whole(state.at("pid")), snapshot.at("at_ns").get<double>() * 1e-9,
                  snapshot.at("recording").get<bool>() ? "" : "   recording is off",
                  snapshot.at("dropped") == 0
                      ? ""
                      : fmt::format("   {} events lost", whole(snapshot.at("dropped"))));
  text += fmt::format("tasks    {:.1f}/s   {} done   {} failed   {} cancelled   {} in flight\n",
                      tasks.at("per_second").get<double>(), with_separators(whole(tasks.at("ok"))),
                      with_separators(whole(tasks.at("failed"))),
                      with_separators(whole(tasks.at("cancelled"))), whole(tasks.at("in_flight")));
  return text + fmt::format("latency  median {}   p90 {}   p99 {}   max {}   (last 10 s)\n",
                            time_text(latency.at("median")), time_text(latency.at("p90")),
                            time_text(latency.at("p99")), time_text(latency.at("max")));
}

// What keeps it from being faster: one sentence, on as many lines as it needs.
std::string limit_text(const json& state, const Width& width) {
  constexpr std::size_t kIndent = 9;
  std::string text = "limit    ";
  std::size_t column = kIndent;
  std::istringstream words(state.at("limit").at("text").get<std::string>());
  for (std::string word; words >> word;) {
    word = visible_text(word);
    if (column > kIndent && column + 1 + word.size() > width.line) {
      text += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    }
    if (column > kIndent) text += ' ';
    word = first_bytes(word, width.line - kIndent);
    text += word;
    column += word.size() + 1;
  }
  return text + "\n\n";
}

// Kernels and, where transfers belong to a device as a whole, devices.
std::string kernels_text(const json& sources, const Width& width) {
  TextTable table({"kernel", "", "busy", "runs/s", "run median", "in", "out", "faults"});
  for (const json& source : sources) {
    const bool kernel = is_kind(source, "kernel");
    if (!kernel && !is_kind(source, "device")) continue;
    table.add({kernel ? named(source) : source.at("name").get<std::string>(),
               kernel ? bar_text(source.at("utilisation"), width) : "",
               kernel ? percent(source.at("utilisation")) : "",
               kernel ? fmt::format("{:.1f}", source.at("runs_per_second").get<double>()) : "",
               kernel ? time_text(source.at("run").at("median")) : "",
               rate_text(source.at("bytes_in_per_second")),
               rate_text(source.at("bytes_out_per_second")),
               std::to_string(whole(source.at("faults")))});
  }
  return table.text(width.line);
}

std::string stages_text(const json& sources, const Width& width) {
  TextTable table({"stage", "", "occupied", "threads", "runs/s", "run median", "waited median"});
  for (const json& source : sources) {
    if (!is_kind(source, "stage")) continue;
    table.add({named(source), bar_text(source.at("utilisation"), width),
               percent(source.at("utilisation")), std::to_string(whole(source.at("threads"))),
               fmt::format("{:.1f}", source.at("runs_per_second").get<double>()),
               time_text(source.at("run").at("median")),
               time_text(source.at("waited").at("median"))});
  }
  return table.text(width.line);
}

std::string queues_text(const json& sources, const Width& width) {
  TextTable table({"queue", "", "waiting", "of", "at most"});
  for (const json& source : sources) {
    if (!is_kind(source, "queue")) continue;
    const double capacity = std::max(source.at("capacity").get<double>(), 1.0);
    table.add({named(source), bar_text(source.at("depth").get<double>() / capacity, width),
               std::to_string(whole(source.at("depth"))),
               std::to_string(whole(source.at("capacity"))),
               std::to_string(whole(source.at("depth_max")))});
  }
  return table.text(width.line);
}

}  // namespace

Result<std::string> top_text(const json& state, int columns) {
  const Width width(columns);
  try {
    const json& sources = state.at("snapshot").at("sources");
    return tasks_text(state) + limit_text(state, width) + kernels_text(sources, width) + "\n" +
           stages_text(sources, width) + "\n" + queues_text(sources, width);
  } catch (const json::exception& error) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the server there is no pipeline of this version: {}", error.what())};
  }
}

}  // namespace tessera::tools

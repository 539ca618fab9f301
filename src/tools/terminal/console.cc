#include "tools/terminal/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace tessera::tools {

ProgressCallback progress_bar() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](const std::string& stage, double fraction) {
    constexpr int kWidth = 32;
    const int filled = std::clamp(static_cast<int>(fraction * kWidth), 0, kWidth);
    fmt::print(stderr, "\r{:<24} [{:#<{}}{:{}}] {:3.0f} %", visible_text(stage), "", filled, "",
               kWidth - filled, fraction * 100);
    if (fraction >= 1) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

void show_lines(std::FILE* to, std::string_view lines) {
  fmt::print(to, "{}", visible_text(lines, LineBreaks::kKept));
}

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = visible_text(cell);
  rows_.push_back(std::move(row));
}

std::string TextTable::text(std::size_t width_max) const {
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::size_t others = 0;
  for (std::size_t i = 1; i < widths.size(); ++i) others += widths[i] + 2;
  const std::size_t first_max = width_max > others + 12 ? width_max - others : 12;
  widths[0] = std::min(widths[0], first_max);
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (i == 0 && cell.size() > widths[0]) {
        cell = std::string(first_bytes(cell, widths[0] - 3)) + "...";
      }
      line += i == 0 ? fmt::format("{:<{}}", cell, widths[i])
                     : fmt::format("  {:>{}}", cell, widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string json_text(const nlohmann::json& document) {
  return visible_json(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string json_line(const nlohmann::json& document) {
  return visible_json(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string with_separators(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t begin = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > begin + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string dims_text(const Shape& dims) {
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, "x"));
}

std::string engine_table(const RunResult& run) {
  TextTable table({"engine", "busy", "utilisation", "waits for data", "waits for memory",
                   "waits for ports", "idle", "tasks", "steps"});
  for (const EngineUse& engine : run.engines) {
    const double cycles = static_cast<double>(std::max<std::int64_t>(1, run.cycles));
    table.add({engine.name, with_separators(engine.busy),
               percent(static_cast<double>(engine.busy) / cycles),
               with_separators(engine.blocked_dependency), with_separators(engine.blocked_memory),
               with_separators(engine.blocked_ports), with_separators(engine.idle),
               with_separators(engine.tasks), with_separators(engine.steps)});
  }
  return table.text();
}

std::string notes_text(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += "note: " + visible_text(note) + "\n";
  return out;
}

std::string placement_text(const Placement& placement) {
  std::string out = notes_text(placement.notes);
  out += fmt::format("{} nodes on the processor, {} on the host\n", placement.nodes_on_processor,
                     placement.nodes_on_host);
  std::map<std::string, std::pair<int, std::string>> grouped;  // "Op: reason" -> count, a node
  for (const HostStepNote& step : placement.host_steps) {
    auto& entry = grouped[step.operator_name + ": " + step.reason];
    ++entry.first;
    entry.second = step.node;
  }
  for (const auto& [what, entry] : grouped) {
    out += fmt::format("  host  {} x {} (for example '{}')\n", entry.first, visible_text(what),
                       visible_text(entry.second));
  }
  return out;
}

}  // namespace tessera::tools

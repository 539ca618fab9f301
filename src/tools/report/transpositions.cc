#include "tools/report/transpositions.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using package::TranspositionHint;

// Cycles the run's engines were busy with the turning layer; 0 where no layer is its own.
Cycles measured_cycles(const package::Package& package, const RunResult& run,
                       const TranspositionHint& hint) {
  if (hint.way != "array" && hint.way != "planar") return 0;
  const isa::LayerHint& turning = package.hints[hint.layer];
  for (const LayerUse& layer : run.layers) {
    if (layer.name == turning.name && layer.kind == turning.kind) {
      return layer.neural + layer.planar;
    }
  }
  return 0;
}

std::string matrix_text(const TranspositionHint& hint) {
  if (hint.matrices == 0) return with_separators(hint.elements);
  return fmt::format("{}{} x {}", hint.matrices > 1 ? fmt::format("{} of ", hint.matrices) : "",
                     hint.channels, hint.columns);
}

}  // namespace

std::string transposition_text(const package::Package& package, const RunResult& run) {
  if (package.transpositions.empty()) return "";
  TextTable table({"transposition of", "for", "matrix", "way", "cycles", "measured", "DRAM B",
                   "next best", "cycles"});
  std::map<std::string, int> ways;
  Cycles cycles = 0;
  std::int64_t bytes = 0;
  for (const TranspositionHint& hint : package.transpositions) {
    const Cycles measured = measured_cycles(package, run, hint);
    const auto shorter = [](const std::string& name) {
      constexpr std::size_t kWidth = 20;
      return name.size() <= kWidth ? name : "..." + name.substr(name.size() - kWidth + 3);
    };
    table.add({shorter(hint.tensor), shorter(hint.reader), matrix_text(hint), hint.way,
               with_separators(hint.cycles), measured > 0 ? with_separators(measured) : "-",
               with_separators(hint.dram_bytes), hint.next_way.empty() ? "-" : hint.next_way,
               hint.next_way.empty() ? "-" : with_separators(hint.next_cycles)});
    ++ways[hint.way];
    cycles += hint.cycles;
    bytes += hint.dram_bytes;
  }
  std::string counts;
  for (const auto& [way, count] : ways) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, visible_text(way));
  }
  return fmt::format("{}\ntranspositions: {}; {} cycles, {} bytes of DRAM\n", table.text(100),
                     counts, with_separators(cycles), with_separators(bytes));
}

nlohmann::json transposition_json(const package::Package& package, const RunResult& run) {
  nlohmann::json list = nlohmann::json::array();
  for (const TranspositionHint& hint : package.transpositions) {
    list.push_back({{"tensor", hint.tensor},
                    {"reader", hint.reader},
                    {"layer", package.hints[hint.layer].name},
                    {"way", hint.way},
                    {"elements", hint.elements},
                    {"channels", hint.channels},
                    {"columns", hint.columns},
                    {"matrices", hint.matrices},
                    {"cycles", hint.cycles},
                    {"measured_cycles", measured_cycles(package, run, hint)},
                    {"dram_bytes", hint.dram_bytes},
                    {"next_way", hint.next_way},
                    {"next_cycles", hint.next_cycles}});
  }
  return list;
}

}  // namespace tessera::tools

#include "tools/bench/transposition.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "arch/cost.h"
#include "card/core.h"
#include "compile/transposition.h"
#include "compile/transposition_program.h"
#include "isa/verify.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using compile::TranspositionWay;

constexpr std::int64_t kShapes[][2] = {{7, 5},       {64, 64},     {128, 64},   {128, 128},
                                       {197, 192},   {300, 500},   {1000, 3},   {1024, 1024},
                                       {4096, 1024}, {2048, 4096}, {8192, 4096}};
constexpr Format kFormats[] = {Format::kF16, Format::kI8};
constexpr TranspositionWay kWays[] = {TranspositionWay::kArray, TranspositionWay::kPlanar,
                                      TranspositionWay::kDma};
constexpr std::int64_t kCheckedElementsMax = std::int64_t{1} << 20;

struct Measured {
  Cycles cycles = 0;
  std::int64_t dram_bytes = 0;  // operands; descriptors are not counted
  bool resident = false, checked = false;
};

Status compare_bits(const std::vector<std::byte>& input, const std::vector<std::byte>& output,
                    const compile::TranspositionProblem& problem) {
  const auto element = static_cast<std::size_t>(format_bytes(problem.format));
  const auto m = static_cast<std::size_t>(problem.rows);
  const auto n = static_cast<std::size_t>(problem.columns);
  for (std::size_t r = 0; r < m; ++r) {
    for (std::size_t c = 0; c < n; ++c) {
      if (std::memcmp(input.data() + (r * n + c) * element, output.data() + (c * m + r) * element,
                      element) != 0) {
        return Error{ErrorCode::kInternal,
                     fmt::format("transposition of {} x {} {} by way of the {}: element ({}, {}) "
                                 "differs",
                                 m, n, format_name(problem.format),
                                 compile::transposition_way_name(problem.way), r, c)};
      }
    }
  }
  return {};
}

Result<Measured> measure(const ChipConfig& chip, const compile::TranspositionProblem& problem) {
  const compile::TranspositionProgram made = compile::make_transposition_program(chip, problem);
  TESSERA_RETURN_IF_ERROR(isa::verify_program(made.program, chip));
  TESSERA_TRY(const auto core, card::Core::create(chip));
  TESSERA_RETURN_IF_ERROR(core->load(made.program));
  Measured measured;
  measured.resident = made.resident;
  measured.checked = problem.rows * problem.columns <= kCheckedElementsMax;
  std::vector<std::byte> input(static_cast<std::size_t>(made.program.input_bytes));
  if (measured.checked) {
    std::mt19937_64 random(static_cast<std::uint64_t>(problem.rows * 65537 + problem.columns));
    for (std::byte& b : input) b = static_cast<std::byte>(random());
    TESSERA_RETURN_IF_ERROR(core->write({isa::BaseIndex::kInput, 0}, input));
  }
  for (std::size_t s = 0; s < made.program.segments.size(); ++s) {
    TESSERA_TRY(const card::RunStatistics run,
                core->run_segment(s, {.timing_only = !measured.checked}));
    if (s != made.segment) continue;
    measured.cycles = run.cycles;
    for (const card::EngineStatistics& engine : run.engines) {
      if (engine.name != "load" && engine.name != "store") continue;
      measured.dram_bytes += engine.bytes_read + engine.bytes_written;
    }
  }
  if (measured.checked) {
    std::vector<std::byte> output(input.size());
    TESSERA_RETURN_IF_ERROR(core->read({isa::BaseIndex::kOutput, 0}, output));
    TESSERA_RETURN_IF_ERROR(compare_bits(input, output, problem));
  }
  return measured;
}

Result<nlohmann::json> measure_row(const ChipConfig& chip, std::int64_t m, std::int64_t n,
                                   Format format) {
  const TransposeBlocks blocks = transpose_blocks(
      {m, n}, {chip.state_buffer.partitions, chip.neural.rows, chip.neural.columns});
  nlohmann::json row = {{"rows", m},
                        {"columns", n},
                        {"format", format_name(format)},
                        {"blocks", blocks.blocks},
                        {"passes", blocks.passes}};
  for (const TranspositionWay way : kWays) {
    TESSERA_TRY(const Measured measured,
                measure(chip, {.rows = m, .columns = n, .format = format, .way = way}));
    row["resident"] = measured.resident;
    row["bits_checked"] = measured.checked;
    row[compile::transposition_way_name(way)] = {{"cycles", measured.cycles},
                                                 {"dram_bytes", measured.dram_bytes}};
  }
  return row;
}

std::string cycles_text(const nlohmann::json& row, const char* way) {
  return with_separators(row[way]["cycles"].get<std::int64_t>());
}

std::string kibibytes(const nlohmann::json& row, const char* way) {
  return with_separators(ceil_div(row[way]["dram_bytes"].get<std::int64_t>(), 1024));
}

void print_rows(const ChipConfig& chip, const nlohmann::json& rows) {
  TextTable table({"matrix", "place", "blocks", "passes", "array", "planar", "DMA", "KiB array",
                   "KiB DMA", "bits"});
  for (const nlohmann::json& row : rows) {
    table.add({fmt::format("{}x{} {}", row["rows"].get<std::int64_t>(),
                           row["columns"].get<std::int64_t>(), row["format"].get<std::string>()),
               row["resident"].get<bool>() ? "buffer" : "streamed",
               with_separators(row["blocks"].get<std::int64_t>()),
               with_separators(row["passes"].get<std::int64_t>()), cycles_text(row, "array"),
               cycles_text(row, "planar"), cycles_text(row, "dma"), kibibytes(row, "array"),
               kibibytes(row, "dma"), row["bits_checked"].get<bool>() ? "equal" : "-"});
  }
  show_lines(fmt::format(
      "{}: array {} x {}, {} partitions of {} KiB; cycles, and KiB of DRAM\n{}\n",
      visible_text(chip.name), chip.neural.rows, chip.neural.columns, chip.state_buffer.partitions,
      chip.state_buffer.bytes_per_partition / 1024, table.text(100)));
}

}  // namespace

Status bench_transposition(const std::string& arch, bool json) {
  std::vector<std::string> names = {"pe128x64", "tessera128"};
  if (!arch.empty()) names = {arch};
  nlohmann::json document = nlohmann::json::array();
  for (const std::string& name : names) {
    TESSERA_TRY(const ChipConfig chip, load_chip_config(name));
    nlohmann::json rows = nlohmann::json::array();
    for (const Format format : kFormats) {
      for (const auto& [m, n] : kShapes) {
        TESSERA_TRY(nlohmann::json row, measure_row(chip, m, n, format));
        rows.push_back(std::move(row));
      }
    }
    if (!json) print_rows(chip, rows);
    document.push_back({{"arch", chip.name}, {"rows", std::move(rows)}});
  }
  if (json) {
    show_lines(json_text({{"suite", "transposition"}, {"profiles", std::move(document)}}) + "\n");
    return {};
  }
  show(
      "buffer: operand and result stay in the state buffer; streamed: loaded, turned and stored "
      "in\n"
      "chunks, which the DMA way does by loading in the other layout. bits: compared, or timing "
      "only.\n");
  return {};
}

}  // namespace tessera::tools

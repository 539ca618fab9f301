#include "arch/config_checks.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "arch/dram_config.h"

namespace tessera {
namespace {

using Violation = std::optional<ConfigViolation>;

Violation multiple_of(std::string_view section, std::string_view key, std::int64_t found,
                      std::string_view other, std::int64_t factor) {
  if (found % factor == 0) return std::nullopt;
  return ConfigViolation{
      section, key, fmt::format("found {}, allowed multiples of {} ({})", found, other, factor)};
}

Violation at_most(std::string_view section, std::string_view key, std::int64_t found,
                  std::string_view other, std::int64_t limit) {
  if (found <= limit) return std::nullopt;
  return ConfigViolation{section, key,
                         fmt::format("found {}, allowed at most {} ({})", found, other, limit)};
}

Violation columns_fit(const ChipConfig& c) {
  return at_most("neural", "columns", c.neural.columns, "state_buffer.partitions",
                 c.state_buffer.partitions);
}
Violation lanes_fit(const ChipConfig& c) {
  return at_most("planar", "lanes", c.planar.lanes, "state_buffer.partitions",
                 c.state_buffer.partitions);
}
Violation partitions_hold_rows(const ChipConfig& c) {
  return multiple_of("state_buffer", "partitions", c.state_buffer.partitions, "neural.rows",
                     c.neural.rows);
}
Violation burst_is_a_power_of_two(const ChipConfig& c) {
  if (std::has_single_bit(static_cast<std::uint32_t>(c.dram.burst_bytes))) return std::nullopt;
  return ConfigViolation{"dram", "burst_bytes",
                         fmt::format("found {}, allowed powers of two", c.dram.burst_bytes)};
}
Violation row_holds_bursts(const ChipConfig& c) {
  return multiple_of("dram", "row_bytes", c.dram.row_bytes, "dram.burst_bytes", c.dram.burst_bytes);
}
Violation request_holds_bursts(const ChipConfig& c) {
  return multiple_of("dma", "request_bytes", c.dma.request_bytes, "dram.burst_bytes",
                     c.dram.burst_bytes);
}
// Of a device; a pipe has no rows, and the keys in core cycles have rules of their own.
Violation channels_hold_bursts(const ChipConfig& c) {
  const DramDevice* device = dram_device(c.dram.device);
  if (device == nullptr) return std::nullopt;
  const std::int64_t burst = std::int64_t{device->burst_bytes} * c.dram.gang;
  if (auto violation = multiple_of("dram", "interleave_bytes", c.dram.interleave_bytes,
                                   "bursts of dram.device times dram.gang", burst)) {
    return violation;
  }
  return multiple_of("dma", "request_bytes", c.dma.request_bytes,
                     "bursts of dram.device times dram.gang", burst);
}
Violation gang_is_a_power_of_two(const ChipConfig& c) {
  if (std::has_single_bit(static_cast<std::uint32_t>(c.dram.gang))) return std::nullopt;
  return ConfigViolation{"dram", "gang",
                         fmt::format("found {}, allowed powers of two", c.dram.gang)};
}
Violation write_marks_in_order(const ChipConfig& c) {
  if (c.dram.write_low_percent < c.dram.write_high_percent) return std::nullopt;
  return ConfigViolation{"dram", "write_low_percent",
                         fmt::format("found {}, allowed less than dram.write_high_percent ({})",
                                     c.dram.write_low_percent, c.dram.write_high_percent)};
}
Violation pipe_has_a_rate(const ChipConfig& c) {
  const bool flat = c.dram.device == DramKind::kFlat;
  if (flat == (c.dram.flat_megabytes_per_second > 0)) return std::nullopt;
  return ConfigViolation{"dram", "flat_megabytes_per_second",
                         fmt::format("found {}, allowed {}", c.dram.flat_megabytes_per_second,
                                     flat ? "1..100000000 with dram.device = \"flat\""
                                          : "0 where dram.device is not \"flat\"")};
}
Violation edge_blocks_have_both_sides(const ChipConfig& c) {
  const std::int32_t rows = c.dram.edge_block_rows, columns = c.dram.edge_block_columns;
  if ((rows == 0) == (columns == 0)) return std::nullopt;
  return ConfigViolation{
      "dram", rows == 0 ? "edge_block_rows" : "edge_block_columns",
      fmt::format("found 0 with dram.{} = {}, allowed both 0 (dense) or neither",
                  rows == 0 ? "edge_block_columns" : "edge_block_rows", rows + columns)};
}
Violation native_dimension_holds_rows(const ChipConfig& c) {
  return multiple_of("formats", "native_dimension", c.formats.matrix.native_dimension,
                     "neural.rows", c.neural.rows);
}
// A pass covers whole blocks of Microscaling, or a block takes whole passes.
Violation rows_hold_micro_blocks(const ChipConfig& c) {
  constexpr std::int32_t kBlock = 32;
  if (c.formats.matrix.kind != MatrixKind::kMicroscaling) return std::nullopt;
  if (c.neural.rows % kBlock == 0 || kBlock % c.neural.rows == 0) return std::nullopt;
  return ConfigViolation{"neural", "rows",
                         fmt::format("found {}, allowed multiples and divisors of {} with "
                                     "formats.matrix = \"mx\"",
                                     c.neural.rows, kBlock)};
}

Violation quantised_vectors_have_a_format(const ChipConfig& c) {
  const bool quantised = c.formats.vector_inputs == VectorInputs::kQuantised;
  if (!quantised || c.formats.matrix.kind != MatrixKind::kFloat) return std::nullopt;
  return ConfigViolation{"formats", "vector_inputs",
                         "found \"quantised\" with formats.matrix = \"float\", which quantises "
                         "nothing"};
}

struct Rule {
  Violation (*check)(const ChipConfig&);
  std::string_view document;
};

constexpr std::array kRules = {
    Rule{columns_fit,
         "`neural.columns` is at most `state_buffer.partitions`: results leave the array with "
         "output channels on partitions."},
    Rule{lanes_fit, "`planar.lanes` is at most `state_buffer.partitions`."},
    Rule{partitions_hold_rows,
         "`state_buffer.partitions` is a multiple of `neural.rows`: a row of the array reads one "
         "partition."},
    Rule{burst_is_a_power_of_two, "`dram.burst_bytes` is a power of two."},
    Rule{row_holds_bursts, "`dram.row_bytes` is a multiple of `dram.burst_bytes`."},
    Rule{request_holds_bursts, "`dma.request_bytes` is a multiple of `dram.burst_bytes`."},
    Rule{gang_is_a_power_of_two, "`dram.gang` is a power of two."},
    Rule{channels_hold_bursts,
         "With a `dram.device`, `dram.interleave_bytes` and `dma.request_bytes` are multiples of "
         "its burst times `dram.gang`."},
    Rule{write_marks_in_order, "`dram.write_low_percent` is less than `dram.write_high_percent`."},
    Rule{pipe_has_a_rate,
         "`dram.flat_megabytes_per_second` is given with `dram.device = \"flat\"`, and only "
         "then."},
    Rule{edge_blocks_have_both_sides,
         "`dram.edge_block_rows` and `dram.edge_block_columns` are both 0, or neither is."},
    Rule{native_dimension_holds_rows,
         "`formats.native_dimension` is a multiple of `neural.rows`: a small array takes several "
         "passes for one native vector and gives the bits of a large one."},
    Rule{
        rows_hold_micro_blocks,
        "With `formats.matrix = \"mx\"`, `neural.rows` is a multiple or a divisor of 32: blocks do "
        "not lie across passes of the array."},
    Rule{quantised_vectors_have_a_format,
         "`formats.vector_inputs = \"quantised\"` needs a `formats.matrix` that quantises."},
};

}  // namespace

std::optional<ConfigViolation> find_config_violation(const ChipConfig& config) {
  for (const Rule& rule : kRules) {
    if (auto violation = rule.check(config)) return violation;
  }
  return std::nullopt;
}

std::string config_rules_markdown() {
  std::string text;
  for (const Rule& rule : kRules) text += fmt::format("- {}\n", rule.document);
  return text;
}

}  // namespace tessera

#include "arch/config_checks.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

#include "arch/dram_config.h"
#include "arch/dram_visits.h"

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
  if (std::has_single_bit(static_cast<std::uint32_t>(c.dram.flat_burst_bytes))) return std::nullopt;
  return ConfigViolation{"dram", "flat_burst_bytes",
                         fmt::format("found {}, allowed powers of two", c.dram.flat_burst_bytes)};
}
Violation channels_hold_bursts(const ChipConfig& c) {
  const bool flat = dram_device(c) == nullptr;
  const std::int64_t burst = dram_burst_bytes(c);
  const std::string_view name =
      flat ? "dram.flat_burst_bytes" : "bursts of dram.device times dram.gang";
  if (!flat) {
    if (auto violation =
            multiple_of("dram", "interleave_bytes", c.dram.interleave_bytes, name, burst)) {
      return violation;
    }
  }
  return multiple_of("dma", "request_bytes", c.dma.request_bytes, name, burst);
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

// ---- A device of the file's own ----

Violation custom_sizes_are_powers_of_two(const ChipConfig& c) {
  const DramDevice& d = c.dram_custom;
  const std::array<std::pair<std::string_view, std::int64_t>, 6> sizes = {
      {{"pseudo_channels", d.pseudo_channels},
       {"bank_groups", d.bank_groups},
       {"banks_per_group", d.banks_per_group},
       {"burst_bytes", d.burst_bytes},
       {"row_bytes", d.row_bytes},
       {"bytes", d.bytes}}};
  for (const auto& [key, size] : sizes) {
    if (std::has_single_bit(static_cast<std::uint64_t>(size))) continue;
    return ConfigViolation{"dram_custom", key,
                           fmt::format("found {}, allowed powers of two", size)};
  }
  return std::nullopt;
}
Violation custom_banks_are_few(const ChipConfig& c) {
  const DramDevice& d = c.dram_custom;
  return at_most("dram_custom", "banks_per_group",
                 std::int64_t{d.pseudo_channels} * d.bank_groups * d.banks_per_group,
                 "banks of a channel, all groups and pseudo-channels together", kDramBanksMax);
}
Violation custom_channel_holds_rows(const ChipConfig& c) {
  const DramDevice& d = c.dram_custom;
  return multiple_of(
      "dram_custom", "bytes", d.bytes, "a row of every bank",
      std::int64_t{d.row_bytes} * d.pseudo_channels * d.bank_groups * d.banks_per_group);
}
Violation custom_groups_slow_down(const ChipConfig& c) {
  const DramDevice& d = c.dram_custom;
  struct Pair {
    std::string_view key, other;
    std::int64_t found, least;
  };
  const std::array<Pair, 5> pairs = {
      {{"rrd_long_ps", "dram_custom.rrd_short_ps", d.rrd_long_ps, d.rrd_short_ps},
       {"ccd_long_ps", "dram_custom.ccd_short_ps", d.ccd_long_ps, d.ccd_short_ps},
       {"wtr_long_ps", "dram_custom.wtr_short_ps", d.wtr_long_ps, d.wtr_short_ps},
       {"ccd_short_ps", "dram_custom.burst_ps", d.ccd_short_ps, d.burst_ps},
       {"refresh_interval_ps", "twice a refresh and its precharge", d.refresh_interval_ps,
        2 * (d.refresh_ps + d.rp_all_ps)}}};
  for (const Pair& pair : pairs) {
    if (pair.found >= pair.least) continue;
    return ConfigViolation{
        "dram_custom", pair.key,
        fmt::format("found {}, allowed at least {} ({})", pair.found, pair.other, pair.least)};
  }
  return std::nullopt;
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

// Blocks must hold the numbers of a grid as they are.
Violation weights_have_one_grid(const ChipConfig& c) {
  const std::int32_t fixed = c.formats.fixed_weight_bits;
  const std::int32_t logarithmic = c.formats.logarithmic_weight_bits;
  const char* const key = fixed != 0 ? "fixed_weight_bits" : "logarithmic_weight_bits";
  if (fixed == 0 && logarithmic == 0) return std::nullopt;
  if (fixed != 0 && logarithmic != 0) {
    return ConfigViolation{
        "formats", key,
        fmt::format("found {} with formats.logarithmic_weight_bits = {}, allowed "
                    "one of them",
                    fixed, logarithmic)};
  }
  const int least = fixed != 0 ? arith::kFixedRangeBitsMin : arith::kLogarithmicBitsMin;
  if (fixed + logarithmic < least) {
    return ConfigViolation{
        "formats", key,
        fmt::format("found {}, allowed 0 (none) and {} or more", fixed + logarithmic, least)};
  }
  const int mantissa = arith::weight_grid_mantissa(c.formats.weight_grid());
  if (c.formats.matrix.kind == MatrixKind::kBlockFloat &&
      c.formats.matrix.mantissa_bits_stationary >= mantissa) {
    return std::nullopt;
  }
  return ConfigViolation{"formats", key,
                         fmt::format("found {}, which needs formats.matrix = \"bfp\" and "
                                     "formats.mantissa_bits_stationary of at least {}",
                                     fixed + logarithmic, mantissa)};
}

Violation quantised_vectors_have_a_format(const ChipConfig& c) {
  const bool quantised = c.formats.vector_inputs == VectorInputs::kQuantised;
  if (!quantised || c.formats.matrix.kind != MatrixKind::kFloat) return std::nullopt;
  return ConfigViolation{"formats", "vector_inputs",
                         "found \"quantised\" with formats.matrix = \"float\", which quantises "
                         "nothing"};
}

// ---- A card of several cores ----

Violation card_has_few_cores(const ChipConfig& c) {
  if (c.card.cores() <= kCardCoresMax) return std::nullopt;
  return ConfigViolation{
      "card", "cores_per_group",
      fmt::format("found {} with card.groups = {}, {} cores; allowed {} together",
                  c.card.cores_per_group, c.card.groups, c.card.cores(), kCardCoresMax)};
}
Violation frame_is_a_power_of_two(const ChipConfig& c) {
  const std::int32_t bytes = c.card.load_save.frame_bytes;
  if (std::has_single_bit(static_cast<std::uint32_t>(bytes))) return std::nullopt;
  return ConfigViolation{"load_save", "frame_bytes",
                         fmt::format("found {}, allowed powers of two", bytes)};
}
// A core by itself has its memory to itself, and no frames.
Violation frame_holds_bursts(const ChipConfig& c) {
  if (c.card.cores() == 1) return std::nullopt;
  return multiple_of(
      "load_save", "frame_bytes", c.card.load_save.frame_bytes,
      dram_device(c) == nullptr ? "dram.flat_burst_bytes" : "bursts of dram.device times dram.gang",
      dram_burst_bytes(c));
}
Violation broadcast_needs_merge(const ChipConfig& c) {
  if (c.card.features.broadcast <= c.card.features.merge) return std::nullopt;
  return ConfigViolation{"card_features", "broadcast",
                         "found 1 with card_features.merge = 0, allowed 0, or 1 with merge = 1: "
                         "only merged reads have several to go to"};
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
    Rule{custom_sizes_are_powers_of_two, "Sizes of `[dram_custom]` are powers of two."},
    Rule{custom_banks_are_few, "A channel of `[dram_custom]` has at most 64 banks."},
    Rule{custom_channel_holds_rows, "`dram_custom.bytes` holds a row of every bank at least."},
    Rule{custom_groups_slow_down,
         "In `[dram_custom]` a time of one bank group is no shorter than that of another, a column "
         "command no shorter than its data, and an interval of refreshes twice what one takes."},
    Rule{burst_is_a_power_of_two, "`dram.flat_burst_bytes` is a power of two."},
    Rule{gang_is_a_power_of_two, "`dram.gang` is a power of two."},
    Rule{channels_hold_bursts,
         "`dma.request_bytes`, and `dram.interleave_bytes` of a device, are multiples of a burst: "
         "that of the device times `dram.gang`, or `dram.flat_burst_bytes`."},
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
    Rule{weights_have_one_grid,
         "At most one of `formats.fixed_weight_bits` and `formats.logarithmic_weight_bits` is "
         "given, with "
         "`formats.matrix = \"bfp\"` and as many `mantissa_bits_stationary` as hold the grid."},
    Rule{card_has_few_cores, "`card.groups` times `card.cores_per_group` is at most 64."},
    Rule{frame_is_a_power_of_two, "`load_save.frame_bytes` is a power of two."},
    Rule{frame_holds_bursts,
         "On a card of several cores `load_save.frame_bytes` is a multiple of a burst of the "
         "memory."},
    Rule{broadcast_needs_merge,
         "`card_features.broadcast = 1` needs `card_features.merge = 1`: only merged reads have "
         "several to go to."},
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

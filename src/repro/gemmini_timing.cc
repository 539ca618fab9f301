#include "repro/gemmini_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "arch/architecture_file.h"
#include "repro/fit.h"
#include "repro/task_list.h"

namespace tessera::repro {
namespace {

constexpr std::int64_t kExtentMax = 1 << 16;
constexpr double kTilesMax = 1 << 15;
constexpr double kTransfersMax = 1 << 23;

Error bad_mapping(std::string_view mapping, std::string_view why) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("mapping '{}': {}, allowed '[T] N1 C3 M64 P112 Q112 S7 R7 - [O] ... - [I] "
                      "...' with numbers from 1 to {}",
                      mapping, why, kExtentMax)};
}

std::int64_t* extent_of(LoopExtents& extents, char name) {
  switch (name) {
    case 'N':
      return &extents.n;
    case 'C':
      return &extents.c;
    case 'M':
      return &extents.m;
    case 'P':
      return &extents.p;
    case 'Q':
      return &extents.q;
    case 'S':
      return &extents.s;
    case 'R':
      return &extents.r;
    default:
      return nullptr;
  }
}

// "N1 C3 M64" behind "[T]"; stops at " - " or the end.
bool read_extents(std::string_view text, std::string_view label, LoopExtents& extents) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return false;
  text.remove_prefix(at + label.size());
  text = text.substr(0, text.find('['));
  bool any = false;
  while (!text.empty()) {
    if (text[0] == ' ' || text[0] == '-') {
      text.remove_prefix(1);
      continue;
    }
    std::int64_t* const extent = extent_of(extents, text[0]);
    const auto [end, code] = std::from_chars(text.data() + 1, text.data() + text.size(),
                                             *(extent ? extent : &extents.n));
    if (extent == nullptr || code != std::errc{} || *extent < 1 || *extent > kExtentMax) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    any = true;
  }
  return any;
}

bool fits_scratchpad(const ChipConfig& chip, const TiledLayer& layer, std::int64_t stride) {
  const LoopExtents& t = layer.tile;
  const std::int64_t side = chip.neural.rows;
  const std::int64_t input =
      ceil_div(t.c, side) * input_extent(t.p, stride, t.r) * input_extent(t.q, stride, t.s);
  const std::int64_t weights = ceil_div(t.m, side) * t.r * t.s * t.c;
  return input + weights <= scratchpad_half(chip);
}

// Tiles of a layer, and runs of memory that they load, about: what bounds its program and its run.
struct LayerWork {
  double tiles = 0, transfers = 0;
};
LayerWork work_of(const ChipConfig& chip, const TiledLayer& layer) {
  const LoopExtents& t = layer.total;
  const LoopExtents& i = layer.tile;
  const auto tiles = [](std::int64_t total, std::int64_t tile) {
    return static_cast<double>(ceil_div(total, tile));
  };
  const auto runs = [&](double count, std::int64_t bytes) {
    return count * static_cast<double>(ceil_div(bytes, chip.dma.request_bytes));
  };
  const double images = layer.convolution ? static_cast<double>(t.n) : tiles(t.n, i.n);
  const double count =
      images * tiles(t.c, i.c) * tiles(t.m, i.m) * tiles(t.p, i.p) * tiles(t.q, i.q);
  const double pixels = static_cast<double>(input_extent(i.p, layer.stride, t.r)) *
                        static_cast<double>(input_extent(i.q, layer.stride, t.s));
  const double inputs = layer.convolution ? pixels : static_cast<double>(i.n);
  const double weights = static_cast<double>(t.r * t.s) * static_cast<double>(i.c);
  return {count, count * (runs(inputs, i.c) + runs(weights, i.m))};
}

}  // namespace

Result<TiledLayer> parse_tiled_layer(const ChipConfig& chip, std::string_view kind,
                                     std::string_view mapping) {
  TiledLayer layer;
  if (kind != "conv" && kind != "gemm") {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("kind: found '{}', allowed conv or gemm", kind)};
  }
  layer.convolution = kind == "conv";
  if (!read_extents(mapping, "[T]", layer.total) || !read_extents(mapping, "[I]", layer.tile)) {
    return bad_mapping(mapping, "cannot be read");
  }
  if (layer.convolution && (layer.tile.s != layer.total.s || layer.tile.r != layer.total.r)) {
    return bad_mapping(mapping, "a tile with some of the taps is not modelled");
  }
  if (!layer.convolution) {
    const std::int64_t side = chip.neural.rows;
    for (std::int64_t* extent : {&layer.tile.n, &layer.tile.c, &layer.tile.m}) {
      *extent = round_up(*extent, side);
    }
  } else if (fits_scratchpad(chip, layer, 2)) {
    layer.stride = 2;
  }
  const LayerWork work = work_of(chip, layer);
  if (work.tiles > kTilesMax || work.transfers > kTransfersMax) {
    return bad_mapping(mapping, "more than 32,768 tiles or 8 million runs of memory");
  }
  return layer;
}

Result<Cycles> tiled_layer_cycles(const ChipConfig& chip, const TiledLayer& layer) {
  TESSERA_TRY(const isa::Program program, tiled_program(chip, layer));
  TESSERA_TRY(const card::RunStatistics statistics, run_program(chip, program));
  Cycles begin = statistics.cycles, end = 0;
  for (const card::TaskTiming& task : statistics.tasks) {
    begin = std::min(begin, task.first_step_begin);
    end = std::max(end, task.end);
  }
  return end - begin;
}

namespace {

// By how much of itself an average is moved to see what follows: far enough that what a step rounds
// up does not count, and no further than loads stay hidden that are.
constexpr std::array<double, kAverages> kMoves = {1, 1, 0.25};

// The layer's cycles, and how they follow each of the fitted averages.
Result<MeasuredLayer> measure(const ChipConfig& chip, const TiledLayer& layer, double expected) {
  MeasuredLayer sample{.measured = expected, .at = Averages::of(chip)};
  TESSERA_TRY(const Cycles cycles, tiled_layer_cycles(chip, layer));
  sample.cycles = static_cast<double>(cycles);
  for (std::size_t i = 0; i < kAverages; ++i) {
    Averages moved = sample.at;
    const double step = std::max(1.0, std::round(moved[i] * kMoves[i]));
    moved[i] += step;
    TESSERA_TRY(const Cycles other, tiled_layer_cycles(moved.in(chip), layer));
    sample.slopes[i] = static_cast<double>(other - cycles) / step;
  }
  return sample;
}

}  // namespace

Result<TimingTable> gemmini_timing(const CsvTable& measured) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config("gemmini8"));
  TESSERA_TRY(const std::size_t kind, measured.column("kind"));
  TESSERA_TRY(const std::size_t name, measured.column("test"));
  TESSERA_TRY(const std::size_t mapping, measured.column("mapping"));
  TESSERA_TRY(const std::size_t cycles, measured.column("gemmini_rtl_cycles"));
  TimingTable table{.name = "gemmini8",
                    .title = "RTL: 8 x 8 int8 array",
                    .unit = "cycles",
                    .extra = {"left out %"}};
  std::vector<MeasuredLayer> samples;
  for (const CsvRow& row : measured.rows()) {
    TESSERA_TRY(const std::int64_t expected, measured.integer(row, cycles));
    const auto layer = parse_tiled_layer(chip, row.cells[kind], row.cells[mapping]);
    if (!layer.ok()) return measured.error_at(row, layer.error().message);
    TESSERA_TRY(const MeasuredLayer sample, measure(chip, *layer, static_cast<double>(expected)));
    samples.push_back(sample);
    table.rows.push_back(
        {.name = row.cells[name], .measured = sample.measured, .ours = sample.cycles});
  }
  const std::vector<double> left_out = left_out_errors_percent(samples);
  for (std::size_t i = 0; i < left_out.size(); ++i) table.rows[i].extra = {left_out[i]};
  table.notes = {"left out %: the error of the row with constants fitted to all rows but it"};
  return table;
}

}  // namespace tessera::repro

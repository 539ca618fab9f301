#include "repro/gemmini_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "arch/architecture_file.h"
#include "arch/cost.h"
#include "arch/dram_config.h"
#include "repro/fit.h"

namespace tessera::repro {
namespace {

constexpr std::int64_t kExtentMax = 1 << 16;
constexpr double kTransfersMax = 1 << 28;

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

// The rows and columns of the input that a tile of the output needs.
std::int64_t input_extent(std::int64_t outputs, std::int64_t stride, std::int64_t taps) {
  return (outputs - 1) * stride + taps;
}

bool fits_scratchpad(const ChipConfig& chip, const TiledLayer& layer, std::int64_t stride) {
  const LoopExtents& t = layer.tile;
  const std::int64_t side = chip.neural.rows;
  const std::int64_t input =
      ceil_div(t.c, side) * input_extent(t.p, stride, t.r) * input_extent(t.q, stride, t.s);
  const std::int64_t weights = ceil_div(t.m, side) * t.r * t.s * t.c;
  return input + weights <= std::int64_t{chip.state_buffer.bytes_per_partition} / 2;
}

// Cycles in which `runs` runs pass the port, each cut into its largest transfers.
class Port {
 public:
  explicit Port(const ChipConfig& chip) : chip_(chip), dram_(dram_costs(chip)) {}
  Cycles cycles(std::int64_t address, std::int64_t runs, std::int64_t run_bytes,
                std::int64_t pitch) const {
    std::int64_t bursts = 0;
    const std::int64_t most = chip_.dma.request_bytes;
    for (std::int64_t run = 0; run < runs; ++run) {
      const std::int64_t begin = address + run * pitch;
      for (std::int64_t done = 0; done < run_bytes; done += most) {
        bursts += dram_bursts(
            dram_.burst_bytes,
            {.address = begin + done, .runs = 1, .run_bytes = std::min(most, run_bytes - done)});
      }
    }
    return dram_.cycles(bursts * dram_.burst_bytes);
  }

 private:
  const ChipConfig& chip_;
  const DramCosts dram_;
};

// What the array needs: the cost formula, and how often each average counts.
void add_compute(const ChipConfig& chip, const ProductWork& work, std::int64_t rows,
                 PipelineTile& tile) {
  const auto cycles = [&](std::int32_t tile_stall, std::int32_t command_stall) {
    NeuralEngineConfig config = chip.neural;
    config.tile_stall_thousandths = tile_stall;
    config.command_stall_thousandths = command_stall;
    return neural_step_cycles(config, work, {.rows = rows}, NeuralSharing::kBroadcast);
  };
  tile.compute = cycles(0, 0);
  tile.weight_tiles = cycles(1000, 0) - tile.compute;
  tile.commands = cycles(0, 1000) - tile.compute;
}

Cycles store_cycles(const ChipConfig& chip, std::int64_t pixels, std::int64_t channels) {
  const std::int64_t commands = pixels * ceil_div(channels, chip.neural.columns);
  return commands * dram_costs(chip).cycles(chip.neural.columns);
}

// A loop over tiles: first element and how many.
template <typename Visit>
void for_tiles(std::int64_t total, std::int64_t tile, Visit visit) {
  for (std::int64_t first = 0; first < total; first += tile) {
    visit(first, std::min(tile, total - first));
  }
}

std::vector<PipelineTile> product_tiles(const ChipConfig& chip, const TiledLayer& layer) {
  const LoopExtents& t = layer.total;
  const Port port(chip);
  std::vector<PipelineTile> tiles;
  for_tiles(t.n, layer.tile.n, [&](std::int64_t n0, std::int64_t n) {
    for_tiles(t.m, layer.tile.m, [&](std::int64_t m0, std::int64_t m) {
      for_tiles(t.c, layer.tile.c, [&](std::int64_t c0, std::int64_t c) {
        PipelineTile tile;
        tile.load = port.cycles(n0 * t.c + c0, n, c, t.c) + port.cycles(c0 * t.m + m0, c, m, t.m);
        // Commands follow the loads along the sum: the first transfer of each row is enough.
        tile.first_share =
            std::min(1.0, static_cast<double>(chip.dma.request_bytes) / static_cast<double>(c));
        add_compute(chip, {.channels = c, .output_channels = m, .columns = n}, 1, tile);
        if (c0 + c == t.c) tile.store = store_cycles(chip, n, m);
        tiles.push_back(tile);
      });
    });
  });
  return tiles;
}

std::vector<PipelineTile> convolution_tiles(const ChipConfig& chip, const TiledLayer& layer) {
  const LoopExtents& t = layer.total;
  const std::int64_t rows = std::min(layer.tile.p, layer.tile.q);
  const std::int64_t columns = std::max(layer.tile.p, layer.tile.q);
  const Port port(chip);
  std::vector<PipelineTile> tiles;
  const auto add = [&](std::int64_t p, std::int64_t q, std::int64_t m0, std::int64_t m,
                       std::int64_t c0, std::int64_t c) {
    PipelineTile tile;
    const std::int64_t pixels = std::min(input_extent(p, layer.stride, t.r), t.p * layer.stride) *
                                std::min(input_extent(q, layer.stride, t.s), t.q * layer.stride);
    tile.load = port.cycles(c0, pixels, c, t.c) + port.cycles(m0, t.r * t.s * c, m, t.m);
    add_compute(chip,
                {.channels = c,
                 .output_channels = m,
                 .kernel_h = t.r,
                 .kernel_w = t.s,
                 .stride_h = layer.stride,
                 .stride_w = layer.stride,
                 .columns = q},
                p, tile);
    if (c0 + c == t.c) tile.store = store_cycles(chip, p * q, m);
    tiles.push_back(tile);
  };
  for_tiles(t.n, 1, [&](std::int64_t, std::int64_t) {
    for_tiles(t.p, rows, [&](std::int64_t, std::int64_t p) {
      for_tiles(t.q, columns, [&](std::int64_t, std::int64_t q) {
        for_tiles(t.m, layer.tile.m, [&](std::int64_t m0, std::int64_t m) {
          for_tiles(t.c, layer.tile.c,
                    [&](std::int64_t c0, std::int64_t c) { add(p, q, m0, m, c0, c); });
        });
      });
    });
  });
  return tiles;
}

// Runs of memory that the layer's tiles load, about; bounds the work of tiles_of().
double transfers_of(const ChipConfig& chip, const TiledLayer& layer) {
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
  return count * (1 + runs(inputs, i.c) + runs(weights, i.m));
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
  if (transfers_of(chip, layer) > kTransfersMax) {
    return bad_mapping(mapping, "more than 268 million runs of memory");
  }
  return layer;
}

std::vector<PipelineTile> tiles_of(const ChipConfig& chip, const TiledLayer& layer) {
  return layer.convolution ? convolution_tiles(chip, layer) : product_tiles(chip, layer);
}

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
  std::vector<MeasuredTiles> samples;
  for (const CsvRow& row : measured.rows()) {
    TESSERA_TRY(const std::int64_t expected, measured.integer(row, cycles));
    const auto layer = parse_tiled_layer(chip, row.cells[kind], row.cells[mapping]);
    if (!layer.ok()) return measured.error_at(row, layer.error().message);
    samples.push_back({tiles_of(chip, *layer), static_cast<double>(expected)});
    const Cycles ours = pipeline_cycles(samples.back().tiles, PipelineStalls::of(chip));
    table.rows.push_back({.name = row.cells[name],
                          .measured = static_cast<double>(expected),
                          .ours = static_cast<double>(ours)});
  }
  const std::vector<double> left_out = left_out_errors_percent(samples);
  for (std::size_t i = 0; i < left_out.size(); ++i) table.rows[i].extra = {left_out[i]};
  table.notes = {"left out %: the error of the row with constants fitted to all rows but it"};
  return table;
}

}  // namespace tessera::repro

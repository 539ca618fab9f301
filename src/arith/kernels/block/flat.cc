// Products of block-float operands, flat: 64 pixels are found (where they lie, or copied beside
// each other), quantised and multiplied at a time.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "arith/kernels/block/product.h"
#include "arith/kernels/tile/quantise.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kFlatStride = 2 * kPanelPixels;
// A panel that ends with its row leaves part of a strip empty: rows that are long enough for that.
constexpr std::int64_t kLongColumns = 40;

constexpr std::int64_t kHalfBytes = sizeof(std::uint16_t);

// Every other element of a dense row to either of two.
void split_pairs(const std::byte* source, std::int64_t columns, std::byte* even, std::byte* odd) {
  std::int64_t i = 0;
  if constexpr (std::endian::native == std::endian::little) {
    for (; 2 * i + 1 < columns; ++i) {
      std::uint32_t both = 0;
      std::memcpy(&both, source + i * 2 * kHalfBytes, sizeof both);
      const auto low = static_cast<std::uint16_t>(both),
                 high = static_cast<std::uint16_t>(both >> 16);
      std::memcpy(even + i * kHalfBytes, &low, sizeof low);
      std::memcpy(odd + i * kHalfBytes, &high, sizeof high);
    }
  }
  for (; 2 * i < columns; ++i) {
    std::memcpy(even + i * kHalfBytes, source + 2 * i * kHalfBytes, sizeof(std::uint16_t));
    if (2 * i + 1 < columns) {
      std::memcpy(odd + i * kHalfBytes, source + (2 * i + 1) * kHalfBytes, sizeof(std::uint16_t));
    }
  }
}

}  // namespace

void BlockProduct::Run::run_flat(RowRange rows) {
  const std::int64_t pixels = (rows.last - rows.first) * output.columns;
  workspace.lanes.reserve(config().image.output_channels * batch_pitch() *
                          format_bytes(output.format));
  find_tap_columns();
  phases = {};
  if (splits_phases()) split_phases(input_rows_needed(config(), input.rows, rows));
  OutputBatch& batch = workspace.batch;
  for (std::int64_t first = 0; first < pixels; first += batch_lanes) {
    const std::int64_t last = std::min(pixels, first + batch_lanes);
    std::byte* const target = direct_target({rows.first, output.columns, first, last});
    batch.runs.clear();
    for (std::int64_t pixel = first; pixel < last;) {
      const std::int64_t lane = pixel - first;
      const std::int64_t end = panel_end(pixel, last);
      const FlatPixels panel = {rows.first, output.columns, pixel, end};
      const bool direct = target != nullptr && (end - pixel) % kStripPixels == 0;
      if (!direct) add_flat_pixels(output, panel, batch.runs, lane);
      flat_panel(panel, lane, direct ? target + lane * format_bytes(output.format) : nullptr);
      pixel = end;
    }
    flush_batch();
  }
}

// Where the batch's pixels of the group's first output channel lie, if they lie there as in a
// batch: behind each other, the channels evenly spaced. Panels of whole strips go there at once.
std::byte* BlockProduct::Run::direct_target(const FlatPixels& pixels) const {
  PixelRuns& runs = workspace.batch.runs;
  runs.clear();
  add_flat_pixels(output, pixels, runs);
  const std::int64_t channels = config().image.output_channels;
  const std::int64_t first = output_channel_first + group * channels;
  const PixelRun& run = runs.runs()[0];
  const bool even =
      runs.runs().size() == 1 && (run.count == 1 || run.step == format_bytes(output.format));
  if (!even || first + channels > output.partitions) return nullptr;
  return channel_base(output, first) + run.offset;
}

BlockTarget BlockProduct::Run::flat_target(std::int64_t block) {
  const NativeBlock& native = product.weights_.blocks()[static_cast<std::size_t>(block)];
  return {workspace.mantissas.data() + native.first_pair * kFlatStride, kFlatStride,
          workspace.exponents.data() + block * kPanelPixels,
          workspace.scales.data() + block * kPanelPixels};
}

void BlockProduct::Run::quantise_flat_block(std::int64_t block, std::int64_t pixels) {
  const NativeBlock& native = product.weights_.blocks()[static_cast<std::size_t>(block)];
  const BlockTarget target = flat_target(block);
  quantise(
      std::span(workspace.row_pointers)
          .subspan(static_cast<std::size_t>(native.first), static_cast<std::size_t>(native.count)),
      pixels, target,
      workspace.row_lanes.empty() ? nullptr : workspace.row_lanes.data() + native.first);
  for (std::int64_t i = pixels; i < round_up(pixels, kStripPixels); ++i) {
    target.exponents[i] = 0;  // lanes that are not read: any finite value will do
    target.scales[i] = 0.0;
  }
}

// False where blocks have to go by way of mantissas.
bool BlockProduct::Run::flat_panel_into_tiles(const FlatPixels& pixels) {
  if (!product.tiles_ || input.format != Format::kF16) return false;
  const std::int64_t count = pixels.last - pixels.first;
  if (!point_at_panel(pixels)) gather_panel(pixels);
  const std::int64_t strips = ceil_div(count, kStripPixels);
  const std::vector<NativeBlock>& blocks = product.weights_.blocks();
  for (std::int64_t b = 0; b < std::ssize(blocks); ++b) {
    const NativeBlock& block = blocks[static_cast<std::size_t>(b)];
    const BlockTarget target = flat_target(b);
    const bool finite = quantise_into_tiles(
        {.rows = workspace.row_pointers.data() + block.first,
         .present =
             workspace.row_lanes.empty() ? nullptr : workspace.row_lanes.data() + block.first,
         .terms = block.count,
         .pixels = count,
         .mantissa_bits = config().matrix.mantissa_bits_moving,
         .tiles = workspace.tiles.data() + strips * block.first_step * 2 * kTileBytes,
         .exponents = target.exponents,
         .scales = target.scales});
    if (!finite) return false;
  }
  return true;
}

// The mantissas of a panel. Where its blocks are tiles, few sums need them.
void BlockProduct::Run::make_mantissas() {
  const FlatPixels pixels = std::exchange(unmade, {});
  const std::int64_t count = pixels.last - pixels.first;
  if (count == 0) return;
  const bool in_place = !product.tiles_ && point_at_panel(pixels);
  const bool padded = !in_place && gather_panel(pixels);
  const std::int64_t quantised = padded ? round_up(count, kStripPixels) : count;
  for (std::int64_t b = 0; b < std::ssize(product.weights_.blocks()); ++b) {
    quantise_flat_block(b, quantised);
  }
}

void BlockProduct::Run::flat_panel(const FlatPixels& pixels, std::int64_t lane,
                                   std::byte* target_pixels) {
  const std::vector<NativeBlock>& blocks = product.weights_.blocks();
  workspace.mantissas.reserve((blocks.back().first_pair + blocks.back().pairs()) * kFlatStride);
  workspace.exponents.reserve(std::ssize(blocks) * kPanelPixels);
  workspace.scales.reserve(std::ssize(blocks) * kPanelPixels);
  const std::int64_t strips = ceil_div(pixels.last - pixels.first, kStripPixels);
  begin_segments();
  workspace.pair_stride = kFlatStride;
  unmade = pixels;
  const bool made = flat_panel_into_tiles(pixels);
  if (!made) make_mantissas();
  for (std::int64_t b = 0; b < std::ssize(blocks); ++b) {
    const NativeBlock& block = blocks[static_cast<std::size_t>(b)];
    const BlockTarget target = flat_target(b);
    PanelSegment segment;
    for (std::int64_t strip = 0; strip < kPanelStrips; ++strip) {
      segment.mantissas[strip] = target.mantissas + 2 * strip * kStripPixels;
      segment.scales[strip] = target.scales + strip * kStripPixels;
      segment.exponents[strip] = target.exponents + strip * kStripPixels;
    }
    add_segments(segment, block, b, kFlatStride);
    if (product.tiles_) add_tile_segment(segment, block, b, {strips, made});
  }
  multiply({.strips = strips, .pair_stride = kFlatStride, .lane = lane, .target = target_pixels});
}

// Samples of a kernel of several taps lie side by side within a row: a panel ends with it, where
// that leaves whole strips or the row is long.
bool BlockProduct::Run::panels_end_with_rows() const {
  return config().image.taps != 1 &&
         (output.columns % kStripPixels == 0 || output.columns >= kLongColumns);
}

std::int64_t BlockProduct::Run::panel_end(std::int64_t pixel, std::int64_t last) const {
  const std::int64_t end = std::min(last, pixel + kPanelPixels);
  return panels_end_with_rows() ? std::min(end, round_up(pixel + 1, output.columns)) : end;
}

// Fills row_pointers with one row of pixels for each term. True if rows are padded to whole strips.
bool BlockProduct::Run::gather_panel(const FlatPixels& pixels) {
  const KernelImageShape& image = config().image;
  const std::int64_t count = pixels.last - pixels.first;
  workspace.row_pointers.assign(static_cast<std::size_t>(image.taps * image.channels), nullptr);
  workspace.row_lanes.clear();
  std::byte* patch = nullptr;
  for (std::int64_t tap = 0; tap < image.taps; ++tap) {
    PixelRuns& samples = workspace.samples;
    samples.clear();
    add_tap_samples(config(), input, pixels, tap, samples);
    if (samples.runs().empty()) continue;
    const PixelRun& run = samples.runs()[0];
    const bool in_place =
        image.taps == 1 && run.count == count && (count == 1 || run.step == element);
    if (in_place) {
      point_at(tap, run.offset, kAllLanes);
      return false;
    }
    if (patch == nullptr) {
      patch = workspace.patch.reserve(image.taps * image.channels * kPanelPixels * element);
    }
    gather_tap(tap, patch + tap * image.channels * kPanelPixels * element);
  }
  return true;
}

// The rows of a tap where the samples lie: lane 0 at `offset`, no row without a lane.
void BlockProduct::Run::point_at(std::int64_t tap, std::int64_t offset, std::uint64_t lanes) {
  const std::int64_t channels = config().image.channels;
  const std::int64_t first = group * channels;
  const void** const rows = workspace.row_pointers.data() + tap * channels;
  if (!workspace.row_lanes.empty()) {
    std::fill_n(workspace.row_lanes.begin() + tap * channels, channels, lanes);
  }
  if (lanes == 0) {
    std::fill_n(rows, channels, nullptr);
  } else if (phases.base != nullptr) {
    for (std::int64_t c = 0; c < channels; ++c) rows[c] = phases.base + c * phases.pitch + offset;
  } else if (first + channels <= input.partitions) {
    const std::byte* const row = channel_base(input, first) + offset;
    for (std::int64_t c = 0; c < channels; ++c) rows[c] = row + c * input.partition_pitch;
  } else {
    for (std::int64_t c = 0; c < channels; ++c) rows[c] = channel_base(input, first + c) + offset;
  }
}

// Where the samples of a tap lie apart, each input row is taken apart once, so that they lie side by side
// for every tap:
//
//   stride 2    0 1 2 3 4 5 6  ─►  0 2 4 6 | 1 3 5      tap k reads the part of its columns from k / 2 on
bool BlockProduct::Run::splits_phases() const {
  return input.format == Format::kF16 && config().kernel_w > 1 &&
         config().stride_w * input.column_pitch != element && config().input_dilation_h == 1 &&
         config().input_dilation_w == 1 && panels_end_with_rows();
}

void BlockProduct::Run::split_phases(RowRange rows) {
  const std::int64_t channels = config().image.channels, stride = config().stride_w;
  phases.width = ceil_div(input.columns, stride);
  phases.row_pitch = phases.width * stride * kHalfBytes;
  phases.first_row = rows.first;
  phases.pitch = (rows.last - rows.first) * phases.row_pitch;
  phases.base = workspace.phases.reserve(std::max<std::int64_t>(1, channels * phases.pitch));
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::byte* const channel = channel_base(input, group * channels + c);
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const std::byte* const source = channel + row_offset(input, row);
      std::byte* const target =
          phases.base + c * phases.pitch + (row - rows.first) * phases.row_pitch;
      if (stride == 2 && input.column_pitch == kHalfBytes) {
        split_pairs(source, input.columns, target, target + phases.width * kHalfBytes);
        continue;
      }
      for (std::int64_t phase = 0; phase < std::min(stride, input.columns); ++phase) {
        std::byte* const part = target + phase * phases.width * kHalfBytes;
        const std::int64_t count = ceil_div(input.columns - phase, stride);
        for (std::int64_t i = 0; i < count; ++i) {
          std::memcpy(part + i * kHalfBytes, source + (phase + i * stride) * input.column_pitch,
                      sizeof(std::uint16_t));
        }
      }
    }
  }
}

// The rows of a tap, copied from its samples: kPanelPixels lanes each.
void BlockProduct::Run::gather_tap(std::int64_t tap, std::byte* patch) {
  const std::int64_t channels = config().image.channels;
  const PixelRuns& samples = workspace.samples;
  const bool all = samples.covered() == kPanelPixels;
  for (std::int64_t c = 0; c < channels; ++c) {
    std::byte* const lanes = patch + c * kPanelPixels * element;
    if (!all) std::memset(lanes, 0, static_cast<std::size_t>(kPanelPixels * element));
    gather(channel_base(input, group * channels + c), samples, element, lanes);
    workspace.row_pointers[static_cast<std::size_t>(tap * channels + c)] = lanes;
  }
}

// Which output columns have a sample under each tap of a kernel's row.
void BlockProduct::Run::find_tap_columns() {
  const TapAxis axis = TapAxis::columns(config());
  workspace.tap_columns.clear();
  for (std::int64_t k = 0; k < axis.kernel; ++k) {
    const std::int64_t shift = k * axis.dilation - axis.pad;  // sample = output * stride + shift
    const std::int64_t room = input.columns - shift;
    workspace.tap_columns.push_back(
        {.first = shift >= 0 ? 0 : ceil_div(-shift, axis.stride),
         .last = room <= 0 ? 0 : std::min(output.columns, ceil_div(room, axis.stride)),
         .shift = shift});
  }
}

// The same without a copy: row_lanes says which lanes there are. False where the samples of a tap
// lie apart.
bool BlockProduct::Run::point_at_panel(const FlatPixels& pixels) {
  const KernelImageShape& image = config().image;
  if (input.format != Format::kF16 || image.taps == 1) return false;
  workspace.row_pointers.resize(static_cast<std::size_t>(image.taps * image.channels));
  workspace.row_lanes.resize(static_cast<std::size_t>(image.taps * image.channels));
  const std::int64_t column = pixels.first % pixels.columns;
  const bool within_row = column + pixels.last - pixels.first <= pixels.columns;
  const bool side_by_side = config().stride_w * input.column_pitch == element;
  if (phases.base != nullptr || (within_row && side_by_side && config().input_dilation_h == 1 &&
                                 config().input_dilation_w == 1)) {
    point_at_row(pixels, column);
    return true;
  }
  for (std::int64_t tap = 0; tap < image.taps; ++tap) {
    PixelRuns& samples = workspace.samples;
    samples.clear();
    add_tap_samples(config(), input, pixels, tap, samples);
    if (samples.runs().empty()) {
      point_at(tap, 0, 0);
      continue;
    }
    // Rows that lie behind each other on both sides have lane 0 in one place.
    const std::int64_t origin = samples.runs()[0].offset - samples.runs()[0].first * element;
    std::uint64_t lanes = 0;
    for (const PixelRun& run : samples.runs()) {
      const bool even = run.count == 1 || run.step == element;
      if (!even || run.offset - run.first * element != origin) return false;
      lanes |= lane_bits(run.first, run.count);
    }
    point_at(tap, origin, lanes);
  }
  return true;
}

// The taps of pixels of one output row, the first of them in `column`.
void BlockProduct::Run::point_at_row(const FlatPixels& pixels, std::int64_t column) {
  const TapAxis axis = TapAxis::rows(config());
  const std::int64_t row = pixels.first_row + pixels.first / pixels.columns;
  const std::int64_t count = pixels.last - pixels.first;
  std::int64_t tap = 0;
  for (std::int64_t ky = 0; ky < config().kernel_h; ++ky) {
    const std::int64_t sample_row = axis.sample(row, ky, input.rows);
    const bool split = phases.base != nullptr;
    std::int64_t offset = 0;
    if (sample_row >= 0) {
      offset = split ? (sample_row - phases.first_row) * phases.row_pitch
                     : row_offset(input, sample_row);
    }
    for (const TapColumns& columns : workspace.tap_columns) {
      const std::int64_t first = std::max(columns.first - column, std::int64_t{0});
      const std::int64_t last = std::min(columns.last - column, count);
      const bool any = sample_row >= 0 && first < last;
      const std::int64_t place =
          split ? phases.place(column, columns.shift, config().stride_w)
                : (column * config().stride_w + columns.shift) * input.column_pitch;
      point_at(tap++, offset + place, any ? lane_bits(first, last - first) : 0);
    }
  }
}

}  // namespace tessera::kernels

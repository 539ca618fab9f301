// Products of block-float operands, rolling: each input row is quantised once and stays while the
// window passes over it.
#include <algorithm>
#include <array>
#include <cstring>

#include "arith/kernels/block/product.h"
#include "base/quantity.h"

namespace tessera::kernels {

void BlockProduct::Run::run_rolling(RowRange rows) {
  const RowLayout columns(config(), output.columns, kPanelStrips);
  const bool same = workspace.keep_rows && workspace.rows_owner == &product &&
                    workspace.rows_base == input.base &&
                    workspace.rows_origin == input.row_origin && workspace.rows_group == group;
  // One more for the row of zeros that stands for rows outside.
  workspace.rows.resize(
      std::max(workspace.rows.size(), static_cast<std::size_t>(columns.slots) + 1));
  if (!same) {
    for (QuantisedRow& row : workspace.rows) row.row = -1;
    workspace.rows_owner = &product;
    workspace.rows_base = input.base;
    workspace.rows_origin = input.row_origin;
    workspace.rows_group = group;
  }
  const std::int64_t lanes = batch_lanes;
  workspace.lanes.reserve(config().image.output_channels * batch_pitch() *
                          format_bytes(output.format));
  OutputBatch& batch = workspace.batch;
  std::vector<Strip> strips;
  const auto flush_panel = [&] {
    if (strips.empty()) return;
    rolling_panel(columns, strips, batch.lanes);
    batch.lanes += kPanelPixels;
    strips.clear();
    if (batch.lanes + kPanelPixels > lanes) flush_batch();
  };
  const std::int64_t step = config().input_dilation_w;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t phase = 0; phase < std::min(step, output.columns); ++phase) {
      if (step != 1 || config().input_dilation_h != 1) flush_panel();
      const std::int64_t count = ceil_div(output.columns - phase, step);
      for (std::int64_t first = 0; first < count; first += kStripPixels) {
        const std::int64_t pixels = std::min(kStripPixels, count - first);
        batch.runs.add(
            {.first = batch.lanes + static_cast<std::int64_t>(strips.size()) * kStripPixels,
             .count = pixels,
             .offset = row_offset(output, row) + (phase + first * step) * output.column_pitch,
             .step = step * output.column_pitch});
        strips.push_back({row, phase, first, pixels});
        if (std::ssize(strips) == kPanelStrips) flush_panel();
      }
    }
  }
  flush_panel();
  flush_batch();
}

void BlockProduct::Run::rolling_panel(const RowLayout& columns, std::span<const Strip> strips,
                                      std::int64_t lane) {
  const std::int64_t dilation_h = config().input_dilation_h;
  const std::int64_t total = columns.total();
  const std::vector<NativeBlock>& blocks = product.weights_.blocks();
  const std::int64_t tap_blocks = static_cast<std::int64_t>(blocks.size()) / config().image.taps;
  const std::int64_t phase_h = strips[0].output_row % dilation_h;
  begin_segments();
  workspace.pair_stride = 2 * total;
  for (const Tap& ky : columns.row_taps[static_cast<std::size_t>(phase_h)]) {
    std::array<const QuantisedRow*, kPanelStrips> rows{};
    bool any = false;
    for (std::size_t s = 0; s < strips.size(); ++s) {
      const std::int64_t row = ky.offset + strips[s].output_row / dilation_h * config().stride_h;
      const bool inside = row >= 0 && row < input.rows;
      rows[s] = &quantised_row(columns, inside ? row : -1);
      any |= inside;
    }
    if (!any) continue;
    for (const Tap& kx : columns.column_taps[static_cast<std::size_t>(strips[0].phase)]) {
      const std::int64_t tap = ky.index * config().kernel_w + kx.index;
      for (std::int64_t b = 0; b < tap_blocks; ++b) {
        const std::int64_t index = tap * tap_blocks + b;
        const NativeBlock& block = blocks[static_cast<std::size_t>(index)];
        const std::int64_t first_pair = blocks[static_cast<std::size_t>(b)].first_pair;
        PanelSegment segment;
        for (std::size_t s = 0; s < strips.size(); ++s) {
          const std::int64_t column = columns.place(kx.offset) + strips[s].first;
          segment.mantissas[s] = rows[s]->mantissas.data() + (first_pair * total + column) * 2;
          segment.scales[s] = rows[s]->scales.data() + b * total + column;
          segment.exponents[s] = rows[s]->exponents.data() + b * total + column;
        }
        add_segments(segment, block, index, 2 * total);
        if (product.tiles_) {
          add_tile_segment(segment, block, index, {std::ssize(strips), false});
        }
      }
    }
  }
  multiply({.strips = std::ssize(strips), .pair_stride = 2 * total, .lane = lane});
}

// Row -1 is all zeros. The reference holds until `slots` other rows have been asked for.
QuantisedRow& BlockProduct::Run::quantised_row(const RowLayout& columns, std::int64_t row) {
  const std::int64_t slot = row < 0 ? columns.slots : row % columns.slots;
  QuantisedRow& target = workspace.rows[static_cast<std::size_t>(slot)];
  if (target.row != (row < 0 ? columns.slots : row)) {
    target.row = row < 0 ? columns.slots : row;
    quantise_row(columns, row, target);
  }
  return target;
}

void BlockProduct::Run::quantise_row(const RowLayout& columns, std::int64_t row,
                                     QuantisedRow& target) {
  const KernelImageShape& image = config().image;
  const std::vector<NativeBlock>& blocks = product.weights_.blocks();
  const std::int64_t tap_blocks = static_cast<std::int64_t>(blocks.size()) / image.taps;
  const std::int64_t pairs = blocks[static_cast<std::size_t>(tap_blocks - 1)].first_pair +
                             blocks[static_cast<std::size_t>(tap_blocks - 1)].pairs();
  const std::int64_t total = columns.total();
  std::int16_t* mantissas = target.mantissas.reserve(pairs * total * 2);
  std::uint8_t* exponents = target.exponents.reserve(tap_blocks * total);
  double* scales = target.scales.reserve(tap_blocks * total);
  if (row < 0) {
    std::fill_n(mantissas, pairs * total * 2, std::int16_t{0});
    std::fill_n(exponents, tap_blocks * total, std::uint8_t{0});
    std::fill_n(scales, tap_blocks * total, 0.0);
    return;
  }
  PixelRuns& samples = workspace.samples;
  samples.clear();
  columns.add_samples(input, row, samples);
  const bool in_place = samples.runs().size() == 1 &&
                        (samples.runs()[0].step == element || samples.runs()[0].count == 1);
  // Columns that are quantised; around them there are zeros.
  const std::int64_t first = in_place ? samples.runs()[0].first : 0;
  const std::int64_t count = in_place ? samples.runs()[0].count : total;
  // Every block gathers to the same places of the patch: the others stay zeros.
  std::byte* const patch = in_place ? nullptr : zeroed_patch(blocks[0].count, total);
  workspace.row_pointers.resize(static_cast<std::size_t>(blocks[0].count));
  for (std::int64_t b = 0; b < tap_blocks; ++b) {
    const NativeBlock& block = blocks[static_cast<std::size_t>(b)];
    point_at_row(block, patch, total);
    const BlockTarget block_target = {mantissas + block.first_pair * total * 2, 2 * total,
                                      exponents + b * total, scales + b * total};
    quantise(std::span(workspace.row_pointers).first(static_cast<std::size_t>(block.count)), count,
             {block_target.mantissas + 2 * first, block_target.pair_stride,
              block_target.exponents + first, block_target.scales + first});
    clear_columns(block_target, block.pairs(), {0, first});
    clear_columns(block_target, block.pairs(), {first + count, total});
  }
}

std::byte* BlockProduct::Run::zeroed_patch(std::int64_t rows, std::int64_t columns) {
  const std::int64_t bytes = rows * columns * element;
  std::byte* const patch = workspace.patch.reserve(bytes);
  std::memset(patch, 0, static_cast<std::size_t>(bytes));
  return patch;
}

// row_pointers of a block's channels: where the row's only run of samples lies, or its samples
// gathered into `patch`.
void BlockProduct::Run::point_at_row(const NativeBlock& block, std::byte* patch,
                                     std::int64_t columns) {
  const PixelRuns& samples = workspace.samples;
  const std::int64_t first_channel = group * config().image.channels + block.first;
  for (std::int64_t c = 0; c < block.count; ++c) {
    const std::byte* const base = channel_base(input, first_channel + c);
    const void*& pointer = workspace.row_pointers[static_cast<std::size_t>(c)];
    if (patch == nullptr) {
      pointer = base + samples.runs()[0].offset;
      continue;
    }
    std::byte* const lanes = patch + c * columns * element;
    gather(base, samples, element, lanes);
    pointer = lanes;
  }
}

// Makes blocks of zeros of columns [range.first, range.last).
void BlockProduct::Run::clear_columns(const BlockTarget& target, std::int64_t pairs,
                                      RowRange range) {
  const std::int64_t count = range.last - range.first;
  if (count <= 0) return;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    std::fill_n(target.mantissas + pair * target.pair_stride + 2 * range.first, 2 * count,
                std::int16_t{0});
  }
  std::fill_n(target.exponents + range.first, count, std::uint8_t{0});
  std::fill_n(target.scales + range.first, count, 0.0);
}

}  // namespace tessera::kernels

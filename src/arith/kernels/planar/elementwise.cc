// Element-wise work over surfaces: rows that lie evenly in memory are handed to the array functions
// of arith/vector_ops.h, everything else is gathered first.

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/planar/affine_elementwise.h"
#include "arith/kernels/planar/planar.h"

namespace tessera {
namespace {

// Elements worked on at a time, so that what passes between two functions stays in the cache.
constexpr std::int64_t kChunk = 2048;

struct alignas(64) Scratch {
  std::array<std::byte, kChunk * 4> bytes;
};

arith::Operand advance(const arith::Operand& in, std::int64_t elements) {
  arith::Operand moved = in;
  moved.data =
      static_cast<const std::byte*>(in.data) + elements * in.stride * format_bytes(in.format);
  return moved;
}

// The operand as binary32 if it is affine, otherwise as it is.
arith::Operand read_affine(const Affine& affine, const arith::Operand& in, std::int64_t count,
                           Scratch& scratch) {
  if (!affine.enabled) return in;
  const std::int64_t elements = in.stride == 0 ? 1 : count;
  arith::simd::dequantize(
      in, affine.scale, affine.zero_point,
      {.format = Format::kF32, .data = scratch.bytes.data(), .count = elements});
  return {.format = Format::kF32, .data = scratch.bytes.data(), .stride = in.stride};
}

// At most kChunk elements.
void chunk_run(const ElementwiseConfig& config, const arith::Operand& a, const arith::Operand* b,
               const arith::Output& out) {
  if (config.binary && kernels::run_affine_binary(config, a, *b, out)) return;
  Scratch left;
  Scratch right;
  Scratch wide;
  arith::Operand value = read_affine(config.inputs[0], a, out.count, left);
  const Format format = config.output.enabled ? Format::kF32 : out.format;
  const arith::Output result = {.format = format,
                                .data = config.output.enabled ? wide.bytes.data() : out.data,
                                .count = out.count};
  const bool active = config.activation.function != UnaryFunction::kIdentity;
  if (config.binary) {
    arith::simd::binary(config.function, value, read_affine(config.inputs[1], *b, out.count, right),
                        result);
    value = {.format = format, .data = result.data, .stride = 1};
  }
  if (active) {
    arith::simd::unary(config.activation, value, result);
  } else if (!config.binary) {
    arith::simd::convert(value, result);
  }
  if (config.output.enabled) {
    arith::simd::quantize({.format = format, .data = result.data, .stride = 1}, config.output.scale,
                          config.output.zero_point, out);
  }
}

// ---- surfaces
// -------------------------------------------------------------------------------------

// One operand of a channel: where its pixels lie, the same for every channel.
struct Side {
  const Surface* surface = nullptr;
  kernels::PixelRuns runs;

  std::int64_t element() const { return format_bytes(surface->format); }
  bool is_single() const { return runs.runs().size() == 1; }
  // Can be handed over as it is: contiguous, or one element for all.
  bool is_direct() const {
    if (!is_single()) return false;
    const kernels::PixelRun& run = runs.runs()[0];
    return run.count == 1 || run.step == element() || run.step == 0;
  }
  std::byte* base(std::int64_t channel) const {
    return kernels::channel_base(*surface, channel) + runs.runs()[0].offset;
  }
};

Side make_side(const Surface& surface, RowRange rows) {
  Side side = {.surface = &surface, .runs = {}};
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    side.runs.add({.first = (row - rows.first) * surface.columns,
                   .count = surface.columns,
                   .offset = kernels::row_offset(surface, row),
                   .step = surface.column_pitch});
  }
  return side;
}

// The pixels of a channel as an operand, gathered into `buffer` if need be.
arith::Operand operand_of(const Side& side, std::int64_t channel, std::int64_t count,
                          std::vector<std::byte>& buffer) {
  if (side.is_direct()) {
    const bool repeated = side.runs.runs()[0].step == 0 && count > 1;
    return {.format = side.surface->format, .data = side.base(channel), .stride = repeated ? 0 : 1};
  }
  buffer.resize(static_cast<std::size_t>(count * side.element()));
  kernels::gather(kernels::channel_base(*side.surface, channel), side.runs, side.element(),
                  buffer.data());
  return {.format = side.surface->format, .data = buffer.data(), .stride = 1};
}

// Rows [rows.first, rows.last) of every channel as one array each.
void rows_run(const ElementwiseConfig& config, const Surface& a, const Surface* b,
              const Surface& output, ChannelRange channels, RowRange rows) {
  const Side left = make_side(a, rows);
  const Side right = b == nullptr ? Side{} : make_side(*b, rows);
  const Side target = make_side(output, rows);
  const std::int64_t count = (rows.last - rows.first) * output.columns;
  std::vector<std::byte> left_buffer, right_buffer, output_buffer;
  const bool direct = target.is_direct() && target.runs.runs()[0].step != 0;
  if (!direct) output_buffer.resize(static_cast<std::size_t>(count * target.element()));
  for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
    const arith::Operand x = operand_of(left, channel, count, left_buffer);
    arith::Operand y;
    if (b != nullptr) y = operand_of(right, channel, count, right_buffer);
    void* data = direct ? static_cast<void*>(target.base(channel)) : output_buffer.data();
    elementwise_run(config, x, b == nullptr ? nullptr : &y,
                    {.format = output.format, .data = data, .count = count});
    if (!direct) {
      kernels::scatter(output_buffer.data(), target.runs, target.element(),
                       kernels::channel_base(output, channel));
    }
  }
}

}  // namespace

void elementwise_run(const ElementwiseConfig& config, const arith::Operand& a,
                     const arith::Operand* b, const arith::Output& out) {
  for (std::int64_t first = 0; first < out.count; first += kChunk) {
    const std::int64_t count = std::min(kChunk, out.count - first);
    arith::Operand other;
    if (b != nullptr) other = advance(*b, first);
    chunk_run(config, advance(a, first), b == nullptr ? nullptr : &other,
              {.format = out.format,
               .data = static_cast<std::byte*>(out.data) + first * format_bytes(out.format),
               .count = count});
  }
}

void elementwise(const ElementwiseConfig& config, const Surface& a, const Surface* b,
                 const Surface& output, ChannelRange channels, RowRange rows) {
  if (rows.first >= rows.last || output.columns == 0) return;
  const auto evenly = [&](const Surface& surface) { return make_side(surface, rows).is_single(); };
  const bool whole = evenly(a) && evenly(output) && (b == nullptr || evenly(*b));
  const std::int64_t step = whole ? rows.last - rows.first : 1;
  for (std::int64_t row = rows.first; row < rows.last; row += step) {
    rows_run(config, a, b, output, channels, {row, row + step});
  }
}

}  // namespace tessera

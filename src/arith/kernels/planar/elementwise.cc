// Element-wise work over surfaces: rows that lie evenly in memory are handed to the array functions
// of arith/vector_ops.h, everything else is gathered first.

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
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

// Up to three operands of one format each, those that are there first.
constexpr std::size_t kOperandsMax = 3;
using Operands = std::span<const arith::Operand>;

// The last function of a run, into binary32 where the output is quantised behind it.
class Ending {
 public:
  Ending(const ElementwiseConfig& config, const arith::Output& out)
      : config_(config),
        out_(out),
        result_{.format = config.output.enabled ? Format::kF32 : out.format,
                .data = config.output.enabled ? wide_.bytes.data() : out.data,
                .count = out.count} {}

  const arith::Output& result() const { return result_; }
  // Of a value that is not there yet, and of what result() has.
  void run(const arith::Operand& value) {
    if (config_.activation.function == UnaryFunction::kIdentity) {
      arith::simd::convert(value, result_);
    } else {
      arith::simd::unary(config_.activation, value, result_);
    }
    quantise();
  }
  void run() {
    if (config_.activation.function != UnaryFunction::kIdentity) {
      arith::simd::unary(config_.activation, so_far(), result_);
    }
    quantise();
  }

 private:
  arith::Operand so_far() const {
    return {.format = result_.format, .data = result_.data, .stride = 1};
  }
  void quantise() {
    if (!config_.output.enabled) return;
    arith::simd::quantize(so_far(), config_.output.scale, config_.output.zero_point, out_);
  }

  const ElementwiseConfig& config_;
  const arith::Output& out_;
  Scratch wide_;
  arith::Output result_;
};

// At most kChunk elements.
void chunk_run(const ElementwiseConfig& config, Operands operands, const arith::Output& out) {
  if (operands.size() == 2 && kernels::run_affine_binary(config, operands[0], operands[1], out)) {
    return;
  }
  Scratch left;
  Scratch right;
  Ending ending(config, out);
  const arith::Operand a = read_affine(config.inputs[0], operands[0], out.count, left);
  if (operands.size() == 1) return ending.run(a);
  const arith::Operand b = read_affine(config.inputs[1], operands[1], out.count, right);
  if (operands.size() == 2) {
    arith::simd::binary(config.function, a, b, ending.result());
    return ending.run();
  }
  Scratch scaled;
  arith::simd::binary(
      BinaryFunction::kMultiply, a, b,
      {.format = config.gain_format, .data = scaled.bytes.data(), .count = out.count});
  arith::simd::binary(BinaryFunction::kAdd,
                      {.format = config.gain_format, .data = scaled.bytes.data(), .stride = 1},
                      operands[2], ending.result());
  ending.run();
}

void array_run(const ElementwiseConfig& config, Operands operands, const arith::Output& out) {
  std::array<arith::Operand, kOperandsMax> moved;
  for (std::int64_t first = 0; first < out.count; first += kChunk) {
    for (std::size_t i = 0; i < operands.size(); ++i) moved[i] = advance(operands[i], first);
    chunk_run(config, Operands(moved.data(), operands.size()),
              {.format = out.format,
               .data = static_cast<std::byte*>(out.data) + first * format_bytes(out.format),
               .count = std::min(kChunk, out.count - first)});
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
void rows_run(const ElementwiseConfig& config, std::span<const Surface> surfaces,
              const Surface& output, ChannelRange channels, RowRange rows) {
  std::array<Side, kOperandsMax> sides;
  for (std::size_t i = 0; i < surfaces.size(); ++i) sides[i] = make_side(surfaces[i], rows);
  const Side target = make_side(output, rows);
  const std::int64_t count = (rows.last - rows.first) * output.columns;
  std::array<std::vector<std::byte>, kOperandsMax> buffers;
  std::vector<std::byte> output_buffer;
  const bool direct = target.is_direct() && target.runs.runs()[0].step != 0;
  if (!direct) output_buffer.resize(static_cast<std::size_t>(count * target.element()));
  std::array<arith::Operand, kOperandsMax> operands;
  for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
    for (std::size_t i = 0; i < surfaces.size(); ++i) {
      operands[i] = operand_of(sides[i], channel, count, buffers[i]);
    }
    void* data = direct ? static_cast<void*>(target.base(channel)) : output_buffer.data();
    array_run(config, Operands(operands.data(), surfaces.size()),
              {.format = output.format, .data = data, .count = count});
    if (!direct) {
      kernels::scatter(output_buffer.data(), target.runs, target.element(),
                       kernels::channel_base(output, channel));
    }
  }
}

void surfaces_run(const ElementwiseConfig& config, std::span<const Surface> surfaces,
                  const Surface& output, ChannelRange channels, RowRange rows) {
  if (rows.first >= rows.last || output.columns == 0) return;
  const auto evenly = [&](const Surface& surface) { return make_side(surface, rows).is_single(); };
  const bool whole = evenly(output) && std::all_of(surfaces.begin(), surfaces.end(), evenly);
  const std::int64_t step = whole ? rows.last - rows.first : 1;
  for (std::int64_t row = rows.first; row < rows.last; row += step) {
    rows_run(config, surfaces, output, channels, {row, row + step});
  }
}

}  // namespace

void elementwise_run(const ElementwiseConfig& config, const arith::Operand& a,
                     const arith::Operand* b, const arith::Output& out) {
  const arith::Operand operands[] = {a, b == nullptr ? arith::Operand{} : *b};
  array_run(config, Operands(operands, config.binary ? 2 : 1), out);
}

void gain_bias_run(const ElementwiseConfig& config, const arith::Operand (&operands)[3],
                   const arith::Output& out) {
  array_run(config, operands, out);
}

void elementwise(const ElementwiseConfig& config, const Surface& a, const Surface* b,
                 const Surface& output, ChannelRange channels, RowRange rows) {
  const Surface surfaces[] = {a, b == nullptr ? Surface{} : *b};
  surfaces_run(config, {surfaces, config.binary ? 2u : 1u}, output, channels, rows);
}

void gain_bias(const ElementwiseConfig& config, const Surface (&operands)[3], const Surface& output,
               ChannelRange channels, RowRange rows) {
  surfaces_run(config, operands, output, channels, rows);
}

}  // namespace tessera

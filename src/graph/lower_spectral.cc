// The short-time Fourier transform of a real signal as a product.
//
//   x [B, L] ── Move: overlapping rows ──► [B * frames, N] ── x [N, 2 bins] ──► [B * frames, 2, bins]
//     ── Move: parts side by side ──► [B, frames, bins, 2]
//
// The weights are window[n] cos(2 pi k n / N) of all bins k, then -window[n] sin(2 pi k n / N), computed in
// binary64. One sum, one rounding to the vector format. Who takes real and imaginary parts from the
// result reads runs of channels: the last Move and the one that takes a part become one.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "graph/composer.h"
#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

// [2 * bins, frame].
std::vector<double> transform_weights(const std::vector<double>& window, std::int64_t bins) {
  const auto frame = static_cast<std::int64_t>(window.size());
  std::vector<double> weights;
  for (const bool imaginary : {false, true}) {
    for (std::int64_t k = 0; k < bins; ++k) {
      for (std::int64_t n = 0; n < frame; ++n) {
        const double turn = static_cast<double>(k * n % frame) / static_cast<double>(frame);
        const double angle = 2.0 * std::numbers::pi * turn;
        const double wave = imaginary ? -std::sin(angle) : std::cos(angle);
        weights.push_back(window[static_cast<std::size_t>(n)] * wave);
      }
    }
  }
  return weights;
}

std::string transform_refusal(const Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return reason;
  if (!is_vector_float(op.input_type(0).format)) {
    return fmt::format("operator 'STFT': no vector arithmetic in {}",
                       format_name(op.input_type(0).format));
  }
  const Shape& dims = op.input_dims(0);
  if (dims.size() == 3 && dims[2] == 2) return "operator 'STFT': a complex signal";
  const bool known = op.constant(1) != nullptr && (!op.has_input(2) || op.constant(2) != nullptr) &&
                     (!op.has_input(3) || op.constant(3) != nullptr);
  return known ? "" : "operator 'STFT': frames or window are computed at run time";
}

}  // namespace

Lowered lower_stft(Op& op) {
  if (std::string reason = transform_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const Shape& dims = op.input_dims(0);
  const Shape& out = op.output_dims(0);  // [B, frames, bins, 2]
  std::vector<double> window;
  if (op.has_input(2)) window = reals(*op.constant(2));
  if (op.has_input(3)) {
    window.resize(static_cast<std::size_t>(only_real(*op.constant(3))),
                  op.has_input(2) ? 0.0 : 1.0);
  }
  const auto frame = static_cast<std::int64_t>(window.size());
  const auto step = static_cast<std::int64_t>(only_real(*op.constant(1)));
  const TensorId weights = make.transposed(
      make.constant({2 * out[2], frame}, transform_weights(window, out[2]), Format::kF64), {1, 0});
  CopyBox frames;
  frames.extents = {dims[0], out[1], frame};
  frames.input_strides = {dims[1], step, 1};
  frames.output_strides = row_major_strides(frames.extents);
  const TensorId rows = make.moved(op.at.value(op.input(0)), {false, 0, {simplified(frames)}},
                                   {dims[0] * out[1], frame});
  const TensorId parts =
      make.reshaped(make.matmul(rows, weights, {}, make.vector()), {dims[0] * out[1], 2, out[2]});
  make.output(0, make.reshaped(make.transposed(parts, {0, 2, 1}), out));
  return Lowered::done();
}

}  // namespace tessera::graph

// The short-time Fourier transform of a real signal as a convolution.
//
//   x [B, L] ── Conv, one tap an element of a frame, stride frame_step ──► [B, 2 * bins, frames]
//            ── Move ──► [B, frames, bins, 2]
//
// The weights are window[n] cos(2 pi k n / N) and -window[n] sin(2 pi k n / N), side by side for
// each bin k, computed in binary64. One sum, one rounding to the vector format.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "graph/composer.h"
#include "graph/lower_conv.h"
#include "graph/operators.h"

namespace tessera::graph {

namespace {

// [2 * bins, 1, 1, frame].
std::vector<double> transform_weights(const std::vector<double>& window, std::int64_t bins) {
  const auto frame = static_cast<std::int64_t>(window.size());
  std::vector<double> weights;
  for (std::int64_t k = 0; k < bins; ++k) {
    for (const bool imaginary : {false, true}) {
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
  Window taps;
  taps.kernel = {1, frame};
  taps.stride = {1, static_cast<std::int64_t>(only_real(*op.constant(1)))};
  const Shape weight_dims = {2 * out[2], 1, 1, frame};
  const TensorId weights =
      make.constant(weight_dims, transform_weights(window, out[2]), Format::kF64);
  const TensorId x = make.reshaped(op.at.value(op.input(0)), {dims[0], 1, 1, dims[1]});
  ConvAttributes conv = conv_attributes(taps, 1, make.dims(x), weight_dims);
  conv.matrix = op.at.matrix_format();
  const TensorId product =
      op.at.emit(op, "frames", {x, weights}, conv, make.vector(), {dims[0], 2 * out[2], 1, out[1]});
  const TensorId planes = make.reshaped(product, {dims[0], 2 * out[2], out[1]});
  make.output(0, make.transposed(planes, {0, 2, 1}));
  return Lowered::done();
}

}  // namespace tessera::graph

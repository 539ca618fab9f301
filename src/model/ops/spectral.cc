// The last axis holds real values (length 1) or real and imaginary parts (length 2).
#include "model/ops/spectral.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <numbers>

#include "arith/function.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

using Complex = std::complex<double>;

// exp(-2 pi i k / n) for k = 0 .. n-1.
std::vector<Complex> roots_of_unity(std::int64_t n) {
  std::vector<Complex> roots;
  for (std::int64_t k = 0; k < n; ++k) {
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    roots.emplace_back(arith::apply({UnaryFunction::kCos}, angle),
                       -arith::apply({UnaryFunction::kSin}, angle));
  }
  return roots;
}

// Bin k of the transform of `signal` (as many elements as roots, or fewer: the rest is 0).
Complex transform_bin(const std::vector<Complex>& signal, const std::vector<Complex>& roots,
                      std::int64_t k, bool inverse) {
  const auto n = static_cast<std::int64_t>(roots.size());
  double real = 0.0;
  double imaginary = 0.0;
  for (std::int64_t t = 0; t < std::min(n, static_cast<std::int64_t>(signal.size())); ++t) {
    const Complex x = signal[static_cast<std::size_t>(t)];
    const Complex root = roots[static_cast<std::size_t>(k * t % n)];
    const double w = inverse ? -root.imag() : root.imag();
    real += x.real() * root.real() - x.imag() * w;
    imaginary += x.real() * w + x.imag() * root.real();
  }
  const double scale = inverse ? static_cast<double>(n) : 1.0;
  return {real / scale, imaginary / scale};
}

Status require_complex(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 3));
  const std::int64_t parts = call.dims(0).back();
  if (parts == 1 || parts == 2) return {};
  return invalid(fmt::format("the last axis of input 0 is {} long, 1 or 2 is needed", parts));
}

struct DftPlan {
  std::int64_t axis = 1;
  std::int64_t length = 0;
  std::int64_t bins = 0;  // along the axis of the output
  bool to_real = false;   // an inverse from one half of the spectrum
};

// The axis is an attribute before opset 20 and input 2 from then on.
Result<DftPlan> plan_dft(const Call& call) {
  TESSERA_RETURN_IF_ERROR(require_complex(call));
  std::int64_t axis = call.opset() < 20 ? call.attribute("axis", 1) : -2;
  if (call.has(2)) {
    TESSERA_TRY(axis, call.integer(2));
  }
  DftPlan plan;
  TESSERA_TRY(plan.axis, normalise_axis(axis, call.rank(0)));
  if (plan.axis == call.rank(0) - 1) return invalid("the last axis cannot be transformed");
  plan.length = call.dims(0)[static_cast<std::size_t>(plan.axis)];
  const bool onesided = call.attribute("onesided", 0) != 0;
  plan.to_real = onesided && call.attribute("inverse", 0) != 0;
  if (plan.to_real) plan.length = 2 * (plan.length - 1);
  if (call.has(1)) {
    TESSERA_TRY(plan.length, call.integer(1));
  }
  if (plan.length < 1 || plan.length > (kDimensionMax >> 8)) {
    return invalid(fmt::format("a transform of length {}", plan.length));
  }
  plan.bins = onesided && !plan.to_real ? plan.length / 2 + 1 : plan.length;
  return plan;
}

}  // namespace

Result<Outputs> dft_shape(const Call& call) {
  TESSERA_TRY(const DftPlan plan, plan_dft(call));
  Shape dims = call.dims(0);
  dims[static_cast<std::size_t>(plan.axis)] = plan.bins;
  dims.back() = plan.to_real ? 1 : 2;
  return one_output(call.format(0), std::move(dims));
}

namespace {

// The other half of a real signal's spectrum is the mirror image.
void complete(std::vector<Complex>& half, std::int64_t length) {
  const auto n = static_cast<std::size_t>(length);
  half.resize(n / 2 + 1);
  for (std::size_t k = half.size(); k < n; ++k) half.push_back(std::conj(half[n - k]));
}

}  // namespace

Status dft(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const DftPlan plan, plan_dft(call));
  const bool inverse = call.attribute("inverse", 0) != 0;
  const std::vector<Complex> roots = roots_of_unity(plan.length);
  const AxisView view = view_axis(call.dims(0), plan.axis);
  const std::int64_t parts = call.dims(0).back();
  const std::int64_t points = view.inner / parts;  // between two steps of the axis
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  std::vector<Complex> signal(static_cast<std::size_t>(view.length));
  for (std::int64_t line = 0; line < view.outer * points; ++line) {
    const std::int64_t outer = line / points;
    const std::int64_t point = line % points;
    signal.resize(static_cast<std::size_t>(view.length));
    for (std::int64_t t = 0; t < view.length; ++t) {
      const std::int64_t at = ((outer * view.length + t) * points + point) * parts;
      signal[static_cast<std::size_t>(t)] = {in[at], parts == 2 ? in[at + 1] : 0.0};
    }
    if (plan.to_real) complete(signal, plan.length);
    for (std::int64_t k = 0; k < plan.bins; ++k) {
      const Complex bin = transform_bin(signal, roots, k, inverse);
      const std::int64_t to = ((outer * plan.bins + k) * points + point) * (plan.to_real ? 1 : 2);
      out.set(to, bin.real());
      if (!plan.to_real) out.set(to + 1, bin.imag());
    }
  }
  return {};
}

namespace {

struct StftPlan {
  std::int64_t step = 1;
  std::int64_t length = 0;
  std::int64_t frames = 0;
  std::int64_t bins = 0;
};

// Inputs: signal [batch, samples, parts] or, real, [batch, samples], step, window (optional), frame
// length (optional).
Result<StftPlan> plan_stft(const Call& call) {
  if (call.rank(0) == 2) {
    TESSERA_RETURN_IF_ERROR(call.require_float(0));
  } else {
    TESSERA_RETURN_IF_ERROR(require_complex(call));
    if (call.rank(0) != 3) return invalid("input 0 does not have rank 2 or 3");
  }
  StftPlan plan;
  TESSERA_TRY(plan.step, call.integer(1));
  if (call.has(2)) {
    if (call.rank(2) != 1) return invalid("the window is not a vector");
    plan.length = call.dims(2)[0];
  }
  if (call.has(3)) {
    TESSERA_TRY(plan.length, call.integer(3));
  }
  TESSERA_RETURN_IF_ERROR(call.require_vector(2, plan.length));
  const std::int64_t samples = call.dims(0)[1];
  if (plan.step < 1 || plan.length < 1 || plan.length > samples) {
    return invalid(
        fmt::format("frames of {} every {} in {} samples", plan.length, plan.step, samples));
  }
  plan.frames = (samples - plan.length) / plan.step + 1;
  plan.bins = call.attribute("onesided", 1) != 0 ? plan.length / 2 + 1 : plan.length;
  return plan;
}

}  // namespace

Result<Outputs> stft_shape(const Call& call) {
  TESSERA_TRY(const StftPlan plan, plan_stft(call));
  return one_output(call.format(0), {call.dims(0)[0], plan.frames, plan.bins, 2});
}

Status stft(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const StftPlan plan, plan_stft(call));
  const std::vector<Complex> roots = roots_of_unity(plan.length);
  std::vector<double> window(static_cast<std::size_t>(plan.length), 1.0);
  if (call.has(2)) window = load<double>(call.tensor(2));
  const std::int64_t samples = call.dims(0)[1];
  const std::int64_t parts = call.rank(0) == 2 ? 1 : call.dims(0)[2];
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  std::vector<Complex> signal(window.size());
  for (std::int64_t line = 0; line < call.dims(0)[0] * plan.frames; ++line) {
    const std::int64_t first = line / plan.frames * samples + line % plan.frames * plan.step;
    for (std::int64_t t = 0; t < plan.length; ++t) {
      const double weight = window[static_cast<std::size_t>(t)];
      const std::int64_t at = (first + t) * parts;
      signal[static_cast<std::size_t>(t)] = {in[at] * weight,
                                             parts == 2 ? in[at + 1] * weight : 0.0};
    }
    for (std::int64_t k = 0; k < plan.bins; ++k) {
      const Complex bin = transform_bin(signal, roots, k, false);
      out.set((line * plan.bins + k) * 2, bin.real());
      out.set((line * plan.bins + k) * 2 + 1, bin.imag());
    }
  }
  return {};
}

}  // namespace tessera::model::ops

// Fourier transforms of real signals, as products with the waves: the angles are constants, since lengths are.
//
//   Rfft: [.., n] ─► [.., n / 2 + 1, 2]      Irfft: [.., n / 2 + 1, 2] ─► [.., n], divided by the number of elements
#include <fmt/format.h>

#include "model/contrib/operators.h"
#include "model/contrib/table.h"

namespace tessera::model::contrib {
namespace {

struct Complex {
  std::string real, imaginary;
};

std::string counted(Body& body, const std::string& count) {
  const std::string range =
      body.node("Range", {body.whole(0), body.reshaped(count, {}), body.whole(1)});
  return body.cast(range, kFloat);
}

// Cosines and sines [from, to] of 2 pi i k / n, i below `from` and k below `to`.
Complex waves(Body& body, const std::string& from, const std::string& to, const std::string& n) {
  constexpr float kTurn = 6.283185307179586f;
  const std::string rows = body.reshaped(counted(body, from), {-1, 1});
  const std::string columns = body.reshaped(counted(body, to), {1, -1});
  // Whole turns go before the product with 2 pi, which would round them.
  const std::string length = body.cast(body.reshaped(n, {}), kFloat);
  const std::string product = body.node("Mul", {rows, columns});
  const std::string turns = body.node("Floor", {body.node("Div", {product, length})});
  const std::string rest = body.node("Sub", {product, body.node("Mul", {turns, length})});
  const std::string angle =
      body.node("Mul", {body.node("Div", {rest, length}), body.number(kTurn, length)});
  return {body.node("Cos", {angle}), body.node("Sin", {angle})};
}

// Bins of a signal of `n` elements: n / 2 + 1.
std::string bins_of(Body& body, const std::string& n) {
  return body.node("Add", {body.node("Div", {n, body.list({2})}), body.list({1})});
}

std::string part(Body& body, const std::string& x, std::int64_t which) {
  return body.node("Gather", {x, body.whole(which)}, {{"axis", std::int64_t{-1}}});
}

Refusal checked(const Body& body) {
  if (body.integer("signal_ndim", 1) != 1)
    return fmt::format("the attribute signal_ndim = {}", body.integer("signal_ndim", 1));
  if (body.integer("normalized", 0) != 0) return "the attribute normalized = 1";
  if (body.integer("onesided", 1) != 1) return "the attribute onesided = 0";
  constexpr std::int64_t kSinceRange = 11;
  if (body.opset() < kSinceRange)
    return fmt::format("opset {} of the standard; convert the model with 11 or more", body.opset());
  return {};
}

Refusal write_forward(Body& body) {
  if (Refusal refusal = checked(body); !refusal.empty()) return refusal;
  const std::string n = body.length(body.in(0), -1);
  const Complex wave = waves(body, n, bins_of(body, n), n);
  const std::string real = body.node("MatMul", {body.in(0), wave.real});
  const std::string imaginary =
      body.node("Neg", {body.node("MatMul", {body.in(0), wave.imaginary})});
  body.output(0, body.node("Concat", {with_last_axis(body, real), with_last_axis(body, imaginary)},
                           {{"axis", std::int64_t{-1}}}));
  return {};
}

// The bins that are not there are the conjugates of those that are: all but the first and the last count twice.
Refusal write_backward(Body& body) {
  if (Refusal refusal = checked(body); !refusal.empty()) return refusal;
  const std::string bins = body.length(body.in(0), -2);
  const std::string n =
      body.node("Mul", {body.node("Sub", {bins, body.list({1})}), body.list({2})});
  const Complex wave = waves(body, bins, n, n);
  const std::string place = counted(body, bins);
  const std::string last = body.cast(body.node("Sub", {bins, body.list({1})}), kFloat);
  const auto is = [&](const std::string& value) {
    return body.cast(body.node("Equal", {place, value}), kFloat);
  };
  const std::string once = body.node("Add", {is(body.number(0, place)), is(last)});
  const std::string count = body.node("Sub", {body.number(2, place), once});
  const std::string weight =
      body.reshaped(body.node("Div", {count, body.cast(n, kFloat)}), {-1, 1});
  const auto product = [&](std::int64_t which, const std::string& of) {
    return body.node("MatMul", {part(body, body.in(0), which), body.node("Mul", {of, weight})});
  };
  body.output(0, body.node("Sub", {product(0, wave.real), product(1, wave.imaginary)}));
  return {};
}

}  // namespace

Operators spectral_operators() {
  return {{"Inverse", {write_inverse, {0}}},
          {"Rfft", {write_forward, {0}}},
          {"Irfft", {write_backward, {0}}}};
}

}  // namespace tessera::model::contrib

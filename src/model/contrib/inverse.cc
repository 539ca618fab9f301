// Inverses of square matrices [.., n, n], by Newton's iteration in f64 on the host: X becomes X (2 I - A X).
//
// From A^T / (the largest sum of a row times that of a column) it converges for every regular matrix; the number of correct bits
// doubles with each step once |I - A X| is below 1, which takes twice the binary logarithm of the condition.
#include "model/contrib/table.h"

namespace tessera::model::contrib {
namespace {

constexpr int kSteps = 64;  // conditions up to 2^28, and the last bits

// The largest sum of magnitudes along `axis`, [.., 1, 1].
std::string largest_sum(Body& body, const std::string& magnitudes, std::int64_t axis) {
  constexpr std::int64_t kSinceAxesAreAnInput = 18;
  const std::string ones =
      body.node("Concat",
                {body.node("Slice", {body.node("Shape", {magnitudes}), body.list({0}),
                                     body.list({-2}), body.list({0})}),
                 body.list({-1})},
                {{"axis", std::int64_t{0}}});
  const std::string sums = body.node("Reshape", {body.total(magnitudes, axis), ones});
  const std::string most =
      body.opset() < kSinceAxesAreAnInput
          ? body.node("ReduceMax", {sums}, {{"axes", std::vector<std::int64_t>{-1}}})
          : body.node("ReduceMax", {sums, body.list({-1})});
  return with_last_axis(body, most);
}

}  // namespace

Refusal write_inverse(Body& body) {
  constexpr std::int64_t kSinceRange = 11;
  if (body.opset() < kSinceRange) return "an opset of the standard below 11; convert it with 11";
  const std::string a = wide(body, 0);
  const std::string places =
      body.node("Range", {body.whole(0), body.reshaped(body.length(a, -1), {}), body.whole(1)});
  const std::string identity = body.cast(
      body.node("Equal", {body.reshaped(places, {-1, 1}), body.reshaped(places, {1, -1})}),
      kDouble);
  const std::string magnitudes = body.node("Abs", {a});
  const std::string size =
      body.node("Mul", {largest_sum(body, magnitudes, -1), largest_sum(body, magnitudes, -2)});
  std::string x = body.node("Div", {exchanged(body, a), size});
  const std::string twice = body.node("Add", {identity, identity});
  for (int step = 0; step < kSteps; ++step) {
    const std::string error = body.node("Sub", {twice, body.node("MatMul", {a, x})});
    x = body.node("MatMul", {x, error});
  }
  body.output(0, narrow(body, x));
  return {};
}

}  // namespace tessera::model::contrib

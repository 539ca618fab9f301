#include "model/contrib/attention_parts.h"

namespace tessera::model::contrib {
namespace {

// What `scores` [..., S, T] give a position behind its query, or before its window: the least number there is.
std::string without_later(Body& body, const std::string& scores, const Heads& heads) {
  const auto range = [&](std::int64_t axis) {
    const std::string count = body.reshaped(body.length(scores, axis), {});
    return body.node("Range", {body.whole(0), count, body.whole(1)});
  };
  std::string key = body.reshaped(range(-1), {1, -1});
  std::string query = heads.places;
  if (!query.empty()) {
    key = body.cast(key, onnx::TensorProto::INT32);
  } else {
    query = range(-2);
    if (!heads.past.empty()) query = body.node("Add", {query, heads.past});
    query = body.reshaped(query, {-1, 1});
  }
  std::string is_hidden = body.node("Greater", {key, query});
  if (heads.window >= 0) {
    std::string before = body.whole(heads.window - 1);
    if (!heads.places.empty()) before = body.cast(before, onnx::TensorProto::INT32);
    const std::string first = body.node("Sub", {query, before});
    is_hidden = body.node("Or", {is_hidden, body.node("Less", {key, first})});
  }
  return body.node("Where", {is_hidden, body.number(-65504, scores), scores});
}

// What turns together: both halves of the last axis, or every other number and its neighbour.
std::vector<std::string> turning_parts(Body& body, const std::string& x, bool interleaved) {
  if (!interleaved) return body.halves(x);
  const std::string pairs = body.node(
      "Reshape", {x, joined(body, {body.node("Slice", {body.node("Shape", {x}), body.list({0}),
                                                       body.list({-1}), body.list({0})}),
                                   body.list({-1, 2})})});
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < 2; ++i) {
    parts.push_back(body.node("Gather", {pairs, body.whole(i)}, {{"axis", std::int64_t{-1}}}));
  }
  return parts;
}

}  // namespace

std::string joined(Body& body, const std::vector<std::string>& parts) {
  return body.node("Concat", parts, {{"axis", std::int64_t{0}}});
}

std::string attended(Body& body, const Heads& heads, const std::vector<std::int64_t>& turned) {
  std::string scores = body.node("MatMul", {heads.query, body.transposed(heads.key, turned)});
  if (body.real("scale", 0) != 0) {
    scores = body.node("Mul", {scores, body.number(body.real("scale", 0), scores)});
  } else {
    const std::string size = body.cast(body.length(heads.query, -1), kFloat);
    std::string root = body.node("Sqrt", {size});
    constexpr std::int64_t kSinceCastLike = 15;
    if (body.opset() >= kSinceCastLike) root = body.node("CastLike", {root, scores});
    scores = body.node("Div", {scores, root});
  }
  if (heads.cap > 0) {
    const std::string cap = body.number(heads.cap, scores);
    scores = body.node("Mul", {body.node("Tanh", {body.node("Div", {scores, cap})}), cap});
  }
  for (const std::string& added : {heads.bias, heads.mask}) {
    if (!added.empty()) scores = body.node("Add", {scores, added});
  }
  if (heads.causal) scores = without_later(body, scores, heads);
  const std::string shares = body.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  return body.node("MatMul", {shares, heads.value});
}

std::string appended(Body& body, const std::string& past, const std::string& x) {
  return past.empty() ? x : body.node("Concat", {past, x}, {{"axis", std::int64_t{2}}});
}

std::string rotated(Body& body, const std::string& x, const std::string& cosine,
                    const std::string& sine, bool interleaved) {
  const std::vector<std::string> half = turning_parts(body, x, interleaved);
  const auto product = [&](std::size_t i, const std::string& by) {
    return body.node("Mul", {half[i], by});
  };
  const std::string first = body.node("Sub", {product(0, cosine), product(1, sine)});
  const std::string second = body.node("Add", {product(1, cosine), product(0, sine)});
  if (!interleaved) {
    return body.node("Concat", {first, second}, {{"axis", std::int64_t{-1}}});
  }
  const auto with_axis = [&](const std::string& part) {
    return body.node("Reshape", {part, joined(body, {body.node("Shape", {part}), body.list({1})})});
  };
  const std::string pairs =
      body.node("Concat", {with_axis(first), with_axis(second)}, {{"axis", std::int64_t{-1}}});
  return body.node("Reshape", {pairs, body.node("Shape", {x})});
}

}  // namespace tessera::model::contrib

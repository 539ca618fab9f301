#include <fmt/format.h>

#include "model/contrib/attention_parts.h"
#include "model/contrib/operators.h"

namespace tessera::model::contrib {

std::string joined(Body& body, const std::vector<std::string>& parts) {
  return body.node("Concat", parts, {{"axis", std::int64_t{0}}});
}

namespace {

// x; an error of the model where it has not so many dimensions, which the operator allows with another meaning.
std::string of_rank(Body& body, const std::string& x, std::int64_t rank) {
  std::vector<std::string> lengths;
  for (std::int64_t axis = 0; axis < rank; ++axis) lengths.push_back(body.length(x, axis));
  return body.node("Reshape", {x, joined(body, lengths)});
}

// [B, S, heads * H] as [B, heads, S, H].
std::string in_heads(Body& body, const std::string& x, std::int64_t heads) {
  return body.transposed(body.reshaped(of_rank(body, x, 3), {0, 0, heads, -1}), {0, 2, 1, 3});
}

// 0 where `keep`, an integer a position, is not 0, and else `filter`: [B, 1, 1, T].
std::string mask_of(Body& body, const std::string& keep, float filter, const std::string& like) {
  constexpr std::int64_t kBool = onnx::TensorProto::BOOL;
  const std::string kept = body.cast(body.reshaped(of_rank(body, keep, 2), {0, 1, 1, -1}), kBool);
  return body.node("Where", {kept, body.number(0, like), body.number(filter, like)});
}

// What `scores` [..., S, T] give a position behind its query, or before its window: the least number there is.
std::string without_later(Body& body, const std::string& scores, const Heads& heads) {
  const auto range = [&](std::int64_t axis) {
    const std::string count = body.reshaped(body.length(scores, axis), {});
    return body.node("Range", {body.whole(0), count, body.whole(1)});
  };
  const std::string key = body.reshaped(range(-1), {1, -1});
  std::string query = heads.places;
  if (query.empty()) {
    query = range(-2);
    if (!heads.past.empty()) query = body.node("Add", {query, heads.past});
    query = body.reshaped(query, {-1, 1});
  }
  std::string is_hidden = body.node("Greater", {key, query});
  if (heads.window >= 0) {
    const std::string first = body.node("Sub", {query, body.whole(heads.window - 1)});
    is_hidden = body.node("Or", {is_hidden, body.node("Less", {key, first})});
  }
  return body.node("Where", {is_hidden, body.number(-65504, scores), scores});
}

}  // namespace

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

namespace {

// [B, heads, S, H] as [B, S, heads * H].
std::string out_of_heads(Body& body, const std::string& x) {
  return body.reshaped(body.transposed(x, {0, 2, 1, 3}), {0, 0, -1});
}

// Query, key, value, bias of all, kept positions, bias of the scores, past keys and values.
Refusal write_multi_head(Body& body) {
  if (!body.has(1) || !body.has(2)) return "query, key and value in one tensor";
  if (body.has(6) != body.has(7)) return "a past key without its value";
  const std::int64_t count = body.integer("num_heads", 0);
  std::vector<std::string> operands = {body.in(0), body.in(1), body.in(2)};
  if (body.has(3)) {
    const std::string three = body.reshaped(body.in(3), {3, -1});
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::string bias = body.node("Gather", {three, body.whole(i)});
      const auto at = static_cast<std::size_t>(i);
      operands[at] = body.node("Add", {operands[at], bias});
    }
  }
  Heads heads{.query = in_heads(body, operands[0], count),
              .key = appended(body, body.in(6), in_heads(body, operands[1], count)),
              .value = appended(body, body.in(7), in_heads(body, operands[2], count)),
              .past = body.has(6) ? body.length(body.in(6), 2) : "",
              .causal = body.integer("unidirectional", 0) != 0,
              .mask = {},
              .bias = body.in(5),
              .places = {}};
  if (body.has(4)) {
    heads.mask = mask_of(body, body.in(4), body.real("mask_filter_value", -10000), heads.query);
  }
  if (body.wants(1)) body.output(1, heads.key);
  if (body.wants(2)) body.output(2, heads.value);
  body.output(0, out_of_heads(body, attended(body, heads, {0, 1, 3, 2})));
  return {};
}

// Places of inputs; -1: the operator has none.
struct JointInputs {
  int kept = 3, past = 4, bias = 5;
};

// Of query, key and value, which one product has made.
void attend_jointly(Body& body, const std::string& all, const JointInputs& inputs) {
  const std::int64_t count = body.integer("num_heads", 0);
  std::vector<std::int64_t> sizes = body.integers("qkv_hidden_sizes");
  std::vector<std::string> parts;
  if (sizes.empty()) {
    const std::string three = body.reshaped(all, {0, 0, 3, -1});
    for (std::int64_t i = 0; i < 3; ++i) {
      parts.push_back(body.node("Gather", {three, body.whole(i)}, {{"axis", std::int64_t{2}}}));
    }
  } else {
    parts = body.split(all, 2, sizes);
  }
  const bool has_past = body.has(inputs.past);
  const auto past = [&](std::int64_t i) {
    return has_past ? body.node("Gather", {body.in(inputs.past), body.whole(i)}) : std::string();
  };
  const std::string past_key = past(0), past_value = past(1);
  Heads heads{.query = in_heads(body, parts[0], count),
              .key = appended(body, past_key, in_heads(body, parts[1], count)),
              .value = appended(body, past_value, in_heads(body, parts[2], count)),
              .past = has_past ? body.length(past_key, 2) : "",
              .causal = body.integer("unidirectional", 0) != 0,
              .mask = {},
              .bias = inputs.bias < 0 ? "" : body.in(inputs.bias),
              .places = {}};
  if (body.has(inputs.kept)) {
    heads.mask =
        mask_of(body, body.in(inputs.kept), body.real("mask_filter_value", -10000), heads.query);
  }
  if (body.wants(1)) {
    const auto one = [&](const std::string& x) {
      return body.node("Reshape", {x, joined(body, {body.list({1}), body.node("Shape", {x})})});
    };
    body.output(1, joined(body, {one(heads.key), one(heads.value)}));
  }
  body.output(0, out_of_heads(body, attended(body, heads, {0, 1, 3, 2})));
}

// One product for query, key and value; input, weights, bias, kept positions, past, bias of the scores.
Refusal write_attention(Body& body) {
  if (body.integer("do_rotary", 0) != 0) return "the attribute do_rotary = 1";
  if (body.has(6)) return "the input past_sequence_length";
  std::string all = body.node("MatMul", {body.in(0), body.in(1)});
  if (body.has(2)) all = body.node("Add", {all, body.in(2)});
  attend_jointly(body, all, {});
  return {};
}

// The same of bytes: input, weights, bias, their scales, kept positions, their zero points, past.
Refusal write_quantised_attention(Body& body) {
  if (body.integer("do_rotary", 0) != 0) return "the attribute do_rotary = 1";
  const std::string sums =
      body.node("MatMulInteger", {body.in(0), body.in(1), body.in(6), body.in(7)});
  const std::string scale = body.node("Mul", {body.in(3), body.in(4)});
  const std::string product = body.node("Mul", {body.cast(sums, kFloat), scale});
  attend_jointly(body, body.node("Add", {product, body.in(2)}), {.kept = 5, .past = 8, .bias = -1});
  return {};
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

namespace {

// x [B, S, heads * H], positions [B, S], tables of cosines and sines [positions, H / 2].
Refusal write_rotary(Body& body) {
  const bool interleaved = body.integer("interleaved", 0) != 0;
  if (body.integer("rotary_embedding_dim", 0) != 0) return "the attribute rotary_embedding_dim";
  const std::string x = of_rank(body, body.in(0), 3), positions = of_rank(body, body.in(1), 2);
  // [B, S, 1, H / 2] for all heads.
  const auto angles = [&](int table) {
    const std::string one = body.list({1});
    const std::string dims = joined(body, {body.length(positions, 0), body.length(positions, 1),
                                           one, body.length(body.in(table), 1)});
    return body.node("Reshape", {body.node("Gather", {body.in(table), positions}), dims});
  };
  const std::string half = body.length(body.in(2), 1);
  const std::string dims = joined(body, {body.list({0, 0, -1}), body.node("Add", {half, half})});
  const std::string turned =
      rotated(body, body.node("Reshape", {x, dims}), angles(2), angles(3), interleaved);
  body.output(0, body.reshaped(turned, {0, 0, -1}));
  return {};
}

// Unsigned numbers of four bits, two a byte, low ones first: [rows, bytes] to floats [rows, 2 * bytes].
std::string unpacked(Body& body, const std::string& packed, std::int64_t rows) {
  constexpr std::int64_t kInt32 = onnx::TensorProto::INT32;
  const std::string bytes = body.reshaped(body.cast(packed, kInt32), {rows, -1, 1});
  const std::string sixteen = body.cast(body.whole(16), kInt32);
  const std::string high = body.node("Div", {bytes, sixteen});
  const std::string low = body.node("Sub", {bytes, body.node("Mul", {high, sixteen})});
  const std::string both = body.node("Concat", {low, high}, {{"axis", std::int64_t{2}}});
  return body.cast(body.reshaped(both, {rows, -1}), kFloat);
}

// a [.., K] x weights [N, K] of 4 or 8 bits: packed [N, blocks, bytes], a scale and a zero point a block of K.
Refusal write_product_of_bits(Body& body) {
  const std::int64_t bits = body.integer("bits", 4), block = body.integer("block_size", 0);
  const std::int64_t k = body.integer("K", 0), n = body.integer("N", 0);
  if (bits != 4 && bits != 8) return fmt::format("the attribute bits = {}", bits);
  const auto is_size = [](std::int64_t size) { return size > 0 && size <= kSizeMax; };
  if (!is_size(k) || !is_size(n) || !is_size(block)) return "the attributes K, N, block_size";
  if (body.has(4)) return "the input g_idx";
  const std::int64_t blocks = (k + block - 1) / block;
  const auto plain = [&](const std::string& packed, std::int64_t of_row) {
    if (bits == 8) return body.reshaped(body.cast(packed, kFloat), {n, of_row});
    const std::string all = unpacked(body, packed, n);
    return body.node("Slice", {all, body.list({0}), body.list({of_row}), body.list({1})});
  };
  std::string weights = body.reshaped(plain(body.in(1), blocks * block), {n, blocks, block});
  const std::string zero = body.has(3)
                               ? body.reshaped(plain(body.in(3), blocks), {n, blocks, 1})
                               : body.cast(body.whole(std::int64_t{1} << (bits - 1)), kFloat);
  const std::string scale = body.reshaped(body.cast(body.in(2), kFloat), {n, blocks, 1});
  weights = body.node("Mul", {body.node("Sub", {weights, zero}), scale});
  weights = body.node(
      "Slice", {body.reshaped(weights, {n, -1}), body.list({0}), body.list({k}), body.list({1})});
  constexpr std::int64_t kSinceCastLike = 15;
  weights = body.transposed(weights, {1, 0});
  if (body.opset() >= kSinceCastLike) weights = body.node("CastLike", {weights, body.in(0)});
  std::string product = body.node("MatMul", {body.in(0), weights});
  if (body.has(5)) product = body.node("Add", {product, body.in(5)});
  body.output(0, product);
  return {};
}

}  // namespace

Operators attention_operators() {
  return {{"Attention", {write_attention, {0, 1}}},
          {"QAttention", {write_quantised_attention, {0, 1, 2, 3, 4}}},
          {"MultiHeadAttention", {write_multi_head, {0}}},
          {"RotaryEmbedding", {write_rotary, {0, 1, 2, 3}}},
          {"GroupQueryAttention", {write_grouped_query, {0}}},
          {"MatMulNBits", {write_product_of_bits, {0, 1, 2}}}};
}

}  // namespace tessera::model::contrib

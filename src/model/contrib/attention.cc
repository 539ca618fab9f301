#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "model/contrib/attention_parts.h"
#include "model/contrib/operators.h"

namespace tessera::model::contrib {

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

// 0 where input `mask` lets a query see a position, and else `filter`: [B, 1, 1 or S, T]. It has an integer that is not 0
// a position, [B, T], or a query and position, [B, S, T], or it says where what is seen ends: [B], and with [2 * B]
// behind that where it starts.
std::string mask_of(Body& body, int mask, const Heads& heads) {
  constexpr std::int64_t kBool = onnx::TensorProto::BOOL, kInt64 = onnx::TensorProto::INT64;
  const std::string none = body.number(0, heads.query);
  const std::string filter = body.number(body.real("mask_filter_value", -10000), heads.query);
  const std::size_t rank = body.stated_input(mask).size();
  if (rank == 1) {
    const std::string count = body.length(heads.query, 0);
    const std::string zeros = body.node("Expand", {body.whole(0), count});
    const std::string bounds = joined(body, {body.cast(body.in(mask), kInt64), zeros});
    const auto bound = [&](const std::string& first) {
      const std::string last = body.node("Add", {first, count});
      return body.reshaped(body.node("Slice", {bounds, first, last, body.list({0})}),
                           {-1, 1, 1, 1});
    };
    const std::string total = body.reshaped(body.length(heads.key, 2), {});
    const std::string at = body.node("Range", {body.whole(0), total, body.whole(1)});
    const std::string is_before = body.node("Less", {at, bound(count)});
    const std::string is_seen = body.node("Less", {at, bound(body.list({0}))});
    const std::string is_hidden = body.node("Or", {is_before, body.node("Not", {is_seen})});
    return body.node("Where", {is_hidden, filter, none});
  }
  std::string kept = of_rank(body, body.in(mask), rank == 3 ? 3 : 2);
  if (rank == 3) {
    kept = body.node("Reshape", {kept, joined(body, {body.length(kept, 0), body.list({1}),
                                                     body.length(kept, 1), body.length(kept, 2)})});
  } else {
    kept = body.reshaped(kept, {0, 1, 1, -1});
  }
  return body.node("Where", {body.cast(kept, kBool), none, filter});
}

// Why input `mask` of B sequences is none that `mask_of` takes, "" where it is one.
Refusal refused_mask(const Body& body, int mask) {
  const std::vector<std::string> lengths = body.stated_input(mask);
  if (lengths.size() > 3) {
    return fmt::format(
        "a mask of {} dimensions; known are [batch], [2 * batch], [batch, keys] and "
        "[batch, queries, keys]",
        lengths.size());
  }
  const std::vector<std::string> input = body.stated_input(0);
  if (lengths.size() != 1 || input.empty()) return {};
  std::int64_t count = 0, batch = 0;
  const auto is_number = [](const std::string& text, std::int64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
  };
  if (!is_number(lengths[0], count) || !is_number(input[0], batch)) return {};
  if (count == batch || count == 2 * batch) return {};
  return fmt::format(
      "a mask of {} numbers for {} sequences; of one dimension it has where each "
      "ends, [batch], or behind that where each starts, [2 * batch]",
      count, batch);
}

// [B, heads, S, H] as [B, S, heads * H].
std::string out_of_heads(Body& body, const std::string& x) {
  return body.reshaped(body.transposed(x, {0, 2, 1, 3}), {0, 0, -1});
}

// Query, key, value, bias of all, kept positions, bias of the scores, past keys and values.
Refusal write_multi_head(Body& body) {
  if (!body.has(1) || !body.has(2)) return "query, key and value in one tensor";
  if (body.has(6) != body.has(7)) return "a past key without its value";
  if (Refusal refusal = refused_mask(body, 4); !refusal.empty()) return refusal;
  const std::int64_t count = body.integer("num_heads", 0);
  std::vector<std::string> operands = {body.in(0), body.in(1), body.in(2)};
  const std::size_t rank = body.stated_input(1).size(), of_value = body.stated_input(2).size();
  if (rank != of_value && rank > 0 && of_value > 0) {
    return fmt::format("keys of {} dimensions and values of {}; both have 3, or 4 by heads", rank,
                       of_value);
  }
  const bool by_heads = rank == 4 || of_value == 4;  // [B, heads, T, H], as they are kept
  if (by_heads && (body.has(3) || body.has(6))) {
    return "a bias or a past beside keys of four dimensions";
  }
  if (body.has(3)) {
    const std::string three = body.reshaped(body.in(3), {3, -1});
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::string bias = body.node("Gather", {three, body.whole(i)});
      const auto at = static_cast<std::size_t>(i);
      operands[at] = body.node("Add", {operands[at], bias});
    }
  }
  const auto headed = [&](const std::string& x) { return by_heads ? x : in_heads(body, x, count); };
  Heads heads{.query = in_heads(body, operands[0], count),
              .key = appended(body, body.in(6), headed(operands[1])),
              .value = appended(body, body.in(7), headed(operands[2])),
              .past = body.has(6) ? body.length(body.in(6), 2) : "",
              .causal = body.integer("unidirectional", 0) != 0,
              .mask = {},
              .bias = body.in(5),
              .places = {}};
  if (body.has(4)) heads.mask = mask_of(body, 4, heads);
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
  if (body.has(inputs.kept)) heads.mask = mask_of(body, inputs.kept, heads);
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
  if (Refusal refusal = refused_mask(body, 3); !refusal.empty()) return refusal;
  std::string all = body.node("MatMul", {body.in(0), body.in(1)});
  if (body.has(2)) all = body.node("Add", {all, body.in(2)});
  attend_jointly(body, all, {});
  return {};
}

// The same of bytes: input, weights, bias, their scales, kept positions, their zero points, past.
Refusal write_quantised_attention(Body& body) {
  if (body.integer("do_rotary", 0) != 0) return "the attribute do_rotary = 1";
  if (Refusal refusal = refused_mask(body, 5); !refusal.empty()) return refusal;
  const std::string sums =
      body.node("MatMulInteger", {body.in(0), body.in(1), body.in(6), body.in(7)});
  const std::string scale = body.node("Mul", {body.in(3), body.in(4)});
  const std::string product = body.node("Mul", {body.cast(sums, kFloat), scale});
  attend_jointly(body, body.node("Add", {product, body.in(2)}), {.kept = 5, .past = 8, .bias = -1});
  return {};
}

// Positions [B, S], or [1, S] from one of the first.
std::string positions_of(Body& body, const std::string& rows) {
  if (body.stated_input(1).size() != 1) return of_rank(body, body.in(1), 2);
  constexpr std::int64_t kInt64 = onnx::TensorProto::INT64;
  const std::string count = body.reshaped(rows, {});
  const std::string from_zero = body.node("Range", {body.whole(0), count, body.whole(1)});
  return body.node("Add", {body.reshaped(body.cast(body.in(1), kInt64), {1, 1}), from_zero});
}

// x [B, S, heads * H] or [B, heads, S, H], tables of cosines and sines [positions, H / 2]; with the attribute
// rotary_embedding_dim they are of so many elements at the front of each head, and the others stay.
Refusal write_rotary(Body& body) {
  const bool interleaved = body.integer("interleaved", 0) != 0;
  const bool by_heads = body.stated_input(0).size() == 4;
  const std::int64_t part = body.integer("rotary_embedding_dim", 0);
  const std::int64_t count = body.integer("num_heads", 0);
  if (part < 0 || part > kSizeMax || part % 2 != 0) {
    return fmt::format("the attribute rotary_embedding_dim = {}; it is even", part);
  }
  if (part > 0 && !by_heads && (count <= 0 || count > kSizeMax)) {
    return "the attribute rotary_embedding_dim without num_heads; state num_heads as well";
  }
  const std::string x = of_rank(body, body.in(0), by_heads ? 4 : 3);
  const std::string positions = positions_of(body, body.length(x, by_heads ? 2 : 1));
  // [B, S, 1, H / 2] for all heads, or [B, 1, S, H / 2].
  const auto angles = [&](int table) {
    const std::string one = body.list({1});
    std::vector<std::string> dims = {body.length(positions, 0), body.length(positions, 1), one,
                                     body.length(body.in(table), 1)};
    if (by_heads) std::swap(dims[1], dims[2]);
    return body.node("Reshape",
                     {body.node("Gather", {body.in(table), positions}), joined(body, dims)});
  };
  std::string heads = x;
  if (!by_heads && part > 0) {
    heads = body.reshaped(x, {0, 0, count, -1});
  } else if (!by_heads) {
    const std::string half = body.length(body.in(2), 1);
    const std::string dims = joined(body, {body.list({0, 0, -1}), body.node("Add", {half, half})});
    heads = body.node("Reshape", {x, dims});
  }
  const auto sliced = [&](std::int64_t first, std::int64_t last) {
    return body.node("Slice", {heads, body.list({first}), body.list({last}), body.list({3})});
  };
  const std::string cosine = angles(2), sine = angles(3);
  std::string turned = rotated(body, part > 0 ? sliced(0, part) : heads, cosine, sine, interleaved);
  if (part > 0) {
    const std::vector<std::string> both = {turned, sliced(part, kSizeMax)};
    turned = body.node("Concat", both, {{"axis", std::int64_t{-1}}});
  }
  body.output(0, by_heads ? turned : body.reshaped(turned, {0, 0, -1}));
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
          {"MatMulNBits", {write_product_of_bits, {0, 1, 2}}}};
}

}  // namespace tessera::model::contrib

// Tables and weights of few bits that are looked up, and mixtures of experts: what large language models are exported with.
#include <fmt/format.h>

#include <array>

#include "model/contrib/operators.h"
#include "model/contrib/table.h"

namespace tessera::model::contrib {
namespace {

constexpr std::int64_t kInt32 = onnx::TensorProto::INT32;
constexpr std::int64_t kLengthMax = std::int64_t{1} << 30;  // that an attribute may say

// Bytes [...] as the numbers of four bits [..., 2] in them, the low one first.
std::string nibbles(Body& body, const std::string& bytes, bool low_first) {
  const std::string whole = with_last_axis(body, body.cast(bytes, kInt32));
  const std::string sixteen = body.cast(body.whole(16), kInt32);
  const std::string high = body.node("Div", {whole, sixteen});
  const std::string low = body.node("Sub", {whole, body.node("Mul", {high, sixteen})});
  return body.node("Concat", low_first ? std::vector{low, high} : std::vector{high, low},
                   {{"axis", std::int64_t{-1}}});
}

// Rows of a table [rows, width] of 4 or 8 bits, with a scale and a zero point for each block of a row.
Refusal write_gather_blocks(Body& body) {
  const std::int64_t block = body.integer("block_size", 128), bits = body.integer("bits", 4);
  const std::int64_t axis = body.integer("quantize_axis", 1);
  const onnx::TensorProto* const table = body.stored(0);
  if (table == nullptr || table->dims_size() != 2) return "a table that is no constant matrix";
  if (body.integer("gather_axis", 0) != 0 || (axis != 1 && axis != -1)) {
    return "the attributes gather_axis, quantize_axis other than 0 and 1";
  }
  if (bits != 4 && bits != 8) return fmt::format("the attribute bits = {}", bits);
  const bool bytes = table->data_type() == onnx::TensorProto::UINT8, packed = bytes && bits == 4;
  constexpr int kInt4 = 22;  // newer than the headers
  const bool is_signed =
      table->data_type() == kInt4 || table->data_type() == onnx::TensorProto::INT8;
  const std::int64_t width = table->dims(1) * (packed ? 2 : 1);
  constexpr std::int64_t kWidthMax = 1 << 20;
  if (block < 1) return fmt::format("the attribute block_size = {}", block);
  if (width < 1 || width > kWidthMax) return fmt::format("a table of {} columns", width);
  const auto rows_of = [&](int i, std::int64_t columns) {
    // Gather takes bytes, not numbers of four bits.
    const std::string stored = bytes ? body.in(i)
                                     : body.cast(body.in(i), is_signed ? onnx::TensorProto::INT8
                                                                       : onnx::TensorProto::UINT8);
    const std::string rows = body.node("Gather", {stored, body.in(1)});
    if (!packed) return body.cast(rows, kFloat);
    const std::string dims =
        body.node("Concat", {body.node("Shape", {body.in(1)}), body.list({columns})},
                  {{"axis", std::int64_t{0}}});
    return body.cast(body.node("Reshape", {nibbles(body, rows, true), dims}), kFloat);
  };
  std::vector<std::int64_t> block_of;
  for (std::int64_t i = 0; i < width; ++i) block_of.push_back(i / block);
  const std::string places = body.list(block_of);
  const auto of_elements = [&](const std::string& of_blocks) {
    return body.node("Gather", {of_blocks, places}, {{"axis", std::int64_t{-1}}});
  };
  const std::int64_t blocks = block_of.back() + 1;
  std::string values = rows_of(0, width);
  if (body.has(3)) {
    const std::string zero = rows_of(3, (blocks + 1) / 2 * 2);
    values = body.node("Sub", {values, of_elements(zero)});
  } else if (bytes) {
    const std::string zero = body.cast(body.whole(std::int64_t{1} << (bits - 1)), kFloat);
    values = body.node("Sub", {values, zero});
  }
  const std::string scale = of_elements(body.node("Gather", {body.in(2), body.in(1)}));
  const std::string y = body.node("Mul", {values, body.cast(scale, kFloat)});
  constexpr std::int64_t kSinceCastLike = 15;
  body.output(0, body.opset() >= kSinceCastLike ? body.node("CastLike", {y, body.in(2)}) : y);
  return {};
}

// What the sixteen numbers stand for, times the largest magnitude of their block.
constexpr std::array<float, 16> kFloat4 = {
    0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr std::array<float, 16> kNormalFloat4 = {-1.0f,
                                                 -0.69619280099868f,
                                                 -0.52507305145264f,
                                                 -0.39491748809814f,
                                                 -0.28444138169289f,
                                                 -0.18477343022823f,
                                                 -0.09105003625155f,
                                                 0.0f,
                                                 0.07958029955626f,
                                                 0.16093020141125f,
                                                 0.24611230194569f,
                                                 0.33791524171829f,
                                                 0.44070982933044f,
                                                 0.56261700391769f,
                                                 0.72295683622360f,
                                                 1.0f};

// a [.., K] x weights [N, K], packed two a byte, high ones first.
Refusal write_product_of_four_bit_floats(Body& body) {
  const std::int64_t k = body.integer("K", 0), n = body.integer("N", 0);
  const std::int64_t block = body.integer("block_size", 0), kind = body.integer("quant_type", 1);
  const auto is_size = [](std::int64_t size) { return size > 0 && size <= kLengthMax; };
  if (!is_size(k) || !is_size(n) || !is_size(block) || n * k % block != 0 || k % 2 != 0) {
    return "the attributes K, N, block_size";
  }
  if (kind != 0 && kind != 1) return fmt::format("the attribute quant_type = {}", kind);
  onnx::TensorProto codes;
  codes.set_data_type(onnx::TensorProto::FLOAT);
  codes.add_dims(16);
  for (const float value : kind == 0 ? kFloat4 : kNormalFloat4) codes.add_float_data(value);
  const std::string numbers = body.reshaped(nibbles(body, body.in(1), false), {-1, block});
  const std::string values = body.node("Gather", {body.constant(codes), numbers});
  const std::string largest = body.cast(body.reshaped(body.in(2), {-1, 1}), kFloat);
  std::string weights = body.reshaped(body.node("Mul", {values, largest}), {n, k});
  weights = body.transposed(weights, {1, 0});
  constexpr std::int64_t kSinceCastLike = 15;
  if (body.opset() >= kSinceCastLike) weights = body.node("CastLike", {weights, body.in(0)});
  body.output(0, body.node("MatMul", {body.in(0), weights}));
  return {};
}

// The last axis's k largest of `scores`, 0 or 1; of equals the first.
std::string largest_of(Body& body, const std::string& scores, std::int64_t k) {
  const std::vector<std::string> best =
      body.nodes("TopK", {scores, body.list({k})}, 2, {{"axis", std::int64_t{-1}}});
  const std::string shape = body.node("Shape", {scores});
  const std::string experts = body.reshaped(body.length(scores, 1), {});
  onnx::TensorProto off_on;
  off_on.set_data_type(onnx::TensorProto::FLOAT);
  off_on.add_dims(2);
  off_on.add_float_data(0);
  off_on.add_float_data(1);
  const std::string hot = body.node("OneHot", {best[1], experts, body.constant(off_on)});
  return body.node("Reshape", {body.total(hot, 1), shape});
}

// y = sum over the k experts of each row of share * fc2(activation(fc1 x)), all experts computed for all rows.
Refusal write_experts(Body& body) {
  const std::string kind = body.text("activation_type", "relu");
  const std::int64_t k = body.integer("k", 1);
  if (body.has(6) || body.has(7)) return "the inputs fc3_experts_weights, fc3_experts_bias";
  if (body.integer("use_sparse_mixer", 0) != 0) return "the attribute use_sparse_mixer = 1";
  if (k < 1) return fmt::format("the attribute k = {}", k);
  const std::string chosen = largest_of(body, body.in(1), k);
  std::string shares = body.node("Softmax", {body.in(1)}, {{"axis", std::int64_t{-1}}});
  shares = body.node("Mul", {shares, chosen});
  if (body.integer("normalize_routing_weights", 0) != 0) {
    shares = body.node("Div", {shares, body.reshaped(body.total(shares, 1), {-1, 1})});
  }
  const auto product = [&](const std::string& x, int weights, int bias) {
    const std::string turned = body.transposed(body.in(weights), {0, 2, 1});
    std::string y = body.node("MatMul", {x, turned});
    if (!body.has(bias)) return y;
    const std::string row = body.node(
        "Concat", {body.length(body.in(bias), 0), body.list({1}), body.length(body.in(bias), 1)},
        {{"axis", std::int64_t{0}}});
    return body.node("Add", {y, body.node("Reshape", {body.in(bias), row})});
  };
  const std::string width = body.length(body.in(0), -1);
  const std::string rows = body.node(
      "Reshape",
      {body.in(0), body.node("Concat", {body.list({1, -1}), width}, {{"axis", std::int64_t{0}}})});
  std::string inner = product(rows, 2, 3);
  if (kind == "relu") {
    inner = body.node("Relu", {inner});
  } else if (kind == "silu") {
    inner = body.node("Mul", {inner, body.node("Sigmoid", {inner})});
  } else if (kind != "identity") {
    return fmt::format("the attribute activation_type = {}", kind);
  }
  // [experts, rows, width] times [experts, rows, 1].
  const std::string weight = body.node(
      "Reshape",
      {body.transposed(shares, {1, 0}),
       body.node("Concat", {body.length(shares, 1), body.length(shares, 0), body.list({1})},
                 {{"axis", std::int64_t{0}}})});
  const std::string sum = body.total(body.node("Mul", {product(inner, 4, 5), weight}), 0);
  body.output(0, body.node("Reshape", {sum, body.node("Shape", {body.in(0)})}));
  return {};
}

}  // namespace

Operators packed_operators() {
  return {{"GatherBlockQuantized", {write_gather_blocks, {0, 1, 2}}},
          {"MatMulBnb4", {write_product_of_four_bit_floats, {0, 1, 2}}},
          {"MoE", {write_experts, {0, 1, 2, 4}}}};
}

}  // namespace tessera::model::contrib

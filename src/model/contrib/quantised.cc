#include <fmt/format.h>

#include "model/contrib/operators.h"

namespace tessera::model::contrib {
namespace {

// Inputs i, i + 1, i + 2: a value, its scale and its zero point.
std::string dequantised(Body& body, int i) {
  return body.node("DequantizeLinear", {body.in(i), body.in(i + 1), body.in(i + 2)});
}
// By the scale and the zero point that inputs i and i + 1 are.
void output_quantised(Body& body, const std::string& value, int i) {
  body.output(0, body.node("QuantizeLinear", {value, body.in(i), body.in(i + 1)}));
}

Refusal write_binary(Body& body, const char* op_type) {
  const std::string a = dequantised(body, 0), b = dequantised(body, 3);
  output_quantised(body, body.node(op_type, {a, b}), 6);
  return {};
}
Refusal write_add(Body& body) { return write_binary(body, "Add"); }
Refusal write_mul(Body& body) { return write_binary(body, "Mul"); }

Refusal write_sigmoid(Body& body) {
  output_quantised(body, body.node("Sigmoid", {dequantised(body, 0)}), 3);
  return {};
}
Refusal write_leaky_relu(Body& body) {
  output_quantised(body, body.node_like_call("LeakyRelu", {dequantised(body, 0)}, {"alpha"}), 3);
  return {};
}
Refusal write_softmax(Body& body) {
  constexpr std::int64_t kSinceOneAxis = 13;
  if ((body.integer("opset", kSinceOneAxis) < kSinceOneAxis) != (body.opset() < kSinceOneAxis)) {
    return fmt::format("the attribute opset = {} in a model of opset {}",
                       body.integer("opset", kSinceOneAxis), body.opset());
  }
  output_quantised(body, body.node_like_call("Softmax", {dequantised(body, 0)}, {"axis"}), 3);
  return {};
}
// What `pooled` makes of input 0 with its channels behind the batch.
template <typename Pooled>
Refusal write_pool(Body& body, const Pooled& pooled) {
  const bool last = body.integer("channels_last", 0) != 0;
  const std::string x = dequantised(body, 0);
  const std::string y = pooled(last ? channels_first(body, x) : x);
  output_quantised(body, last ? channels_last(body, y) : y, 3);
  return {};
}
Refusal write_global_average_pool(Body& body) {
  return write_pool(body,
                    [&](const std::string& x) { return body.node("GlobalAveragePool", {x}); });
}
Refusal write_average_pool(Body& body) {
  return write_pool(body, [&](const std::string& x) {
    return body.node_like_call(
        "AveragePool", {x},
        {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"});
  });
}
Refusal write_mean(Body& body) {
  constexpr std::int64_t kSinceAxesAreAnInput = 18;
  const std::vector<std::int64_t> axes = body.integers("axes");
  const std::string x = dequantised(body, 0);
  std::string y;
  if (body.opset() < kSinceAxesAreAnInput) {
    y = body.node_like_call("ReduceMean", {x}, {"axes", "keepdims"});
  } else {
    y = body.node_like_call("ReduceMean", {x, axes.empty() ? "" : body.list(axes)}, {"keepdims"});
  }
  output_quantised(body, y, 3);
  return {};
}
Refusal write_where(Body& body) {
  const std::string yes = dequantised(body, 1), no = dequantised(body, 4);
  output_quantised(body, body.node("Where", {body.in(0), yes, no}), 7);
  return {};
}
Refusal write_concat(Body& body) {
  std::vector<std::string> parts;
  for (int i = 2; i < body.inputs(); i += 3) parts.push_back(dequantised(body, i));
  output_quantised(body, body.node_like_call("Concat", parts, {"axis"}), 0);
  return {};
}

// a x b by whole numbers, times the scales, plus a bias.
std::string scaled_product(Body& body, const std::string& sums, const std::string& a_scale,
                           const std::string& b_scale, const std::string& bias) {
  const std::string scale = body.node("Mul", {a_scale, b_scale});
  const std::string product = body.node("Mul", {body.cast(sums, kFloat), scale});
  return bias.empty() ? product : body.node("Add", {product, bias});
}

Refusal write_integer_product_to_float(Body& body) {
  const std::string sums =
      body.node("MatMulInteger", {body.in(0), body.in(1), body.in(4), body.in(5)});
  body.output(0, scaled_product(body, sums, body.in(2), body.in(3), body.in(6)));
  return {};
}

Refusal write_dynamic_product(Body& body) {
  const std::vector<std::string> a = body.nodes("DynamicQuantizeLinear", {body.in(0)}, 3);
  const std::string sums = body.node("MatMulInteger", {a[0], body.in(1), a[2], body.in(3)});
  body.output(0, scaled_product(body, sums, a[1], body.in(2), body.in(4)));
  return {};
}

// a, its scale and zero point, b, its own, a bias in whole numbers of a's scale times b's; then the result's scale and
// zero point, or a float result.
Refusal write_quantised_gemm(Body& body) {
  const std::int64_t columns_of_b = body.integer("transB", 0) != 0 ? 0 : 1;
  const std::string a = dequantised(body, 0);
  const std::string b =
      body.node("DequantizeLinear", {body.in(3), body.in(4), body.in(5)}, {{"axis", columns_of_b}});
  std::vector<std::string> operands = {a, b};
  if (body.has(6)) {
    const std::string scale = body.node("Mul", {body.in(1), body.in(4)});
    operands.push_back(body.node("Mul", {body.cast(body.in(6), kFloat), scale}));
  }
  // The bias is in units of the product before alpha.
  std::string sum = body.node_like_call("Gemm", {operands[0], operands[1]}, {"transA", "transB"});
  if (operands.size() == 3) sum = body.node("Add", {sum, operands[2]});
  if (body.says("alpha")) sum = body.node("Mul", {sum, body.number(body.real("alpha", 1), sum)});
  if (!body.has(7)) {
    body.output(0, sum);
  } else {
    output_quantised(body, sum, 7);
  }
  return {};
}

// Weights [D, from, to] of 8 bits, as the LSTM of the standard has them: [D, to, from].
std::string float_weights(Body& body, int weights, int scale) {
  const auto of_columns = [&](const std::string& x) { return body.reshaped(x, {0, 1, -1}); };
  std::string values = body.cast(body.in(weights), kFloat);
  if (body.has(scale + 1)) {
    const std::string zero = of_columns(body.cast(body.in(scale + 1), kFloat));
    values = body.node("Sub", {values, zero});
  }
  values = body.node("Mul", {values, of_columns(body.in(scale))});
  return body.transposed(values, {0, 2, 1});
}

// Activations stay floats: the products are those of the weights' values, without the rounding of what multiplies them.
Refusal write_dynamic_lstm(Body& body) {
  const std::string w = float_weights(body, 1, 8), r = float_weights(body, 2, 10);
  const std::vector<std::string> operands = {body.in(0), w,          r,          body.in(3),
                                             body.in(4), body.in(5), body.in(6), body.in(7)};
  const std::vector<std::string> results =
      body.nodes_like_call("LSTM", operands, 3,
                           {"activation_alpha", "activation_beta", "activations", "clip",
                            "direction", "hidden_size", "input_forget"});
  for (int i = 0; i < 3; ++i) {
    if (body.wants(i)) body.output(i, results[static_cast<std::size_t>(i)]);
  }
  return {};
}

}  // namespace

Operators quantised_operators() {
  return {{"QLinearAdd", {write_add, {0, 1, 3, 4, 6}}},
          {"QLinearMul", {write_mul, {0, 1, 3, 4, 6}}},
          {"QLinearSigmoid", {write_sigmoid, {0, 1, 3}}},
          {"QLinearLeakyRelu", {write_leaky_relu, {0, 1, 3}}},
          {"QLinearSoftmax", {write_softmax, {0, 1, 3}}},
          {"QLinearGlobalAveragePool", {write_global_average_pool, {0, 1, 3}}},
          {"QLinearAveragePool", {write_average_pool, {0, 1, 3}}},
          {"QLinearReduceMean", {write_mean, {0, 1, 3}}},
          {"QLinearWhere", {write_where, {0, 1, 2, 4, 5, 7}}},
          {"QLinearConcat", {write_concat, {0, 2, 3}}},
          {"MatMulIntegerToFloat", {write_integer_product_to_float, {0, 1, 2, 3}}},
          {"DynamicQuantizeMatMul", {write_dynamic_product, {0, 1, 2}}},
          {"QGemm", {write_quantised_gemm, {0, 1, 3, 4}}},
          {"DynamicQuantizeLSTM", {write_dynamic_lstm, {0, 1, 2, 8, 10}}}};
}

}  // namespace tessera::model::contrib

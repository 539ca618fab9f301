#include <fmt/format.h>

#include <cmath>

#include "model/contrib/operators.h"

namespace tessera::model::contrib {

std::string exchanged(Body& body, const std::string& x) {
  const std::string shape = body.node("Shape", {x});
  const auto part = [&](std::int64_t first, std::int64_t last) {
    return body.node("Slice", {shape, body.list({first}), body.list({last}), body.list({0})});
  };
  const std::string matrices =
      body.node("Reshape", {x, body.node("Concat", {body.list({-1}), part(-2, INT64_MAX)},
                                         {{"axis", std::int64_t{0}}})});
  const std::string turned = body.transposed(matrices, {0, 2, 1});
  const std::string dims = body.node("Concat", {part(0, -2), part(-1, INT64_MAX), part(-2, -1)},
                                     {{"axis", std::int64_t{0}}});
  return body.node("Reshape", {turned, dims});
}

namespace {

std::string gelu(Body& body, const std::string& x) {
  constexpr std::int64_t kSinceGelu = 20;
  if (body.opset() >= kSinceGelu) return body.node("Gelu", {x});
  const std::string erf =
      body.node("Erf", {body.node("Mul", {x, body.number(std::sqrt(0.5f), x)})});
  const std::string half = body.node("Mul", {x, body.number(0.5f, x)});
  return body.node("Mul", {half, body.node("Add", {erf, body.number(1, x)})});
}

Refusal write_gelu(Body& body) {
  body.output(0, gelu(body, body.in(0)));
  return {};
}
Refusal write_bias_gelu(Body& body) {
  body.output(0, gelu(body, body.node("Add", {body.in(0), body.in(1)})));
  return {};
}
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
Refusal write_fast_gelu(Body& body) {
  const std::string x = body.has(1) ? body.node("Add", {body.in(0), body.in(1)}) : body.in(0);
  constexpr std::int64_t kSinceGelu = 20;
  if (body.opset() >= kSinceGelu) {
    body.output(0, body.node("Gelu", {x}, {{"approximate", std::string("tanh")}}));
    return {};
  }
  const std::string square = body.node("Mul", {x, x});
  const std::string cubic = body.node("Mul", {square, body.number(0.044715f, x)});
  const std::string inner = body.node("Mul", {x, body.node("Add", {cubic, body.number(1, x)})});
  const std::string tanh =
      body.node("Tanh", {body.node("Mul", {inner, body.number(0.7978845608f, x)})});
  const std::string half = body.node("Mul", {x, body.number(0.5f, x)});
  body.output(0, body.node("Mul", {half, body.node("Add", {tanh, body.number(1, x)})}));
  return {};
}
Refusal write_quick_gelu(Body& body) {
  const std::string x = body.in(0);
  const std::string inner = body.node("Mul", {x, body.number(body.real("alpha", 1.702f), x)});
  body.output(0, body.node("Mul", {x, body.node("Sigmoid", {inner})}));
  return {};
}

// The activation that a convolution or a product was fused with.
Refusal activated(Body& body, std::string& x) {
  const std::string activation = body.text("activation", "");
  if (activation.empty()) return {};
  const std::vector<float> given = body.reals("activation_params");
  const auto parameter = [&](std::size_t i, const char* attribute, float otherwise) {
    return i < given.size() ? given[i] : body.real(attribute, otherwise);
  };
  if (activation == "Relu" || activation == "Tanh" || activation == "Sigmoid") {
    x = body.node(activation, {x});
  } else if (activation == "LeakyRelu") {
    x = body.node(activation, {x}, {{"alpha", parameter(0, "activation_alpha", 0.01f)}});
  } else if (activation == "HardSigmoid") {
    x = body.node(activation, {x},
                  {{"alpha", parameter(0, "activation_alpha", 0.2f)},
                   {"beta", parameter(1, "activation_beta", 0.5f)}});
  } else if (activation == "Clip" && given.size() == 2) {
    const std::string least = body.number(given[0], x), most = body.number(given[1], x);
    x = body.node("Min", {body.node("Max", {x, least}), most});
  } else {
    return fmt::format("the attribute activation = {}", activation);
  }
  return {};
}

Refusal write_conv(Body& body) {
  std::string x =
      body.node_like_call("Conv", {body.in(0), body.in(1), body.in(2)},
                          {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  if (body.has(3)) x = body.node("Add", {x, body.in(3)});
  Refusal refusal = activated(body, x);
  if (refusal.empty()) body.output(0, x);
  return refusal;
}
Refusal write_gemm(Body& body) {
  std::string x = body.node_like_call("Gemm", {body.in(0), body.in(1), body.in(2)},
                                      {"alpha", "beta", "transA", "transB"});
  Refusal refusal = activated(body, x);
  if (refusal.empty()) body.output(0, x);
  return refusal;
}

Refusal write_matmul(Body& body) {
  if (body.integer("transBatchA", 0) != 0 || body.integer("transBatchB", 0) != 0) {
    return "the attributes transBatchA, transBatchB";
  }
  const std::string a = body.integer("transA", 0) != 0 ? exchanged(body, body.in(0)) : body.in(0);
  const std::string b = body.integer("transB", 0) != 0 ? exchanged(body, body.in(1)) : body.in(1);
  std::string product = body.node("MatMul", {a, b});
  if (body.real("alpha", 1) != 1) {
    product = body.node("Mul", {product, body.number(body.real("alpha", 1), product)});
  }
  body.output(0, product);
  return {};
}

// (x - mean) / sqrt(variance + epsilon) over the last axis, times `scale`, plus `shift` where there is one.
std::string layer_normalised(Body& body, const std::string& x, const std::string& scale,
                             const std::string& shift, float epsilon) {
  constexpr std::int64_t kSinceLayerNormalization = 17;
  if (body.opset() >= kSinceLayerNormalization) {
    return body.node("LayerNormalization", {x, scale, shift},
                     {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
  }
  const std::string centred = body.node("Sub", {x, body.mean(x)});
  const std::string variance = body.mean(body.node("Mul", {centred, centred}));
  const std::string deviation =
      body.node("Sqrt", {body.node("Add", {variance, body.number(epsilon, x)})});
  const std::string y = body.node("Mul", {body.node("Div", {centred, deviation}), scale});
  return shift.empty() ? y : body.node("Add", {y, shift});
}

std::string root_mean_square_normalised(Body& body, const std::string& x, const std::string& scale,
                                        float epsilon) {
  const std::string mean = body.mean(body.node("Mul", {x, x}));
  const std::string root = body.node("Sqrt", {body.node("Add", {mean, body.number(epsilon, x)})});
  return body.node("Mul", {body.node("Div", {x, root}), scale});
}

constexpr float kEpsilon = 1e-5f;
constexpr float kEpsilonOfSkips = 1e-12f;

Refusal refusal_of_statistics(const Body& body) {
  return body.wants(1) || body.wants(2) ? "the outputs mean and inv_std_var" : "";
}

// Input 0, scale and shift, with the axes from the attribute's on as one, which is then the last; and what was made of them
// with the axes of input 0.
struct Normalised {
  std::string x, scale, shift;
};
Normalised of_last_axis(Body& body) {
  const std::int64_t axis = body.integer("axis", -1);
  if (axis == -1) return {body.in(0), body.in(1), body.in(2)};
  const std::string before = body.node("Slice", {body.node("Shape", {body.in(0)}), body.list({0}),
                                                 body.list({axis}), body.list({0})});
  const std::string dims =
      body.node("Concat", {before, body.list({-1})}, {{"axis", std::int64_t{0}}});
  return {body.node("Reshape", {body.in(0), dims}), body.reshaped(body.in(1), {-1}),
          body.has(2) ? body.reshaped(body.in(2), {-1}) : ""};
}
void put_normalised(Body& body, const std::string& y) {
  if (body.integer("axis", -1) == -1) return body.output(0, y);
  body.output(0, body.node("Reshape", {y, body.node("Shape", {body.in(0)})}));
}

Refusal write_layer_normalization(Body& body) {
  if (Refusal refusal = refusal_of_statistics(body); !refusal.empty()) return refusal;
  const Normalised of = of_last_axis(body);
  put_normalised(body,
                 layer_normalised(body, of.x, of.scale, of.shift, body.real("epsilon", kEpsilon)));
  return {};
}
Refusal write_simplified_normalization(Body& body) {
  if (Refusal refusal = refusal_of_statistics(body); !refusal.empty()) return refusal;
  const Normalised of = of_last_axis(body);
  put_normalised(body,
                 root_mean_square_normalised(body, of.x, of.scale, body.real("epsilon", kEpsilon)));
  return {};
}

// x + skip + bias, which is output 3.
std::string skipped(Body& body, int bias) {
  std::string sum = body.node("Add", {body.in(0), body.in(1)});
  if (body.has(bias)) sum = body.node("Add", {sum, body.in(bias)});
  if (body.wants(3)) body.output(3, sum);
  return sum;
}
Refusal write_skip_normalization(Body& body) {
  if (Refusal refusal = refusal_of_statistics(body); !refusal.empty()) return refusal;
  const std::string sum = skipped(body, 4);
  body.output(0, layer_normalised(body, sum, body.in(2), body.in(3),
                                  body.real("epsilon", kEpsilonOfSkips)));
  return {};
}
Refusal write_skip_simplified_normalization(Body& body) {
  if (Refusal refusal = refusal_of_statistics(body); !refusal.empty()) return refusal;
  const std::string sum = skipped(body, 3);
  body.output(
      0, root_mean_square_normalised(body, sum, body.in(2), body.real("epsilon", kEpsilonOfSkips)));
  return {};
}

// Of each id whether it counts; without such an input none does.
std::string mask_of_embedding(Body& body) {
  if (body.has(7)) return body.in(7);
  const std::string ids = body.cast(body.in(0), onnx::TensorProto::INT32);
  return body.node("Sub", {ids, ids});
}

// Ids, segments; embeddings of words, positions and segments; scale, shift, mask, positions.
Refusal write_embedding(Body& body) {
  std::string sum = body.node("Gather", {body.in(2), body.in(0)});
  if (body.has(8)) {
    sum = body.node("Add", {sum, body.node("Gather", {body.in(3), body.in(8)})});
  } else {
    const std::string first = body.node(
        "Slice", {body.in(3), body.list({0}), body.length(body.in(0), 1), body.list({0})});
    sum = body.node("Add", {sum, first});
  }
  if (body.has(1) && body.has(4)) {
    sum = body.node("Add", {sum, body.node("Gather", {body.in(4), body.in(1)})});
  }
  if (body.wants(1)) body.output(1, body.total(mask_of_embedding(body), 1));
  if (body.wants(2)) body.output(2, sum);
  body.output(0, layer_normalised(body, sum, body.in(5), body.in(6),
                                  body.real("epsilon", kEpsilonOfSkips)));
  return {};
}

// Ids, segments; tables of words, positions and segments, scale, shift, mask; scales and zero points of those five.
Refusal write_quantised_embedding(Body& body) {
  const auto values = [&](const std::string& bytes, int of) {
    const std::string zero = body.has(11 + of) ? body.in(11 + of) : "";
    return body.node("DequantizeLinear", {bytes, body.in(6 + of), zero});
  };
  const auto of_table = [&](int table, const std::string& places) {
    return values(body.node("Gather", {body.in(table), places}), table);
  };
  std::string sum = of_table(2, body.in(0));
  const std::string first =
      body.node("Slice", {body.in(3), body.list({0}), body.length(body.in(0), 1), body.list({0})});
  sum = body.node("Add", {sum, values(first, 3)});
  if (body.has(1) && body.has(4)) sum = body.node("Add", {sum, of_table(4, body.in(1))});
  if (body.wants(1)) body.output(1, body.total(mask_of_embedding(body), 1));
  const std::string scale = values(body.in(5), 5), shift = values(body.in(6), 6);
  body.output(0, layer_normalised(body, sum, scale, shift, body.real("epsilon", kEpsilonOfSkips)));
  return {};
}

Refusal write_triangle(Body& body) {
  constexpr std::int64_t kSinceTrilu = 14;
  if (body.opset() < kSinceTrilu)
    return fmt::format("opset {} of the standard, which has Trilu from 14 on", body.opset());
  body.output(0, body.node_like_call("Trilu", {body.in(0), body.in(1)}, {"upper"}));
  return {};
}

// Between each row of a and each row of b.
Refusal write_distances(Body& body) {
  const std::string metric = body.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") return "the attribute metric = " + metric;
  const auto with_axis = [&](int i, const std::vector<std::int64_t>& front) {
    std::vector<std::string> dims = {body.list(front), body.length(body.in(i), 0),
                                     body.length(body.in(i), 1)};
    if (i == 0) dims = {body.length(body.in(i), 0), body.list(front), body.length(body.in(i), 1)};
    return body.node("Reshape",
                     {body.in(i), body.node("Concat", dims, {{"axis", std::int64_t{0}}})});
  };
  const std::string apart = body.node("Sub", {with_axis(0, {1}), with_axis(1, {1})});
  const std::string square = body.total(body.node("Mul", {apart, apart}), 2);
  body.output(0, metric == "euclidean" ? body.node("Sqrt", {square}) : square);
  return {};
}

}  // namespace

Operators fused_operators() {
  return {{"Gelu", {write_gelu, {0}}},
          {"BiasGelu", {write_bias_gelu, {0, 1}}},
          {"FastGelu", {write_fast_gelu, {0}}},
          {"QuickGelu", {write_quick_gelu, {0}}},
          {"CDist", {write_distances, {0, 1}}},
          {"Trilu", {write_triangle, {0}}},
          {"FusedConv", {write_conv, {0, 1}}},
          {"FusedGemm", {write_gemm, {0, 1}}},
          {"FusedMatMul", {write_matmul, {0, 1}}},
          {"TransposeMatMul", {write_matmul, {0, 1}}},
          {"LayerNormalization", {write_layer_normalization, {0, 1}}},
          {"SimplifiedLayerNormalization", {write_simplified_normalization, {0, 1}}},
          {"SkipLayerNormalization", {write_skip_normalization, {0, 1, 2}}},
          {"SkipSimplifiedLayerNormalization", {write_skip_simplified_normalization, {0, 1, 2}}},
          {"EmbedLayerNormalization", {write_embedding, {0, 2, 3, 5}}},
          {"QEmbedLayerNormalization", {write_quantised_embedding, {0, 2, 3, 5, 6, 8, 9, 11, 12}}}};
}

}  // namespace tessera::model::contrib

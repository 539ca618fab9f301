#include "model/contrib/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace tessera::model::contrib {

std::string exact_numbers(Body& body, const std::vector<double>& values,
                          const std::vector<std::int64_t>& dims) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::DOUBLE);
  if (dims.empty()) tensor.add_dims(std::ssize(values));
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  for (const double value : values) tensor.add_double_data(value);
  return body.constant(std::move(tensor));
}

std::string numbers(Body& body, const std::vector<float>& values,
                    const std::vector<std::int64_t>& dims) {
  return exact_numbers(body, {values.begin(), values.end()}, dims);
}

std::string wide(Body& body, int i) { return body.cast(body.in(i), kDouble); }
std::string narrow(Body& body, const std::string& x) { return body.cast(x, kFloat); }

std::string largest(Body& body, const std::string& x) {
  constexpr std::int64_t kSinceAxesAreAnInput = 18;
  if (body.opset() < kSinceAxesAreAnInput) {
    return body.node("ReduceMax", {x}, {{"axes", std::vector<std::int64_t>{-1}}});
  }
  return body.node("ReduceMax", {x, body.list({-1})});
}

std::string linear(Body& body, const std::string& x, const std::vector<float>& w, std::int64_t rows,
                   const std::vector<float>& b) {
  const std::string weights =
      body.transposed(numbers(body, w, {rows, std::ssize(w) / rows}), {1, 0});
  const std::string product = body.node("MatMul", {x, weights});
  return b.empty() ? product : body.node("Add", {product, numbers(body, b)});
}

std::string with_last_axis(Body& body, const std::string& x) {
  const std::string dims =
      body.node("Concat", {body.node("Shape", {x}), body.list({1})}, {{"axis", std::int64_t{0}}});
  return body.node("Reshape", {x, dims});
}

Refusal transformed(Body& body, std::string& scores) {
  const std::string how = body.text("post_transform", "NONE");
  if (how == "LOGISTIC") {
    const std::string decay = body.node("Exp", {body.node("Neg", {scores})});
    scores = body.node("Reciprocal", {body.node("Add", {decay, numbers(body, {1})})});
  } else if (how == "SOFTMAX") {
    const std::string powers =
        body.node("Exp", {body.node("Sub", {scores, largest(body, scores)})});
    scores = body.node("Div", {powers, body.reshaped(body.total(powers, 1), {-1, 1})});
  } else if (how != "NONE") {
    return fmt::format("the attribute post_transform = {}", how);
  }
  return {};
}

Refusal write_classes(Body& body, const std::string& scores,
                      const std::vector<std::int64_t>& labels) {
  const std::string best =
      body.node("ArgMax", {scores}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}});
  body.output(0, body.node("Gather", {body.list(labels), best}));
  std::string values = scores;
  Refusal refusal = transformed(body, values);
  if (refusal.empty()) body.output(1, narrow(body, values));
  return refusal;
}

Refusal write_two_classes(Body& body, const std::string& score,
                          const std::vector<std::int64_t>& labels, float limit, OneScore meaning) {
  const std::string flat = body.reshaped(score, {-1});
  const std::string above = body.node("Greater", {flat, numbers(body, {limit})});
  body.output(0, body.node("Where", {above, body.list({labels[1]}), body.list({labels[0]})}));
  std::string second = score;
  if (body.text("post_transform", "NONE") == "SOFTMAX")
    return "the attribute post_transform = SOFTMAX of one score";
  if (Refusal refusal = transformed(body, second); !refusal.empty()) return refusal;
  const bool probability =
      meaning == OneScore::kRest || body.text("post_transform", "NONE") == "LOGISTIC";
  const std::string first =
      probability ? body.node("Sub", {numbers(body, {1}), second}) : body.node("Neg", {second});
  body.output(1, narrow(body, body.node("Concat", {first, second}, {{"axis", std::int64_t{1}}})));
  return {};
}

// One of a list of keys is replaced by the value in its place, all else by the default.
Refusal write_label_encoder(Body& body) {
  const std::vector<std::int64_t> whole_keys = body.integers("keys_int64s"),
                                  whole_values = body.integers("values_int64s");
  const std::vector<float> keys = body.reals("keys_floats"), values = body.reals("values_floats");
  const std::size_t count = std::max(whole_keys.size(), keys.size());
  if (count == 0 || count != std::max(whole_values.size(), values.size())) {
    return "keys or values that are text, or none";
  }
  const bool to_whole = !whole_values.empty();
  std::string x = whole_keys.empty() ? wide(body, 0) : body.in(0);
  std::string result = to_whole ? body.list({body.integer("default_int64", -1)})
                                : numbers(body, {body.real("default_float", 0)});
  for (std::size_t i = count; i-- > 0;) {
    const std::string key =
        whole_keys.empty() ? numbers(body, {keys[i]}) : body.list({whole_keys[i]});
    const std::string value = to_whole ? body.list({whole_values[i]}) : numbers(body, {values[i]});
    result = body.node("Where", {body.node("Equal", {x, key}), value, result});
  }
  body.output(0, to_whole ? result : narrow(body, result));
  return {};
}

Refusal write_one_hot_encoder(Body& body) {
  const std::vector<std::int64_t> categories = body.integers("cats_int64s");
  if (categories.empty()) return "categories that are text (the attribute cats_strings)";
  const std::string x = with_last_axis(body, body.cast(body.in(0), kInt64));
  body.output(0, body.cast(body.node("Equal", {x, body.list(categories)}), kFloat));
  return {};
}

}  // namespace tessera::model::contrib

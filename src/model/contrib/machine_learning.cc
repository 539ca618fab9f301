// Operators of ai.onnx.ml on numbers, which converters of tabular models write. Their arithmetic is that of f64, on the host:
// columns are as large as they come (an income, a year), beyond what a vector format holds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/contrib/operators.h"
#include "model/contrib/table.h"

namespace tessera::model::contrib {
namespace {

Refusal write_scaler(Body& body) {
  const std::string moved = body.node("Sub", {wide(body, 0), numbers(body, body.reals("offset"))});
  body.output(0, narrow(body, body.node("Mul", {moved, numbers(body, body.reals("scale"))})));
  return {};
}

Refusal write_imputer(Body& body) {
  if (body.says("imputed_value_int64s")) {
    const std::string x = body.cast(body.in(0), kInt64);
    const std::string missing =
        body.node("Equal", {x, body.whole(body.integer("replaced_value_int64", 0))});
    body.output(0,
                body.node("Where", {missing, body.list(body.integers("imputed_value_int64s")), x}));
    return {};
  }
  const float replaced = body.real("replaced_value_float", 0);
  const std::string x = wide(body, 0);
  const std::string missing = std::isnan(replaced)
                                  ? body.node("IsNaN", {x})
                                  : body.node("Equal", {x, numbers(body, {replaced})});
  body.output(
      0, narrow(body, body.node("Where",
                                {missing, numbers(body, body.reals("imputed_value_floats")), x})));
  return {};
}

Refusal write_binarizer(Body& body) {
  const std::string above =
      body.node("Greater", {wide(body, 0), numbers(body, {body.real("threshold", 0)})});
  body.output(0, body.cast(above, kFloat));
  return {};
}

// Along the last axis of two; a row of zeros stays as it is.
Refusal write_normalizer(Body& body) {
  const std::string norm = body.text("norm", "MAX");
  const std::string x = wide(body, 0);
  std::string size;
  if (norm == "L1") {
    size = body.total(body.node("Abs", {x}), 1);
  } else if (norm == "L2") {
    size = body.node("Sqrt", {body.total(body.node("Mul", {x, x}), 1)});
  } else {
    size = largest(body, x);
  }
  size = body.reshaped(size, {-1, 1});
  const std::string zero = body.node("Equal", {size, numbers(body, {0})});
  const std::string divisor = body.node("Where", {zero, numbers(body, {1}), size});
  body.output(0, narrow(body, body.node("Div", {x, divisor})));
  return {};
}

Refusal write_linear_regressor(Body& body) {
  if (body.text("post_transform", "NONE") != "NONE") return "the attribute post_transform";
  body.output(0, narrow(body, linear(body, wide(body, 0), body.reals("coefficients"),
                                     body.integer("targets", 1), body.reals("intercepts"))));
  return {};
}

Refusal write_linear_classifier(Body& body) {
  const std::vector<float> offsets = body.reals("intercepts");
  const std::vector<std::int64_t> labels = body.integers("classlabels_ints");
  const auto rows = std::max<std::int64_t>(1, std::ssize(offsets));
  const std::string scores = linear(body, wide(body, 0), body.reals("coefficients"), rows, offsets);
  if (rows == std::ssize(labels)) return write_classes(body, scores, labels);
  if (rows != 1 || labels.size() != 2) return "scores and labels that do not go together";
  return write_two_classes(body, scores, labels, 0, OneScore::kRest);
}

Refusal write_array_feature_extractor(Body& body) {
  const std::string places = body.reshaped(body.in(1), {-1});
  body.output(0, body.node("Gather", {body.in(0), places}, {{"axis", std::int64_t{-1}}}));
  return {};
}

Refusal write_feature_vectorizer(Body& body) {
  std::vector<std::string> parts;
  for (int i = 0; i < body.inputs(); ++i) parts.push_back(body.cast(body.in(i), kFloat));
  body.output(0, body.node("Concat", parts, {{"axis", std::int64_t{1}}}));
  return {};
}

// Maps by class are not there: the tensor that they are made of is.
Refusal write_zip_map(Body& body) {
  body.output(0, body.node("Identity", {body.in(0)}));
  return {};
}

}  // namespace

Operators machine_learning_operators() {
  return {
      {"ArrayFeatureExtractor", {write_array_feature_extractor, {0, 1}}},
      {"Binarizer", {write_binarizer, {0}}},
      {"FeatureVectorizer", {write_feature_vectorizer, {0}}},
      {"Imputer", {write_imputer, {0}}},
      {"LabelEncoder", {write_label_encoder, {0}}},
      {"LinearClassifier", {write_linear_classifier, {0}}},
      {"LinearRegressor", {write_linear_regressor, {0}}},
      {"Normalizer", {write_normalizer, {0}}},
      {"OneHotEncoder", {write_one_hot_encoder, {0}}},
      {"SVMClassifier", {write_support_vector_classifier, {0}}},
      {"SVMRegressor", {write_support_vector_regressor, {0}}},
      {"Scaler", {write_scaler, {0}}},
      {"TreeEnsembleClassifier", {write_tree_classifier, {0}}},
      {"TreeEnsembleRegressor", {write_tree_regressor, {0}}},
      {"ZipMap", {write_zip_map, {0}}},
  };
}

}  // namespace tessera::model::contrib

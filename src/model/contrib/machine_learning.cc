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

// x w + b; the attribute has the rows of w behind each other.
std::string linear(Body& body, const std::string& x, const std::vector<float>& w, std::int64_t rows,
                   const std::vector<float>& b) {
  const std::string weights =
      body.transposed(numbers(body, w, {rows, std::ssize(w) / rows}), {1, 0});
  const std::string product = body.node("MatMul", {x, weights});
  return b.empty() ? product : body.node("Add", {product, numbers(body, b)});
}

Refusal write_linear_regressor(Body& body) {
  if (body.text("post_transform", "NONE") != "NONE") return "the attribute post_transform";
  body.output(0, narrow(body, linear(body, wide(body, 0), body.reals("coefficients"),
                                     body.integer("targets", 1), body.reals("intercepts"))));
  return {};
}

Refusal write_linear_classifier(Body& body) {
  if (body.says("classlabels_strings")) return kTexts;
  const std::vector<float> offsets = body.reals("intercepts");
  const std::vector<std::int64_t> labels = body.integers("classlabels_ints");
  const auto rows = std::max<std::int64_t>(1, std::ssize(offsets));
  const std::string scores = linear(body, wide(body, 0), body.reals("coefficients"), rows, offsets);
  if (rows == std::ssize(labels)) return write_classes(body, scores, labels);
  if (rows != 1 || labels.size() != 2) return "scores and labels that do not go together";
  return write_two_classes(body, scores, labels, 0, OneScore::kRest);
}

Refusal write_svm_regressor(Body& body) {
  const std::vector<float> coefficients = body.reals("coefficients"), rho = body.reals("rho");
  const std::int64_t supports = body.integer("n_supports", 0);
  if (body.integer("one_class", 0) != 0) return "the attribute one_class = 1";
  if (body.text("post_transform", "NONE") != "NONE") return "the attribute post_transform";
  const std::string x = wide(body, 0);
  if (supports == 0) {
    body.output(0, narrow(body, linear(body, x, coefficients, 1, rho)));
    return {};
  }
  const std::vector<float> given = body.reals("kernel_params"),
                           vectors = body.reals("support_vectors");
  const auto parameter = [&](std::size_t i) { return i < given.size() ? given[i] : 0; };
  const std::string kernel = body.text("kernel_type", "LINEAR");
  std::string similar = linear(body, x, vectors, supports, {});
  if (kernel == "RBF") {
    const std::string square = body.reshaped(body.total(body.node("Mul", {x, x}), 1), {-1, 1});
    const std::int64_t width = std::ssize(vectors) / supports;
    std::vector<double> squares(static_cast<std::size_t>(supports), 0.0);
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      squares[i / static_cast<std::size_t>(width)] += double{vectors[i]} * vectors[i];
    }
    const std::string both = body.node("Add", {square, exact_numbers(body, squares)});
    const std::string twice = body.node("Mul", {similar, numbers(body, {2})});
    const std::string distance = body.node("Sub", {both, twice});
    similar = body.node("Exp", {body.node("Mul", {distance, numbers(body, {-parameter(0)})})});
  } else if (kernel == "POLY" || kernel == "SIGMOID") {
    const std::string scaled = body.node("Mul", {similar, numbers(body, {parameter(0)})});
    similar = body.node("Add", {scaled, numbers(body, {parameter(1)})});
    similar = kernel == "POLY" ? body.node("Pow", {similar, numbers(body, {parameter(2)})})
                               : body.node("Tanh", {similar});
  } else if (kernel != "LINEAR") {
    return fmt::format("the attribute kernel_type = {}", kernel);
  }
  body.output(0, narrow(body, linear(body, similar, coefficients, 1, rho)));
  return {};
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
      {"SVMRegressor", {write_svm_regressor, {0}}},
      {"Scaler", {write_scaler, {0}}},
      {"TreeEnsembleClassifier", {write_tree_classifier, {0}}},
      {"TreeEnsembleRegressor", {write_tree_regressor, {0}}},
      {"ZipMap", {write_zip_map, {0}}},
  };
}

}  // namespace tessera::model::contrib

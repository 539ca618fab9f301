// Support vector machines: a regression, and classes by a vote of every pair of them.
//
//   x ─► kernel with each support vector ─► a score for each pair ─► the class that wins most pairs
#include <fmt/format.h>

#include <algorithm>

#include "model/contrib/table.h"

namespace tessera::model::contrib {
namespace {

// |x - v|^2 = x x + v v - 2 x v, to the power e^-gamma.
std::string radial(Body& body, const std::string& x, const std::string& products,
                   const std::vector<float>& vectors, std::int64_t count, float gamma) {
  const std::string square = body.reshaped(body.total(body.node("Mul", {x, x}), 1), {-1, 1});
  const std::int64_t width = std::ssize(vectors) / count;
  std::vector<double> squares(static_cast<std::size_t>(count), 0.0);
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    squares[i / static_cast<std::size_t>(width)] += double{vectors[i]} * vectors[i];
  }
  const std::string both = body.node("Add", {square, exact_numbers(body, squares)});
  const std::string twice = body.node("Mul", {products, numbers(body, {2})});
  const std::string distance = body.node("Sub", {both, twice});
  return body.node("Exp", {body.node("Mul", {distance, numbers(body, {-gamma})})});
}

// The kernel of x with each of so many vectors: [rows, count].
Refusal similarity(Body& body, const std::string& x, const std::vector<float>& vectors,
                   std::int64_t count, std::string& similar) {
  const std::vector<float> given = body.reals("kernel_params");
  const auto parameter = [&](std::size_t i) { return i < given.size() ? given[i] : 0; };
  const std::string kernel = body.text("kernel_type", "LINEAR");
  similar = linear(body, x, vectors, count, {});
  if (kernel == "RBF") {
    similar = radial(body, x, similar, vectors, count, parameter(0));
  } else if (kernel == "POLY" || kernel == "SIGMOID") {
    const std::string scaled = body.node("Mul", {similar, numbers(body, {parameter(0)})});
    similar = body.node("Add", {scaled, numbers(body, {parameter(1)})});
    similar = kernel == "POLY" ? body.node("Pow", {similar, numbers(body, {parameter(2)})})
                               : body.node("Tanh", {similar});
  } else if (kernel != "LINEAR") {
    return fmt::format("the attribute kernel_type = {}", kernel);
  }
  return {};
}

// Pairs of classes i < j, in that order.
struct Pairs {
  std::vector<float> weights;                 // [pairs, vectors]
  std::vector<double> wins_first, wins_else;  // [pairs, classes]: the vote for i, and for j
  std::int64_t count = 0;
};

Refusal read_pairs(const Body& body, Pairs& pairs) {
  const std::vector<std::int64_t> sizes = body.integers("vectors_per_class");
  const std::vector<float> coefficients = body.reals("coefficients");
  std::vector<std::int64_t> first = {0};
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > std::ssize(coefficients)) return "the attribute vectors_per_class";
    first.push_back(first.back() + size);
  }
  constexpr std::int64_t kClassesMax = 256;  // a line for each pair
  const std::int64_t classes = std::ssize(sizes), vectors = first.back();
  if (classes > kClassesMax) return fmt::format("{} classes, more than {}", classes, kClassesMax);
  if (classes < 2 || vectors < 1 || std::ssize(coefficients) != (classes - 1) * vectors) {
    return "coefficients, vectors and classes that do not go together";
  }
  for (std::int64_t i = 0; i < classes; ++i) {
    for (std::int64_t j = i + 1; j < classes; ++j) {
      std::vector<float> row(static_cast<std::size_t>(vectors), 0.0f);
      const auto take = [&](std::int64_t of, std::int64_t line) {
        for (std::int64_t v = first[static_cast<std::size_t>(of)];
             v < first[static_cast<std::size_t>(of) + 1]; ++v) {
          row[static_cast<std::size_t>(v)] =
              coefficients[static_cast<std::size_t>(line * vectors + v)];
        }
      };
      take(i, j - 1);
      take(j, i);
      pairs.weights.insert(pairs.weights.end(), row.begin(), row.end());
      for (std::int64_t c = 0; c < classes; ++c) {
        pairs.wins_first.push_back(c == i ? 1 : 0);
        pairs.wins_else.push_back(c == j ? 1 : 0);
      }
      ++pairs.count;
    }
  }
  return {};
}

// The label with most votes, the first of equals.
void output_voted(Body& body, const std::string& scores, const Pairs& pairs,
                  const std::vector<std::int64_t>& labels) {
  const std::vector<std::int64_t> dims = {pairs.count, std::ssize(labels)};
  const std::string first = body.cast(body.node("Greater", {scores, numbers(body, {0})}), kDouble);
  const std::string other = body.node("Sub", {numbers(body, {1}), first});
  const std::string votes =
      body.node("Add", {body.node("MatMul", {first, exact_numbers(body, pairs.wins_first, dims)}),
                        body.node("MatMul", {other, exact_numbers(body, pairs.wins_else, dims)})});
  const std::string best =
      body.node("ArgMax", {votes}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}});
  body.output(0, body.node("Gather", {body.list(labels), best}));
}

// Of two classes with a fitted logistic curve: 1 / (1 + e^(a s + b)), and the rest.
Refusal write_probabilities(Body& body, const std::string& score) {
  const std::vector<float> a = body.reals("prob_a"), b = body.reals("prob_b");
  if (a.size() != 1 || b.size() != 1) {
    return "the attributes prob_a, prob_b of more than two classes (their probabilities are found "
           "by "
           "iteration); train or convert without probabilities";
  }
  const std::string exponent =
      body.node("Add", {body.node("Mul", {score, numbers(body, {a[0]})}), numbers(body, {b[0]})});
  const std::string sum = body.node("Add", {body.node("Exp", {exponent}), numbers(body, {1})});
  const std::string first = body.node("Reciprocal", {sum});
  const std::string second = body.node("Sub", {numbers(body, {1}), first});
  std::string values = body.node("Concat", {first, second}, {{"axis", std::int64_t{1}}});
  Refusal refusal = transformed(body, values);
  if (refusal.empty()) body.output(1, narrow(body, values));
  return refusal;
}

}  // namespace

Refusal write_support_vector_regressor(Body& body) {
  const std::vector<float> coefficients = body.reals("coefficients"), rho = body.reals("rho");
  const std::int64_t supports = body.integer("n_supports", 0);
  if (body.integer("one_class", 0) != 0) return "the attribute one_class = 1";
  if (body.text("post_transform", "NONE") != "NONE") return "the attribute post_transform";
  const std::string x = wide(body, 0);
  std::string similar = x;
  if (supports != 0) {
    const std::vector<float> vectors = body.reals("support_vectors");
    if (supports < 0 || vectors.empty() || std::ssize(vectors) % supports != 0) {
      return "support vectors of broken length";
    }
    Refusal refusal = similarity(body, x, vectors, supports, similar);
    if (!refusal.empty()) return refusal;
  }
  body.output(0, narrow(body, linear(body, similar, coefficients, 1, rho)));
  return {};
}

Refusal write_support_vector_classifier(Body& body) {
  const std::vector<std::int64_t> labels = body.integers("classlabels_ints");
  const std::vector<float> rho = body.reals("rho"), vectors = body.reals("support_vectors");
  const std::string x = wide(body, 0);
  if (labels.size() < 2) return "fewer than two labels that are whole numbers";
  if (vectors.empty()) {
    if (rho.empty()) return "no rho";
    if (body.reals("coefficients").size() % labels.size() != 0) {
      return "coefficients and classes that do not go together";
    }
    if (labels.size() == 2) {
      return "two classes and no support vectors, of which implementations make different things; "
             "convert it as a LinearClassifier";
    }
    std::string scores;
    Refusal refusal = similarity(body, x, body.reals("coefficients"), std::ssize(labels), scores);
    if (!refusal.empty()) return refusal;
    return write_classes(body, body.node("Add", {scores, numbers(body, {rho[0]})}), labels);
  }
  Pairs pairs;
  if (Refusal refusal = read_pairs(body, pairs); !refusal.empty()) return refusal;
  if (std::ssize(rho) != pairs.count) return "not as many rho as pairs of classes";
  const std::int64_t count = std::ssize(pairs.weights) / pairs.count;
  if (count == 0 || std::ssize(vectors) % count != 0) return "support vectors of broken length";
  std::string similar;
  if (Refusal refusal = similarity(body, x, vectors, count, similar); !refusal.empty())
    return refusal;
  std::string scores = linear(body, similar, pairs.weights, pairs.count, rho);
  output_voted(body, scores, pairs, labels);
  if (body.says("prob_a")) return write_probabilities(body, scores);
  if (pairs.count == 1) {
    if (body.text("post_transform", "NONE") == "SOFTMAX") {
      return "the attribute post_transform = SOFTMAX of one score";
    }
    scores = body.node("Concat", {body.node("Neg", {scores}), scores}, {{"axis", std::int64_t{1}}});
  }
  Refusal refusal = transformed(body, scores);
  if (refusal.empty()) body.output(1, narrow(body, scores));
  return refusal;
}

}  // namespace tessera::model::contrib

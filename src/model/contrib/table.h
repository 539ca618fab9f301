// What bodies of operators of ai.onnx.ml have in common: arithmetic of f64, and classes by their scores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/contrib/operators.h"

namespace tessera::model::contrib {

inline constexpr std::int64_t kDouble = onnx::TensorProto::DOUBLE;
inline constexpr std::int64_t kInt64 = onnx::TensorProto::INT64;

// Constants of f64; without dims a list.
std::string exact_numbers(Body& body, const std::vector<double>& values,
                          const std::vector<std::int64_t>& dims = {});
std::string numbers(Body& body, const std::vector<float>& values,
                    const std::vector<std::int64_t>& dims = {});
// Input `i` in f64, and a result in f32.
std::string wide(Body& body, int i);
std::string narrow(Body& body, const std::string& x);
// The largest along the last axis, which stays with one element.
std::string largest(Body& body, const std::string& x);
// x w + b; `w` has the rows of the transposed matrix behind each other.
std::string linear(Body& body, const std::string& x, const std::vector<float>& w, std::int64_t rows,
                   const std::vector<float>& b);
// In front of the shape of `x`, as an axis at its end.
std::string with_last_axis(Body& body, const std::string& x);

// Scores of rows and columns become the operator's outputs: 0 the label of the largest, 1 the scores after `post_transform`.
Refusal write_classes(Body& body, const std::string& scores,
                      const std::vector<std::int64_t>& labels);
// What one score says of two classes.
enum class OneScore : std::uint8_t {
  kOpposite,  // -s and s; after LOGISTIC 1 - s and s
  kRest,      // 1 - s and s
};
// Of one column: the second label above `limit`.
Refusal write_two_classes(Body& body, const std::string& score,
                          const std::vector<std::int64_t>& labels, float limit, OneScore meaning);
// Scores after `post_transform`; the refusal names one that is not known.
Refusal transformed(Body& body, std::string& scores);

Refusal write_inverse(Body& body);
Refusal write_label_encoder(Body& body);
Refusal write_one_hot_encoder(Body& body);
Refusal write_support_vector_classifier(Body& body);
Refusal write_support_vector_regressor(Body& body);
Refusal write_tree_classifier(Body& body);
Refusal write_tree_regressor(Body& body);

}  // namespace tessera::model::contrib

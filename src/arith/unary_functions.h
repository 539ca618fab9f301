// The unary functions, one row each: names in texts, operators of ONNX, what cost and derived
// software have to know. Graph texts, descriptors, the checks of a model file, lowering and
// docs/supported_ops.md draw from the rows. The values are in function.cc.
//
// A function's number is in files: new ones come last, and none is taken out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

enum class UnaryFunction : std::uint8_t {
  kIdentity,
  kRelu,
  kClip /* alpha=min, beta=max */,
  kLeakyRelu /* alpha */,
  kAbs,
  kNegate,
  kSign,
  kFloor,
  kCeil,
  kRound /* half to even */,
  kSquare,
  kSquareRoot,
  kReciprocal,
  kExp,
  kLog,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kSigmoid,
  kHardSigmoid /* alpha x + beta */,
  kHardSwish /* x * clip(alpha x + beta, 0, 1) */,
  kSilu,
  kGelu /* erf form */,
  kGeluTanh,
  kElu /* alpha */,
  kCelu /* alpha */,
  kSelu /* alpha, beta=gamma */,
  kSoftplus,
  kSoftsign,
  kMish,
  kThresholdedRelu /* alpha */,
  kScale /* alpha x */,
};

// What a function takes: its values (docs/numbers.md) and its time (arch/cost.h) follow from it.
enum class UnaryKind : std::uint8_t {
  kLine,            // comparisons, products and sums
  kQuotient,        // a quotient or a root
  kTranscendental,  // results are almost never representable; the processor looks them up
};

// What is known of the results, so that derived software does without a test.
enum class UnaryRange : std::uint8_t {
  kAny,          // a number may give NaN
  kNumber,       // NaN of NaN alone
  kNonNegative,  // the same, and never below 0
};

// The parameter of a function, as its operator gives it.
struct UnaryParameter {
  std::string_view attribute = {};  // empty: the value cannot be changed
  float value = 0;                  // without the attribute
};

// The operator of ONNX that is the function, if there is one.
struct UnaryOperator {
  std::string_view name = {};      // empty: there is none
  std::string_view versions = {};  // as in model/ops/operators.h, and so are the attributes
  std::int64_t opset_min = 0;      // from which on the processor runs it
  std::string_view attributes = {};
  UnaryParameter alpha = {}, beta = {};
  // kNone: floats alone. kNarrow: the processor runs integers of at most 32 bits. kWide: also those
  // of 64 bits that are known to fit.
  enum class Integers : std::uint8_t { kNone, kNarrow, kWide } integers = Integers::kNone;
  bool recurrent = false;  // also the activation of an RNN, GRU or LSTM
};

struct UnaryRow {
  UnaryFunction function = UnaryFunction::kIdentity;
  std::string_view name = {};  // in texts
  UnaryKind kind = UnaryKind::kTranscendental;
  UnaryRange range = UnaryRange::kAny;
  UnaryOperator onnx = {};
};

namespace unary_rows {

using enum UnaryFunction;
using enum UnaryKind;
using enum UnaryRange;
using enum UnaryOperator::Integers;

// Where an attribute is of the form before opset 6, the processor takes the operator from 6 on.
inline constexpr std::string_view kOld = "consumed_inputs:is";

// clang-format off
inline constexpr auto kRows = std::to_array<UnaryRow>({
  {kIdentity, "identity", kLine, kNumber, {}},
  {kRelu, "relu", kLine, kNonNegative, {.name = "Relu", .versions = "1 6 13 14", .opset_min = 6, .attributes = kOld, .integers = kNarrow, .recurrent = true}},
  {kClip, "clip", kLine, kNumber, {}},  // the operator has its own row: bounds may be inputs
  {kLeakyRelu, "leaky_relu", kLine, kNumber, {.name = "LeakyRelu", .versions = "1 6 16", .opset_min = 6, .attributes = "alpha:f consumed_inputs:is", .alpha = {"alpha", 0.01f}, .recurrent = true}},
  {kAbs, "abs", kLine, kNonNegative, {.name = "Abs", .versions = "1 6 13", .opset_min = 6, .attributes = kOld, .integers = kWide}},
  {kNegate, "negate", kLine, kNumber, {.name = "Neg", .versions = "1 6 13", .opset_min = 6, .attributes = kOld, .integers = kWide}},
  {kSign, "sign", kLine, kAny, {.name = "Sign", .versions = "9 13", .opset_min = 9, .integers = kNarrow}},
  {kFloor, "floor", kLine, kNumber, {.name = "Floor", .versions = "1 6 13", .opset_min = 6, .attributes = kOld}},
  {kCeil, "ceil", kLine, kNumber, {.name = "Ceil", .versions = "1 6 13", .opset_min = 6, .attributes = kOld}},
  {kRound, "round", kLine, kNumber, {.name = "Round", .versions = "11 22", .opset_min = 11}},
  {kSquare, "square", kLine, kNonNegative, {}},
  {kSquareRoot, "square_root", kQuotient, kAny, {.name = "Sqrt", .versions = "1 6 13", .opset_min = 6, .attributes = kOld}},
  {kReciprocal, "reciprocal", kQuotient, kNumber, {.name = "Reciprocal", .versions = "1 6 13", .opset_min = 6, .attributes = kOld}},
  {kExp, "exp", kTranscendental, kNonNegative, {.name = "Exp", .versions = "1 6 13", .opset_min = 6, .attributes = kOld}},
  {kLog, "log", kTranscendental, kAny, {.name = "Log", .versions = "1 6 13", .opset_min = 6, .attributes = kOld}},
  {kSin, "sin", kTranscendental, kAny, {.name = "Sin", .versions = "7 22", .opset_min = 7}},
  {kCos, "cos", kTranscendental, kAny, {.name = "Cos", .versions = "7 22", .opset_min = 7}},
  {kTan, "tan", kTranscendental, kAny, {.name = "Tan", .versions = "7 22", .opset_min = 7}},
  {kAsin, "asin", kTranscendental, kAny, {.name = "Asin", .versions = "7 22", .opset_min = 7}},
  {kAcos, "acos", kTranscendental, kAny, {.name = "Acos", .versions = "7 22", .opset_min = 7}},
  {kAtan, "atan", kTranscendental, kAny, {.name = "Atan", .versions = "7 22", .opset_min = 7}},
  {kSinh, "sinh", kTranscendental, kAny, {.name = "Sinh", .versions = "9 22", .opset_min = 9}},
  {kCosh, "cosh", kTranscendental, kAny, {.name = "Cosh", .versions = "9 22", .opset_min = 9}},
  {kTanh, "tanh", kTranscendental, kNumber, {.name = "Tanh", .versions = "1 6 13", .opset_min = 6, .attributes = kOld, .recurrent = true}},
  {kAsinh, "asinh", kTranscendental, kAny, {.name = "Asinh", .versions = "9 22", .opset_min = 9}},
  {kAcosh, "acosh", kTranscendental, kAny, {.name = "Acosh", .versions = "9 22", .opset_min = 9}},
  {kAtanh, "atanh", kTranscendental, kAny, {.name = "Atanh", .versions = "9 22", .opset_min = 9}},
  {kErf, "erf", kTranscendental, kNumber, {.name = "Erf", .versions = "9 13", .opset_min = 9}},
  {kSigmoid, "sigmoid", kTranscendental, kNonNegative, {.name = "Sigmoid", .versions = "1 6 13", .opset_min = 6, .attributes = kOld, .recurrent = true}},
  {kHardSigmoid, "hard_sigmoid", kLine, kNonNegative, {.name = "HardSigmoid", .versions = "1 6 22", .opset_min = 6, .attributes = "alpha:f beta:f consumed_inputs:is", .alpha = {"alpha", 0.2f}, .beta = {"beta", 0.5f}, .recurrent = true}},
  {kHardSwish, "hard_swish", kLine, kNumber, {.name = "HardSwish", .versions = "14 22", .opset_min = 14, .alpha = {"", 1.0f / 6.0f}, .beta = {"", 0.5f}}},
  {kSilu, "silu", kTranscendental, kNumber, {}},  // Swish, whose row knows when
  {kGelu, "gelu", kTranscendental, kNumber, {.name = "Gelu", .versions = "20", .opset_min = 20, .attributes = "approximate:s=none|tanh"}},
  {kGeluTanh, "gelu_tanh", kTranscendental, kAny, {}},  // Gelu with approximate = tanh
  {kElu, "elu", kTranscendental, kAny, {.name = "Elu", .versions = "1 6 22", .opset_min = 6, .attributes = "alpha:f consumed_inputs:is", .alpha = {"alpha", 1.0f}, .recurrent = true}},
  {kCelu, "celu", kTranscendental, kAny, {.name = "Celu", .versions = "12", .opset_min = 12, .attributes = "alpha:f", .alpha = {"alpha", 1.0f}}},
  {kSelu, "selu", kTranscendental, kAny, {.name = "Selu", .versions = "1 6 22", .opset_min = 6, .attributes = "alpha:f gamma:f consumed_inputs:is", .alpha = {"alpha", 1.67326319217681884765625f}, .beta = {"gamma", 1.05070102214813232421875f}}},
  {kSoftplus, "softplus", kTranscendental, kNonNegative, {.name = "Softplus", .versions = "1 22", .opset_min = 1, .recurrent = true}},
  {kSoftsign, "softsign", kQuotient, kAny, {.name = "Softsign", .versions = "1 22", .opset_min = 1, .recurrent = true}},
  {kMish, "mish", kTranscendental, kAny, {.name = "Mish", .versions = "18 22", .opset_min = 18}},
  {kThresholdedRelu, "thresholded_relu", kLine, kAny, {.name = "ThresholdedRelu", .versions = "10 22", .opset_min = 10, .attributes = "alpha:f", .alpha = {"alpha", 1.0f}, .recurrent = true}},
  {kScale, "scale", kLine, kAny, {}},  // the product with a number
});
// clang-format on

// A row's place is its function's number.
static_assert([] {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].function) != i) return false;
  }
  return true;
}());

}  // namespace unary_rows

inline constexpr const auto& kUnaryRows = unary_rows::kRows;
inline constexpr int kUnaryFunctionCount = static_cast<int>(kUnaryRows.size());

namespace unary_rows {

constexpr std::size_t count_operators() {
  std::size_t count = 0;
  for (const UnaryRow& row : kRows) count += row.onnx.name.empty() ? 0 : 1;
  return count;
}

}  // namespace unary_rows

// The rows that are operators of ONNX, in their order.
inline constexpr auto kUnaryOperators = [] {
  std::array<UnaryRow, unary_rows::count_operators()> operators{};
  std::size_t next = 0;
  for (const UnaryRow& row : kUnaryRows) {
    if (!row.onnx.name.empty()) operators[next++] = row;
  }
  return operators;
}();

const UnaryRow& unary_row(UnaryFunction function);

std::string_view unary_function_name(UnaryFunction function);  // "identity", "hard_sigmoid", ...
std::optional<UnaryFunction> unary_function_from_name(std::string_view name);

// The function that an operator of ONNX is; nullptr if it is none.
const UnaryRow* find_unary_operator(std::string_view op_type);
// The same for a name in the attribute 'activations' of RNN, GRU and LSTM, in lower or upper case.
const UnaryRow* find_recurrent_function(std::string_view name);

}  // namespace tessera

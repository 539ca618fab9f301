// The element-wise functions the processor knows, by name. Their values are defined in
// arith/function.h; every one rounds once, to the format it is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "arith/format.h"

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
};
inline constexpr int kUnaryFunctionCount = static_cast<int>(UnaryFunction::kThresholdedRelu) + 1;

std::string_view unary_function_name(UnaryFunction function);  // "identity", "hard_sigmoid", ...
std::optional<UnaryFunction> unary_function_from_name(std::string_view name);

// A unary function with its parameters.
struct Activation {
  UnaryFunction function = UnaryFunction::kIdentity;
  float alpha = 0.0f;
  float beta = 0.0f;
  friend bool operator==(const Activation&, const Activation&) = default;
};

enum class BinaryFunction : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kPower,
  kPRelu /* a<0 ? a*b : a */,
  kEqual /* 1 or 0, as are the next two */,
  kLess,
  kLessOrEqual,
  kWhen /* b!=0 ? a : -0 */,
  kUnless /* b!=0 ? -0 : a */,
};
inline constexpr int kBinaryFunctionCount = static_cast<int>(BinaryFunction::kUnless) + 1;

std::string_view binary_function_name(BinaryFunction function);  // "add", ...
std::optional<BinaryFunction> binary_function_from_name(std::string_view name);

enum class ReduceFunction : std::uint8_t {
  kSum,
  kMean,
  kMaximum,
  kMinimum,
  kProduct,
  kSumAbsolute,
  kSumSquare,
  kRootSumSquare,
};
inline constexpr int kReduceFunctionCount = static_cast<int>(ReduceFunction::kRootSumSquare) + 1;
std::string_view reduce_function_name(ReduceFunction function);  // "sum", ...
std::optional<ReduceFunction> reduce_function_from_name(std::string_view name);

enum class PoolFunction : std::uint8_t { kMaximum, kMinimum, kAverage };
std::string_view pool_function_name(PoolFunction function);
std::optional<PoolFunction> pool_function_from_name(std::string_view name);

// An affine integer tensor: real = (q - zero_point) * scale, in binary32. For float tensors it is
// absent (scale 1, zero point 0, enabled false).
struct Affine {
  bool enabled = false;
  float scale = 1.0f;
  std::int32_t zero_point = 0;
  friend bool operator==(const Affine&, const Affine&) = default;
};

}  // namespace tessera

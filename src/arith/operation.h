// The element-wise functions the processor knows, by name. Their values are defined in
// arith/function.h; every one rounds once, to the format it is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "arith/format.h"
#include "arith/unary_functions.h"

namespace tessera {

// A unary function with its parameters.
struct Activation {
  UnaryFunction function = UnaryFunction::kIdentity;
  float alpha = 0.0f;
  float beta = 0.0f;
  friend bool operator==(const Activation&, const Activation&) = default;
};

// Local response normalisation across the channels of a pixel: y = x * (bias + alpha * m)^-beta, m
// the mean of the squares of `size` channels around, those that are not there counted as 0. Its
// roundings are in arith/kernels/local_response.h.
struct LocalResponse {
  std::int32_t size = 0;  // 0: none; at most kLocalResponseSizeMax
  float alpha = 0.0f, beta = 0.0f, bias = 0.0f;
  bool enabled() const { return size > 0; }
  // Channels [c - before(), c + behind()] are around channel c.
  std::int64_t before() const { return (size - 1) / 2; }
  std::int64_t behind() const { return size / 2; }
  friend bool operator==(const LocalResponse&, const LocalResponse&) = default;
};
inline constexpr std::int32_t kLocalResponseSizeMax = 1024;

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

enum class PoolFunction : std::uint8_t {
  kMaximum,
  kMinimum,
  kAverage,
  kMedian /* of an even number of elements the lower of the two in the middle */,
};
inline constexpr int kPoolFunctionCount = static_cast<int>(PoolFunction::kMedian) + 1;
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

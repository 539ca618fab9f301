#include "model/ops/binary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "arith/function.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

// The shape of input 1 as broadcasting sees it. Before opset 7 attribute 'broadcast' allows it and
// 'axis' says where input 1 begins in input 0; PRelu's slope was one value per channel.
Result<Shape> second_dims(const Call& call) {
  Shape dims = call.dims(1);
  if (call.opset() >= 7) return dims;
  const std::int64_t rank = call.rank(0);
  const bool slope = call.op_type() == "PRelu" && dims.size() == 1;
  if (!slope && call.attribute("broadcast", 0) == 0) {
    if (dims != call.dims(0)) {
      return invalid(fmt::format("shapes {} and {} differ, and attribute 'broadcast' is not set",
                                 shape_text(call.dims(0)), shape_text(dims)));
    }
    return dims;
  }
  if (!slope && !call.has_attribute("axis")) return dims;
  if (slope && (dims[0] == 1 || rank < 2)) return dims;
  TESSERA_TRY(const std::int64_t axis, normalise_axis(slope ? 1 : call.attribute("axis", 0), rank));
  if (axis + static_cast<std::int64_t>(dims.size()) > rank) {
    return invalid(fmt::format("input 1 of shape {} does not fit at axis {} of {}",
                               shape_text(dims), axis, shape_text(call.dims(0))));
  }
  dims.resize(static_cast<std::size_t>(rank - axis), 1);
  return dims;
}

Result<Shape> common_shape(const Call& call) {
  TESSERA_TRY(const Shape second, second_dims(call));
  return broadcast_shapes(call.dims(0), second);
}

// out[i] = f(a[i], b[i]) with broadcasting; A, B and R are working types.
template <typename A, typename B, typename R, typename F>
Status map2(const Call& call, Tensor& out, F&& f) {
  TESSERA_TRY(const Shape second, second_dims(call));
  const auto all = [&](const auto& a, const auto& b, const auto& writer) {
    walk<2>(out.dims,
            {broadcast_strides(call.dims(0), out.dims), broadcast_strides(second, out.dims)},
            [&](std::int64_t position, const auto& offsets) {
              writer.set(position, f(a[offsets[0]], b[offsets[1]]));
            });
  };
  if constexpr (std::is_same_v<A, B> && std::is_same_v<A, R>) {
    with_elements<A>(all, out, call.tensor(0), call.tensor(1));
  } else {
    all(Reader<A>(call.tensor(0)), Reader<B>(call.tensor(1)), Writer<R>(out));
  }
  return {};
}

// Whether an integer tensor holds a zero, by which nothing can be divided.
bool holds_zero(const Tensor& tensor) {
  const Reader<std::int64_t> values(tensor);
  const std::int64_t count = element_count(tensor.dims);
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] == 0) return true;
  }
  return false;
}

// C's division. The one quotient that does not fit, of the least number and -1, saturates in formats that the processor
// computes with (numbers.md); of 64 bits it wraps.
template <typename W>
W divide(W a, W b, Format format) {
  if constexpr (std::is_signed_v<W>) {
    if (b == -1) {
      const W quotient = static_cast<W>(0U - static_cast<std::uint64_t>(a));
      if (format_bytes(format) > 4) return quotient;
      return std::min<W>(quotient, arith::integer_range(format).highest);
    }
  }
  return a / b;
}

template <typename W>
W integer_arithmetic(BinaryFunction function, W a, W b, Format format) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  switch (function) {
    case BinaryFunction::kAdd:
      return static_cast<W>(x + y);
    case BinaryFunction::kSubtract:
      return static_cast<W>(x - y);
    case BinaryFunction::kMultiply:
      return static_cast<W>(x * y);
    case BinaryFunction::kDivide:
      return divide(a, b, format);
    case BinaryFunction::kMaximum:
      return std::max(a, b);
    case BinaryFunction::kMinimum:
      return std::min(a, b);
    case BinaryFunction::kPRelu:
      return a < W{0} ? static_cast<W>(x * y) : a;
    default:
      break;
  }
  TESSERA_CHECK(false, "no integer form of '{}'", binary_function_name(function));
  return a;
}

double float_arithmetic(BinaryFunction function, double a, double b, Format format) {
  return format == Format::kF64 ? arith::apply(function, a, b)
                                : arith::evaluate(function, a, b, format);
}

// The four operations are rounded once, by what writes the result.
Status float_arithmetic(const Call& call, BinaryFunction function, Tensor& out) {
  switch (function) {
    case BinaryFunction::kAdd:
      return map2<double, double, double>(call, out, [](double a, double b) { return a + b; });
    case BinaryFunction::kSubtract:
      return map2<double, double, double>(call, out, [](double a, double b) { return a - b; });
    case BinaryFunction::kMultiply:
      return map2<double, double, double>(call, out, [](double a, double b) { return a * b; });
    case BinaryFunction::kDivide:
      return map2<double, double, double>(call, out, [](double a, double b) { return a / b; });
    default:
      return map2<double, double, double>(call, out, [&](double a, double b) {
        return float_arithmetic(function, a, b, out.format);
      });
  }
}

BinaryFunction function_of(const std::string& op_type) {
  if (op_type == "Add") return BinaryFunction::kAdd;
  if (op_type == "Sub") return BinaryFunction::kSubtract;
  if (op_type == "Mul") return BinaryFunction::kMultiply;
  if (op_type == "Div") return BinaryFunction::kDivide;
  TESSERA_CHECK(op_type == "PRelu", "'{}'", op_type);
  return BinaryFunction::kPRelu;
}

}  // namespace

Result<Outputs> binary_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_TRY(Shape dims, common_shape(call));
  return one_output(call.format(0), std::move(dims));
}

Result<Outputs> comparison_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_TRY(Shape dims, common_shape(call));
  return one_output(Format::kBool, std::move(dims));
}

Result<Outputs> logical_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_format(0, Format::kBool));
  return comparison_shape(call);
}

Result<Outputs> power_shape(const Call& call) {
  TESSERA_TRY(Shape dims, common_shape(call));
  return one_output(call.format(0), std::move(dims));
}

Result<Outputs> integer_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_integer(0));
  return binary_shape(call);
}

Result<Outputs> bit_shift_shape(const Call& call) {
  if (!call.has_attribute("direction")) return invalid("attribute 'direction' is missing");
  return integer_shape(call);
}

Result<Outputs> modulo_shape(const Call& call) {
  if (format_is_float(call.format(0)) && call.attribute("fmod", 0) == 0) {
    return invalid("attribute 'fmod' is 0, floats need 1");
  }
  return binary_shape(call);
}

Result<Outputs> prelu_shape(const Call& call) {
  TESSERA_TRY(Outputs outputs, binary_shape(call));
  if (outputs[0].dims != call.dims(0)) {
    return invalid(fmt::format("a slope of shape {} does not fit into {}", shape_text(call.dims(1)),
                               shape_text(call.dims(0))));
  }
  return outputs;
}

Status arithmetic(const Call& call, std::vector<Tensor>& outputs) {
  const BinaryFunction function = function_of(call.op_type());
  const Format format = call.format(0);
  if (function == BinaryFunction::kDivide && !format_is_float(format) &&
      holds_zero(call.tensor(1))) {
    return invalid("an integer is divided by zero");
  }
  return with_working_type(format, [&]<typename W>() -> Status {
    if constexpr (std::is_floating_point_v<W>) {
      return float_arithmetic(call, function, outputs[0]);
    } else {
      return map2<W, W, W>(call, outputs[0],
                           [&](W a, W b) { return integer_arithmetic(function, a, b, format); });
    }
  });
}

namespace {

// base^exponent modulo 2^64.
std::uint64_t integer_power(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace

// Integers to a non-negative integer power wrap; all other powers of integers are truncated reals.
Status power(const Call& call, std::vector<Tensor>& outputs) {
  const Format format = call.format(0);
  if (format_is_float(format)) {
    return map2<double, double, double>(call, outputs[0], [&](double a, double b) {
      return float_arithmetic(BinaryFunction::kPower, a, b, format);
    });
  }
  if (format_is_float(call.format(1))) {
    return map2<double, double, double>(call, outputs[0], [](double a, double b) {
      return arith::apply(BinaryFunction::kPower, a, b);
    });
  }
  return map2<std::int64_t, std::int64_t, std::int64_t>(
      call, outputs[0], [](std::int64_t a, std::int64_t b) {
        if (b < 0) {
          const double real =
              arith::apply(BinaryFunction::kPower, static_cast<double>(a), static_cast<double>(b));
          return double_to_integer(real);
        }
        return static_cast<std::int64_t>(
            integer_power(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
      });
}

// fmod 0: the result has the divisor's sign; fmod 1: the dividend's.
Status modulo(const Call& call, std::vector<Tensor>& outputs) {
  const bool c_semantics = call.attribute("fmod", 0) != 0;
  const bool is_float = format_is_float(call.format(0));
  if (!is_float && holds_zero(call.tensor(1))) return invalid("an integer is divided by zero");
  return with_working_type(call.format(0), [&]<typename W>() {
    return map2<W, W, W>(call, outputs[0], [&](W a, W b) {
      if constexpr (std::is_floating_point_v<W>) {
        return std::fmod(a, b);
      } else {
        if (std::is_signed_v<W> && b == static_cast<W>(-1)) return W{0};
        const W rest = a % b;
        return !c_semantics && rest != W{0} && (rest < W{0}) != (b < W{0}) ? rest + b : rest;
      }
    });
  });
}

Status bit_operation(const Call& call, std::vector<Tensor>& outputs) {
  using Bits = std::uint64_t;
  const std::string& op = call.op_type();
  if (op == "BitwiseAnd") {
    return map2<Bits, Bits, Bits>(call, outputs[0], [](Bits a, Bits b) { return a & b; });
  }
  if (op == "BitwiseOr") {
    return map2<Bits, Bits, Bits>(call, outputs[0], [](Bits a, Bits b) { return a | b; });
  }
  if (op == "BitwiseXor") {
    return map2<Bits, Bits, Bits>(call, outputs[0], [](Bits a, Bits b) { return a ^ b; });
  }
  TESSERA_CHECK(op == "BitShift", "'{}'", op);
  const bool left = call.attribute_string("direction", "") == "LEFT";
  return map2<Bits, Bits, Bits>(call, outputs[0], [left](Bits a, Bits b) {
    if (b >= 64) return Bits{0};
    return left ? a << b : a >> b;
  });
}

Status comparison(const Call& call, std::vector<Tensor>& outputs) {
  const std::string& op = call.op_type();
  return with_working_type(call.format(0), [&]<typename W>() {
    return map2<W, W, std::int64_t>(call, outputs[0], [&](W a, W b) {
      bool holds = false;
      if (op == "Equal") holds = a == b;
      if (op == "Less") holds = a < b;
      if (op == "LessOrEqual") holds = a <= b;
      if (op == "Greater") holds = a > b;
      if (op == "GreaterOrEqual") holds = a >= b;
      return std::int64_t{holds ? 1 : 0};
    });
  });
}

Status logical(const Call& call, std::vector<Tensor>& outputs) {
  using Truth = std::int64_t;
  const std::string& op = call.op_type();
  return map2<Truth, Truth, Truth>(call, outputs[0], [&](Truth a, Truth b) {
    if (op == "And") return a & b;
    return op == "Or" ? a | b : a ^ b;
  });
}

Result<Outputs> variadic_shape(const Call& call) {
  Shape dims = call.dims(0);
  for (std::size_t i = 1; i < call.count(); ++i) {
    if (!call.has(i)) return invalid(fmt::format("input {} is missing", i));
    TESSERA_RETURN_IF_ERROR(call.require_same_format(0, i));
    TESSERA_TRY(dims, broadcast_shapes(dims, call.dims(i)));
  }
  return one_output(call.format(0), std::move(dims));
}

// Sums and means add in binary64 in the order of the inputs and round once.
Status variadic(const Call& call, std::vector<Tensor>& outputs) {
  const std::string& op = call.op_type();
  const Shape& dims = outputs[0].dims;
  with_working_type(call.format(0), [&]<typename W>() {
    const auto step = [&](W a, W b) {
      if constexpr (std::is_floating_point_v<W>) {
        if (op == "Max") return arith::maximum(a, b);
        return op == "Min" ? arith::minimum(a, b) : a + b;
      } else {
        if (op == "Max") return std::max(a, b);
        return op == "Min"
                   ? std::min(a, b)
                   : static_cast<W>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      }
    };
    std::vector<W> sums(static_cast<std::size_t>(element_count(dims)));
    for (std::size_t i = 0; i < call.count(); ++i) {
      const Reader<W> values(call.tensor(i));
      walk<1>(dims, {broadcast_strides(call.dims(i), dims)},
              [&](std::int64_t position, const auto& offsets) {
                W& sum = sums[static_cast<std::size_t>(position)];
                sum = i == 0 ? values[offsets[0]] : step(sum, values[offsets[0]]);
              });
    }
    const Writer<W> out(outputs[0]);
    const W divisor = op == "Mean" ? static_cast<W>(call.count()) : W{1};
    for (std::size_t i = 0; i < sums.size(); ++i) {
      out.set(static_cast<std::int64_t>(i), sums[i] / divisor);
    }
  });
  return {};
}

}  // namespace tessera::model::ops

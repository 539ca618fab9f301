#include "model/ops/unary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "arith/function.h"
#include "arith/narrow.h"
#include "arith/unary_functions.h"
#include "base/check.h"
#include "model/ops/elements.h"
#include "model/ops/generate.h"

namespace tessera::model::ops {

namespace {

// A parameter's value: what the row says, unless its attribute is there.
float parameter_of(const Call& call, const UnaryParameter& parameter) {
  const std::string attribute(parameter.attribute);
  const bool given = !attribute.empty() && call.has_attribute(attribute);
  return given ? std::get<float>(call.attribute_value(attribute)) : parameter.value;
}

// Applies f to every element, both sides as working type W.
template <typename W, typename F>
void map(const Tensor& in, Tensor& out, F&& f) {
  const std::int64_t count = element_count(out.dims);
  const auto all = [&](const auto& reader, const auto& writer) {
    for (std::int64_t i = 0; i < count; ++i) writer.set(i, f(reader[i]));
  };
  with_elements<W>(all, out, in);
}

template <typename W>
W integer_function(UnaryFunction function, W x) {
  const W zero{0};
  switch (function) {
    case UnaryFunction::kAbs:
      return x < zero ? static_cast<W>(zero - static_cast<std::uint64_t>(x)) : x;
    case UnaryFunction::kNegate:
      return static_cast<W>(0U - static_cast<std::uint64_t>(x));
    case UnaryFunction::kSign:
      return x > zero ? W{1} : (x < zero ? static_cast<W>(-1) : zero);
    case UnaryFunction::kRelu:
      return std::max(x, zero);
    default:
      break;
  }
  TESSERA_CHECK(false, "no integer form of '{}'", unary_function_name(function));
  return zero;
}

}  // namespace

Activation activation_of(const Call& call) {
  const UnaryRow* const row = find_unary_operator(call.op_type());
  TESSERA_CHECK(row != nullptr, "'{}' is no function", call.op_type());
  UnaryOperator onnx = row->onnx;
  if (row->function == UnaryFunction::kSelu && call.opset() < 6) {
    onnx.alpha.value = 1.6732F;
    onnx.beta.value = 1.0507F;
  }
  Activation activation{row->function, parameter_of(call, onnx.alpha),
                        parameter_of(call, onnx.beta)};
  if (row->function == UnaryFunction::kGelu &&
      call.attribute_string("approximate", "none") == "tanh") {
    activation.function = UnaryFunction::kGeluTanh;
  }
  return activation;
}

Result<Outputs> float_same_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  return one_output(call.format(0), call.dims(0));
}

Result<Outputs> float_to_bool_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  return one_output(Format::kBool, call.dims(0));
}

Result<Outputs> not_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_format(0, Format::kBool));
  return one_output(Format::kBool, call.dims(0));
}

Result<Outputs> integer_same_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_integer(0));
  return one_output(call.format(0), call.dims(0));
}

Status float_function(const Call& call, std::vector<Tensor>& outputs) {
  const Activation activation = activation_of(call);
  const Format format = call.format(0);
  map<double>(call.tensor(0), outputs[0], [&](double x) {
    return format == Format::kF64 ? arith::apply(activation, x)
                                  : arith::evaluate(activation, x, format);
  });
  return {};
}

Status numeric_function(const Call& call, std::vector<Tensor>& outputs) {
  if (format_is_float(call.format(0))) return float_function(call, outputs);
  const UnaryFunction function = activation_of(call).function;
  with_working_type(call.format(0), [&]<typename W>() {
    if constexpr (std::is_integral_v<W>) {
      map<W>(call.tensor(0), outputs[0], [&](W x) { return integer_function(function, x); });
    }
  });
  return {};
}

Result<Outputs> cast_shape(const Call& call) {
  if (!call.has_attribute("to")) return invalid("attribute 'to' is missing");
  const auto narrow = arith::narrow_of_data_type(call.attribute("to", 0));
  if (narrow) return one_output(arith::narrow_format(*narrow), call.dims(0));
  TESSERA_TRY(const Format format, format_of_data_type(call.attribute("to", 0)));
  return one_output(format, call.dims(0));
}

// To a type that is held in a wider format (arith/narrow.h).
void cast_narrow(const Call& call, arith::Narrow type, Tensor& output) {
  if (!arith::narrow_is_float(type)) {
    map<std::int64_t>(call.tensor(0), output,
                      [&](std::int64_t x) { return arith::narrow_wrapped(type, x); });
    return;
  }
  const bool saturate = call.attribute("saturate", 1) != 0;
  map<double>(call.tensor(0), output,
              [&](double x) { return arith::narrow_rounded(type, x, saturate); });
}

// The same bits under another format of the same width.
Result<Outputs> bit_cast_shape(const Call& call) {
  if (!call.has_attribute("to")) return invalid("attribute 'to' is missing");
  TESSERA_TRY(const Format format, format_of_data_type(call.attribute("to", 0)));
  if (format_bytes(format) != format_bytes(call.format(0)) || format == Format::kBool ||
      call.format(0) == Format::kBool) {
    return invalid(fmt::format("the bits of {} cannot be read as {}", format_name(call.format(0)),
                               format_name(format)));
  }
  return one_output(format, call.dims(0));
}

// x * sigmoid(alpha x); SwiGLU multiplies it by its second input.
Status swish(const Call& call, std::vector<Tensor>& outputs) {
  const double alpha = call.attribute_float("alpha", 1.0F);
  const Activation sigmoid{.function = UnaryFunction::kSigmoid};
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  const std::int64_t count = element_count(outputs[0].dims);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = in[i] * arith::apply(sigmoid, alpha * in[i]);
    out.set(i, call.has(1) ? value * Reader<double>(call.tensor(1))[i] : value);
  }
  return {};
}

Result<Outputs> gated_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  if (call.dims(0) != call.dims(1)) {
    return invalid(fmt::format("inputs of shapes {} and {}", shape_text(call.dims(0)),
                               shape_text(call.dims(1))));
  }
  return one_output(call.format(0), call.dims(0));
}

Result<Outputs> cast_like_shape(const Call& call) {
  return one_output(call.format(1), call.dims(0));
}

// Float to integer truncates; integer to integer keeps the low bits; to bool is "not zero".
Status cast(const Call& call, std::vector<Tensor>& outputs) {
  if (const auto narrow = arith::narrow_of_data_type(call.attribute("to", 0))) {
    cast_narrow(call, *narrow, outputs[0]);
    return {};
  }
  with_working_type(call.format(0), [&]<typename W>() {
    map<W>(call.tensor(0), outputs[0], [](W x) { return x; });
  });
  return {};
}

Result<Outputs> clip_shape(const Call& call) {
  for (std::size_t i = 1; i < 3; ++i) {
    TESSERA_RETURN_IF_ERROR(call.require_same_format(0, i));
    TESSERA_RETURN_IF_ERROR(call.require_one_element(i, i == 1 ? "min" : "max"));
  }
  return one_output(call.format(0), call.dims(0));
}

// minimum(maximum(x, low), high). The bounds are attributes before opset 11.
Status clip(const Call& call, std::vector<Tensor>& outputs) {
  with_working_type(call.format(0), [&]<typename W>() {
    W low = std::numeric_limits<W>::lowest();
    W high = std::numeric_limits<W>::max();
    if constexpr (std::is_floating_point_v<W>) {
      low = -std::numeric_limits<W>::infinity();
      high = std::numeric_limits<W>::infinity();
      if (call.opset() < 11) {
        if (call.has_attribute("min")) low = call.attribute_float("min", 0.0F);
        if (call.has_attribute("max")) high = call.attribute_float("max", 0.0F);
      }
    }
    if (call.has(1)) low = Reader<W>(call.tensor(1))[0];
    if (call.has(2)) high = Reader<W>(call.tensor(2))[0];
    map<W>(call.tensor(0), outputs[0], [&](W x) {
      if constexpr (std::is_floating_point_v<W>) {
        return arith::minimum(arith::maximum(x, low), high);
      } else {
        return std::min(std::max(x, low), high);
      }
    });
  });
  return {};
}

Status shrink(const Call& call, std::vector<Tensor>& outputs) {
  const double lambd = call.attribute_float("lambd", 0.5F);
  const double bias = call.attribute_float("bias", 0.0F);
  map<double>(call.tensor(0), outputs[0], [&](double x) {
    if (x < -lambd) return x + bias;
    return x > lambd ? x - bias : 0.0;
  });
  return {};
}

Status is_nan(const Call& call, std::vector<Tensor>& outputs) {
  map<double>(call.tensor(0), outputs[0], [](double x) { return std::isnan(x) ? 1.0 : 0.0; });
  return {};
}

Status is_inf(const Call& call, std::vector<Tensor>& outputs) {
  const bool negative = call.attribute("detect_negative", 1) != 0;
  const bool positive = call.attribute("detect_positive", 1) != 0;
  map<double>(call.tensor(0), outputs[0],
              [&](double x) { return std::isinf(x) && (x > 0 ? positive : negative) ? 1.0 : 0.0; });
  return {};
}

Status logical_not(const Call& call, std::vector<Tensor>& outputs) {
  map<std::int64_t>(call.tensor(0), outputs[0],
                    [](std::int64_t x) { return std::int64_t{x == 0 ? 1 : 0}; });
  return {};
}

Status bitwise_not(const Call& call, std::vector<Tensor>& outputs) {
  map<std::uint64_t>(call.tensor(0), outputs[0], [](std::uint64_t x) { return ~x; });
  return {};
}

}  // namespace tessera::model::ops

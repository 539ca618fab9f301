#include "model/ops/quantise.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/narrow.h"
#include "arith/rounding.h"
#include "model/ops/elements.h"
#include "model/ops/generate.h"

namespace tessera::model::ops {

namespace {

// Where in the scale tensor the scale of each element is found: one for all, one for each position
// along an axis, or (opset 21) one for each block of positions along an axis.
struct ScaleMap {
  AxisView view;
  std::int64_t block = 0;   // 0: no blocks
  std::int64_t scales = 1;  // along the axis
  bool single = true;

  std::int64_t at(std::int64_t outer, std::int64_t position, std::int64_t inner) const {
    if (single) return 0;
    if (block == 0) return position;
    return (outer * scales + position / block) * view.inner + inner;
  }
};

// f(element, position of its scale) for every element in order.
template <typename F>
void for_each_scaled(const ScaleMap& map, F&& f) {
  std::int64_t element = 0;
  for (std::int64_t outer = 0; outer < map.view.outer; ++outer) {
    for (std::int64_t position = 0; position < map.view.length; ++position) {
      for (std::int64_t inner = 0; inner < map.view.inner; ++inner) {
        f(element++, static_cast<std::size_t>(map.at(outer, position, inner)));
      }
    }
  }
}

Result<ScaleMap> map_scales(const Call& call) {
  const Shape& x = call.dims(0);
  const Shape& scale = call.dims(1);
  ScaleMap map;
  const bool one_each = element_count(scale) == 1;
  const bool zero_fits =
      !call.has(2) || call.dims(2) == scale || (one_each && element_count(call.dims(2)) == 1);
  if (!zero_fits) {
    return invalid(fmt::format("scale of shape {} and zero point of shape {}", shape_text(scale),
                               shape_text(call.dims(2))));
  }
  map.block = call.attribute("block_size", 0);
  if (map.block < 0) {
    return invalid(fmt::format("attribute 'block_size' is {}, 0 or more is allowed", map.block));
  }
  map.single = map.block == 0 && one_each;
  map.view = {1, element_count(x), 1};
  if (map.single) return map;
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 1), call.rank(0)));
  const auto a = static_cast<std::size_t>(axis);
  map.view = view_axis(x, axis);
  Shape needed = map.block == 0 ? Shape{x[a]} : x;
  if (map.block > 0) {
    map.scales = x[a] / map.block + (x[a] % map.block == 0 ? 0 : 1);
    needed[a] = map.scales;
  }
  if (scale != needed) {
    return invalid(
        fmt::format("input 1 has shape {}, {} is needed", shape_text(scale), shape_text(needed)));
  }
  return map;
}

bool is_quantised(Format format) {
  switch (format) {
    case Format::kI8:
    case Format::kU8:
    case Format::kI16:
    case Format::kU16:
      return true;
    default:
      return false;
  }
}

}  // namespace

// The output's format is the zero point's, or attribute output_dtype, or u8.
Result<Outputs> quantize_linear_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(map_scales(call));
  Format format = Format::kU8;
  if (const auto narrow = arith::narrow_of_data_type(call.attribute("output_dtype", 0))) {
    return one_output(arith::narrow_format(*narrow), call.dims(0));
  }
  if (call.attribute("output_dtype", 0) != 0) {
    TESSERA_TRY(format, format_of_data_type(call.attribute("output_dtype", 0)));
  }
  if (call.has(2)) format = call.format(2);
  if (!is_quantised(format)) {
    return invalid(
        fmt::format("the output has format {}, allowed: i8, u8, i16, u16", format_name(format)));
  }
  return one_output(format, call.dims(0));
}

// To float8 and float4: the quotient, rounded to the type. Their zero points are 0.
Status quantize_to_float(const Call& call, arith::Narrow type, Tensor& output) {
  TESSERA_TRY(const ScaleMap map, map_scales(call));
  const std::vector<double> scales = load<double>(call.tensor(1));
  const bool saturate = call.attribute("saturate", 1) != 0;
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(output);
  for_each_scaled(map, [&](std::int64_t i, std::size_t at) {
    const double quotient = static_cast<double>(arith::f32_from_f64(in[i] / scales[at]));
    out.set(i, arith::narrow_rounded(type, quotient, saturate));
  });
  return {};
}

Status quantize_linear(const Call& call, std::vector<Tensor>& outputs) {
  const auto narrow = arith::narrow_of_data_type(call.attribute("output_dtype", 0));
  if (narrow && arith::narrow_is_float(*narrow)) {
    return quantize_to_float(call, *narrow, outputs[0]);
  }
  TESSERA_TRY(const ScaleMap map, map_scales(call));
  const std::vector<double> scales = load<double>(call.tensor(1));
  std::vector<std::int64_t> zeros(scales.size(), 0);
  if (call.has(2)) zeros = load<std::int64_t>(call.tensor(2));
  const Reader<double> in(call.tensor(0));
  const Writer<std::int64_t> out(outputs[0]);
  for_each_scaled(map, [&](std::int64_t i, std::size_t at) {
    const std::int64_t q =
        arith::quantize_linear(arith::f32_from_f64(in[i]), arith::f32_from_f64(scales[at]),
                               static_cast<std::int32_t>(zeros[at]), outputs[0].format);
    out.set(i, narrow ? arith::narrow_clamped(*narrow, q) : q);
  });
  return {};
}

Result<Outputs> dequantize_linear_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(1));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 2));
  TESSERA_RETURN_IF_ERROR(map_scales(call));
  // float8 and float4 are held in f32.
  if (!is_quantised(call.format(0)) && call.format(0) != Format::kI32 &&
      call.format(0) != Format::kF32) {
    return invalid(fmt::format("input 0 has format {}, allowed: i8, u8, i16, u16, i32",
                               format_name(call.format(0))));
  }
  Format format = call.format(1);
  if (call.attribute("output_dtype", 0) != 0) {
    TESSERA_TRY(format, format_of_data_type(call.attribute("output_dtype", 0)));
    if (!format_is_float(format)) {
      return invalid(
          fmt::format("the output has format {}, a float is needed", format_name(format)));
    }
  }
  return one_output(format, call.dims(0));
}

Status dequantize_linear(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const ScaleMap map, map_scales(call));
  const std::vector<double> scales = load<double>(call.tensor(1));
  if (call.format(0) == Format::kF32) {
    const Reader<double> floats(call.tensor(0));
    const Writer<double> products(outputs[0]);
    for_each_scaled(map, [&](std::int64_t i, std::size_t at) {
      products.set(i, static_cast<double>(arith::f32_from_f64(floats[i] * scales[at])));
    });
    return {};
  }
  std::vector<std::int64_t> zeros(scales.size(), 0);
  if (call.has(2)) zeros = load<std::int64_t>(call.tensor(2));
  const Reader<std::int64_t> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  for_each_scaled(map, [&](std::int64_t i, std::size_t at) {
    const float real =
        arith::dequantize_linear(static_cast<std::int32_t>(in[i]), arith::f32_from_f64(scales[at]),
                                 static_cast<std::int32_t>(zeros[at]));
    out.set(i, static_cast<double>(real));
  });
  return {};
}

Result<Outputs> dynamic_quantize_linear_shape(const Call& call) {
  if (call.format(0) != Format::kF32) return invalid("input 0 is not f32");
  return Outputs{{Format::kU8, call.dims(0), nullptr},
                 {Format::kF32, {}, nullptr},
                 {Format::kU8, {}, nullptr}};
}

// scale = (max - min) / 255 over the data and 0, or 1 where that is 0; zero point = round(-min /
// scale).
Status dynamic_quantize_linear(const Call& call, std::vector<Tensor>& outputs) {
  const std::vector<double> in = load<double>(call.tensor(0));
  double low = 0.0;
  double high = 0.0;
  for (const double x : in) {
    low = arith::minimum(low, x);
    high = arith::maximum(high, x);
  }
  const double range = static_cast<double>(arith::f32_from_f64(high - low));
  float scale = arith::f32_from_f64(range / 255.0);
  if (scale == 0.0F) scale = 1.0F;
  const std::int32_t zero =
      arith::quantize_linear(arith::f32_from_f64(0.0 - low), scale, 0, Format::kU8);
  const Writer<std::int64_t> out(outputs[0]);
  for (std::size_t i = 0; i < in.size(); ++i) {
    out.set(static_cast<std::int64_t>(i),
            arith::quantize_linear(arith::f32_from_f64(in[i]), scale, zero, Format::kU8));
  }
  outputs[1].as<float>()[0] = scale;
  outputs[2].as<std::uint8_t>()[0] = static_cast<std::uint8_t>(zero);
  return {};
}

}  // namespace tessera::model::ops

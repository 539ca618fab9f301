// Operators that ai.onnx had before it was stable, which converters of Core ML, CNTK and Caffe2 wrote.
#include <fmt/format.h>

#include "model/contrib/operators.h"

namespace tessera::model::contrib {
namespace {

std::string times(Body& body, const std::string& x, float factor) {
  return body.node("Mul", {x, body.number(factor, x)});
}

// x * scale, and an offset for each channel.
Refusal write_image_scaler(Body& body) {
  onnx::TensorProto offsets;
  offsets.set_data_type(onnx::TensorProto::FLOAT);
  for (const float value : body.reals("bias")) offsets.add_float_data(value);
  offsets.add_dims(offsets.float_data_size());
  offsets.add_dims(1);
  offsets.add_dims(1);
  std::string y = times(body, body.in(0), body.real("scale", 1));
  if (offsets.float_data_size() > 0) y = body.node("Add", {y, body.constant(offsets)});
  body.output(0, y);
  return {};
}
Refusal write_affine(Body& body) {
  const std::string y = times(body, body.in(0), body.real("alpha", 1));
  body.output(0, body.node("Add", {y, body.number(body.real("beta", 0), y)}));
  return {};
}
Refusal write_scale(Body& body) {
  body.output(0, times(body, body.in(0), body.real("scale", 1)));
  return {};
}
Refusal write_scaled_tanh(Body& body) {
  const std::string inner = times(body, body.in(0), body.real("beta", 1));
  body.output(0, times(body, body.node("Tanh", {inner}), body.real("alpha", 1)));
  return {};
}
// alpha * log(1 + exp(beta x)).
Refusal write_parametric_softplus(Body& body) {
  const std::string inner = times(body, body.in(0), body.real("beta", 1));
  body.output(0, times(body, body.node("Softplus", {inner}), body.real("alpha", 1)));
  return {};
}

// The border is left, top, right, bottom; with `scale`, height and width, what is behind left and top.
Refusal write_crop(Body& body) {
  const std::vector<std::int64_t> border = body.integers("border"), size = body.integers("scale");
  if (border.size() != 4 || (!size.empty() && size.size() != 2)) {
    return "the attributes border, scale";
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  for (const auto& values : {border, size}) {
    for (const std::int64_t value : values) {
      if (value < 0 || value > kMost) return fmt::format("a border or size of {}", value);
    }
  }
  std::vector<std::int64_t> ends;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t first = border[1 - i], behind = border[3 - i];
    ends.push_back(!size.empty() ? first + size[i] : behind == 0 ? INT64_MAX : -behind);
  }
  constexpr std::int64_t kSincePlacesAreInputs = 10;
  const std::vector<std::int64_t> starts = {border[1], border[0]}, axes = {2, 3};
  if (body.opset() < kSincePlacesAreInputs) {
    body.output(
        0, body.node("Slice", {body.in(0)}, {{"starts", starts}, {"ends", ends}, {"axes", axes}}));
    return {};
  }
  body.output(
      0, body.node("Slice", {body.in(0), body.list(starts), body.list(ends), body.list(axes)}));
  return {};
}

}  // namespace

Operators removed_operators() {
  return {{"Affine", {write_affine, {0}}},
          {"Crop", {write_crop, {0}}},
          {"ImageScaler", {write_image_scaler, {0}}},
          {"ParametricSoftplus", {write_parametric_softplus, {0}}},
          {"Scale", {write_scale, {0}}},
          {"ScaledTanh", {write_scaled_tanh, {0}}}};
}

}  // namespace tessera::model::contrib

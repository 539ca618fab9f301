// What layout optimisers of ONNX Runtime write for images whose channels come last, and normalisation of groups.
#include <fmt/format.h>

#include "model/contrib/operators.h"

namespace tessera::model::contrib {

std::string channels_first(Body& body, const std::string& x) {
  return body.transposed(x, {0, 3, 1, 2});
}
std::string channels_last(Body& body, const std::string& x) {
  return body.transposed(x, {0, 2, 3, 1});
}

namespace {

// Kernels stay [M, C, kH, kW].
Refusal write_quantised_conv(Body& body) {
  const bool last = body.integer("channels_last", 0) != 0;
  std::vector<std::string> operands;
  for (int i = 0; i < body.inputs(); ++i) operands.push_back(body.in(i));
  if (last) operands[0] = channels_first(body, operands[0]);
  const std::string y =
      body.node_like_call("QLinearConv", operands,
                          {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  body.output(0, last ? channels_last(body, y) : y);
  return {};
}

// Kernels are [M, kH, kW, C].
Refusal write_conv_channels_last(Body& body) {
  const std::string y = body.node_like_call(
      "Conv", {channels_first(body, body.in(0)), channels_first(body, body.in(1)), body.in(2)},
      {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  body.output(0, channels_last(body, y));
  return {};
}

Refusal write_max_pool_channels_last(Body& body) {
  const std::string y = body.node_like_call(
      "MaxPool", {channels_first(body, body.in(0))},
      {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"});
  body.output(0, channels_last(body, y));
  return {};
}

// Each group of channels less its mean, over its deviation; then a factor and an offset a channel.
std::string groups_normalised(Body& body, const std::string& x, const std::string& scale,
                              const std::string& shift) {
  const std::int64_t groups = body.integer("groups", 1);
  onnx::TensorProto ones, zeros;
  for (onnx::TensorProto* const tensor : {&ones, &zeros}) {
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_dims(groups);
    for (std::int64_t i = 0; i < groups; ++i) tensor->add_float_data(tensor == &ones ? 1 : 0);
  }
  const std::string apart = body.cast(body.reshaped(x, {0, groups, -1}), kFloat);
  const std::string normal =
      body.node("InstanceNormalization", {apart, body.constant(ones), body.constant(zeros)},
                {{"epsilon", body.real("epsilon", 1e-5f)}});
  const std::string back = body.node("Reshape", {normal, body.node("Shape", {x})});
  const auto of_channels = [&](const std::string& values) {
    return body.cast(body.reshaped(values, {-1, 1, 1}), kFloat);
  };
  const std::string scaled = body.node("Mul", {back, of_channels(scale)});
  std::string y = body.node("Add", {scaled, of_channels(shift)});
  if (body.integer("activation", 0) != 0) y = body.node("Mul", {y, body.node("Sigmoid", {y})});
  constexpr std::int64_t kSinceCastLike = 15;
  return body.opset() >= kSinceCastLike ? body.node("CastLike", {y, x}) : y;
}

Refusal write_groups(Body& body, const std::string& x) {
  constexpr std::int64_t kGroupsMax = 1 << 16;
  const std::int64_t groups = body.integer("groups", 0), activation = body.integer("activation", 0);
  if (groups < 1 || groups > kGroupsMax) return fmt::format("the attribute groups = {}", groups);
  if (activation != 0 && activation != 1)
    return fmt::format("the attribute activation = {}", activation);
  const bool last = body.integer("channels_last", 1) != 0;
  const std::string image = last ? channels_first(body, x) : x;
  const std::string y = groups_normalised(body, image, body.in(1), body.in(2));
  body.output(0, last ? channels_last(body, y) : y);
  return {};
}
Refusal write_group_norm(Body& body) { return write_groups(body, body.in(0)); }

// x, gamma, beta, skip, bias; output 1 is x + skip + bias. A skip may be a pixel for all of an image.
Refusal write_skip_group_norm(Body& body) {
  std::string sum = body.node("Add", {body.in(0), body.in(3)});
  if (body.has(4)) sum = body.node("Add", {sum, body.in(4)});
  if (body.wants(1)) body.output(1, sum);
  return write_groups(body, sum);
}

// left * gelu(right) of x + bias.
Refusal write_bias_split_gelu(Body& body) {
  const std::vector<std::string> half = body.halves(body.node("Add", {body.in(0), body.in(1)}));
  const std::string erf =
      body.node("Erf", {body.node("Mul", {half[1], body.number(0.70710678f, half[1])})});
  const std::string gate = body.node("Mul", {half[1], body.number(0.5f, half[1])});
  const std::string gelu =
      body.node("Mul", {gate, body.node("Add", {erf, body.number(1, half[1])})});
  body.output(0, body.node("Mul", {half[0], gelu}));
  return {};
}

Refusal write_bias_add(Body& body) {
  body.output(0, body.node("Add", {body.node("Add", {body.in(0), body.in(1)}), body.in(2)}));
  return {};
}

// An axis of extent 1 at a place that an input says.
Refusal write_expand_dims(Body& body) {
  constexpr std::int64_t kSinceAxesAreAnInput = 13;
  if (body.opset() < kSinceAxesAreAnInput)
    return fmt::format("opset {} of the standard; convert the model with 13 or more", body.opset());
  const std::string axis = body.reshaped(body.cast(body.in(1), onnx::TensorProto::INT64), {-1});
  body.output(0, body.node("Unsqueeze", {body.in(0), axis}));
  return {};
}

// Operators that the standard has taken over since, with its attributes of the same names.
Refusal write_pad(Body& body) {
  const std::string pads = body.reshaped(body.in(1), {-1});
  body.output(0, body.node_like_call("Pad", {body.in(0), pads, body.in(2)}, {"mode"}));
  return {};
}
Refusal write_range(Body& body) {
  const std::string step = body.has(2) ? body.in(2) : body.number(1, body.in(0));
  body.output(0, body.node("Range", {body.in(0), body.in(1), step}));
  return {};
}
Refusal write_gather_nd(Body& body) {
  body.output(0, body.node("GatherND", {body.in(0), body.in(1)}));
  return {};
}
Refusal write_grid_sample(Body& body) {
  constexpr std::int64_t kSinceGridSample = 16, kSinceItsModesAreThoseOfResize = 20;
  if (body.opset() < kSinceGridSample)
    return fmt::format("opset {} of the standard; convert the model with 16 or more", body.opset());
  std::string mode = body.text("mode", "bilinear");
  if (body.opset() >= kSinceItsModesAreThoseOfResize) {
    if (mode == "bilinear") mode = "linear";
    if (mode == "bicubic") mode = "cubic";
  }
  body.output(0, body.node("GridSample", {body.in(0), body.in(1)},
                           {{"mode", mode},
                            {"padding_mode", body.text("padding_mode", "zeros")},
                            {"align_corners", body.integer("align_corners", 0)}}));
  return {};
}
// Values, where each is in them, how often each occurs: in the order of their first occurrence.
Refusal write_unique(Body& body) {
  const std::vector<std::string> found =
      body.nodes("Unique", {body.in(0)}, 4, {{"sorted", std::int64_t{0}}});
  constexpr std::size_t kOf[] = {0, 2, 3};
  for (int i = 0; i < 3; ++i) {
    if (body.wants(i)) body.output(i, found[kOf[i]]);
  }
  return {};
}

}  // namespace

Operators layout_operators() {
  return {{"QLinearConv", {write_quantised_conv, {0, 1, 2, 3, 4, 5, 6, 7}}},
          {"NhwcConv", {write_conv_channels_last, {0, 1}}},
          {"NhwcMaxPool", {write_max_pool_channels_last, {0}}},
          {"GroupNorm", {write_group_norm, {0, 1, 2}}},
          {"SkipGroupNorm", {write_skip_group_norm, {0, 1, 2, 3}}},
          {"BiasSplitGelu", {write_bias_split_gelu, {0, 1}}},
          {"BiasAdd", {write_bias_add, {0, 1, 2}}},
          {"ExpandDims", {write_expand_dims, {0, 1}}},
          {"Pad", {write_pad, {0, 1}}},
          {"Range", {write_range, {0, 1}}},
          {"GatherND", {write_gather_nd, {0, 1}}},
          {"GridSample", {write_grid_sample, {0, 1}}},
          {"CropAndResize", {write_crop_and_resize, {0, 1, 2, 3}}},
          {"Unique", {write_unique, {0}}}};
}

}  // namespace tessera::model::contrib

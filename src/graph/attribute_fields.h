// The fields of every kind of node, by the names they have in dumps. dump.cc and parse.cc both walk
// these lists, so what is written is what is read.
//
//   visit(name, field, default_field)
#pragma once

#include "graph/graph.h"

namespace tessera::graph {

template <typename Visit>
void visit_fields(Visit& visit, auto& a, const MatrixFormat& d)
  requires std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(a)>>, MatrixFormat>
{
  visit("matrix", a.kind, d.kind);
  visit("native_dimension", a.native_dimension, d.native_dimension);
  visit("mantissa_moving", a.mantissa_bits_moving, d.mantissa_bits_moving);
  visit("mantissa_stationary", a.mantissa_bits_stationary, d.mantissa_bits_stationary);
  visit("long", a.long_format, d.long_format);
  visit("element_moving", a.element_moving, d.element_moving);
  visit("element_stationary", a.element_stationary, d.element_stationary);
  visit("micro_scale", a.micro_scale, d.micro_scale);
}

template <typename Visit, typename Attributes>
void visit_product(Visit& visit, Attributes& a, const std::remove_const_t<Attributes>& d) {
  visit_fields(visit, a.matrix, d.matrix);
  visit("moving_zero_point", a.integer.moving_zero_point, d.integer.moving_zero_point);
  visit("stationary_zero_points", a.integer.stationary_zero_points,
        d.integer.stationary_zero_points);
  visit("activation", a.post.activation, d.post.activation);
  visit("response_size", a.post.local_response.size, d.post.local_response.size);
  visit("response_alpha", a.post.local_response.alpha, d.post.local_response.alpha);
  visit("response_beta", a.post.local_response.beta, d.post.local_response.beta);
  visit("response_bias", a.post.local_response.bias, d.post.local_response.bias);
  visit("requantise", a.post.requantise, d.post.requantise);
  visit("multipliers", a.post.multipliers, d.post.multipliers);
  visit("output_zero_point", a.post.output_zero_point, d.post.output_zero_point);
  visit("clamp_low", a.post.clamp_low, d.post.clamp_low);
  visit("clamp_high", a.post.clamp_high, d.post.clamp_high);
}

template <typename Visit, typename Attributes>
void visit_window(Visit& visit, Attributes& a, const std::remove_const_t<Attributes>& d) {
  visit("stride_h", a.stride_h, d.stride_h);
  visit("stride_w", a.stride_w, d.stride_w);
  visit("pad_top", a.pad_top, d.pad_top);
  visit("pad_left", a.pad_left, d.pad_left);
  visit("pad_bottom", a.pad_bottom, d.pad_bottom);
  visit("pad_right", a.pad_right, d.pad_right);
  visit("dilation_h", a.dilation_h, d.dilation_h);
  visit("dilation_w", a.dilation_w, d.dilation_w);
}

// All fields of one node's attributes, with the defaults of its kind. `a` is const for writing.
template <typename Visit, typename Attributes>
void visit_attributes(Visit& visit, Attributes& a) {
  using Kind = std::remove_const_t<Attributes>;
  const Kind d{};
  if constexpr (std::is_same_v<Kind, ConvAttributes>) {
    visit_window(visit, a, d);
    visit("input_dilation_h", a.input_dilation_h, d.input_dilation_h);
    visit("input_dilation_w", a.input_dilation_w, d.input_dilation_w);
    visit("groups", a.groups, d.groups);
    visit("channel_wise", a.channel_wise, d.channel_wise);
    visit("cut", a.cut, d.cut);
    visit_product(visit, a, d);
  } else if constexpr (std::is_same_v<Kind, MatMulAttributes>) {
    visit_product(visit, a, d);
  } else if constexpr (std::is_same_v<Kind, PoolAttributes>) {
    visit("function", a.function, d.function);
    visit("window_h", a.window_h, d.window_h);
    visit("window_w", a.window_w, d.window_w);
    visit_window(visit, a, d);
    visit("include_padding", a.include_padding, d.include_padding);
    visit("input", a.input, d.input);
    visit("output", a.output, d.output);
    visit("before", a.before, d.before);
    visit("after", a.after, d.after);
  } else if constexpr (std::is_same_v<Kind, ElementwiseAttributes>) {
    visit("binary", a.binary, d.binary);
    visit("function", a.function, d.function);
    visit("activation", a.activation, d.activation);
    visit("input0", a.inputs[0], d.inputs[0]);
    visit("input1", a.inputs[1], d.inputs[1]);
    visit("output", a.output, d.output);
    visit("gain_bias", a.gain_bias, d.gain_bias);
    visit("gain_format", a.gain_format, d.gain_format);
  } else if constexpr (std::is_same_v<Kind, ReduceAttributes>) {
    visit("function", a.function, d.function);
    visit("axes", a.axes, d.axes);
    visit("keep_dims", a.keep_dims, d.keep_dims);
    visit("activation", a.activation, d.activation);
    visit("input", a.input, d.input);
    visit("output", a.output, d.output);
    visit("before", a.before, d.before);
  } else if constexpr (std::is_same_v<Kind, MoveAttributes>) {
    visit("has_fill", a.has_fill, d.has_fill);
    visit("fill", a.fill, d.fill);
    visit("copies", a.copies, d.copies);
  } else {
    static_assert(std::is_same_v<Kind, HostStepAttributes>);
    visit("operator", a.node.op_type, d.node.op_type);
    visit("domain", a.node.domain, d.node.domain);
    visit("onnx_name", a.node.name, d.node.name);
    visit("onnx_inputs", a.node.inputs, d.node.inputs);
    visit("onnx_outputs", a.node.outputs, d.node.outputs);
    visit("onnx_attributes", a.node.attributes, d.node.attributes);
    visit("opset", a.opset, d.opset);
    visit("reason", a.reason, d.reason);
  }
}

}  // namespace tessera::graph

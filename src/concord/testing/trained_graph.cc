#include "concord/testing/trained_graph.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "arith/rounding.h"
#include "concord/testing/random_graph.h"

namespace tessera::concord::testing {
namespace {

using graph::Graph;
using graph::TensorId;

// Layers behind each other.
class Chain {
 public:
  Chain(Format format, const Shape& dims, std::uint32_t seed) : random_(seed) {
    last_ = add("x", format, dims, nullptr);
    graph_.inputs = {last_};
  }

  void layer(const std::string& name, const Shape& weights, Format stationary, Format output,
             const Shape& dims, graph::NodeAttributes attributes) {
    const std::int64_t channels =
        std::holds_alternative<graph::ConvAttributes>(attributes) ? weights[0] : weights.back();
    const bool integers = format_is_integer(stationary);
    const TensorId w = constant(name + ".w", stationary, weights);
    const TensorId b = constant(name + ".b", integers ? Format::kI32 : stationary, {channels});
    const TensorId y = add(name + ".y", output, dims, nullptr);
    graph_.nodes.push_back({name, {}, {last_, w, b}, {y}, std::move(attributes)});
    last_ = y;
  }

  void dequantise(float scale) {
    graph::ElementwiseAttributes work;
    work.inputs[0] = {.enabled = true, .scale = scale, .zero_point = 0};
    const TensorId y = add("y", Format::kF32, graph_.tensor(last_).dims, nullptr);
    graph_.nodes.push_back({"dequantise", {}, {last_}, {y}, work});
    last_ = y;
  }

  Graph finish() {
    graph_.outputs = {last_};
    return std::move(graph_);
  }

 private:
  TensorId add(const std::string& name, Format format, const Shape& dims,
               std::shared_ptr<const Tensor> constant) {
    graph_.tensors.push_back({name, format, dims, std::move(constant)});
    return {static_cast<std::int32_t>(graph_.tensors.size()) - 1};
  }

  TensorId constant(const std::string& name, Format format, const Shape& dims) {
    if (format_is_integer(format)) {
      return add(
          name, format, dims,
          std::make_shared<const Tensor>(random_tensor(format, dims, Values::kOrdinary, random_)));
    }
    Tensor tensor = Tensor::zeros(format, dims);
    for (std::int64_t i = 0; i < element_count(dims); ++i) {
      arith::write_element(format, static_cast<double>(random_()) * 0x1p-32 - 0.5,
                           tensor.bytes.data() + i * format_bytes(format));
    }
    return add(name, format, dims, std::make_shared<const Tensor>(std::move(tensor)));
  }

  Graph graph_;
  TensorId last_;
  std::mt19937 random_;
};

graph::PostProcess requantised(std::int64_t channels, float multiplier, std::int32_t zero_point) {
  graph::PostProcess post;
  post.requantise = true;
  for (std::int64_t c = 0; c < channels; ++c) {
    post.multipliers.push_back(multiplier * (1 + 0.25f * static_cast<float>(c % 3)));
  }
  post.output_zero_point = zero_point;
  return post;
}

graph::ConvAttributes padded(std::int64_t groups) {
  graph::ConvAttributes conv;
  conv.groups = groups;
  conv.pad_top = conv.pad_bottom = conv.pad_left = conv.pad_right = 1;
  return conv;
}

}  // namespace

Graph float_layers(Format format, std::uint32_t seed) {
  Chain chain(format, {2, 4, 5, 6}, seed);
  graph::ConvAttributes wide = padded(4);
  wide.channel_wise = true;
  chain.layer("wide", {8, 1, 3, 3}, format, format, {2, 8, 5, 6}, wide);
  graph::ConvAttributes plain;
  plain.groups = 2;
  plain.matrix.kind = MatrixKind::kFloat;
  chain.layer("plain", {4, 4, 2, 2}, format, format, {2, 4, 4, 5}, plain);
  graph::MatMulAttributes matrix;
  matrix.matrix.kind = MatrixKind::kFloat;
  chain.layer("matrix", {5, 3}, format, format, {2, 4, 4, 3}, matrix);
  return chain.finish();
}

Graph integer_layers(std::uint32_t seed) {
  Chain chain(Format::kU8, {2, 4, 5, 6}, seed);
  graph::ConvAttributes conv = padded(1);
  conv.matrix.kind = MatrixKind::kInteger;
  conv.integer = {120, {0}};
  conv.post = requantised(8, 0.001f, -3);
  chain.layer("conv", {8, 4, 3, 3}, Format::kI8, Format::kI8, {2, 8, 5, 6}, conv);
  graph::ConvAttributes wide = padded(8);
  wide.matrix.kind = MatrixKind::kInteger;
  wide.channel_wise = true;
  wide.integer = {-3, {128, 120, 131, 128, 0, 255, 128, 128}};
  wide.post = requantised(8, 0.004f, 10);
  chain.layer("wide", {8, 1, 3, 3}, Format::kU8, Format::kU8, {2, 8, 5, 6}, wide);
  graph::ConvAttributes grouped = padded(2);
  grouped.matrix.kind = MatrixKind::kInteger;
  grouped.integer = {10, {0}};
  grouped.post = requantised(1, 0.002f, 0);
  chain.layer("grouped", {4, 4, 3, 3}, Format::kI8, Format::kI8, {2, 4, 5, 6}, grouped);
  graph::MatMulAttributes matrix;
  matrix.matrix.kind = MatrixKind::kInteger;
  matrix.integer = {0, {3}};
  matrix.post = requantised(5, 0.003f, 1);
  chain.layer("matrix", {6, 5}, Format::kI8, Format::kI8, {2, 4, 5, 5}, matrix);
  graph::MatMulAttributes sums;
  sums.matrix.kind = MatrixKind::kInteger;
  sums.integer = {1, {0}};
  chain.layer("sums", {5, 3}, Format::kI8, Format::kI32, {2, 4, 5, 3}, sums);
  chain.dequantise(0x1p-14f);
  return chain.finish();
}

}  // namespace tessera::concord::testing

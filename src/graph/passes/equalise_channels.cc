// Channels between two products brought nearer to one size, by powers of two.
//
//   product, W1 ─► activation ─► x ─► product, W2
//     row c of W1 and of the bias · 2^-k[c]          column c of W2 · 2^k[c]
//
// A block has one exponent, for weights as for activations: a channel whose weights are far larger
// than those beside it (because its activations are small, most often) takes bits from all of its
// block. The scaled model is the same function, since the activation between the two commutes with
// positive factors; but for the range of the vector format, factors of powers of two lose nothing.
//
//   k[c] = nearest(log2(r1[c] / r2[c]) / 2) + k0,  r1[c] = sqrt(bias[c]^2 + sum of row c squared),
//                                                  r2[c] = largest of column c
//
// which gives both sides of a channel the size sqrt(r1 r2) (cross-layer equalisation: Nagel et al.,
// "Data-free quantization through weight equalization and bias correction", 2019). k0 keeps the
// largest r1, so that activations do not outgrow the vector format; |k| is at most 8. When the
// program runs it costs nothing. A pair is left as it is unless this takes a third of the noise
// away that r1 and the weights let expect (Pair::noise): most layers are even enough.
//
// Before: a draft, activations are fused. After: a draft.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "arith/rounding.h"
#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

constexpr int kStepsMax = 8;             // |k|
constexpr double kNoiseMax = 2.0 / 3.0;  // of the noise before

// Halves go up, so that equal distances stay equal.
int nearest(double value) { return static_cast<int>(std::floor(value + 0.5)); }

// A product of floats with constant weights and bias: what the pass needs of both kinds.
struct ScaledProduct {
  bool is_conv = false;
  bool channel_wise = false;
  MatrixKind matrix = MatrixKind::kFloat;
  Activation activation;
  Shape dims;               // of the weights: conv [OC, C / groups, KH, KW], matrix [K, N]
  std::int64_t groups = 1;  // of a convolution
};

std::optional<ScaledProduct> product_of(const Graph& graph, const Node& node) {
  ScaledProduct product;
  if (node.kind() == NodeKind::kConv) {
    const auto& conv = node.as<ConvAttributes>();
    product.is_conv = true;
    product.channel_wise = conv.channel_wise;
    product.matrix = conv.matrix.kind;
    product.activation = conv.post.activation;
    product.groups = conv.groups;
  } else if (node.kind() == NodeKind::kMatMul) {
    const auto& matmul = node.as<MatMulAttributes>();
    product.matrix = matmul.matrix.kind;
    product.activation = matmul.post.activation;
  } else {
    return std::nullopt;
  }
  const TensorInfo& weights = graph.tensor(node.inputs[1]);
  const bool constant = weights.constant != nullptr && format_is_float(weights.format) &&
                        (product.is_conv || weights.dims.size() == 2);
  if (!constant || product.matrix == MatrixKind::kInteger) return std::nullopt;
  product.dims = weights.dims;
  return product;
}

bool commutes_with_scales(const Activation& activation) {
  return activation.function == UnaryFunction::kIdentity ||
         activation.function == UnaryFunction::kRelu ||
         activation.function == UnaryFunction::kLeakyRelu;
}

// A weight: where it lies, the channels it joins, and which of the sums over channels (one an
// output and a tap) it is in.
struct WeightPlace {
  std::size_t i = 0, output = 0, input = 0, sum = 0;
};

std::size_t sum_count(const ScaledProduct& product) {
  if (!product.is_conv) return static_cast<std::size_t>(product.dims[1]);
  return static_cast<std::size_t>(product.dims[0] * product.dims[2] * product.dims[3]);
}

// Calls visit(WeightPlace) for the weights in order.
template <typename Visit>
void for_each_weight(const ScaledProduct& product, const Visit& visit) {
  const auto extent = [&](std::size_t axis) {
    return static_cast<std::size_t>(product.dims[axis]);
  };
  WeightPlace place;
  if (!product.is_conv) {
    for (place.input = 0; place.input < extent(0); ++place.input) {
      for (place.output = 0; place.output < extent(1); ++place.output, ++place.i) {
        place.sum = place.output;
        visit(place);
      }
    }
    return;
  }
  const std::size_t taps = extent(2) * extent(3);
  const std::size_t outputs_a_group = extent(0) / static_cast<std::size_t>(product.groups);
  for (place.output = 0; place.output < extent(0); ++place.output) {
    const std::size_t first = place.output / outputs_a_group * extent(1);
    for (place.input = first; place.input < first + extent(1); ++place.input) {
      for (std::size_t tap = 0; tap < taps; ++tap, ++place.i) {
        place.sum = place.output * taps + tap;
        visit(place);
      }
    }
  }
}

// Channel by channel.
std::vector<double> factors_of(const std::vector<int>& steps, int sign) {
  std::vector<double> factors;
  for (const int step : steps) factors.push_back(std::ldexp(1.0, sign * step));
  return factors;
}

// The elements of a float constant, read where they lie.
class Weights {
 public:
  Weights() = default;
  explicit Weights(const Tensor& tensor)
      : tensor_(&tensor), size_(static_cast<std::size_t>(element_count(tensor.dims))) {}
  std::size_t size() const { return size_; }
  double operator[](std::size_t i) const {
    if (tensor_->format == Format::kF32) return static_cast<double>(at<float>(i));
    if (tensor_->format == Format::kF64) return at<double>(i);
    const auto bytes = static_cast<std::size_t>(format_bytes(tensor_->format));
    return arith::read_element(tensor_->format, tensor_->bytes.data() + i * bytes);
  }

 private:
  template <typename Value>
  Value at(std::size_t i) const {
    Value value;
    std::memcpy(&value, tensor_->bytes.data() + i * sizeof(Value), sizeof(Value));
    return value;
  }

  const Tensor* tensor_ = nullptr;
  std::size_t size_ = 0;
};

// Element by element in binary32 where that holds every value exactly, in binary64 otherwise: weights
// of binary32 times powers of two, mostly, in half of the memory.
template <typename Value>
Constant exact_constant(const Shape& dims, Format narrowest, const Value& value_of) {
  const auto fill = [&](auto zero, Tensor tensor) -> Constant {
    using Element = decltype(zero);
    const auto count = static_cast<std::size_t>(element_count(dims));
    for (std::size_t i = 0; i < count; ++i) {
      const double value = value_of(i);
      const auto element = static_cast<Element>(value);
      if (static_cast<double>(element) != value) return nullptr;
      std::memcpy(tensor.bytes.data() + i * sizeof(Element), &element, sizeof(Element));
    }
    return std::make_shared<const Tensor>(std::move(tensor));
  };
  if (narrowest == Format::kF32) {
    if (Constant exact = fill(0.0F, Tensor::zeros(Format::kF32, dims))) return exact;
  }
  std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(i);
  return constant_from_reals(Format::kF64, dims, values);
}

class Pair {
 public:
  Pair(const Graph& graph, const Node& from, const Node& to)
      : from_(*product_of(graph, from)),
        to_(*product_of(graph, to)),
        first_(*graph.tensor(from.inputs[1]).constant),
        second_(*graph.tensor(to.inputs[1]).constant) {
    if (from.inputs.size() == 3) bias_ = Weights(*graph.tensor(from.inputs[2]).constant);
    channels_ = static_cast<std::size_t>(from_.is_conv ? from_.dims[0] : from_.dims[1]);
  }

  // k of every channel; empty where all are the same.
  std::vector<int> steps() const {
    const std::vector<double> made = sizes_of_rows();
    std::vector<double> used(channels_, 0.0);
    for_each_weight(to_, [&](const WeightPlace& at) {
      used[at.input] = std::max(used[at.input], std::abs(second_[at.i]));
    });
    return steps(made, used);
  }

  // What a shared exponent costs the second product, up to a factor: in every sum over channels, a
  // weight's error goes with the largest weight, an activation's with the largest activation.
  double noise(const std::vector<int>& steps) const {
    std::vector<double> activation = sizes_of_rows();
    const std::vector<double> down = factors_of(steps, -1);
    const std::vector<double> up = factors_of(steps, 1);
    for (std::size_t c = 0; c < channels_; ++c) activation[c] *= activation[c] * down[c] * down[c];
    struct Sum {
      double weight_max = 0, activation_max = 0, weights = 0, activations = 0;
    };
    std::vector<Sum> sums(sum_count(to_));
    for_each_weight(to_, [&](const WeightPlace& at) {
      const double w = second_[at.i] * up[at.input];
      Sum& sum = sums[at.sum];
      sum.weight_max = std::max(sum.weight_max, w * w);
      sum.activation_max = std::max(sum.activation_max, activation[at.input]);
      sum.weights += w * w;
      sum.activations += activation[at.input];
    });
    double total = 0.0;
    for (const Sum& sum : sums) {
      total += sum.weight_max * sum.activations + sum.activation_max * sum.weights;
    }
    return total;
  }

  // Weights and bias of the first product, weights of the second, scaled; no wider than the values ask
  // for, if `narrowest` is binary32. Null: there is no bias.
  struct Scaled {
    Constant first, bias, second;
  };
  Scaled scaled(const std::vector<int>& steps, Format narrowest) const {
    const std::vector<double> down = factors_of(steps, -1);
    const std::vector<double> up = factors_of(steps, 1);
    const std::size_t each = first_.size() / channels_;  // of a convolution, side by side
    const std::size_t taps = to_.is_conv ? static_cast<std::size_t>(to_.dims[2] * to_.dims[3]) : 0;
    const auto first = [&](std::size_t i) {
      return first_[i] * down[from_.is_conv ? i / each : i % channels_];
    };
    const auto second = [&](std::size_t i) { return second_[i] * up[input_of(i, taps)]; };
    Scaled result{exact_constant(from_.dims, narrowest, first), nullptr,
                  exact_constant(to_.dims, narrowest, second)};
    if (bias_.size() > 0) {
      result.bias = exact_constant({static_cast<std::int64_t>(bias_.size())}, narrowest,
                                   [&](std::size_t c) { return bias_[c] * down[c]; });
    }
    return result;
  }

 private:
  // r1: what an input of size 1 makes of each channel.
  std::vector<double> sizes_of_rows() const {
    std::vector<double> sizes(channels_, 0.0);
    for_each_weight(
        from_, [&](const WeightPlace& at) { sizes[at.output] += first_[at.i] * first_[at.i]; });
    for (std::size_t c = 0; c < bias_.size(); ++c) sizes[c] += bias_[c] * bias_[c];
    for (double& size : sizes) size = std::sqrt(size);
    return sizes;
  }

  std::vector<int> steps(const std::vector<double>& made, const std::vector<double>& used) const {
    std::vector<int> steps(channels_, 0);
    double largest = 0.0;
    double scaled = 0.0;
    for (std::size_t c = 0; c < channels_; ++c) {
      if (!std::isfinite(made[c]) || !std::isfinite(used[c])) return {};
      if (made[c] == 0.0 || used[c] == 0.0) continue;
      steps[c] = nearest(std::log2(made[c] / used[c]) / 2.0);
      largest = std::max(largest, made[c]);
      scaled = std::max(scaled, std::ldexp(made[c], -steps[c]));
    }
    if (largest == 0.0) return {};
    const int common = nearest(std::log2(scaled / largest));
    for (int& step : steps) step = std::clamp(step + common, -kStepsMax, kStepsMax);
    const bool same = std::all_of(steps.begin(), steps.end(), [](int step) { return step == 0; });
    return same ? std::vector<int>{} : steps;
  }

  // The channel that weight `i` of the second product reads, as in for_each_weight().
  std::size_t input_of(std::size_t i, std::size_t taps) const {
    if (!to_.is_conv) return i / static_cast<std::size_t>(to_.dims[1]);
    const auto inputs = static_cast<std::size_t>(to_.dims[1]);  // of a group
    const std::size_t outputs_a_group =
        static_cast<std::size_t>(to_.dims[0]) / static_cast<std::size_t>(to_.groups);
    const std::size_t output = i / (inputs * taps);
    return output / outputs_a_group * inputs + i / taps % inputs;
  }

  ScaledProduct from_;
  ScaledProduct to_;
  std::size_t channels_ = 0;
  Weights first_, second_, bias_;  // of constants that outlive it
};

// The node whose channels a product's input has, if nothing else reads them; -1 otherwise.
std::int32_t maker_of(const Graph& graph, const Links& links, const Node& node) {
  const std::optional<ScaledProduct> to = product_of(graph, node);
  if (!to || to->channel_wise || to->matrix == MatrixKind::kFloat) return -1;
  const TensorId between = node.inputs[0];
  const std::int32_t producer = links.producer(between);
  if (producer < 0 || !links.has_single_use(between)) return -1;
  const std::optional<ScaledProduct> from = product_of(graph, graph.nodes[producer]);
  const bool fits = from && from->is_conv == to->is_conv && commutes_with_scales(from->activation);
  return fits ? producer : -1;
}

}  // namespace

void equalise_channels(Graph& graph) {
  Editor editor(graph);
  const Links links(graph);
  const std::size_t given = graph.tensors.size();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::int32_t producer = maker_of(graph, links, graph.nodes[i]);
    if (producer < 0) continue;
    Node& from = graph.nodes[producer];
    Node& to = graph.nodes[i];
    Pair pair(graph, from, to);
    const std::vector<int> steps = pair.steps();
    const std::vector<int> none(steps.size(), 0);
    if (steps.empty() || pair.noise(steps) > kNoiseMax * pair.noise(none)) continue;
    // Constants of an f32 graph are not converted once more, so that their format stays what it was.
    const Format narrowest = graph.vector_format == Format::kF32 ? Format::kF64 : Format::kF32;
    const Pair::Scaled scaled = pair.scaled(steps, narrowest);
    const auto put = [&](TensorId& id, const Constant& value) {
      const TensorId before = id;
      id = editor.add_constant(graph.tensor(before).name + ".equalised", value);
      // What was made here is read once; so is most of what was there. Its memory is given back.
      const bool only_here = position_of(before) >= given || links.has_single_use(before);
      if (only_here) graph.tensor(before).constant = nullptr;
    };
    put(from.inputs[1], scaled.first);
    if (from.inputs.size() == 3) put(from.inputs[2], scaled.bias);
    put(to.inputs[1], scaled.second);
    editor.rename_tensor(to.inputs[0], graph.tensor(to.inputs[0]).name + ".equalised");
  }
  tidy(graph);
}

}  // namespace tessera::graph

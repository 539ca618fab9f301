#include "concord/lift/layers.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "graph/move_box.h"

namespace tessera::concord {
namespace {

using graph::Graph;
using graph::TensorId;

Shape shape_of(const Extents& extents, const std::array<std::size_t, 4>& order) {
  Shape dims;
  for (const std::size_t axis : order) dims.push_back(extents[axis]);
  return dims;
}

// One element where all are equal, bit for bit.
template <typename T>
std::vector<T> collapsed(std::vector<T> values) {
  const bool equal = std::all_of(values.begin(), values.end(), [&](const T& value) {
    return std::memcmp(&value, values.data(), sizeof(T)) == 0;
  });
  if (equal && values.size() > 1) return {values.front()};
  return values;
}

// Axes of `view` in the axes of `dims`, which differ from them by axes of extent 1 only: for each
// of dims the axis of view, or -1. None if they differ by more.
std::optional<std::vector<int>> aligned(const Shape& view, const Shape& dims) {
  std::vector<int> axes;
  std::size_t at = 0;
  for (const std::int64_t extent : dims) {
    if (extent == 1) {
      axes.push_back(-1);
      continue;
    }
    while (at < view.size() && view[at] == 1) ++at;
    if (at == view.size() || view[at] != extent) return std::nullopt;
    axes.push_back(static_cast<int>(at++));
  }
  while (at < view.size() && view[at] == 1) ++at;
  if (at != view.size()) return std::nullopt;
  return axes;
}

Shape taken(const Shape& dims, const std::vector<int>& axes) {
  Shape result;
  for (const int axis : axes) result.push_back(axis < 0 ? 1 : dims[static_cast<std::size_t>(axis)]);
  return result;
}

class LayerMaker {
 public:
  LayerMaker(const Group& group, const LiftedLayer& layer, const LayerNames& names,
             LiftedTensors& tensors, Graph& graph)
      : group_(group), layer_(layer), names_(names), tensors_(tensors), graph_(graph) {}

  void run() {
    switch (group_.kind) {
      case GroupKind::kProduct:
        return layer_.as_matrix ? add_matmul() : add_conv();
      case GroupKind::kPool:
        return add_pool();
      case GroupKind::kReduce:
        return add_reduce();
      case GroupKind::kElementwise:
        return add_elementwise();
    }
  }

 private:
  void add(std::vector<TensorId> inputs, const Shape& dims, graph::NodeAttributes attributes) {
    const TensorId output = tensors_.add(names_.name, group_.output_format, dims);
    tensors_.set_value(layer_.value, output);
    graph_.nodes.push_back(
        {names_.name, names_.origins, std::move(inputs), {output}, std::move(attributes)});
  }

  TensorId read(std::size_t input, const Shape& dims) {
    return tensors_.read(layer_.inputs[input], dims, names_.name);
  }

  // ---- products

  template <typename Attributes>
  void set_product(Attributes& to) const {
    const ProductConfig& p = group_.product;
    to.matrix = p.matrix;
    to.integer.moving_zero_point = p.moving_zero_point;
    to.integer.stationary_zero_points = collapsed(layer_.stationary.zero_points);
    to.post.activation = p.activation;
    to.post.requantise = p.requantise;
    if (p.requantise) to.post.multipliers = collapsed(layer_.stationary.multipliers);
    to.post.output_zero_point = p.output_zero_point;
    to.post.clamp_low = p.clamp_low;
    to.post.clamp_high = p.clamp_high;
  }

  void add_bias(std::vector<TensorId>& inputs) {
    if (!group_.product.has_bias) return;
    inputs.push_back(tensors_.constant(names_.name + ".bias", group_.product.bias_format,
                                       {group_.output[kChannels]}, layer_.stationary.bias));
  }

  void add_conv() {
    const ProductConfig& p = group_.product;
    const Extents& in = group_.inputs[0];
    const Extents& out = group_.output;
    graph::ConvAttributes conv;
    conv.stride_h = p.stride_h;
    conv.stride_w = p.stride_w;
    conv.dilation_h = p.dilation_h;
    conv.dilation_w = p.dilation_w;
    conv.input_dilation_h = p.input_dilation_h;
    conv.input_dilation_w = p.input_dilation_w;
    conv.pad_top = p.pad_top;
    conv.pad_left = p.pad_left;
    // As much as the last output needs.
    const auto end = [](std::int64_t outputs, std::int64_t stride, std::int64_t reach,
                        std::int64_t pad, std::int64_t samples) {
      return (outputs - 1) * stride + reach + 1 - pad - samples;
    };
    conv.pad_bottom = end(out[kRows], p.stride_h, (p.kernel_h - 1) * p.dilation_h, p.pad_top,
                          (in[kRows] - 1) * p.input_dilation_h + 1);
    conv.pad_right = end(out[kColumns], p.stride_w, (p.kernel_w - 1) * p.dilation_w, p.pad_left,
                         (in[kColumns] - 1) * p.input_dilation_w + 1);
    conv.groups = p.image.groups;
    conv.channel_wise = p.image.channel_wise;
    conv.cut = p.image.cut;
    set_product(conv);
    std::vector<TensorId> inputs = {read(0, shape_of(in, {0, 1, 2, 3}))};
    inputs.push_back(tensors_.constant(names_.name + ".weights", p.image.format,
                                       {out[kChannels], p.image.channels, p.kernel_h, p.kernel_w},
                                       layer_.stationary.weights));
    add_bias(inputs);
    add(std::move(inputs), shape_of(out, {0, 1, 2, 3}), std::move(conv));
    if (p.local_response.enabled()) add_local_response(p.local_response);
  }

  // The normalisation behind the convolution, step by step: what it is fused from (graph/passes).
  void add_local_response(const LocalResponse& response) {
    const Extents& e = group_.output;
    const Shape image = shape_of(e, {0, 1, 2, 3}), last = shape_of(e, {0, 2, 3, 1});
    const TensorId x =
        step("turned", {graph_.nodes.back().outputs[0]}, last, turning(image, {0, 2, 3, 1}));
    graph::ElementwiseAttributes square;
    square.activation.function = UnaryFunction::kSquare;
    const TensorId squares = step("squares", {x}, last, square, Format::kF32);
    graph::PoolAttributes window;
    window.function = PoolFunction::kAverage;
    window.window_w = response.size;
    window.pad_left = response.before();
    window.pad_right = response.behind();
    window.include_padding = true;
    TensorId power = step("mean", {squares}, last, window, Format::kF32);
    const auto with = [&](const char* what, BinaryFunction function, float number,
                          UnaryFunction activation) {
      const Tensor constant = scalar(number);
      const TensorId other = tensors_.constant(names_.name + "." + what + ".constant", Format::kF32,
                                               {}, constant.bytes);
      graph::ElementwiseAttributes attributes;
      attributes.binary = true;
      attributes.function = function;
      attributes.activation.function = activation;
      power = step(what, {power, other}, last, attributes, Format::kF32);
    };
    with("alpha", BinaryFunction::kMultiply, response.alpha, UnaryFunction::kIdentity);
    with("bias", BinaryFunction::kAdd, response.bias, UnaryFunction::kLog);
    with("beta", BinaryFunction::kMultiply, -response.beta, UnaryFunction::kExp);
    graph::ElementwiseAttributes product;
    product.binary = true;
    product.function = BinaryFunction::kMultiply;
    const TensorId y = step("normalised", {x, power}, last, product);
    tensors_.set_value(layer_.value, step("response", {y}, image, turning(last, {0, 3, 1, 2})));
  }

  static Tensor scalar(float number) {
    Tensor tensor = Tensor::zeros(Format::kF32, {});
    tensor.as<float>()[0] = number;
    return tensor;
  }
  static graph::MoveAttributes turning(const Shape& dims,
                                       const std::vector<std::int64_t>& permutation) {
    graph::MoveAttributes move;
    move.copies = {graph::permuted_box(dims, permutation)};
    return move;
  }
  // A node of its own behind the layer's.
  TensorId step(const char* what, std::vector<TensorId> inputs, const Shape& dims,
                graph::NodeAttributes attributes, std::optional<Format> format = std::nullopt) {
    const TensorId output = tensors_.add(tensors_.unique_name(names_.name + "." + what),
                                         format.value_or(group_.output_format), dims);
    graph_.nodes.push_back({tensors_.unique_node_name(names_.name + "." + what),
                            names_.origins,
                            std::move(inputs),
                            {output},
                            std::move(attributes)});
    return output;
  }

  // [N, K] as [K, N].
  std::vector<std::byte> turned_weights() const {
    const auto n = static_cast<std::size_t>(group_.output[kChannels]);
    const auto k = static_cast<std::size_t>(group_.product.image.channels);
    const auto size = static_cast<std::size_t>(format_bytes(group_.product.image.format));
    const std::vector<std::byte>& from = layer_.stationary.weights;
    std::vector<std::byte> to(from.size());
    for (std::size_t row = 0; row < n; ++row) {
      for (std::size_t column = 0; column < k; ++column) {
        std::memcpy(to.data() + (column * n + row) * size, from.data() + (row * k + column) * size,
                    size);
      }
    }
    return to;
  }

  void add_matmul() {
    graph::MatMulAttributes matmul;
    set_product(matmul);
    Shape dims = layer_.inputs[0].dims;
    std::vector<TensorId> inputs;
    if (group_.dynamic) {
      const Shape& stationary = layer_.inputs[1].dims;
      inputs = {read(0, dims), read(1, stationary)};
    } else {
      inputs = {read(0, dims),
                tensors_.constant(names_.name + ".weights", group_.product.image.format,
                                  {group_.product.image.channels, group_.output[kChannels]},
                                  turned_weights())};
    }
    add_bias(inputs);
    dims.back() = group_.output[kChannels];
    add(std::move(inputs), dims, std::move(matmul));
  }

  // ---- the planar engine's work

  void add_pool() {
    const PoolConfig& p = group_.pool;
    graph::PoolAttributes pool;
    pool.function = p.function;
    pool.window_h = p.window_h;
    pool.window_w = p.window_w;
    pool.stride_h = p.stride_h;
    pool.stride_w = p.stride_w;
    pool.pad_top = p.pad_top;
    pool.pad_left = p.pad_left;
    pool.pad_bottom = p.pad_bottom;
    pool.pad_right = p.pad_right;
    pool.dilation_h = p.dilation_h;
    pool.dilation_w = p.dilation_w;
    pool.include_padding = p.include_padding;
    pool.input = p.input;
    pool.output = p.output;
    pool.before = p.before;
    pool.after = p.after;
    const TensorId x = read(0, shape_of(group_.inputs[0], {0, 1, 2, 3}));
    add({x}, shape_of(group_.output, {0, 1, 2, 3}), pool);
  }

  // The shape of an operand that is a whole value, if the view is that shape but for axes of 1.
  std::optional<std::vector<int>> like_value(const Shape& view, const Operand& operand,
                                             Shape& dims) const {
    if (operand.kind != Operand::Kind::kWhole) return std::nullopt;
    dims = graph_.tensor(tensors_.value(operand.value)).dims;
    return aligned(view, dims);
  }

  void add_reduce() {
    const ReduceConfig& p = group_.reduce;
    const Shape view = layer_.inputs[0].dims;
    std::vector<bool> reduced;
    for (const std::size_t axis : layer_.order) {
      const bool rows = axis == kRows && p.over_rows && !group_.flat;
      reduced.push_back(rows || (axis == kColumns && p.over_columns));
    }
    graph::ReduceAttributes reduce;
    reduce.function = p.function;
    reduce.activation = p.activation;
    reduce.input = p.input;
    reduce.output = p.output;
    reduce.before = p.before;
    Shape dims;
    const auto axes = like_value(view, layer_.inputs[0], dims);
    for (std::size_t i = 0; axes && i < dims.size(); ++i) {
      const int from = (*axes)[i];
      if (from >= 0 && reduced[static_cast<std::size_t>(from)]) {
        reduce.axes.push_back(static_cast<std::int64_t>(i));
      }
    }
    if (reduce.axes.empty()) {
      dims = view;
      for (std::size_t i = 0; i < reduced.size(); ++i) {
        if (reduced[i]) reduce.axes.push_back(static_cast<std::int64_t>(i));
      }
    }
    const TensorId x = read(0, dims);
    for (const std::int64_t axis : reduce.axes) dims[static_cast<std::size_t>(axis)] = 1;
    add({x}, dims, std::move(reduce));
  }

  void add_elementwise() {
    const ElementwiseConfig& e = group_.elementwise;
    graph::ElementwiseAttributes attributes;
    attributes.binary = e.binary;
    attributes.function = e.function;
    attributes.activation = e.activation;
    attributes.inputs[0] = e.inputs[0];
    attributes.inputs[1] = e.inputs[1];
    attributes.output = e.output;
    attributes.gain_bias = group_.gain_bias;
    attributes.gain_format = e.gain_format;
    const Shape view = shape_of(group_.output, layer_.order);
    std::optional<std::vector<int>> axes;
    Shape dims = view;
    for (const Operand& operand : layer_.inputs) {
      if (axes || operand.dims != view) continue;
      Shape found;
      if ((axes = like_value(view, operand, found))) dims = found;
    }
    std::vector<TensorId> inputs;
    if (!axes && shape_of_whole_operands(view, dims)) {
      for (std::size_t i = 0; i < layer_.inputs.size(); ++i) {
        const bool one = element_count(layer_.inputs[i].dims) == 1;
        inputs.push_back(read(i, one ? Shape(dims.size(), 1) : dims));
      }
    } else {
      for (std::size_t i = 0; i < layer_.inputs.size(); ++i) {
        inputs.push_back(
            read(i, axes ? taken(layer_.inputs[i].dims, *axes) : layer_.inputs[i].dims));
      }
    }
    // Axes that all operands repeat.
    dims = broadcast_to(inputs, dims);
    add(std::move(inputs), dims, attributes);
  }

  // Every operand is a whole value of one shape, or one element.
  bool shape_of_whole_operands(const Shape& view, Shape& result) const {
    bool any = false;
    Shape dims;
    for (const Operand& operand : layer_.inputs) {
      if (element_count(operand.dims) == 1 && element_count(view) != 1) continue;
      if (operand.kind != Operand::Kind::kWhole) return false;
      const Shape& found = graph_.tensor(tensors_.value(operand.value)).dims;
      if (any && found != dims) return false;
      dims = found;
      any = true;
    }
    // All of them may repeat along an axis.
    if (!any || element_count(dims) != element_count(view)) return false;
    result = dims;
    return true;
  }

  // Where every operand repeats along an axis, the result would have extent 1 there: one operand is
  // written out.
  Shape broadcast_to(std::vector<TensorId>& inputs, const Shape& dims) {
    Shape result(dims.size(), 1);
    for (const TensorId id : inputs) {
      const Shape& in = graph_.tensor(id).dims;
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::max(result[i], in[i]);
    }
    if (result == dims) return dims;
    inputs[0] = tensors_.expand(inputs[0], dims, names_.name);
    return dims;
  }

  const Group& group_;
  const LiftedLayer& layer_;
  const LayerNames& names_;
  LiftedTensors& tensors_;
  Graph& graph_;
};

}  // namespace

Status add_layer(const Group& group, const LiftedLayer& layer, const LayerNames& names,
                 LiftedTensors& tensors, Graph& graph) {
  LayerMaker(group, layer, names, tensors, graph).run();
  return {};
}

}  // namespace tessera::concord

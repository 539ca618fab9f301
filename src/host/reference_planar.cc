// Pooling, element-wise work, reductions and moves by definition.
#include <algorithm>
#include <cmath>
#include <limits>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/rounding.h"
#include "arith/wide_sum.h"
#include "base/check.h"
#include "host/reference_nodes.h"

namespace tessera::host {
namespace {

std::vector<std::int64_t> dense_strides(const Shape& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

const std::byte* element(const Tensor& tensor, std::int64_t index) {
  return tensor.bytes.data() + index * format_bytes(tensor.format);
}

double read(const Tensor& tensor, std::int64_t index) {
  return arith::read_element(tensor.format, element(tensor, index));
}

// The element as a real number: de-quantised in binary32 where it is affine.
double read_affine(const Tensor& tensor, std::int64_t index, const Affine& affine) {
  const double value = read(tensor, index);
  if (!affine.enabled) return value;
  return static_cast<double>(
      arith::dequantize_linear(static_cast<std::int32_t>(value), affine.scale, affine.zero_point));
}

// The format that results are rounded to before they are stored.
Format working_format(Format output, const Affine& affine) {
  return affine.enabled ? Format::kF32 : output;
}

// Stores a value of the working format: quantised where the output is affine.
void write_affine(Tensor& tensor, std::int64_t index, double value, const Affine& affine) {
  std::byte* const at = tensor.bytes.data() + index * format_bytes(tensor.format);
  if (!affine.enabled) {
    arith::write_element(tensor.format, value, at);
    return;
  }
  const std::int32_t q = arith::quantize_linear(static_cast<float>(value), affine.scale,
                                                affine.zero_point, tensor.format);
  arith::write_element(tensor.format, static_cast<double>(q), at);
}

double activated(const Activation& activation, double value, Format format) {
  if (activation.function == UnaryFunction::kIdentity) return value;
  return arith::evaluate(activation, value, format);
}

// Index into an operand of `dims` broadcast to a position of the output.
std::int64_t broadcast_index(const Shape& dims, const Shape& position) {
  const std::vector<std::int64_t> strides = dense_strides(dims);
  const std::size_t offset = position.size() - dims.size();
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] != 1) index += position[offset + axis] * strides[axis];
  }
  return index;
}

// The next position, row-major; false after the last.
bool advance(Shape& position, const Shape& dims) {
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    if (++position[axis] < dims[axis]) return true;
    position[axis] = 0;
  }
  return false;
}

// The element as a filter takes it.
double read_converted(const Tensor& tensor, std::int64_t index, const Affine& affine,
                      const Activation& before) {
  return activated(before, read_affine(tensor, index, affine), tensor.format);
}

struct Window {
  std::vector<std::int64_t> samples;  // element indices, row-major
  std::int64_t padded = 0;            // places within the padded input, samples included
};

Window window_at(const graph::PoolAttributes& pool, const Tensor& x, std::int64_t plane,
                 std::int64_t oy, std::int64_t ox) {
  Window window;
  const std::int64_t rows = x.dims[2], columns = x.dims[3];
  for (std::int64_t ky = 0; ky < pool.window_h; ++ky) {
    for (std::int64_t kx = 0; kx < pool.window_w; ++kx) {
      const std::int64_t iy = oy * pool.stride_h + ky * pool.dilation_h - pool.pad_top;
      const std::int64_t ix = ox * pool.stride_w + kx * pool.dilation_w - pool.pad_left;
      if (iy < rows + pool.pad_bottom && ix < columns + pool.pad_right) ++window.padded;
      if (iy < 0 || ix < 0 || iy >= rows || ix >= columns) continue;
      window.samples.push_back((plane * rows + iy) * columns + ix);
    }
  }
  return window;
}

// Average: the exact sum, one rounding. Integers: the sum of (q - zero point) is exact, then
// float(sum) * scale / count in binary32.
double average(const graph::PoolAttributes& pool, const Tensor& x, const Window& window,
               Format working) {
  const auto count =
      pool.include_padding ? window.padded : static_cast<std::int64_t>(window.samples.size());
  if (pool.input.enabled) {
    std::int64_t sum = 0;
    for (const std::int64_t at : window.samples) {
      sum += static_cast<std::int64_t>(read(x, at)) - pool.input.zero_point;
    }
    const float scaled = static_cast<float>(sum) * pool.input.scale;
    return static_cast<double>(scaled / static_cast<float>(count));
  }
  arith::ElementSum sum(x.format);
  for (const std::int64_t at : window.samples) sum.add(read_converted(x, at, {}, pool.before));
  return sum.mean(std::max<std::int64_t>(1, count), working);
}

double extreme(const graph::PoolAttributes& pool, const Tensor& x, const Window& window) {
  const bool maximum = pool.function == PoolFunction::kMaximum;
  double best =
      maximum ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  for (const std::int64_t at : window.samples) {
    const double value = read_converted(x, at, pool.input, pool.before);
    best = maximum ? arith::maximum(best, value) : arith::minimum(best, value);
  }
  return best;
}

double median(const graph::PoolAttributes& pool, const Tensor& x, const Window& window) {
  std::vector<double> values;
  for (const std::int64_t at : window.samples) {
    values.push_back(read_converted(x, at, pool.input, pool.before));
    if (std::isnan(values.back())) return values.back();
  }
  if (values.empty()) return -std::numeric_limits<double>::infinity();
  std::sort(values.begin(), values.end(), [](double a, double b) {
    return a != b ? a < b : std::signbit(a) && !std::signbit(b);
  });
  return values[(values.size() - 1) / 2];
}

double pooled(const graph::PoolAttributes& pool, const Tensor& x, const Window& window,
              Format working) {
  switch (pool.function) {
    case PoolFunction::kAverage:
      return average(pool, x, window, working);
    case PoolFunction::kMedian:
      return median(pool, x, window);
    default:
      return extreme(pool, x, window);
  }
}

}  // namespace

Tensor reference_pool(const graph::Graph& graph, const graph::Node& node,
                      std::span<const Tensor* const> inputs) {
  const auto& pool = node.as<graph::PoolAttributes>();
  const Tensor& x = *inputs[0];
  const graph::TensorInfo& info = graph.tensor(node.outputs[0]);
  Tensor y = Tensor::zeros(info.format, info.dims);
  const Format working = working_format(y.format, pool.output);
  std::int64_t out = 0;
  for (std::int64_t plane = 0; plane < y.dims[0] * y.dims[1]; ++plane) {
    for (std::int64_t oy = 0; oy < y.dims[2]; ++oy) {
      for (std::int64_t ox = 0; ox < y.dims[3]; ++ox, ++out) {
        const Window window = window_at(pool, x, plane, oy, ox);
        const double value = pooled(pool, x, window, working);
        write_affine(y, out, activated(pool.after, value, working), pool.output);
      }
    }
  }
  return y;
}

Tensor reference_elementwise(const graph::Graph& graph, const graph::Node& node,
                             std::span<const Tensor* const> inputs) {
  const auto& attributes = node.as<graph::ElementwiseAttributes>();
  const graph::TensorInfo& info = graph.tensor(node.outputs[0]);
  Tensor y = Tensor::zeros(info.format, info.dims);
  const Format working = working_format(y.format, attributes.output);
  Shape position(y.dims.size(), 0);
  for (std::int64_t i = 0; i < element_count(y.dims); ++i, advance(position, y.dims)) {
    double value =
        read_affine(*inputs[0], broadcast_index(inputs[0]->dims, position), attributes.inputs[0]);
    if (attributes.binary) {
      const double b =
          read_affine(*inputs[1], broadcast_index(inputs[1]->dims, position), attributes.inputs[1]);
      value = arith::evaluate(attributes.function, value, b, working);
    }
    if (attributes.gain_bias) {
      const double gain =
          read_affine(*inputs[1], broadcast_index(inputs[1]->dims, position), attributes.inputs[1]);
      const double bias = read(*inputs[2], broadcast_index(inputs[2]->dims, position));
      value = arith::evaluate(BinaryFunction::kMultiply, value, gain, attributes.gain_format);
      value = arith::evaluate(BinaryFunction::kAdd, value, bias, working);
    }
    write_affine(y, i, activated(attributes.activation, value, working), attributes.output);
  }
  return y;
}

Tensor reference_reduce(const graph::Graph& graph, const graph::Node& node,
                        std::span<const Tensor* const> inputs) {
  const auto& attributes = node.as<graph::ReduceAttributes>();
  const Tensor& x = *inputs[0];
  const graph::TensorInfo& info = graph.tensor(node.outputs[0]);
  Tensor y = Tensor::zeros(info.format, info.dims);
  const Format working = working_format(y.format, attributes.output);
  const std::vector<std::int64_t> strides = dense_strides(x.dims);
  Shape kept, reduced;
  std::vector<std::int64_t> kept_strides, reduced_strides;
  for (std::size_t axis = 0; axis < x.dims.size(); ++axis) {
    const bool is_reduced = std::find(attributes.axes.begin(), attributes.axes.end(),
                                      static_cast<std::int64_t>(axis)) != attributes.axes.end();
    (is_reduced ? reduced : kept).push_back(x.dims[axis]);
    (is_reduced ? reduced_strides : kept_strides).push_back(strides[axis]);
  }
  // De-quantised elements are binary32; otherwise they stay in their own format.
  const Format element_format = attributes.input.enabled ? Format::kF32 : x.format;
  const std::int64_t count = element_count(reduced);
  Tensor run = Tensor::zeros(element_format, {count});
  Shape at(kept.size(), 0);
  for (std::int64_t i = 0; i < element_count(kept); ++i, advance(at, kept)) {
    std::int64_t base = 0;
    for (std::size_t axis = 0; axis < kept.size(); ++axis) base += at[axis] * kept_strides[axis];
    Shape inner(reduced.size(), 0);
    for (std::int64_t k = 0; k < count; ++k, advance(inner, reduced)) {
      std::int64_t index = base;
      for (std::size_t axis = 0; axis < reduced.size(); ++axis) {
        index += inner[axis] * reduced_strides[axis];
      }
      std::byte* const element = run.bytes.data() + k * format_bytes(element_format);
      if (attributes.input.enabled || attributes.before != Activation{}) {
        arith::write_element(
            element_format, read_converted(x, index, attributes.input, attributes.before), element);
      } else {  // as it is: an infinity stays one
        std::copy_n(x.bytes.data() + index * format_bytes(x.format), format_bytes(x.format),
                    element);
      }
    }
    const double value =
        arith::reduce(attributes.function, {element_format, run.bytes.data(), count, 1}, working);
    write_affine(y, i, activated(attributes.activation, value, working), attributes.output);
  }
  return y;
}

Tensor reference_move(const graph::Graph& graph, const graph::Node& node,
                      std::span<const Tensor* const> inputs) {
  const auto& attributes = node.as<graph::MoveAttributes>();
  const graph::TensorInfo& info = graph.tensor(node.outputs[0]);
  Tensor y = Tensor::zeros(info.format, info.dims);
  const std::int64_t size = format_bytes(y.format);
  if (attributes.has_fill) {
    for (std::int64_t i = 0; i < element_count(y.dims); ++i) {
      arith::write_bits(y.format, attributes.fill, y.bytes.data() + i * size);
    }
  }
  for (const graph::CopyBox& box : attributes.copies) {
    const Tensor& x = *inputs[static_cast<std::size_t>(box.input)];
    Shape position(box.extents.size(), 0);
    for (std::int64_t i = 0; i < element_count(box.extents); ++i, advance(position, box.extents)) {
      std::int64_t from = box.input_offset, to = box.output_offset;
      for (std::size_t axis = 0; axis < position.size(); ++axis) {
        from += position[axis] * box.input_strides[axis];
        to += position[axis] * box.output_strides[axis];
      }
      TESSERA_CHECK(
          from >= 0 && from < element_count(x.dims) && to >= 0 && to < element_count(y.dims),
          "move '{}' leaves its tensors: {} to {}", node.name, from, to);
      std::copy_n(element(x, from), size, y.bytes.data() + to * size);
    }
  }
  return y;
}

}  // namespace tessera::host

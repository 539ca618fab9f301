// Convolution and matrix product by definition.
//
//   for every output element:  sum over k of x[k] * w[k], in the arithmetic of the matrix format
//
// k runs over taps (row-major) and, within a tap, over the group's channels. A term under which
// there is no sample is skipped; in a native block it is a zero. The operands of one pixel and of
// one output channel are read (and quantised) once, since every pixel meets every channel.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "arith/block_float.h"
#include "arith/function.h"
#include "arith/integer.h"
#include "arith/microscaling.h"
#include "arith/rounding.h"
#include "arith/wide_sum.h"
#include "base/check.h"
#include "host/reference_nodes.h"

namespace tessera::host {
namespace {

using graph::PostProcess;

// What all output elements of a node share.
struct ProductRules {
  MatrixFormat matrix;
  BlockCut cut = BlockCut::kChannel;
  std::size_t channels = 1;  // terms a tap
  bool channel_wise = false;
  Format moving_format = Format::kF16, stationary_format = Format::kF16;
  Format output_format = Format::kF16;
  const graph::IntegerOperands* integer = nullptr;
  const PostProcess* post = nullptr;
  const Tensor* bias = nullptr;  // may be null

  bool quantised() const { return matrix.kind == MatrixKind::kBlockFloat && !channel_wise; }
  bool microscaled() const { return matrix.kind == MatrixKind::kMicroscaling && !channel_wise; }
};

enum class Side { kMoving, kStationary };

// One side of a sum: k terms as numbers, and as native blocks where the product takes these.
struct Operand {
  std::vector<double> values;
  std::vector<char> present;  // 0: there is no sample
  std::vector<arith::BlockFloat> blocks;
  std::vector<arith::MicroBlock> micro_blocks;
  std::vector<char> block_present;  // 0: none of a block's terms has a sample
};

template <typename T>
T of_channel(const std::vector<T>& values, std::int64_t channel, T otherwise) {
  if (values.empty()) return otherwise;
  return values[values.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
}

const std::byte* bias_element(const ProductRules& rules, std::int64_t channel) {
  return rules.bias->bytes.data() + channel * format_bytes(rules.bias->format);
}

// A bias of -0 is read as +0.
double bias_value(const ProductRules& rules, std::int64_t channel) {
  if (rules.bias == nullptr) return 0.0;
  return arith::read_element(rules.bias->format, bias_element(rules, channel)) + 0.0;
}

// Reads the terms (null: no sample) and cuts them into native blocks.
Operand read_operand(const ProductRules& rules, const std::vector<const std::byte*>& terms,
                     Format format, Side side) {
  Operand operand;
  for (const std::byte* term : terms) {
    operand.present.push_back(term != nullptr);
    operand.values.push_back(term != nullptr ? arith::read_element(format, term) : 0.0);
  }
  if (!rules.quantised() && !rules.microscaled()) return operand;
  const MatrixFormat& matrix = rules.matrix;
  const bool moving = side == Side::kMoving;
  const auto element = static_cast<std::size_t>(format_bytes(format));
  std::vector<std::byte> dense(terms.size() * element);
  for (std::size_t k = 0; k < terms.size(); ++k) {
    if (terms[k] != nullptr) std::memcpy(&dense[k * element], terms[k], element);
  }
  const auto native =
      static_cast<std::size_t>(rules.quantised() ? matrix.native_dimension : arith::kMicroBlock);
  const std::size_t run = rules.cut == BlockCut::kIm2col ? terms.size() : rules.channels;
  arith::StickyFlags flags;
  for (std::size_t begin = 0; begin < terms.size(); begin += run) {
    for (std::size_t k = begin; k < begin + run; k += native) {
      const auto count = static_cast<std::int64_t>(std::min(native, begin + run - k));
      const arith::ElementRun block = {format, &dense[k * element], count, 1};
      // Blocks along channels lie under one tap, with all their samples or with none.
      operand.block_present.push_back(rules.cut == BlockCut::kIm2col || terms[k] != nullptr);
      if (rules.quantised()) {
        operand.blocks.push_back(arith::ref::quantise_block(
            block, moving ? matrix.mantissa_bits_moving : matrix.mantissa_bits_stationary, flags));
      } else {
        operand.micro_blocks.push_back(arith::ref::quantise_micro_block(
            block, moving ? matrix.element_moving : matrix.element_stationary, matrix.micro_scale,
            flags));
      }
    }
  }
  return operand;
}

double block_float_sum(const ProductRules& rules, const Operand& x, const Operand& w,
                       std::int64_t channel) {
  arith::WideAccumulator sum(rules.matrix.long_format);
  arith::StickyFlags flags;
  const int scale = 2 - arith::exponent_bias(rules.moving_format) -
                    arith::exponent_bias(rules.stationary_format) -
                    rules.matrix.mantissa_bits_moving - rules.matrix.mantissa_bits_stationary;
  for (std::size_t i = 0; i < x.blocks.size(); ++i) {
    sum.add_product(arith::ref::block_dot(x.blocks[i], w.blocks[i]),
                    x.blocks[i].exponent + w.blocks[i].exponent + scale);
  }
  if (rules.bias != nullptr) {
    sum.add_value(arith::accumulator_bias(rules.bias->format, bias_element(rules, channel), flags));
  }
  return sum.round_to(rules.output_format);
}

double micro_sum(const ProductRules& rules, const Operand& x, const Operand& w,
                 std::int64_t channel) {
  arith::WideAccumulator sum;
  arith::StickyFlags flags;
  for (std::size_t i = 0; i < x.micro_blocks.size(); ++i) {
    if (x.block_present[i] == 0) continue;
    if (x.micro_blocks[i].scale == arith::kMicroScaleNan) return std::nan("");
    if (w.micro_blocks[i].scale == arith::kMicroScaleNan) return std::nan("");
    arith::ref::add_micro_dot(rules.matrix.element_moving, x.micro_blocks[i],
                              rules.matrix.element_stationary, w.micro_blocks[i], sum);
  }
  if (rules.bias != nullptr) {
    sum.add_value(arith::accumulator_bias(rules.bias->format, bias_element(rules, channel), flags));
  }
  return sum.round_to(rules.output_format);
}

double float_sum(const ProductRules& rules, const Operand& x, const Operand& w,
                 std::int64_t channel) {
  double sum = bias_value(rules, channel);
  for (std::size_t k = 0; k < x.values.size(); ++k) {
    if (x.present[k] != 0) sum += x.values[k] * w.values[k];
  }
  return arith::round_value(rules.output_format, sum);
}

// Channel-wise with f16 or bf16 operands: binary32, each product and each sum rounded.
double narrow_channel_wise_sum(const ProductRules& rules, const Operand& x, const Operand& w,
                               std::int64_t channel) {
  float sum = static_cast<float>(bias_value(rules, channel));
  for (std::size_t k = 0; k < x.values.size(); ++k) {
    if (x.present[k] == 0) continue;
    const float product = static_cast<float>(x.values[k]) * static_cast<float>(w.values[k]);
    sum = sum + product;
  }
  return arith::round_value(rules.output_format, static_cast<double>(sum));
}

// Modulo 2^32, as the int32 arithmetic of the array.
std::int32_t integer_sum(const ProductRules& rules, const Operand& x, const Operand& w,
                         std::int64_t channel) {
  const std::int32_t zero_x = rules.integer->moving_zero_point;
  const std::int32_t zero_w = of_channel(rules.integer->stationary_zero_points, channel, 0);
  auto sum = static_cast<std::uint32_t>(static_cast<std::int64_t>(bias_value(rules, channel)));
  for (std::size_t k = 0; k < x.values.size(); ++k) {
    if (x.present[k] == 0) continue;
    sum += static_cast<std::uint32_t>(static_cast<std::int32_t>(x.values[k]) - zero_x) *
           static_cast<std::uint32_t>(static_cast<std::int32_t>(w.values[k]) - zero_w);
  }
  return static_cast<std::int32_t>(sum);
}

double product_result(const ProductRules& rules, const Operand& x, const Operand& w,
                      std::int64_t channel) {
  const PostProcess& post = *rules.post;
  if (rules.matrix.kind == MatrixKind::kInteger) {
    const std::int32_t sum = integer_sum(rules, x, w, channel);
    if (!post.requantise) return static_cast<double>(sum);
    const std::int32_t y = arith::requantise(sum, of_channel(post.multipliers, channel, 1.0f),
                                             post.output_zero_point, rules.output_format);
    return static_cast<double>(std::clamp(y, post.clamp_low, post.clamp_high));
  }
  double y = 0.0;
  if (rules.quantised()) {
    y = block_float_sum(rules, x, w, channel);
  } else if (rules.microscaled()) {
    y = micro_sum(rules, x, w, channel);
  } else if (rules.channel_wise && rules.moving_format != Format::kF32) {
    y = narrow_channel_wise_sum(rules, x, w, channel);
  } else {
    y = float_sum(rules, x, w, channel);
  }
  if (post.activation.function == UnaryFunction::kIdentity) return y;
  return arith::evaluate(post.activation, y, rules.output_format);
}

// The input index at a position of the (dilated, padded) input, or -1.
std::int64_t sample_index(std::int64_t position, std::int64_t input_dilation, std::int64_t extent) {
  if (position < 0 || position % input_dilation != 0) return -1;
  const std::int64_t index = position / input_dilation;
  return index < extent ? index : -1;
}

ProductRules rules_of(const graph::Graph& graph, const graph::Node& node,
                      std::span<const Tensor* const> inputs) {
  ProductRules rules;
  rules.moving_format = inputs[0]->format;
  rules.stationary_format = inputs[1]->format;
  rules.output_format = graph.tensor(node.outputs[0]).format;
  rules.bias = inputs.size() > 2 ? inputs[2] : nullptr;
  return rules;
}

// The terms of output channel `oc`: weights [oc][channel][tap] in the order (tap, channel).
std::vector<const std::byte*> channel_terms(const Tensor& w, std::int64_t oc) {
  const std::int64_t channels = w.dims[1], taps = w.dims[2] * w.dims[3];
  std::vector<const std::byte*> terms;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t c = 0; c < channels; ++c) {
      terms.push_back(w.bytes.data() + ((oc * channels + c) * taps + tap) * format_bytes(w.format));
    }
  }
  return terms;
}

struct OutputPixel {
  std::int64_t image, group, row, column;
};

std::vector<const std::byte*> pixel_terms(const graph::ConvAttributes& conv, const Tensor& x,
                                          const Tensor& w, const OutputPixel& pixel) {
  std::vector<const std::byte*> terms;
  for (std::int64_t ky = 0; ky < w.dims[2]; ++ky) {
    for (std::int64_t kx = 0; kx < w.dims[3]; ++kx) {
      const std::int64_t iy =
          sample_index(pixel.row * conv.stride_h + ky * conv.dilation_h - conv.pad_top,
                       conv.input_dilation_h, x.dims[2]);
      const std::int64_t ix =
          sample_index(pixel.column * conv.stride_w + kx * conv.dilation_w - conv.pad_left,
                       conv.input_dilation_w, x.dims[3]);
      for (std::int64_t c = 0; c < w.dims[1]; ++c) {
        const std::int64_t plane = pixel.image * x.dims[1] + pixel.group * w.dims[1] + c;
        const bool there = iy >= 0 && ix >= 0;
        terms.push_back(there ? x.bytes.data() + ((plane * x.dims[2] + iy) * x.dims[3] + ix) *
                                                     format_bytes(x.format)
                              : nullptr);
      }
    }
  }
  return terms;
}

// y * (bias + alpha * mean of squares)^-beta over the channels of [N, C, H, W], every step rounded.
void normalise(const LocalResponse& response, Tensor& y) {
  constexpr Format kF32 = Format::kF32;
  const std::int64_t channels = y.dims[1], pixels = y.dims[2] * y.dims[3];
  const Tensor x = y;
  const auto place = [&](std::int64_t image, std::int64_t channel, std::int64_t pixel) {
    return ((image * channels + channel) * pixels + pixel) * format_bytes(y.format);
  };
  const auto binary = [](BinaryFunction function, double a, double b) {
    return arith::evaluate(function, a, b, kF32);
  };
  const auto unary = [](UnaryFunction function, double a) {
    return arith::evaluate({function, 0, 0}, a, kF32);
  };
  const auto normalised = [&](std::int64_t image, std::int64_t channel, std::int64_t pixel) {
    const auto at = [&](std::int64_t c) {
      return arith::read_element(x.format, x.bytes.data() + place(image, c, pixel));
    };
    arith::ElementSum sum(kF32);
    for (std::int64_t c = channel - response.before(); c <= channel + response.behind(); ++c) {
      if (c >= 0 && c < channels) sum.add(unary(UnaryFunction::kSquare, at(c)));
    }
    const double scaled = binary(BinaryFunction::kMultiply, sum.mean(response.size, kF32),
                                 static_cast<double>(response.alpha));
    const double logarithm = unary(UnaryFunction::kLog, binary(BinaryFunction::kAdd, scaled,
                                                               static_cast<double>(response.bias)));
    const double power = unary(UnaryFunction::kExp, binary(BinaryFunction::kMultiply, logarithm,
                                                           static_cast<double>(-response.beta)));
    return arith::evaluate(BinaryFunction::kMultiply, at(channel), power, y.format);
  };
  for (std::int64_t image = 0; image < y.dims[0]; ++image) {
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        arith::write_element(y.format, normalised(image, channel, pixel),
                             y.bytes.data() + place(image, channel, pixel));
      }
    }
  }
}

}  // namespace

Tensor reference_conv(const graph::Graph& graph, const graph::Node& node,
                      std::span<const Tensor* const> inputs) {
  const auto& conv = node.as<graph::ConvAttributes>();
  const Tensor& x = *inputs[0];
  const Tensor& w = *inputs[1];
  ProductRules rules = rules_of(graph, node, inputs);
  rules.matrix = conv.matrix;
  rules.cut = conv.cut;
  rules.channels = static_cast<std::size_t>(w.dims[1]);
  rules.channel_wise = conv.channel_wise;
  rules.integer = &conv.integer;
  rules.post = &conv.post;
  std::vector<Operand> weights;
  for (std::int64_t oc = 0; oc < w.dims[0]; ++oc) {
    weights.push_back(read_operand(rules, channel_terms(w, oc), w.format, Side::kStationary));
  }
  Tensor y = Tensor::zeros(rules.output_format, graph.tensor(node.outputs[0]).dims);
  const std::int64_t per_group = w.dims[0] / conv.groups;
  for (std::int64_t n = 0; n < y.dims[0]; ++n) {
    for (std::int64_t group = 0; group < conv.groups; ++group) {
      for (std::int64_t row = 0; row < y.dims[2]; ++row) {
        for (std::int64_t column = 0; column < y.dims[3]; ++column) {
          const Operand pixel = read_operand(
              rules, pixel_terms(conv, x, w, {n, group, row, column}), x.format, Side::kMoving);
          for (std::int64_t o = 0; o < per_group; ++o) {
            const std::int64_t oc = group * per_group + o;
            const std::int64_t at = ((n * y.dims[1] + oc) * y.dims[2] + row) * y.dims[3] + column;
            arith::write_element(
                y.format, product_result(rules, pixel, weights[static_cast<std::size_t>(oc)], oc),
                y.bytes.data() + at * format_bytes(y.format));
          }
        }
      }
    }
  }
  if (conv.post.local_response.enabled()) normalise(conv.post.local_response, y);
  return y;
}

Tensor reference_matmul(const graph::Graph& graph, const graph::Node& node,
                        std::span<const Tensor* const> inputs) {
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const Tensor& a = *inputs[0];
  const Tensor& b = *inputs[1];
  ProductRules rules = rules_of(graph, node, inputs);
  const std::size_t rank = a.dims.size();
  const std::int64_t m = a.dims[rank - 2], inner = a.dims[rank - 1], n = b.dims.back();
  rules.matrix = matmul.matrix;
  rules.channels = static_cast<std::size_t>(inner);
  rules.integer = &matmul.integer;
  rules.post = &matmul.post;
  Tensor y = Tensor::zeros(rules.output_format, graph.tensor(node.outputs[0]).dims);
  const std::int64_t batches = element_count(a.dims) / std::max<std::int64_t>(1, m * inner);
  std::vector<const std::byte*> terms(static_cast<std::size_t>(inner));
  std::byte* out = y.bytes.data();
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const std::int64_t matrix_b = b.dims.size() == 2 ? 0 : batch;
    std::vector<Operand> columns;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t k = 0; k < inner; ++k) {
        terms[static_cast<std::size_t>(k)] =
            b.bytes.data() + ((matrix_b * inner + k) * n + j) * format_bytes(b.format);
      }
      columns.push_back(read_operand(rules, terms, b.format, Side::kStationary));
    }
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t k = 0; k < inner; ++k) {
        terms[static_cast<std::size_t>(k)] =
            a.bytes.data() + ((batch * m + i) * inner + k) * format_bytes(a.format);
      }
      const Operand row = read_operand(rules, terms, a.format, Side::kMoving);
      for (std::int64_t j = 0; j < n; ++j, out += format_bytes(y.format)) {
        arith::write_element(
            y.format, product_result(rules, row, columns[static_cast<std::size_t>(j)], j), out);
      }
    }
  }
  return y;
}

}  // namespace tessera::host

// Attention as one operator, and the rotary embedding. V is the vector format; the rest is f32.
//
//   Attention   w = q kt;  s = w * scale;  with softcap: s = tanh(s / cap) * cap;
//               s = s + bias, which is -inf where a mask or causality forbids a place;
//               m = max(s), at least the smallest finite number;  d = s - m;  e = exp(d) V;
//               t = sum(e), at least 1/2;  r = 1/t;  p = e * r V;  y = p v V
//               A row that may look nowhere is zero. Heads that share a key are rows of one product
//   RotaryEmbedding   a = c x1;  b = s x2;  y1 = a - b V;  g = s x1;  h = c x2;  y2 = g + h V
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "graph/composer.h"
#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

constexpr Format kF32 = Format::kF32;

struct AttentionSizes {
  std::int64_t batch, heads, shared_heads, rows, columns, width, value_width, past;
};

// [B, S, heads * D] as [B, heads, S, D]; of rank 4 already.
TensorId by_heads(Composer& make, TensorId x, std::int64_t heads) {
  const Shape dims = make.dims(x);
  if (dims.size() == 4) return x;
  const TensorId split = make.reshaped(x, {dims[0], dims[1], heads, dims[2] / heads});
  return make.transposed(split, {0, 2, 1, 3});
}

// 0 where row r may look at column c <= r + past, -inf elsewhere; [rows, columns].
TensorId causal_bias(Composer& make, const AttentionSizes& sizes) {
  std::vector<double> values;
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    for (std::int64_t column = 0; column < sizes.columns; ++column) {
      values.push_back(column <= row + sizes.past ? 0.0 : -std::numeric_limits<double>::infinity());
    }
  }
  return make.constant({sizes.rows, sizes.columns}, values, kF32);
}

// The scores with mask and causality, [B, heads, S, T].
TensorId with_bias(Op& op, Composer& make, TensorId scores, const AttentionSizes& sizes) {
  scores = make.reshaped(scores, {sizes.batch, sizes.heads, sizes.rows, sizes.columns});
  if (op.integer("is_causal", 0) != 0) {
    scores = make.binary(BinaryFunction::kAdd, scores, causal_bias(make, sizes), kF32);
  }
  if (!op.has_input(3)) return scores;
  TensorId mask = op.at.value(op.input(3));
  if (op.input_type(3).format == Format::kBool) {
    const TensorId forbidden = make.scalar(-std::numeric_limits<double>::infinity());
    mask = make.binary(BinaryFunction::kUnless, forbidden, mask, kF32);
  }
  return make.binary(BinaryFunction::kAdd, scores, mask, kF32);
}

// Probabilities in V.
TensorId safe_softmax(Composer& make, TensorId scores) {
  const std::vector<std::int64_t> axes = {3};
  const TensorId largest = make.reduce(ReduceFunction::kMaximum, scores, axes, kF32);
  const TensorId lowest = make.scalar(-static_cast<double>(std::numeric_limits<float>::max()));
  const TensorId finite = make.binary(BinaryFunction::kMaximum, largest, lowest, kF32);
  const TensorId difference = make.binary(BinaryFunction::kSubtract, scores, finite, kF32);
  const TensorId power = make.unary(UnaryFunction::kExp, difference, make.vector());
  const TensorId sum = make.reduce(ReduceFunction::kSum, power, axes, kF32);
  const TensorId total = make.binary(BinaryFunction::kMaximum, sum, make.scalar(0.5), kF32);
  const TensorId reciprocal = make.unary(UnaryFunction::kReciprocal, total, kF32);
  return make.binary(BinaryFunction::kMultiply, power, reciprocal, make.vector());
}

std::string attention_refusal(const Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return reason;
  for (std::size_t i = 0; i < 6; ++i) {
    if (!op.has_input(i)) continue;
    const Format format = op.input_type(i).format;
    if (!is_vector_float(format) && !(i == 3 && format == Format::kBool)) {
      return fmt::format("operator 'Attention': no vector arithmetic in {}", format_name(format));
    }
    if (i < 3 && element_count(op.input_dims(i)) == 0) {
      return "operator 'Attention': a tensor without elements";
    }
  }
  if (op.has_output(3)) return "operator 'Attention': its scores are an output";
  if (op.has_input(6)) return "operator 'Attention': lengths without padding";
  return "";
}

TensorId scores_of(Op& op, Composer& make, TensorId q, TensorId k, const AttentionSizes& sizes) {
  const std::int64_t images = sizes.batch * sizes.shared_heads;
  const std::int64_t rows = sizes.heads / sizes.shared_heads * sizes.rows;
  const TensorId a = make.reshaped(q, {images, rows, sizes.width});
  const TensorId b =
      make.transposed(make.reshaped(k, {images, sizes.columns, sizes.width}), {0, 2, 1});
  const double scale = op.has_attribute("scale")
                           ? op.real("scale", 1.0f)
                           : 1.0 / std::sqrt(static_cast<double>(sizes.width));
  TensorId scores =
      make.binary(BinaryFunction::kMultiply, make.matmul(a, b, {}, kF32), make.scalar(scale), kF32);
  const float cap = op.real("softcap", 0.0f);
  if (cap > 0.0f) {
    const TensorId bound = make.scalar(cap);
    scores =
        make.binary(BinaryFunction::kDivide, scores, bound, kF32, {UnaryFunction::kTanh, 0, 0});
    scores = make.binary(BinaryFunction::kMultiply, scores, bound, kF32);
  }
  return scores;
}

}  // namespace

Lowered lower_attention(Op& op) {
  if (std::string reason = attention_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const TensorId q = by_heads(make, op.at.value(op.input(0)), op.integer("q_num_heads", 1));
  TensorId k = by_heads(make, op.at.value(op.input(1)), op.integer("kv_num_heads", 1));
  TensorId v = by_heads(make, op.at.value(op.input(2)), op.integer("kv_num_heads", 1));
  std::int64_t past = 0;
  if (op.has_input(4) && op.has_input(5) && element_count(op.input_dims(4)) > 0) {
    past = op.input_dims(4)[2];
    k = make.joined({op.at.value(op.input(4)), k}, 2);
    v = make.joined({op.at.value(op.input(5)), v}, 2);
  }
  const Shape& qd = make.dims(q);
  const Shape& kd = make.dims(k);
  const AttentionSizes sizes = {qd[0], qd[1], kd[1], qd[2], kd[2], qd[3], make.dims(v)[3], past};
  if (op.has_input(3)) {
    const Shape& mask = op.input_dims(3);
    if (mask.size() < 2 || mask.back() != sizes.columns) {
      return Lowered::host("operator 'Attention': a mask shorter than the keys");
    }
  }
  const TensorId scores = with_bias(op, make, scores_of(op, make, q, k, sizes), sizes);
  const std::int64_t images = sizes.batch * sizes.shared_heads;
  const std::int64_t rows = sizes.heads / sizes.shared_heads * sizes.rows;
  const TensorId p = make.reshaped(safe_softmax(make, scores), {images, rows, sizes.columns});
  const TensorId y = make.matmul(p, make.reshaped(v, {images, sizes.columns, sizes.value_width}),
                                 {}, make.vector());
  TensorId heads = make.reshaped(y, {sizes.batch, sizes.heads, sizes.rows, sizes.value_width});
  if (op.output_dims(0).size() == 3) heads = make.transposed(heads, {0, 2, 1, 3});
  make.output(0, heads);
  if (op.has_output(1)) make.output(1, k);
  if (op.has_output(2)) make.output(2, v);
  return Lowered::done();
}

namespace {

// Rows of a table [positions, width] by constant position numbers; invalid where one lies outside
// or they take too many copies.
TensorId rows_of(Composer& make, TensorId table, const Tensor& positions) {
  const Shape dims = make.dims(table);
  IndexMap rows = integers(positions);
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= dims[0]) return {};
  }
  Shape result = positions.dims;
  result.push_back(dims[1]);
  const std::int64_t count = element_count(positions.dims);
  auto move = move_by_index_maps(dims, {std::move(rows), identity_map(dims[1])});
  if (!move) return {};
  return make.reshaped(make.moved(table, std::move(*move), {count, dims[1]}), result);
}

}  // namespace

Lowered lower_rotary_embedding(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (!is_vector_float(op.input_type(0).format) || (op.has_input(3) && op.constant(3) == nullptr)) {
    return Lowered::host("operator 'RotaryEmbedding': positions are computed at run time");
  }
  Composer make(op);
  const Shape& in = op.input_dims(0);
  TensorId x = op.at.value(op.input(0));
  const bool heads_last = in.size() == 3;  // [B, S, heads * D]
  if (heads_last) {
    const std::int64_t heads = op.integer("num_heads", 1);
    x = make.reshaped(x, {in[0], in[1], heads, in[2] / heads});
  }
  TensorId waves[2];
  for (std::size_t i = 0; i < 2; ++i) {
    waves[i] = op.at.value(op.input(1 + i));
    if (op.has_input(3)) waves[i] = rows_of(make, waves[i], *op.constant(3));
    if (!waves[i].valid())
      return Lowered::host(
          "operator 'RotaryEmbedding': too many positions, or one outside the tables");
    const Shape d = make.dims(waves[i]);  // [B, S, r / 2]
    waves[i] = make.reshaped(waves[i],
                             heads_last ? Shape{d[0], d[1], 1, d[2]} : Shape{d[0], 1, d[1], d[2]});
  }
  const Shape dims = make.dims(x);
  const std::int64_t half = make.dims(waves[0])[3];
  const bool interleaved = op.integer("interleaved", 0) != 0;
  const TensorId turned = make.part(x, 3, 0, 2 * half);
  const Shape half_dims = {dims[0], dims[1], dims[2], half};
  TensorId parts[2];
  for (std::int64_t i = 0; i < 2; ++i) {
    if (interleaved) {
      const TensorId pairs = make.reshaped(turned, {dims[0], dims[1], dims[2], half, 2});
      parts[i] = make.reshaped(make.part(pairs, 4, i, 1), half_dims);
    } else {
      parts[i] = make.part(turned, 3, i * half, half);
    }
  }
  const auto product = [&](TensorId wave, TensorId part) {
    return make.binary(BinaryFunction::kMultiply, wave, part, kF32);
  };
  const TensorId first = make.binary(BinaryFunction::kSubtract, product(waves[0], parts[0]),
                                     product(waves[1], parts[1]), make.vector());
  const TensorId second = make.binary(BinaryFunction::kAdd, product(waves[1], parts[0]),
                                      product(waves[0], parts[1]), make.vector());
  TensorId joined;
  if (interleaved) {
    const Shape pair = {dims[0], dims[1], dims[2], half, 1};
    joined = make.joined({make.reshaped(first, pair), make.reshaped(second, pair)}, 4);
    joined = make.reshaped(joined, {dims[0], dims[1], dims[2], 2 * half});
  } else {
    joined = make.joined({first, second}, 3);
  }
  if (2 * half < dims[3]) {
    joined = make.joined({joined, make.part(x, 3, 2 * half, dims[3] - 2 * half)}, 3);
  }
  make.output(0, joined);
  return Lowered::done();
}

}  // namespace tessera::graph

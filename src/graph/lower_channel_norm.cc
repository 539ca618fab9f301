// Normalisations over channels, groups and vectors, step by step with the format of every step. V
// is the vector format; everything else is f32.
//
//   LRN                  q = x*x;  a = mean of q over `size` channels around, padding counted;
//                        b = a * alpha;  c = b + bias;  l = log(c);  e = l * -beta;  p = exp(e);
//                        y = x * p V
//   LpNormalization      n = sum |x| (p = 1) or root of sum x*x (p = 2);
//                        m = max(n, 2^-149), so that a row of zeros stays zero;  y = x / m V
//   RMSNormalization     q = x*x;  v = mean(q);  w = sqrt(v + epsilon) (two roundings);  r = 1/w;
//                        n = x * r;  y = n * scale V
//   GroupNormalization   u = mean(x) of a group;  d = x - u;  q = d*d;  v = mean(q);
//                        w = sqrt(v + epsilon);  r = 1/w;  n = d * r;  g = n * scale;
//                        y = g + bias V
#include <fmt/format.h>

#include <numeric>

#include "graph/composer.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

constexpr Format kF32 = Format::kF32;

std::vector<std::int64_t> axes_from(std::int64_t first, std::size_t rank) {
  std::vector<std::int64_t> axes(rank - static_cast<std::size_t>(first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

// 1 / sqrt(mean of x*x over the axes + epsilon)
TensorId reciprocal_root_mean_square(Composer& make, TensorId x,
                                     const std::vector<std::int64_t>& axes, double epsilon) {
  const TensorId square = make.unary(UnaryFunction::kSquare, x, kF32);
  const TensorId mean = make.reduce(ReduceFunction::kMean, square, axes, kF32);
  const TensorId root = make.binary(BinaryFunction::kAdd, mean, make.scalar(epsilon), kF32,
                                    {UnaryFunction::kSquareRoot, 0, 0});
  return make.unary(UnaryFunction::kReciprocal, root, kF32);
}

// The most pixels that divide the image and fit 128 partitions well; all of them where none does.
std::int64_t pixels_side_by_side(std::int64_t pixels) {
  constexpr std::int64_t kMost = 128;
  for (std::int64_t count = kMost; count > kMost / 2; --count) {
    if (pixels % count == 0) return count;
  }
  return pixels;
}

}  // namespace

Lowered lower_lrn(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const Shape& dims = op.input_dims(0);
  const std::int64_t size = op.integer("size", 1);
  // Pixels on partitions and channels behind each other, for the window slides over channels.
  const std::int64_t inner = element_count(dims) / (dims[0] * dims[1]);
  const std::int64_t lanes = pixels_side_by_side(inner);
  const TensorId image =
      make.reshaped(op.at.value(op.input(0)), {dims[0], dims[1], inner / lanes, lanes});
  const TensorId x = make.transposed(image, {0, 3, 2, 1});
  PoolAttributes pool;
  pool.function = PoolFunction::kAverage;
  pool.window_w = size;
  pool.pad_left = (size - 1) / 2;
  pool.pad_right = size / 2;
  pool.include_padding = true;
  const TensorId square = make.unary(UnaryFunction::kSquare, x, kF32);
  const TensorId mean = op.at.emit(op, "window", {square}, pool, kF32, make.dims(x));
  const TensorId scaled =
      make.binary(BinaryFunction::kMultiply, mean, make.scalar(op.real("alpha", 1e-4f)), kF32);
  // A power of a constant exponent by two tables in place of logarithm, product and exponential of
  // every element.
  const TensorId logarithm =
      make.binary(BinaryFunction::kAdd, scaled, make.scalar(op.real("bias", 1.0f)), kF32,
                  {UnaryFunction::kLog, 0, 0});
  const TensorId power =
      make.binary(BinaryFunction::kMultiply, logarithm, make.scalar(-op.real("beta", 0.75f)), kF32,
                  {UnaryFunction::kExp, 0, 0});
  const TensorId y = make.binary(BinaryFunction::kMultiply, x, power, make.vector());
  make.output(0, make.transposed(y, {0, 3, 2, 1}));
  return Lowered::done();
}

Lowered lower_lp_normalization(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const std::int64_t axis = positive_axis(op.integer("axis", -1), op.input_dims(0).size());
  const ReduceFunction norm =
      op.integer("p", 2) == 1 ? ReduceFunction::kSumAbsolute : ReduceFunction::kRootSumSquare;
  const TensorId x = op.at.value(op.input(0));
  const TensorId length = make.binary(BinaryFunction::kMaximum, make.reduce(norm, x, {axis}, kF32),
                                      make.scalar(0x1p-149), kF32);
  make.output(0, BinaryFunction::kDivide, x, length);
  return Lowered::done();
}

Lowered lower_rms_normalization(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const std::size_t rank = op.input_dims(0).size();
  const std::int64_t first = positive_axis(op.integer("axis", -1), rank);
  const TensorId x = op.at.value(op.input(0));
  const TensorId r =
      reciprocal_root_mean_square(make, x, axes_from(first, rank), op.real("epsilon", 1e-5f));
  const TensorId normal = make.binary(BinaryFunction::kMultiply, x, r, kF32);
  make.output(0, BinaryFunction::kMultiply, normal, op.at.value(op.input(1)));
  return Lowered::done();
}

Lowered lower_group_normalization(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const Shape& dims = op.input_dims(0);
  const std::int64_t groups = op.integer("num_groups", 1);
  if (dims.size() < 2 || groups < 1 || dims[1] % groups != 0) {
    return Lowered::host("operator 'GroupNormalization': the groups do not divide the channels");
  }
  const std::int64_t inner = element_count(dims) / (dims[0] * dims[1]);
  const TensorId x =
      make.reshaped(op.at.value(op.input(0)), {dims[0], groups, dims[1] / groups * inner});
  const TensorId mean = make.reduce(ReduceFunction::kMean, x, {2}, kF32);
  const TensorId difference = make.binary(BinaryFunction::kSubtract, x, mean, kF32);
  const TensorId r = reciprocal_root_mean_square(make, difference, {2}, op.real("epsilon", 1e-5f));
  TensorId normal = make.binary(BinaryFunction::kMultiply, difference, r, kF32);
  // Scale and bias: one per channel, before opset 21 one per group.
  const std::int64_t count = op.input_dims(1)[0];
  if (count == dims[1]) normal = make.reshaped(normal, {dims[0], dims[1], inner});
  const TensorId scale = make.reshaped(op.at.value(op.input(1)), {count, 1});
  const TensorId bias = make.reshaped(op.at.value(op.input(2)), {count, 1});
  const TensorId scaled = make.binary(BinaryFunction::kMultiply, normal, scale, kF32);
  make.output(0, make.binary(BinaryFunction::kAdd, scaled, bias, make.vector()));
  return Lowered::done();
}

}  // namespace tessera::graph

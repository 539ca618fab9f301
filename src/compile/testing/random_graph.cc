#include "compile/testing/random_graph.h"

#include <algorithm>

namespace tessera::compile::testing {
namespace {

using graph::TensorId;

class Growth {
 public:
  explicit Growth(std::uint64_t seed) : builder_(seed) {}

  std::shared_ptr<const graph::Graph> run() {
    const Shape dims = {pick(3) == 0 ? 2 : 1, 1 + pick(40), 4 + pick(24), 4 + pick(24)};
    images_.push_back(builder_.unary(builder_.input(dims, Format::kF32), UnaryFunction::kIdentity));
    const std::int64_t layers = 2 + pick(7);
    for (std::int64_t i = 0; i < layers; ++i) grow();
    TensorId last = images_.back();
    if (pick(3) == 0) last = attention(last);
    builder_.output(builder_.unary(last, UnaryFunction::kIdentity, Format::kF32));
    if (pick(4) == 0) builder_.output(images_[images_.size() / 2]);
    return builder_.take();
  }

 private:
  std::int64_t pick(std::int64_t count) {
    return static_cast<std::int64_t>(builder_.random()() % static_cast<std::uint64_t>(count));
  }
  const Shape& dims(TensorId id) const { return builder_.dims(id); }

  void grow() {
    // Mostly the newest image, sometimes an older one.
    const TensorId x =
        pick(4) == 0
            ? images_[static_cast<std::size_t>(pick(static_cast<std::int64_t>(images_.size())))]
            : images_.back();
    images_.push_back(layer(x));
  }

  TensorId layer(TensorId x) {
    constexpr PoolFunction kPools[] = {PoolFunction::kMaximum, PoolFunction::kAverage,
                                       PoolFunction::kMedian};
    const Shape in = dims(x);
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
        return convolution(x);
      case 3:
        return builder_.conv(x, {in[1], 3, 1 + pick(2), 1, in[1], true});
      case 4:
        return in[2] >= 3 && in[3] >= 3 ? builder_.pool(x, kPools[pick(3)], 3, 1 + pick(2), 1)
                                        : x_unary(x);
      case 5:
        return x_unary(x);
      case 6:
        return squeeze(x);
      case 7:
        return add_older(x);
      case 8:
        return builder_.concat({convolution(x), builder_.unary(x, UnaryFunction::kRelu)}, 1);
      case 9:
        return in[2] * in[3] <= 300 ? builder_.upsample(x, 2) : builder_.pad(x, 1);
      case 10:
        return in[1] > 3 ? builder_.slice(x, 1, pick(in[1] - 1), 1)
                         : builder_.transpose(x, {0, 1, 3, 2});
      default:
        return builder_.conv(x, {1 + pick(20), 2, 1, 1, 1, false, 1, 2});
    }
  }

  TensorId x_unary(TensorId x) { return builder_.unary(x, UnaryFunction::kRelu); }

  TensorId convolution(TensorId x) {
    const Shape in = dims(x);
    const bool same = pick(2) == 0;
    // Concatenation in layer() needs equal extents: kernel 3 with pad 1, or kernel 1.
    const std::int64_t kernel = same ? 3 : 1;
    const std::int64_t groups = in[1] % 2 == 0 && pick(4) == 0 ? 2 : 1;
    return builder_.conv(x, {groups * (1 + pick(80)), kernel, 1, kernel / 2, groups});
  }

  // Squeeze and excite: mean over the image, product with it.
  TensorId squeeze(TensorId x) {
    TensorId mean = builder_.reduce(x, {2, 3}, ReduceFunction::kMean);
    mean = builder_.conv(mean, {dims(x)[1], 1});
    return builder_.binary(x, mean, BinaryFunction::kMultiply);
  }

  TensorId add_older(TensorId x) {
    for (const TensorId other : images_) {
      if (dims(other) == dims(x) && other != x) {
        return builder_.binary(x, other, BinaryFunction::kAdd);
      }
    }
    return builder_.binary(x, builder_.constant({1, dims(x)[1], 1, 1}), BinaryFunction::kAdd);
  }

  // Pixels as rows, channels as features: projections, scores, softmax-like row maximum, values.
  TensorId attention(TensorId x) {
    const Shape in = dims(x);
    const std::int64_t pixels = in[2] * in[3];
    TensorId rows = builder_.reshape(x, {in[0], in[1], pixels});
    rows = builder_.transpose(rows, {0, 2, 1});
    const std::int64_t width = 8 + pick(30);
    const TensorId q = builder_.matmul(rows, builder_.constant({in[1], width}));
    const TensorId k = builder_.matmul(rows, builder_.constant({in[1], width}));
    TensorId scores = builder_.matmul(q, builder_.transpose(k, {0, 2, 1}));
    const TensorId most = builder_.reduce(scores, {2}, ReduceFunction::kMaximum);
    scores = builder_.binary(scores, most, BinaryFunction::kSubtract);
    return builder_.matmul(scores, q);
  }

  GraphBuilder builder_;
  std::vector<TensorId> images_;
};

}  // namespace

std::shared_ptr<const graph::Graph> random_graph(std::uint64_t seed) { return Growth(seed).run(); }

}  // namespace tessera::compile::testing

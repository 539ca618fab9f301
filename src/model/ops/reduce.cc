#include "model/ops/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "arith/function.h"
#include "base/check.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

enum class Reduction {
  kSum,
  kMean,
  kMaximum,
  kMinimum,
  kProduct,
  kL1,
  kL2,
  kSumSquare,
  kLogSum,
  kLogSumExp
};

Reduction reduction_of(const std::string& op) {
  if (op == "ReduceSum") return Reduction::kSum;
  if (op == "ReduceMean") return Reduction::kMean;
  if (op == "ReduceMax") return Reduction::kMaximum;
  if (op == "ReduceMin") return Reduction::kMinimum;
  if (op == "ReduceProd") return Reduction::kProduct;
  if (op == "ReduceL1") return Reduction::kL1;
  if (op == "ReduceL2") return Reduction::kL2;
  if (op == "ReduceSumSquare") return Reduction::kSumSquare;
  if (op == "ReduceLogSum") return Reduction::kLogSum;
  TESSERA_CHECK(op == "ReduceLogSumExp", "'{}'", op);
  return Reduction::kLogSumExp;
}

// One flag an axis: whether it is reduced. Axes are an input from opset 18 on (ReduceSum: 13).
Result<std::vector<bool>> reduced_axes(const Call& call) {
  const std::int64_t input_since = call.op_type() == "ReduceSum" ? 13 : 18;
  Integers given = call.attribute_integers("axes", {});
  if (call.opset() < input_since && call.has(1)) {
    return invalid(fmt::format("axes are an input from opset {} on", input_since));
  }
  if (call.has(1)) {
    TESSERA_TRY(given, call.integers(1));
  }
  TESSERA_TRY(const Integers axes, normalise_axes(given, call.rank(0)));
  const bool all = axes.empty() && call.attribute("noop_with_empty_axes", 0) == 0;
  std::vector<bool> reduced(call.dims(0).size(), all);
  for (const std::int64_t axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  return reduced;
}

// How values are taken in and combined.
template <typename W>
class Accumulator {
 public:
  explicit Accumulator(Reduction reduction) : reduction_(reduction) {}

  W start() const {
    switch (reduction_) {
      case Reduction::kProduct:
        return W{1};
      case Reduction::kMaximum:
        return lowest();
      case Reduction::kMinimum:
        return highest();
      default:
        return W{0};
    }
  }

  W add(W sum, W x) const {
    if constexpr (std::is_floating_point_v<W>) {
      switch (reduction_) {
        case Reduction::kProduct:
          return sum * x;
        case Reduction::kMaximum:
          return arith::maximum(sum, x);
        case Reduction::kMinimum:
          return arith::minimum(sum, x);
        case Reduction::kL1:
          return sum + std::fabs(x);
        case Reduction::kL2:
        case Reduction::kSumSquare:
          return sum + x * x;
        default:
          return sum + x;
      }
    } else {
      const auto a = static_cast<std::uint64_t>(sum);
      const auto b = static_cast<std::uint64_t>(x);
      switch (reduction_) {
        case Reduction::kProduct:
          return static_cast<W>(a * b);
        case Reduction::kMaximum:
          return std::max(sum, x);
        case Reduction::kMinimum:
          return std::min(sum, x);
        case Reduction::kL1:
          return static_cast<W>(x < W{0} ? a - b : a + b);
        case Reduction::kL2:
        case Reduction::kSumSquare:
          return static_cast<W>(a + b * b);
        default:
          return static_cast<W>(a + b);
      }
    }
  }

  W finish(W sum, std::int64_t count) const {
    if constexpr (std::is_floating_point_v<W>) {
      switch (reduction_) {
        case Reduction::kMean:
          return sum / static_cast<double>(count);
        case Reduction::kL2:
          return std::sqrt(sum);
        case Reduction::kLogSum:
          return arith::apply({UnaryFunction::kLog}, sum);
        default:
          return sum;
      }
    } else {
      switch (reduction_) {
        case Reduction::kMean:
          return count == 0 ? W{0} : static_cast<W>(sum / static_cast<W>(count));
        case Reduction::kL2:
          return static_cast<W>(double_to_integer(std::sqrt(static_cast<double>(sum))));
        case Reduction::kLogSum:
          return static_cast<W>(
              double_to_integer(arith::apply({UnaryFunction::kLog}, static_cast<double>(sum))));
        default:
          return sum;
      }
    }
  }

 private:
  static W lowest() {
    return std::is_floating_point_v<W> ? -std::numeric_limits<W>::infinity()
                                       : std::numeric_limits<W>::lowest();
  }
  static W highest() {
    return std::is_floating_point_v<W> ? std::numeric_limits<W>::infinity()
                                       : std::numeric_limits<W>::max();
  }

  Reduction reduction_;
};

// For every input position, the strides of the output position it is added to.
std::vector<std::int64_t> output_strides(const Shape& in, const std::vector<bool>& reduced) {
  Shape kept = in;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (reduced[axis]) kept[axis] = 1;
  }
  std::vector<std::int64_t> strides = strides_of(kept);
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (reduced[axis]) strides[axis] = 0;
  }
  return strides;
}

std::int64_t reduced_count(const Shape& in, const std::vector<bool>& reduced) {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < in.size(); ++axis) {
    if (reduced[axis]) count *= in[axis];
  }
  return count;
}

// log(sum(exp(x))) with the maximum taken out first.
void log_sum_exp(const Call& call, const std::vector<std::int64_t>& strides, Tensor& out) {
  const Reader<double> in(call.tensor(0));
  const auto count = static_cast<std::size_t>(element_count(out.dims));
  std::vector<double> top(count, -std::numeric_limits<double>::infinity());
  std::vector<double> sums(count, 0.0);
  walk<1>(call.dims(0), {strides}, [&](std::int64_t position, const auto& offsets) {
    double& found = top[static_cast<std::size_t>(offsets[0])];
    found = arith::maximum(found, in[position]);
  });
  for (double& value : top) value = std::isinf(value) ? 0.0 : value;
  walk<1>(call.dims(0), {strides}, [&](std::int64_t position, const auto& offsets) {
    const auto at = static_cast<std::size_t>(offsets[0]);
    sums[at] += arith::apply({UnaryFunction::kExp}, in[position] - top[at]);
  });
  const Writer<double> writer(out);
  for (std::size_t i = 0; i < count; ++i) {
    writer.set(static_cast<std::int64_t>(i), arith::apply({UnaryFunction::kLog}, sums[i]) + top[i]);
  }
}

}  // namespace

Result<Outputs> reduce_shape(const Call& call) {
  TESSERA_TRY(const std::vector<bool> reduced, reduced_axes(call));
  const bool keep = call.attribute("keepdims", 1) != 0;
  Shape dims;
  for (std::size_t axis = 0; axis < reduced.size(); ++axis) {
    if (!reduced[axis]) dims.push_back(call.dims(0)[axis]);
    if (reduced[axis] && keep) dims.push_back(1);
  }
  return one_output(call.format(0), std::move(dims));
}

Status reduce(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::vector<bool> reduced, reduced_axes(call));
  const Reduction reduction = reduction_of(call.op_type());
  const std::vector<std::int64_t> strides = output_strides(call.dims(0), reduced);
  if (reduction == Reduction::kLogSumExp) {
    log_sum_exp(call, strides, outputs[0]);
    return {};
  }
  const std::int64_t count = reduced_count(call.dims(0), reduced);
  with_working_type(call.format(0), [&]<typename W>() {
    const Accumulator<W> accumulator(reduction);
    const Reader<W> in(call.tensor(0));
    std::vector<W> sums(static_cast<std::size_t>(element_count(outputs[0].dims)),
                        accumulator.start());
    walk<1>(call.dims(0), {strides}, [&](std::int64_t position, const auto& offsets) {
      W& sum = sums[static_cast<std::size_t>(offsets[0])];
      sum = accumulator.add(sum, in[position]);
    });
    const Writer<W> out(outputs[0]);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      out.set(static_cast<std::int64_t>(i), accumulator.finish(sums[i], count));
    }
  });
  return {};
}

Result<Outputs> arg_reduce_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  Shape dims = call.dims(0);
  if (dims[static_cast<std::size_t>(axis)] == 0)
    return invalid(fmt::format("axis {} is empty", axis));
  if (call.attribute("keepdims", 1) != 0) {
    dims[static_cast<std::size_t>(axis)] = 1;
  } else {
    dims.erase(dims.begin() + axis);
  }
  return one_output(Format::kI64, std::move(dims));
}

// NaN counts as the extreme value, as in NumPy.
Status arg_reduce(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", 0), call.rank(0)));
  const bool want_largest = call.op_type() == "ArgMax";
  const bool last = call.attribute("select_last_index", 0) != 0;
  const AxisView view = view_axis(call.dims(0), axis);
  with_working_type(call.format(0), [&]<typename W>() {
    const Reader<W> in(call.tensor(0));
    const auto better = [&](W a, W b) {
      if (is_nan_value(a) || is_nan_value(b)) return is_nan_value(a) && !is_nan_value(b);
      return want_largest ? a > b : a < b;
    };
    auto out = outputs[0].as<std::int64_t>();
    for (std::int64_t outer = 0; outer < view.outer; ++outer) {
      for (std::int64_t inner = 0; inner < view.inner; ++inner) {
        const std::int64_t base = outer * view.length * view.inner + inner;
        std::int64_t best = 0;
        for (std::int64_t i = 1; i < view.length; ++i) {
          const W candidate = in[base + i * view.inner];
          const W champion = in[base + best * view.inner];
          if (better(candidate, champion) || (last && !better(champion, candidate))) best = i;
        }
        out[static_cast<std::size_t>(outer * view.inner + inner)] = best;
      }
    }
  });
  return {};
}

namespace {

// Before opset 13 the axis splits the tensor in a matrix, and whole rows are normalised.
Result<AxisView> softmax_view(const Call& call) {
  const bool flat = call.opset() < 13;
  const std::int64_t given = call.attribute("axis", flat ? 1 : -1);
  const std::int64_t rank = call.rank(0);
  if (flat && given == rank) return AxisView{element_count(call.dims(0)), 1, 1};
  TESSERA_TRY(const std::int64_t axis, normalise_axis(given, rank));
  AxisView view = view_axis(call.dims(0), axis);
  if (flat) view = {view.outer, view.length * view.inner, 1};
  return view;
}

void soften(std::vector<double>& row, bool logarithm) {
  const double top =
      *std::max_element(row.begin(), row.end(), [](double a, double b) { return a < b; });
  double sum = 0.0;
  for (double& x : row) {
    x -= top;
    sum += arith::apply({UnaryFunction::kExp}, x);
  }
  const double log_sum = arith::apply({UnaryFunction::kLog}, sum);
  for (double& x : row) {
    x = logarithm ? x - log_sum : arith::apply({UnaryFunction::kExp}, x) / sum;
  }
}

void harden(std::vector<double>& row) {
  const auto top = std::max_element(row.begin(), row.end()) - row.begin();
  std::fill(row.begin(), row.end(), 0.0);
  row[static_cast<std::size_t>(top)] = 1.0;
}

}  // namespace

Result<Outputs> softmax_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(softmax_view(call));
  return one_output(call.format(0), call.dims(0));
}

Status softmax(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const AxisView view, softmax_view(call));
  if (view.length == 0) return {};
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  std::vector<double> row(static_cast<std::size_t>(view.length));
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t inner = 0; inner < view.inner; ++inner) {
      const std::int64_t base = outer * view.length * view.inner + inner;
      for (std::int64_t i = 0; i < view.length; ++i) {
        row[static_cast<std::size_t>(i)] = in[base + i * view.inner];
      }
      call.op_type() == "Hardmax" ? harden(row) : soften(row, call.op_type() == "LogSoftmax");
      for (std::int64_t i = 0; i < view.length; ++i) {
        out.set(base + i * view.inner, row[static_cast<std::size_t>(i)]);
      }
    }
  }
  return {};
}

}  // namespace tessera::model::ops

// Reductions. One ONNX operator is one Reduce node; LogSum and LogSumExp are composed with binary32
// in between:
//
//   LogSum      s = sum(x) f32;  y = log(s)
//   LogSumExp   m = max(x);  d = x - m;  e = exp(d);  s = sum(e) f32;  l = log(s) f32;  y = l + m
//
// Over no axis they are functions of each element. Integers of at most 32 bits have sums and
// extremes; a sum beyond the format saturates.
#include "graph/lower_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "graph/composer.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

// Axes and shapes of a reduction.
struct Reduction {
  std::vector<std::int64_t> axes;  // ascending, non-negative
  bool keep_dims = true;
  bool identity = false;  // no axes and noop_with_empty_axes
  Shape kept_dims;        // with reduced axes as 1
};

// Nothing if the axes are not known at compile time.
bool read_reduction(const Op& op, Reduction& reduction) {
  const Shape& dims = op.input_dims(0);
  if (op.has_input(1)) {
    if (op.constant(1) == nullptr) return false;
    reduction.axes = integers(*op.constant(1));
  } else {
    reduction.axes = op.integer_list("axes");
  }
  reduction.keep_dims = op.integer("keepdims", 1) != 0;
  for (std::int64_t& axis : reduction.axes) axis = positive_axis(axis, dims.size());
  std::sort(reduction.axes.begin(), reduction.axes.end());
  if (reduction.axes.empty()) {
    reduction.identity = op.integer("noop_with_empty_axes", 0) != 0;
    reduction.axes.resize(dims.size());
    std::iota(reduction.axes.begin(), reduction.axes.end(), 0);
  }
  reduction.identity |= dims.empty();
  reduction.kept_dims = dims;
  for (const std::int64_t axis : reduction.axes) {
    reduction.kept_dims[static_cast<std::size_t>(axis)] = 1;
  }
  return true;
}

ReduceFunction reduce_of(const std::string& name) {
  if (name == "ReduceSum") return ReduceFunction::kSum;
  if (name == "ReduceMean") return ReduceFunction::kMean;
  if (name == "ReduceMax") return ReduceFunction::kMaximum;
  if (name == "ReduceMin") return ReduceFunction::kMinimum;
  if (name == "ReduceProd") return ReduceFunction::kProduct;
  if (name == "ReduceL1") return ReduceFunction::kSumAbsolute;
  if (name == "ReduceL2") return ReduceFunction::kRootSumSquare;
  TESSERA_CHECK(name == "ReduceSumSquare", "operator '{}' is no reduction", name);
  return ReduceFunction::kSumSquare;
}

Lowered unknown_axes(const Op& op) {
  return Lowered::host(
      fmt::format("operator '{}': the axes are computed at run time", op.node.op_type));
}

// Integers of at most 32 bits: extremes and exact sums. Means and roots are no integers; a product
// may be too large for the exact form.
bool takes_integers(ReduceFunction function, Format format) {
  if (!format_is_integer(format) || format_bytes(format) > 4) return false;
  switch (function) {
    case ReduceFunction::kSum:
    case ReduceFunction::kMaximum:
    case ReduceFunction::kMinimum:
    case ReduceFunction::kSumAbsolute:
    case ReduceFunction::kSumSquare:
      return true;
    default:
      return false;
  }
}

// The reduction of one element.
UnaryFunction function_of_one(ReduceFunction function) {
  switch (function) {
    case ReduceFunction::kSumAbsolute:
    case ReduceFunction::kRootSumSquare:
      return UnaryFunction::kAbs;
    case ReduceFunction::kSumSquare:
      return UnaryFunction::kSquare;
    default:
      return UnaryFunction::kIdentity;
  }
}

Lowered emit_function(Op& op, UnaryFunction function) {
  const TensorId x = op.at.value(op.input(0));
  if (function == UnaryFunction::kIdentity) {
    op.at.emit_output_reshape(op, 0, x);
  } else {
    op.at.emit_output(op, 0, {x}, unary_node(function));
  }
  return Lowered::done();
}

// Elements of one reduction, and of one part where there are more: it holds them in the buffer.
constexpr std::int64_t kReducedMax = 16384;
constexpr std::int64_t kPartsMin = 64;  // that lie on lanes of their own

// The largest divisor of `count` that a reduction holds.
std::int64_t longest_part(std::int64_t count) {
  std::int64_t part = std::min(count, kReducedMax);
  while (count % part != 0) --part;
  return part;
}

// As many of the last axes, of which `count` elements are reduced, as a reduction holds, where that leaves
// lanes enough: what made them has the axes before on partitions. Otherwise the largest divisor.
std::int64_t part_by_axes(const Shape& dims, std::int64_t count) {
  std::int64_t part = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend() && part * *dim <= kReducedMax; ++dim)
    part *= *dim;
  return part > 1 && count % part == 0 && count / part >= kPartsMin ? part : longest_part(count);
}

// The extreme of more elements that lie behind each other, as the extreme of the parts' extremes.
bool emit_long_extreme(Op& op, ReduceFunction function, const Reduction& reduction) {
  const bool extreme = function == ReduceFunction::kMaximum || function == ReduceFunction::kMinimum;
  const Shape& dims = op.input_dims(0);
  const std::int64_t kept = element_count(reduction.kept_dims);
  const std::int64_t count = element_count(dims) / kept;
  const bool behind_each_other =
      reduction.axes.back() + 1 == static_cast<std::int64_t>(dims.size()) &&
      reduction.axes.front() + static_cast<std::int64_t>(reduction.axes.size()) ==
          static_cast<std::int64_t>(dims.size());
  if (!extreme || count <= kReducedMax || !behind_each_other) return false;
  const std::int64_t part = part_by_axes(dims, count);
  if (count / part > kReducedMax) return false;
  Composer make(op);
  const TensorId x = op.at.value(op.input(0));
  const TensorId rows = make.reshaped(x, {kept, count / part, part});
  const TensorId parts = make.reduce(function, rows, {2}, make.format(x));
  make.output(0, make.reduce(function, parts, {1}, make.format(x)));
  return true;
}

}  // namespace

std::optional<TensorId> extreme_of_all(Composer& make, ReduceFunction function, TensorId x) {
  for (;;) {
    Shape dims = make.dims(x);
    // The last axes that one reduction holds.
    std::vector<std::int64_t> axes;
    std::int64_t count = 1;
    while (axes.size() < dims.size()) {
      const std::size_t axis = dims.size() - axes.size() - 1;
      if (count * dims[axis] > kReducedMax) break;
      count *= dims[axis];
      axes.insert(axes.begin(), static_cast<std::int64_t>(axis));
    }
    if (!axes.empty()) x = make.reduce(function, x, axes, make.format(x), false);
    if (axes.size() == dims.size()) return x;
    dims.resize(dims.size() - axes.size());
    const std::int64_t part = longest_part(dims.back());
    if (dims.back() > kReducedMax && part == 1) return std::nullopt;
    if (dims.back() > kReducedMax) {
      dims.back() /= part;
      dims.push_back(part);
      x = make.reshaped(x, dims);
    }
  }
}

Lowered lower_reduce(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  Reduction reduction;
  if (!read_reduction(op, reduction)) return unknown_axes(op);
  const Format format = op.input_type(0).format;
  const ReduceFunction function = reduce_of(op.node.op_type);
  if (!is_vector_float(format) && !takes_integers(function, format)) {
    return Lowered::host(fmt::format("operator '{}': no vector arithmetic in {}", op.node.op_type,
                                     format_name(format)));
  }
  if (reduction.identity) return emit_function(op, function_of_one(function));
  if (emit_long_extreme(op, function, reduction)) return Lowered::done();
  op.at.emit_output(op, 0, {op.at.value(op.input(0))},
                    reduce_node(function, reduction.axes, reduction.keep_dims));
  return Lowered::done();
}

Lowered lower_reduce_log_sum(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (!is_vector_float(op.input_type(0).format)) return Lowered::host(float_refusal(op));
  Reduction reduction;
  if (!read_reduction(op, reduction)) return unknown_axes(op);
  if (reduction.identity) return emit_function(op, UnaryFunction::kLog);
  const TensorId sum =
      op.at.emit(op, "sum", {op.at.value(op.input(0))},
                 reduce_node(ReduceFunction::kSum, reduction.axes, reduction.keep_dims),
                 Format::kF32, op.output_dims(0));
  op.at.emit_output(op, 0, {sum}, unary_node(UnaryFunction::kLog));
  return Lowered::done();
}

Lowered lower_reduce_log_sum_exp(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (!is_vector_float(op.input_type(0).format)) return Lowered::host(float_refusal(op));
  Reduction reduction;
  if (!read_reduction(op, reduction)) return unknown_axes(op);
  if (reduction.identity) return emit_function(op, UnaryFunction::kIdentity);
  const Format vector = op.at.vector_format();
  const TensorId x = op.at.value(op.input(0));
  const TensorId maximum =
      op.at.emit(op, "max", {x}, reduce_node(ReduceFunction::kMaximum, reduction.axes), vector,
                 reduction.kept_dims);
  const TensorId difference =
      op.at.emit(op, "difference", {x, maximum}, binary_node(BinaryFunction::kSubtract), vector,
                 op.input_dims(0));
  const TensorId power = op.at.emit(op, "exp", {difference}, unary_node(UnaryFunction::kExp),
                                    vector, op.input_dims(0));
  const TensorId sum =
      op.at.emit(op, "sum", {power}, reduce_node(ReduceFunction::kSum, reduction.axes),
                 Format::kF32, reduction.kept_dims);
  const TensorId logarithm = op.at.emit(op, "log", {sum}, unary_node(UnaryFunction::kLog),
                                        Format::kF32, reduction.kept_dims);
  if (op.output_dims(0) == reduction.kept_dims) {
    op.at.emit_output(op, 0, {logarithm, maximum}, binary_node(BinaryFunction::kAdd));
    return Lowered::done();
  }
  const TensorId result =
      op.at.emit(op, "result", {logarithm, maximum}, binary_node(BinaryFunction::kAdd), vector,
                 reduction.kept_dims);
  op.at.emit_output_reshape(op, 0, result);
  return Lowered::done();
}

}  // namespace tessera::graph

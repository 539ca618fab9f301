#include "model/ops/algebra.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

// More products than this are no host step but a mistake.
constexpr std::int64_t kEinsumStepsMax = std::int64_t{1} << 40;

// An index of the equation: a letter's code, or kEllipsis + its place counted from the right.
using Label = int;
constexpr Label kEllipsis = 256;

struct EinsumPlan {
  std::vector<std::vector<Label>> operands;  // of every axis of every input
  std::vector<Label> order;                  // all labels: those of the output, then the summed
  Shape dims;                                // of `order`
  std::size_t output_rank = 0;

  std::size_t find(Label label) const {
    return static_cast<std::size_t>(std::find(order.begin(), order.end(), label) - order.begin());
  }
  Shape output() const { return {dims.begin(), dims.begin() + static_cast<long>(output_rank)}; }
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// "ij...k" for a term with `ellipsis` axes behind the dots.
Result<std::vector<Label>> parse_term(std::string_view term, std::int64_t ellipsis) {
  std::vector<Label> labels;
  bool dots = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (is_letter(term[i])) {
      labels.push_back(static_cast<unsigned char>(term[i]));
    } else if (!dots && term.substr(i, 3) == "...") {
      dots = true;
      i += 2;
      for (std::int64_t k = ellipsis; k-- > 0;) labels.push_back(kEllipsis + static_cast<Label>(k));
    } else {
      return invalid(fmt::format("'{}' is no term of an equation", term));
    }
  }
  return labels;
}

struct Equation {
  std::vector<std::string> terms;
  bool has_output = false;
  std::string output;
};

Equation split_equation(const std::string& equation) {
  Equation result;
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text),
               [](char c) { return c != ' '; });
  const std::size_t arrow = text.find("->");
  result.has_output = arrow != std::string::npos;
  if (result.has_output) result.output = text.substr(arrow + 2);
  std::string_view left = std::string_view(text).substr(0, arrow);
  while (true) {
    const std::size_t comma = left.find(',');
    result.terms.emplace_back(left.substr(0, comma));
    if (comma == std::string_view::npos) return result;
    left.remove_prefix(comma + 1);
  }
}

std::int64_t letters_in(std::string_view term) {
  return std::count_if(term.begin(), term.end(), is_letter);
}

// Without "->": the ellipsis, then the letters that stand once, in order.
std::vector<Label> implicit_output(const std::vector<std::vector<Label>>& operands) {
  std::vector<Label> all;
  for (const auto& labels : operands) all.insert(all.end(), labels.begin(), labels.end());
  std::sort(all.begin(), all.end());
  std::vector<Label> output;
  for (const Label label : all) {
    const bool repeated = std::count(all.begin(), all.end(), label) > 1;
    if (label >= kEllipsis || !repeated) output.push_back(label);
  }
  output.erase(std::unique(output.begin(), output.end()), output.end());
  std::stable_sort(output.begin(), output.end(), [](Label a, Label b) {
    if ((a >= kEllipsis) != (b >= kEllipsis)) return a >= kEllipsis;
    return a >= kEllipsis ? a > b : a < b;
  });
  return output;
}

// The length of every label; 1 gives way to any other length.
Status measure(const Call& call, EinsumPlan& plan) {
  plan.dims.assign(plan.order.size(), 1);
  for (std::size_t i = 0; i < plan.operands.size(); ++i) {
    for (std::size_t axis = 0; axis < plan.operands[i].size(); ++axis) {
      std::int64_t& dim = plan.dims[plan.find(plan.operands[i][axis])];
      const std::int64_t found = call.dims(i)[axis];
      if (dim != 1 && found != 1 && dim != found) {
        return invalid(
            fmt::format("one index is {} long in one place and {} in another", dim, found));
      }
      dim = dim == 1 ? found : dim;
    }
  }
  std::int64_t steps = 1;
  for (const std::int64_t dim : plan.dims) {
    if (__builtin_mul_overflow(steps, std::max<std::int64_t>(dim, 1), &steps) ||
        steps > kEinsumStepsMax) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("an equation over {} takes more than {} products",
                               shape_text(plan.dims), kEinsumStepsMax)};
    }
  }
  return {};
}

Result<EinsumPlan> plan_einsum(const Call& call) {
  if (!call.has_attribute("equation")) return invalid("attribute 'equation' is missing");
  const Equation equation = split_equation(call.attribute_string("equation", ""));
  if (equation.terms.size() != call.count()) {
    return invalid(fmt::format("{} terms for {} inputs", equation.terms.size(), call.count()));
  }
  EinsumPlan plan;
  std::int64_t ellipsis = 0;
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (!call.has(i)) return invalid(fmt::format("input {} is missing", i));
    TESSERA_RETURN_IF_ERROR(call.require_same_format(0, i));
    const std::int64_t behind = call.rank(i) - letters_in(equation.terms[i]);
    TESSERA_TRY(std::vector<Label> labels, parse_term(equation.terms[i], behind));
    if (static_cast<std::int64_t>(labels.size()) != call.rank(i)) {
      return invalid(fmt::format("term '{}' for input {} of shape {}", equation.terms[i], i,
                                 shape_text(call.dims(i))));
    }
    ellipsis = std::max(ellipsis, behind);
    plan.operands.push_back(std::move(labels));
  }
  plan.order = implicit_output(plan.operands);
  if (equation.has_output) {
    TESSERA_TRY(plan.order, parse_term(equation.output, ellipsis));
  }
  plan.output_rank = plan.order.size();
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    bool known = plan.find(plan.order[i]) == i;
    const auto holds = [&](const auto& labels) {
      return std::find(labels.begin(), labels.end(), plan.order[i]) != labels.end();
    };
    known = known && std::any_of(plan.operands.begin(), plan.operands.end(), holds);
    if (!known) return invalid(fmt::format("'{}' is no output of this equation", equation.output));
  }
  for (const auto& labels : plan.operands) {
    for (const Label label : labels) {
      if (plan.find(label) == plan.order.size()) plan.order.push_back(label);
    }
  }
  TESSERA_RETURN_IF_ERROR(measure(call, plan));
  return plan;
}

// For every label the step in operand `i`; a label may stand twice (a diagonal).
std::vector<std::int64_t> label_strides(const EinsumPlan& plan, const Shape& dims, std::size_t i) {
  const std::vector<std::int64_t> own = strides_of(dims);
  std::vector<std::int64_t> strides(plan.order.size(), 0);
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] != 1) strides[plan.find(plan.operands[i][axis])] += own[axis];
  }
  return strides;
}

}  // namespace

Result<Outputs> einsum_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_TRY(const EinsumPlan plan, plan_einsum(call));
  return one_output(call.format(0), plan.output());
}

Status einsum(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const EinsumPlan plan, plan_einsum(call));
  std::vector<std::vector<double>> values;
  std::vector<std::vector<std::int64_t>> strides;
  for (std::size_t i = 0; i < call.count(); ++i) {
    values.push_back(load<double>(call.tensor(i)));
    strides.push_back(label_strides(plan, call.dims(i), i));
  }
  const std::int64_t count = element_count(outputs[0].dims);
  std::int64_t terms = 1;
  for (std::size_t i = plan.output_rank; i < plan.dims.size(); ++i) terms *= plan.dims[i];
  const Writer<double> out(outputs[0]);
  if (count == 0 || terms == 0) return {};
  double sum = 0.0;
  walk_indices(plan.dims, [&](std::int64_t position, const auto& at) {
    double product = 1.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * strides[i][axis];
      product *= values[i][static_cast<std::size_t>(offset)];
    }
    sum += product;
    if ((position + 1) % terms != 0) return;
    out.set(position / terms, sum);
    sum = 0.0;
  });
  return {};
}

Result<Outputs> determinant_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  const Shape& in = call.dims(0);
  if (in[in.size() - 1] != in[in.size() - 2]) {
    return invalid(fmt::format("input 0 of shape {} holds no square matrices", shape_text(in)));
  }
  return one_output(call.format(0), {in.begin(), in.end() - 2});
}

namespace {

// By elimination with the largest pivot of each column; `a` is used up.
double eliminate(std::vector<double>& a, std::size_t n) {
  double result = 1.0;
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t row = k + 1; row < n; ++row) {
      if (std::fabs(a[row * n + k]) > std::fabs(a[pivot * n + k])) pivot = row;
    }
    if (a[pivot * n + k] == 0.0) return 0.0;
    if (pivot != k) {
      for (std::size_t c = 0; c < n; ++c) std::swap(a[pivot * n + c], a[k * n + c]);
      result = -result;
    }
    result *= a[k * n + k];
    for (std::size_t row = k + 1; row < n; ++row) {
      const double factor = a[row * n + k] / a[k * n + k];
      for (std::size_t c = k; c < n; ++c) a[row * n + c] -= factor * a[k * n + c];
    }
  }
  return result;
}

}  // namespace

Status determinant(const Call& call, std::vector<Tensor>& outputs) {
  const auto n = static_cast<std::size_t>(call.dims(0).back());
  const std::vector<double> values = load<double>(call.tensor(0));
  const Writer<double> out(outputs[0]);
  std::vector<double> matrix(n * n);
  const std::int64_t count = element_count(outputs[0].dims);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t first = static_cast<std::size_t>(i) * n * n;
    std::copy_n(values.begin() + static_cast<long>(first), n * n, matrix.begin());
    out.set(i, eliminate(matrix, n));
  }
  return {};
}

}  // namespace tessera::model::ops

// Input 0 is [batch, classes, d1, ...]: log probabilities, or scores that are turned into them
// first. Input 1 is [batch, d1, ...]: the right class of each. Input 2, optional: a weight a class.
#include "model/ops/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arith/function.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

bool takes_scores(const Call& call) { return call.op_type() == "SoftmaxCrossEntropyLoss"; }

// In place, along the classes.
void log_softmax(std::vector<double>& values, const AxisView& view) {
  for (std::int64_t line = 0; line < view.outer * view.inner; ++line) {
    const std::int64_t base = line / view.inner * view.length * view.inner + line % view.inner;
    const auto at = [&](std::int64_t i) -> double& {
      return values[static_cast<std::size_t>(base + i * view.inner)];
    };
    double top = at(0);
    for (std::int64_t i = 1; i < view.length; ++i) top = arith::maximum(top, at(i));
    double sum = 0.0;
    for (std::int64_t i = 0; i < view.length; ++i) {
      sum += arith::apply({UnaryFunction::kExp}, at(i) - top);
    }
    const double log_sum = arith::apply({UnaryFunction::kLog}, sum);
    for (std::int64_t i = 0; i < view.length; ++i) at(i) -= top + log_sum;
  }
}

}  // namespace

// Outputs: the loss, and for SoftmaxCrossEntropyLoss the log probabilities.
Result<Outputs> loss_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  Shape labels = call.dims(0);
  labels.erase(labels.begin() + 1);
  TESSERA_RETURN_IF_ERROR(call.require_shape(1, labels));
  TESSERA_RETURN_IF_ERROR(call.require_vector(2, call.dims(0)[1]));
  const bool reduced = call.attribute_string("reduction", "mean") != "none";
  Outputs outputs = one_output(call.format(0), reduced ? Shape{} : labels);
  if (takes_scores(call)) outputs.push_back({call.format(0), call.dims(0), nullptr});
  return outputs;
}

// The mean is weighted: divided by the sum of the weights of the classes met.
Status loss(const Call& call, std::vector<Tensor>& outputs) {
  const AxisView view = view_axis(call.dims(0), 1);
  std::vector<double> logs = load<double>(call.tensor(0));
  if (takes_scores(call) && !logs.empty()) log_softmax(logs, view);
  std::vector<double> weights(static_cast<std::size_t>(view.length), 1.0);
  if (call.has(2)) weights = load<double>(call.tensor(2));
  const bool may_ignore = call.has_attribute("ignore_index");
  const std::int64_t ignored = call.attribute("ignore_index", 0);
  const std::string reduction = call.attribute_string("reduction", "mean");
  const Reader<std::int64_t> labels(call.tensor(1));
  const Writer<double> out(outputs[0]);
  double sum = 0.0;
  double weight_sum = 0.0;
  for (std::int64_t line = 0; line < view.outer * view.inner; ++line) {
    const std::int64_t label = labels[line];
    double value = 0.0;
    if (!may_ignore || label != ignored) {
      if (label < 0 || label >= view.length) {
        return invalid(fmt::format("label {} is outside [0, {}]", label, view.length - 1));
      }
      const std::int64_t at =
          (line / view.inner * view.length + label) * view.inner + line % view.inner;
      const double weight = weights[static_cast<std::size_t>(label)];
      value = -logs[static_cast<std::size_t>(at)] * weight;
      weight_sum += weight;
    }
    sum += value;
    if (reduction == "none") out.set(line, value);
  }
  if (reduction == "sum") out.set(0, sum);
  if (reduction == "mean") out.set(0, sum / weight_sum);
  if (outputs.size() < 2) return {};
  const Writer<double> log_out(outputs[1]);
  for (std::size_t i = 0; i < logs.size(); ++i) log_out.set(static_cast<std::int64_t>(i), logs[i]);
  return {};
}

}  // namespace tessera::model::ops

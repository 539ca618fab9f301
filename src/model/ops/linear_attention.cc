// LinearAttention: a state S of keys by values for each head, and in each step
//
//   linear       S += k v^T                        gated        S = e^g S + k v^T
//   delta        S += beta k (v - S^T k)^T         gated_delta  S = e^g S, then as delta
//   output       scale * S^T q
//
// and CausalConvWithState, which stands before it. The state is kept in binary32 between steps.
#include <fmt/format.h>

#include <cmath>

#include "arith/function.h"
#include "arith/rounding.h"
#include "model/ops/attention.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

struct LinearPlan {
  std::int64_t batch = 0, length = 0, query_heads = 0, heads = 0, keys = 0, values = 0;
  std::int64_t decays = 0;  // gates per step: one per head, or one per head and key
  std::int64_t betas = 0;   // one per step, or one per head
  bool gated = false, delta = false;
};

Status check_packed(const Call& call, std::size_t index, const LinearPlan& plan,
                    std::int64_t width) {
  const Shape needed = {plan.batch, plan.length, width};
  if (call.has(index) && call.dims(index) == needed) return {};
  return invalid(fmt::format("input {} has {}, shape {} is needed", index,
                             call.has(index) ? "shape " + shape_text(call.dims(index)) : "no value",
                             shape_text(needed)));
}

Status plan_gates(const Call& call, LinearPlan& plan) {
  const std::string rule = call.attribute_string("update_rule", "gated_delta");
  plan.gated = rule == "gated" || rule == "gated_delta";
  plan.delta = rule == "delta" || rule == "gated_delta";
  if (plan.gated) {
    plan.decays = call.has(4) && call.rank(4) == 3 ? call.dims(4)[2] : 0;
    if (plan.decays != plan.heads) plan.decays = plan.heads * plan.keys;
    TESSERA_RETURN_IF_ERROR(check_packed(call, 4, plan, plan.decays));
  }
  if (plan.delta) {
    plan.betas = call.has(5) && call.rank(5) == 3 ? call.dims(5)[2] : 0;
    if (plan.betas != 1) plan.betas = plan.heads;
    TESSERA_RETURN_IF_ERROR(check_packed(call, 5, plan, plan.betas));
  }
  return {};
}

Result<LinearPlan> plan_linear(const Call& call) {
  for (std::size_t i = 0; i < 3; ++i) {
    TESSERA_RETURN_IF_ERROR(call.require_float(i));
    if (call.rank(i) != 3) return invalid(fmt::format("input {} is not of rank 3", i));
  }
  for (std::size_t i = 3; i < 6; ++i) TESSERA_RETURN_IF_ERROR(call.require_float(i));
  LinearPlan plan;
  plan.batch = call.dims(0)[0];
  plan.length = call.dims(0)[1];
  plan.query_heads = call.attribute("q_num_heads", 0);
  plan.heads = call.attribute("kv_num_heads", 0);
  if (plan.heads < 1 || plan.query_heads < 1 || plan.query_heads > kDimensionMax ||
      plan.query_heads % plan.heads != 0 || call.dims(0)[2] % plan.query_heads != 0 ||
      call.dims(2)[2] % plan.heads != 0) {
    return invalid(fmt::format("{} query heads and {} key heads do not fit {} and {}",
                               plan.query_heads, plan.heads, shape_text(call.dims(0)),
                               shape_text(call.dims(2))));
  }
  plan.keys = call.dims(0)[2] / plan.query_heads;
  plan.values = call.dims(2)[2] / plan.heads;
  TESSERA_RETURN_IF_ERROR(check_packed(call, 1, plan, plan.heads * plan.keys));
  TESSERA_RETURN_IF_ERROR(check_packed(call, 2, plan, plan.heads * plan.values));
  const Shape state = {plan.batch, plan.heads, plan.keys, plan.values};
  TESSERA_RETURN_IF_ERROR(call.require_shape(3, state));
  TESSERA_RETURN_IF_ERROR(plan_gates(call, plan));
  return plan;
}

double exponential(double x) {
  return arith::apply(Activation{.function = UnaryFunction::kExp}, x);
}

// One step of one head. `state` is [keys, values].
struct Step {
  const double* key;
  const double* value;
  const double* decay;  // null: none
  std::int64_t decay_stride;
  double beta;
};

void advance(const LinearPlan& plan, const Step& step, std::span<double> state) {
  const auto at = [&](std::int64_t k, std::int64_t v) -> double& {
    return state[static_cast<std::size_t>(k * plan.values + v)];
  };
  if (step.decay != nullptr) {
    for (std::int64_t k = 0; k < plan.keys; ++k) {
      const double gate = exponential(step.decay[k * step.decay_stride]);
      for (std::int64_t v = 0; v < plan.values; ++v) at(k, v) *= gate;
    }
  }
  for (std::int64_t v = 0; v < plan.values; ++v) {
    double written = step.value[v];
    if (plan.delta) {
      double found = 0.0;
      for (std::int64_t k = 0; k < plan.keys; ++k) found += at(k, v) * step.key[k];
      written = step.beta * (written - found);
    }
    for (std::int64_t k = 0; k < plan.keys; ++k) {
      at(k, v) = static_cast<double>(arith::f32_from_f64(at(k, v) + step.key[k] * written));
    }
  }
}

}  // namespace

Result<Outputs> linear_attention_shape(const Call& call) {
  TESSERA_TRY(const LinearPlan plan, plan_linear(call));
  const Format state = call.has(3) ? call.format(3) : call.format(0);
  return Outputs{
      {call.format(0), {plan.batch, plan.length, plan.query_heads * plan.values}, nullptr},
      {state, {plan.batch, plan.heads, plan.keys, plan.values}, nullptr}};
}

Status linear_attention(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const LinearPlan plan, plan_linear(call));
  const std::vector<double> query = load<double>(call.tensor(0));
  const std::vector<double> key = load<double>(call.tensor(1));
  const std::vector<double> value = load<double>(call.tensor(2));
  std::vector<double> state(static_cast<std::size_t>(element_count(outputs[1].dims)), 0.0);
  if (call.has(3)) state = load<double>(call.tensor(3));
  std::vector<double> decay, beta;
  if (plan.gated) decay = load<double>(call.tensor(4));
  if (plan.delta) beta = load<double>(call.tensor(5));
  double scale = call.attribute_float("scale", 0.0F);
  if (scale == 0.0) scale = 1.0 / std::sqrt(static_cast<double>(plan.keys));
  const std::int64_t group = plan.query_heads / plan.heads;
  const std::int64_t decays_a_head = plan.decays / plan.heads;
  const Writer<double> out(outputs[0]);
  walk_indices({plan.batch, plan.heads, plan.length}, [&](std::int64_t, const auto& at) {
    const std::int64_t row = at[0] * plan.length + at[2], h = at[1];
    const auto cell = static_cast<std::size_t>((at[0] * plan.heads + h) * plan.keys * plan.values);
    const std::span<double> mine =
        std::span(state).subspan(cell, static_cast<std::size_t>(plan.keys * plan.values));
    const std::int64_t beta_at = row * plan.betas + (plan.betas == 1 ? 0 : h);
    advance(
        plan,
        {key.data() + (row * plan.heads + h) * plan.keys,
         value.data() + (row * plan.heads + h) * plan.values,
         plan.gated ? decay.data() + row * plan.decays + h * decays_a_head : nullptr,
         decays_a_head == 1 ? 0 : 1, plan.delta ? beta[static_cast<std::size_t>(beta_at)] : 1.0},
        mine);
    for (std::int64_t g = h * group; g < (h + 1) * group; ++g) {
      for (std::int64_t v = 0; v < plan.values; ++v) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < plan.keys; ++k) {
          sum += query[static_cast<std::size_t>((row * plan.query_heads + g) * plan.keys + k)] *
                 mine[static_cast<std::size_t>(k * plan.values + v)];
        }
        out.set((row * plan.query_heads + g) * plan.values + v, scale * sum);
      }
    }
  });
  for (std::size_t i = 0; i < state.size(); ++i) {
    Writer<double>(outputs[1]).set(static_cast<std::int64_t>(i), state[i]);
  }
  return {};
}

// --- CausalConvWithState -------------------------------------------------------------------------

Result<Outputs> causal_conv_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  if (call.rank(0) != 3) return invalid("input 0 is not of rank 3");
  const std::int64_t channels = call.dims(0)[1];
  if (call.rank(1) != 3 || call.dims(1)[0] != channels || call.dims(1)[1] != 1 ||
      call.dims(1)[2] < 1) {
    return invalid(
        fmt::format("weights of shape {} for {} channels", shape_text(call.dims(1)), channels));
  }
  TESSERA_RETURN_IF_ERROR(call.require_vector(2, channels));
  const Shape state = {call.dims(0)[0], channels, call.dims(1)[2] - 1};
  TESSERA_RETURN_IF_ERROR(call.require_shape(3, state));
  for (std::size_t i = 1; i < 4; ++i) TESSERA_RETURN_IF_ERROR(call.require_same_format(0, i));
  return Outputs{{call.format(0), call.dims(0), nullptr}, {call.format(0), state, nullptr}};
}

Status causal_conv(const Call& call, std::vector<Tensor>& outputs) {
  const std::int64_t length = call.dims(0)[2], taps = call.dims(1)[2], kept = taps - 1;
  const std::int64_t channels = call.dims(0)[1];
  const bool swish = call.attribute_string("activation", "none") != "none";
  const Reader<double> in(call.tensor(0)), weights(call.tensor(1));
  std::vector<double> bias(static_cast<std::size_t>(channels), 0.0);
  std::vector<double> past(static_cast<std::size_t>(element_count(outputs[1].dims)), 0.0);
  if (call.has(2)) bias = load<double>(call.tensor(2));
  if (call.has(3)) past = load<double>(call.tensor(3));
  const Writer<double> out(outputs[0]), state(outputs[1]);
  for (std::int64_t line = 0; line < call.dims(0)[0] * channels; ++line) {
    const std::int64_t c = line % channels;
    // Time runs from -kept; what is before 0 is the state.
    const auto input = [&](std::int64_t t) {
      return t < 0 ? past[static_cast<std::size_t>(line * kept + kept + t)] : in[line * length + t];
    };
    for (std::int64_t t = 0; t < length; ++t) {
      double sum = bias[static_cast<std::size_t>(c)];
      for (std::int64_t k = 0; k < taps; ++k) sum += weights[c * taps + k] * input(t - kept + k);
      out.set(line * length + t,
              swish ? arith::apply(Activation{.function = UnaryFunction::kSilu}, sum) : sum);
    }
    for (std::int64_t k = 0; k < kept; ++k) state.set(line * kept + k, input(length - kept + k));
  }
  return {};
}

}  // namespace tessera::model::ops

// Everything is computed in binary64 and rounded once, at the outputs.
//
//   Q x K^T * scale ─[0]─► softcap ─[1]─► + mask ─[2]─► softmax ─[3]─► x V     ([n]: output mode)
#include "model/ops/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arith/function.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// A tensor of heads: [batch, heads, length, size], or packed as [batch, length, heads * size].
struct Heads {
  std::int64_t batch = 0, heads = 0, length = 0, size = 0;
  bool packed = false;

  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t l, std::int64_t d) const {
    return packed ? ((b * length + l) * heads + h) * size + d
                  : ((b * heads + h) * length + l) * size + d;
  }
  Shape dims() const {
    return packed ? Shape{batch, length, heads * size} : Shape{batch, heads, length, size};
  }
  Shape unpacked() const { return {batch, heads, length, size}; }
};

Result<Heads> heads_of(const Call& call, std::size_t index, const std::string& attribute) {
  const Shape& dims = call.dims(index);
  if (dims.size() == 4) return Heads{dims[0], dims[1], dims[2], dims[3], false};
  if (dims.size() != 3) {
    return invalid(
        fmt::format("input {} has shape {}, rank 3 or 4 is needed", index, shape_text(dims)));
  }
  const std::int64_t heads = call.attribute(attribute, 0);
  if (heads < 1 || dims[2] % heads != 0) {
    return invalid(fmt::format("input {} of shape {} is not split into {} heads ('{}')", index,
                               shape_text(dims), heads, attribute));
  }
  return Heads{dims[0], heads, dims[1], dims[2] / heads, true};
}

struct AttentionPlan {
  Heads query, key, value;  // key and value without the past
  std::int64_t past = 0, total = 0;

  std::int64_t key_head(std::int64_t h) const { return h / (query.heads / key.heads); }
  Heads present(const Heads& heads) const {
    return {heads.batch, heads.heads, total, heads.size, false};
  }
};

Status check_past(const Call& call, std::size_t index, const Heads& heads, std::int64_t past) {
  const Shape needed = {heads.batch, heads.heads, past, heads.size};
  if (call.dims(index) == needed) return {};
  return invalid(fmt::format("input {} has shape {}, {} is needed", index,
                             shape_text(call.dims(index)), shape_text(needed)));
}

// The mask [..., total], broadcast; its last axis may be shorter.
Status check_mask(const Call& call, const AttentionPlan& plan) {
  const Shape& mask = call.dims(3);
  const Shape whole = {plan.query.batch, plan.query.heads, plan.query.length, plan.total};
  bool fits = mask.size() >= 2 && mask.size() <= 4 && mask.back() <= plan.total;
  for (std::size_t i = 1; fits && i < mask.size(); ++i) {
    const std::int64_t dim = mask[mask.size() - 1 - i];
    fits = dim == 1 || dim == whole[3 - i];
  }
  if (fits && (call.format(3) == Format::kBool || format_is_float(call.format(3)))) return {};
  return invalid(fmt::format("a mask of shape {} and format {} does not fit scores of shape {}",
                             shape_text(mask), format_name(call.format(3)), shape_text(whole)));
}

Result<AttentionPlan> plan_attention(const Call& call) {
  for (std::size_t i = 0; i < 3; ++i) TESSERA_RETURN_IF_ERROR(call.require_float(i));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(1, 4));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(2, 5));
  TESSERA_RETURN_IF_ERROR(call.require_integer(6));
  AttentionPlan plan;
  TESSERA_TRY(plan.query, heads_of(call, 0, "q_num_heads"));
  TESSERA_TRY(plan.key, heads_of(call, 1, "kv_num_heads"));
  TESSERA_TRY(plan.value, heads_of(call, 2, "kv_num_heads"));
  const bool fits = plan.key.batch == plan.query.batch && plan.value.batch == plan.query.batch &&
                    plan.key.size == plan.query.size && plan.key.length == plan.value.length &&
                    plan.key.heads == plan.value.heads && plan.key.heads > 0 &&
                    plan.query.heads % plan.key.heads == 0;
  if (!fits) {
    return invalid(fmt::format("query {}, key {} and value {} do not fit together",
                               shape_text(call.dims(0)), shape_text(call.dims(1)),
                               shape_text(call.dims(2))));
  }
  if (call.has(4) != call.has(5)) return invalid("past key and value go together");
  if (call.has(4)) {
    if (call.rank(4) != 4) return invalid("the past key is not of rank 4");
    plan.past = call.dims(4)[2];
    TESSERA_RETURN_IF_ERROR(check_past(call, 4, plan.key, plan.past));
    TESSERA_RETURN_IF_ERROR(check_past(call, 5, plan.value, plan.past));
  }
  plan.total = plan.past + plan.key.length;
  if (call.has(3)) TESSERA_RETURN_IF_ERROR(check_mask(call, plan));
  if (call.has(6)) {
    if (call.has(4)) return invalid("valid lengths and a past key exclude each other");
    TESSERA_RETURN_IF_ERROR(call.require_vector(6, plan.query.batch));
  }
  return plan;
}

// Past and new rows of keys or values, [batch, heads, total, size].
std::vector<double> present(const Call& call, std::size_t input, const AttentionPlan& plan,
                            const Heads& heads) {
  const Heads whole = plan.present(heads);
  std::vector<double> values(static_cast<std::size_t>(element_count(whole.unpacked())));
  const std::vector<double> fresh = load<double>(call.tensor(input));
  std::vector<double> past;
  if (call.has(input + 3)) past = load<double>(call.tensor(input + 3));
  const Heads before = {heads.batch, heads.heads, plan.past, heads.size, false};
  walk_indices(whole.unpacked(), [&](std::int64_t position, const auto& at) {
    const bool old = at[2] < plan.past;
    const std::int64_t from = old ? before.at(at[0], at[1], at[2], at[3])
                                  : heads.at(at[0], at[1], at[2] - plan.past, at[3]);
    values[static_cast<std::size_t>(position)] =
        (old ? past : fresh)[static_cast<std::size_t>(from)];
  });
  return values;
}

// What is added to the score of a query row and a key: 0, -infinity, or the mask's number.
class Bias {
 public:
  // Both outlive the object.
  Bias(const Call& call, const AttentionPlan& plan)
      : plan_(plan), causal_(call.attribute("is_causal", 0) != 0) {
    if (call.has(6)) lengths_ = load<std::int64_t>(call.tensor(6));
    if (!call.has(3)) return;
    mask_ = load<double>(call.tensor(3));
    is_bool_ = call.format(3) == Format::kBool;
    width_ = call.dims(3).back();
    Shape wide = {plan.query.batch, plan.query.heads, plan.query.length, width_};
    strides_ = broadcast_strides(call.dims(3), wide);
  }

  double at(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t key) const {
    const auto batch = static_cast<std::size_t>(b);
    const std::int64_t before =
        lengths_.empty() ? plan_.past : lengths_[batch] - plan_.query.length;
    if (causal_ && key > row + before) return kMasked;
    if (!lengths_.empty() && key >= lengths_[batch]) return kMasked;
    if (mask_.empty()) return 0.0;
    if (key >= width_) return kMasked;
    const std::int64_t at =
        b * strides_[0] + h * strides_[1] + row * strides_[2] + key * strides_[3];
    const double found = mask_[static_cast<std::size_t>(at)];
    return !is_bool_ ? found : found != 0.0 ? 0.0 : kMasked;
  }

 private:
  const AttentionPlan& plan_;
  bool causal_;
  std::vector<std::int64_t> lengths_;
  std::vector<double> mask_;
  std::vector<std::int64_t> strides_;
  std::int64_t width_ = 0;
  bool is_bool_ = false;
};

// A row without any key is all zero.
void softmax_row(std::vector<double>& row) {
  double highest = kMasked;
  for (const double x : row) highest = arith::maximum(highest, x);
  if (highest == kMasked) {
    std::fill(row.begin(), row.end(), 0.0);
    return;
  }
  double sum = 0.0;
  for (double& x : row) {
    x = arith::apply(Activation{.function = UnaryFunction::kExp}, x - highest);
    sum += x;
  }
  for (double& x : row) x /= sum;
}

}  // namespace

Result<Outputs> attention_shape(const Call& call) {
  TESSERA_TRY(const AttentionPlan plan, plan_attention(call));
  Heads result = plan.query;
  result.size = plan.value.size;
  return Outputs{{call.format(0), result.dims(), nullptr},
                 {call.format(1), plan.present(plan.key).unpacked(), nullptr},
                 {call.format(2), plan.present(plan.value).unpacked(), nullptr},
                 {call.format(0),
                  {plan.query.batch, plan.query.heads, plan.query.length, plan.total},
                  nullptr}};
}

Status attention(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const AttentionPlan plan, plan_attention(call));
  const Heads keys = plan.present(plan.key), values = plan.present(plan.value);
  const std::vector<double> query = load<double>(call.tensor(0));
  const std::vector<double> key = present(call, 1, plan, plan.key);
  const std::vector<double> value = present(call, 2, plan, plan.value);
  const double scale = call.has_attribute("scale")
                           ? call.attribute_float("scale", 1.0F)
                           : 1.0 / std::sqrt(static_cast<double>(plan.query.size));
  const double softcap = call.attribute_float("softcap", 0.0F);
  const std::int64_t mode = call.attribute("qk_matmul_output_mode", 0);
  const Bias bias(call, plan);
  Heads result = plan.query;
  result.size = plan.value.size;
  const Writer<double> out(outputs[0]), scores_out(outputs[3]);
  std::vector<double> row(static_cast<std::size_t>(plan.total));
  walk_indices({plan.query.batch, plan.query.heads, plan.query.length}, [&](std::int64_t index,
                                                                            const auto& at) {
    const std::int64_t shared = plan.key_head(at[1]);
    const auto keep = [&](std::int64_t wanted) {
      if (mode != wanted) return;
      for (std::int64_t t = 0; t < plan.total; ++t) {
        scores_out.set(index * plan.total + t, row[static_cast<std::size_t>(t)]);
      }
    };
    const auto each = [&](auto&& f) {
      for (std::int64_t t = 0; t < plan.total; ++t) f(t, row[static_cast<std::size_t>(t)]);
    };
    each([&](std::int64_t t, double& score) {
      score = 0.0;
      for (std::int64_t d = 0; d < plan.query.size; ++d) {
        score += query[static_cast<std::size_t>(plan.query.at(at[0], at[1], at[2], d))] *
                 key[static_cast<std::size_t>(keys.at(at[0], shared, t, d))];
      }
      score *= scale;
    });
    keep(0);
    if (softcap > 0.0) {
      each([&](std::int64_t, double& score) {
        score =
            softcap * arith::apply(Activation{.function = UnaryFunction::kTanh}, score / softcap);
      });
    }
    keep(1);
    each([&](std::int64_t t, double& score) {
      const double added = bias.at(at[0], at[1], at[2], t);
      score = added == kMasked ? kMasked : score + added;
    });
    keep(2);
    softmax_row(row);
    keep(3);
    for (std::int64_t d = 0; d < result.size; ++d) {
      double sum = 0.0;
      each([&](std::int64_t t, double& weight) {
        // What is masked has no part in the result, whatever it holds.
        if (weight != 0.0) {
          sum += weight * value[static_cast<std::size_t>(values.at(at[0], shared, t, d))];
        }
      });
      out.set(result.at(at[0], at[1], at[2], d), sum);
    }
  });
  for (std::size_t i = 0; i < key.size(); ++i) {
    Writer<double>(outputs[1]).set(static_cast<std::int64_t>(i), key[i]);
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    Writer<double>(outputs[2]).set(static_cast<std::int64_t>(i), value[i]);
  }
  return {};
}

// --- RotaryEmbedding -----------------------------------------------------------------------------

namespace {

struct RotaryPlan {
  Heads heads;
  std::int64_t turned = 0;  // elements of a head, the first ones
};

Result<RotaryPlan> plan_rotary(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  for (std::size_t i = 1; i < 3; ++i) TESSERA_RETURN_IF_ERROR(call.require_same_format(0, i));
  RotaryPlan plan;
  TESSERA_TRY(plan.heads, heads_of(call, 0, "num_heads"));
  plan.turned = call.attribute("rotary_embedding_dim", 0);
  if (plan.turned == 0) plan.turned = plan.heads.size;
  if (plan.turned < 0 || plan.turned > plan.heads.size || plan.turned % 2 != 0) {
    return invalid(fmt::format("{} of {} elements are turned", plan.turned, plan.heads.size));
  }
  const std::int64_t half = plan.turned / 2;
  for (std::size_t i = 1; i < 3; ++i) {
    const Shape direct = {plan.heads.batch, plan.heads.length, half};
    const bool fits =
        call.has(3) ? call.rank(i) == 2 && call.dims(i)[1] == half : call.dims(i) == direct;
    if (!fits) {
      return invalid(fmt::format("input {} has shape {}, {} angles a position are needed", i,
                                 shape_text(call.dims(i)), half));
    }
  }
  if (call.has(3) && call.dims(3) != Shape{plan.heads.batch, plan.heads.length}) {
    return invalid(fmt::format("positions of shape {}", shape_text(call.dims(3))));
  }
  return plan;
}

}  // namespace

Result<Outputs> rotary_embedding_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(plan_rotary(call));
  return one_output(call.format(0), call.dims(0));
}

Status rotary_embedding(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const RotaryPlan plan, plan_rotary(call));
  const bool interleaved = call.attribute("interleaved", 0) != 0;
  const Heads& heads = plan.heads;
  const std::int64_t half = plan.turned / 2;
  const Reader<double> in(call.tensor(0)), cosines(call.tensor(1)), sines(call.tensor(2));
  const Writer<double> out(outputs[0]);
  std::vector<std::int64_t> positions;
  if (call.has(3)) positions = load<std::int64_t>(call.tensor(3));
  for (const std::int64_t position : positions) {
    if (position >= 0 && position < std::min(call.dims(1)[0], call.dims(2)[0])) continue;
    return invalid(fmt::format("position {} is outside the tables of {} and {} rows", position,
                               call.dims(1)[0], call.dims(2)[0]));
  }
  walk_indices({heads.batch, heads.heads, heads.length}, [&](std::int64_t, const auto& at) {
    const std::int64_t index = at[0] * heads.length + at[2];
    const std::int64_t row = positions.empty() ? index : positions[static_cast<std::size_t>(index)];
    for (std::int64_t k = 0; k < half; ++k) {
      const std::int64_t first = interleaved ? 2 * k : k;
      const std::int64_t second = interleaved ? 2 * k + 1 : k + half;
      const std::int64_t a = heads.at(at[0], at[1], at[2], first);
      const std::int64_t b = heads.at(at[0], at[1], at[2], second);
      const double cosine = cosines[row * half + k], sine = sines[row * half + k];
      out.set(a, cosine * in[a] - sine * in[b]);
      out.set(b, sine * in[a] + cosine * in[b]);
    }
    for (std::int64_t d = plan.turned; d < heads.size; ++d) {
      const std::int64_t same = heads.at(at[0], at[1], at[2], d);
      out.set(same, in[same]);
    }
  });
  return {};
}

// --- TensorScatter -------------------------------------------------------------------------------

Result<Outputs> tensor_scatter_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", -2), call.rank(0)));
  Shape expected = call.dims(0);
  const auto at = static_cast<std::size_t>(axis);
  if (call.rank(1) == call.rank(0)) expected[at] = call.dims(1)[at];
  if (axis == 0 || call.dims(1) != expected || expected[at] > call.dims(0)[at]) {
    return invalid(fmt::format("an update of shape {} along axis {} of a cache of shape {}",
                               shape_text(call.dims(1)), axis, shape_text(call.dims(0))));
  }
  TESSERA_RETURN_IF_ERROR(call.require_vector(2, call.dims(0)[0]));
  return one_output(call.format(0), call.dims(0));
}

Status tensor_scatter(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", -2), call.rank(0)));
  const bool circular = call.attribute_string("mode", "linear") == "circular";
  const auto at_axis = static_cast<std::size_t>(axis);
  const std::int64_t length = call.dims(0)[at_axis], added = call.dims(1)[at_axis];
  std::vector<std::int64_t> starts(static_cast<std::size_t>(call.dims(0)[0]), 0);
  if (call.has(2)) starts = load<std::int64_t>(call.tensor(2));
  for (const std::int64_t start : starts) {
    const std::int64_t highest = circular ? length - 1 : length - added;
    if (start >= 0 && start <= highest) continue;
    return invalid(fmt::format("write index {} is outside [0, {}]", start, highest));
  }
  outputs[0].bytes = call.tensor(0).bytes;
  const std::vector<std::int64_t> strides = strides_of(call.dims(0));
  const Copier copier(call.tensor(1), outputs[0]);
  walk_indices(call.dims(1), [&](std::int64_t position, const auto& at) {
    std::int64_t to = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
      const std::int64_t start = k == at_axis ? starts[static_cast<std::size_t>(at[0])] : 0;
      to += (k == at_axis ? (at[k] + start) % length : at[k]) * strides[k];
    }
    copier.copy(position, to);
  });
  return {};
}

}  // namespace tessera::model::ops

#include "model/ops/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "model/ops/elements.h"

namespace tessera::model::ops {

Result<Outputs> top_k_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", -1), call.rank(0)));
  std::int64_t k = call.attribute("k", -1);
  if (call.opset() >= 10) {
    if (!call.has(1)) return invalid("input 1 (k) is missing");
    TESSERA_TRY(k, call.integer(1));
  }
  Shape dims = call.dims(0);
  std::int64_t& length = dims[static_cast<std::size_t>(axis)];
  if (k < 0 || k > length) {
    return invalid(fmt::format("k is {}, axis {} has {} elements", k, axis, length));
  }
  length = k;
  return Outputs{{call.format(0), dims, nullptr}, {Format::kI64, dims, nullptr}};
}

// Equal values keep the order of their positions; the result is always sorted.
Status top_k(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, normalise_axis(call.attribute("axis", -1), call.rank(0)));
  const bool largest = call.attribute("largest", 1) != 0;
  const AxisView view = view_axis(call.dims(0), axis);
  const std::int64_t k = outputs[0].dims[static_cast<std::size_t>(axis)];
  const bool has_indices = outputs.size() > 1;
  with_working_type(call.format(0), [&]<typename W>() {
    const Reader<W> in(call.tensor(0));
    const Copier values(call.tensor(0), outputs[0]);
    std::vector<std::int64_t> order(static_cast<std::size_t>(view.length));
    std::vector<W> row(order.size());
    for (std::int64_t line = 0; line < view.outer * view.inner; ++line) {
      const std::int64_t outer = line / view.inner;
      const std::int64_t inner = line % view.inner;
      const std::int64_t base = outer * view.length * view.inner + inner;
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = in[base + static_cast<std::int64_t>(i) * view.inner];
      }
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        const W x = row[static_cast<std::size_t>(a)];
        const W y = row[static_cast<std::size_t>(b)];
        return largest ? is_below(y, x) : is_below(x, y);
      });
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t from = order[static_cast<std::size_t>(i)];
        const std::int64_t to = (outer * k + i) * view.inner + inner;
        values.copy(base + from * view.inner, to);
        if (has_indices) outputs[1].as<std::int64_t>()[static_cast<std::size_t>(to)] = from;
      }
    }
  });
  return {};
}

Result<Outputs> cum_sum_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_one_element(1, "axis"));
  if (call.is_constant(1)) {
    TESSERA_TRY(const std::int64_t axis, call.integer(1));
    TESSERA_RETURN_IF_ERROR(normalise_axis(axis, call.rank(0)));
  }
  return one_output(call.format(0), call.dims(0));
}

Status cum_sum(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t given, call.integer(1));
  TESSERA_TRY(const std::int64_t axis, normalise_axis(given, call.rank(0)));
  const bool exclusive = call.attribute("exclusive", 0) != 0;
  const bool reverse = call.attribute("reverse", 0) != 0;
  const bool product = call.op_type() == "CumProd";
  const AxisView view = view_axis(call.dims(0), axis);
  with_working_type(call.format(0), [&]<typename W>() {
    const Reader<W> in(call.tensor(0));
    const Writer<W> out(outputs[0]);
    for (std::int64_t line = 0; line < view.outer * view.inner; ++line) {
      const std::int64_t base = line / view.inner * view.length * view.inner + line % view.inner;
      W sum{product ? W{1} : W{0}};
      for (std::int64_t i = 0; i < view.length; ++i) {
        const std::int64_t at = base + (reverse ? view.length - 1 - i : i) * view.inner;
        W next;
        if constexpr (std::is_floating_point_v<W>) {
          next = product ? sum * in[at] : sum + in[at];
        } else {  // low bits, as C keeps them
          const auto a = static_cast<std::uint64_t>(sum), b = static_cast<std::uint64_t>(in[at]);
          next = static_cast<W>(product ? a * b : a + b);
        }
        out.set(at, exclusive ? sum : next);
        sum = next;
      }
    }
  });
  return {};
}

namespace {

// A box by two opposite corners, the first one below the second.
struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};

Box make_box(const std::array<double, 4>& b, bool centre) {
  if (centre) {  // x centre, y centre, width, height
    return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  }
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

double intersection_over_union(const Box& a, const Box& b) {
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return 0.0;
  const double common = height * width;
  return common / (a.area() + b.area() - common);
}

struct Suppression {
  std::int64_t boxes_max = 0;
  double overlap_max = 0.0;
  bool has_score_min = false;
  double score_min = 0.0;
};

// The boxes that stay, best score first.
std::vector<std::int64_t> select_boxes(const std::vector<Box>& boxes,
                                       const std::vector<double>& scores,
                                       const Suppression& limits) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    // A score that is not a number is never selected.
    if (is_nan_value(scores[i]) || (limits.has_score_min && !(scores[i] > limits.score_min)))
      continue;
    order.push_back(static_cast<std::int64_t>(i));
  }
  const auto score = [&](std::int64_t i) { return scores[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return score(a) > score(b); });
  std::vector<std::int64_t> kept;
  for (const std::int64_t candidate : order) {
    if (static_cast<std::int64_t>(kept.size()) >= limits.boxes_max) break;
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](std::int64_t other) {
      return intersection_over_union(boxes[static_cast<std::size_t>(candidate)],
                                     boxes[static_cast<std::size_t>(other)]) > limits.overlap_max;
    });
    if (!covered) kept.push_back(candidate);
  }
  return kept;
}

Result<Suppression> suppression_limits(const Call& call) {
  Suppression limits;
  if (call.has(2)) {
    TESSERA_TRY(limits.boxes_max, call.integer(2));
  }
  TESSERA_RETURN_IF_ERROR(call.require_one_element(3, "iou_threshold"));
  TESSERA_RETURN_IF_ERROR(call.require_one_element(4, "score_threshold"));
  if (call.has(3)) limits.overlap_max = Reader<double>(call.tensor(3))[0];
  limits.has_score_min = call.has(4);
  if (call.has(4)) limits.score_min = Reader<double>(call.tensor(4))[0];
  return limits;
}

}  // namespace

Status non_max_suppression(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Suppression limits, suppression_limits(call));
  const Shape& b = call.dims(0);
  const Shape& s = call.dims(1);
  if (b.size() != 3 || s.size() != 3 || b[2] != 4 || b[0] != s[0] || b[1] != s[2]) {
    return invalid(
        fmt::format("boxes of shape {} and scores of shape {}", shape_text(b), shape_text(s)));
  }
  const bool centre = call.attribute("center_point_box", 0) != 0;
  const Reader<double> corners(call.tensor(0));
  const Reader<double> scores(call.tensor(1));
  std::vector<std::int64_t> found;
  for (std::int64_t batch = 0; batch < b[0]; ++batch) {
    std::vector<Box> boxes;
    for (std::int64_t i = batch * b[1]; i < (batch + 1) * b[1]; ++i) {
      boxes.push_back(make_box(
          {corners[i * 4], corners[i * 4 + 1], corners[i * 4 + 2], corners[i * 4 + 3]}, centre));
    }
    for (std::int64_t kind = 0; kind < s[1]; ++kind) {
      std::vector<double> row;
      for (std::int64_t i = 0; i < s[2]; ++i)
        row.push_back(scores[(batch * s[1] + kind) * s[2] + i]);
      for (const std::int64_t box : select_boxes(boxes, row, limits)) {
        found.insert(found.end(), {batch, kind, box});
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(found.size() / 3);
  outputs.push_back(Tensor::zeros(Format::kI64, {rows, 3}));
  std::copy(found.begin(), found.end(), outputs[0].as<std::int64_t>().begin());
  return {};
}

}  // namespace tessera::model::ops

#include "model/ops/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arith/function.h"
#include "model/ops/elements.h"
#include "model/ops/window.h"

namespace tessera::model::ops {

namespace {

Result<Window> pool_window(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 3));
  TESSERA_TRY(const Shape kernel, kernel_shape(call, nullptr));
  return plan_window(call, kernel, call.attribute("ceil_mode", 0) != 0);
}

Result<Shape> pooled_shape(const Call& call) {
  TESSERA_TRY(const Window window, pool_window(call));
  Shape dims(call.dims(0).begin(), call.dims(0).begin() + 2);
  for (const WindowAxis& axis : window) dims.push_back(axis.output);
  return dims;
}

struct Planes {
  std::int64_t count = 0;  // batch times channels
  std::int64_t in = 1;     // elements of one
  std::int64_t out = 1;
};

Planes planes_of(const Call& call, const Window& window) {
  Planes planes{call.dims(0)[0] * call.dims(0)[1], 1, 1};
  for (const WindowAxis& axis : window) {
    planes.in *= axis.input;
    planes.out *= axis.output;
  }
  return planes;
}

// Row-major position in the input plane -> column-major position.
std::int64_t column_major(const Window& window, std::int64_t position) {
  std::vector<std::int64_t> index(window.size());
  for (std::size_t i = window.size(); i-- > 0;) {
    index[i] = position % window[i].input;
    position /= window[i].input;
  }
  std::int64_t result = 0;
  for (std::size_t i = window.size(); i-- > 0;) result = result * window[i].input + index[i];
  return result;
}

// The elements of a window, padding included, that lie within the padded input.
double padded_taps(const Window& window, const std::vector<std::int64_t>& at) {
  double count = 1.0;
  for (std::size_t i = 0; i < window.size(); ++i) {
    const WindowAxis& axis = window[i];
    const std::int64_t start = at[i] * axis.stride - axis.before;
    const std::int64_t room = axis.input + axis.after - start;
    count *= static_cast<double>(std::min(axis.kernel, (room + axis.dilation - 1) / axis.dilation));
  }
  return count;
}

}  // namespace

Result<Outputs> max_pool_shape(const Call& call) {
  if (call.format(0) == Format::kBool)
    return invalid("input 0 has format bool, numbers are needed");
  TESSERA_TRY(const Shape dims, pooled_shape(call));
  Outputs outputs = one_output(call.format(0), dims);
  if (call.output_count() > 1) outputs.push_back({Format::kI64, dims, nullptr});
  return outputs;
}

Status max_pool(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Window window, pool_window(call));
  const bool by_column = call.attribute("storage_order", 0) != 0;
  const Planes planes = planes_of(call, window);
  std::vector<Tap> taps;
  with_working_type(call.format(0), [&]<typename W>() {
    const Reader<W> in(call.tensor(0));
    const Writer<W> out(outputs[0]);
    walk_indices(output_plane(window), [&](std::int64_t place, const auto& at) {
      find_taps(window, at, taps);
      for (std::int64_t plane = 0; plane < planes.count; ++plane) {
        W best = std::is_floating_point_v<W> ? -std::numeric_limits<W>::infinity()
                                             : std::numeric_limits<W>::lowest();
        std::int64_t best_at = 0;
        for (std::size_t t = 0; t < taps.size(); ++t) {
          const W x = in[plane * planes.in + taps[t].input];
          if (t > 0 && !is_below(best, x)) continue;
          best = x;
          best_at = taps[t].input;
        }
        out.set(plane * planes.out + place, best);
        if (outputs.size() < 2) continue;
        if (by_column) best_at = column_major(window, best_at);
        outputs[1].as<std::int64_t>()[static_cast<std::size_t>(plane * planes.out + place)] =
            plane * planes.in + best_at;
      }
    });
  });
  return {};
}

Result<Outputs> average_pool_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_TRY(Shape dims, pooled_shape(call));
  return one_output(call.format(0), std::move(dims));
}

Status average_pool(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Window window, pool_window(call));
  const bool count_pads = call.attribute("count_include_pad", 0) != 0;
  const Planes planes = planes_of(call, window);
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  std::vector<Tap> taps;
  walk_indices(output_plane(window), [&](std::int64_t place, const auto& at) {
    find_taps(window, at, taps);
    const double divisor = count_pads ? padded_taps(window, at) : static_cast<double>(taps.size());
    for (std::int64_t plane = 0; plane < planes.count; ++plane) {
      double sum = 0.0;
      for (const Tap& tap : taps) sum += in[plane * planes.in + tap.input];
      // A window that sees only padding averages nothing: zero.
      out.set(plane * planes.out + place, taps.empty() ? 0.0 : sum / divisor);
    }
  });
  return {};
}

namespace {

double lp_norm(double sum, double p) {
  return p == 2.0 ? std::sqrt(sum) : arith::apply(BinaryFunction::kPower, sum, 1.0 / p);
}

double lp_term(double x, double p) {
  return p == 2.0 ? x * x : arith::apply(BinaryFunction::kPower, std::fabs(x), p);
}

}  // namespace

Status lp_pool(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Window window, pool_window(call));
  const auto p = static_cast<double>(call.attribute("p", 2));
  const Planes planes = planes_of(call, window);
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  std::vector<Tap> taps;
  walk_indices(output_plane(window), [&](std::int64_t place, const auto& at) {
    find_taps(window, at, taps);
    for (std::int64_t plane = 0; plane < planes.count; ++plane) {
      double sum = 0.0;
      for (const Tap& tap : taps) sum += lp_term(in[plane * planes.in + tap.input], p);
      out.set(plane * planes.out + place, lp_norm(sum, p));
    }
  });
  return {};
}

Result<Outputs> global_pool_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  Shape dims(call.dims(0).size(), 1);
  dims[0] = call.dims(0)[0];
  dims[1] = call.dims(0)[1];
  return one_output(call.format(0), std::move(dims));
}

Status global_pool(const Call& call, std::vector<Tensor>& outputs) {
  const auto p = static_cast<double>(call.attribute("p", 2));
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  const std::int64_t planes = element_count(outputs[0].dims);
  const std::int64_t size = planes == 0 ? 0 : element_count(call.dims(0)) / planes;
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    double top = -std::numeric_limits<double>::infinity();
    double sum = 0.0;
    for (std::int64_t i = plane * size; i < (plane + 1) * size; ++i) {
      top = arith::maximum(top, in[i]);
      sum += call.op_type() == "GlobalLpPool" ? lp_term(in[i], p) : in[i];
    }
    if (call.op_type() == "GlobalMaxPool") sum = top;
    if (call.op_type() == "GlobalAveragePool") sum /= static_cast<double>(size);
    if (call.op_type() == "GlobalLpPool") sum = lp_norm(sum, p);
    out.set(plane, sum);
  }
  return {};
}

namespace {

// The shape that the indices of MaxUnpool refer to.
Result<Shape> unpooled_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 3));
  TESSERA_TRY(const Shape kernel, kernel_shape(call, nullptr));
  TESSERA_TRY(const Window window, window_parameters(call, kernel));
  Shape dims(call.dims(0).begin(), call.dims(0).begin() + 2);
  for (const WindowAxis& axis : window) {
    dims.push_back((axis.input - 1) * axis.stride + axis.kernel - axis.before - axis.after);
  }
  TESSERA_RETURN_IF_ERROR(check_size(call.format(0), dims));
  return dims;
}

}  // namespace

Result<Outputs> max_unpool_shape(const Call& call) {
  TESSERA_TRY(const Shape inner, unpooled_shape(call));
  TESSERA_RETURN_IF_ERROR(call.require_shape(1, call.dims(0)));
  if (!call.has(2)) return one_output(call.format(0), inner);
  TESSERA_TRY(const Integers given, call.integers(2));
  bool fits = given.size() == inner.size();
  for (std::size_t i = 0; fits && i < inner.size(); ++i) fits = given[i] >= inner[i];
  if (!fits) {
    return invalid(
        fmt::format("output shape {} cannot hold {}", shape_text(given), shape_text(inner)));
  }
  return one_output(call.format(0), given);
}

Status max_unpool(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const Shape inner, unpooled_shape(call));
  const std::vector<std::int64_t> strides = strides_of(outputs[0].dims);
  const std::int64_t limit = element_count(inner);
  const Reader<std::int64_t> indices(call.tensor(1));
  const Copier copier(call.tensor(0), outputs[0]);
  const std::int64_t count = element_count(call.dims(0));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t index = indices[i];
    if (index < 0 || index >= limit) {
      return invalid(fmt::format("index {} is outside [0, {}]", index, limit - 1));
    }
    std::int64_t to = 0;
    for (std::size_t axis = inner.size(); axis-- > 0;) {
      to += index % inner[axis] * strides[axis];
      index /= inner[axis];
    }
    copier.copy(i, to);
  }
  return {};
}

}  // namespace tessera::model::ops

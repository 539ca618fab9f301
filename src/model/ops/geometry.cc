#include "model/ops/geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "model/ops/elements.h"
#include "model/ops/window.h"

namespace tessera::model::ops {

// --- CenterCropPad -------------------------------------------------------------------------------

Result<Outputs> center_crop_pad_shape(const Call& call) {
  TESSERA_TRY(const Integers wanted, call.integers(1));
  Integers axes(call.dims(0).size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = call.attribute_integers("axes", axes);
  TESSERA_RETURN_IF_ERROR(normalise_axes(axes, call.rank(0)));
  if (axes.size() != wanted.size()) {
    return invalid(fmt::format("{} extents for {} axes", wanted.size(), axes.size()));
  }
  Shape dims = call.dims(0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    TESSERA_TRY(const std::int64_t axis, normalise_axis(axes[i], call.rank(0)));
    dims[static_cast<std::size_t>(axis)] = wanted[i];
  }
  return one_output(call.format(0), std::move(dims));
}

// The surplus, of the input or of the output, is halved; the odd element is at the end.
Status center_crop_pad(const Call& call, std::vector<Tensor>& outputs) {
  const Shape &from = call.dims(0), &to = outputs[0].dims;
  Shape common, from_start, to_start;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    common.push_back(std::min(from[axis], to[axis]));
    from_start.push_back(std::max<std::int64_t>(0, from[axis] - to[axis]) / 2);
    to_start.push_back(std::max<std::int64_t>(0, to[axis] - from[axis]) / 2);
  }
  const std::vector<std::int64_t> in = strides_of(from), out = strides_of(to);
  const std::int64_t in_base =
      std::inner_product(in.begin(), in.end(), from_start.begin(), std::int64_t{0});
  const std::int64_t out_base =
      std::inner_product(out.begin(), out.end(), to_start.begin(), std::int64_t{0});
  const Copier copier(call.tensor(0), outputs[0]);
  walk<2>(common, {in, out}, [&](std::int64_t, const auto& offsets) {
    copier.copy(in_base + offsets[0], out_base + offsets[1]);
  });
  return {};
}

// --- Col2Im --------------------------------------------------------------------------------------

namespace {

struct ColumnPlan {
  Shape image, block, positions;  // positions: of the block in the padded image
  Integers strides, dilations, before;
  std::int64_t channels = 0;
};

Result<ColumnPlan> plan_columns(const Call& call) {
  ColumnPlan plan;
  TESSERA_TRY(plan.image, call.integers(1));
  TESSERA_TRY(plan.block, call.integers(2));
  const std::size_t axes = plan.image.size();
  if (call.rank(0) != 3 || axes == 0 || plan.block.size() != axes) {
    return invalid(fmt::format("input of shape {}, image of {} axes, block of {}",
                               shape_text(call.dims(0)), axes, plan.block.size()));
  }
  TESSERA_RETURN_IF_ERROR(check_size(Format::kU8, plan.image));
  TESSERA_RETURN_IF_ERROR(check_size(Format::kU8, plan.block));
  plan.strides = call.attribute_integers("strides", Integers(axes, 1));
  plan.dilations = call.attribute_integers("dilations", Integers(axes, 1));
  const Integers pads = call.attribute_integers("pads", Integers(2 * axes, 0));
  if (plan.strides.size() != axes || plan.dilations.size() != axes || pads.size() != 2 * axes) {
    return invalid("strides, dilations or pads have the wrong length");
  }
  plan.before.assign(pads.begin(), pads.begin() + static_cast<long>(axes));
  for (std::size_t i = 0; i < axes; ++i) {
    const auto small = [](std::int64_t x) { return x >= 0 && x <= kDimensionMax; };
    if (plan.block[i] < 1 || plan.strides[i] < 1 || plan.dilations[i] < 1 ||
        !small(plan.strides[i]) || !small(plan.dilations[i]) || !small(pads[i]) ||
        !small(pads[i + axes])) {
      return invalid(fmt::format("the block, stride, dilation or pads of axis {}", i));
    }
    const std::int64_t room =
        plan.image[i] + pads[i] + pads[i + axes] - plan.dilations[i] * (plan.block[i] - 1) - 1;
    plan.positions.push_back(room < 0 ? 0 : room / plan.strides[i] + 1);
  }
  const std::int64_t size = element_count(plan.block);
  TESSERA_RETURN_IF_ERROR(check_size(Format::kU8, plan.positions));
  if (call.dims(0)[1] % size != 0 || call.dims(0)[2] != element_count(plan.positions)) {
    return invalid(fmt::format("input of shape {}, blocks of {} at {} positions",
                               shape_text(call.dims(0)), size, element_count(plan.positions)));
  }
  plan.channels = call.dims(0)[1] / size;
  return plan;
}

}  // namespace

Result<Outputs> column_to_image_shape(const Call& call) {
  TESSERA_TRY(const ColumnPlan plan, plan_columns(call));
  Shape dims = {call.dims(0)[0], plan.channels};
  dims.insert(dims.end(), plan.image.begin(), plan.image.end());
  return one_output(call.format(0), std::move(dims));
}

// Every element of a column is added where its tap lies; what falls into the padding is dropped.
Status column_to_image(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const ColumnPlan plan, plan_columns(call));
  const std::int64_t plane = element_count(plan.image);
  const std::vector<std::int64_t> strides = strides_of(plan.image);
  const std::vector<double> in = load<double>(call.tensor(0));
  std::vector<double> sums(static_cast<std::size_t>(element_count(outputs[0].dims)), 0.0);
  std::size_t next = 0;
  for (std::int64_t map = 0; map < call.dims(0)[0] * plan.channels; ++map) {
    walk_indices(plan.block, [&](std::int64_t, const auto& tap) {
      walk_indices(plan.positions, [&](std::int64_t, const auto& position) {
        const double value = in[next++];
        std::int64_t to = map * plane;
        bool inside = true;
        for (std::size_t i = 0; i < tap.size(); ++i) {
          const std::int64_t at =
              position[i] * plan.strides[i] + tap[i] * plan.dilations[i] - plan.before[i];
          inside = inside && at >= 0 && at < plan.image[i];
          to += at * strides[i];
        }
        if (inside) sums[static_cast<std::size_t>(to)] += value;
      });
    });
  }
  const Writer<double> out(outputs[0]);
  for (std::size_t i = 0; i < sums.size(); ++i) out.set(static_cast<std::int64_t>(i), sums[i]);
  return {};
}

// --- AffineGrid ----------------------------------------------------------------------------------

// Sizes are [N, C, H, W] or [N, C, D, H, W]; the grid is [N, (D,) H, W, axes], x first.
Result<Outputs> affine_grid_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_TRY(const Integers size, call.integers(1));
  const auto axes = static_cast<std::int64_t>(size.size()) - 2;
  if ((axes != 2 && axes != 3) || call.dims(0) != Shape{size[0], axes, axes + 1}) {
    return invalid(fmt::format("theta of shape {} for a size of {} values",
                               shape_text(call.dims(0)), size.size()));
  }
  Shape dims = {size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(axes);
  return one_output(call.format(0), std::move(dims));
}

Status affine_grid(const Call& call, std::vector<Tensor>& outputs) {
  const bool corners = call.attribute("align_corners", 0) != 0;
  const Shape& dims = outputs[0].dims;
  const std::size_t axes = dims.size() - 2;
  const Reader<double> theta(call.tensor(0));
  const Writer<double> out(outputs[0]);
  const auto coordinate = [&](std::int64_t i, std::int64_t length) {
    const auto n = static_cast<double>(length), x = static_cast<double>(i);
    if (corners) return length == 1 ? -1.0 : -1.0 + 2.0 * x / (n - 1.0);
    return (2.0 * x + 1.0) / n - 1.0;
  };
  const auto width = static_cast<std::int64_t>(axes + 1);
  walk_indices(dims, [&](std::int64_t position, const auto& at) {
    const std::int64_t row = (at[0] * static_cast<std::int64_t>(axes) + at.back()) * width;
    double sum = theta[row + width - 1];
    for (std::size_t k = 0; k < axes; ++k) {
      const std::size_t axis = axes - k;  // x is the last spatial axis
      sum += theta[row + static_cast<std::int64_t>(k)] * coordinate(at[axis], dims[axis]);
    }
    out.set(position, sum);
  });
  return {};
}

// --- DeformConv ----------------------------------------------------------------------------------

namespace {

struct DeformPlan {
  Window window;
  Shape output;
  std::int64_t groups = 1, offset_groups = 1;
};

Result<DeformPlan> plan_deform(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  const Shape &x = call.dims(0), &w = call.dims(1);
  if (x.size() != 4 || w.size() != 4) {
    return unsupported(
        fmt::format("input of shape {} and weights of shape {}, 2 spatial axes are "
                    "supported",
                    shape_text(x), shape_text(w)));
  }
  DeformPlan plan;
  TESSERA_TRY(const Shape kernel, kernel_shape(call, &w));
  TESSERA_TRY(plan.window, plan_window(call, kernel, false));
  plan.groups = call.attribute("group", 1);
  plan.offset_groups = call.attribute("offset_group", 1);
  if (plan.groups < 1 || plan.offset_groups < 1 || x[1] % plan.groups != 0 ||
      w[0] % plan.groups != 0 || w[1] != x[1] / plan.groups || x[1] % plan.offset_groups != 0) {
    return invalid(fmt::format("{} channels, weights {}, {} groups, {} offset groups", x[1],
                               shape_text(w), plan.groups, plan.offset_groups));
  }
  const Shape plane = output_plane(plan.window);
  plan.output = {x[0], w[0], plane[0], plane[1]};
  const std::int64_t taps = element_count(kernel) * plan.offset_groups;
  const Shape offsets = {x[0], 2 * taps, plane[0], plane[1]};
  const Shape mask = {x[0], taps, plane[0], plane[1]};
  if (call.dims(2) != offsets || (call.has(4) && call.dims(4) != mask)) {
    return invalid(fmt::format("offsets of shape {}, {} is needed (and of the mask {})",
                               shape_text(call.dims(2)), shape_text(offsets), shape_text(mask)));
  }
  TESSERA_RETURN_IF_ERROR(call.require_vector(3, w[0]));
  return plan;
}

// Between four pixels; what lies outside counts as 0.
double between(const Reader<double>& in, std::int64_t base, const Window& window,
               std::array<double, 2> at) {
  const double top = std::floor(at[0]), left = std::floor(at[1]);
  double sum = 0.0;
  for (int corner = 0; corner < 4; ++corner) {
    const double y = top + corner / 2, x = left + corner % 2;
    const double weight = (1.0 - std::fabs(at[0] - y)) * (1.0 - std::fabs(at[1] - x));
    const bool inside = y >= 0.0 && y < static_cast<double>(window[0].input) && x >= 0.0 &&
                        x < static_cast<double>(window[1].input);
    if (!inside || weight == 0.0) continue;
    sum += weight *
           in[base + static_cast<std::int64_t>(y) * window[1].input + static_cast<std::int64_t>(x)];
  }
  return sum;
}

}  // namespace

Result<Outputs> deform_conv_shape(const Call& call) {
  TESSERA_TRY(DeformPlan plan, plan_deform(call));
  return one_output(call.format(0), std::move(plan.output));
}

Status deform_conv(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const DeformPlan plan, plan_deform(call));
  const Shape &x = call.dims(0), &w = call.dims(1);
  const WindowAxis &rows = plan.window[0], &columns = plan.window[1];
  const Reader<double> in(call.tensor(0)), weights(call.tensor(1)), offsets(call.tensor(2));
  std::vector<double> mask, bias(static_cast<std::size_t>(w[0]), 0.0);
  if (call.has(3)) bias = load<double>(call.tensor(3));
  if (call.has(4)) mask = load<double>(call.tensor(4));
  const Writer<double> out(outputs[0]);
  const std::int64_t taps = w[2] * w[3], places = rows.output * columns.output;
  walk_indices(plan.output, [&](std::int64_t position, const auto& at) {
    double sum = bias[static_cast<std::size_t>(at[1])];
    const std::int64_t first = at[1] / (w[0] / plan.groups) * w[1];
    const std::int64_t place = at[2] * columns.output + at[3];
    for (std::int64_t i = 0; i < w[1] * taps; ++i) {
      const std::int64_t channel = first + i / taps, tap = i % taps;
      const std::int64_t group = channel / (x[1] / plan.offset_groups);
      const std::int64_t row = (at[0] * plan.offset_groups + group) * taps + tap;
      const double y =
          static_cast<double>(at[2] * rows.stride - rows.before + tap / w[3] * rows.dilation) +
          offsets[2 * row * places + place];
      const double z = static_cast<double>(at[3] * columns.stride - columns.before +
                                           tap % w[3] * columns.dilation) +
                       offsets[(2 * row + 1) * places + place];
      const double gate = mask.empty() ? 1.0 : mask[static_cast<std::size_t>(row * places + place)];
      const std::int64_t base = (at[0] * x[1] + channel) * x[2] * x[3];
      sum += gate * weights[at[1] * w[1] * taps + i] * between(in, base, plan.window, {y, z});
    }
    out.set(position, sum);
  });
  return {};
}

}  // namespace tessera::model::ops

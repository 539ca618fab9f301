// Nearest-neighbour Resize and Upsample: an index map for each axis, hence a Move. Whole-number
// factors need one box. Other modes are the host's.
//
// The source coordinate is computed in binary64: from the ratio of the extents where sizes are
// given, from the stated scale otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "graph/move_box.h"
#include "graph/operators.h"

namespace tessera::graph {

namespace {

// One axis of a resize.
struct Axis {
  std::int64_t input = 1;
  std::int64_t output = 1;
  double scale = 1.0;
};

// The real input coordinate of output coordinate `i`; nothing for modes that are not known here.
std::optional<double> source_coordinate(const Axis& axis, std::int64_t i, const std::string& mode) {
  const auto x = static_cast<double>(i);
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "half_pixel") return (x + 0.5) / axis.scale - 0.5;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (mode == "pytorch_half_pixel") {
    return axis.output > 1 ? (x + 0.5) / axis.scale - 0.5 : 0.0;
  }
  if (mode == "align_corners") {
    if (axis.output == 1) return 0.0;
    return x * static_cast<double>(axis.input - 1) / static_cast<double>(axis.output - 1);
  }
  if (mode == "half_pixel_symmetric") {
    const double exact = axis.scale * static_cast<double>(axis.input);
    const double adjustment = static_cast<double>(axis.output) / exact;
    const double center = static_cast<double>(axis.input) / 2;
    return center * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5;
  }
  return std::nullopt;
}

std::optional<double> nearest(double x, const std::string& mode) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_floor") return std::ceil(x - 0.5);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::nullopt;
}

std::optional<IndexMap> nearest_map(const Axis& axis, const std::string& coordinate_mode,
                                    const std::string& nearest_mode) {
  IndexMap map;
  for (std::int64_t i = 0; i < axis.output; ++i) {
    if (axis.input == axis.output && axis.scale == 1.0) {
      map.push_back(i);
      continue;
    }
    const auto x = source_coordinate(axis, i, coordinate_mode);
    if (!x) return std::nullopt;
    const auto whole = nearest(*x, nearest_mode);
    if (!whole) return std::nullopt;
    map.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(*whole), 0, axis.input - 1));
  }
  return map;
}

struct ResizeModes {
  std::string coordinate;
  std::string nearest;
};

// `scales` is empty where the sizes decide.
Lowered emit_nearest(Op& op, const std::vector<double>& scales,
                     const std::vector<std::size_t>& axes, const ResizeModes& modes) {
  const Shape& input = op.input_dims(0);
  const Shape& output = op.output_dims(0);
  std::vector<IndexMap> maps;
  for (std::size_t k = 0; k < input.size(); ++k) {
    Axis axis{input[k], output[k], static_cast<double>(output[k]) / static_cast<double>(input[k])};
    for (std::size_t j = 0; j < axes.size() && j < scales.size(); ++j) {
      if (axes[j] == k) axis.scale = scales[j];
    }
    auto map = nearest_map(axis, modes.coordinate, modes.nearest);
    if (!map) {
      return Lowered::host(fmt::format("operator '{}': coordinates '{}' with '{}'", op.node.op_type,
                                       modes.coordinate, modes.nearest));
    }
    maps.push_back(std::move(*map));
  }
  auto move = move_by_index_maps(input, maps);
  if (!move) {
    return Lowered::host(fmt::format("operator '{}': takes more than {} copies of {} axes",
                                     op.node.op_type, kBoxesMax, kBoxAxesMax));
  }
  op.at.emit_output(op, 0, {op.at.value(op.input(0))}, std::move(*move));
  return Lowered::done();
}

std::vector<std::size_t> resize_axes(const Op& op) {
  const std::size_t rank = op.input_dims(0).size();
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : op.integer_list("axes")) {
    axes.push_back(static_cast<std::size_t>(positive_axis(axis, rank)));
  }
  for (std::size_t i = 0; axes.empty() && i < rank; ++i) {
    axes.resize(rank);
    for (std::size_t k = 0; k < rank; ++k) axes[k] = k;
  }
  return axes;
}

}  // namespace

Lowered lower_resize(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const std::string mode = op.text("mode", "nearest");
  if (mode != "nearest") return Lowered::host(fmt::format("operator 'Resize': mode '{}'", mode));
  // Opset 10 is Upsample by another name.
  const bool old = op.opset < 11;
  const std::size_t scales_at = old ? 1 : 2;
  std::vector<double> scales;
  if (op.has_input(scales_at)) {
    if (op.constant(scales_at) == nullptr) {
      return Lowered::host("operator 'Resize': the scales are computed at run time");
    }
    scales = reals(*op.constant(scales_at));
  }
  const ResizeModes modes =
      old ? ResizeModes{"asymmetric", "floor"}
          : ResizeModes{op.text("coordinate_transformation_mode", "half_pixel"),
                        op.text("nearest_mode", "round_prefer_floor")};
  return emit_nearest(op, scales, resize_axes(op), modes);
}

Lowered lower_upsample(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const std::string mode = op.text("mode", "nearest");
  if (mode != "nearest") {
    return Lowered::host(fmt::format("operator 'Upsample': mode '{}'", mode));
  }
  std::vector<double> scales;
  for (const float scale : op.real_list("scales")) scales.push_back(scale);
  if (op.has_input(1)) {
    if (op.constant(1) == nullptr) {
      return Lowered::host("operator 'Upsample': the scales are computed at run time");
    }
    scales = reals(*op.constant(1));
  }
  return emit_nearest(op, scales, resize_axes(op), {"asymmetric", "floor"});
}

}  // namespace tessera::graph

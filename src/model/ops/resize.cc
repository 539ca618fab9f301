// The axes are independent: every output coordinate of an axis is a weighted sum of a few (without
// antialiasing at most four) input coordinates, and an element is the sum over all combinations, in
// binary64.
//
//   output coordinate ──[ coordinate transformation ]──► real input coordinate
//                     ──[ nearest | linear | cubic ]───► places and weights on that axis
#include "model/ops/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "arith/rounding.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

struct ResizeAxis {
  std::int64_t input = 1;
  std::int64_t output = 1;
  double scale = 1.0;
  double width = 1.0;  // scale * input, before it was rounded to `output`
  double roi_start = 0.0;
  double roi_end = 1.0;
};

// Whether the operator is one of the old forms, which know no coordinate transformation.
bool is_old(const Call& call) { return call.op_type() == "Upsample" || call.opset() < 11; }

// The numbers of input `index`; empty where it is absent or has no elements.
Result<std::vector<double>> numbers(const Call& call, std::size_t index) {
  if (!call.has(index) || element_count(call.dims(index)) == 0) return std::vector<double>{};
  if (!call.is_constant(index)) {
    return unsupported(
        fmt::format("input {} is not a constant, so the output's shape depends on "
                    "data",
                    index));
  }
  if (call.rank(index) != 1) return invalid(fmt::format("input {} is not a vector", index));
  return load<double>(call.tensor(index));
}

struct ResizeArguments {
  std::vector<double> roi;
  std::vector<double> scales;
  std::vector<double> sizes;
  Integers axes;
};

Result<ResizeArguments> resize_arguments(const Call& call) {
  ResizeArguments given;
  if (call.has_attribute("scales")) {
    for (const float scale : std::get<std::vector<float>>(call.attribute_value("scales"))) {
      given.scales.push_back(static_cast<double>(scale));
    }
  } else if (is_old(call)) {
    TESSERA_TRY(given.scales, numbers(call, 1));
  } else {
    TESSERA_TRY(given.roi, numbers(call, 1));
    TESSERA_TRY(given.scales, numbers(call, 2));
    TESSERA_TRY(given.sizes, numbers(call, 3));
  }
  if (given.scales.empty() == given.sizes.empty()) {
    return invalid("scales or sizes must be given, and not both");
  }
  given.axes.resize(call.dims(0).size());
  std::iota(given.axes.begin(), given.axes.end(), 0);
  given.axes = call.attribute_integers("axes", given.axes);
  TESSERA_RETURN_IF_ERROR(normalise_axes(given.axes, call.rank(0)));
  const std::size_t count = std::max(given.scales.size(), given.sizes.size());
  if (count != given.axes.size()) {
    return invalid(fmt::format("{} scales or sizes for {} axes", count, given.axes.size()));
  }
  return given;
}

// The sizes as the policy changes them: one scale for all axes.
void keep_aspect_ratio(const std::string& policy, const Shape& dims, ResizeArguments& given) {
  if (policy == "stretch" || given.sizes.empty()) return;
  double common = policy == "not_larger" ? HUGE_VAL : 0.0;
  const auto length = [&](std::size_t i) {
    const std::int64_t axis = given.axes[i];
    const auto rank = static_cast<std::int64_t>(dims.size());
    return static_cast<double>(dims[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)]);
  };
  for (std::size_t i = 0; i < given.sizes.size(); ++i) {
    const double scale = given.sizes[i] / length(i);
    common = policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
  }
  for (std::size_t i = 0; i < given.sizes.size(); ++i) {
    given.sizes[i] = std::floor(common * length(i) + 0.5);
  }
}

Result<std::vector<ResizeAxis>> plan_resize(const Call& call) {
  TESSERA_TRY(ResizeArguments given, resize_arguments(call));
  keep_aspect_ratio(call.attribute_string("keep_aspect_ratio_policy", "stretch"), call.dims(0),
                    given);
  std::vector<ResizeAxis> plan(call.dims(0).size());
  for (std::size_t i = 0; i < plan.size(); ++i) {
    plan[i].input = plan[i].output = call.dims(0)[i];
    plan[i].width = static_cast<double>(plan[i].input);
  }
  for (std::size_t i = 0; i < given.axes.size(); ++i) {
    TESSERA_TRY(const std::int64_t at, normalise_axis(given.axes[i], call.rank(0)));
    ResizeAxis& axis = plan[static_cast<std::size_t>(at)];
    const auto input = static_cast<double>(axis.input);
    if (given.sizes.empty()) {
      axis.scale = given.scales[i];
      // As in binary32, so that 10 * 0.7 is 7.
      axis.width = static_cast<double>(arith::f32_from_f64(axis.scale * input));
    } else {
      axis.width = given.sizes[i];
      axis.scale = axis.width / input;
    }
    if (!(axis.scale > 0.0) || !(axis.width < static_cast<double>(kDimensionMax))) {
      return invalid(
          fmt::format("axis {} of length {} is scaled by {}", at, axis.input, axis.scale));
    }
    axis.output = static_cast<std::int64_t>(std::floor(axis.width));
    if (axis.input == 0 && axis.output > 0) {
      return invalid(
          fmt::format("axis {} is empty, it cannot have a length of {}", at, axis.output));
    }
    if (call.attribute_string("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
      if (given.roi.size() != 2 * given.axes.size()) {
        return invalid(fmt::format("the region of interest has {} values, {} are needed",
                                   given.roi.size(), 2 * given.axes.size()));
      }
      axis.roi_start = given.roi[i];
      axis.roi_end = given.roi[i + given.axes.size()];
      if (!std::isfinite(axis.roi_start) || !std::isfinite(axis.roi_end)) {
        return invalid(fmt::format("the region of interest goes from {} to {} along axis {}",
                                   axis.roi_start, axis.roi_end, at));
      }
    }
  }
  return plan;
}

// A number of binary32, whose arithmetic rounds every result.
struct Single {
  static constexpr bool kCountsParts = false;
  explicit Single(double of) : value(static_cast<double>(arith::f32_from_f64(of))) {}
  double value;
};
Single operator+(Single a, Single b) { return Single(a.value + b.value); }
Single operator-(Single a, Single b) { return Single(a.value - b.value); }
Single operator*(Single a, Single b) { return Single(a.value * b.value); }
Single operator/(Single a, Single b) { return Single(a.value / b.value); }

struct Exact {
  static constexpr bool kCountsParts = true;
  explicit Exact(double of) : value(of) {}
  double value;
};
Exact operator+(Exact a, Exact b) { return Exact(a.value + b.value); }
Exact operator-(Exact a, Exact b) { return Exact(a.value - b.value); }
Exact operator*(Exact a, Exact b) { return Exact(a.value * b.value); }
Exact operator/(Exact a, Exact b) { return Exact(a.value / b.value); }

// Where output coordinate `place` lies on the input axis.
template <typename Number>
double transform(const std::string& mode, const ResizeAxis& axis, double place) {
  const Number input(static_cast<double>(axis.input)), one(1.0), half(0.5);
  const Number x(place), scale(axis.scale);
  // Of a scale that ends within an element, the standard's results count the part, those of ONNX Runtime do not.
  const Number width(Number::kCountsParts ? axis.width : static_cast<double>(axis.output));
  if (axis.input == axis.output && axis.scale == 1.0 && mode != "tf_crop_and_resize") return place;
  if (mode == "asymmetric") return (x / scale).value;
  if (mode == "tf_half_pixel_for_nn") return ((x + half) / scale).value;
  if (mode == "align_corners") {
    if (width.value <= 1.0 || axis.output == 1) return 0.0;
    return (x * (input - one) / (width - one)).value;
  }
  if (mode == "pytorch_half_pixel" && axis.output == 1) return 0.0;
  if (mode == "tf_crop_and_resize") {
    const Number start(axis.roi_start), end(axis.roi_end);
    if (axis.output == 1) return (half * (start + end) * (input - one)).value;
    return (start * (input - one) + x * (end - start) * (input - one) / (width - one)).value;
  }
  if (mode == "half_pixel_symmetric") {
    const Number output(static_cast<double>(axis.output));
    const Number middle = input / Number(2.0) * (one - output / (scale * input));
    return (middle + (x + half) / scale - half).value;
  }
  return ((x + half) / scale - half).value;
}

// In the numbers of ONNX Runtime, where what lies between two elements goes to one of them, or to none; between them a step of
// binary32 does not matter, and exact places leave the filters of whole factors what they are.
double input_place(const std::string& transformation, bool in_binary32, const ResizeAxis& axis,
                   double place) {
  return in_binary32 ? transform<Single>(transformation, axis, place)
                     : transform<Exact>(transformation, axis, place);
}

double nearest(const std::string& mode, double x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

struct Place {
  std::int64_t index;
  double weight;
};

// Weight of an element at distance d from the wanted coordinate (Keys' cubic convolution).
double cubic_weight(double a, double d) {
  d = std::fabs(d);
  if (d <= 1.0) return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
  if (d < 2.0) return a * (((d - 5.0) * d + 8.0) * d - 4.0);
  return 0.0;
}

// How one operator call interpolates.
struct Method {
  std::string mode;
  std::string transformation;
  std::string nearest_mode;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  bool old = false;
};

std::vector<Place> places_at(const Method& method, const ResizeAxis& axis, double x) {
  std::vector<Place> places;
  if (method.mode == "nearest") {
    // The old forms round up when they shrink, and down when they grow.
    const std::string old_mode = axis.scale < 1.0 ? "ceil" : "floor";
    const double at = nearest(method.old ? old_mode : method.nearest_mode, x);
    places.push_back({static_cast<std::int64_t>(at), 1.0});
  } else {
    const bool cubic = method.mode == "cubic";
    // An antialiased filter grows as the image shrinks.
    const double shrink = method.antialias ? std::min(axis.scale, 1.0) : 1.0;
    const double reach = (cubic ? 2.0 : 1.0) / shrink;
    double sum = 0.0;
    for (double at = std::floor(x - reach) + 1.0; at < x + reach; at += 1.0) {
      const double distance = (at - x) * shrink;
      double weight =
          cubic ? cubic_weight(method.cubic_a, distance) : std::max(0.0, 1.0 - std::fabs(distance));
      const auto index = static_cast<std::int64_t>(at);
      if (method.exclude_outside && (index < 0 || index >= axis.input)) weight = 0.0;
      sum += weight;
      places.push_back({index, weight});
    }
    for (Place& place : places) {
      if ((method.exclude_outside || shrink != 1.0) && sum != 0.0) place.weight /= sum;
    }
  }
  for (Place& place : places) {
    place.index = std::clamp<std::int64_t>(place.index, 0, axis.input - 1);
  }
  std::erase_if(places, [](const Place& place) { return place.weight == 0.0; });
  return places;
}

// Places and weights of every output coordinate of one axis; none = outside, take the constant.
std::vector<std::vector<Place>> axis_places(const Method& method, const ResizeAxis& axis) {
  std::vector<std::vector<Place>> all(static_cast<std::size_t>(axis.output));
  const bool crop = method.transformation == "tf_crop_and_resize";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double limit = 2.0 * static_cast<double>(kDimensionMax);
    const double x = std::clamp(input_place(method.transformation, crop || method.mode == "nearest",
                                            axis, static_cast<double>(i)),
                                -limit, limit);
    if (crop && (x < 0.0 || x > static_cast<double>(axis.input - 1))) continue;
    all[i] = places_at(method, axis, x);
  }
  return all;
}

Method method_of(const Call& call) {
  Method method;
  method.mode = call.attribute_string("mode", "nearest");
  if (method.mode == "bilinear") method.mode = "linear";
  method.old = is_old(call);
  method.transformation =
      method.old ? "asymmetric"
                 : call.attribute_string("coordinate_transformation_mode", "half_pixel");
  method.nearest_mode = call.attribute_string("nearest_mode", "round_prefer_floor");
  method.cubic_a = call.attribute_float("cubic_coeff_a", -0.75F);
  method.exclude_outside = call.attribute("exclude_outside", 0) != 0;
  method.antialias = call.attribute("antialias", 0) != 0;
  return method;
}

}  // namespace

Result<Outputs> resize_shape(const Call& call) {
  TESSERA_TRY(const std::vector<ResizeAxis> plan, plan_resize(call));
  Shape dims;
  for (const ResizeAxis& axis : plan) dims.push_back(axis.output);
  return one_output(call.format(0), std::move(dims));
}

Status resize(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::vector<ResizeAxis> plan, plan_resize(call));
  if (element_count(outputs[0].dims) == 0) return {};
  const Method method = method_of(call);
  const double outside = call.attribute_float("extrapolation_value", 0.0F);
  const std::vector<std::int64_t> strides = strides_of(call.dims(0));
  std::vector<std::vector<std::vector<Place>>> places;
  for (const ResizeAxis& axis : plan) places.push_back(axis_places(method, axis));
  const Copier copier(call.tensor(0), outputs[0]);
  const Reader<double> in(call.tensor(0));
  const Writer<double> out(outputs[0]);
  std::vector<Place> terms;
  std::vector<Place> wider;
  walk_indices(outputs[0].dims, [&](std::int64_t position, const auto& at) {
    terms.assign(1, {0, 1.0});
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      wider.clear();
      for (const Place& term : terms) {
        for (const Place& place : places[axis][static_cast<std::size_t>(at[axis])]) {
          wider.push_back({term.index + place.index * strides[axis], term.weight * place.weight});
        }
      }
      terms.swap(wider);
    }
    // One element as it is also serves formats that binary64 does not hold.
    if (terms.size() == 1 && terms[0].weight == 1.0) {
      copier.copy(terms[0].index, position);
      return;
    }
    double sum = terms.empty() ? outside : 0.0;
    for (const Place& term : terms) sum += in[term.index] * term.weight;
    out.set(position, sum);
  });
  return {};
}

}  // namespace tessera::model::ops

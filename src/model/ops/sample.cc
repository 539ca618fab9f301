#include "model/ops/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "arith/rounding.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

// How GridSample reads outside the plane.
struct Sampling {
  std::string mode;
  std::string padding;
  bool align_corners = false;

  bool is_cubic() const { return mode == "bicubic" || mode == "cubic"; }
};

// Mirrors a coordinate into [low, high].
double reflect(double x, double low, double high) {
  const double span = high - low;
  if (span <= 0.0) return low;
  const double phase = std::fmod(std::fabs(x - low), 2.0 * span);
  return low + (phase > span ? 2.0 * span - phase : phase);
}

// One axis of a pixel position that may lie outside; -1 = reads zero.
std::int64_t place(const Sampling& sampling, double position, std::int64_t length) {
  const auto last = static_cast<double>(length - 1);
  if (position >= 0.0 && position <= last) return static_cast<std::int64_t>(position);
  if (sampling.padding == "zeros" || std::isnan(position)) return -1;
  if (sampling.padding == "reflection") {
    position =
        sampling.align_corners ? reflect(position, 0.0, last) : reflect(position, -0.5, last + 0.5);
  }
  return static_cast<std::int64_t>(std::clamp(std::round(position), 0.0, last));
}

// Weights of the four neighbours at -1, 0, 1, 2 (cubic convolution, a = -0.75).
std::array<double, 4> cubic_weights(double t) {
  constexpr double a = -0.75;
  const auto near = [](double d) { return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0; };
  const auto far = [](double d) { return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

// What one axis adds to a sample: positions along it (-1 reads zero) and their weights.
struct AxisTerm {
  std::int64_t index = 0;
  double weight = 1.0;
};
using AxisTerms = std::vector<AxisTerm>;

AxisTerms axis_terms(const Sampling& sampling, double x, std::int64_t length) {
  if (sampling.mode == "nearest") return {{place(sampling, std::nearbyint(x), length), 1.0}};
  const double base = std::floor(x), t = x - base;
  AxisTerms terms;
  if (sampling.is_cubic()) {
    const std::array<double, 4> weights = cubic_weights(t);
    for (std::size_t k = 0; k < 4; ++k) {
      terms.push_back({place(sampling, base + static_cast<double>(k) - 1.0, length), weights[k]});
    }
    return terms;
  }
  return {{place(sampling, base, length), 1.0 - t}, {place(sampling, base + 1.0, length), t}};
}

// Calls f(weight, value) for every element that has a part in a sample.
template <typename F>
void for_each_corner(std::span<const double> values, const Shape& dims,
                     const std::vector<AxisTerms>& axes, F&& f) {
  Shape counts;
  for (const AxisTerms& terms : axes) counts.push_back(static_cast<std::int64_t>(terms.size()));
  walk_indices(counts, [&](std::int64_t, const auto& at) {
    double weight = 1.0;
    std::int64_t position = 0;
    bool inside = true;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const AxisTerm& term = axes[axis][static_cast<std::size_t>(at[axis])];
      weight *= term.weight;
      inside = inside && term.index >= 0;
      position = position * dims[axis] + term.index;
    }
    f(weight, inside ? values[static_cast<std::size_t>(position)] : 0.0);
  });
}

// From [-1, 1] to pixels, brought inside where the padding says so. With a border a cubic curve goes on behind the last pixel,
// as in PyTorch and ONNX Runtime: its neighbours are brought inside one by one.
double denormalise(const Sampling& sampling, double x, std::int64_t length) {
  const auto size = static_cast<double>(length);
  double position =
      sampling.align_corners ? (x + 1.0) / 2.0 * (size - 1.0) : ((x + 1.0) * size - 1.0) / 2.0;
  if (sampling.padding == "border" && !sampling.is_cubic())
    position = std::clamp(position, 0.0, size - 1.0);
  if (sampling.padding == "reflection") {
    position = sampling.align_corners ? reflect(position, 0.0, size - 1.0)
                                      : reflect(position, -0.5, size - 0.5);
  }
  return position;
}

}  // namespace

Result<Outputs> grid_sample_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_float(1));
  const std::int64_t axes = call.rank(0) - 2;
  if (axes < 1 || call.rank(1) != axes + 2 || call.dims(1).back() != axes ||
      call.dims(1)[0] != call.dims(0)[0]) {
    return invalid(fmt::format("an image of shape {} and a grid of shape {}",
                               shape_text(call.dims(0)), shape_text(call.dims(1))));
  }
  Shape dims = {call.dims(0)[0], call.dims(0)[1]};
  dims.insert(dims.end(), call.dims(1).begin() + 1, call.dims(1).end() - 1);
  return one_output(call.format(0), std::move(dims));
}

// A point of the grid has its coordinates with the last axis (x) first.
Status grid_sample(const Call& call, std::vector<Tensor>& outputs) {
  const Sampling sampling{call.attribute_string("mode", "linear"),
                          call.attribute_string("padding_mode", "zeros"),
                          call.attribute("align_corners", 0) != 0};
  const Shape image(call.dims(0).begin() + 2, call.dims(0).end());
  const std::int64_t size = element_count(image);
  if (size == 0) return invalid("the image is empty");
  const std::vector<double> values = load<double>(call.tensor(0));
  const Reader<double> grid(call.tensor(1));
  const Writer<double> out(outputs[0]);
  const auto axes = static_cast<std::int64_t>(image.size());
  const std::int64_t points =
      element_count(Shape(call.dims(1).begin() + 1, call.dims(1).end() - 1));
  std::vector<AxisTerms> terms(image.size());
  for (std::int64_t position = 0; position < element_count(outputs[0].dims); ++position) {
    const std::int64_t map = position / points;  // batch and channel
    const std::int64_t point = map / call.dims(0)[1] * points + position % points;
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      const std::int64_t length = image[static_cast<std::size_t>(axis)];
      const double x = denormalise(sampling, grid[point * axes + axes - 1 - axis], length);
      terms[static_cast<std::size_t>(axis)] = axis_terms(sampling, x, length);
    }
    double sum = 0.0;
    for_each_corner(std::span(values).subspan(static_cast<std::size_t>(map * size),
                                              static_cast<std::size_t>(size)),
                    image, terms, [&](double weight, double value) { sum += weight * value; });
    out.set(position, sum);
  }
  return {};
}

// Inputs: the image, regions [count, 4] as x1 y1 x2 y2, and the image each region is in.
Result<Outputs> roi_align_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  if (call.rank(0) != 4 || call.rank(1) != 2 || call.dims(1)[1] != 4) {
    return invalid(fmt::format("an image of shape {} and regions of shape {}",
                               shape_text(call.dims(0)), shape_text(call.dims(1))));
  }
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_RETURN_IF_ERROR(call.require_vector(2, call.dims(1)[0]));
  const std::int64_t ratio = call.attribute("sampling_ratio", 0);
  if (ratio < 0 || ratio > 1024) {
    return invalid(fmt::format("attribute 'sampling_ratio' is {}, allowed: 0 to 1024", ratio));
  }
  return one_output(call.format(0),
                    {call.dims(1)[0], call.dims(0)[1], call.attribute("output_height", 1),
                     call.attribute("output_width", 1)});
}

namespace {

// A region cut in bins, each of which is sampled at rows x columns points.
struct Bins {
  double y = 0.0;
  double x = 0.0;
  double height = 0.0;  // of one bin
  double width = 0.0;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};

// One channel's plane of an image.
struct Plane {
  std::span<const double> values;
  Shape dims;
};

// Linear between pixels; zero further than one pixel outside. With `maximum` the largest of the
// four corners' shares, as the standard's own data have it.
double align_sample(const Plane& plane, double y, double x, bool maximum) {
  const auto height = static_cast<double>(plane.dims[0]);
  const auto width = static_cast<double>(plane.dims[1]);
  if (y < -1.0 || y > height || x < -1.0 || x > width) return 0.0;
  static const Sampling kInside{"linear", "border", true};
  double sum = 0.0, top = -HUGE_VAL;
  for_each_corner(plane.values, plane.dims,
                  {axis_terms(kInside, std::clamp(y, 0.0, height - 1.0), plane.dims[0]),
                   axis_terms(kInside, std::clamp(x, 0.0, width - 1.0), plane.dims[1])},
                  [&](double weight, double value) {
                    sum += weight * value;
                    top = std::max(top, weight * value);
                  });
  return maximum ? top : sum;
}

double align_bin(const Plane& plane, const Bins& bins, std::int64_t row, std::int64_t column,
                 bool maximum) {
  if (bins.rows * bins.columns == 0) return 0.0;
  double sum = 0.0;
  double top = -HUGE_VAL;
  for (std::int64_t r = 0; r < bins.rows; ++r) {
    for (std::int64_t c = 0; c < bins.columns; ++c) {
      const double y = bins.y + (static_cast<double>(row) +
                                 (static_cast<double>(r) + 0.5) / static_cast<double>(bins.rows)) *
                                    bins.height;
      const double x =
          bins.x + (static_cast<double>(column) +
                    (static_cast<double>(c) + 0.5) / static_cast<double>(bins.columns)) *
                       bins.width;
      const double value = align_sample(plane, y, x, maximum);
      sum += value;
      top = std::max(top, value);
    }
  }
  return maximum ? top : sum / static_cast<double>(bins.rows * bins.columns);
}

}  // namespace

Status roi_align(const Call& call, std::vector<Tensor>& outputs) {
  const Shape& in = call.dims(0);
  if (in[2] == 0 || in[3] == 0) return invalid("the image is empty");
  const bool half = call.opset() >= 16 && call.attribute_string("coordinate_transformation_mode",
                                                                "half_pixel") == "half_pixel";
  const bool maximum = call.attribute_string("mode", "avg") == "max";
  const std::int64_t ratio = call.attribute("sampling_ratio", 0);
  const double scale = call.attribute_float("spatial_scale", 1.0F);
  const std::vector<double> values = load<double>(call.tensor(0));
  const Reader<double> regions(call.tensor(1));
  const Reader<std::int64_t> images(call.tensor(2));
  const Writer<double> out(outputs[0]);
  const auto size = static_cast<std::size_t>(in[2] * in[3]);
  const Shape& dims = outputs[0].dims;
  std::int64_t position = 0;
  for (std::int64_t region = 0; region < dims[0]; ++region) {
    const std::int64_t image = images[region];
    if (image < 0 || image >= in[0]) {
      return invalid(fmt::format("image {} is outside [0, {}]", image, in[0] - 1));
    }
    const double shift = half ? 0.5 : 0.0;
    Bins bins;
    bins.x = regions[region * 4] * scale - shift;
    bins.y = regions[region * 4 + 1] * scale - shift;
    double width = regions[region * 4 + 2] * scale - shift - bins.x;
    double height = regions[region * 4 + 3] * scale - shift - bins.y;
    if (!half) {
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    bins.height = height / static_cast<double>(dims[2]);
    bins.width = width / static_cast<double>(dims[3]);
    // Without a ratio: about one sample a pixel, and none of an empty region.
    const auto points = [ratio](double length) -> std::int64_t {
      if (ratio > 0) return ratio;
      if (length <= 0.0) return 0;
      // At least one, also where a corner is no number.
      return length > 1.0 ? static_cast<std::int64_t>(std::min(std::ceil(length), 1024.0)) : 1;
    };
    bins.rows = points(bins.height);
    bins.columns = points(bins.width);
    for (std::int64_t channel = 0; channel < dims[1]; ++channel) {
      const auto plane = static_cast<std::size_t>(image * in[1] + channel);
      const Plane view{std::span(values).subspan(plane * size, size), {in[2], in[3]}};
      for (std::int64_t bin = 0; bin < dims[2] * dims[3]; ++bin) {
        out.set(position++, align_bin(view, bins, bin / dims[3], bin % dims[3], maximum));
      }
    }
  }
  return {};
}

// Inputs: the image, and regions [count, 5] as image x1 y1 x2 y2.
Result<Outputs> max_roi_pool_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  if (call.rank(0) != 4 || call.rank(1) != 2 || call.dims(1)[1] != 5) {
    return invalid(fmt::format("an image of shape {} and regions of shape {}",
                               shape_text(call.dims(0)), shape_text(call.dims(1))));
  }
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  const std::vector<std::int64_t> pooled = call.attribute_integers("pooled_shape", {});
  if (pooled.size() != 2 || pooled[0] <= 0 || pooled[1] <= 0) {
    return invalid("attribute 'pooled_shape' is not two lengths above 0");
  }
  return one_output(call.format(0), {call.dims(1)[0], call.dims(0)[1], pooled[0], pooled[1]});
}

namespace {

// Of one axis of a region, the elements of each bin: whole ones, which bins may share. Sizes of bins are of binary32.
struct Range {
  std::int64_t begin = 0, end = 0;
};
std::vector<Range> ranges_of(double first, double last, std::int64_t bins, std::int64_t length) {
  constexpr double kFarOutside = 1e9;
  const auto whole = [=](double x) { return std::round(std::clamp(x, -kFarOutside, kFarOutside)); };
  const auto single = [](double x) { return static_cast<double>(arith::f32_from_f64(x)); };
  const double begin = std::isnan(first) ? 0.0 : whole(first);
  const double extent = std::max((std::isnan(last) ? 0.0 : whole(last)) - begin + 1.0, 1.0);
  const double size = single(extent / static_cast<double>(bins));
  std::vector<Range> ranges;
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const auto edge = [&](double at) {
      return static_cast<std::int64_t>(std::clamp(at + begin, 0.0, static_cast<double>(length)));
    };
    const auto at = static_cast<double>(bin);
    ranges.push_back(
        {edge(std::floor(single(at * size))), edge(std::ceil(single((at + 1.0) * size)))});
  }
  return ranges;
}

}  // namespace

// The largest element of each bin, 0 where it has none.
Status max_roi_pool(const Call& call, std::vector<Tensor>& outputs) {
  const Shape& in = call.dims(0);
  const Shape& dims = outputs[0].dims;
  const double scale = call.attribute_float("spatial_scale", 1.0F);
  const Reader<double> values(call.tensor(0)), regions(call.tensor(1));
  const Writer<double> out(outputs[0]);
  std::int64_t position = 0;
  for (std::int64_t region = 0; region < dims[0]; ++region) {
    const auto corner = [&](std::int64_t i) { return regions[region * 5 + i] * scale; };
    const double image = regions[region * 5];
    if (!(image >= 0.0 && image < static_cast<double>(in[0]))) {
      return invalid(fmt::format("image {} is outside [0, {}]", image, in[0] - 1));
    }
    const std::vector<Range> rows = ranges_of(corner(2), corner(4), dims[2], in[2]);
    const std::vector<Range> columns = ranges_of(corner(1), corner(3), dims[3], in[3]);
    for (std::int64_t channel = 0; channel < dims[1]; ++channel) {
      const std::int64_t plane = (static_cast<std::int64_t>(image) * in[1] + channel) * in[2];
      for (std::int64_t bin = 0; bin < dims[2] * dims[3]; ++bin) {
        const Range row = rows[static_cast<std::size_t>(bin / dims[3])];
        const Range column = columns[static_cast<std::size_t>(bin % dims[3])];
        double top = -HUGE_VAL;
        for (std::int64_t y = row.begin; y < row.end; ++y) {
          for (std::int64_t x = column.begin; x < column.end; ++x) {
            top = std::max(top, values[(plane + y) * in[3] + x]);
          }
        }
        const bool is_empty = row.begin >= row.end || column.begin >= column.end;
        out.set(position++, is_empty ? 0.0 : top);
      }
    }
  }
  return {};
}

}  // namespace tessera::model::ops

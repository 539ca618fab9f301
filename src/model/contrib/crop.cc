// Regions of images, each drawn to one size: CropAndResize.
//
//   region y1 x1 y2 x2 in parts of the image ─► a place of the image for each element ─► GridSample ─► outside: a constant
#include <fmt/format.h>

#include <utility>

#include "model/contrib/attention_parts.h"
#include "model/contrib/operators.h"
#include "model/contrib/table.h"

namespace tessera::model::contrib {
namespace {

// Along one axis, of f64.
struct CropPlaces {
  std::string at;       // [regions, elements]: from 0 to `last` inside the image
  std::string outside;  // likewise, whether it lies outside
  std::string grid;     // likewise, from -1 to 1
  std::string count;    // int64, one element
};

// From `start` to `end`, [regions, 1] each; a single element is in the middle.
CropPlaces places_along(Body& body, int axis, const std::string& start, const std::string& end) {
  const auto wide_of = [&](const std::string& x) { return body.cast(x, kDouble); };
  const auto real = [&](double value) { return exact_numbers(body, {value}); };
  const std::string one = body.list({1});
  CropPlaces places;
  places.count = body.node("Slice", {body.cast(body.in(3), onnx::TensorProto::INT64),
                                     body.list({axis - 2}), body.list({axis - 1}), body.list({0})});
  const std::string last = wide_of(body.node("Sub", {body.length(body.in(0), axis), one}));
  const std::string steps = wide_of(body.reshaped(
      body.node("Range", {body.whole(0), body.reshaped(places.count, {}), body.whole(1)}),
      {1, -1}));
  const std::string parts = wide_of(body.node("Max", {body.node("Sub", {places.count, one}), one}));
  const std::string step =
      body.node("Div", {body.node("Mul", {body.node("Sub", {end, start}), last}), parts});
  const std::string many =
      body.node("Add", {body.node("Mul", {start, last}), body.node("Mul", {steps, step})});
  const std::string middle =
      body.node("Mul", {body.node("Mul", {body.node("Add", {start, end}), last}), real(0.5)});
  places.at = body.node("Where", {body.node("Equal", {places.count, one}), middle, many});
  places.outside = body.node(
      "Or", {body.node("Less", {places.at, real(0)}), body.node("Greater", {places.at, last})});
  const std::string half = body.node("Max", {last, real(1)});
  const std::string twice = body.node("Mul", {places.at, real(2)});
  places.grid = body.node("Sub", {body.node("Div", {twice, half}), real(1)});
  return places;
}

}  // namespace

Refusal write_crop_and_resize(Body& body) {
  constexpr std::int64_t kSinceGridSample = 16, kSinceItsModesAreThoseOfResize = 20;
  if (body.opset() < kSinceGridSample) {
    return fmt::format("opset {} of the standard; convert the model with 16 or more", body.opset());
  }
  if (body.text("mode", "bilinear") != "bilinear") return "the attribute mode = nearest";
  const std::vector<std::string> corners =
      body.split(body.cast(body.in(1), kDouble), 1, {1, 1, 1, 1});
  const CropPlaces y = places_along(body, 2, corners[0], corners[2]);
  const CropPlaces x = places_along(body, 3, corners[1], corners[3]);
  const std::string one = body.list({1});
  const auto plane = [&](const std::string& by_column, const std::string& by_row) {
    const std::string columns = body.reshaped(by_column, {0, 1, -1, 1});
    const std::string rows = body.reshaped(by_row, {0, -1, 1, 1});
    return std::pair(body.node("Expand", {columns, joined(body, {one, y.count, one, one})}),
                     body.node("Expand", {rows, joined(body, {one, one, x.count, one})}));
  };
  const auto [columns, rows] = plane(x.grid, y.grid);
  const std::string grid = body.node("Concat", {columns, rows}, {{"axis", std::int64_t{-1}}});
  const std::string images = body.node("Gather", {body.in(0), body.in(2)});
  const bool named_anew = body.opset() >= kSinceItsModesAreThoseOfResize;
  const std::string sampled = body.node("GridSample", {images, grid},
                                        {{"mode", std::string(named_anew ? "linear" : "bilinear")},
                                         {"padding_mode", std::string("border")},
                                         {"align_corners", std::int64_t{1}}});
  const std::string outside = body.node(
      "Or", {body.reshaped(x.outside, {0, 1, 1, -1}), body.reshaped(y.outside, {0, 1, -1, 1})});
  body.output(
      0, body.node("Where",
                   {outside, body.number(body.real("extrapolation_value", 0), sampled), sampled}));
  return {};
}

}  // namespace tessera::model::contrib

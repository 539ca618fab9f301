#include "detections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "model_case.h"

namespace tessera::cases {
namespace {

// Scores at which the stored lists were cut.
constexpr double kDarknetScore = 0.4, kFastestScore = 0.5, kSsdScore = 0.5;
constexpr double kUltraScore = 0.7, kYunetScore = 0.6;
constexpr double kOverlapMax = 0.45;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Detection centred(std::size_t category, double score, double x, double y, double w, double h) {
  return {category, score, x - w / 2, y - h / 2, x + w / 2, y + h / 2};
}

double overlap(const Detection& a, const Detection& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const double area_a = (a.right - a.left) * (a.bottom - a.top);
  const double area_b = (b.right - b.left) * (b.bottom - b.top);
  return width * height / (area_a + area_b - width * height);
}

// The best of `count` values that lie `stride` apart.
std::size_t best_of(const double* values, std::size_t count, std::size_t stride) {
  std::size_t best = 0;
  for (std::size_t c = 1; c < count; ++c) {
    if (values[c * stride] > values[best * stride]) best = c;
  }
  return best;
}

std::vector<Detection> decode_fastestdet(const std::vector<Tensor>& outputs, double width,
                                         double height) {
  const std::vector<double> head = values_of(outputs[0]);
  const Shape& dims = outputs[0].dims;
  const auto rows = static_cast<std::size_t>(dims[2]), columns = static_cast<std::size_t>(dims[3]);
  const std::size_t plane = rows * columns, categories = static_cast<std::size_t>(dims[1]) - 5;
  std::vector<Detection> found;
  for (std::size_t at = 0; at < plane; ++at) {
    const std::size_t best = best_of(&head[5 * plane + at], categories, plane);
    const double score = std::pow(head[at], 0.6) * std::pow(head[(5 + best) * plane + at], 0.4);
    if (!(score > kFastestScore)) continue;
    const double x = static_cast<double>(at % columns) + std::tanh(head[plane + at]);
    const double y = static_cast<double>(at / columns) + std::tanh(head[2 * plane + at]);
    found.push_back(centred(best, score, x / static_cast<double>(columns) * width,
                            y / static_cast<double>(rows) * height,
                            sigmoid(head[3 * plane + at]) * width,
                            sigmoid(head[4 * plane + at]) * height));
  }
  return found;
}

// One map of YOLOv3: anchor after anchor, each with 4 coordinates, objectness and classes.
void decode_darknet(const Tensor& map, const std::array<std::array<double, 2>, 3>& anchors,
                    double pixels, std::vector<Detection>& found) {
  const std::vector<double> head = values_of(map);
  const auto side = static_cast<std::size_t>(map.dims[2]);
  const std::size_t plane = side * side, fields = static_cast<std::size_t>(map.dims[1]) / 3;
  for (std::size_t at = 0; at < 3 * plane; ++at) {
    const std::size_t cell = at % plane, anchor = at / plane;
    const double* v = &head[anchor * fields * plane + cell];
    const std::size_t best = best_of(v + 5 * plane, fields - 5, plane);
    const double score = sigmoid(v[4 * plane]) * sigmoid(v[(5 + best) * plane]);
    if (!(score > kDarknetScore)) continue;
    const double step = pixels / static_cast<double>(side);
    found.push_back(centred(best, score, (static_cast<double>(cell % side) + sigmoid(v[0])) * step,
                            (static_cast<double>(cell / side) + sigmoid(v[plane])) * step,
                            std::exp(v[2 * plane]) * anchors[anchor][0],
                            std::exp(v[3 * plane]) * anchors[anchor][1]));
  }
}

std::vector<Detection> decode_yolov3_tiny(const std::vector<Tensor>& outputs, double width,
                                          double) {
  std::vector<Detection> found;
  decode_darknet(outputs[0], {{{81, 82}, {135, 169}, {344, 319}}}, width, found);
  decode_darknet(outputs[1], {{{10, 14}, {23, 27}, {37, 58}}}, width, found);
  return found;
}

std::vector<Detection> decode_yolox(const std::vector<Tensor>& outputs, double width, double) {
  const std::vector<double> head = values_of(outputs[0]);
  const auto fields = static_cast<std::size_t>(outputs[0].dims[2]);
  std::vector<Detection> found;
  std::size_t row = 0;
  for (const std::size_t stride : {8, 16, 32}) {
    const auto side = static_cast<std::size_t>(width) / stride;
    for (std::size_t cell = 0; cell < side * side; ++cell, ++row) {
      const double* v = &head[row * fields];
      const std::size_t best = best_of(v + 5, fields - 5, 1);
      const double score = v[4] * v[5 + best], step = static_cast<double>(stride);
      if (!(score > kDarknetScore)) continue;
      found.push_back(centred(best, score, (v[0] + static_cast<double>(cell % side)) * step,
                              (v[1] + static_cast<double>(cell / side)) * step,
                              std::exp(v[2]) * step, std::exp(v[3]) * step));
    }
  }
  return found;
}

struct Anchor {
  double x, y, width, height;  // shares of the picture
};

// Six maps; scales from 0.2 to 0.95; the lowest map has three small boxes per cell, the others six.
std::vector<Anchor> ssd_anchors() {
  constexpr std::array<int, 6> kSides = {19, 10, 5, 3, 2, 1};
  std::vector<Anchor> anchors;
  for (std::size_t map = 0; map < kSides.size(); ++map) {
    const double scale = 0.2 + 0.15 * static_cast<double>(map);
    const double next = map + 1 < kSides.size() ? scale + 0.15 : 1.0;
    std::vector<std::array<double, 2>> kinds = {{1, 0.1}, {2, 0.2}, {0.5, 0.2}};  // ratio, scale
    if (map > 0) {
      kinds = {{1, scale}, {2, scale}, {0.5, scale}, {3, scale}, {0.3333, scale}};
      kinds.push_back({1, std::sqrt(scale * next)});
    }
    for (int cell = 0; cell < kSides[map] * kSides[map]; ++cell) {
      for (const auto& [ratio, size] : kinds) {
        anchors.push_back({(cell % kSides[map] + 0.5) / kSides[map],
                           (cell / kSides[map] + 0.5) / kSides[map], size * std::sqrt(ratio),
                           size / std::sqrt(ratio)});
      }
    }
  }
  return anchors;
}

std::vector<Detection> decode_ssd(const std::vector<Tensor>& outputs, double width, double height) {
  const std::vector<double> boxes = values_of(outputs[0]), scores = values_of(outputs[1]);
  const auto classes = static_cast<std::size_t>(outputs[1].dims[2]);
  const std::vector<Anchor> anchors = ssd_anchors();
  std::vector<Detection> found;
  for (std::size_t i = 0; i < anchors.size() && 4 * i < boxes.size(); ++i) {
    // Class 0 is the background.
    const std::size_t best = 1 + best_of(&scores[i * classes + 1], classes - 1, 1);
    const double score = scores[i * classes + best];
    if (!(score > kSsdScore)) continue;
    const double* v = &boxes[4 * i];
    const Anchor& anchor = anchors[i];
    found.push_back(centred(best, score, (v[1] / 10 * anchor.width + anchor.x) * width,
                            (v[0] / 10 * anchor.height + anchor.y) * height,
                            std::exp(v[3] / 5) * anchor.width * width,
                            std::exp(v[2] / 5) * anchor.height * height));
  }
  return found;
}

std::vector<Detection> decode_ultraface(const std::vector<Tensor>& outputs, double width,
                                        double height) {
  const std::vector<double> scores = values_of(outputs[0]), boxes = values_of(outputs[1]);
  std::vector<Detection> found;
  for (std::size_t i = 0; 2 * i < scores.size(); ++i) {
    if (!(scores[2 * i + 1] > kUltraScore)) continue;
    const double* v = &boxes[4 * i];
    found.push_back(
        {0, scores[2 * i + 1], v[0] * width, v[1] * height, v[2] * width, v[3] * height});
  }
  return found;
}

std::vector<Detection> decode_yunet(const std::vector<Tensor>& outputs, double width, double) {
  std::vector<Detection> found;
  for (std::size_t map = 0; map < 3; ++map) {
    const std::vector<double> category = values_of(outputs[map]);
    const std::vector<double> object = values_of(outputs[3 + map]);
    const std::vector<double> boxes = values_of(outputs[6 + map]);
    const double step = static_cast<double>(8 << map);
    const auto side = static_cast<std::size_t>(width / step);
    for (std::size_t i = 0; i < category.size(); ++i) {
      const double score = std::sqrt(std::clamp(category[i], 0.0, 1.0) *  //
                                     std::clamp(object[i], 0.0, 1.0));
      if (!(score > kYunetScore)) continue;
      const double* v = &boxes[4 * i];
      found.push_back(centred(0, score, (static_cast<double>(i % side) + v[0]) * step,
                              (static_cast<double>(i / side) + v[1]) * step, std::exp(v[2]) * step,
                              std::exp(v[3]) * step));
    }
  }
  return found;
}

struct NamedDecoder {
  const char* begin;  // of the model's name
  Decoder decoder;
};
constexpr NamedDecoder kDecoders[] = {
    {"fastestdet", decode_fastestdet}, {"yolov3_tiny", decode_yolov3_tiny},
    {"yolox", decode_yolox},           {"ssd_mobilenet_v1", decode_ssd},
    {"ultraface", decode_ultraface},   {"yunet", decode_yunet}};

}  // namespace

Decoder find_decoder(const std::string& model) {
  for (const NamedDecoder& row : kDecoders) {
    if (model.starts_with(row.begin)) return row.decoder;
  }
  return nullptr;
}

std::vector<Detection> suppress(std::vector<Detection> found) {
  std::sort(found.begin(), found.end(),
            [](const Detection& a, const Detection& b) { return a.score > b.score; });
  std::vector<Detection> kept;
  for (const Detection& candidate : found) {
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](const Detection& better) {
      return better.category == candidate.category && overlap(better, candidate) > kOverlapMax;
    });
    if (!covered) kept.push_back(candidate);
  }
  return kept;
}

std::size_t count_matches(const std::vector<Detection>& found,
                          const std::vector<Detection>& wanted) {
  constexpr double kPixels = 2, kScore = 0.02;
  std::vector<Detection> rest = found;
  std::size_t matches = 0;
  for (const Detection& x : wanted) {
    const auto match = std::find_if(rest.begin(), rest.end(), [&](const Detection& y) {
      return x.category == y.category && std::abs(x.score - y.score) <= kScore &&
             std::abs(x.left - y.left) <= kPixels && std::abs(x.top - y.top) <= kPixels &&
             std::abs(x.right - y.right) <= kPixels && std::abs(x.bottom - y.bottom) <= kPixels;
    });
    if (match == rest.end()) continue;
    rest.erase(match);
    ++matches;
  }
  return matches;
}

std::vector<Detection> parse_detections(const std::string& text,
                                        const std::vector<std::string>& names) {
  std::vector<Detection> list;
  for (const std::string& part : split(text, ';')) {
    const std::size_t open = part.find('[');
    if (open == std::string::npos) break;
    const std::size_t space = part.rfind(' ', open - 2);
    const std::size_t begin = part.find_first_not_of(' ');
    const auto name = std::find(names.begin(), names.end(), part.substr(begin, space - begin));
    Detection d;
    const int fields = std::sscanf(part.c_str() + space, " %lf [%lf, %lf, %lf, %lf", &d.score,
                                   &d.left, &d.top, &d.right, &d.bottom);
    if (name == names.end() || fields != 5) break;
    d.category = static_cast<std::size_t>(name - names.begin());
    list.push_back(d);
  }
  return list;
}

}  // namespace tessera::cases

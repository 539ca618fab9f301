#include "pipeline.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "detection.h"

namespace ocr {
namespace {

constexpr std::int64_t kDirectionHeight = 48, kDirectionWidth = 192;
constexpr std::int64_t kRecognitionHeight = 48;
// Recognition is compiled for these widths; a crop takes the smallest that holds it.
constexpr std::int64_t kRecognitionWidths[] = {160, 320, 480, 640, 960, 1280};

// The crop scaled to `height`, at most `width` wide, blue-green-red in [-1, 1], zeros behind it.
tessera::Tensor line_input(const tessera::Picture& crop, std::int64_t height, std::int64_t width) {
  const double ratio = static_cast<double>(crop.width) / static_cast<double>(crop.height);
  const auto used = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(height))), 1, width);
  const tessera::Picture scaled = tessera::resize(crop, used, height);
  tessera::Tensor tensor = tessera::Tensor::zeros(tessera::Format::kF32, {1, 3, height, width});
  const auto values = tensor.as<float>();
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < used; ++x) {
        const float level = static_cast<float>(scaled.pixel(x, y)[2 - c]);
        values[static_cast<std::size_t>((c * height + y) * width + x)] =
            (level / 255.0f - 0.5f) / 0.5f;
      }
    }
  }
  return tensor;
}

std::int64_t recognition_width(const tessera::Picture& crop) {
  const double wanted = std::ceil(static_cast<double>(crop.width) /
                                  static_cast<double>(crop.height) * kRecognitionHeight);
  for (const std::int64_t width : kRecognitionWidths) {
    if (static_cast<double>(width) >= wanted) return width;
  }
  return std::end(kRecognitionWidths)[-1];
}

// `probabilities` is f32 [1, T, classes]: the best class a column, repeats and blanks dropped.
Line decode(const tessera::Tensor& probabilities, const std::vector<std::string>& characters) {
  const std::int64_t columns = probabilities.dims[1], classes = probabilities.dims[2];
  const float* const values = probabilities.as<float>().data();
  Line line;
  double sum = 0;
  std::int64_t count = 0, previous = 0;
  for (std::int64_t t = 0; t < columns; ++t) {
    const float* const column = values + t * classes;
    const std::int64_t best = std::max_element(column, column + classes) - column;
    if (best != 0 && best != previous) {
      line.text += characters[static_cast<std::size_t>(best)];
      sum += static_cast<double>(column[best]);
      ++count;
    }
    previous = best;
  }
  line.confidence = count > 0 ? sum / static_cast<double>(count) : 0;
  return line;
}

tessera::Result<bool> stands_on_its_head(const tessera::Picture& crop, Inference& direction,
                                         double threshold) {
  TESSERA_TRY(const tessera::Tensor output,
              direction.run(line_input(crop, kDirectionHeight, kDirectionWidth)));
  const auto scores = output.as<float>();
  return scores.size() == 2 && static_cast<double>(scores[1]) > threshold;
}

void sort_lines(std::vector<Line>& lines) {
  const auto middle = [](const Line& line) { return (line.box[0].y + line.box[3].y) / 2; };
  std::stable_sort(lines.begin(), lines.end(),
                   [&middle](const Line& a, const Line& b) { return middle(a) < middle(b); });
  // Boxes side by side (tops within half a height) go from left to right.
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    for (std::size_t j = i + 1; j > 0; --j) {
      const double height = std::abs(lines[j].box[3].y - lines[j].box[0].y);
      const bool same_row = std::abs(middle(lines[j]) - middle(lines[j - 1])) < height / 2;
      if (!same_row || lines[j].box[0].x >= lines[j - 1].box[0].x) break;
      std::swap(lines[j], lines[j - 1]);
    }
  }
}

void draw_line(tessera::Picture& picture, Point a, Point b) {
  const int steps = static_cast<int>(std::max(std::abs(b.x - a.x), std::abs(b.y - a.y))) + 1;
  for (int i = 0; i <= steps; ++i) {
    const double t = static_cast<double>(i) / steps;
    const auto x = std::lround(a.x + (b.x - a.x) * t), y = std::lround(a.y + (b.y - a.y) * t);
    for (std::int64_t py = y - 1; py <= y; ++py) {
      for (std::int64_t px = x - 1; px <= x; ++px) {
        if (px < 0 || py < 0 || px >= picture.width || py >= picture.height) continue;
        std::uint8_t* const pixel = picture.pixel(px, py);
        pixel[0] = 220, pixel[1] = 40, pixel[2] = 30;
      }
    }
  }
}

// Digits of 3 x 5 dots, one bit a dot, rows from the top.
void draw_number(tessera::Picture& picture, std::int64_t x, std::int64_t y, std::size_t number) {
  static constexpr unsigned kDigits[] = {0x7B6F, 0x2C97, 0x73E7, 0x73CF, 0x5BC9,
                                         0x79CF, 0x79EF, 0x7249, 0x7BEF, 0x7BCF};
  constexpr std::int64_t kDot = 2;
  for (const char digit : std::to_string(number)) {
    const unsigned bits = kDigits[digit - '0'];
    for (std::int64_t dot = 0; dot < 15; ++dot) {
      if ((bits >> (14 - dot) & 1) == 0) continue;
      for (std::int64_t i = 0; i < kDot * kDot; ++i) {
        const std::int64_t px = x + dot % 3 * kDot + i % kDot, py = y + dot / 3 * kDot + i / kDot;
        if (px < 0 || py < 0 || px >= picture.width || py >= picture.height) continue;
        std::uint8_t* const pixel = picture.pixel(px, py);
        pixel[0] = 20, pixel[1] = 70, pixel[2] = 220;
      }
    }
    x += 4 * kDot;
  }
}

}  // namespace

tessera::Result<std::vector<std::string>> read_characters(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> characters{""};  // class 0, the blank
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    characters.push_back(line);
  }
  if (characters.size() < 2) {
    return tessera::Error{tessera::ErrorCode::kInvalidArgument,
                          "reading '" + path + "': no characters in it"};
  }
  characters.emplace_back(" ");
  return characters;
}

tessera::Result<std::vector<Line>> read_text(const tessera::Picture& picture, const Models& models,
                                             const PipelineOptions& options,
                                             const tessera::ProgressCallback& progress) {
  TESSERA_TRY(const tessera::Tensor map, models.detection.run(detection_input(picture, options)));
  const std::vector<Box> boxes = boxes_from_map(map, picture, options);
  std::vector<Line> lines;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (progress) {
      progress("lines", static_cast<double>(i) / static_cast<double>(boxes.size()));
    }
    tessera::Picture cut = crop(picture, boxes[i]);
    TESSERA_TRY(const bool turned,
                stands_on_its_head(cut, models.direction, options.direction_threshold));
    if (turned) cut = turned_by_180(cut);
    TESSERA_TRY(
        const tessera::Tensor probabilities,
        models.recognition.run(line_input(cut, kRecognitionHeight, recognition_width(cut))));
    if (probabilities.dims.size() != 3 ||
        probabilities.dims[2] != static_cast<std::int64_t>(models.characters.size())) {
      return tessera::Error{tessera::ErrorCode::kInvalidModel,
                            "the recognition model and the list of characters do not belong "
                            "together"};
    }
    Line line = decode(probabilities, models.characters);
    line.box = boxes[i];
    if (!line.text.empty() && line.confidence >= options.text_threshold) {
      lines.push_back(std::move(line));
    }
  }
  if (progress) progress("lines", 1);
  sort_lines(lines);
  return lines;
}

tessera::Picture annotate(const tessera::Picture& picture, const std::vector<Line>& lines) {
  tessera::Picture result = picture;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Box& box = lines[i].box;
    for (std::size_t side = 0; side < 4; ++side) {
      draw_line(result, box[side], box[(side + 1) % 4]);
    }
    draw_number(result, std::lround(box[0].x), std::lround(box[0].y) - 13, i + 1);
  }
  return result;
}

}  // namespace ocr

#include "reading.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tessera/file.h"

namespace ocr {
namespace {

constexpr std::int64_t kCharactersBytesMax = std::int64_t{16} << 20;

// The crop scaled to a line's height, at most `width` wide, blue-green-red in [-1, 1], zeros behind
// it.
tessera::Tensor line_input(const tessera::Picture& crop, std::int64_t width) {
  const double ratio = static_cast<double>(crop.width) / static_cast<double>(crop.height);
  const auto used = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(kLineHeight))), 1, width);
  const tessera::Picture scaled = tessera::resize(crop, used, kLineHeight);
  tessera::Tensor tensor =
      tessera::Tensor::zeros(tessera::Format::kF32, {1, 3, kLineHeight, width});
  const auto values = tensor.as<float>();
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < kLineHeight; ++y) {
      for (std::int64_t x = 0; x < used; ++x) {
        const float level = static_cast<float>(scaled.pixel(x, y)[2 - c]);
        values[static_cast<std::size_t>((c * kLineHeight + y) * width + x)] =
            (level / 255.0f - 0.5f) / 0.5f;
      }
    }
  }
  return tensor;
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

}  // namespace

tessera::Result<std::vector<std::string>> read_characters(const std::string& path) {
  TESSERA_TRY(const std::string text,
              tessera::read_text_file(path, {.bytes_max = kCharactersBytesMax}));
  std::istringstream in(text);
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

tessera::Tensor detection_step(Reading& reading, const ReadingOptions& options) {
  reading.view = options.frame_width > 0
                     ? view_within(reading.picture, options.frame_width, options.frame_height)
                     : own_view(reading.picture, options.detection);
  return detection_input(reading.picture, reading.view);
}

tessera::Status boxes_step(Reading& reading, const tessera::Tensor& map,
                           const ReadingOptions& options) {
  if (map.dims != tessera::Shape{1, 1, reading.view.height, reading.view.width}) {
    return tessera::Error{tessera::ErrorCode::kInvalidModel,
                          "the detection model's output is no map of its input's pixels"};
  }
  reading.boxes = boxes_from_map(map, reading.view, {reading.picture.width, reading.picture.height},
                                 options.detection);
  reading.crops.clear();
  for (const Box& box : reading.boxes) reading.crops.push_back(crop(reading.picture, box));
  reading.lines.assign(reading.boxes.size(), {});
  return {};
}

tessera::Tensor direction_input(const tessera::Picture& crop) {
  return line_input(crop, kDirectionWidth);
}

void turn_crop(tessera::Picture& crop, const tessera::Tensor& scores,
               const ReadingOptions& options) {
  const auto values = scores.as<float>();
  if (values.size() == 2 && static_cast<double>(values[1]) > options.direction_threshold) {
    crop = turned_by_180(crop);
  }
}

std::int64_t line_width(const tessera::Picture& crop, const ReadingOptions& options) {
  const double wanted =
      std::ceil(static_cast<double>(crop.width) / static_cast<double>(crop.height) * kLineHeight);
  for (const std::int64_t width : options.line_widths) {
    if (static_cast<double>(width) >= wanted) return width;
  }
  return options.line_widths.back();
}

tessera::Tensor recognition_input(const tessera::Picture& crop, std::int64_t width) {
  return line_input(crop, width);
}

tessera::Result<Line> decode_line(const Box& box, const tessera::Tensor& probabilities,
                                  const std::vector<std::string>& characters) {
  if (probabilities.dims.size() != 3 ||
      probabilities.dims[2] != static_cast<std::int64_t>(characters.size())) {
    return tessera::Error{tessera::ErrorCode::kInvalidModel,
                          "the recognition model and the list of characters do not belong "
                          "together"};
  }
  const std::int64_t columns = probabilities.dims[1], classes = probabilities.dims[2];
  const float* const values = probabilities.as<float>().data();
  Line line{.box = box, .text = {}, .confidence = 0};
  double sum = 0;
  std::int64_t count = 0, previous = 0;
  // The best class a column; repeats and blanks are dropped.
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

std::vector<Line> finished_lines(std::vector<Line> lines, const ReadingOptions& options) {
  std::erase_if(lines, [&options](const Line& line) {
    return line.text.empty() || line.confidence < options.text_threshold;
  });
  sort_lines(lines);
  return lines;
}

}  // namespace ocr

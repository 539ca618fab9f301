// The steps of reading the text in a picture: what lies before, between and behind the models.
//
//   picture ─► detection_step ─► [detection] ─► boxes_step ─► crops
//     crop  ─► direction_input ─► [direction] ─► turn_crop
//     crop  ─► recognition_input ─► [recognition] ─► decode_line ─► finished_lines
//
// Detection gives each pixel the probability of lying on text; connected regions become rotated
// boxes. Direction decides whether a crop is upside down. Recognition gives, for each column of a
// crop, the probability of each character; repeats and blanks are dropped.
//
// Functions of their arguments alone: any thread may run any step of any picture, so the same steps
// read one picture after the other (pipeline.h) or are the stages of a pipeline (folder.h).
#pragma once

#include <string>
#include <vector>

#include "detection.h"

namespace ocr {

struct Line {
  Box box;                // in the picture's pixels
  std::string text;       // UTF-8
  double confidence = 0;  // mean probability of the characters
};

struct ReadingOptions {
  DetectionOptions detection;
  // One size of detection input for all pictures; 0: each has its own.
  std::int64_t frame_width = 0, frame_height = 0;
  bool direction = true;             // look for lines that stand on their heads
  double direction_threshold = 0.9;  // turn a crop only when as sure as this
  // Recognition is compiled for these widths; a crop takes the smallest that holds it.
  std::vector<std::int64_t> line_widths = {160, 320, 480, 640, 960, 1280};
  double text_threshold = 0.5;  // lines below are dropped
};

// One picture on its way.
struct Reading {
  std::string path;
  tessera::Picture picture;
  DetectionView view;
  std::vector<Box> boxes;
  std::vector<tessera::Picture> crops;  // one per box, until it is recognised
  std::vector<Line> lines;              // one per box, until finished_lines
};

// One character a line; a space is added at the end.
tessera::Result<std::vector<std::string>> read_characters(const std::string& path);

tessera::Tensor detection_step(Reading& reading, const ReadingOptions& options);
// Boxes and crops; an error where `map` does not belong to the picture.
tessera::Status boxes_step(Reading& reading, const tessera::Tensor& map,
                           const ReadingOptions& options);

inline constexpr std::int64_t kLineHeight = 48;  // of the inputs for crops
inline constexpr std::int64_t kDirectionWidth = 192;
tessera::Tensor direction_input(const tessera::Picture& crop);
void turn_crop(tessera::Picture& crop, const tessera::Tensor& scores,
               const ReadingOptions& options);

std::int64_t line_width(const tessera::Picture& crop, const ReadingOptions& options);
tessera::Tensor recognition_input(const tessera::Picture& crop, std::int64_t width);
// `probabilities` is f32 [1, T, classes].
tessera::Result<Line> decode_line(const Box& box, const tessera::Tensor& probabilities,
                                  const std::vector<std::string>& characters);

// Those that say something, from top to bottom, then left to right.
std::vector<Line> finished_lines(std::vector<Line> lines, const ReadingOptions& options);

}  // namespace ocr

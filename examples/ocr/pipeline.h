// Reading the text in a picture with three models:
//
//   picture ─► detection ─► boxes ─► crop ─► direction ─► recognition ─► lines of text
//
// Detection gives each pixel the probability of lying on text; connected regions become rotated
// boxes. Direction tells whether a crop stands on its head. Recognition gives, for each column of a
// crop, the probability of each character; repeats and blanks are dropped.
#pragma once

#include <string>
#include <vector>

#include "geometry.h"
#include "inference.h"

namespace ocr {

struct Line {
  Box box;                // in the picture's pixels
  std::string text;       // UTF-8
  double confidence = 0;  // mean probability of the characters
};

struct PipelineOptions {
  std::int64_t side_max = 960;       // longer pictures are shrunk for detection
  double pixel_threshold = 0.3;      // probability from which a pixel is text
  double box_threshold = 0.6;        // mean probability a box must have
  double grow_ratio = 1.5;           // boxes grow by area * ratio / perimeter
  double direction_threshold = 0.9;  // turn a crop only when as sure as this
  double text_threshold = 0.5;       // lines below are dropped
};

struct Models {
  Inference& detection;
  Inference& direction;
  Inference& recognition;
  std::vector<std::string> characters;  // class 0 is the blank
};

// One character a line; a space is added at the end.
tessera::Result<std::vector<std::string>> read_characters(const std::string& path);

// Lines from top to bottom, then left to right. `progress` may be empty.
tessera::Result<std::vector<Line>> read_text(const tessera::Picture& picture, const Models& models,
                                             const PipelineOptions& options,
                                             const tessera::ProgressCallback& progress);

// The picture with every box drawn and numbered.
tessera::Picture annotate(const tessera::Picture& picture, const std::vector<Line>& lines);

}  // namespace ocr

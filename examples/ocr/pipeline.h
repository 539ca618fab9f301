// Reading one picture, model after model, on the thread of the caller: the plain form of the steps
// in reading.h, and the reference of the form whose stages run side by side (folder.h).
#pragma once

#include <string>
#include <vector>

#include "inference.h"
#include "reading.h"

namespace ocr {

struct Models {
  Inference& detection;
  Inference& direction;
  Inference& recognition;
  std::vector<std::string> characters;  // class 0 is the blank
};

// Lines from top to bottom, then left to right. `progress` may be empty.
tessera::Result<std::vector<Line>> read_text(const tessera::Picture& picture, const Models& models,
                                             const ReadingOptions& options,
                                             const tessera::ProgressCallback& progress);

}  // namespace ocr

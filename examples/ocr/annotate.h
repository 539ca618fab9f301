// Shows what was read.
#pragma once

#include <vector>

#include "reading.h"

namespace ocr {

// The picture with every box drawn and numbered.
tessera::Picture annotate(const tessera::Picture& picture, const std::vector<Line>& lines);

}  // namespace ocr

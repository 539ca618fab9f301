#include "concord/lift/input.h"

#include <utility>

namespace tessera::concord {

Reading LayerInput::read(ShadowCore& core, const InputLine& line, std::int64_t first) {
  Tag* const cells = tags_.data() + first;
  for (std::int64_t i = 0; i < line.count; ++i) {
    if (line.met != nullptr && !(*line.met)[static_cast<std::size_t>(i)]) continue;
    const Tag found = core.element(line.from + i * line.pitch, line.width);
    if (found == cells[i] && found != kUnwritten) continue;
    if (found == kUnwritten) return Reading::kUnwritten;
    if (found == kTorn) return Reading::kTorn;
    if (cells[i] != kUnwritten) return Reading::kConflict;
    cells[i] = found;
  }
  return Reading::kFine;
}

std::vector<Tag> LayerInput::take(const std::array<std::size_t, 4>& order) {
  std::vector<Tag> tags = std::exchange(tags_, {});
  if (order == std::array<std::size_t, 4>{0, 1, 2, 3}) return tags;
  std::array<std::size_t, 4> strides = {0, 0, 0, 1};
  for (std::size_t i = 3; i-- > 0;) {
    strides[i] = strides[i + 1] * static_cast<std::size_t>(extents_[i + 1]);
  }
  std::array<std::size_t, 4> count{}, step{};
  for (std::size_t i = 0; i < 4; ++i) {
    count[i] = static_cast<std::size_t>(extents_[order[i]]);
    step[i] = strides[order[i]];
  }
  std::vector<Tag> turned;
  turned.reserve(tags.size());
  for (std::size_t a = 0; a < count[0]; ++a) {
    for (std::size_t b = 0; b < count[1]; ++b) {
      for (std::size_t c = 0; c < count[2]; ++c) {
        const std::size_t row = a * step[0] + b * step[1] + c * step[2];
        for (std::size_t d = 0; d < count[3]; ++d) turned.push_back(tags[row + d * step[3]]);
      }
    }
  }
  return turned;
}

}  // namespace tessera::concord

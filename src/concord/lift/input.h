// What a layer has read so far: a tag an element of its input, and the checks on them.
#pragma once

#include <cstdint>
#include <vector>

#include "concord/lift/groups.h"
#include "concord/lift/tags.h"

namespace tessera::concord {

enum class Reading : std::uint8_t {
  kFine,
  kUnwritten,  // the element was not written
  kTorn,       // its bytes are of different elements
  kConflict,   // another tag was read there before
};

// A line of elements in memory and the places they have in the layer's input.
struct InputLine {
  const Tag* from = nullptr;
  std::int64_t pitch = 1;  // granules
  std::int64_t width = 1;  // granules an element
  std::int64_t count = 0;
  const std::vector<bool>* met = nullptr;  // the elements that are read; null: all
};

class LayerInput {
 public:
  LayerInput() = default;
  explicit LayerInput(const Extents& extents)
      : extents_(extents), tags_(static_cast<std::size_t>(volume(extents)), kUnwritten) {}

  std::int64_t index(std::int64_t image, std::int64_t channel, std::int64_t row,
                     std::int64_t column) const {
    return ((image * extents_[kChannels] + channel) * extents_[kRows] + row) * extents_[kColumns] +
           column;
  }
  // Writes a line down from element `first` on.
  Reading read(ShadowCore& core, const InputLine& line, std::int64_t first);

  const Extents& extents() const { return extents_; }
  // With the axes in another order.
  std::vector<Tag> take(const std::array<std::size_t, 4>& order);

 private:
  Extents extents_ = {0, 0, 0, 0};
  std::vector<Tag> tags_;
};

}  // namespace tessera::concord

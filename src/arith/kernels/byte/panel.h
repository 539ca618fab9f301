// What a panel of pixels reads of a channel of 8-bit elements under each tap of a kernel: the same
// for every channel, so that it is found once.
//
//   3 x 3 on rows that lie behind each other    one part: lane i at offset + i, the edges left out
//   stride 2                                    a part for each output row: lane i at offset + 2 i
//
// Lanes of no part have no sample (padding): they take the zero point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arith/kernels/product_parts.h"

namespace tessera::kernels {

struct PanelPart {
  std::int64_t offset =
      0;                  // of lane 0 from the channel's begin; no element where lane 0 is not set
  std::int64_t step = 1;  // bytes from lane to lane
  std::uint64_t lanes = 0;
};

class BytePanel {
 public:
  // At most kPanelPixels pixels. `scratch` is overwritten.
  void find(const ProductConfig& config, const Surface& input, const FlatPixels& pixels,
            PixelRuns& scratch);
  std::span<const PanelPart> parts(std::int64_t tap) const {
    const auto first = ends_[static_cast<std::size_t>(tap)];
    return {parts_.data() + first, ends_[static_cast<std::size_t>(tap) + 1] - first};
  }
  // The kPanelPixels elements of a channel under a tap: where they lie, or gathered into `lanes`
  // with `fill` where there is no sample.
  const std::byte* row(const std::byte* channel, std::int64_t tap, std::uint8_t fill,
                       std::byte* lanes) const;

 private:
  std::vector<PanelPart> parts_;
  std::vector<std::size_t> ends_;  // of each tap's parts; the first is 0
};

}  // namespace tessera::kernels

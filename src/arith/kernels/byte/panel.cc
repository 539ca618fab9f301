#include "arith/kernels/byte/panel.h"

#include <bit>
#include <cstring>

namespace tessera::kernels {
namespace {

// The lower halves of what two elements make, a loop of whole vectors; behind the last one nothing is read.
void copy_every_other(const std::byte* source, int count, std::byte* lanes) {
  if constexpr (std::endian::native == std::endian::little) {
    for (int i = 0; i + 1 < count; ++i) {
      std::uint16_t both = 0;
      std::memcpy(&both, source + 2 * i, sizeof both);
      lanes[i] = static_cast<std::byte>(both & 0xFF);
    }
    lanes[count - 1] = source[2 * (count - 1)];
  } else {
    for (int i = 0; i < count; ++i) lanes[i] = source[2 * i];
  }
}

}  // namespace

void BytePanel::find(const ProductConfig& config, const Surface& input, const FlatPixels& pixels,
                     PixelRuns& scratch) {
  parts_.clear();
  ends_.assign(1, 0);
  for (std::int64_t tap = 0; tap < config.image.taps; ++tap) {
    scratch.clear();
    add_tap_samples(config, input, pixels, tap, scratch);
    for (const PixelRun& run : scratch.runs()) {
      const std::int64_t step = run.count == 1 ? 1 : run.step;
      const PanelPart part = {run.offset - run.first * step, step, lane_bits(run.first, run.count)};
      if (parts_.size() > ends_.back() && parts_.back().offset == part.offset &&
          parts_.back().step == step) {
        parts_.back().lanes |= part.lanes;
      } else {
        parts_.push_back(part);
      }
    }
    ends_.push_back(parts_.size());
  }
  scratch.clear();
}

const std::byte* BytePanel::row(const std::byte* channel, std::int64_t tap, std::uint8_t fill,
                                std::byte* lanes) const {
  const std::span<const PanelPart> all = parts(tap);
  if (all.size() == 1 && all[0].lanes == kAllLanes && all[0].step == 1) {
    return channel + all[0].offset;
  }
  std::memset(lanes, fill, kPanelPixels);
  for (const PanelPart& part : all) {
    for (std::uint64_t left = part.lanes; left != 0;) {
      const int first = std::countr_zero(left);
      const int count = std::countr_one(left >> first);
      const std::byte* source = channel + part.offset + first * part.step;
      if (part.step == 1) {
        std::memcpy(lanes + first, source, static_cast<std::size_t>(count));
      } else if (part.step == 2) {
        copy_every_other(source, count, lanes + first);
      } else {
        for (int i = 0; i < count; ++i) lanes[first + i] = source[i * part.step];
      }
      left = first + count == kPanelPixels ? 0 : left & (kAllLanes << (first + count));
    }
  }
  return lanes;
}

}  // namespace tessera::kernels

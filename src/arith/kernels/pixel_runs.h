// Where the pixels of a batch lie in a surface: runs of equally spaced elements, the same for every
// channel, so that they are found once and used for all channels.
//
//   lanes 0..63  ──►  [first lane, count, byte offset from the channel's begin, bytes to the next]
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arith/kernels/surface.h"

namespace tessera::kernels {

struct PixelRun {
  std::int64_t first = 0;  // lane
  std::int64_t count = 0;
  std::int64_t offset = 0;  // bytes from channel_base()
  std::int64_t step = 0;    // bytes; any value where count is 1
};

// Lanes of a panel (64) as bits.
inline constexpr std::uint64_t kAllLanes = ~std::uint64_t{0};
inline std::uint64_t lane_bits(std::int64_t first, std::int64_t count) {
  return (count == 64 ? kAllLanes : (std::uint64_t{1} << count) - 1) << first;
}

// Neighbouring runs are joined where lanes and bytes go on evenly.
class PixelRuns {
 public:
  void clear() { runs_.clear(); }
  void add(const PixelRun& run);
  const std::vector<PixelRun>& runs() const { return runs_; }
  std::int64_t covered() const;  // lanes

 private:
  std::vector<PixelRun> runs_;
};

// Whether the channels of a pixel lie side by side.
bool lies_in_rows(const Surface& surface);

std::byte* channel_base(const Surface& surface, std::int64_t channel);
std::int64_t row_offset(const Surface& surface, std::int64_t row);

// Copies elements of `element_bytes` between a channel and an array of lanes.
void gather(const std::byte* base, const PixelRuns& runs, std::int64_t element_bytes, void* lanes);
void scatter(const void* lanes, const PixelRuns& runs, std::int64_t element_bytes, std::byte* base);

}  // namespace tessera::kernels

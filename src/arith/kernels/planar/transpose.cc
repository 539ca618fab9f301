#include "arith/kernels/planar/transpose.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tessera {
namespace {

// Both sides of a tile stay in the host's nearest cache.
constexpr std::int64_t kTile = 32;

template <std::size_t kBytes>
void exchange_row(const Surface& from, const Surface& to, const TransposeRange& range,
                  std::int64_t row) {
  const auto [first, last] = range.channels;
  for (std::int64_t c0 = first; c0 < last; c0 += kTile) {
    const std::int64_t c1 = std::min(last, c0 + kTile);
    for (std::int64_t x0 = 0; x0 < range.output_count; x0 += kTile) {
      const std::int64_t x1 = std::min(range.output_count, x0 + kTile);
      for (std::int64_t x = x0; x < x1; ++x) {
        std::byte* target = to.row(range.output_first + x, row);
        for (std::int64_t c = c0; c < c1; ++c) {
          std::memcpy(target + (c - first) * to.column_pitch,
                      from.row(c, row) + x * from.column_pitch, kBytes);
        }
      }
    }
  }
}

}  // namespace

void transpose(const Surface& from, const Surface& to, const TransposeRange& range) {
  const std::int64_t element = format_bytes(from.format);
  for (std::int64_t row = range.rows.first; row < range.rows.last; ++row) {
    switch (element) {
      case 1:
        exchange_row<1>(from, to, range, row);
        break;
      case 2:
        exchange_row<2>(from, to, range, row);
        break;
      case 4:
        exchange_row<4>(from, to, range, row);
        break;
      default:
        TESSERA_CHECK(element == 8, "element of {} bytes", element);
        exchange_row<8>(from, to, range, row);
    }
  }
}

}  // namespace tessera

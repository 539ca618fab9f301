#include "arith/kernels/testing/emulated_tiles.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tessera::kernels::emulated {
namespace {

constexpr int kTiles = 8, kRowsMax = 16, kRowBytesMax = 64;

struct Tile {
  int rows = 0, row_bytes = 0;
  alignas(64) std::int8_t bytes[kRowsMax][kRowBytesMax] = {};
};

// The tile registers of a thread.
struct TileUnit {
  bool is_configured = false;
  Tile tiles[kTiles];
  std::int64_t products = 0;
};
thread_local TileUnit unit;

// What LDTILECFG reads.
struct TileConfig {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[kTiles], more_row_bytes[kTiles];
  std::uint8_t rows[kTiles], more_rows[kTiles];
};
static_assert(sizeof(TileConfig) == 64);

template <typename T, std::size_t kCount>
bool all_zeros(const T (&values)[kCount]) {
  return std::all_of(values, values + kCount, [](T value) { return value == 0; });
}

Tile& tile_of(int index) {
  TESSERA_CHECK(unit.is_configured, "tile {} is taken outside of a TileScope", index);
  TESSERA_CHECK(index >= 0 && index < kTiles, "tile {} of {}", index, kTiles);
  Tile& tile = unit.tiles[index];
  TESSERA_CHECK(tile.rows > 0, "tile {} is not configured", index);
  return tile;
}

// A row of sums: row[n] += Σ a[4 k + i] * b[k][4 n + i]. Bytes outside of a tile's shape are zeros.
void multiply_row(const std::int8_t* a, const Tile& b, std::int8_t* row) {
  std::int32_t products[kRowBytesMax] = {};  // at most 16 * 2^14 each
  for (int k = 0; k < b.rows; ++k) {
    std::int8_t quads[kRowBytesMax];
    for (int i = 0; i < kRowBytesMax; i += 4) std::memcpy(quads + i, a + 4 * k, 4);
    for (int i = 0; i < kRowBytesMax; ++i) products[i] += quads[i] * b.bytes[k][i];
  }
  std::uint32_t sums[kRowBytesMax / 4];
  std::memcpy(sums, row, sizeof sums);
  for (int i = 0; i < kRowBytesMax; ++i) sums[i / 4] += static_cast<std::uint32_t>(products[i]);
  std::memcpy(row, sums, sizeof sums);
}

}  // namespace

std::int64_t tile_products() { return unit.products; }

namespace instructions {

void _tile_loadconfig(const void* from) {
  TileConfig config;
  std::memcpy(&config, from, sizeof config);
  TESSERA_CHECK(config.palette == 1 && config.start_row == 0, "palette {}, first row {}",
                config.palette, config.start_row);
  TESSERA_CHECK(
      all_zeros(config.reserved) && all_zeros(config.more_row_bytes) && all_zeros(config.more_rows),
      "reserved bytes of a tile configuration are not zero");
  for (int i = 0; i < kTiles; ++i) {
    const int rows = config.rows[i], row_bytes = config.row_bytes[i];
    TESSERA_CHECK(rows <= kRowsMax && row_bytes <= kRowBytesMax && (rows == 0) == (row_bytes == 0),
                  "tile {} of {} rows of {} bytes", i, rows, row_bytes);
    unit.tiles[i] = {.rows = rows, .row_bytes = row_bytes};
  }
  unit.is_configured = true;
}

void _tile_release() { unit.is_configured = false; }

void _tile_zero(int tile) {
  Tile& zeros = tile_of(tile);
  std::memset(zeros.bytes, 0, sizeof zeros.bytes);
}

void _tile_loadd(int tile, const void* base, std::size_t stride) {
  Tile& to = tile_of(tile);
  for (int row = 0; row < to.rows; ++row) {
    std::memcpy(to.bytes[row],
                static_cast<const std::byte*>(base) + static_cast<std::size_t>(row) * stride,
                static_cast<std::size_t>(to.row_bytes));
  }
}

void _tile_stored(int tile, void* base, std::size_t stride) {
  const Tile& from = tile_of(tile);
  for (int row = 0; row < from.rows; ++row) {
    std::memcpy(static_cast<std::byte*>(base) + static_cast<std::size_t>(row) * stride,
                from.bytes[row], static_cast<std::size_t>(from.row_bytes));
  }
}

void _tile_dpbssd(int sums, int a, int b) {
  Tile& c = tile_of(sums);
  const Tile& left = tile_of(a);
  const Tile& right = tile_of(b);
  TESSERA_CHECK(sums != a && sums != b && a != b, "a product of tiles {} += {} * {}", sums, a, b);
  TESSERA_CHECK(left.rows == c.rows && right.row_bytes == c.row_bytes &&
                    left.row_bytes == 4 * right.rows && c.row_bytes % 4 == 0,
                "tiles {} x {} += {} x {} * {} x {}", c.rows, c.row_bytes, left.rows,
                left.row_bytes, right.rows, right.row_bytes);
  ++unit.products;
  for (int m = 0; m < c.rows; ++m) multiply_row(left.bytes[m], right, c.bytes[m]);
}

}  // namespace instructions
}  // namespace tessera::kernels::emulated

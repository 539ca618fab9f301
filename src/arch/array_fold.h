// How a product that leaves rows and columns of the array free takes several pixels at once.
//
//   32 channels, 64 output channels, a 128 x 128 array:
//
//     pixel 0 ─► [ W  . ]    the tile holds the weights as often as they fit along the diagonal,
//     pixel 1 ─► [ .  W ]    and a moving column is as many pixels as the array has places for
//                  ▼  ▼
//              sums of pixels 0, 1
//
// Places are as many as the output channels fit the columns. What fills all rows passes once for
// each place, its tile in the columns of that place; only what is left of the sum goes side by
// side:
//
//   160 channels, 64 output channels:  128 channels of place 0 | 128 of place 1 | 32 of both
//
// so two pixels take three passes in place of four. Places lie in a tile of the image, for pixels
// below each other share most of what they read. Groups of a grouped convolution lie beside each
// other in the same way. What limits the pixels that enter side by side is the port of a partition:
// values that the input buffer's shifter does not have from the moving column before come through it.
//
// Moving columns go along the rows of the output. Where their values come through the port more slowly
// than a column a cycle, columns of neighbouring output rows take turns: what the input rows that
// they share have is read once for all of them. The input buffer has two registers for each row of the
// array, for the column that enters and for what comes behind it; the window of all turns fits them.
//
//   3 x 3, stride 2:  y0 y2 y4 .     y0, y1, y2, y3 ... read 5 input rows for two output rows,
//                     y1 y3 y5 .     in place of 3 for each
//
// Where blocks run along the channels of a tap (BlockCut::kChannel), a pixel is quantised alike for
// every output pixel that reads it. So neighbouring output pixels share the rows of an input pixel,
// each with the weights of its own tap, or zeros, in its own columns:
//
//                    column   y0  y1  y2
//     kernel (a b c):     x0 [ a   .   . ]   three output pixels take five passes, one for each input
//                         x1 [ b   a   . ]   pixel that they read, in place of nine; with rows for two
//                         x2 [ c   b   a ]   input pixels, six output pixels do
//                         x3 [ .   c   b ]
//                         x4 [ .   .   c ]
//
// The taps of a channel lie one behind the other in kernel memory. What a row of the array has of a
// kernel row is read at once, and so are kernel rows that are no wider together than the array has
// columns: a tile takes R cycles for each of these reads. The results of a moving column leave through
// the port, `port_elements` pixels a cycle. Tables of the post-processor belong to two columns each; a
// fold that fills no more than half of the columns leaves every other one empty, and each has its own.
//
// Input pixels whose channels leave rows free lie below each other in the same columns, too, each in
// whole blocks of kTreeRows rows:
//
//     kernel (a b c),     x0 [ a   .   . ]   three output pixels take three passes: of x0 and x1,
//     channels of half    x1 [ b   a   . ]   x2 and x3, x4
//     the rows
//
// Between the pixels of a transposed convolution's input lie gaps. A tile of its output is whole phases, as
// high and wide as the gaps or a multiple, and neighbouring outputs read the same pixels:
//
//   gap 2, kernel (a b):     x0 [ a  b  .  . ]   four output pixels take two passes in place of four
//                            x1 [ .  .  a  b ]
//
// Pixels below each other that leave rows free may be cut between two passes: with 96 channels four pixels
// take three passes.
//
// Instead of tiles of outputs, columns may hold the taps of a tile of inputs: a moving column is some input
// pixels, each of which passes once, and makes a part of every output that reads them.
//
//   kernel (a b c),    column   a   b   c      the sums of column a belong to the output one pixel further
//   one input pixel:        x [ a   b   c ]    than those of b: they meet behind PSUM, in a tree across the
//                               └─ + ─┴─ + ─┘  columns (arch/cost.h)
//
// Positions that do not fit the columns pass in turn, and add to the same entries of PSUM. Sums of
// output rows whose input rows are not all there wait in PSUM, also for the task's next step; beside them it has
// room for three parts of a chain. That is for few outputs behind many terms: 3 x 3 over 96 channels to 24
// takes two passes for each pixel in place of three. One engine does it, not several that share a step.
//
// A product with one tap may have the outputs of several pixels one behind the other in the columns, cut where a
// block of columns ends: 96 outputs of four pixels in three blocks, each with its own pixels in the rows.
//
// A pixel has an exponent of its own, and a sum crosses pixels. So their sums leave the column apart
// and meet in the tree under it, which Microscaling has for its scales (arch/cost.h): a result comes
// the tree's cycles later. Integers have no exponents, and their pixels any rows.
#pragma once

#include <cstdint>
#include <optional>

#include "arch/chip_config.h"
#include "arch/product_work.h"
#include "base/quantity.h"

namespace tessera {

// Rows of a column whose sum the tree under it takes apart from the others.
inline constexpr std::int64_t kTreeRows = 32;

// Passes of a chain that are alike.
struct ChainPasses {
  std::int64_t count = 0;
  // Cycles that `turns` moving columns take: those below each other in the image that take turns.
  std::int64_t pace = 1, turns = 1;
  // Elements of a partition that come through its port for those columns.
  std::int64_t elements = 1;
  std::int64_t loads = 1;  // times R cycles that the next tile takes: reads of kernel memory a row
  // Pixels in rows and columns of their own, and in rows of the same columns, blocks along channels.
  std::int64_t side_by_side = 1, stacked = 1;
  // Where a pixel may begin in one pass and end in the next: rows that each pass fills; else 0.
  std::int64_t filled_rows = 0;
};

// Cycles of one pass of `columns` moving columns, weights aside.
Cycles stream_cycles(const ChainPasses& passes, std::int64_t columns);
// Elements that a partition delivers for it.
std::int64_t stream_elements(const ChainPasses& passes, std::int64_t columns);

struct ArrayFold {
  std::int64_t groups = 1;              // in the array at once
  std::int64_t tile_h = 1, tile_w = 1;  // output pixels of a moving column
  ChainPasses full;                     // those that fill the array's rows
  ChainPasses rest;                     // what is left of the sum
  std::int64_t result_cycles = 1;       // of a moving column in the post-processor and behind it
};

// What a fold is chosen for: rows of the output at a time, output channels of a block.
struct FoldShape {
  std::int64_t rows = 1;
  std::int64_t output_channels = 1;
  std::int64_t row_first = 0;
  friend bool operator==(const FoldShape&, const FoldShape&) = default;
};

// The fold with the fewest cycles of a product on stationary weights that is neither channel-wise
// nor a transposition; at most config.fold_pixels_max pixels enter side by side. Products whose input is dilated and
// arrays that are driven by commands or drain between passes do not fold; `taps` are those of the
// kernel that meet the input.
ArrayFold array_fold(const NeuralEngineConfig& config, const ProductWork& work,
                     const FoldShape& shape, std::int64_t taps);

// The same of a product with gaps in its input (a transposed convolution) whose blocks run along channels:
// tiles are whole phases of the output, so that each has the same taps, and share the input pixels that
// they read. None where the product has none, or does not fold.
struct GapFold {
  ArrayFold fold;
  std::int64_t columns = 1;  // moving columns of all rows
};
std::optional<GapFold> gap_fold(const NeuralEngineConfig& config, const ProductWork& work,
                                const FoldShape& shape);

// A product whose taps lie beside each other in the columns.
struct TapFold {
  ArrayFold fold;
  std::int64_t outputs_high = 1;  // outputs below each other of which a moving column has the rows
  std::int64_t across = 1;        // moving columns beside each other
  std::int64_t at_once = 1;       // of a part of a chain, at most

  // Moving columns of output rows [first, first + rows), those before it done.
  std::int64_t columns(const ProductWork& work, std::int64_t first, std::int64_t rows) const;
};
// The one with the fewest cycles for the rows of the shape; none where the product has none.
std::optional<TapFold> tap_fold(const NeuralEngineConfig& config, const ProductWork& work,
                                const FoldShape& shape);
// Whether its sums may meet behind the columns of the array.
bool columns_meet(const NeuralEngineConfig& config, const ProductWork& work);

// A product with a single tap whose output pixels are cut between blocks of columns, one chain of passes
// for each. None where the rows have no place for the pixels of a block.
struct CutFold {
  ArrayFold fold;
  std::int64_t blocks = 1;  // of columns of the array
};
std::optional<CutFold> cut_fold(const NeuralEngineConfig& config, const ProductWork& work,
                                const FoldShape& shape);

// Whether sums of pixels below each other, with exponents of their own, may pass the tree.
bool stacks_blocks(const NeuralEngineConfig& config, const ProductWork& work);

// Channel-wise work with the weights of a kernel row in a band beside the diagonal (arch/cost.h).
struct PixelBand {
  std::int64_t channels = 1;  // of a block
  std::int64_t slots = 1;     // rows of the array a channel: neighbouring pixels
  std::int64_t outputs = 1;   // columns a channel: pixels that a moving column makes
};

// Where a row of pixels takes fewer cycles than with the weights on the diagonal, a tap per pass.
std::optional<PixelBand> pixel_band(const NeuralEngineConfig& config, const ProductWork& work);

}  // namespace tessera

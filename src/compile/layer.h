// A graph node as the processor sees it: an engine, its configuration over the whole node, operand
// views, and the kernel slices that fit kernel memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/storage.h"
#include "compile/transposition.h"
#include "compile/weight_region.h"
#include "isa/descriptor.h"

namespace tessera::compile {

// A part of a product's stationary side, resident in kernel memory while it is used:
//   [ kernel image | bias | multipliers | zero points ] in every partition.
struct KernelSlice {
  ProductConfig product;
  std::int64_t moving_channel_first = 0;
  std::int64_t output_channel_first = 0, output_channels = 0;
  std::int64_t weights_offset = 0;  // in the weight region
  std::int64_t bytes_per_partition = 0;
  // A part of a sum (compile/sum_parts.h): it adds to the sums of the slice before, and leaves its own to
  // the slice behind.
  bool continues = false, keeps = false;
  KernelStream stream;           // how it is stored, if compressed
  std::int64_t bias_offset = 0;  // from the slice's first byte, as the next two
  std::int64_t multiplier_offset = 0, multiplier_count = 0;
  std::int64_t zero_point_offset = 0, zero_point_count = 0;
};

// kNeural: a product. Its tasks are the array's, but for those of a channel-wise product that the
// planar engine is given (`on_lanes`).
enum class LayerKind : std::uint8_t { kNeural, kPlanar, kCopy, kHost, kTranspose };

// A layer's results cut along two axes: bands of the surface (rows, or columns of one row), and ranges
// of channels in each band, which begin at multiples of `block`.
struct ShareGrid {
  int bands = 1, ranges = 1;
  std::int64_t block = 1;
  bool both() const { return bands > 1 && ranges > 1; }
  friend bool operator==(const ShareGrid&, const ShareGrid&) = default;
};

using LayerIndex = std::int32_t;  // place in Layers; -1: none

struct PlannedLayer {
  LayerKind kind = LayerKind::kCopy;
  graph::NodeIndex node = -1;  // -1: copies to outputs, or a transposition
  std::string name;
  std::vector<StorageView> inputs;  // neural: moving, then a dynamic stationary operand
  StorageView output;
  bool dynamic = false;             // neural: the stationary operand is a tensor
  bool whole_channels = false;      // neural: each result needs all output channels
  bool on_lanes = false;            // neural, channel-wise: the planar engine's lanes filter
  std::vector<KernelSlice> slices;  // neural; one even if there is nothing in kernel memory
  // Neural, for several cores: ranges of output channels that have slices of their own; or one.
  std::vector<RowRange> channel_shares;
  ShareGrid grid;  // for several cores: how it is cut where one axis alone leaves them uneven
  isa::PlanarTask planar;    // without surfaces
  bool wide_window = false;  // a pooling that the line buffer holds in parts only
  std::vector<PlannedCopy> copies;
  // kTranspose: turns inputs[0] into the output, on the array or the planar engine. By way of DMA
  // nothing is exchanged on the way: the parts are loaded, unless they are there, and stored.
  TranspositionWay way = TranspositionWay::kArray;
  std::vector<TransposePart> parts;

  bool on_array() const { return kind == LayerKind::kNeural && !on_lanes; }
};

using Layers = Table<LayerIndex, PlannedLayer>;

}  // namespace tessera::compile

// The roofline: what a network must take at least, layer by layer, and the share of it a run got.
//
//   cycles of a layer = max( MACs / (R * C * engines),  bytes / DRAM bytes per cycle )
//
// DRAM bytes per cycle is what the memory gives without a gap but for its refreshes.
//
// bytes is the compulsory traffic alone: every constant of the layer once, uncompressed and without
// padding, in the format it has in DRAM; the network's inputs at the first layer that reads them;
// its outputs at the layers that make them. What lies between layers counts nothing, work of the
// planar engine counts nothing, and layers do not overlap.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "package/package.h"
#include "report/layer_time.h"

namespace tessera::report {

struct LayerBound {
  std::int64_t macs = 0;
  std::int64_t bytes = 0;  // compulsory
  double array_cycles = 0, dram_cycles = 0;
  double cycles() const { return array_cycles > dram_cycles ? array_cycles : dram_cycles; }
};

// Why a layer, or a network, takes longer than its roofline:
//   cycles - roofline = the losses by cause - overlap
// A layer's roofline pays for its array cycles first, then for its waits.
struct Distance {
  ByCause<double> losses{};  // kArray: cells or columns of the array that stay empty
  double overlap = 0;        // roofline cycles in the shadow of other layers

  double operator[](Cause cause) const { return losses[cause]; }
};
Distance distance(const LayerTime& time, const LayerBound& bound);

// One for each hint of the package.
std::vector<LayerBound> roofline(const package::Package& package, const ChipConfig& chip);

// A traced run against its roofline.
struct RooflineReport {
  std::vector<LayerTime> times;
  std::vector<LayerBound> bounds;  // as many
  LayerTime total;                 // the sum of all layers
  LayerBound total_bound;          // sums; cycles() of it would let layers overlap
  Distance distance;               // of the whole network
  double roofline_cycles = 0;      // the sum over layers
  double share = 0;                // roofline_cycles / the run's cycles
};
RooflineReport roofline_report(const Network& network, const isa::Program& program,
                               const RunResult& run);

}  // namespace tessera::report

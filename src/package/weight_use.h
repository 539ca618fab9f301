// Weights on their way: what kernel loads bring into kernel memory, and what crosses the memory
// channel for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "package/package.h"

namespace tessera::package {

struct WeightUse {
  std::int64_t expanded_bytes = 0;  // into kernel memory
  std::int64_t moved_bytes = 0;     // of DRAM: tables, masks and values of compressed kernels
  std::int64_t loads = 0;
  std::int64_t palette_loads = 0, mask_loads = 0, both_loads = 0;  // the compressed ones, by form

  std::int64_t saved_bytes() const { return expanded_bytes - moved_bytes; }
  std::int64_t compressed_loads() const { return palette_loads + mask_loads + both_loads; }
  void add(const WeightUse& other);
};

// Of each layer (index into the hints), in one run.
std::vector<WeightUse> weight_use_by_layer(const Package& package);
WeightUse weight_use(const Package& package);
// "weights: 17.0 MiB loaded as 8.6 MiB, 8.4 MiB of DMA saved (12 of 15 loads: 12 palette, ...)"
std::string weight_use_text(const WeightUse& use);

}  // namespace tessera::package

// What the layers of a network that is cut for several cores read: who made it, and which part of it each
// core makes and reads, for each way to cut a layer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/table.h"
#include "compile/channel_plane.h"
#include "compile/memory_cut.h"
#include "compile/share_draft.h"
#include "compile/share_sides.h"
#include "graph/graph.h"

namespace tessera::compile {

using Regions = std::vector<PlaneRegion>;  // of each core
// What a layer reads or writes of a storage when it is cut one way; none where these are no regions.
using Share = std::optional<Regions>;

// A layer that makes what another one reads.
struct SplitWriter {
  LayerIndex layer = 0;
  graph::NodeIndex node = -1;
  double elements = 0;                                    // of all cores
  std::array<Share, kSplitWays> written = {};             // around what it writes
  std::array<std::vector<double>, kSplitWays> made = {};  // elements of that, by each core
  // By its ways and those of the reader, of each of the reader's cores; where there are several memories.
  std::array<std::array<std::vector<SampleMemories>, kSplitWays>, kSplitWays> samples = {};
};

// An operand that layers of the graph make.
struct SplitOperand {
  StorageIndex storage = -1;
  double bytes = 0;  // of the storage
  std::int64_t element = 2, row_bytes = 0;
  std::vector<SplitWriter> writers;  // of what is read
  std::size_t writers_of_storage = 0;
  std::array<Share, kSplitWays> read;
  std::array<std::vector<double>, kSplitWays> taken{};  // bytes, by each core
  std::array<double, kSplitWays> loads{};               // of the core that has most
  double ahead = 0;  // of all rows: what windows read of the next ones
  bool may_stay = false;
  std::array<bool, kSplitWays> room{};  // where all layers are cut one way
  // Where it stays in the buffer so: what loading all that is read would move.
  std::array<ShareTransfers, kSplitWays> if_loaded{};
};

struct SplitStorage {
  double bytes = 0, element_bytes = 0;
  std::vector<LayerIndex> writers = {};
  bool copied = false;  // from it, in DRAM
  // Where they are cut one way: those whose results the last of them stores.
  std::array<std::vector<LayerIndex>, kSplitWays> gathered = {};
};

struct SplitOperands {
  Table<LayerIndex, std::vector<SplitOperand>> of_layer;
  Table<LayerIndex, std::vector<LayerIndex>> copiers;  // that make what the layer reads
  // What the layer copies in DRAM, and who made it.
  Table<LayerIndex, std::vector<std::pair<StorageIndex, std::vector<LayerIndex>>>> copied;
  Table<LayerIndex, std::vector<StorageIndex>> outputs;  // of the network, made by the layer last
  Table<StorageIndex, SplitStorage> storages;
};

// `drafts`: of the network cut each way everywhere, in the order of Split; they have the same layers.
// `memories`: how many the cores of `setting` use.
SplitOperands find_split_operands(const graph::Graph& graph, const ShareSetting& setting,
                                  const std::vector<ShareDraft>& drafts, std::size_t memories);
// Of the layer's whole output.
double output_elements(const PlannedLayer& layer);

}  // namespace tessera::compile

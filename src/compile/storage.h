// Where the tensors of a graph live: storages (dense blocks of elements) and places in them.
//
// A Move with one box gives its output a place in its input's storage and costs nothing; the parts
// of a concatenation get places in the storage of the whole, so that producers store straight into
// it. What cannot be placed this way is copied.
//
//   conv ─► a ─┐                     storage "whole": [ a | b ]
//   conv ─► b ─┴─ Move (concat) ─► whole ─ Move (transpose) ─► t    a, b, t: places in "whole"
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "base/table.h"
#include "compile/axis_map.h"
#include "graph/graph.h"
#include "graph/surface_view.h"
#include "isa/descriptor.h"

namespace tessera::compile {

using StorageIndex = std::int32_t;

// A dense block of elements with (perhaps) a home in DRAM.
struct Storage {
  std::string name;
  Format format = Format::kF16;
  std::int64_t elements = 0;
  isa::BaseIndex base = isa::BaseIndex::kWorkspace;
  graph::TensorId owner;  // the tensor that is this block, dense from element 0

  std::int64_t bytes() const { return elements * format_bytes(format); }
};

// A tensor's place: its dense row-major elements, mapped into a storage.
struct Place {
  StorageIndex storage = -1;
  AxisMap map;
  bool valid() const { return storage >= 0; }
};

// Elements of a storage seen as [images, channels, rows, columns]; stride 0 broadcasts.
struct StorageView {
  StorageIndex storage = -1;
  std::int64_t offset = 0;
  std::array<std::int64_t, 4> extents = {1, 1, 1, 1};
  std::array<std::int64_t, 4> strides = {0, 0, 0, 0};

  std::int64_t images() const { return extents[0]; }
  std::int64_t channels() const { return extents[1]; }
  std::int64_t rows() const { return extents[2]; }
  std::int64_t columns() const { return extents[3]; }
  // The part of `axis` from `first`, `count` long. Broadcast axes keep their stride of 0.
  StorageView part(std::size_t axis, std::int64_t first, std::int64_t count) const;
  // Elements of a view that walks its storage in the order of its axes without gaps; else 0.
  std::int64_t dense_elements() const;
  friend bool operator==(const StorageView&, const StorageView&) = default;
};

// One copy (or fill) from DRAM to DRAM that a Move needs.
struct PlannedCopy {
  bool fill = false;
  std::uint64_t fill_bits = 0;
  StorageIndex source = -1;  // unused by a fill
  StorageIndex destination = -1;
  StridedWalk from;
  StridedWalk to;
};

struct NodePlan {
  // Processor nodes; default where the operand is a kernel image. Moving first: swapped operands of
  // a product are exchanged.
  std::vector<StorageView> inputs;
  bool swapped = false;
  StorageView output;
  std::vector<PlannedCopy> copies;  // Moves
};

struct StoragePlan {
  Table<StorageIndex, Storage> storages;
  Table<graph::TensorId, Place> places;  // invalid where no task or host step touches it
  Table<graph::NodeIndex, NodePlan> nodes;
  std::vector<PlannedCopy> output_copies;     // outputs that are inputs or constants of the graph
  std::vector<StorageIndex> output_storages;  // of each graph output
};

// Of each node; empty for the views that every node has without a choice.
using ViewChoices = std::vector<graph::ViewChoice>;
// Tensors `apart` are not made within another one.
Result<StoragePlan> plan_storages(const graph::Graph& graph, const ChipConfig& chip,
                                  const ViewChoices& choices = {},
                                  const std::set<graph::TensorId>& apart = {});

// A tensor's view through its place; none where an axis crosses axes of the place.
std::optional<StorageView> view_in_storage(const Place& place, const graph::StridedView& view);
// The input is a kernel image of its product, not a surface.
bool is_kernel_operand(const graph::Graph& graph, const graph::Node& node, std::size_t input);

}  // namespace tessera::compile

// Which tasks make one layer, and what that layer is.
//
// A group is a layer's compute tasks, with the place that the hints give each of them:
//
//   task 7: rows 0..15   ┐
//   task 9: rows 16..31  ├─► group: output [1, 64, 40, 20], one configuration, whole pads
//   task 12: rows 32..39 ┘
//
// What can be proved from the descriptors alone is proved here: equal configurations apart from the
// cut, places that cover the output once, and every tap of every task falling where the whole
// layer's tap falls. That all tasks see one input is proved when the tags go through (lift/walk.h).
// Tasks without a hint, or of a layer that does not stand the proof, are groups by themselves.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "arith/kernels/planar/planar.h"
#include "arith/kernels/product_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::concord {

// [images, channels, rows, columns].
using Extents = std::array<std::int64_t, 4>;
inline constexpr std::size_t kImages = 0, kChannels = 1, kRows = 2, kColumns = 3;
inline std::int64_t volume(const Extents& e) { return e[0] * e[1] * e[2] * e[3]; }

enum class GroupKind : std::uint8_t { kProduct, kPool, kElementwise, kReduce };

struct Group {
  GroupKind kind = GroupKind::kElementwise;
  std::uint32_t layer = 0;         // index into the hints
  std::vector<isa::TaskId> tasks;  // in their order
  bool merged = false;             // of several tasks by their hints
  Extents output = {1, 1, 1, 1};
  std::vector<Extents> inputs;  // of each operand that lies in the state buffer
  std::vector<Format> input_formats;
  Format output_format = Format::kF16;
  ProductConfig product;  // kProduct: of the whole layer
  bool dynamic = false;
  PoolConfig pool;  // kPool: of the whole layer
  ElementwiseConfig elementwise;
  bool gain_bias = false;  // kElementwise: x * gain + bias
  ReduceConfig reduce;
  // kReduce: the elements of one result lie contiguously along the columns, in the order in
  // which the parts take them.
  bool flat = false;
};

using GroupIndex = std::int32_t;  // place in Groups::groups; -1: none

// What one task does within its group.
struct TaskPlace {
  GroupIndex group = -1;           // -1: it only moves
  Extents output = {0, 0, 0, 0};   // the first of its results
  Extents input = {0, 0, 0, 0};    // the first element of its first input surface
  std::int64_t element_first = 0;  // kReduce: elements of a result in the parts before
  std::int32_t part_before = -1;   // the task whose accumulators it takes up (planar)
  bool last_part = true;
};

struct Groups {
  Table<GroupIndex, Group> groups;
  std::vector<TaskPlace> places;  // of each task
};

// Layers in `apart` are taken task by task.
Result<Groups> group_tasks(const isa::Program& program, bool use_hints,
                           const std::set<std::uint32_t>& apart);

}  // namespace tessera::concord

// What lies around the box that a Move copies, of a tensor that it fills elsewhere.
//
//   . . . . .      rows above and below it, whole,
//   . x x x .      and of its own rows what is before it and behind it
//   . x x x .
//   . . . . .
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compile/axis_map.h"
#include "graph/graph.h"

namespace tessera::compile {

// Walks over the output's elements that `box` does not write, each once, of `count` elements; the last axis
// of each is a run. None where the box is no part of a tensor's axes, or writes all of it.
std::vector<StridedWalk> walks_around(const graph::CopyBox& box, std::int64_t count);
// The same around several boxes, each in a plane of its own (channels that are padded each in its way). None
// where they do not lie in one plane each.
std::vector<StridedWalk> walks_around(std::span<const graph::CopyBox> boxes, std::int64_t count);

}  // namespace tessera::compile

// Which cores a virtual processor gets when it asks for a number of them.
//
//   wanted 4, own core 0:   group 0 [ own  free other free ]  group 1 [ free free free free ]
//   gets 0 4 5 6: as much as can be in groups that nobody else is in, since those are undisturbed
//
// Of several cards it gets cores of one, if that has as many, since what crosses the network is slow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::device {

enum class CoreUse : std::uint8_t { kFree, kOwn, kOthers };

struct CoreShape {
  int cores_per_group = 1, groups_per_card = 1;
};

// `uses` has the groups' cores one group behind the other, and so the cards' groups. Own cores are kept as far
// as `wanted` goes; who gives some up gives up those of the card where it has fewest first, and there those in
// groups with others. Ascending; fewer than `wanted` where there are no more.
std::vector<int> choose_cores(std::span<const CoreUse> uses, const CoreShape& shape, int wanted);

}  // namespace tessera::device

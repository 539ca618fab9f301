// Which cores of a card a virtual processor gets when it asks for a number of them.
//
//   wanted 4, own core 0:   group 0 [ own  free other free ]  group 1 [ free free free free ]
//   gets 0 4 5 6: as much as can be in groups that nobody else is in, since those are undisturbed
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::device {

enum class CoreUse : std::uint8_t { kFree, kOwn, kOthers };

// `uses` has the groups' cores one group behind the other. Own cores are kept as far as `wanted` goes; who
// gives some up gives up those in groups with others first. Ascending; fewer than `wanted` where there are
// no more.
std::vector<int> choose_cores(std::span<const CoreUse> uses, int cores_per_group, int wanted);

}  // namespace tessera::device

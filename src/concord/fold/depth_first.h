// Another order of a software's layers: each as late as what needs it allows, those of one operand before those of
// the next. So the turns of a loop stand behind one another also where the program does several loops in turns.
// Internal to src/concord.
#pragma once

#include <optional>

#include "concord/software.h"

namespace tessera::concord {

// None where that is the order they have. No value changes.
std::optional<Software> ordered_depth_first(const Software& software);

}  // namespace tessera::concord

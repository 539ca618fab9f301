// Constants that are equal become one; so do moves, and operations on constants, of the same
// operands.
#pragma once

#include "concord/software.h"

namespace tessera::concord {

// Operations on constants alone stand in front and belong to no layer: they are done once. What three or more
// operations had in common stands as early as its operands allow. So the turns of a loop that has been unrolled
// stay alike. Other operations are left alone: a reader of
// the software may want to see the steps of a function in one piece.
void share_equal(Software& software);

}  // namespace tessera::concord

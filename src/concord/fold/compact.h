// Leaves out of a software what nothing reads: operations, values, layers.
#pragma once

#include "concord/software.h"

namespace tessera::concord {

// Operations that no output needs. Results of layers count as outputs only where they are among
// them.
void drop_unread(Software& software);

// Numbers the values and layers anew, without those that no operation or port names. A layer that
// had no operations in `before` stays. A dropped result is invalid.
void compact(Software& software, const Software& before);

}  // namespace tessera::concord

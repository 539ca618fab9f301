// Rows of one tensor that are put behind one another again, as moves of the whole tensor.
// Internal to src/concord.
#pragma once

#include <vector>

#include "concord/fold/turns.h"

namespace tessera::concord {

void regroup_rows(std::vector<Operation>& operations, FoldedValues& values);

}  // namespace tessera::concord

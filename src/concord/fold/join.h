// Several programs side by side in one: so that one compiler run serves all.
#pragma once

#include <vector>

#include "concord/software.h"

namespace tessera::concord {

// The inputs and outputs of all, program after program.
Software joined(const std::vector<const Software*>& programs);

}  // namespace tessera::concord

// The order in which a written program computes: once what depends on constants alone, then the
// rest at every run, and which values are dead after each operation.
#pragma once

#include <vector>

#include "concord/software.h"

namespace tessera::concord {

struct Stage {
  const Operation* operation;
  std::vector<ValueId> dead;  // values to free after it; never constants or outputs
};

struct Schedule {
  std::vector<ValueId> constants;  // that are read, in order
  std::vector<Stage> once, always;
  std::vector<ValueId> only_once;  // constants and results of `once` that no run needs
};

Schedule make_schedule(const Software& software);

}  // namespace tessera::concord

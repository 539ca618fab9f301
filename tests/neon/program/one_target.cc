// In place of Highway's library where one instruction set was compiled for: the choice between several.
#include <hwy/targets.h>

namespace hwy {

std::int64_t SupportedTargets() { return HWY_TARGETS; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy

#include "engines/wake_table.h"

#include <fmt/format.h>

namespace tessera::engines {

const char* box_name(Box box) {
  switch (box) {
    case Box::kTaskManager:
      return "task_manager";
    case Box::kDram:
      return "dram";
    case Box::kLoad:
      return "load";
    case Box::kStore:
      return "store";
    case Box::kKernel:
      return "kernel";
    case Box::kFirstEngine:
      break;
  }
  return "engine";
}

int BoxLayout::index(Box box) const {
  const int number = static_cast<int>(box) - kSingleBoxes;
  if (number < 0) return 0;
  return number < neural_ ? number : number - neural_;
}

const char* BoxLayout::kind(Box box) const {
  const int number = static_cast<int>(box) - kSingleBoxes;
  if (number < 0) return box_name(box);
  return isa::engine_kind_name(number < neural_ ? isa::EngineKind::kNeural
                                                : isa::EngineKind::kPlanar);
}

std::string BoxLayout::name(Box box) const {
  const int number = static_cast<int>(box) - kSingleBoxes;
  const bool is_one = number < 0 || (number < neural_ ? neural_ : planar_) == 1;
  return is_one ? kind(box) : fmt::format("{} {}", kind(box), index(box));
}

}  // namespace tessera::engines

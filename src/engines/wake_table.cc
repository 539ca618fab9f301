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

isa::EngineKind BoxLayout::engine_kind(Box box) const {
  using isa::EngineKind;
  EngineKind found = EngineKind::kNeural;
  for (const EngineKind kind :
       {EngineKind::kPlanar, EngineKind::kMessageIn, EngineKind::kMessageOut}) {
    if (box >= first(kind)) found = kind;
  }
  return found;
}

int BoxLayout::index(Box box) const {
  if (static_cast<int>(box) < kSingleBoxes) return 0;
  return static_cast<int>(box) - static_cast<int>(first(engine_kind(box)));
}

const char* BoxLayout::kind(Box box) const {
  return static_cast<int>(box) < kSingleBoxes ? box_name(box)
                                              : isa::engine_kind_name(engine_kind(box));
}

std::string BoxLayout::name(Box box) const {
  const bool is_one = static_cast<int>(box) < kSingleBoxes || engines(engine_kind(box)) == 1;
  return is_one ? kind(box) : fmt::format("{} {}", kind(box), index(box));
}

}  // namespace tessera::engines

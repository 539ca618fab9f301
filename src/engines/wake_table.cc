#include "engines/wake_table.h"

namespace tessera::engines {

const char* box_name(Box box) {
  switch (box) {
    case Box::kNeural:
      return "neural";
    case Box::kPlanar:
      return "planar";
    case Box::kLoad:
      return "load";
    case Box::kStore:
      return "store";
    case Box::kKernel:
      return "kernel";
    case Box::kTaskManager:
      return "task_manager";
    case Box::kDram:
      break;
  }
  return "dram";
}

}  // namespace tessera::engines

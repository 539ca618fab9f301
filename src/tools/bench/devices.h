// tessera bench MODEL --suite devices: host, sim and its variants side by side.
#pragma once

#include "tools/run/cores_arguments.h"
#include "tools/verb.h"

namespace tessera::tools {

struct DeviceBench {
  ModelArguments model;
  CoresArguments cores;  // several: those and one
  int repeat = 0;        // 0: 5 rounds
  int threads = 0;       // host; 0: all
};
Status run_device_bench(const DeviceBench& bench);

}  // namespace tessera::tools

// tessera run of a program with --stream: a time step for every vector that arrives.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "device/program_run.h"
#include "tools/run/arguments.h"

namespace tessera::tools {

Status run_stream(const RunArguments& arguments, device::ProgramRun& run, std::int64_t clock_hertz);

}  // namespace tessera::tools

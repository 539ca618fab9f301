// tessera run of a program with --stream: a time step for every vector that arrives.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "device/program_run.h"
#include "tools/run/arguments.h"

namespace tessera::tools {

struct StreamedProgram {
  std::int64_t clock_hertz = 0;
  // The queue whose messages say how many steps a sequence has, or "": streams of any length.
  std::string steps_queue;
};

Status run_stream(const RunArguments& arguments, device::ProgramRun& run,
                  const StreamedProgram& program);

}  // namespace tessera::tools

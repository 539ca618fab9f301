// A workload by name (repro/workload.h) on the virtual processor: made into a model, compiled for
// the chip, linked, and run for its timing alone.
#pragma once

#include "repro/workload.h"

namespace tessera::tools {

// Attention, layer norms and softmaxes are cut into parts, as a compiler's loop over heads or rows
// would be, where that is faster (workload_model.h); the fastest of up to four ways counts.
//
// Operands, parameters and results lie in DRAM, in the chip's vector format; weights are constants
// of the model and stored as they are, never compressed. Operators that would run on the host are
// an error that names them. Workloads with large weights wait for each other; otherwise callable
// from several threads at once.
Result<repro::WorkloadRun> run_workload(const repro::Workload& workload, const ChipConfig& chip);

}  // namespace tessera::tools

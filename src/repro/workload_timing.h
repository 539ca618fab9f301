// Workloads that others measured, held against the same workloads compiled for a profile and run by
// the virtual processor.
//
//   tpuv3.csv   Workload, TPUv3 (cycles)                      ─► profile `tpuv3`
//   tpuv6e.csv  workload, dtype, cycles, latency_ns           ─► profile `tpuv6e`
//
// Workloads of the same name run once. A row that is malformed, or that the virtual processor does
// not run, is named in the table's notes and left out; it is no error of the others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "repro/csv.h"
#include "repro/experiment_result.h"
#include "repro/workload.h"

namespace tessera::repro {

// Columns Workload, TPUv3. One table, in cycles of the core's clock.
Result<std::vector<TimingTable>> tpuv3_timing(const CsvTable& measured,
                                              const WorkloadRunner& runner);

// Columns workload, dtype (float16 or bfloat16), cycles, latency_ns. Two tables: cycles, and
// nanoseconds. What the file's cycles count is cycles / latency_ns, which a note gives; where that
// is not the profile's clock, only nanoseconds compare.
Result<std::vector<TimingTable>> tpuv6e_timing(const CsvTable& measured,
                                               const WorkloadRunner& runner);

// Ours alone, for a list of workloads that comes with the program: cycles, microseconds, what the
// array and the memory would take alone, and the share of the array's time in ours. `profile`: one
// that is built in, or the path of an architecture file. What does not run is in the notes.
Result<ExperimentResult> workload_rows(const std::string& profile, const WorkloadRunner& runner);

}  // namespace tessera::repro

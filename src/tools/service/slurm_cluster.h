// A cluster of the nodes of a Slurm allocation, for as long as the allocation or a command lasts.
//
//   salloc or sbatch ─► tessera cluster slurm ─┬─ srun ─► head, on the first node: etcd and the master
//                                              └─ srun ─► tessera node, on each of them
//
// Slurm counts whole nodes; which of their cores a tenant gets is the master's to say. The steps end when this program
// does, however it ends: their standard input ends with it.
#pragma once

#include "base/result.h"
#include "tools/service/arguments.h"

namespace tessera::tools {

// kUnavailable: there is no allocation, a step has ended, or the nodes have not come in time.
Status run_in_slurm(const ClusterArguments& arguments);

}  // namespace tessera::tools

// Cases of remote access (repro/remote_tables.h), run between processes over loopback.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "repro/remote_tables.h"
#include "tessera/network.h"

namespace tessera::tools {

// Starts a cluster of one node (started_cluster.h) and a process with a driver, whose processors take the time of the virtual one. To be called while this process has no
// other threads. `progress` (may be empty) hears of shares of the whole.
Result<std::vector<repro::RemoteRun>> run_remote_cases(std::span<const repro::RemoteCase> cases,
                                                       const ProgressCallback& progress);

}  // namespace tessera::tools

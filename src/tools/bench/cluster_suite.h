// tessera bench --suite cluster: what allocations cost on a running cluster, and decisions with many nodes and tenants.
#pragma once

#include "base/result.h"

namespace tessera::tools {

struct ClusterSuite {
  int repeat = 0;    // 0: 20 acquisitions, and as many resizes
  int nodes = 1000;  // of the cluster in simulation, with 10 tenants each
  bool json = false;
};
// To be called while this process has no other threads.
Status run_cluster_suite(const ClusterSuite& suite);

}  // namespace tessera::tools

// A master with many nodes and tenants in simulated time: what a decision costs, and how the cores are left.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace tessera::tools {

struct SchedulerLoadOptions {
  int nodes = 1000, cores_per_node = 16;  // of groups of 4
  int tenants = 10'000;                   // each has one allocation at most
  int steps = 40'000;                     // each a tenant that comes or goes
  std::uint64_t seed = 1;
};

struct SchedulerLoad {
  std::int64_t acquired = 0, refused = 0, released = 0;
  // Of an acquisition: which cores, without the store's write and the node's work. All of them, ascending.
  std::vector<double> choose_us;
  double request_processor_us =
      0;  // of an acquisition or release on average, with an in-process store: processor time
  std::int64_t cores = 0, free = 0, allocations = 0;
  std::int64_t alone = 0;  // allocations in groups that nobody else is in
  struct Size {
    int cores = 1;
    std::int64_t fits = 0;  // allocations of this size for which there is room at the end
    // Of 1: free cores that none of them would get.
    double fragmentation = 0;
  };
  std::vector<Size> sizes;  // 1, 2, 4, 8, 16
};

// The master is the one that ships; store, clock and nodes are replaced. The same cores every time.
Result<SchedulerLoad> run_scheduler_load(const SchedulerLoadOptions& options);

}  // namespace tessera::tools

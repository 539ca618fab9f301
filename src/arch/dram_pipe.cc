#include "arch/dram_pipe.h"

#include <algorithm>

namespace tessera {

DramPipe::DramPipe(const ChipConfig& chip)
    : costs_(dram_costs(chip)),
      cycles_of_byte_(costs_.peak.inverse()),
      burst_(costs_.burst_bytes) {}

std::int64_t DramPipe::serve(const DramRequest& request, Cycles now) {
  bus_free_ = std::max(bus_free_, now);
  std::int64_t bursts = 0;
  std::int64_t last_burst = -1;
  RunWalk walk(request);
  for (std::int64_t left = request.runs;;) {
    const std::int64_t first = burst_.quotient(walk.address());
    const std::int64_t end = burst_.ceiling(walk.address() + request.bytes);
    const bool again = first == last_burst;  // still in the burst buffer
    // Runs that lie alike in their bursts and share none cost the same.
    const bool alike = !again && burst_.remainder(walk.pitch()) == 0 &&
                       walk.pitch() >= (end - first) * costs_.burst_bytes;
    const std::int64_t runs = alike ? std::min(left, walk.left_of_axis()) : 1;
    const std::int64_t moved = end - first - (again ? 1 : 0);
    bus_free_ += runs * cycles_of_byte_.ceil_of(moved * costs_.burst_bytes);
    bursts += runs * moved;
    walk.skip(runs - 1);
    last_burst = burst_.quotient(walk.address() + request.bytes - 1);
    left -= runs;
    if (left == 0) return bursts * costs_.burst_bytes;
    walk.next();
  }
}

}  // namespace tessera

// When each task of a program would run: a model of the whole core, coarser than the virtual
// processor and fast enough to compare plans with.
//
//   dispatch (task buffer) ─► each engine in its order ─► steps wait for the dependencies' steps
//                                  transfers share the memory channel, its gaps are filled
//
// While a transfer's first request is on its way the memory serves others; its engine takes the next
// task when it has made all requests, of which dma.outstanding_requests are in flight at most. Data wait
// for kernels that the memory has accepted: what those are is found by a first run.
//
// Where the ports of the state buffer's banks are counted, steps reserve them as in the processor
// (arch/port_schedule.h), in the order of the tasks. Costs are those of arch/cost.h and isa/dma_time.h: a
// transfer's bursts, rows and requests alone, and its part of the refresh. Left out are what other engines
// have open in DRAM and the cycle that a counter takes to be seen.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/quantity.h"
#include "isa/descriptor.h"

namespace tessera::compile {

struct Timeline {
  Cycles cycles = 0;         // until everything is done
  std::vector<Cycles> ends;  // of each task
};

// `tasks[i].id` is i, every dependency points back; segments follow each other on a quiet core. What
// stands between the core and its memory, a load/save unit, adds `answer_cycles` to each answer.
Timeline predict_timeline(const ChipConfig& chip, const std::vector<std::uint32_t>& segments,
                          const std::vector<isa::TaskDescriptor>& tasks, Cycles answer_cycles = 0);

}  // namespace tessera::compile

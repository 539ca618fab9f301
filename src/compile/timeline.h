// When each task of a program would run: a model of the whole core, coarser than the virtual
// processor and fast enough to compare plans with.
//
//   dispatch (task buffer) ─► each engine in its order ─► steps wait for the dependencies' steps
//                                  transfers share the memory channel, its gaps are filled
//
// Where the ports of the state buffer's banks are counted, steps reserve them as in the processor
// (arch/port_schedule.h), in the order of the tasks. Costs are those of arch/cost.h and isa/dma_time.h: a transfer's
// bursts, rows and requests alone, but that kernels hide the memory's latency behind those before them. Left out are
// what other engines have open in DRAM and the cycle that a counter takes to be seen.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/quantity.h"
#include "isa/descriptor.h"

namespace tessera::compile {

// Loads and stores wait for the others in the memory's queue, about as long as for the memory where each takes what
// it takes alone; or, at best, for those before them alone, as kernels do.
enum class DataPace : std::uint8_t { kAlone, kBehindEachOther };

struct Timeline {
  Cycles cycles = 0;         // until everything is done
  std::vector<Cycles> ends;  // of each task
};

// `tasks[i].id` is i, every dependency points back; segments follow each other on a quiet core.
Timeline predict_timeline(const ChipConfig& chip, const std::vector<std::uint32_t>& segments,
                          const std::vector<isa::TaskDescriptor>& tasks,
                          DataPace pace = DataPace::kAlone);

}  // namespace tessera::compile

// In which order the elements of a storage lie in DRAM when several cores share its layers. A share by
// rows is short runs of every channel in the order that graphs have, and one run with rows outermost:
//
//   channels outermost   c0: r0 r1 r2 | c1: r0 r1 r2        rows outermost   r0: c0 c1 | r1: c0 c1 | ...
//
// Short runs cost whole bursts. Nothing but DRAM sees the order: engines and their surfaces do not.
#pragma once

#include <optional>
#include <vector>

#include "arch/chip_config.h"
#include "compile/channel_plane.h"
#include "compile/plan.h"

namespace tessera::compile {

class DramOrders {
 public:
  // Everything as the graph has it.
  DramOrders() = default;
  // Of each storage the one with fewer bytes in whole bursts, by the transfers of all plans.
  DramOrders(const PlanInputs& inputs, const std::vector<Plan>& plans);

  // A view of a storage as it lies in DRAM.
  StorageView in_dram(const StorageView& view) const;

 private:
  Table<StorageIndex, std::optional<ChannelPlane>> rows_outermost_;
};

}  // namespace tessera::compile

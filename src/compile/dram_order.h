// In which order the elements of a storage lie in DRAM. A part by rows, a share of one of several cores or a piece of a
// layer, is short runs of every channel in the order that graphs have, and one run with rows outermost:
//
//   channels outermost   c0: r0 r1 r2 | c1: r0 r1 r2        rows outermost   r0: c0 c1 | r1: c0 c1 | ...
//
// Short runs cost whole bursts, and runs that are far apart open a row of the memory each. Nothing but DRAM sees the order: engines and their surfaces do not.
#pragma once

#include <optional>
#include <vector>

#include "arch/chip_config.h"
#include "compile/channel_plane.h"
#include "compile/plan.h"

namespace tessera::compile {

// Of a transfer of the view, in whole bursts: axes that follow each other without a gap are one run.
// `element` and `burst` in bytes.
std::int64_t burst_bytes(const StorageView& view, std::int64_t element, std::int64_t burst);

class DramOrders {
 public:
  // Everything as the graph has it.
  DramOrders() = default;
  // Of each storage the one with fewer bytes in whole bursts, by the transfers of all plans.
  DramOrders(const PlanInputs& inputs, const std::vector<Plan>& plans);

  // Rows outermost wherever that takes no more bytes.
  static DramOrders by_rows(const PlanInputs& inputs, const Plan& plan);
  bool empty() const;  // everything is as the graph has it

  // A view of a storage as it lies in DRAM.
  StorageView in_dram(const StorageView& view) const;

 private:
  enum class Prefer { kFewerBytes, kRows };
  DramOrders(const PlanInputs& inputs, const std::vector<Plan>& plans, Prefer prefer);

  Table<StorageIndex, std::optional<ChannelPlane>> rows_outermost_;
};

}  // namespace tessera::compile

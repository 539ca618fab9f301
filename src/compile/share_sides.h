// What each core does of each layer where a network is cut one way: the numbers of a draft's tasks
// (compile/share_draft.h) that the model of splits is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/table.h"
#include "compile/layer_timeline.h"
#include "compile/share_draft.h"
#include "isa/descriptor.h"

namespace tessera::compile {

// All cores' transfers of a layer: what short runs cost.
struct ShareTransfers {
  double useful = 0, bursts = 0;  // bytes
  double passage = 0;             // cycles that each takes alone
  double memory = 0;              // cycles that the memory is busy for each alone
  double requests = 0;

  void add(const isa::TaskDescriptor& task, const isa::TransferTask& transfer,
           const ChipConfig& chip);
  // What would be moved of a storage in the order of its view.
  void add(const StorageView& view, std::int64_t element_bytes, const ChipConfig& chip);
  double padding() const { return useful == 0 ? 1 : bursts / useful; }
  double cycles_per_byte() const { return useful == 0 ? 0 : passage / useful; }
  // A power of two, so that there are few.
  std::int64_t request_bytes() const;
  // Of the memory, with the rows that short runs open.
  double memory_per_byte() const { return useful == 0 ? 0 : memory / useful; }
};

// What a layer does when it is cut one way.
struct LayerSide {
  Cycles compute = 0;             // of the slowest core
  std::vector<CoreDemand> cores;  // without what they store
  bool neural = false;            // which engines take that long
  bool cuts_rows = true;          // of what it loads (may_cut_rows())
  bool copies = false;            // none: it is copied in DRAM, at the speed of the busiest memory
  double copied = 0;              // of the memories beside the cores
  double first = 1;  // part of the time after which the first rows of the results are there
  std::int64_t kernel_tasks = 0, kernel_room = 0;  // of a core; bytes of a partition
  double kernel_bytes = 0;                         // that the busiest memory reads
  ShareTransfers loads, stores;                    // where what it reads is cut the same way
  std::vector<double> shares;                      // cycles that each core's busiest engine works
};

// `memories`: how many the cores of `setting` use.
Table<LayerIndex, LayerSide> find_sides(const ShareDraft& draft, const ShareSetting& setting,
                                        std::size_t memories);

}  // namespace tessera::compile

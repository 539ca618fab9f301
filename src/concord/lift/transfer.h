// Steps that only move: transfers, copies and fills of DRAM, transpositions. Their tags move as
// their bytes would (engines/dma/dma_math.cc, arith/kernels/planar/transpose.cc).
#pragma once

#include "concord/lift/tags.h"
#include "isa/program.h"

namespace tessera::concord {

class TagTransfer {
 public:
  // The core outlives the object.
  explicit TagTransfer(ShadowCore& core) : core_(core) {}

  void run_step(const isa::TaskDescriptor& task, std::int64_t step);

 private:
  void transfer(const isa::TaskDescriptor& descriptor, std::int64_t step);
  void copy(const isa::CopyTask& task, RowRange rows);
  struct Turn {
    const isa::BufferSurface& from;
    const isa::BufferSurface& to;
    std::int64_t from_first = 0, to_first = 0;  // channels
    std::int64_t channels = 0, columns = 0;     // of the input that are turned
  };
  void turn(const Turn& turn, std::int64_t image, RowRange rows);

  ShadowCore& core_;
};

}  // namespace tessera::concord

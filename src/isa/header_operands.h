// Where a task's operands lie, as its extended header names them: for those who read headers and
// know no configuration.
#pragma once

#include "base/result.h"
#include "isa/descriptor.h"

namespace tessera::isa {

struct HeaderOperands {
  SurfaceRegisters surfaces = {};  // kImplied: the task has no such surface
  HeaderBases bases = {};          // kImplied: the task has no such address in DRAM
  friend bool operator==(const HeaderOperands&, const HeaderOperands&) = default;
};

// What the configuration has: a product its moving surface and its output, a planar task its first
// input and its output, a load the surface that it writes and the base that it reads, a store the
// opposite, a copy both bases (a fill its destination), a kernel task its source.
HeaderOperands configured_operands(const TaskDescriptor& task);
// Writes them into the header; they are encoded from then on.
void name_operands(TaskDescriptor& task);
// Operands that the header names are those of the configuration. Errors are kInvalidModel.
Status check_operands(const TaskDescriptor& task);

}  // namespace tessera::isa

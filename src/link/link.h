// Unlinked frames (of a package) -> Program of one core: joins frames, numbers tasks, inserts
// synchronisation, drops redundant dependencies (redundant_dependencies.h), encodes the stream. For several
// cores layers are cut before they are tasks, out of the package's graph (network/card_program.h).
#pragma once

#include <optional>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/unlinked.h"

namespace tessera::link {

struct LinkOptions {
  bool serial = false;  // one task at a time: every task waits for the one before (for comparison)
  bool keep_redundant = false;  // keep dependencies that follow from others (for comparison)
  // Headers name the operands' registers and base addresses (isa/header_operands.h), for those who
  // read headers and know no configuration; descriptors get longer by it.
  bool name_operands = false;
  std::optional<isa::CoreRegion> region = {};  // of a core that several networks share
};

Result<isa::Program> link(const isa::Unlinked& package, const ChipConfig& chip,
                          const LinkOptions& options = {});
// The same of a package that is not needed any more: each frame's tasks become the program's, and are not in memory
// twice.
Result<isa::Program> link(isa::Unlinked&& package, const ChipConfig& chip,
                          const LinkOptions& options = {});

}  // namespace tessera::link

// The programs for several cores that a package has (network/prepared_cores.h), one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "compile/compile_shares.h"
#include "isa/templates.h"
#include "network/network.h"
#include "tessera/core_split.h"

namespace tessera::network {

// Filled in, its tasks decoded; nothing: the package has none for it. Not proved.
Result<std::optional<compile::SharedProgram>> prepared_program(const NetworkState& network,
                                                               const isa::PreparedFor& key);

// What a program of the network for one image is prepared under; `memories` is empty where every memory has
// everything.
isa::PreparedFor key_of_cores(const ChipConfig& chip, int cores, CoreSplit split,
                              const std::vector<std::uint8_t>& memories, int cards);

}  // namespace tessera::network

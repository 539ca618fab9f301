// Which memory of a card holds what, and which loads the cores have in common.
//
//   store of core 5 ─► the memory beside core 5          what a core makes lies beside it
//   load of rows 8..21 ─► rows 8..9 of memory 0, rows 10..21 of memory 1: a load each
//   equal loads of cores 0, 1 and 2 ─► share 7 of {0, 1, 2}: one read, and all three get it
//
// Weights and inputs every memory has, so each core takes them from its own.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "compile/emit.h"
#include "compile/storage.h"
#include "isa/remote_dependencies.h"

namespace tessera::compile {

// Names in all tasks the memories that they read and write, and cuts loads from several of them.
// `memory_of_core` as in isa/card_program.h. A storage lies in one memory as a whole if some task could not
// be cut so, or into so many small loads that they would take longer to begin than all of it to move.
// Tasks have no dependencies yet; storages lie apart.
void place_in_memories(const ChipConfig& chip, const StoragePlan& storages,
                       const Addresses& addresses, const std::vector<std::uint8_t>& memory_of_core,
                       std::vector<EmittedTasks>& cores);

// Whether rows of a load may be loaded by a task of their own: their places in the buffer have addresses.
bool may_cut_rows(const isa::TransferTask& load);

// Gives loads of several cores that make the same requests of the same memory, of one layer and in
// orders that fit together, numbers of shares from 1 on; returns how many. Memories are named. Nobody
// waits for ever: shares are met in one order by all cores, and what their tasks wait for else comes
// earlier in that order.
std::uint32_t share_loads(const std::vector<std::uint8_t>& memory_of_core,
                          std::vector<isa::CoreTasks>& cores);

}  // namespace tessera::compile

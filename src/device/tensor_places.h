// Where the tasks of a program find the tensors of a run: where the device's memory has them, or in
// copies.
#pragma once

#include <span>
#include <vector>

#include "arch/chip_config.h"
#include "device/network_dram.h"
#include "isa/program.h"

namespace tessera::device {

std::int64_t slot_bytes(const isa::TensorSlot& slot);

// Whether every access of the program to region `base` lies in one of the slots, which are apart:
// then each tensor may lie anywhere.
bool slots_can_move(const isa::Program& program, const ChipConfig& chip, isa::BaseIndex base,
                    const std::vector<isa::TensorSlot>& slots);

// Puts tensor i where the tasks look for it: by telling them where it is, or by copying it.
enum class TensorRole { kInput, kOutput };
Status place_tensors(NetworkDram& dram, const std::vector<isa::TensorSlot>& slots,
                     std::span<const std::span<std::byte>> views, bool in_place, TensorRole role);

}  // namespace tessera::device

// What is done with an untrusted program that has passed the checks: its layers are read out of it
// and written as software in every language; where it is small it also runs, on all devices with
// the same bits.
#pragma once

#include "arch/chip_config.h"
#include "isa/program.h"

namespace tessera::fuzz {

enum class ForeignOutcome { kRefused, kNotLifted, kLifted, kRan };

ForeignOutcome foreign_program(const isa::Program& program, const ChipConfig& chip);

}  // namespace tessera::fuzz

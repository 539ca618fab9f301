// A run on several cores as a picture of its cards: groups with their memories and cores, ring links and
// network, each with its bytes and how busy it was.
#pragma once

#include <cstdint>
#include <string>

#include "report/card_use.h"

namespace tessera::report {

// An svg element, which needs nothing but the colours of the report's page (--busy, --dep, --mem, --idle,
// --line). The bar of a core: its array works, waits for data, waits for memory, or has nothing to do.
// Wires are the thicker the busier they are.
std::string card_picture(const CardUse& use, std::int64_t cycles);

}  // namespace tessera::report

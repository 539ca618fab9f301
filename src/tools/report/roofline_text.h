// What the report and the roofline suite both print.
#pragma once

#include <string>

#include "report/roofline.h"

namespace tessera::tools {

// What most of a layer's cycles went to: array, planar, DRAM, dependency or start-up.
const char* bound_name(const report::LayerTime& time);
// The same of its cycles without a neural step; "-" if there are none.
const char* idle_cause_name(const report::LayerTime& time);
double idle_share(const report::LayerTime& time);
// Three lines: the share of the roofline, and where the rest went.
std::string roofline_text(const report::RooflineReport& report, std::int64_t cycles);

}  // namespace tessera::tools

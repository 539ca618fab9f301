#include "tools/report/roofline_text.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using report::Cause;
using report::LayerTime;

const char* public_name(Cause cause) {
  return cause == Cause::kWeights || cause == Cause::kTransfers ? "DRAM" : cause_name(cause);
}

}  // namespace

const char* bound_name(const LayerTime& time) {
  return time.total() > 0 ? public_name(time.bound()) : "-";
}

const char* idle_cause_name(const LayerTime& time) {
  return time.idle() > 0 ? public_name(time.idle_cause()) : "-";
}

double idle_share(const LayerTime& time) {
  return time.total() > 0 ? static_cast<double>(time.idle()) / static_cast<double>(time.total())
                          : 0;
}

std::string roofline_text(const report::RooflineReport& report, std::int64_t cycles) {
  const report::Distance& distance = report.distance;
  const auto part = [&](double value) { return percent(value / static_cast<double>(cycles)); };
  return fmt::format(
      "roofline {} cycles ({} MACs, {} compulsory bytes): {} reached\n"
      "beyond it, of the run: empty array cells {}, planar {}, weights {}, transfers {},\n"
      "  dependency {}, start-up {}, ports {}; saved by overlap {}\n",
      with_separators(std::llround(report.roofline_cycles)),
      with_separators(report.total_bound.macs), with_separators(report.total_bound.bytes),
      percent(report.share), part(distance[Cause::kArray]), part(distance[Cause::kPlanar]),
      part(distance[Cause::kWeights]), part(distance[Cause::kTransfers]),
      part(distance[Cause::kDependency]), part(distance[Cause::kStartUp]),
      part(distance[Cause::kPorts]), part(distance.overlap));
}

}  // namespace tessera::tools

#include "report/roofline.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "arch/dram_config.h"
#include "graph/line_filters.h"

namespace tessera::report {
namespace {

std::int64_t bytes_of(const graph::TensorInfo& tensor) {
  return element_count(tensor.dims) * format_bytes(tensor.format);
}

// Constants, network inputs and outputs that each node is charged with.
std::vector<std::int64_t> compulsory_bytes(const graph::Graph& graph) {
  std::vector<std::int64_t> bytes(graph.nodes.size(), 0);
  Table<graph::TensorId, bool> open(graph.tensors.size(), false);  // not charged yet
  const auto charge = [&](graph::TensorId id, std::int64_t& to) {
    if (open[id]) to += bytes_of(graph.tensor(id));
    open[id] = false;
  };
  std::set<std::pair<std::size_t, std::int64_t>> filters;
  const auto charge_filters = [&](const graph::Node& node, std::int64_t& to) {
    if (node.kind() != graph::NodeKind::kConv || !open[node.inputs[1]]) return;
    if (node.as<graph::ConvAttributes>().channel_wise) return;
    const graph::TensorInfo& weights = graph.tensor(node.inputs[1]);
    const auto terms =
        graph::filter_terms(weights.constant.get(), graph.tensor(node.outputs[0]).dims);
    if (!terms) return;
    open[node.inputs[1]] = false;
    // Several layers may have the same filters in other places.
    if (!filters.insert({terms->content, terms->distinct}).second) return;
    to += terms->distinct * format_bytes(weights.format);
  };
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = graph.tensors[i].constant != nullptr;
  for (const graph::TensorId id : graph.inputs) open[id] = true;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind() == graph::NodeKind::kHostStep) continue;
    charge_filters(graph.nodes[i], bytes[i]);
    for (const graph::TensorId id : graph.nodes[i].inputs) charge(id, bytes[i]);
  }
  for (const graph::TensorId id : graph.outputs) open[id] = true;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const graph::TensorId id : graph.nodes[i].outputs) charge(id, bytes[i]);
  }
  return bytes;
}

}  // namespace

Distance distance(const LayerTime& time, const LayerBound& bound) {
  constexpr std::array kPaid = {Cause::kArray,  Cause::kWeights,    Cause::kTransfers,
                                Cause::kPlanar, Cause::kDependency, Cause::kPorts,
                                Cause::kStartUp};
  static_assert(kPaid.size() == kCauseCount);
  Distance result;
  double left = bound.cycles();
  for (const Cause cause : kPaid) {
    const auto spent = static_cast<double>(time[cause]);
    result.losses[cause] = std::max(0.0, spent - left);
    left = std::max(0.0, left - spent);
  }
  result.overlap = left;
  return result;
}

std::vector<LayerBound> roofline(const package::Package& package, const ChipConfig& chip) {
  const graph::Graph& graph = *package.graph;
  const std::vector<std::int64_t> bytes = compulsory_bytes(graph);
  std::map<std::string, std::size_t> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) nodes[graph.nodes[i].name] = i;
  const auto peak = static_cast<double>(chip.neural.rows * chip.neural.columns * chip.neural.count);
  const double dram = dram_sustained_bytes_per_cycle(chip);
  std::vector<LayerBound> bounds;
  for (const isa::LayerHint& hint : package.hints) {
    LayerBound bound;
    bound.macs = hint.macs;
    if (const auto found = nodes.find(hint.name); found != nodes.end()) {
      bound.bytes = bytes[found->second];
      nodes.erase(found);  // a layer of its own, not every one of its name
    }
    bound.array_cycles = static_cast<double>(bound.macs) / peak;
    bound.dram_cycles = static_cast<double>(bound.bytes) / dram;
    bounds.push_back(bound);
  }
  return bounds;
}

RooflineReport roofline_report(const Network& network, const isa::Program& program,
                               const RunResult& run) {
  RooflineReport report;
  report.times = layer_times(program, run);
  report.bounds = roofline(network.state().package, network.state().chip);
  for (std::size_t i = 0; i < report.bounds.size(); ++i) {
    const LayerBound& bound = report.bounds[i];
    report.total_bound.macs += bound.macs;
    report.total_bound.bytes += bound.bytes;
    report.total_bound.array_cycles += bound.array_cycles;
    report.total_bound.dram_cycles += bound.dram_cycles;
    report.roofline_cycles += bound.cycles();
    report.total.dram_bytes += report.times[i].dram_bytes;
    const Distance here = distance(report.times[i], bound);
    report.distance.overlap += here.overlap;
    for (std::size_t cause = 0; cause < report.total.cycles.size(); ++cause) {
      report.total.cycles[cause] += report.times[i].cycles[cause];
      report.distance.losses[cause] += here.losses[cause];
    }
  }
  if (run.cycles > 0) report.share = report.roofline_cycles / static_cast<double>(run.cycles);
  return report;
}

}  // namespace tessera::report

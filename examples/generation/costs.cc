#include "costs.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace generation {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::int64_t busy_of(const Costs& costs, const std::string& kind) {
  const auto found = costs.busy.find(kind);
  return found == costs.busy.end() ? 0 : found->second;
}

std::int64_t time_of(const Costs& costs) {
  return costs.cycles + costs.host_cycles + costs.transfer_cycles;
}

// The part of a run that takes longest; within the processor, what is busy longest.
std::string limit_of(const Costs& costs) {
  if (costs.host_cycles > std::max(costs.cycles, costs.transfer_cycles)) return "steps on the host";
  if (costs.transfer_cycles > costs.cycles) return "transfers between host and processor";
  const std::array<std::pair<std::int64_t, const char*>, 3> parts = {
      {{busy_of(costs, "dram"), "memory"},
       {busy_of(costs, "neural"), "arithmetic of matrix products"},
       {busy_of(costs, "planar"), "arithmetic of vectors"}}};
  return std::max_element(parts.begin(), parts.end())->second;
}

}  // namespace

void Costs::add(const tessera::RunResult& result, double of_seconds) {
  ++runs;
  seconds += of_seconds;
  clock_hertz = result.clock_hertz;
  cycles += result.cycles;
  host_cycles += result.host_cycles;
  transfer_cycles += result.transfer_cycles;
  for (const tessera::EngineUse& engine : result.engines) {
    busy[engine.kind] += engine.busy;
    multiplications += engine.macs;
    // The engines that move count them; the memory itself does once more.
    if (engine.kind == "dram") continue;
    memory_bytes += engine.dram_bytes_read + engine.dram_bytes_written;
  }
}

void print_costs(const std::string& name, const std::string& unit, const Costs& costs) {
  if (costs.runs == 0) return;
  const auto runs = static_cast<double>(costs.runs);
  std::printf("%s: %lld %ss in %.3f s of this machine, %.1f a second\n", name.c_str(),
              static_cast<long long>(costs.runs), unit.c_str(), costs.seconds,
              costs.seconds > 0 ? runs / costs.seconds : 0.0);
  if (costs.clock_hertz == 0) return;
  const auto clock = static_cast<double>(costs.clock_hertz);
  const auto time = static_cast<double>(time_of(costs));
  std::printf("  processor at %.0f MHz: %.1f %ss a second, %.3f ms each\n", clock / 1e6,
              runs * clock / time, unit.c_str(), 1e3 * time / clock / runs);
  std::printf("  a %s: %.0f cycles, %.0f bytes of memory, %.0f multiplications\n", unit.c_str(),
              static_cast<double>(costs.cycles) / runs,
              static_cast<double>(costs.memory_bytes) / runs,
              static_cast<double>(costs.multiplications) / runs);
  std::printf("  time: processor %.1f %%, host steps %.1f %%, transfers %.1f %%\n",
              100 * share(costs.cycles, time_of(costs)),
              100 * share(costs.host_cycles, time_of(costs)),
              100 * share(costs.transfer_cycles, time_of(costs)));
  std::printf(
      "  of the processor's cycles busy: memory %.1f %%, products %.1f %%, vectors %.1f %%\n",
      100 * share(busy_of(costs, "dram"), costs.cycles),
      100 * share(busy_of(costs, "neural"), costs.cycles),
      100 * share(busy_of(costs, "planar"), costs.cycles));
  std::printf("  limited by: %s\n", limit_of(costs).c_str());
}

nlohmann::ordered_json costs_json(const Costs& costs) {
  nlohmann::ordered_json json = {{"runs", costs.runs}, {"seconds", costs.seconds}};
  if (costs.clock_hertz == 0) return json;
  json["clock_hertz"] = costs.clock_hertz;
  json["cycles"] = costs.cycles;
  json["host_cycles"] = costs.host_cycles;
  json["transfer_cycles"] = costs.transfer_cycles;
  json["memory_bytes"] = costs.memory_bytes;
  json["multiplications"] = costs.multiplications;
  json["busy"] = costs.busy;
  json["limited_by"] = limit_of(costs);
  return json;
}

}  // namespace generation

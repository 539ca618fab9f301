#include "tools/workloads/run_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "arch/architecture_file.h"
#include "arch/card_placement.h"
#include "arch/dram_config.h"
#include "base/check.h"
#include "card/card.h"
#include "compile/image_cores.h"
#include "isa/verify.h"
#include "link/link.h"
#include "network/card_program.h"
#include "network/network.h"
#include "tools/workloads/zoo_graph.h"
#include "zoo/zoo.h"

namespace tessera::tools {
namespace {

using repro::CardCase;
using repro::CardRun;
using GraphPointer = std::shared_ptr<const graph::Graph>;

ChipConfig chip_of(ChipConfig chip, const CardCase& one) {
  chip.card.features = one.features;
  chip.card.network.gigabits_per_second = one.gigabits_per_second;
  return chip;
}

// Of one team, whose cores are the first of the placement.
Result<isa::CardProgram> program_of_team(const CardCase& one, const GraphPointer& graph,
                                         const ChipConfig& chip, CardPlacement placement,
                                         int team) {
  if (team == 1 && !one.through_memory) {
    TESSERA_TRY(const Network network, network::network_from_graph(graph, chip, {}));
    TESSERA_TRY(isa::Program program, link::link(network.state().package, chip));
    return isa::CardProgram{{std::move(program)}, {}};
  }
  placement.core.resize(static_cast<std::size_t>(team));
  placement.memory.resize(static_cast<std::size_t>(team));
  NetworkState network;
  network.path = one.network;
  network.chip = chip;
  network.package.graph = graph;
  TESSERA_TRY(compile::SharedProgram shared,
              network::program_for_cores(network, placement, CoreSplit::kAuto));
  return std::move(shared.card);
}

Result<isa::CardProgram> program_of(const CardCase& one, const GraphPointer& graph,
                                    const ChipConfig& chip, const CardPlacement& placement) {
  const int team = one.team == 0 ? one.cores : one.team;
  TESSERA_CHECK(team > 0 && one.cores % team == 0, "teams of {} of {} cores", team, one.cores);
  TESSERA_TRY(isa::CardProgram program, program_of_team(one, graph, chip, placement, team));
  if (team == one.cores) return program;
  std::vector<std::uint8_t> memories = placement.memory;
  if (one.features.forward == 0) std::ranges::fill(memories, std::uint8_t{0});
  TESSERA_TRY(isa::CardProgram all,
              compile::repeat_for_images(program, memories, one.features.merge != 0));
  TESSERA_RETURN_IF_ERROR(isa::verify_card_program(all, chip));
  return all;
}

void add(const card::CardStatistics& segment, CardRun& run) {
  run.cycles += segment.cycles;
  for (const card::EngineStatistics& row : segment.shared) {
    if (row.kind == "dram") run.dram_bytes += row.bytes_read + row.bytes_written;
    if (row.kind == "ring") run.ring_bytes += row.wire_bytes;
    if (row.kind == "network_out") run.network_bytes += row.wire_bytes;
  }
}

// Busy cycles of all segments, made shares at the end.
struct Busy {
  Cycles arrays = 0, planar = 0, dram = 0;
  std::map<std::string, Cycles> ports;  // of the network, by name
  std::int64_t channels = 0;
};

void add(const card::CardStatistics& segment, Busy& busy) {
  for (const card::RunStatistics& core : segment.cores) {
    for (const card::EngineStatistics& row : core.engines) {
      if (row.kind == "neural") busy.arrays += row.busy;
      if (row.kind == "planar") busy.planar += row.busy;
    }
  }
  busy.channels = 0;
  for (const card::EngineStatistics& row : segment.shared) {
    if (row.kind == "dram") {
      busy.dram += row.busy;
      ++busy.channels;
    }
    if (row.kind.starts_with("network")) busy.ports[row.name] += row.busy;
  }
}

void add_bounds(const CardCase& one, const ChipConfig& chip, const isa::Program& first,
                const zoo::Summary& summary, CardRun& run) {
  const double arrays =
      static_cast<double>(one.cores) * chip.neural.rows * chip.neural.columns * chip.neural.count;
  run.arithmetic_cycles = static_cast<double>(summary.macs * run.images) / arrays;
  const std::int64_t weights =
      summary.parameters * (one.eight_bits ? 1 : format_bytes(chip.formats.vector));
  run.memory_cycles = static_cast<double>(weights + first.input_bytes + first.output_bytes) /
                      run.dram_bytes_per_cycle;
}

Result<CardRun> run_program(const CardCase& one, const ChipConfig& chip,
                            const CardPlacement& placement, const isa::CardProgram& program,
                            const zoo::Summary& summary) {
  TESSERA_TRY(const auto card, card::Card::create(chip, placement));
  TESSERA_RETURN_IF_ERROR(card->load(program));
  CardRun run;
  run.images = one.team == 0 ? 1 : one.cores / one.team;
  run.clock_hertz = chip.clock_hertz;
  Busy busy;
  for (std::size_t segment = 0; segment < program.cores[0].segments.size(); ++segment) {
    TESSERA_TRY(const card::CardStatistics part, card->run_segment(segment, {.timing_only = true}));
    add(part, run);
    add(part, busy);
  }
  const auto cycles = static_cast<double>(run.cycles);
  run.array_share = static_cast<double>(busy.arrays) / (cycles * one.cores * chip.neural.count);
  run.planar_share = static_cast<double>(busy.planar) / (cycles * one.cores * chip.planar.count);
  run.dram_share = static_cast<double>(busy.dram) / (cycles * static_cast<double>(busy.channels));
  for (const auto& [name, port] : busy.ports) {
    run.network_share = std::max(run.network_share, static_cast<double>(port) / cycles);
  }
  run.dram_bytes_per_cycle =
      dram_sustained_bytes_per_cycle(chip) * chip.card.groups * placement.cards;
  add_bounds(one, chip, program.cores[0], summary, run);
  return run;
}

// Cases with one program.
struct Group {
  std::vector<std::size_t> cases;
};

// What all threads have in common.
struct Work {
  std::span<const CardCase> cases;
  const ChipConfig& cloud;
  const ProgressCallback& progress;
  std::vector<std::optional<CardRun>> runs;
  std::mutex lock;  // of what follows
  std::size_t done = 0;
  std::optional<Error> error;
};

Status run_group(const Group& group, const GraphPointer& graph, const zoo::Summary& summary,
                 Work& work) {
  const CardCase& first = work.cases[group.cases.front()];
  const ChipConfig chip = chip_of(work.cloud, first);
  TESSERA_TRY(const CardPlacement placement, spread_cores(chip, first.cards, first.cores));
  TESSERA_TRY(const isa::CardProgram program, program_of(first, graph, chip, placement));
  for (const std::size_t at : group.cases) {
    const CardCase& one = work.cases[at];
    TESSERA_TRY(work.runs[at],
                run_program(one, chip_of(work.cloud, one), placement, program, summary));
    const std::lock_guard<std::mutex> guard(work.lock);
    ++work.done;
    if (work.progress) {
      work.progress(fmt::format("{:<13}", one.network),
                    static_cast<double>(work.done) / static_cast<double>(work.cases.size()));
    }
  }
  return {};
}

// The groups of one network, on several threads; the first error ends it.
void run_groups(const std::vector<Group>& groups, const GraphPointer& graph,
                const zoo::Summary& summary, Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < groups.size(); i = next++) {
      const Status status = run_group(groups[i], graph, summary, work);
      if (status.ok()) continue;
      const CardCase& first = work.cases[groups[i].cases.front()];
      const std::lock_guard<std::mutex> guard(work.lock);
      if (!work.error) {
        work.error = status.error().with_context(
            fmt::format("'{}' on {} cores of {} cards", first.network, first.cores, first.cards));
      }
      next = groups.size();
    }
  };
  const std::size_t most = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min(most, groups.size()); ++i) threads.emplace_back(take);
  take();
  for (std::thread& thread : threads) thread.join();
}

// Those of one graph: of a network in 8 or 16 bits.
std::vector<Group> groups_of(std::span<const CardCase> cases, const std::string& network,
                             bool eight_bits) {
  std::map<std::string, std::size_t> places;
  std::vector<Group> groups;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].network != network || cases[i].eight_bits != eight_bits) continue;
    const auto [at, added] = places.try_emplace(cases[i].program_key(), groups.size());
    if (added) groups.emplace_back();
    groups[at->second].cases.push_back(i);
  }
  // Large ones first, so that no thread is left with one at the end.
  std::ranges::stable_sort(groups, [&](const Group& a, const Group& b) {
    return cases[a.cases.front()].cores > cases[b.cases.front()].cores;
  });
  return groups;
}

}  // namespace

Result<std::vector<CardRun>> run_card_cases(std::span<const CardCase> cases,
                                            const ProgressCallback& progress) {
  TESSERA_TRY(const ChipConfig cloud, load_chip_config("cloud16"));
  std::vector<std::string> networks;
  for (const CardCase& one : cases) {
    if (std::ranges::find(networks, one.network) == networks.end()) {
      networks.push_back(one.network);
      TESSERA_TRY(const zoo::ZooNetwork found, zoo::find_network(one.network));
      (void)found;
    }
  }
  Work work{
      .cases = cases, .cloud = cloud, .progress = progress, .runs = {}, .lock = {}, .error = {}};
  work.runs.resize(cases.size());
  LoadOptions options;
  options.require_full_offload = true;
  for (const std::string& network : networks) {
    TESSERA_TRY(const zoo::ZooNetwork of_zoo, zoo::find_network(network));
    for (const bool eight_bits : {true, false}) {
      const std::vector<Group> groups = groups_of(cases, network, eight_bits);
      if (groups.empty()) continue;
      TESSERA_TRY(const GraphPointer graph,
                  zoo_graph(network, cloud, options, eight_bits ? 8 : 16));
      run_groups(groups, graph, zoo::summarise(of_zoo), work);
      if (work.error) return *work.error;
    }
  }
  std::vector<CardRun> runs;
  for (std::optional<CardRun>& run : work.runs) runs.push_back(*run);
  return runs;
}

}  // namespace tessera::tools

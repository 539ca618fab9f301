// How long linking takes for the cores that a tenant holds: for one core from the package's frames; for several
// from its templates, or, where it has none for so many, from its graph and kernels. The package is in memory, and
// kernels were laid out before, as they are when a tenant's cores change.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "arch/architecture_file.h"
#include "arch/card_placement.h"
#include "base/check.h"
#include "compile/performance_model.h"
#include "compile/split_choice.h"
#include "isa/verify.h"
#include "link/link.h"
#include "link/templates.h"
#include "network/card_program.h"
#include "network/network.h"
#include "network/prepared_cores.h"
#include "tools/workloads/zoo_graph.h"

namespace tessera {
namespace {

Network network_of(const std::string& name) {
  const ChipConfig chip = *load_chip_config("cloud16");
  const auto graph = tools::zoo_graph(name, chip, {});
  TESSERA_CHECK(graph.ok(), "{}", graph.error().to_string());
  auto network = network::network_from_graph(*graph, chip, {});
  TESSERA_CHECK(network.ok(), "{}", network.error().to_string());
  return std::move(*network);
}

void link_one_core(benchmark::State& state, const std::string& name) {
  const Network network = network_of(name);
  for (auto _ : state) {
    const auto program = link::link(network.state().package, network.state().chip);
    TESSERA_CHECK(program.ok(), "{}", program.error().to_string());
    benchmark::DoNotOptimize(program->stream.data());
  }
}

void link_cores(benchmark::State& state, const std::string& name) {
  const Network network = network_of(name);
  const auto cores = static_cast<int>(state.range(0));
  const CardPlacement placement = *spread_cores(network.state().chip, 1, cores);
  for (auto _ : state) {
    const auto program = network::program_for_cores(network.state(), placement, CoreSplit::kAuto);
    TESSERA_CHECK(program.ok(), "{}", program.error().to_string());
    benchmark::DoNotOptimize(program->card.cores.data());
  }
}

// The network with what is prepared for so many cores.
Network prepared_network_of(const std::string& name, int cores) {
  const std::vector<network::CoreCount> counts = {{cores, 1}};
  auto network = network::prepare_cores(network_of(name), counts, {});
  TESSERA_CHECK(network.ok(), "{}", network.error().to_string());
  return std::move(*network);
}

// The templates of a package filled in: streams and hints of all cores, numbered and with their dependencies.
void link_prepared(benchmark::State& state, const std::string& name) {
  const auto cores = static_cast<int>(state.range(0));
  const Network network = prepared_network_of(name, cores);
  const isa::PreparedPrograms& all = *network.state().package.prepared;
  const CardPlacement placement = *spread_cores(network.state().chip, 1, cores);
  const isa::PreparedFor key =
      network::key_of_placement(network.state().chip, placement, CoreSplit::kAuto);
  for (auto _ : state) {
    const auto prepared = all.find(key);
    const link::FilledCores filled = link::fill_cores(all.templates, *prepared);
    benchmark::DoNotOptimize(filled.words.get());
  }
  state.counters["stream_bytes"] = static_cast<double>(all.find(key)->stream_bytes());
  state.counters["templates"] = static_cast<double>(all.templates.templates.size());
  state.counters["template_bytes"] = static_cast<double>(all.templates.bytes());
  state.counters["value_bytes"] = static_cast<double>(all.find(key)->value_bytes());
  state.counters["kernel_bytes"] = static_cast<double>(all.kernels.size());
}

// What `tessera link --bandwidth` does of a package in memory: the shortest path over the splits of all layers at that
// part of the memories' bandwidth, and the templates filled in.
void link_by_path(benchmark::State& state, const std::string& name) {
  const auto cores = static_cast<int>(state.range(0));
  const double bandwidth = static_cast<double>(state.range(1)) / 100;
  const Network network = prepared_network_of(name, cores);
  const isa::PreparedPrograms& all = *network.state().package.prepared;
  const CardPlacement placement = *spread_cores(network.state().chip, 1, cores);
  const isa::PreparedFor key =
      network::key_of_placement(network.state().chip, placement, CoreSplit::kAuto);
  double shortest = 0, taken = 0;
  for (auto _ : state) {
    const auto prepared = all.find(key);
    const compile::ShortestPath path = compile::shortest_path(*prepared->model, bandwidth);
    shortest = path.cycles;
    taken = isa::modelled_path(*prepared->model, bandwidth);
    const link::FilledCores filled = link::fill_cores(all.templates, *prepared);
    benchmark::DoNotOptimize(filled.words.get());
  }
  state.counters["layers"] = static_cast<double>(all.find(key)->model->layers.size());
  state.counters["shortest_path_cycles"] = shortest;
  state.counters["prepared_path_cycles"] = taken;
}

// The same with tasks decoded, weights in place and everything proved: what a device takes.
void link_prepared_proved(benchmark::State& state, const std::string& name) {
  const auto cores = static_cast<int>(state.range(0));
  const Network network = prepared_network_of(name, cores);
  const CardPlacement placement = *spread_cores(network.state().chip, 1, cores);
  for (auto _ : state) {
    const auto program = network::program_for_cores(network.state(), placement, CoreSplit::kAuto);
    TESSERA_CHECK(program.ok(), "{}", program.error().to_string());
    benchmark::DoNotOptimize(program->card.cores.data());
  }
}

// Of one core's program the proof alone, which every link of one makes.
void verify_one_core(benchmark::State& state, const std::string& name) {
  const Network network = network_of(name);
  const auto program = link::link(network.state().package, network.state().chip);
  TESSERA_CHECK(program.ok(), "{}", program.error().to_string());
  for (auto _ : state) {
    const Status proved = isa::verify_program(*program, network.state().chip);
    TESSERA_CHECK(proved.ok(), "{}", proved.error().to_string());
  }
}

// Of link_cores() the proof alone.
void verify_cores(benchmark::State& state, const std::string& name) {
  const Network network = network_of(name);
  const auto cores = static_cast<int>(state.range(0));
  const CardPlacement placement = *spread_cores(network.state().chip, 1, cores);
  const auto program = network::program_for_cores(network.state(), placement, CoreSplit::kAuto);
  TESSERA_CHECK(program.ok(), "{}", program.error().to_string());
  for (auto _ : state) {
    const Status proved = isa::verify_card_program(program->card, network.state().chip);
    TESSERA_CHECK(proved.ok(), "{}", proved.error().to_string());
  }
}

BENCHMARK_CAPTURE(link_one_core, resnet50, "resnet50")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(verify_one_core, resnet50, "resnet50")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(link_cores, mobilenet_v1, "mobilenet_v1")
    ->Arg(4)
    ->Arg(16)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(link_cores, resnet50, "resnet50")->Arg(4)->Arg(16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(link_prepared, resnet50, "resnet50")
    ->Arg(4)
    ->Arg(16)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(link_prepared, mobilenet_v1, "mobilenet_v1")
    ->Arg(16)
    ->Unit(benchmark::kMillisecond);
// Cores, percent of the bandwidth.
BENCHMARK_CAPTURE(link_by_path, resnet50, "resnet50")
    ->Args({4, 100})
    ->Args({16, 100})
    ->Args({16, 25})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(link_by_path, mobilenet_v1, "mobilenet_v1")
    ->Args({16, 100})
    ->Args({16, 25})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(link_by_path, googlenet, "googlenet")
    ->Args({16, 100})
    ->Args({16, 25})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(link_prepared_proved, resnet50, "resnet50")
    ->Arg(4)
    ->Arg(16)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(verify_cores, resnet50, "resnet50")
    ->Arg(4)
    ->Arg(16)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera

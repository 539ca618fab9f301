#include <fmt/format.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "base/table.h"
#include "card/core.h"
#include "device/backends.h"
#include "device/function_core.h"
#include "device/host_steps.h"
#include "device/segment_use.h"
#include "device/tensor_places.h"
#include "device/value_notes.h"
#include "graph/node_graph.h"
#include "host/executor.h"
#include "isa/verify.h"
#include "isa/verify_networks.h"
#include "link/link.h"
#include "link/relocate.h"

namespace tessera::device {
namespace {

// A network, or a layer of one, placed on the cores. Cores refer to the program.
class LoadedProgram : public Loaded {
 public:
  ~LoadedProgram() override {
    for (std::size_t i = 0; i < placed.size(); ++i) shared[i]->remove(placed[i]);
  }
  std::shared_ptr<const graph::Graph> graph;  // of a program null, unless the host computes
  std::optional<graph::NoteTable> notes;      // of the graph
  isa::Program program;                       // its weights are gone once the device has them
  OpenSteps host_steps;
  std::vector<std::unique_ptr<card::Core>> cores;         // one a kernel; none of a function
  std::vector<std::shared_ptr<FunctionCore>> shared;      // of a function: one a kernel, shared
  std::vector<FunctionCore::Placed> placed;               // with others, and where it is on each
  Table<int, std::unique_ptr<host::Executor>> executors;  // one a kernel, where the host computes
  // Whether tasks find the tensors where the device's memory has them, or in copies.
  bool inputs_in_place = false, outputs_in_place = false;

  std::mutex timing_mutex;                  // around `timing`
  std::shared_ptr<const RunResult> timing;  // null: not simulated yet
};

class SimBackend : public Backend {
 public:
  SimBackend(const DeviceConfig& options, FunctionPlace place)
      : options_(options), chip_(*options.chip), place_(std::move(place)) {
    properties_ = {.name = options.name.empty() ? "sim" : options.name,
                   .kind = "sim",
                   .kernels = options.kernels,
                   .clock_hertz = chip_.clock_hertz,
                   .memory = options.memory.value > 0 ? options.memory
                                                      : function_memory(chip_, place_.functions),
                   .functions = place_.functions,
                   .shared_memory = false,
                   .values = options.values != Values::kNone};
  }

  const Properties& properties() const override { return properties_; }

  Result<LoadedSet> load(const std::shared_ptr<const NetworkState>& network) override {
    LoadedSet set;
    TESSERA_TRY(auto loaded, network->program != nullptr ? prepare_program(*network)
                                                         : prepare(network->package));
    set.region = loaded->program.weights;
    LoadedLayer whole;
    whole.weight_bytes = Bytes{std::ssize(loaded->program.weights)};
    set.entries.push_back({std::move(loaded), std::move(whole)});
    return set;
  }

  Result<LoadedSet> load_layers(const std::shared_ptr<const NetworkState>& network) override {
    LoadedSet set;
    TESSERA_TRY(const auto dense, network::dense_graph_of(*network));
    for (const graph::Node& node : dense->nodes) {
      graph::NodeGraph layer = graph::node_graph(*dense, node);
      const auto compiled = network::network_from_graph(
          std::make_shared<const graph::Graph>(std::move(layer.graph)), chip_,
          {.region_share = 1.0 / place_.functions}, network::Edges::kDense);
      if (!compiled.ok()) {
        return compiled.error().with_context(fmt::format("layer '{}' by itself", node.name));
      }
      const Network& single = *compiled;
      TESSERA_TRY(auto loaded, prepare(single.state().package));
      set.owned_region.resize(
          static_cast<std::size_t>(round_up(std::ssize(set.owned_region), kWeightAlignment)));
      LoadedLayer description{.id = {},
                              .name = node.name,
                              .inputs = std::move(layer.inputs),
                              .outputs = std::move(layer.outputs),
                              .weight_offset = Bytes{std::ssize(set.owned_region)},
                              .weight_bytes = Bytes{std::ssize(loaded->program.weights)}};
      set.owned_region.insert(set.owned_region.end(), loaded->program.weights.begin(),
                              loaded->program.weights.end());
      set.entries.push_back({std::move(loaded), std::move(description)});
    }
    set.region = set.owned_region;
    return set;
  }

  Status place(LoadedSet& set, std::span<const std::byte> region) override {
    for (LoadedSet::Entry& entry : set.entries) {
      auto& loaded = static_cast<LoadedProgram&>(*entry.loaded);
      const auto weights = region.subspan(static_cast<std::size_t>(entry.layer.weight_offset.value),
                                          static_cast<std::size_t>(entry.layer.weight_bytes.value));
      for (const auto& core : loaded.cores) {
        TESSERA_RETURN_IF_ERROR(core->load(loaded.program, weights));
      }
      for (const auto& core : loaded.shared) {
        TESSERA_TRY(const auto placed, core->add(place_.function, loaded.program, weights));
        loaded.placed.push_back(placed);
      }
      loaded.program.weights = {};
      if (!reuses_timing()) continue;
      TESSERA_TRY(RunResult result, of_function()
                                        ? loaded.shared[0]->time_alone(function_run(loaded, 0))
                                        : simulate(loaded, *loaded.cores[0], nullptr));
      loaded.timing = std::make_shared<const RunResult>(std::move(result));
      loaded.expected_cycles = loaded.timing->cycles;
    }
    set.region = {};
    return {};
  }

  bool waits_for_core() const override { return of_function(); }

  RunOutcome run(const ActivityObserver::Run& run, Loaded& loaded, const RunViews& views,
                 RunTurn& turn) override {
    auto& program = static_cast<LoadedProgram&>(loaded);
    const auto kernel = static_cast<std::size_t>(run.kernel);
    if (of_function()) return run_on_shared(program, kernel, views, turn);
    RunOutcome outcome;
    if (options_.values == Values::kSimulated) {
      auto result = simulate(program, *program.cores[kernel], &views);
      if (!result.ok()) {
        outcome.status = result.error();
        return outcome;
      }
      outcome.details = std::make_shared<const RunResult>(std::move(*result));
    } else {
      outcome = timing(program, *program.cores[kernel]);
      if (!outcome.status.ok()) return outcome;
      if (options_.values == Values::kHost) {
        compute(program, kernel, views, outcome);
      }
    }
    outcome.cycles = outcome.details->cycles;
    outcome.clock_hertz = chip_.clock_hertz;
    outcome.status_flags = outcome.details->status_flags;
    return outcome;
  }

 private:
  static constexpr std::int64_t kWeightAlignment = 64;

  // Whether it is a virtual function: its cores are others' as well.
  bool of_function() const { return place_.functions > 1; }
  std::optional<isa::CoreRegion> region() const {
    if (!of_function()) return std::nullopt;
    return place_.cores[0]->region(place_.function);
  }

  // The values of a run whose cycles are known.
  static void compute(const LoadedProgram& loaded, std::size_t kernel, const RunViews& views,
                      RunOutcome& outcome) {
    host::Executor& executor = *loaded.executors[kernel];
    outcome.status = executor.run_on(views.inputs, views.outputs);
    if (!outcome.status.ok()) return;
    outcome.value_notes =
        value_notes(*loaded.graph, *loaded.notes, executor.values(), views.inputs);
  }

  FunctionCore::Run function_run(const LoadedProgram& loaded, std::size_t kernel) const {
    return {.function = place_.function,
            .placed = loaded.placed[kernel],
            .program = &loaded.program,
            .host_steps = &loaded.host_steps,
            .inputs_in_place = loaded.inputs_in_place,
            .outputs_in_place = loaded.outputs_in_place,
            .alone = loaded.timing};
  }

  RunOutcome run_on_shared(const LoadedProgram& loaded, std::size_t kernel, const RunViews& views,
                           RunTurn& turn) const {
    FunctionCore::Run run = function_run(loaded, kernel);
    if (options_.values == Values::kSimulated) run.views = &views;
    RunOutcome outcome = loaded.shared[kernel]->run(run, turn);
    if (options_.values != Values::kHost || outcome.stopped || !outcome.status.ok()) return outcome;
    compute(loaded, kernel, views, outcome);
    outcome.ready = std::chrono::steady_clock::now();
    return outcome;
  }

  Result<std::unique_ptr<LoadedProgram>> prepare(const package::Package& package) {
    auto loaded = std::make_unique<LoadedProgram>();
    loaded->graph = package.graph;
    loaded->notes.emplace(*loaded->graph);
    loaded->name = package.graph->name;
    for (const isa::Frame& frame : package.frames) {
      loaded->expected_cycles += frame.estimated_cycles;
    }
    TESSERA_TRY(loaded->program,
                link::link(package, chip_, {.serial = options_.serial, .region = region()}));
    TESSERA_RETURN_IF_ERROR(of_function() ? isa::verify_one_of_several(loaded->program, chip_)
                                          : isa::verify_program(loaded->program, chip_));
    return place_on_cores(std::move(loaded));
  }

  // A program that others linked or wrote, which has been proved for its architecture.
  Result<std::unique_ptr<LoadedProgram>> prepare_program(const NetworkState& network) {
    if (network.program->chip_fingerprint != fingerprint(chip_)) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("'{}' is a program for '{}' (fingerprint {:016x}), this device is '{}' "
                      "({:016x}); choose that architecture",
                      network.path, network.program->chip_name, network.program->chip_fingerprint,
                      chip_.name, fingerprint(chip_))};
    }
    if (options_.serial) {
      TESSERA_RETURN_IF_ERROR(network::check_package(network, "running one task at a time"));
    }
    auto loaded = std::make_unique<LoadedProgram>();
    loaded->name = network.path;
    loaded->program = *network.program;
    if (of_function()) {
      TESSERA_RETURN_IF_ERROR(link::relocate(loaded->program, chip_, *region()));
      TESSERA_RETURN_IF_ERROR(isa::verify_one_of_several(loaded->program, chip_));
    }
    if (options_.values == Values::kHost) {
      TESSERA_TRY(loaded->graph, network::graph_of(network));
    }
    return place_on_cores(std::move(loaded));
  }

  Result<std::unique_ptr<LoadedProgram>> place_on_cores(std::unique_ptr<LoadedProgram> loaded) {
    TESSERA_TRY(loaded->host_steps, open_steps(loaded->program));
    for (const isa::TensorSlot& slot : loaded->program.inputs) {
      loaded->inputs.push_back({slot.name, Bytes{slot_bytes(slot)}});
    }
    for (const isa::TensorSlot& slot : loaded->program.outputs) {
      loaded->outputs.push_back({slot.name, Bytes{slot_bytes(slot)}});
    }
    if (options_.values == Values::kSimulated) {
      loaded->inputs_in_place =
          slots_can_move(loaded->program, chip_, isa::BaseIndex::kInput, loaded->program.inputs);
      loaded->outputs_in_place =
          slots_can_move(loaded->program, chip_, isa::BaseIndex::kOutput, loaded->program.outputs);
    }
    loaded->shared = place_.cores;
    for (int kernel = 0; kernel < options_.kernels; ++kernel) {
      if (!of_function()) {
        TESSERA_TRY(auto core, card::Core::create(chip_));
        loaded->cores.push_back(std::move(core));
      }
      if (options_.values != Values::kHost) continue;
      const host::Executor* const twin = kernel == 0 ? nullptr : loaded->executors[0].get();
      TESSERA_TRY(auto executor,
                  host::make_host_executor(loaded->graph,
                                           {.threads = threads_a_kernel(options_), .twin = twin}));
      loaded->executors.push_back(std::move(executor));
    }
    return loaded;
  }

  // Whether a program's cycles are simulated once, when it is loaded. They follow from the
  // descriptors alone: the clock of the virtual processor looks at progress counters, queues,
  // addresses and sizes, never at a value (card/core.h), every segment begins with quiet engines,
  // empty queues and closed DRAM rows, and the time of host steps is not in them. So the one
  // simulation is exact for all runs.
  bool reuses_timing() const {
    return options_.values == Values::kHost ||
           (options_.values == Values::kNone && (options_.reuse_timing || options_.pace.enabled));
  }

  // Of a run whose values are not simulated.
  RunOutcome timing(const LoadedProgram& loaded, card::Core& core) {
    RunOutcome outcome;
    if (reuses_timing()) {
      outcome.details = loaded.timing;
      outcome.timing_reused = true;
      return outcome;
    }
    auto result = simulate(loaded, core, nullptr);
    if (result.ok()) {
      outcome.details = std::make_shared<const RunResult>(std::move(*result));
    } else {
      outcome.status = result.error();
    }
    return outcome;
  }

  // Null views: cycles only.
  Result<RunResult> simulate(const LoadedProgram& loaded, card::Core& core, const RunViews* views) {
    const isa::Program& program = loaded.program;
    if (views != nullptr) {
      CoreDram dram(core);
      TESSERA_RETURN_IF_ERROR(place_tensors(dram, program.inputs, views->inputs,
                                            loaded.inputs_in_place, TensorRole::kInput));
      TESSERA_RETURN_IF_ERROR(place_tensors(dram, program.outputs, views->outputs,
                                            loaded.outputs_in_place, TensorRole::kOutput));
    }
    TESSERA_TRY(RunResult result, run_segments(loaded, core, views == nullptr));
    if (views != nullptr && !loaded.outputs_in_place) {
      for (std::size_t i = 0; i < program.outputs.size(); ++i) {
        TESSERA_RETURN_IF_ERROR(core.read(program.outputs[i].address, views->outputs[i]));
      }
    }
    return result;
  }

  Result<RunResult> run_segments(const LoadedProgram& loaded, card::Core& core, bool timing_only) {
    RunResult result;
    result.clock_hertz = chip_.clock_hertz;
    add_hints(loaded.program, result);
    add_host_time(loaded.program, loaded.host_steps, chip_, result);
    card::CoreOptions core_options;
    core_options.timing_only = timing_only;
    core_options.check_hazards = options_.check_hazards;
    core_options.trace = options_.trace;
    core_options.traps = options_.traps;
    const std::size_t segments = loaded.program.segments.size();
    for (std::size_t i = 0; i < segments; ++i) {
      if (options_.progress) {
        options_.progress("simulate", static_cast<double>(i) / static_cast<double>(segments));
      }
      TESSERA_TRY(const card::RunStatistics statistics, core.run_segment(i, core_options));
      add_segment(loaded.program, i, statistics, result);
      if (timing_only) continue;
      CoreDram dram(core);
      for (const OpenStep& step : loaded.host_steps[i]) {
        TESSERA_RETURN_IF_ERROR(run_step(dram, step));
      }
    }
    if (options_.progress) options_.progress("simulate", 1);
    return result;
  }

  const DeviceConfig options_;
  const ChipConfig chip_;
  const FunctionPlace place_;
  Properties properties_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_sim_backend(const DeviceConfig& options,
                                                  FunctionPlace place) {
  if (!options.chip) {
    return Error{ErrorCode::kInvalidArgument,
                 "a device 'sim' without a chip configuration; give it the architecture that its "
                 "networks are compiled for"};
  }
  return std::unique_ptr<Backend>(std::make_unique<SimBackend>(options, std::move(place)));
}

}  // namespace tessera::device

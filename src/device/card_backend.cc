#include <fmt/format.h>

#include "arch/architecture_file.h"
#include "card/card.h"
#include "device/backends.h"
#include "device/card_network.h"
#include "device/host_steps.h"
#include "device/network_dram.h"
#include "device/segment_use.h"
#include "device/tensor_places.h"

namespace tessera::device {
namespace {

// A network on the cores of a card. Cards refer to the program.
class LoadedCard : public Loaded {
 public:
  CardNetwork network;                             // its weights are gone once the device has them
  std::vector<std::unique_ptr<card::Card>> cards;  // one a kernel
};

class CardBackend : public Backend {
 public:
  explicit CardBackend(const DeviceConfig& options) : options_(options), chip_(*options.chip) {
    properties_ = {.name = options.name.empty() ? "sim" : options.name,
                   .kind = "sim",
                   .kernels = options.kernels,
                   .clock_hertz = chip_.clock_hertz,
                   .memory = options.memory.value > 0 ? options.memory : Bytes{chip_.dram.bytes},
                   .functions = 1,
                   .shared_memory = false,
                   .values = options.values != Values::kNone};
  }

  const Properties& properties() const override { return properties_; }

  Result<LoadedSet> load(const std::shared_ptr<const NetworkState>& network) override {
    TESSERA_TRY(const CardPlacement placement, spread_cores(chip_, options_.cards, options_.cores));
    auto loaded = std::make_unique<LoadedCard>();
    loaded->name = network->path;
    const int of_team = options_.images > 1 ? options_.cores / options_.images : 0;
    TESSERA_TRY(loaded->network,
                compile_for_card(*network, chip_, placement, options_.split, of_team));
    loaded->inputs = loaded->network.inputs();
    loaded->outputs = loaded->network.outputs();
    for (int kernel = 0; kernel < options_.kernels; ++kernel) {
      TESSERA_TRY(auto card, card::Card::create(chip_, placement));
      loaded->cards.push_back(std::move(card));
    }
    LoadedSet set;
    set.region = loaded->network.first().weights;
    LoadedLayer whole;
    whole.weight_bytes = Bytes{std::ssize(set.region)};
    set.entries.push_back({std::move(loaded), std::move(whole)});
    return set;
  }

  Result<LoadedSet> load_layers(const std::shared_ptr<const NetworkState>& /*network*/) override {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("single layers on {} cores; a device of one core runs them", options_.cores)};
  }

  Status place(LoadedSet& set, std::span<const std::byte> region) override {
    for (LoadedSet::Entry& entry : set.entries) {
      auto& loaded = static_cast<LoadedCard&>(*entry.loaded);
      for (const auto& card : loaded.cards) {
        TESSERA_RETURN_IF_ERROR(card->load(loaded.network.program, region));
      }
      loaded.network.program.cores[0].weights = {};
    }
    set.region = {};
    return {};
  }

  RunOutcome run(const ActivityObserver::Run& run, Loaded& loaded, const RunViews& views,
                 RunTurn& /*turn*/) override {
    auto& on_card = static_cast<LoadedCard&>(loaded);
    RunOutcome outcome;
    auto result = simulate(on_card, *on_card.cards[static_cast<std::size_t>(run.kernel)],
                           options_.values == Values::kNone ? nullptr : &views);
    if (!result.ok()) {
      outcome.status = result.error();
      return outcome;
    }
    outcome.details = std::make_shared<const RunResult>(std::move(*result));
    outcome.cycles = outcome.details->cycles;
    outcome.clock_hertz = chip_.clock_hertz;
    outcome.status_flags = outcome.details->status_flags;
    return outcome;
  }

 private:
  // Null views: cycles only.
  Result<RunResult> simulate(const LoadedCard& loaded, card::Card& card, const RunViews* views) {
    const isa::Program& first = loaded.network.first();
    CardDram dram(card);
    if (views != nullptr) {
      TESSERA_RETURN_IF_ERROR(
          place_tensors(dram, first.inputs, views->inputs, false, TensorRole::kInput));
    }
    TESSERA_TRY(RunResult result, run_segments(loaded, card, dram, views == nullptr));
    if (views == nullptr) return result;
    for (std::size_t i = 0; i < first.outputs.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(dram.read(first.outputs[i].address, views->outputs[i]));
    }
    return result;
  }

  Result<RunResult> run_segments(const LoadedCard& loaded, card::Card& card, NetworkDram& dram,
                                 bool timing_only) {
    const isa::Program& first = loaded.network.first();
    RunResult result = loaded.network.begin_result(chip_);
    result.images = options_.images;
    card::CoreOptions options;
    options.timing_only = timing_only;
    options.check_hazards = options_.check_hazards;
    options.trace = options_.trace;
    options.traps = options_.traps;
    const std::size_t segments = first.segments.size();
    for (std::size_t i = 0; i < segments; ++i) {
      if (options_.progress) {
        options_.progress("simulate", static_cast<double>(i) / static_cast<double>(segments));
      }
      TESSERA_TRY(const card::CardStatistics statistics, card.run_segment(i, options));
      add_card_segment(loaded.network.program, i, statistics, result);
      for (const OpenStep& step : loaded.network.host_steps[i]) {
        if (!timing_only) TESSERA_RETURN_IF_ERROR(run_step(dram, step));
      }
    }
    if (options_.progress) options_.progress("simulate", 1);
    return result;
  }

  const DeviceConfig options_;
  const ChipConfig chip_;
  Properties properties_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_card_backend(const DeviceConfig& options) {
  if (!options.chip) {
    return Error{ErrorCode::kInvalidArgument,
                 "a device 'sim' without a chip configuration; give it the architecture that its "
                 "networks are compiled for"};
  }
  if (options.serial || options.values == Values::kHost) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} on {} cores; a device of one core does it",
                             options.serial ? "one task at a time" : "values of the host device",
                             options.cores)};
  }
  return std::unique_ptr<Backend>(std::make_unique<CardBackend>(options));
}

}  // namespace tessera::device

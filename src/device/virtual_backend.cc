// A virtual processor as a device.
#include <fmt/format.h>

#include "device/backends.h"
#include "device/virtual_card.h"

namespace tessera::device {
namespace {

// A network on a virtual processor, until it is unloaded.
class LoadedVirtual : public Loaded {
 public:
  LoadedVirtual(std::shared_ptr<VirtualProcessor> on,
                std::shared_ptr<VirtualProcessor::Program> what)
      : processor(std::move(on)), program(std::move(what)) {}
  ~LoadedVirtual() override { processor->remove(program); }
  const std::shared_ptr<VirtualProcessor> processor;  // shared with its device and the application
  const std::shared_ptr<VirtualProcessor::Program> program;  // shared with the processor
};

class VirtualBackend : public Backend {
 public:
  explicit VirtualBackend(const DeviceConfig& options)
      : options_(options), processor_(options.processor) {
    properties_ = {.name = options.name.empty() ? processor_->name() : options.name,
                   .kind = "sim",
                   .kernels = 1,
                   .clock_hertz = processor_->chip().clock_hertz,
                   .memory = Bytes{processor_->memory_bytes()},
                   .functions = 1,
                   .shared_memory = false,
                   .values = options.values != Values::kNone};
  }

  const Properties& properties() const override { return properties_; }

  // Its weights lie in the processor's memory, which is cleared and filled again when it gets other cores.
  Result<LoadedSet> load(const std::shared_ptr<const NetworkState>& network) override {
    TESSERA_TRY(auto program, processor_->add(network, options_.split, options_.images));
    auto loaded = std::make_unique<LoadedVirtual>(processor_, std::move(program));
    loaded->name = network->path;
    loaded->inputs = loaded->program->compiled->inputs();
    loaded->outputs = loaded->program->compiled->outputs();
    LoadedSet set;
    set.entries.push_back({std::move(loaded), {}});
    return set;
  }

  Result<LoadedSet> load_layers(const std::shared_ptr<const NetworkState>& /*network*/) override {
    return Error{ErrorCode::kUnsupported,
                 "single layers on a virtual processor; a device of one core runs them"};
  }

  Status place(LoadedSet& /*set*/, std::span<const std::byte> /*region*/) override { return {}; }

  RunOutcome run(const ActivityObserver::Run& /*run*/, Loaded& loaded, const RunViews& views,
                 RunTurn& /*turn*/) override {
    RunOutcome outcome;
    auto result = processor_->run(*static_cast<LoadedVirtual&>(loaded).program,
                                  {.views = options_.values == Values::kNone ? nullptr : &views,
                                   .check_hazards = options_.check_hazards,
                                   .trace = options_.trace,
                                   .traps = options_.traps});
    if (!result.ok()) {
      outcome.status = result.error();
      return outcome;
    }
    outcome.details = std::make_shared<const RunResult>(std::move(*result));
    outcome.cycles = outcome.details->cycles;
    outcome.clock_hertz = outcome.details->clock_hertz;
    outcome.status_flags = outcome.details->status_flags;
    return outcome;
  }

 private:
  const DeviceConfig options_;
  const std::shared_ptr<VirtualProcessor> processor_;  // shared with the application
  Properties properties_;
};

// What belongs to devices that have their cores for themselves.
const char* wrong_option(const DeviceConfig& options) {
  if (options.kind != DeviceKind::kSim) return "another kind of device than 'sim'";
  if (options.cores > 1 || options.cards > 1) return "a number of cores or cards";
  if (options.kernels > 1) return "several kernels";
  if (options.serial) return "one task at a time";
  if (options.values == Values::kHost || options.pace.enabled) return "a pace";
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_virtual_backend(const DeviceConfig& options) {
  if (const char* const wrong = wrong_option(options)) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} with the virtual processor '{}', which is of the device sim and has "
                    "its own cores; leave one of them out",
                    wrong, options.processor->name())};
  }
  return std::unique_ptr<Backend>(std::make_unique<VirtualBackend>(options));
}

}  // namespace tessera::device

#include "soak_world.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "base/guarded.h"
#include "base/process_mark.h"
#include "compile/testing/random_graph.h"
#include "device/device_options.h"
#include "network/network.h"
#include "runtime/memory_state.h"

namespace tessera::soak {
namespace {

using compile::testing::GraphBuilder;
using scripted::result_of;

constexpr std::array<std::int64_t, 1> kOne = {8};
constexpr std::array<std::int64_t, 2> kTwo = {8, 8};

std::uint64_t number_in(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

class Numbers : public Workload {
 public:
  const Network& network() const override { return network_; }
  Tensor input(std::uint64_t which) const override { return scripted::tensor_of(which); }
  bool is_after(std::uint64_t which, int depth, std::span<const std::byte> bytes) const override {
    std::uint64_t value = which;
    for (int i = 0; i < depth; ++i) value = result_of(value);
    return bytes.size() == 8 && number_in(bytes) == value;
  }

 private:
  const Network network_{device::scripted_network("numbers", kOne, kOne)};
};

Network convolution() {
  GraphBuilder builder(3);
  const graph::TensorId x = builder.input({1, 3, 8, 8});
  graph::TensorId y = builder.conv(x, {.output_channels = 3, .kernel = 3, .pad = 1});
  y = builder.unary(y, UnaryFunction::kTanh);
  builder.output(y);
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

// A few inputs; the oracle says what comes of them.
class Convolution : public Workload {
 public:
  Convolution() : network_(convolution()) {
    Session oracle = Session::open(network_, {.device = DeviceKind::kRef}).value();
    for (std::uint64_t which = 0; which < kInputs; ++which) {
      Tensor tensor = Tensor::zeros(Format::kF16, network_.inputs()[0].dims);
      std::uint64_t state = which + 1;
      for (std::uint16_t& bits : tensor.as<std::uint16_t>()) {
        state = result_of(state);
        bits = static_cast<std::uint16_t>((state >> 16 & 0x83FFU) | ((state >> 40) % 5 + 12) << 10);
      }
      table_[which][0] = tensor;
      for (std::size_t depth = 1; depth <= kDepth; ++depth) {
        table_[which][depth] = oracle.run({table_[which][depth - 1]})->outputs[0];
      }
    }
  }
  const Network& network() const override { return network_; }
  Tensor input(std::uint64_t which) const override { return table_[which % kInputs][0]; }
  bool is_after(std::uint64_t which, int depth, std::span<const std::byte> bytes) const override {
    const Tensor& expected = table_[which % kInputs][static_cast<std::size_t>(depth)];
    return std::equal(bytes.begin(), bytes.end(), expected.bytes.begin(), expected.bytes.end());
  }

 private:
  static constexpr std::size_t kInputs = 16, kDepth = 3;
  const Network network_;
  std::array<std::array<Tensor, kDepth + 1>, kInputs> table_;
};

StageOptions ordered_stage(const std::string& name, Orders::Kind Orders::* kind,
                           std::atomic<int> Orders::* visits) {
  return {.name = name, .function = [kind, visits](Task& task) -> Status {
            const Spared spared;
            auto* const orders = static_cast<Orders*>(task.payload.get());
            if (orders == nullptr) return {};
            ++(orders->*visits);
            switch (orders->*kind) {
              case Orders::Kind::kNothing:
                return {};
              case Orders::Kind::kError:
                return Error{ErrorCode::kInvalidArgument, "ordered: an error"};
              case Orders::Kind::kThrow:
                throw std::runtime_error("ordered: an exception");
              case Orders::Kind::kThrowNumber:
                break;
            }
            throw std::string("ordered: a text");
          }};
}

}  // namespace

std::unique_ptr<Workload> numbers_workload() { return std::make_unique<Numbers>(); }
std::unique_ptr<Workload> convolution_workload() { return std::make_unique<Convolution>(); }

Stateful stateful_of(std::uint64_t input, std::uint64_t state) {
  return {result_of(input ^ state * 3), result_of(input + state * 5)};
}

Network stateful_network() { return Network(device::scripted_network("stateful", kTwo, kTwo)); }

World::World(std::uint64_t seed, Ledger& ledger)
    : seed_(seed), ledger_(ledger), state_(runtime::RuntimeState::make(true)) {
  add_scripted({.name = "quick", .kernels = 2, .queue_depth = 8, .shared_memory = true}, 0, 20'000);
  add_scripted({.name = "middle",
                .memory = Bytes{std::int64_t{40} * 256},
                .link_bytes_per_second = 100'000'000,
                .run_limit = std::chrono::seconds(1)},
               20'000, 200'000);
  add_scripted({.name = "slow", .memory = Bytes{std::int64_t{32} * 256}, .shared_memory = true},
               200'000, 2'000'000);
  add_scripted({.name = "spare", .kernels = 2, .run_limit = std::chrono::milliseconds(400)}, 0,
               100'000);
  add_real(DeviceKind::kHost, "host", 2);
  add_real(DeviceKind::kSim, "sim", 1);
  const auto load = [&](const Workload* work, const Network& network,
                        const std::vector<std::string>& devices) {
    models_[work] = state_->load(network, devices, false).value();
  };
  load(numbers_.get(), numbers_->network(), {"quick", "middle", "slow", "spare"});
  load(nullptr, stateful_network(), {"quick", "slow", "spare"});
  load(convolution_.get(), convolution_->network(), {"host", "sim"});
  add_lanes();
  for (const auto& entry : state_->devices()) {
    const bool real = entry->name() == "host" || entry->name() == "sim";
    probes_[entry->name()] = open({.name = "probe " + entry->name(),
                                   .work = real ? convolution_.get() : numbers_.get(),
                                   .devices = {entry->name()},
                                   .execute_only = true});
    at_rest_[entry->name()] = entry->device().counters().memory.used;
  }
}

void World::add_scripted(device::ScriptedOptions options, std::int64_t least_ns,
                         std::int64_t most_ns) {
  DeviceTrouble& trouble = troubles_.emplace_back(options.name, seed_ + troubles_.size());
  options.faults = trouble.plan();
  options.run_time = [this, least_ns, most_ns](const device::ActivityObserver::Run& run) {
    const std::uint64_t random = result_of(static_cast<std::uint64_t>(run.sequence) ^ seed_) >> 20U;
    return std::chrono::nanoseconds(least_ns +
                                    static_cast<std::int64_t>(random) % (most_ns - least_ns));
  };
  options.compute = [&trouble](const device::ActivityObserver::Run& run,
                               std::span<const std::span<std::byte>> inputs,
                               std::span<const std::span<std::byte>> outputs) -> Status {
    const Spared spared;
    const std::uint64_t input = number_in(inputs[0]);
    Status status = trouble.interfere(run);
    if (!status.ok()) return status;
    if (inputs.size() == 1) {
      const std::uint64_t result = result_of(input);
      std::memcpy(outputs[0].data(), &result, sizeof result);
    } else {
      const Stateful result = stateful_of(input, number_in(inputs[1]));
      std::memcpy(outputs[0].data(), &result.result, sizeof result.result);
      std::memcpy(outputs[1].data(), &result.state, sizeof result.state);
    }
    return {};
  };
  state_->add(DeviceKind::kHost, {}, device::make_scripted_device(options).value());
}

void World::add_real(DeviceKind kind, const std::string& name, int kernels) {
  DeviceTrouble& trouble = troubles_.emplace_back(name, seed_ + troubles_.size());
  device::DeviceConfig options;
  options.kind = kind;
  options.name = name;
  options.kernels = kernels;
  options.threads = kernels;
  const ChipConfig chip = *load_chip_config("tessera128");
  if (kind == DeviceKind::kSim) options.chip = chip;
  state_->add(kind, chip, device::make_failing_device(options, trouble.plan()).value());
}

Model World::model_of(const Workload* work) const { return Model(models_.at(work)); }

std::unique_ptr<Lane> World::open(const LanePlan& plan) {
  PipelineOptions options = plan.options;
  const Model model = model_of(plan.work);
  for (int i = 0; i < plan.depth; ++i) {
    for (StageOptions& stage : default_stages(model)) {
      if (stage.kind == StageKind::kExecute) stage.devices = plan.devices;
      if (plan.execute_only && stage.kind != StageKind::kExecute) continue;
      if (i > 0) {
        stage.name = fmt::format("stage {} of network {}", static_cast<int>(stage.kind), i + 1);
      }
      options.stages.push_back(std::move(stage));
    }
  }
  if (plan.own_stages) {
    const auto first = options.stages.begin() + (plan.execute_only ? 0 : 1);
    options.stages.insert(first, ordered_stage("before", &Orders::before, &Orders::before_visits));
    options.stages.push_back(ordered_stage("after", &Orders::after, &Orders::after_visits));
  }
  const std::int64_t failed = failed_allocations();
  auto opened = guarded("", [&] {
    const Exposed exposed;
    return plan.operations ? runtime::PipelineState::open_for_operations(state_, std::move(options))
                           : runtime::PipelineState::open(state_, std::move(options));
  });
  if (!opened.ok()) {
    if (failed_allocations() == failed) {
      ledger_.unexplained("a pipeline was refused: " + opened.error().to_string());
    }
    return nullptr;
  }
  auto lane = std::make_unique<Lane>(plan.name, Pipeline(std::move(opened).value()), plan.work);
  lane->has_own_stages = plan.own_stages;
  lane->depth = plan.depth;
  return lane;
}

void World::add_lane(const LanePlan& plan) {
  lanes_[plan.name] = open(plan);
  TESSERA_CHECK(lanes_[plan.name] != nullptr, "{}", plan.name);
}

void World::add_lanes() {
  const Workload* const numbers = numbers_.get();
  const Workload* const convolution = convolution_.get();
  add_lane({.name = "mixed",
            .work = numbers,
            .devices = {"quick", "middle", "slow", "spare"},
            .own_stages = true,
            .options = {.jobs_max = 96}});
  add_lane({.name = "latency",
            .work = numbers,
            .devices = {"quick", "slow"},
            .own_stages = true,
            .options = {.hint = Hint::kLatency, .jobs_max = 16}});
  add_lane({.name = "lock step",
            .work = numbers,
            .devices = {"spare", "slow"},
            .options = {.handover = Handover::kLockStep, .jobs_max = 24}});
  add_lane({.name = "three networks",
            .work = numbers,
            .devices = {"middle", "spare", "quick"},
            .depth = 3,
            .options = {.jobs_max = 32}});
  add_lane({.name = "real",
            .work = convolution,
            .devices = {"host", "sim"},
            .own_stages = true,
            .options = {.jobs_max = 24}});
  add_lane({.name = "chain one",
            .work = numbers,
            .devices = {"quick", "middle", "slow", "spare"},
            .execute_only = true,
            .options = {.jobs_max = 48}});
  add_lane({.name = "chain two",
            .work = numbers,
            .devices = {"quick", "slow"},
            .options = {.jobs_max = 48}});
  add_lane({.name = "real chain",
            .work = convolution,
            .devices = {"host", "sim"},
            .options = {.jobs_max = 16}});
  add_lane({.name = "layers",
            .work = convolution,
            .devices = {"host", "sim"},
            .operations = true,
            .options = {.jobs_max = 16}});
  add_lane({.name = "states",
            .work = nullptr,
            .devices = {"quick", "slow", "spare"},
            .options = {.jobs_max = 64}});
}

Memory World::open_memory(const std::string& device) {
  return Memory(make_shared_here<runtime::MemoryState>(state_, entry(device)));
}

DeviceTrouble& World::trouble(const std::string& device) {
  for (DeviceTrouble& trouble : troubles_) {
    if (trouble.name() == device) return trouble;
  }
  TESSERA_CHECK(false, "no device {}", device);
}

runtime::DeviceEntry& World::entry(const std::string& device) {
  for (const auto& entry : state_->devices()) {
    if (entry->name() == device) return *entry;
  }
  TESSERA_CHECK(false, "no device {}", device);
}

}  // namespace tessera::soak

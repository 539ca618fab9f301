// Virtual functions: one core that appears as several devices, each with its part of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "device/fault_plan.h"
#include "device/function_core.h"
#include "device/make_device.h"
#include "isa/encoding.h"
#include "isa/memory_uses.h"
#include "link/link.h"
#include "network/network.h"
#include "tessera/runtime.h"
#include "tessera/session.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;
using device::Device;
using device::FunctionCore;
using std::chrono::steady_clock;

constexpr int kFunctions = 4;

ChipConfig test_chip() { return *load_chip_config("edge"); }

// Convolutions with a way around them, as in a residual network, in its part of the memories.
Network residual_network(std::uint64_t seed, std::int64_t channels,
                         double share = 1.0 / kFunctions) {
  GraphBuilder builder(seed);
  graph::TensorId x = builder.input({1, 3, 12, 12});
  x = builder.conv(x, {.output_channels = channels, .kernel = 3, .pad = 1});
  for (int block = 0; block < 2; ++block) {
    const graph::TensorId y = builder.conv(x, {.output_channels = channels, .kernel = 3, .pad = 1});
    x = builder.binary(x, y, BinaryFunction::kAdd);
  }
  builder.output(builder.pool(x, PoolFunction::kMaximum, 2, 2, 0));
  return network::network_from_graph(builder.take(), test_chip(), {.region_share = share}).value();
}

std::vector<Tensor> some_inputs(const Network& network, unsigned seed) {
  std::vector<Tensor> inputs;
  for (const TensorDescription& wanted : network.inputs()) {
    Tensor& tensor = inputs.emplace_back(Tensor::zeros(wanted.format, wanted.dims));
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
      tensor.bytes[i] = static_cast<std::byte>((i * 37 + seed) % 59);
    }
  }
  return inputs;
}

std::vector<Tensor> outputs_alone(const Network& network, const std::vector<Tensor>& inputs) {
  auto session = Session::open(network, {.device = DeviceKind::kSim});
  EXPECT_TRUE(session.ok()) << session.error().message;
  return session->run(inputs).value().outputs;
}

bool same_bytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return x.bytes == y.bytes; });
}

// ---- the core and its turns ----

// A turn whose beginning may be held up, and with it the core.
class TestTurn : public device::RunTurn {
 public:
  explicit TestTurn(int priority, std::function<void()> at_begin = {})
      : RunTurn(priority, steady_clock::now()), at_begin_(std::move(at_begin)) {}
  bool wait() override {
    wait_until_over();
    return true;
  }
  void wait_until_over() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
  }
  void begin(device::TimePoint) override {
    if (at_begin_) at_begin_();
  }
  void over() override {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  const std::function<void()> at_begin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
};

// A program of a function, with its inputs and a place for its outputs.
struct Tenant {
  isa::Program program;
  device::OpenSteps steps;
  FunctionCore::Placed placed;
  std::vector<Tensor> inputs, outputs;
  std::vector<std::span<std::byte>> from, to;
  device::RunViews views;
  int function = 0;

  FunctionCore::Run run() const {
    return {.function = function,
            .placed = placed,
            .program = &program,
            .host_steps = &steps,
            .views = &views};
  }
};

std::unique_ptr<Tenant> tenant(FunctionCore& core, int function, const Network& network,
                               std::vector<Tensor> inputs,
                               const std::function<void(isa::Program&)>& change = {}) {
  auto made = std::make_unique<Tenant>();
  made->function = function;
  made->program =
      link::link(network.state().package, network.state().chip, {.region = core.region(function)})
          .value();
  if (change) change(made->program);
  made->steps = device::open_steps(made->program).value();
  made->placed = core.add(function, made->program, {}).value();
  made->inputs = std::move(inputs);
  for (const isa::TensorSlot& slot : made->program.outputs) {
    made->outputs.push_back(Tensor::zeros(slot.format, slot.dims));
  }
  for (Tensor& input : made->inputs) made->from.emplace_back(input.bytes);
  for (Tensor& output : made->outputs) made->to.emplace_back(output.bytes);
  made->views = {made->from, made->to};
  return made;
}

std::shared_ptr<FunctionCore> test_core(const device::FunctionCoreOptions& options = {}) {
  return FunctionCore::create(test_chip(), kFunctions, options).value();
}

device::RunOutcome run_alone(FunctionCore& core, const Tenant& tenant) {
  TestTurn turn(0);
  return core.run(tenant.run(), turn);
}

// The core is busy with the first until all others wait, which then run together.
std::vector<device::RunOutcome> run_jointly(FunctionCore& core,
                                            const std::vector<std::unique_ptr<Tenant>>& tenants,
                                            const std::vector<int>& priorities) {
  std::vector<device::RunOutcome> outcomes(tenants.size());
  std::vector<std::thread> threads;
  const int others = static_cast<int>(tenants.size()) - 1;
  std::mutex mutex;
  std::condition_variable changed;
  bool busy = false;
  threads.emplace_back([&] {
    TestTurn turn(priorities[0], [&] {
      {
        const std::lock_guard lock(mutex);
        busy = true;
        changed.notify_all();
      }
      while (core.waiting() < others) std::this_thread::yield();
    });
    outcomes[0] = core.run(tenants[0]->run(), turn);
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return busy; });
  }
  for (std::size_t n = 1; n < tenants.size(); ++n) {
    threads.emplace_back([&, n] {
      TestTurn turn(priorities[n]);
      outcomes[n] = core.run(tenants[n]->run(), turn);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

struct Load {
  std::vector<Network> networks;
  std::vector<std::vector<Tensor>> inputs, alone;

  explicit Load(std::size_t count) {
    for (std::size_t n = 0; n < count; ++n) {
      networks.push_back(residual_network(n + 1, 16 + 8 * static_cast<std::int64_t>(n % 2)));
      inputs.push_back(some_inputs(networks[n], static_cast<unsigned>(n)));
      alone.push_back(outputs_alone(networks[n], inputs[n]));
    }
  }
};

std::vector<std::unique_ptr<Tenant>> tenants_of(FunctionCore& core, const Load& load) {
  std::vector<std::unique_ptr<Tenant>> tenants;
  for (std::size_t n = 0; n < load.networks.size(); ++n) {
    tenants.push_back(tenant(core, static_cast<int>(n), load.networks[n], load.inputs[n]));
  }
  return tenants;
}

TEST(VirtualFunctions, WhatWaitsRunsTogetherAndGivesTheBitsOfRunningAlone) {
  const Load load(kFunctions);
  const auto core = test_core({.check_hazards = true});
  const auto tenants = tenants_of(*core, load);
  std::vector<Cycles> cycles;
  for (int round = 0; round < 3; ++round) {
    const auto outcomes = run_jointly(*core, tenants, {0, 0, 1, 0});
    for (std::size_t n = 0; n < outcomes.size(); ++n) {
      ASSERT_TRUE(outcomes[n].status.ok()) << outcomes[n].status.error().message;
      EXPECT_EQ(outcomes[n].joint, n > 0);
      EXPECT_TRUE(same_bytes(tenants[n]->outputs, load.alone[n])) << "function " << n;
      if (round == 0) cycles.push_back(outcomes[n].cycles);
      EXPECT_EQ(outcomes[n].cycles, cycles[n]) << "function " << n;
      EXPECT_EQ(outcomes[n].details->layers.size(), tenants[n]->program.hints.size());
      for (Tensor& output : tenants[n]->outputs) std::ranges::fill(output.bytes, std::byte{0});
    }
  }
  const auto timing = test_core({.timing_only = true});
  const auto timed = tenants_of(*timing, load);
  const auto outcomes = run_jointly(*timing, timed, {0, 0, 1, 0});
  for (std::size_t n = 0; n < outcomes.size(); ++n) EXPECT_EQ(outcomes[n].cycles, cycles[n]);
}

// From a task's first step to its end, of the network by itself.
Cycles longest_task(const Network& network) {
  const isa::Program program = link::link(network.state().package, test_chip(), {}).value();
  const auto core = card::Core::create(test_chip()).value();
  EXPECT_TRUE(core->add(program).ok());
  const std::vector<card::NetworkRun> runs = {{.network = 0}};
  Cycles longest = 0;
  const card::NetworksResult result = core->run_networks(runs, {.timing_only = true}).value();
  for (const card::TaskTiming& task : result.statistics.tasks) {
    longest = std::max(longest, task.end - task.first_step_begin);
  }
  return longest;
}

// They come to the core at once, so no task of a lower one is dispatched before the higher one's
// first. Where those wait for each other it may be behind one of the others in an engine, and the
// others' memory traffic goes on: as in shared_core_test.cc. The longest tasks are those of the engines
// that go to memory (load, store, kernel), which is one channel of 16 bits that they share.
TEST(VirtualFunctions, TheHighestPriorityEndsBehindOneTaskOfTheOthersInAnEngineAtMost) {
  constexpr Cycles kMemoryEngines = 3;
  const Load load(kFunctions);
  const auto core = test_core({.timing_only = true});
  const auto tenants = tenants_of(*core, load);
  for (std::size_t high = 1; high < kFunctions; ++high) {
    const Cycles alone = core->time_alone(tenants[high]->run()).value().cycles;
    std::vector<int> priorities(kFunctions, 0);
    priorities[high] = 5;
    const auto outcomes = run_jointly(*core, tenants, priorities);
    Cycles longest = 0;
    for (std::size_t n = 1; n < kFunctions; ++n) {
      if (n != high) longest = std::max(longest, longest_task(load.networks[n]));
    }
    EXPECT_LE(outcomes[high].cycles, alone * 115 / 100 + kMemoryEngines * longest)
        << "function " << high << ", alone " << alone << ", longest task " << longest;
    for (std::size_t n = 1; n < kFunctions; ++n) {
      EXPECT_LE(outcomes[high].cycles, outcomes[n].cycles) << "function " << n;
    }
  }
}

TEST(VirtualFunctions, ACorruptProgramEndsItsOwnFunctionOnly) {
  const Load load(kFunctions);
  for (const std::size_t bad : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
    const auto core = test_core();
    auto tenants = tenants_of(*core, load);
    const std::size_t task = tenants[bad]->program.tasks.size() / 2;
    core->remove(tenants[bad]->placed);
    tenants[bad] = tenant(*core, static_cast<int>(bad), load.networks[bad], load.inputs[bad],
                          [task](isa::Program& program) {
                            program.stream[program.stream_offsets[task]] = std::byte{0};
                          });
    for (int round = 0; round < 2; ++round) {
      const auto outcomes = run_jointly(*core, tenants, {0, 0, 0, 0});
      for (std::size_t n = 0; n < outcomes.size(); ++n) {
        if (n != bad) {
          ASSERT_TRUE(outcomes[n].status.ok()) << outcomes[n].status.error().message;
          EXPECT_TRUE(same_bytes(tenants[n]->outputs, load.alone[n])) << "function " << n;
          continue;
        }
        ASSERT_FALSE(outcomes[n].status.ok());
        EXPECT_TRUE(
            outcomes[n].status.error().message.starts_with("task " + std::to_string(task) + ": "))
            << outcomes[n].status.error().message;
      }
    }
  }
}

// The last store of the program alone: it reads what lies in the state buffer.
void only_last_store(isa::Program& program) {
  isa::TaskDescriptor store = *std::find_if(
      program.tasks.rbegin(), program.tasks.rend(),
      [](const isa::TaskDescriptor& task) { return task.engine == isa::EngineKind::kStore; });
  store.id = 0;
  store.dependencies.clear();
  program.tasks = {store};
  program.stream = isa::encode(store);
  program.stream_offsets = {0};
  program.segments = {{0, 1, {}}};
  program.pieces.clear();
}

TEST(VirtualFunctions, TheMemoryOfAFunctionIsClearedForAnotherTenant) {
  const Load load(1);
  const auto core = test_core();
  const auto first = tenant(*core, 1, load.networks[0], load.inputs[0]);
  ASSERT_TRUE(run_alone(*core, *first).status.ok());
  ASSERT_TRUE(same_bytes(first->outputs, load.alone[0]));
  // As if it went on: what its last store takes from the state buffer is still there.
  auto spy = tenant(*core, 1, load.networks[0], load.inputs[0], only_last_store);
  const FunctionCore::Placed own = spy->placed;
  spy->placed.tenant = first->placed.tenant;
  ASSERT_TRUE(run_alone(*core, *spy).status.ok());
  const std::vector<Tensor> seen = spy->outputs;
  EXPECT_TRUE(std::ranges::any_of(seen[0].bytes, [](std::byte b) { return b != std::byte{0}; }));
  // Another tenant sees nothing of it, whatever its program reads.
  spy->placed = own;
  ASSERT_TRUE(run_alone(*core, *spy).status.ok());
  EXPECT_TRUE(
      std::ranges::all_of(spy->outputs[0].bytes, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(VirtualFunctions, ProgramsComeAndGoInTheirFunctionsDram) {
  const Load load(2);
  const auto core = test_core();
  for (int round = 0; round < 40; ++round) {
    const std::size_t n = static_cast<std::size_t>(round % 2);
    const auto of = tenant(*core, round % kFunctions, load.networks[n], load.inputs[n]);
    EXPECT_LE(of->placed.network, 1u);  // numbers are used again
    const device::RunOutcome outcome = run_alone(*core, *of);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().message;
    EXPECT_TRUE(same_bytes(of->outputs, load.alone[n]));
    core->remove(of->placed);
  }
}

// ---- the devices ----

device::DeviceConfig sim_config() {
  return {.kind = DeviceKind::kSim, .name = "sim0", .chip = test_chip()};
}

// A network on a function, with blocks for its tensors.
struct OnDevice {
  Device* device = nullptr;
  device::LoadedId loaded{};
  std::vector<device::Address> inputs, outputs;

  OnDevice(Device& of, const Network& network, const std::vector<Tensor>& values) : device(&of) {
    loaded = of.load(network.share()).value();
    const auto blocks = [&of](const std::vector<TensorDescription>& tensors) {
      std::vector<device::Address> addresses;
      for (const TensorDescription& tensor : tensors) {
        const Bytes bytes{element_count(tensor.dims) * format_bytes(tensor.format)};
        addresses.push_back(of.allocate(bytes).value().base);
      }
      return addresses;
    };
    inputs = blocks(network.inputs());
    outputs = blocks(network.outputs());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(of.write(inputs[i], values[i].bytes).ok());
    }
  }
  device::SequenceNumber submit(int priority = 0) const {
    return device
        ->submit({.loaded = loaded, .inputs = inputs, .outputs = outputs, .priority = priority})
        .value();
  }
  bool gave(const std::vector<Tensor>& wanted) const {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::vector<std::byte> bytes(wanted[i].bytes.size());
      if (!device->read(outputs[i], bytes).ok() || bytes != wanted[i].bytes) return false;
    }
    return true;
  }
};

TEST(VirtualFunctions, AreDevicesWithAPartOfTheMemoryEach) {
  const auto devices = device::make_functions(sim_config(), kFunctions).value();
  ASSERT_EQ(devices.size(), 4u);
  const std::int64_t memory = test_chip().dram.bytes / 4;
  for (std::size_t f = 0; f < devices.size(); ++f) {
    EXPECT_EQ(devices[f]->properties().name, "sim0." + std::to_string(f));
    EXPECT_EQ(devices[f]->properties().functions, 4);
    EXPECT_EQ(devices[f]->properties().memory.value, memory);
    EXPECT_FALSE(devices[f]->allocate(Bytes{memory + 1}).ok());
  }
  const auto one = device::make_functions(sim_config(), 1).value();
  EXPECT_EQ(one[0]->properties().name, "sim0");
  EXPECT_EQ(one[0]->properties().functions, 1);
}

TEST(VirtualFunctions, ABlockThatIsUsedAgainHoldsZeros) {
  const auto devices = device::make_functions(sim_config(), 2).value();
  const device::MemoryBlock block = devices[0]->allocate(Bytes{512}).value();
  const std::vector<std::byte> secret(512, std::byte{7});
  ASSERT_TRUE(devices[0]->write(block.base, secret).ok());
  ASSERT_TRUE(devices[0]->release(block).ok());
  const device::MemoryBlock again = devices[0]->allocate(Bytes{512}).value();
  std::vector<std::byte> bytes(512, std::byte{1});
  ASSERT_TRUE(devices[0]->read(again.base, bytes).ok());
  EXPECT_EQ(bytes, std::vector<std::byte>(512));
  EXPECT_EQ(devices[0]->counters().memory.blocks_reused, 1);
}

TEST(VirtualFunctions, AHangOfOneEndsAlone) {
  const Load load(kFunctions);
  std::vector<device::FaultPlan> faults(kFunctions);
  faults[1].fault = [first = true](const device::FaultPlace&) mutable {
    return std::exchange(first, false) ? device::Fault::kHang : device::Fault::kNone;
  };
  const auto devices = device::make_failing_functions(sim_config(), kFunctions, faults).value();
  std::vector<OnDevice> on;
  for (std::size_t f = 0; f < kFunctions; ++f) {
    on.emplace_back(*devices[f], load.networks[f], load.inputs[f]);
  }
  const device::SequenceNumber hangs = on[1].submit();
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t f : {0u, 2u, 3u}) {
      const auto completion = devices[f]->wait(on[f].submit());
      ASSERT_TRUE(completion.ok() && completion->status.ok());
      EXPECT_TRUE(on[f].gave(load.alone[f]));
    }
  }
  EXPECT_FALSE(devices[1]->wait(hangs, steady_clock::now()).ok());
  devices[1]->fail("it hangs");
  ASSERT_TRUE(devices[1]->reset().ok());
  for (const std::size_t f : {0u, 2u, 3u}) {
    EXPECT_EQ(devices[f]->health().state, device::HealthState::kOk);
    EXPECT_EQ(devices[f]->counters().completions, 3);
  }
  const auto completion = devices[1]->wait(on[1].submit());
  ASSERT_TRUE(completion.ok() && completion->status.ok());
  EXPECT_TRUE(on[1].gave(load.alone[1]));
}

// Very slow, so that the model keeps up with it.
TEST(VirtualFunctions, PacedEachEndsWhenItsOwnCyclesAreOver) {
  const Load load(2);
  device::DeviceConfig config = sim_config();
  config.values = device::Values::kHost;
  config.threads = 1;
  config.pace = {.enabled = true, .factor = 2000};
  const auto devices = device::make_functions(config, 2).value();
  std::vector<OnDevice> on;
  for (std::size_t f = 0; f < 2; ++f) {
    on.emplace_back(*devices[f], load.networks[f], load.inputs[f]);
  }
  std::vector<device::Completion> completions;
  for (int round = 0; round < 3; ++round) {
    const device::SequenceNumber first = on[0].submit(), second = on[1].submit(1);
    completions.push_back(devices[0]->wait(first).value());
    completions.push_back(devices[1]->wait(second).value());
  }
  for (const device::Completion& completion : completions) {
    ASSERT_TRUE(completion.status.ok());
    EXPECT_GT(completion.cycles, 0);
    if (completion.late) continue;
    EXPECT_EQ(completion.end - completion.begin,
              device::paced_time(config.pace, completion.cycles, test_chip().clock_hertz));
  }
  for (std::size_t f = 0; f < 2; ++f) EXPECT_TRUE(on[f].gave(load.alone[f]));
}

TEST(VirtualFunctions, WhatIsWrongIsNamedWithWhatIsAllowed) {
  const auto message = [](const device::DeviceConfig& config, int functions) {
    return device::make_functions(config, functions).error().message;
  };
  EXPECT_EQ(message(sim_config(), 17), "17 virtual functions; allowed 1 to 16");
  EXPECT_EQ(message(sim_config(), 0), "0 virtual functions; allowed 1 to 16");
  EXPECT_EQ(message(sim_config(), 5),
            "5 virtual functions; the task manager of 'edge' has 4 queues, one for each function; "
            "allowed 1 to 4, or an architecture with more task_manager.queues");
  EXPECT_EQ(message({.kind = DeviceKind::kHost}, 2),
            "2 virtual functions; they are of the device sim, this is 'host'");
  device::DeviceConfig config = sim_config();
  config.chip->task_manager.guaranteed_entries = config.chip->task_manager.task_buffer_entries;
  EXPECT_EQ(message(config, 2),
            "virtual functions: 2 networks with 16 guaranteed entries each, the task buffer has "
            "16");
  // A model for the whole memories.
  const Network whole = residual_network(1, 512, 1);
  const std::int64_t needed =
      isa::memory_need(link::link(whole.state().package, whole.state().chip, {}).value().tasks,
                       test_chip())
          .state_buffer;
  const std::int64_t part = test_chip().state_buffer.bytes_per_partition / 4;
  ASSERT_GT(needed, part);
  const auto devices = device::make_functions(sim_config(), kFunctions).value();
  EXPECT_EQ(devices[2]->load(whole.share()).error().message,
            "the program needs " + std::to_string(needed) +
                " bytes of a state buffer partition, its region has " + std::to_string(part) +
                "; give it a larger share, or compile the model for a share");
}

// ---- the runtime ----

TEST(VirtualFunctions, EightThreadsOnFourFunctionsGiveTheBitsOfRunningAlone) {
  const Load load(3);
  auto runtime = Runtime::open(
      {.devices = {{.kind = DeviceKind::kSim, .arch = "edge", .virtual_functions = kFunctions}}});
  ASSERT_TRUE(runtime.ok()) << runtime.error().message;
  std::vector<Pipeline> pipelines;
  for (const Network& network : load.networks) {
    const auto model = runtime->load(network);
    ASSERT_TRUE(model.ok()) << model.error().message;
    pipelines.push_back(runtime->open_pipeline(*model).value());
  }
  constexpr int kThreads = 8, kTasks = 12;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        const std::size_t n = static_cast<std::size_t>(t + i) % load.networks.size();
        Stream stream = pipelines[n].open_stream({.priority = (t + 2 * i) % 8 - 4});
        auto job = stream.submit_when_room(load.inputs[n]);
        TaskOutcome outcome = job->wait();
        if (!outcome.ok() || !same_bytes(outcome.result().outputs(), load.alone[n])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  std::int64_t runs = 0;
  const std::vector<DeviceStatus> devices = runtime->devices();
  ASSERT_EQ(devices.size(), 4u);
  for (const DeviceStatus& status : devices) {
    EXPECT_TRUE(status.healthy) << status.fault;
    EXPECT_EQ(status.functions, 4);
    EXPECT_LE(status.joint_runs, status.runs);
    runs += status.runs;
  }
  EXPECT_EQ(devices[3].name, "sim0.3");
  EXPECT_GE(runs, kThreads * kTasks);
  EXPECT_NE(runtime->prometheus().find("sim0.2"), std::string::npos);
}

TEST(VirtualFunctions, OpeningNamesTheDevice) {
  const auto open = [](int functions) {
    return Runtime::open({.devices = {{.kind = DeviceKind::kSim,
                                       .arch = "edge",
                                       .virtual_functions = functions}}})
        .error()
        .message;
  };
  EXPECT_EQ(open(17), "device 'sim0': 17 virtual functions; allowed 1 to 16");
  EXPECT_EQ(Runtime::open({.devices = {{.kind = DeviceKind::kSim, .virtual_functions = 2},
                                       {.kind = DeviceKind::kHost, .name = "sim0.1"}}})
                .error()
                .message,
            "device 'sim0.1': there are two of this name");
}

}  // namespace
}  // namespace tessera

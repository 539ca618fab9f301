// Several compiled networks on one core: each gives the bits that it gives alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "device/shared_run.h"
#include "isa/memory_uses.h"
#include "isa/verify_networks.h"
#include "link/link.h"
#include "model/testing/model_builder.h"
#include "network/network.h"
#include "tessera/session.h"
#include "tessera/shared_session.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;
using device::SharedRun;
using device::SharedRunNetwork;

ChipConfig test_chip() { return *load_chip_config("edge"); }

// Convolutions with a way around them, as in a residual network.
Network residual_network(std::uint64_t seed, std::int64_t channels, double share) {
  GraphBuilder builder(seed);
  graph::TensorId x = builder.input({1, 3, 16, 16});
  x = builder.conv(x, {.output_channels = channels, .kernel = 3, .pad = 1});
  for (int block = 0; block < 3; ++block) {
    const graph::TensorId y = builder.conv(x, {.output_channels = channels, .kernel = 3, .pad = 1});
    x = builder.binary(x, builder.conv(y, {.output_channels = channels, .kernel = 3, .pad = 1}),
                       BinaryFunction::kAdd);
  }
  builder.output(builder.pool(x, PoolFunction::kMaximum, 2, 2, 0));
  return network::network_from_graph(builder.take(), test_chip(), {.region_share = share}).value();
}

// Three segments: the processor, the host, the processor.
Network network_with_host_step(double share) {
  model::testing::ModelBuilder builder;
  builder.input("x", Format::kF32, {40, 2, 2})
      .node("Relu", {"x"}, {"r"})
      .node("Det", {"r"}, {"d"})
      .node("Tanh", {"d"}, {"y"})
      .output("y");
  const std::string text = builder.bytes();
  return Network::load_bytes(std::as_bytes(std::span(text)),
                             {.arch = "edge", .region_share = share})
      .value();
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

// The networks of these tests with their inputs and what each gives alone.
struct Tenants {
  std::vector<Network> networks;
  std::vector<std::vector<Tensor>> inputs;
  std::vector<RunResult> alone;

  void add(Network network) {
    inputs.push_back(some_inputs(network, static_cast<unsigned>(networks.size())));
    auto session = Session::open(network, {.device = DeviceKind::kSim});
    EXPECT_TRUE(session.ok()) << session.error().message;
    alone.push_back(session->run(inputs.back()).value());
    networks.push_back(std::move(network));
  }
};

Tenants three_tenants() {
  Tenants tenants;
  tenants.add(residual_network(1, 24, 0.5));
  tenants.add(residual_network(2, 40, 0.25));
  tenants.add(network_with_host_step(0.25));
  return tenants;
}

void expect_bits_of_alone(const SharedNetworkResult& result, const RunResult& alone) {
  ASSERT_TRUE(result.status.ok()) << result.status.error().message;
  ASSERT_EQ(result.result.outputs.size(), alone.outputs.size());
  for (std::size_t i = 0; i < alone.outputs.size(); ++i) {
    EXPECT_EQ(result.result.outputs[i].dims, alone.outputs[i].dims);
    EXPECT_TRUE(result.result.outputs[i].bytes == alone.outputs[i].bytes) << "output " << i;
  }
}

isa::Program linked(const Network& network, std::optional<isa::CoreRegion> region = {}) {
  return link::link(network.state().package, network.state().chip, {.region = region}).value();
}

// What the network needs, and the rest of the memories.
struct TwoRegions {
  isa::CoreRegion first, second;
};
TwoRegions two_regions(const Network& network) {
  const ChipConfig chip = test_chip();
  const isa::MemoryNeed need = isa::memory_need(linked(network).tasks, chip);
  const std::int64_t buffer = round_up(need.state_buffer, isa::kRegionAlignment);
  const std::int64_t kernel = round_up(need.kernel_memory, isa::kRegionAlignment);
  return {{{0, buffer}, {0, kernel}},
          {{buffer, chip.state_buffer.bytes_per_partition - buffer},
           {kernel, chip.neural.kernel_bytes_per_partition - kernel}}};
}

TEST(SharedCore, NetworksForTheWholeMemoriesAreRefusedAndCaught) {
  const Network a = residual_network(1, 24, 1);
  const Network b = residual_network(2, 40, 1);
  const isa::Program first = linked(a);
  const isa::Program second = linked(b);
  const isa::Program* const programs[] = {&first, &second};
  EXPECT_EQ(isa::verify_networks(programs, test_chip()).error().message,
            "network 0 has no region: it was linked for the whole memories, which 2 networks "
            "share; link it for a region");
  auto core = card::Core::create(test_chip()).value();
  ASSERT_TRUE(core->add(first).ok());
  ASSERT_TRUE(core->add(second).ok());
  const std::vector<card::NetworkRun> runs = {{.network = 0}, {.network = 1}};
  const auto result = core->run_networks(runs, {.timing_only = true, .check_hazards = true});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("which network "), std::string::npos)
      << result.error().message;
}

TEST(SharedCore, EachGivesTheBitsThatItGivesAlone) {
  const Tenants tenants = three_tenants();
  auto session = SharedSession::open({{.network = tenants.networks[0], .share = 0.5},
                                      {.network = tenants.networks[1], .priority = 5},
                                      {.network = tenants.networks[2], .arrival_us = 20}},
                                     {.check_hazards = true, .trace = true});
  ASSERT_TRUE(session.ok()) << session.error().message;
  for (int round = 0; round < 2; ++round) {
    const auto result = session->run(tenants.inputs);
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (std::size_t n = 0; n < tenants.networks.size(); ++n) {
      expect_bits_of_alone(result->networks[n], tenants.alone[n]);
      EXPECT_GT(result->networks[n].end, result->networks[n].arrival);
      EXPECT_FALSE(result->networks[n].result.timeline.empty());
    }
    for (const EngineUse& engine : result->engines) {
      EXPECT_EQ(engine.busy + engine.blocked_dependency + engine.blocked_memory +
                    engine.blocked_ports + engine.idle,
                result->cycles)
          << engine.name;
    }
  }
}

TEST(SharedCore, EveryOrderOfPrioritiesAndArrivalsGivesTheBitsOfRunningAlone) {
  const Tenants tenants = three_tenants();
  constexpr unsigned kSeed = 10;
  std::mt19937 random(kSeed);
  const auto pick = [&random](int first, int last) {
    return static_cast<int>(random() % static_cast<unsigned>(last - first + 1)) + first;
  };
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", round " << round);
    std::vector<SharedRunNetwork> networks;
    for (const Network& network : tenants.networks) {
      networks.push_back({.network = network.share(),
                          .priority = pick(-2, 2),
                          .arrival = pick(0, 3) == 0 ? 0 : pick(0, 40000)});
    }
    auto plain = SharedRun::create(networks, {.check_hazards = round % 10 == 0});
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    const auto result = (*plain)->run(tenants.inputs);
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (std::size_t n = 0; n < networks.size(); ++n) {
      expect_bits_of_alone(result->networks[n], tenants.alone[n]);
    }
    for (const bool shuffled : {false, true}) {
      auto timed = SharedRun::create(
          networks, {.timing_only = true, .shuffle_seed = shuffled ? random() | 1 : 0u});
      const auto cycles = (*timed)->run(tenants.inputs);
      ASSERT_TRUE(cycles.ok());
      ASSERT_EQ(cycles->cycles, result->cycles);
      for (std::size_t n = 0; n < networks.size(); ++n) {
        ASSERT_EQ(cycles->networks[n].end, result->networks[n].end);
      }
    }
    if (HasFailure()) return;
  }
}

TEST(SharedCore, ACorruptDescriptorEndsItsOwnNetworkWithTaskAndReason) {
  const Tenants tenants = three_tenants();
  const TwoRegions regions = two_regions(tenants.networks[0]);
  const isa::Program good = linked(tenants.networks[0], regions.first);
  const isa::Program whole = linked(tenants.networks[1], regions.second);
  for (std::size_t task = 0; task < whole.tasks.size(); task += 3) {
    isa::Program bad = whole;
    bad.stream[bad.stream_offsets[task]] = std::byte{0};
    auto core = card::Core::create(test_chip()).value();
    ASSERT_TRUE(core->add(good).ok());
    ASSERT_TRUE(core->add(bad).ok());
    ASSERT_TRUE(core->write(0, good.inputs[0].address, tenants.inputs[0][0].bytes).ok());
    const std::vector<card::NetworkRun> runs = {{.network = 0}, {.network = 1, .priority = 1}};
    const auto result = core->run_networks(runs, {});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_TRUE(result->networks[0].status.ok());
    ASSERT_FALSE(result->networks[1].status.ok());
    EXPECT_TRUE(result->networks[1].status.error().message.starts_with("task " +
                                                                       std::to_string(task) + ": "))
        << result->networks[1].status.error().message;
    std::vector<std::byte> output(tenants.alone[0].outputs[0].bytes.size());
    ASSERT_TRUE(core->read(0, good.outputs[0].address, output).ok());
    EXPECT_TRUE(output == tenants.alone[0].outputs[0].bytes) << "task " << task;
  }
}

TEST(SharedCore, ATaskOutsideItsRegionIsADescriptorFault) {
  const Network a = residual_network(1, 24, 0.5);
  const isa::CoreRegion region{{16384, 16384}, {0, 16384}};
  isa::Program program = linked(a, region);
  program.region->state_buffer.bytes = 1024;  // as if the limit had been set too low
  auto core = card::Core::create(test_chip()).value();
  ASSERT_TRUE(core->add(program).ok());
  const auto result = core->run_segment(0, {});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find(
                "of a state buffer partition, the network's region is [16384, 17408)"),
            std::string::npos)
      << result.error().message;
}

// The host's step reads 160 floats, 640 bytes, and writes 40, 160 bytes: 10,000 ns and 800 bytes at
// 10,000 MB/s, 80 ns, at 800 MHz 8,064 cycles. 640 bytes over the link last 2,000 ns and 40 ns, 1,632
// cycles, and 160 bytes 2,010 ns, 1,608: for the step 3,240, and as much for the run's input of 640
// bytes and its output of 160.
TEST(SharedCore, TheTimeOfAHostStepIsOnItsNetworksWay) {
  Tenants tenants;
  tenants.add(network_with_host_step(1));
  EXPECT_EQ(tenants.alone[0].host_cycles, 8'064);
  EXPECT_EQ(tenants.alone[0].transfer_cycles, 3'240 + 3'240);
  const auto run = [&tenants](bool host_time) {
    auto session = SharedSession::open({{.network = tenants.networks[0], .arrival_us = 1}},
                                       {.trace = true, .host_time = host_time});
    return session->run(tenants.inputs).value().networks[0];
  };
  const SharedNetworkResult with = run(true), without = run(false);
  expect_bits_of_alone(with, tenants.alone[0]);
  EXPECT_EQ(with.result.host_cycles, 8'064);
  EXPECT_EQ(with.result.transfer_cycles, 6'480);
  EXPECT_EQ(with.end - with.arrival, with.result.cycles + 8'064 + 3'240);
  EXPECT_EQ(without.result.host_cycles + without.result.transfer_cycles, 0);
  EXPECT_EQ(without.end - without.arrival, without.result.cycles);
  // No step of the processor begins while the host is at work; what the processor takes to begin
  // again may pass before.
  const auto longest_gap = [](const SharedNetworkResult& result) {
    std::int64_t gap = 0, end = 0;
    std::vector<TimelineEvent> events = result.result.timeline;
    std::ranges::sort(events, {}, &TimelineEvent::begin);
    for (const TimelineEvent& event : events) {
      if (end > 0) gap = std::max(gap, event.begin - end);
      end = std::max(end, event.end);
    }
    return gap;
  };
  EXPECT_GE(longest_gap(with), 8'064 + 3'240);
  EXPECT_LE(longest_gap(with) - longest_gap(without), 8'064 + 3'240);
  EXPECT_LE(with.end - without.end, 8'064 + 3'240);
}

// At 800 MHz 512 bytes last 2,000 ns and 32 ns over the link, 1,626 cycles, and 256 bytes 2,016 ns,
// 1,613: both inputs and the output, and then one input alone.
TEST(HostTime, StatesOfASessionAreNotTransferred) {
  model::testing::ModelBuilder builder;
  builder.input("x", Format::kF32, {64})
      .input("s", Format::kF32, {64})
      .node("Add", {"x", "s"}, {"t"})
      .output("t");
  const std::string text = builder.bytes();
  const Network network =
      Network::load_bytes(std::as_bytes(std::span(text)), {.arch = "edge"}).value();
  auto session = Session::open(network, {.device = DeviceKind::kSim}).value();
  const std::vector<Tensor> inputs = some_inputs(network, 0);
  EXPECT_EQ(session.run(inputs).value().transfer_cycles, 1'626 + 1'613);
  ASSERT_TRUE(session.bind_states({{.output = 0, .input = 1}}).ok());
  const RunResult result = session.run({inputs[0]}).value();
  EXPECT_EQ(result.transfer_cycles, 1'613);
  EXPECT_EQ(result.host_cycles, 0);
}

// What a network of high priority waits for: the tasks that were dispatched before it came, and one that an
// engine began while it had nothing to do of the urgent one: tasks are not interrupted. Behind them it is not
// much slower than alone, though the other's memory traffic goes on.
TEST(SharedCore, ALateHighPriorityEndsSoon) {
  const Tenants tenants = three_tenants();
  const TwoRegions regions = two_regions(tenants.networks[0]);
  const isa::Program urgent = linked(tenants.networks[0], regions.first);
  const isa::Program slow = linked(tenants.networks[1], regions.second);
  auto core = card::Core::create(test_chip()).value();
  ASSERT_TRUE(core->add(slow).ok());
  ASSERT_TRUE(core->add(urgent).ok());
  const card::CoreOptions timing{.timing_only = true};
  const std::vector<card::NetworkRun> by_itself = {{.network = 1}};
  const Cycles alone = core->run_networks(by_itself, timing).value().networks[0].end;
  for (Cycles arrival = 0; arrival < 20000; arrival += 1000) {
    const std::vector<card::NetworkRun> runs = {{.network = 0},
                                                {.network = 1, .priority = 5, .arrival = arrival}};
    const card::NetworksResult result = core->run_networks(runs, timing).value();
    const card::NetworkResult& high = result.networks[1];
    Cycles drained = arrival, longest = 0;
    for (const card::TaskTiming& task : result.networks[0].tasks) {
      longest = std::max(longest, task.end - task.first_step_begin);
      if (task.dispatched < high.tasks[0].dispatched) drained = std::max(drained, task.end);
    }
    EXPECT_LE(high.end - arrival, alone * 120 / 100 + (drained - arrival) + longest)
        << "at " << arrival << ", longest task " << longest;
  }
}

TEST(SharedCore, NetworksThatDoNotFitAreNamedWithTheirBytes) {
  const Network whole = residual_network(1, 24, 1);
  const auto shared =
      SharedSession::open({{.network = whole, .share = 0.75}, {.network = whole, .share = 0.5}});
  ASSERT_FALSE(shared.ok());
  EXPECT_EQ(shared.error().message, "the shares add up to 1.25, allowed at most 1");
  const auto small =
      SharedSession::open({{.network = whole, .share = 0.999}, {.network = whole, .share = 0.001}});
  ASSERT_FALSE(small.ok());
  EXPECT_NE(
      small.error().message.find("; give it a larger share, or compile the model for a share"),
      std::string::npos)
      << small.error().message;
  const std::vector<SharedNetwork> many(9, {.network = whole, .share = 0.1});
  const auto queues = SharedSession::open(many);
  ASSERT_FALSE(queues.ok());
}

}  // namespace
}  // namespace tessera

// Memory that ends while tasks run on blocks of devices, and on devices that fail: what comes of it
// is the right result or an error, nothing hangs, and no memory of a device is lost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "arch/architecture_file.h"
#include "base/guarded.h"
#include "base/process_mark.h"
#include "compile/testing/random_graph.h"
#include "device/make_device.h"
#include "failing_everywhere.h"
#include "network/network.h"
#include "runtime/memory_state.h"
#include "scripted_runtime.h"

namespace tessera::limits {
namespace {

using device::Fault;
using scripted::result_of;
using scripted::ScriptedRuntime;
using scripted::tensor_of;
using scripted::value_of;

// Whether the devices' memory is free, when the last run has released it.
void expect_free(ScriptedRuntime& runtime) {
  for (const auto& entry : runtime.state().devices()) {
    device::Device& device = entry->device();
    const auto used = [&] { return device.counters().memory.used.value; };
    for (int i = 0; i < 5000 && used() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // There are no more tasks to try one that has failed.
      (void)guarded("", [&]() -> Status {
        return entry->status().healthy ? Status() : device.reset(std::chrono::steady_clock::now());
      });
    }
    EXPECT_EQ(used(), 0) << entry->name();
  }
}

// Notes the first error of a task that is its own.
void note(Status& first, const TaskOutcome& outcome) {
  const bool own = !outcome.ok() && outcome.error().failure == TaskFailure::kError;
  if (own && first.ok()) first = outcome.error().error;
}

Result<Pipeline> open(ScriptedRuntime& runtime, PipelineOptions options) {
  options.stages = runtime.stages();
  TESSERA_TRY(auto state,
              runtime::PipelineState::open(runtime.state().shared_from_this(), std::move(options)));
  return Pipeline(std::move(state));
}

// From block to block and back, all submitted at once; the last result is kept, and looked at.
Status ping_pong(ScriptedRuntime& runtime, Memory memory) {
  TESSERA_TRY(Pipeline pipeline, open(runtime, {}));
  Stream stream = pipeline.open_stream();
  TESSERA_TRY(Block a, memory.upload(tensor_of(7)));
  TESSERA_TRY(Block b, memory.allocate(TensorDescription{"", Format::kU8, {8}}));
  std::vector<Job> jobs;
  jobs.reserve(8);
  Status first;
  for (int i = 0; i < 4; ++i) {
    NetworkTask task;
    task.inputs.emplace_back(i % 2 == 0 ? a : b);
    task.outputs.push_back({.block = i % 2 == 0 ? b : a});
    auto job = stream.submit_network(std::move(task));
    if (!job.ok()) {
      first = job.error();
      break;
    }
    jobs.push_back(std::move(*job));
  }
  if (first.ok()) {
    auto job = stream.submit_network({.inputs = {a}, .outputs = {{.keep = true}}});
    if (!job.ok()) first = job.error();
    if (job.ok()) jobs.push_back(std::move(*job));
  }
  for (Job& job : jobs) {
    TaskOutcome outcome = job.wait();
    note(first, outcome);
    if (!outcome.ok() || &job != &jobs.back() || jobs.size() < 5) continue;
    std::uint64_t expected = 7;
    for (int i = 0; i < 5; ++i) expected = result_of(expected);
    Block kept = *outcome.result().blocks.at(0);
    TESSERA_RETURN_IF_ERROR(kept.fetch());
    std::uint64_t found = 0;
    std::memcpy(&found, kept.bytes().data(), sizeof found);
    EXPECT_EQ(found, expected);
  }
  if (first.ok()) first = a.fetch();
  return first;
}

device::ScriptedOptions card(const std::string& name, bool shared) {
  return {.name = name, .shared_memory = shared};
}

TEST(FailingAllocations, Blocks) {
  ScriptedRuntime runtime({card("own", false), card("shared", true)}, false);
  for (const char* const device : {"own", "shared"}) {
    const Memory memory = runtime.memory(device);
    fail_everywhere(device, kMany, [&]() -> Status {
      const Status status = ping_pong(runtime, memory);
      expect_free(runtime);
      return status;
    });
  }
}

// A network, its layers and an operation, each of which releases what it loaded.
Status load_everything(const std::shared_ptr<runtime::RuntimeState>& state, const Network& network,
                       Pipeline& pipeline) {
  TESSERA_TRY(const auto model, state->load(network, {}, false));
  TESSERA_TRY(const auto again, state->load(network, {}, true));
  for (const auto& entry : state->devices()) {
    Memory memory(make_shared_here<runtime::MemoryState>(state, *entry));
    TESSERA_TRY(const auto layers, runtime::LayersState::load(memory.state(), network));
    TESSERA_TRY(const auto same, runtime::LayersState::load(memory.state(), network));
    TESSERA_TRY(Block block, memory.allocate(64));
    TESSERA_RETURN_IF_ERROR(block.wrote());
    Stream stream = pipeline.open_stream();
    TESSERA_TRY(Job job,
                stream.submit_operation(
                    {.operation = operations::Relu{4, 8}, .input = block, .output = block}));
    const TaskOutcome outcome = job.wait();
    if (!outcome.ok()) return outcome.error().error;
  }
  return {};
}

TEST(FailingAllocations, WhatIsLoaded) {
  compile::testing::GraphBuilder builder(3);
  const graph::TensorId x = builder.input({1, 5, 6, 6});
  graph::TensorId y = builder.conv(x, {.output_channels = 12, .kernel = 3, .pad = 1});
  builder.output(builder.conv(y, {.output_channels = 7, .kernel = 3, .pad = 1}));
  const ChipConfig chip = *load_chip_config("tessera128");
  const Network network = network::network_from_graph(builder.take(), chip, {}).value();
  const auto state = runtime::RuntimeState::make(false);
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim}) {
    state->add(
        kind, chip,
        device::make_device({.kind = kind, .name = device_kind_name(kind), .chip = chip}).value());
  }
  Pipeline pipeline(runtime::PipelineState::open_for_operations(state, {}).value());
  fail_everywhere("loading", kMany, [&]() -> Status {
    const Status status = load_everything(state, network, pipeline);
    for (const auto& entry : state->devices()) {
      const auto used = [&] { return entry->device().counters().memory.used.value; };
      for (int i = 0; i < 5000 && used() > 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_EQ(used(), 0) << entry->name();
      const device::DeviceCounters counters = entry->device().counters();
      EXPECT_EQ(counters.programs_loaded, counters.programs_unloaded) << entry->name();
    }
    return status;
  });
}

// Tasks of several priorities, one after the other: each ends, and is counted by its outcome.
Status run_on_failing(ScriptedRuntime& runtime, Handover handover) {
  TESSERA_TRY(Pipeline pipeline, open(runtime, {.handover = handover, .jobs_max = 1}));
  Stream stream = pipeline.open_stream();
  Status first;
  std::int64_t submitted = 0, good = 0;
  for (int i = 0; i < 8; ++i) {
    SubmitOptions options;
    options.priority = i - 4;
    if (i % 4 == 3) options.deadline = std::chrono::hours(1);
    auto job = stream.submit({tensor_of(7)}, std::move(options));
    if (!job.ok()) {
      if (first.ok()) first = job.error();
      continue;
    }
    ++submitted;
    const TaskOutcome outcome = job->wait();
    note(first, outcome);
    if (!outcome.ok()) continue;
    ++good;
    EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(7));
  }
  pipeline.wait_until_done();
  const PipelineStatus status = pipeline.status();
  EXPECT_EQ(status.submitted, submitted);
  EXPECT_EQ(status.succeeded, good);
  EXPECT_EQ(status.failed, submitted - good);
  return first;
}

TEST(FailingAllocations, DevicesThatFail) {
  device::ScriptedOptions failing = card("failing", false), stopped = card("stopped", true);
  failing.faults.fault = [](const device::FaultPlace& place) {
    constexpr Fault kFaults[] = {Fault::kNone,           Fault::kError, Fault::kNone,
                                 Fault::kLostCompletion, Fault::kNone,  Fault::kSecondCompletion};
    return kFaults[static_cast<std::uint64_t>(place.sequence) % std::size(kFaults)];
  };
  failing.run_limit = std::chrono::milliseconds(5);
  ScriptedRuntime runtime({failing, stopped}, false);
  for (const Handover handover : {Handover::kFreeFlow, Handover::kLockStep}) {
    fail_everywhere(handover_name(handover), kMany, [&]() -> Status {
      const Status status = run_on_failing(runtime, handover);
      expect_free(runtime);
      return status;
    });
  }
}

}  // namespace
}  // namespace tessera::limits

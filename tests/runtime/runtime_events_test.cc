// What the runtime records of a task: whose transfers are whose, and in which order things happen.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "metrics/exports.h"
#include "network/network.h"
#include "scripted_runtime.h"

namespace tessera {
namespace {

using metrics::Event;
using metrics::EventKind;
using metrics::SourceKind;

// Events of a kind, with what they are of.
struct Seen {
  explicit Seen(runtime::RuntimeState& state) : sources(state.recorder().sources()) {
    state.collector().drain();
    events = state.collector().recent_events();
  }
  std::vector<Event> of(EventKind kind) const {
    std::vector<Event> found;
    std::copy_if(events.begin(), events.end(), std::back_inserter(found),
                 [&](const Event& event) { return event.kind == kind; });
    return found;
  }
  const metrics::SourceDescription& source(const Event& event) const {
    return sources[event.source.index].description;
  }

  metrics::SourceStates sources;
  std::vector<Event> events;
};

void run_tasks(Pipeline pipeline, int tasks) {
  Stream stream = pipeline.open_stream();
  for (int i = 0; i < tasks; ++i) {
    const auto job = stream.submit_when_room({scripted::tensor_of(static_cast<std::uint64_t>(i))});
    ASSERT_TRUE(job.ok());
  }
  pipeline.wait_until_done();
}

// Two devices with two kernels each.
TEST(RuntimeEvents, EachTaskIsWrittenRunAndReadByOneKernelInThisOrder) {
  scripted::ScriptedRuntime runtime({{.name = "a", .kernels = 2}, {.name = "b", .kernels = 2}});
  constexpr int kTasks = 200;
  run_tasks(runtime.open({}), kTasks);
  const Seen seen(runtime.state());
  std::set<std::uint16_t> kernels;
  std::set<std::uint64_t> tasks;
  for (const Event& run : seen.of(EventKind::kKernelRun)) {
    kernels.insert(run.source.index);
    EXPECT_TRUE(tasks.insert(run.packet).second) << run.packet;
  }
  EXPECT_EQ(kernels.size(), 4u);
  EXPECT_EQ(tasks.size(), static_cast<std::size_t>(kTasks));
  const std::vector<Event> runs = seen.of(EventKind::kKernelRun);
  for (const EventKind kind : {EventKind::kTransferIn, EventKind::kTransferOut}) {
    // A run that was taken back from a kernel that had not begun it was written there, too.
    std::map<std::uint64_t, Event> transfers;
    for (const Event& transfer : seen.of(kind)) transfers[transfer.packet] = transfer;
    EXPECT_EQ(transfers.size(), static_cast<std::size_t>(kTasks));
    for (const auto& [packet, transfer] : transfers) {
      const auto run = std::find_if(runs.begin(), runs.end(), [&](const Event& candidate) {
        return candidate.packet == transfer.packet;
      });
      ASSERT_NE(run, runs.end()) << transfer.packet;
      EXPECT_EQ(transfer.source, run->source);
      EXPECT_EQ(transfer.value, 8);
      const bool before = kind == EventKind::kTransferIn;
      const Event& first = before ? transfer : *run;
      const Event& second = before ? *run : transfer;
      EXPECT_LE(first.end_ns, second.begin_ns);
    }
  }
}

TEST(RuntimeEvents, WeightsAreOfTheDeviceAndInputsOfItsKernels) {
  compile::testing::GraphBuilder builder(3);
  const graph::TensorId x = builder.input({1, 5, 8, 8});
  builder.output(builder.conv(x, {.output_channels = 6, .kernel = 3, .pad = 1}));
  const ChipConfig chip = *load_chip_config("tessera128");
  const Network network = network::network_from_graph(builder.take(), chip, {}).value();
  const auto state =
      runtime::RuntimeState::open({.devices = {{.kind = DeviceKind::kSim, .timing_only = true}}})
          .value();
  const Model model(state->load(network, {}, false).value());
  const std::int64_t weights = state->devices()[0]->status().weight_bytes;
  ASSERT_GT(weights, 0);
  Pipeline pipeline(runtime::PipelineState::open(state, {.stages = default_stages(model)}).value());
  Stream stream = pipeline.open_stream();
  const Tensor input = Tensor::zeros(network.inputs()[0].format, network.inputs()[0].dims);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream.submit({input})->wait().ok());
  const Seen seen(*state);
  std::int64_t of_device = 0, of_kernel = 0;
  for (const Event& event : seen.of(EventKind::kTransferIn)) {
    const bool device = seen.source(event).kind == SourceKind::kDevice;
    EXPECT_EQ(event.packet == 0, device);
    (device ? of_device : of_kernel) += event.value;
  }
  EXPECT_EQ(of_device, weights);
  EXPECT_EQ(of_kernel, 3 * static_cast<std::int64_t>(input.bytes.size()));
  for (const Event& event : seen.of(EventKind::kTransferOut)) {
    EXPECT_EQ(seen.source(event).name, "kernel 0");
  }
  EXPECT_EQ(seen.of(EventKind::kTransferOut).size(), 3u);
}

// The same in what leaves the program.
TEST(RuntimeEvents, ExportsShowTransfersByKernel) {
  scripted::ScriptedRuntime runtime({{.name = "card", .kernels = 2}});
  run_tasks(runtime.open({}), 64);
  const Seen seen(runtime.state());
  const std::string trace = metrics::perfetto_text(seen.events, seen.sources);
  for (const char* track : {"card kernel 0: DDR writes", "card kernel 0: DDR reads",
                            "card kernel 1: DDR writes", "card kernel 1: DDR reads"}) {
    EXPECT_NE(trace.find(std::string("{\"name\":\"") + track + "\"}"), std::string::npos) << track;
  }
  std::set<std::string> sources;
  std::istringstream lines(metrics::json_lines_text(seen.events, seen.sources));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json event = nlohmann::json::parse(line);
    if (event["kind"] != "transfer in") continue;
    EXPECT_GT(event["packet"], 0);
    sources.insert(event["source"]);
  }
  EXPECT_EQ(sources, (std::set<std::string>{"kernel 0", "kernel 1"}));
  const std::string figures = metrics::prometheus_text(runtime.state().collector().snapshot());
  for (const char* start : {"tessera_transfer_in_bytes_total{kernel=\"kernel 0\",device=\"card\"} ",
                            "tessera_transfer_in_bytes_total{kernel=\"kernel 1\",device=\"card\"} ",
                            "tessera_transfer_in_bytes_total{device=\"card\"} 0\n"}) {
    EXPECT_NE(figures.find(start), std::string::npos) << start << "\n" << figures;
  }
}

}  // namespace
}  // namespace tessera

// Processes that are forked off: what was opened before is an error there at once, everything can
// be released, and the child opens its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "network/network.h"
#include "tessera/runtime.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;

Network small_network() {
  GraphBuilder builder(11);
  graph::TensorId x = builder.input({1, 5, 12, 12});
  x = builder.conv(x, {.output_channels = 12, .kernel = 3, .pad = 1});
  builder.output(x);
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

Tensor some_input(const Network& network) {
  Tensor tensor = Tensor::zeros(network.inputs()[0].format, network.inputs()[0].dims);
  for (std::uint16_t& bits : tensor.as<std::uint16_t>()) bits = 0x3400;
  return tensor;
}

// Runs `look` in a child, whose failed expectations are this process's too. A child that hangs is
// ended by its alarm.
template <typename Look>
void in_child(const Look& look) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    look();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

std::string gone(const std::string& what) {
  return "this process was forked after the " + what + " was opened; open it again in the child";
}

// The thread sanitizer ends a child of several threads that starts one.
constexpr bool kChildMayStartThreads =
#ifdef __SANITIZE_THREAD__
    false;
#else
    true;
#endif

TEST(ForkedProcess, ASessionOfTheParentIsAnErrorAndOnesOwnIsRight) {
  const Network network = small_network();
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim, DeviceKind::kRef}) {
    Session session = Session::open(network, {.device = kind, .threads = 3}).value();
    const std::vector<Tensor> input = {some_input(network)};
    const Tensor expected = session.run(input)->outputs[0];
    in_child([&] {
      const auto run = session.run(input);
      ASSERT_FALSE(run.ok());
      EXPECT_EQ(run.error().code, ErrorCode::kUnavailable);
      EXPECT_EQ(run.error().message, gone("session"));
      {
        const Session let_go = std::move(session);
      }
      EXPECT_EQ(session.run(input).error().message,
                "this session was moved from; open another one");
      if (!kChildMayStartThreads) return;
      Session own = Session::open(network, {.device = kind, .threads = 3}).value();
      EXPECT_EQ(own.run(input)->outputs[0].bytes, expected.bytes);
    });
    EXPECT_EQ(session.run(input)->outputs[0].bytes, expected.bytes);
  }
}

// Everything that can be opened from a runtime.
struct Opened {
  explicit Opened(const Network& network)
      : input(some_input(network)),
        runtime(
            Runtime::open({.devices = {{.kernels = 2, .threads = 2}, {.kind = DeviceKind::kSim}}})
                .value()),
        model(runtime->load(network).value()),
        pipeline(
            runtime->open_pipeline(*model, {.tune = true, .tuning_log = [](const std::string&) {}})
                .value()),
        stream(pipeline->open_stream()),
        memory(runtime->open_memory("host0").value()),
        block(memory->allocate(64).value()),
        layers(runtime->load_layers(network, *memory).value()),
        recording(runtime->record_events(path).value()),
        view(runtime->open_live_view({.pipelines = {*pipeline}}).value()) {}
  ~Opened() { std::filesystem::remove(path); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  void let_go() {
    view.reset();
    recording.reset();
    layers.reset();
    block.reset();
    memory.reset();
    job.reset();
    stream.reset();
    pipeline.reset();
    model.reset();
    runtime.reset();
  }

  const std::string path = testing::TempDir() + "runtime_fork_test.json";
  const Tensor input;
  std::optional<Runtime> runtime;
  std::optional<Model> model;
  std::optional<Pipeline> pipeline;
  std::optional<Stream> stream;
  std::optional<Memory> memory;
  std::optional<Block> block;
  std::optional<Layers> layers;
  std::optional<EventRecording> recording;
  std::optional<LiveView> view;
  std::optional<Job> job;
};

void call_pipeline(Opened& of) {
  EXPECT_EQ(of.stream->submit({of.input}).error().message, gone("pipeline"));
  EXPECT_EQ(of.stream->submit_when_room({of.input}).error().message, gone("pipeline"));
  EXPECT_EQ(of.stream->submit_runs({{of.input}}).error().message, gone("pipeline"));
  EXPECT_EQ(of.stream->submit_batch({{of.input}}).error().message, gone("pipeline"));
  EXPECT_FALSE(of.stream->wait_for_room());
  of.stream->wait_until_done();
  EXPECT_TRUE(of.job->done());
  of.job->cancel();
  EXPECT_EQ(wait_any(std::span(&*of.job, 1)), 0U);
  const TaskOutcome outcome = of.job->wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(outcome.error().error.message, gone("task's pipeline"));
  EXPECT_EQ(of.pipeline->open_stream().submit({of.input}).error().message, gone("pipeline"));
  EXPECT_TRUE(of.pipeline->status().stages.empty());
  EXPECT_EQ(of.pipeline->set_threads("pre", 2).error().message, gone("pipeline"));
  EXPECT_EQ(of.pipeline->set_kernels("execute", 1).error().message, gone("pipeline"));
  of.pipeline->set_tuning(false);
  of.pipeline->set_debug({});
  of.pipeline->wait_until_done();
  EXPECT_EQ(of.pipeline->usable().error().message, gone("pipeline"));
}

void call_runtime(Opened& of, const Network& network) {
  Runtime& runtime = *of.runtime;
  EXPECT_EQ(runtime.load(network).error().message, gone("runtime"));
  EXPECT_EQ(runtime.load_in_device_form(network).error().message, gone("runtime"));
  EXPECT_EQ(runtime.open_pipeline(*of.model).error().message, gone("runtime"));
  EXPECT_EQ(runtime.open_operations().error().message, gone("runtime"));
  EXPECT_EQ(runtime.open_memory("host0").error().message, gone("runtime"));
  EXPECT_EQ(runtime.load_layers(network, *of.memory).error().message, gone("memory"));
  EXPECT_EQ(runtime.write_trace(of.path).error().message, gone("runtime"));
  EXPECT_EQ(runtime.write_events(of.path).error().message, gone("runtime"));
  EXPECT_EQ(runtime.record_events(of.path).error().message, gone("runtime"));
  EXPECT_EQ(runtime.open_live_view().error().message, gone("runtime"));
  EXPECT_EQ(runtime.prometheus(), "");
  EXPECT_EQ(runtime.usable().error().message, gone("runtime"));
  ASSERT_EQ(runtime.devices().size(), 2U);
  EXPECT_EQ(runtime.devices()[1].name, "sim0");
  EXPECT_EQ(runtime.devices()[1].fault, gone("runtime"));
  EXPECT_EQ(of.memory->allocate(8).error().message, gone("memory"));
  EXPECT_EQ(of.block->wrote().error().message, gone("memory"));
  EXPECT_EQ(of.block->fetch().error().message, gone("memory"));
  EXPECT_EQ(of.recording->progress().status.error().message, gone("recording"));
  EXPECT_EQ(of.recording->finish().error().message, gone("recording"));
  EXPECT_EQ(of.view->url().find("http://127.0.0.1:"), 0U);
}

// While all threads of the parent are at work.
TEST(ForkedProcess, EveryCallOnARuntimeOfTheParentComesBack) {
  const Network network = small_network();
  Opened opened(network);
  std::atomic<bool> stop{false};
  std::thread busy([&, submitting = *opened.stream]() mutable {
    while (!stop) {
      (void)submitting.submit_when_room({opened.input}, {.callback = [](TaskOutcome) {}});
    }
  });
  std::thread waiting([&, watched = *opened.pipeline]() mutable {
    while (!stop) watched.wait_until_done();
  });
  for (int round = 0; round < 12; ++round) {
    opened.job = opened.stream->submit_when_room({opened.input}).value();
    in_child([&] {
      call_pipeline(opened);
      call_runtime(opened, network);
      opened.let_go();
    });
    EXPECT_TRUE(opened.job->wait().ok());
  }
  stop = true;
  busy.join();
  waiting.join();
}

TEST(ForkedProcess, TheChildOpensARuntimeOfItsOwn) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  const Network network = small_network();
  const Tensor input = some_input(network);
  const auto run_once = [&] {
    Runtime runtime = Runtime::open().value();
    Pipeline pipeline = runtime.open_pipeline(*runtime.load(network)).value();
    return pipeline.open_stream().submit({input})->wait().result().outputs()[0].bytes;
  };
  Runtime of_parent = Runtime::open().value();
  const auto expected = run_once();
  in_child([&] {
    EXPECT_EQ(run_once(), expected);
    // And so does its own child.
    Runtime of_child = Runtime::open().value();
    in_child([&] {
      EXPECT_EQ(of_child.load(network).error().message, gone("runtime"));
      EXPECT_EQ(run_once(), expected);
    });
    EXPECT_TRUE(of_child.load(network).ok());
  });
  EXPECT_TRUE(of_parent.load(network).ok());
}

}  // namespace
}  // namespace tessera

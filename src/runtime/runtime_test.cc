// The public interface over scripted and real devices.
#include "tessera/runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "network/network.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;
using std::chrono::milliseconds;

// conv -> relu -> max pool -> conv, on a small image.
Network small_network() {
  GraphBuilder builder(11);
  const graph::TensorId x = builder.input({1, 5, 12, 12});
  graph::TensorId y = builder.conv(x, {.output_channels = 12, .kernel = 3, .pad = 1});
  y = builder.pool(y, PoolFunction::kMaximum, 2, 2, 0);
  y = builder.conv(y, {.output_channels = 7, .kernel = 3, .stride = 2, .pad = 1});
  builder.output(y);
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

Tensor some_input(const Network& network, unsigned seed) {
  Tensor tensor = Tensor::zeros(network.inputs()[0].format, network.inputs()[0].dims);
  unsigned state = seed * 2654435761U + 1;
  for (std::uint16_t& bits : tensor.as<std::uint16_t>()) {
    state = state * 1664525U + 1013904223U;
    bits = static_cast<std::uint16_t>((state >> 16 & 0x83FFU) | (((state >> 8) % 5 + 12) << 10));
  }
  return tensor;
}

std::vector<Tensor> expected_outputs(const Network& network, const Tensor& input) {
  auto session = Session::open(network, {.device = DeviceKind::kRef});
  return session->run({input})->outputs;
}

Runtime open(const std::vector<DeviceOptions>& devices) {
  auto runtime = Runtime::open({.devices = devices});
  EXPECT_TRUE(runtime.ok()) << runtime.error().to_string();
  return std::move(runtime).value();
}

TEST(Runtime, GivesTheBitsOfTheReferenceOnEveryDevice) {
  const Network network = small_network();
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef}) {
    Runtime runtime = open({{.kind = kind, .kernels = 2, .threads = 2}});
    const Model model = *runtime.load(network);
    Pipeline pipeline = *runtime.open_pipeline(model);
    Stream stream = pipeline.open_stream();
    std::vector<Job> jobs;
    for (unsigned i = 0; i < 12; ++i) jobs.push_back(*stream.submit({some_input(network, i)}));
    for (unsigned i = 0; i < 12; ++i) {
      TaskOutcome outcome = jobs[i].wait();
      ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
      EXPECT_EQ(outcome.result().outputs(), expected_outputs(network, some_input(network, i)));
      EXPECT_EQ(outcome.result().sequence, i);
      EXPECT_EQ(outcome.result().cycles > 0, kind == DeviceKind::kSim);
    }
    EXPECT_EQ(pipeline.status().succeeded, 12);
    EXPECT_EQ(pipeline.status().in_flight, 0U);
  }
}

TEST(Runtime, CallbacksComeInTheOrderOfTheStream) {
  const Network network = small_network();
  Runtime runtime = open({{.kind = DeviceKind::kHost, .kernels = 3, .threads = 3}});
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  pipeline.set_tuning(false);
  Stream stream = pipeline.open_stream();
  std::vector<std::uint64_t> order;
  for (unsigned i = 0; i < 40; ++i) {
    SubmitOptions options;
    options.callback = [&order](TaskOutcome outcome) {
      order.push_back(outcome.result().sequence);  // one callback of a stream at a time
    };
    ASSERT_TRUE(stream.submit({some_input(network, i)}, std::move(options)).ok());
  }
  stream.wait_until_done();
  ASSERT_EQ(order.size(), 40U);
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(order[i], i);
}

TEST(Runtime, TellsWhenThereIsNoRoomAndWaitsForIt) {
  const Network network = small_network();
  Runtime runtime = open({{}});
  std::atomic<bool> open_gate{false};
  PipelineOptions options;
  options.jobs_max = 2;
  options.stages = {{.name = "gate", .function = [&](Task&) -> Status {
                       open_gate.wait(false);
                       return {};
                     }}};
  Pipeline pipeline = *runtime.open_pipeline(options);
  Stream stream = pipeline.open_stream();
  Job first = *stream.submit({});
  Job second = *stream.submit({});
  const auto third = stream.submit({});
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().to_string(),
            "2 jobs are in flight, which is the most this pipeline holds; wait for room or open it "
            "with a larger jobs_max   [unavailable]");
  EXPECT_FALSE(stream.wait_for_room(milliseconds(1)));
  EXPECT_FALSE(first.done());
  EXPECT_FALSE(first.wait_for(milliseconds(1)).has_value());
  open_gate = true;
  open_gate.notify_all();
  EXPECT_TRUE(stream.wait_for_room());
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(second.wait().ok());
  EXPECT_TRUE(stream.submit_when_room({})->wait().ok());
}

TEST(Runtime, WaitAnyGivesAJobThatIsDone) {
  Runtime runtime = open({{}});
  std::atomic<int> opened{-1};
  PipelineOptions options;
  options.stages = {{.name = "gate",
                     .function = [&](Task& task) -> Status {
                       const int mine = *static_cast<int*>(task.payload.get());
                       for (int seen = opened; seen != mine; seen = opened) opened.wait(seen);
                       return {};
                     },
                     .threads = 3}};
  Pipeline pipeline = *runtime.open_pipeline(options);
  std::vector<Stream> streams;
  std::vector<Job> jobs;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(pipeline.open_stream());
    SubmitOptions submit;
    submit.payload = std::make_shared<int>(i);
    jobs.push_back(*streams.back().submit({}, std::move(submit)));
  }
  EXPECT_FALSE(wait_any(jobs, milliseconds(1)).has_value());
  for (const int next : {2, 0, 1}) {
    opened = next;
    opened.notify_all();
    const auto done = wait_any(jobs);
    ASSERT_TRUE(done.has_value());
    EXPECT_TRUE(jobs[*done].wait().ok());
    jobs[*done] = Job();  // stands for nothing, and counts as done
    std::erase_if(jobs, [](const Job& job) { return job.id() == 0; });
  }
}

TEST(Runtime, CancelledJobEndsAtOnceAndThoseBehindItGoOn) {
  Runtime runtime = open({{}});
  std::atomic<bool> open_gate{false};
  PipelineOptions options;
  options.stages = {{.name = "gate", .function = [&](Task&) -> Status {
                       open_gate.wait(false);
                       return {};
                     }}};
  Pipeline pipeline = *runtime.open_pipeline(options);
  Stream stream = pipeline.open_stream();
  Job first = *stream.submit({}), second = *stream.submit({});
  first.cancel();  // although its packet is in the hands of the stage
  TaskOutcome outcome = first.wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().failure, TaskFailure::kCancelled);
  EXPECT_EQ(outcome.error().sequence, 0U);
  open_gate = true;
  open_gate.notify_all();
  EXPECT_TRUE(second.wait().ok());
  pipeline.wait_until_done();
  EXPECT_EQ(pipeline.status().cancelled, 1);
  EXPECT_EQ(pipeline.status().succeeded, 1);
  EXPECT_EQ(second.wait().error().error.message,
            "the outcome of task " + std::to_string(second.id()) + " was taken already");
}

TEST(Runtime, DeadlineEndsATaskThatNobodyLooksAt) {
  Runtime runtime = open({{}});
  std::atomic<bool> open_gate{false};
  PipelineOptions options;
  options.stages = {{.name = "gate", .function = [&](Task&) -> Status {
                       open_gate.wait(false);
                       return {};
                     }}};
  Pipeline pipeline = *runtime.open_pipeline(options);
  Stream stream = pipeline.open_stream();
  Job held = *stream.submit({});
  SubmitOptions late;
  late.deadline = milliseconds(1);
  Job job = *pipeline.open_stream().submit({}, std::move(late));
  TaskOutcome outcome = job.wait();  // the only thread is held, and still it ends
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().failure, TaskFailure::kDeadline);
  open_gate = true;
  open_gate.notify_all();
  EXPECT_TRUE(held.wait().ok());
  pipeline.wait_until_done();
  EXPECT_EQ(pipeline.status().late, 1);
}

TEST(Runtime, StagesOfTheApplicationMakeSeveralRunsOfOneTask) {
  const Network network = small_network();
  Runtime runtime =
      open({{.kind = DeviceKind::kHost, .name = "a"}, {.kind = DeviceKind::kRef, .name = "b"}});
  const Model model = *runtime.load(network);
  std::vector<StageOptions> stages = default_stages(model);
  stages[1].devices = {"b"};
  stages.insert(stages.begin(), {.name = "make", .function = [&](Task& task) -> Status {
                                   task.runs.clear();
                                   for (unsigned i = 0; i <= task.sequence; ++i) {
                                     task.runs.push_back({some_input(network, i)});
                                   }
                                   return {};
                                 }});
  PipelineOptions options;
  options.stages = stages;
  Pipeline pipeline = *runtime.open_pipeline(options);
  Stream stream = pipeline.open_stream();
  std::vector<Job> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(*stream.submit_runs({}));
  for (std::size_t i = 0; i < 4; ++i) {
    TaskOutcome outcome = jobs[i].wait();
    ASSERT_TRUE(outcome.ok());
    ASSERT_EQ(outcome.result().runs.size(), i + 1);
    EXPECT_EQ(outcome.result().device, "b");
    for (unsigned run = 0; run <= i; ++run) {
      EXPECT_EQ(outcome.result().runs[run], expected_outputs(network, some_input(network, run)));
    }
  }
  EXPECT_EQ(runtime.devices()[0].runs, 0);
  EXPECT_EQ(runtime.devices()[1].runs, 10);
}

TEST(Runtime, BatchesAndStagesThatAreSkippedInLockStep) {
  const Network network = small_network();
  Runtime runtime = open({{.kernels = 2, .threads = 2}});
  std::atomic<int> seen{0};
  PipelineOptions options;
  options.handover = Handover::kLockStep;
  options.hint = Hint::kLatency;
  options.jobs_max = 4;
  options.stages = default_stages(*runtime.load(network));
  options.stages.insert(options.stages.begin(), {.name = "look", .function = [&](Task&) -> Status {
                                                   ++seen;
                                                   return {};
                                                 }});
  Pipeline pipeline = *runtime.open_pipeline(options);
  Stream stream = pipeline.open_stream();
  std::vector<std::vector<Tensor>> tasks;
  for (unsigned i = 0; i < 10; ++i) tasks.push_back({some_input(network, i)});
  std::vector<Job> jobs = *stream.submit_batch(tasks);
  SubmitOptions skipping;
  skipping.skipped_stages = {"look"};
  stream.wait_for_room();
  jobs.push_back(*stream.submit({some_input(network, 10)}, skipping));
  for (unsigned i = 0; i < 11; ++i) {
    TaskOutcome outcome = jobs[i].wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
    EXPECT_EQ(outcome.result().outputs(), expected_outputs(network, some_input(network, i)));
  }
  EXPECT_EQ(seen, 10);
  skipping.skipped_stages = {"sleep"};
  EXPECT_EQ(stream.submit({}, skipping).error().message,
            "there is no stage 'sleep'; there are look, pre, execute, post");
  EXPECT_EQ(pipeline.status().in_flight, 0U);
}

TEST(Runtime, PicturesAreDecodedByAStage) {
  GraphBuilder builder(4);
  const graph::TensorId x = builder.input({1, 3, 6, 8});
  builder.output(builder.unary(x, UnaryFunction::kRelu));
  const Network network =
      network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
  Runtime runtime = open({{}});
  const Model model = *runtime.load(network);
  PipelineOptions options;
  options.stages = default_stages(model);
  options.stages.insert(options.stages.begin(), picture_stage(model));
  Pipeline pipeline = *runtime.open_pipeline(options);
  Stream stream = pipeline.open_stream();
  const std::string path = testing::TempDir() + "tessera_picture_stage.png";
  Picture picture = Picture::blank(16, 12, 51);  // 0.2 of 255
  ASSERT_TRUE(write_png(path, picture).ok());
  const auto submit = [&](const std::string& file) {
    SubmitOptions submit;
    submit.payload = std::make_shared<std::string>(file);
    return stream.submit_runs({}, std::move(submit))->wait();
  };
  TaskOutcome good = submit(path);
  ASSERT_TRUE(good.ok()) << good.error().error.message;
  for (const std::uint16_t bits : good.result().outputs()[0].as<std::uint16_t>()) {
    ASSERT_EQ(bits, 0x3266);  // 0.2 in f16
  }
  TaskOutcome bad = submit("no such picture.png");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().stage, "decode");
  std::remove(path.c_str());
}

// Behind a function of the application: what that makes of a task is seen when it is there.
TEST(Runtime, WrongInputEndsItsOwnTaskAndNamesThePlace) {
  const Network network = small_network();
  Runtime runtime = open({{}});
  PipelineOptions options;
  options.stages = default_stages(*runtime.load(network));
  options.stages.insert(options.stages.begin(),
                        {.name = "pass", .function = [](Task&) { return Status(); }});
  Pipeline pipeline = *runtime.open_pipeline(options);
  Stream stream = pipeline.open_stream();
  Job bad = *stream.submit({Tensor::zeros(Format::kF16, {1, 5, 12, 11})});
  Job good = *stream.submit({some_input(network, 1)});
  TaskOutcome outcome = bad.wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().stage, "pre");
  EXPECT_EQ(outcome.error().error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(outcome.error().error.message.find("found f16 [1x5x12x11], the model takes f16 "
                                               "[1x5x12x12]"),
            std::string::npos)
      << outcome.error().error.message;
  EXPECT_TRUE(good.wait().ok());
}

TEST(Runtime, FloatsAreNarrowedOnTheWayInAndWidenedOnTheWayOut) {
  const Network network = small_network();
  Runtime runtime = open({{}});
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  Tensor wide = Tensor::zeros(Format::kF32, network.inputs()[0].dims);
  for (float& value : wide.as<float>()) value = 0.25F;
  Tensor narrow = Tensor::zeros(Format::kF16, wide.dims);
  for (std::uint16_t& bits : narrow.as<std::uint16_t>()) bits = 0x3400;  // 0.25
  TaskOutcome outcome = pipeline.open_stream().submit({wide})->wait();
  ASSERT_TRUE(outcome.ok());
  const Tensor& output = outcome.result().outputs()[0];
  EXPECT_EQ(output.format, Format::kF32);
  const Tensor halves = expected_outputs(network, narrow)[0];
  for (std::size_t i = 0; i < halves.as<std::uint16_t>().size(); ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(output.as<float>()[i]);
    EXPECT_EQ(bits >> 31, halves.as<std::uint16_t>()[i] >> 15);
    EXPECT_EQ((bits >> 13 & 0x3FFU), halves.as<std::uint16_t>()[i] & 0x3FFU) << i;
  }
}

// float32 in and out, float16 within: Conv's neighbours are conversions.
TEST(Runtime, InDeviceFormTheHostConvertsAndTheBitsAreTheSame) {
  GraphBuilder builder(12);
  const graph::TensorId x = builder.input({1, 5, 12, 12}, Format::kF32);
  graph::TensorId y = builder.unary(x, UnaryFunction::kIdentity);
  y = builder.conv(y, {.output_channels = 12, .kernel = 3, .pad = 1});
  y = builder.unary(y, UnaryFunction::kIdentity, Format::kF32);
  builder.output(y);
  const Network network =
      network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
  Tensor input = Tensor::zeros(Format::kF32, network.inputs()[0].dims);
  float value = 0.1F;
  for (float& element : input.as<float>()) element = value = value * -1.013F;
  Runtime runtime = open({{.kind = DeviceKind::kSim}});
  std::int64_t cycles = 0, bytes = 0;
  for (const bool device_form : {false, true}) {
    const Model model =
        device_form ? *runtime.load_in_device_form(network) : *runtime.load(network);
    const std::int64_t before = runtime.devices()[0].bytes_in;
    Pipeline pipeline = *runtime.open_pipeline(model);
    const TaskOutcome outcome = pipeline.open_stream().submit({input})->wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
    EXPECT_EQ(outcome.result().outputs(), expected_outputs(network, input));
    const std::int64_t moved = runtime.devices()[0].bytes_in - before;
    if (device_form) {
      EXPECT_LT(outcome.result().cycles, cycles);
      EXPECT_EQ(2 * moved, bytes);
    }
    cycles = outcome.result().cycles;
    bytes = moved;
  }
}

// float32 in and out, float16 within.
TEST(Runtime, WhatIsNotTheModelsIsNotConvertedBack) {
  GraphBuilder builder(12);
  const graph::TensorId x = builder.input({1, 5, 12, 12}, Format::kF32);
  graph::TensorId y = builder.unary(x, UnaryFunction::kIdentity);
  y = builder.conv(y, {.output_channels = 12, .kernel = 3, .pad = 1});
  builder.output(builder.unary(y, UnaryFunction::kIdentity, Format::kF32));
  const Network network =
      network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
  Runtime runtime = open({{}});
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load_in_device_form(network));
  SubmitOptions options;
  options.skipped_stages = {"execute"};
  Stream stream = pipeline.open_stream();
  const TaskOutcome outcome =
      stream.submit({Tensor::zeros(Format::kF32, {1, 5, 12, 12})}, options)->wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().stage, "post");
  EXPECT_NE(outcome.error().error.message.find(
                "found 1440 bytes of f16, what is converted has 3456 bytes of f16; was a stage "
                "skipped, or did one in between change it?"),
            std::string::npos)
      << outcome.error().error.message;
  options.skipped_stages = {"pre"};
  EXPECT_NE(stream.submit({Tensor::zeros(Format::kF32, {1, 5, 12, 12})}, options)
                .error()
                .message.find("found f32 [1x5x12x12], the model takes f16 [1x5x12x12]"),
            std::string::npos);
}

TEST(Runtime, OutputsThatAStageLeftIncompleteAreNotRead) {
  const Network network = small_network();
  Runtime runtime = open({{}});
  const Model model = *runtime.load(network);
  PipelineOptions options;
  options.stages = default_stages(model);
  options.stages.insert(options.stages.begin() + 2, {.name = "spoil", .function = [](Task& task) {
                                                       task.runs[0][0].bytes.resize(2);
                                                       return Status();
                                                     }});
  Pipeline pipeline = *runtime.open_pipeline(options);
  const TaskOutcome outcome = pipeline.open_stream()
                                  .submit({Tensor::zeros(Format::kF32, network.inputs()[0].dims)})
                                  ->wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().stage, "post");
}

TEST(Session, WhatTheProgressCallbackThrowsIsTheErrorOfTheRun) {
  const Network network = small_network();
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kRef}) {
    int calls = 0;
    bool throws = true;
    const SessionOptions options{.device = kind, .progress = [&](const std::string&, double) {
                                   ++calls;
                                   if (throws) throw std::runtime_error("stop");
                                 }};
    Session session = Session::open(network, options).value();
    const auto run = session.run({some_input(network, 1)});
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.error().message, "the progress callback threw: stop");
    EXPECT_EQ(calls, 1);
    throws = false;
    EXPECT_EQ(session.run({some_input(network, 1)})->outputs,
              expected_outputs(network, some_input(network, 1)));
  }
}

TEST(Session, WhatTheProgressCallbackThrowsIsTheErrorOfTheLoad) {
  const LoadOptions options{
      .progress = [](const std::string&, double) { throw std::runtime_error("stop"); }};
  const auto network =
      Network::load("/usr/share/libonnx-testdata/data/node/test_relu/model.onnx", options);
  EXPECT_EQ(network.error().message, "the progress callback threw: stop");
}

TEST(Session, ALoadTellsOfItsPassesAndEndsAtTheDeadline) {
  constexpr const char* kModel = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";
  std::vector<std::string> passes;
  LoadOptions options{.progress = [&](const std::string& pass, double fraction) {
    EXPECT_GE(fraction, 0.0);
    EXPECT_LE(fraction, 1.0);
    if (passes.empty() || passes.back() != pass) passes.push_back(pass);
  }};
  ASSERT_TRUE(Network::load(kModel, options).ok());
  std::size_t found = 0;
  for (const char* const pass : {"import", "infer", "lower", "fuse_patterns", "plan_storages",
                                 "choose_views", "make_plan", "derive_dependencies", "compile"}) {
    const auto at =
        std::find(passes.begin() + static_cast<std::ptrdiff_t>(found), passes.end(), pass);
    ASSERT_NE(at, passes.end()) << pass;
    found = static_cast<std::size_t>(at - passes.begin());
  }
  options.deadline = std::chrono::steady_clock::now();
  const auto late = Network::load(kModel, options);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().to_string(),
            "the deadline passed in the pass 'infer', at its begin; give it more time   "
            "[unavailable]");
}

TEST(Runtime, DebuggingComparesAShareOfTheTasksWithTheHost) {
  const Network network = small_network();
  Runtime runtime = open({{.kind = DeviceKind::kSim}});
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  pipeline.set_debug({.mode = DebugMode::kBoth, .every = 4});
  Stream stream = pipeline.open_stream();
  std::vector<Job> jobs;
  for (unsigned i = 0; i < 12; ++i) jobs.push_back(*stream.submit({some_input(network, i)}));
  for (Job& job : jobs) EXPECT_TRUE(job.wait().ok());
  EXPECT_EQ(pipeline.status().compared, 3);
  EXPECT_EQ(pipeline.status().mismatches, 0);
  pipeline.set_debug({.mode = DebugMode::kHost});
  TaskOutcome host = stream.submit({some_input(network, 1)})->wait();
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(host.result().device, "debug");
  EXPECT_EQ(host.result().outputs(), expected_outputs(network, some_input(network, 1)));
}

TEST(Runtime, DeviceWithoutValuesIsNotCompared) {
  const Network network = small_network();
  Runtime runtime = open({{.kind = DeviceKind::kSim, .timing_only = true}});
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  Stream stream = pipeline.open_stream();
  EXPECT_TRUE(stream.submit({some_input(network, 1)})->wait().ok());
  pipeline.set_debug({.mode = DebugMode::kBoth});
  const TaskOutcome outcome = stream.submit({some_input(network, 1)})->wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().failure, TaskFailure::kError);
  EXPECT_EQ(outcome.error().error.message,
            "device 'sim0' computes no values (timing only), so there is nothing to compare; open "
            "it without, or do not compare");
  EXPECT_EQ(pipeline.status().mismatches, 0);
}

// A task that meets a trap is in error with it; those before and behind it are not. On a core of two
// functions likewise.
TEST(Runtime, ATrapEndsItsTaskAndNoOther) {
  const Network network = small_network();
  Tensor bad = some_input(network, 2);
  bad.as<std::uint16_t>()[100] = 0x7E00;  // NaN
  Runtime runtime = open({{.kind = DeviceKind::kSim, .traps = kTrapNan}});
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  Stream stream = pipeline.open_stream();
  EXPECT_TRUE(stream.submit({some_input(network, 1)})->wait().ok());
  const TaskOutcome outcome = stream.submit({bad})->wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().failure, TaskFailure::kError);
  EXPECT_NE(outcome.error().error.message.find("trap nan: a NaN among the operands"),
            std::string::npos)
      << outcome.error().error.message;
  EXPECT_TRUE(stream.submit({some_input(network, 3)})->wait().ok());
  Runtime without = open({{.kind = DeviceKind::kSim}});
  Pipeline other = *without.open_pipeline(*without.load(network));
  EXPECT_TRUE(other.open_stream().submit({bad})->wait().ok());
  Runtime functions = open({{.kind = DeviceKind::kSim, .virtual_functions = 2, .traps = kTrapNan}});
  Pipeline first = *functions.open_pipeline(*functions.load(network, {"sim0.0"}));
  EXPECT_FALSE(first.open_stream().submit({bad})->wait().ok());
  EXPECT_TRUE(first.open_stream().submit({some_input(network, 1)})->wait().ok());
}

TEST(Runtime, WeightsGoOverOnceWhileTheModelIsThere) {
  const Network network = small_network();
  Runtime runtime = open({{.kind = DeviceKind::kSim}});
  std::optional<Model> model = *runtime.load(network);
  const std::int64_t moved = runtime.devices()[0].bytes_in;
  EXPECT_GT(moved, 0);
  EXPECT_EQ(runtime.devices()[0].weight_bytes, moved);
  std::optional<Pipeline> pipeline = *runtime.open_pipeline(*runtime.load(network));
  EXPECT_EQ(runtime.devices()[0].weight_bytes, moved);
  model.reset();
  EXPECT_TRUE(runtime.load(network).ok());  // the pipeline has it
  EXPECT_EQ(runtime.devices()[0].weight_bytes, moved);
  pipeline.reset();
  EXPECT_TRUE(runtime.load(network).ok());
  EXPECT_EQ(runtime.devices()[0].weight_bytes, 2 * moved);
}

TEST(Runtime, LastHandleMayGoInACallback) {
  std::atomic<bool> called{false};
  Job job;
  {
    Runtime runtime = open({{}});
    auto pipeline = std::make_shared<Pipeline>(*runtime.open_pipeline(PipelineOptions{
        .stages = {{.name = "nothing", .function = [](Task&) -> Status { return {}; }}}}));
    SubmitOptions options;
    options.callback = [pipeline, &called](TaskOutcome) {
      called = true;
      called.notify_all();
    };
    job = *pipeline->open_stream().submit({}, std::move(options));
  }
  called.wait(false);
  EXPECT_EQ(job.wait().error().failure, TaskFailure::kError);  // the callback had the outcome
}

// What a stage or a payload holds goes on a thread that the pipeline waits for.
TEST(Runtime, LastHandleMayGoInAStageOrWithAPayload) {
  for (const bool in_stage : {true, false}) {
    std::atomic<bool> gone{false};
    Job job;
    {
      Runtime runtime = open({{}});
      auto held = std::make_shared<std::shared_ptr<Pipeline>>();
      std::atomic<bool> open_gate{false};
      const auto stage = [held, in_stage, &open_gate](Task&) -> Status {
        open_gate.wait(false);
        if (in_stage) held->reset();
        return Error{ErrorCode::kInvalidArgument, "no result, so the payload goes with the packet"};
      };
      *held = std::make_shared<Pipeline>(
          *runtime.open_pipeline({.stages = {{.name = "drop", .function = stage}}}));
      SubmitOptions options;
      if (!in_stage) {
        options.payload = std::shared_ptr<void>(new std::shared_ptr<Pipeline>(*held), [](void* p) {
          delete static_cast<std::shared_ptr<Pipeline>*>(p);
        });
      }
      options.callback = [&gone](TaskOutcome outcome) {
        EXPECT_EQ(outcome.error().stage, "drop");
        gone = true;
        gone.notify_all();
      };
      job = *(*held)->open_stream().submit({}, std::move(options));
      if (!in_stage) held->reset();
      open_gate = true;
      open_gate.notify_all();
      gone.wait(false);
    }
  }
}

TEST(RuntimeErrors, WrongOptionsAreNamed) {
  const auto message = [](const DeviceOptions& device) {
    return Runtime::open({.devices = {device}}).error().message;
  };
  EXPECT_EQ(message({.kernels = 0}), "device 'host0': 0 kernels; allowed 1 to 64");
  EXPECT_EQ(message({.pace = 1}),
            "device 'host0': pace and timing-only are of the device sim, which has a clock");
  EXPECT_EQ(Runtime::open({.devices = {}}).error().message,
            "a runtime without a device; give at least one");
  EXPECT_EQ(message({.threads = 1'000'000}),
            "device 'host0': 1000000 threads; allowed 0 (one a core) to 1024");
  EXPECT_EQ(message({.threads = -1}), "device 'host0': -1 threads; allowed 0 (one a core) to 1024");
  EXPECT_EQ(message({.kind = DeviceKind::kSim, .pace = 1e-300}),
            "device 'sim0': a pace of 1e-300; allowed 0 (none) and 1e-9 to 1e9");
  EXPECT_EQ(message({.kind = DeviceKind::kSim, .pace = std::nan("")}),
            "device 'sim0': a pace of nan; allowed 0 (none) and 1e-9 to 1e9");
  EXPECT_EQ(message({.hang_timeout = milliseconds(-5)}),
            "device 'host0': a hang timeout of -5 ms; allowed 0 (none) to a year");
  EXPECT_EQ(Runtime::open({.devices = std::vector<DeviceOptions>(65)}).error().message,
            "a runtime with 65 devices; allowed 1 to 64");
  Runtime runtime = open({{}});
  const Network network = small_network();
  EXPECT_EQ(runtime.load(network, {"card"}).error().message,
            "there is no device 'card'; there are host0");
  const Model model = *runtime.load(network);
  Pipeline pipeline = *runtime.open_pipeline(model);
  EXPECT_EQ(pipeline.set_threads("exec", 2).error().message,
            "there is no stage 'exec'; there are pre, execute, post");
  EXPECT_EQ(pipeline.set_threads("pre", 0).error().message,
            "stage 'pre': 0 threads; allowed 1 to 256");
  EXPECT_EQ(pipeline.set_kernels("execute", 2).error().message,
            "stage 'execute': 2 kernels; its devices have 1, allowed 1 to 1");
  EXPECT_EQ(pipeline.set_kernels("pre", 1).error().message,
            "stage 'pre': only execute stages have kernels");
  PipelineOptions twice;
  twice.stages = default_stages(model);
  twice.stages[2].name = "pre";
  EXPECT_EQ(runtime.open_pipeline(twice).error().message,
            "stage 'pre': there are two of this name; give each a name of its own");
}

TEST(RuntimeErrors, LoadingNamesTheDeviceThatRefuses) {
  Runtime runtime = open({{.kind = DeviceKind::kHost}, {.kind = DeviceKind::kSim, .arch = "edge"}});
  const auto refused = runtime.load(small_network());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message.substr(0, 60),
            "loading to device 'sim0': the package was compiled for chip ");
}

TEST(RuntimeErrors, PipelinesWithAbsurdNumbersAreRefused) {
  Runtime runtime = open({{}});
  const auto message = [&](const PipelineOptions& options) {
    return runtime.open_pipeline(options).error().message;
  };
  const StageOptions nothing{.name = "nothing", .function = [](Task&) { return Status(); }};
  PipelineOptions options{.stages = {nothing}, .jobs_max = 0};
  EXPECT_EQ(message(options), "0 jobs in flight; allowed 1 to 1048576");
  options = {.stages = {nothing}};
  options.stages[0].threads = 1'000'000;
  EXPECT_EQ(message(options), "stage 'nothing': 1000000 threads; allowed 1 to 256");
  options.stages[0] = nothing;
  options.stages[0].batch = 1'000'000'000;
  EXPECT_EQ(message(options), "stage 'nothing': 1000000000 packets a batch; allowed 1 to 64");
  options.stages = {nothing, nothing};
  options.stages[1].name = "second";
  options.stages[1].capacity = SIZE_MAX;
  EXPECT_EQ(message(options),
            "stage 'second': 18446744073709551615 waiting packets; allowed 1 to 1048576");
  options.stages = std::vector<StageOptions>(17, nothing);
  EXPECT_EQ(message(options), "a pipeline of 17 stages; allowed 1 to 16");
  options = {.stages = {nothing}, .debug = {.mode = DebugMode::kBoth, .every = 0}};
  EXPECT_EQ(message(options), "debugging one of every 0 tasks; allowed 1 and more");
}

TEST(Runtime, APipelineThatNobodyHoldsFinishesWhatIsInside) {
  const Network network = small_network();
  for (int round = 0; round < 20; ++round) {
    Runtime runtime = open({{.kind = DeviceKind::kHost, .kernels = 2, .threads = 2}});
    std::vector<Job> jobs;
    {
      const Model model = *runtime.load(network);
      Pipeline pipeline = *runtime.open_pipeline(model);
      Stream stream = pipeline.open_stream();
      for (unsigned i = 0; i < 8; ++i) jobs.push_back(*stream.submit({some_input(network, i)}));
    }
    for (Job& job : jobs) EXPECT_TRUE(job.wait().ok());
  }
}

}  // namespace
}  // namespace tessera

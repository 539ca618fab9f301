// Networks on blocks of device memory and on memory of the application's: what is moved, what is
// copied, and which tasks wait.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "network/network.h"
#include "tessera/runtime.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;

// [1, 3, 16, 16] of f16, which are 1,536 bytes, to the same: networks that follow each other.
Network link_of_chain(std::uint64_t seed) {
  GraphBuilder builder(seed);
  const graph::TensorId x = builder.input({1, 3, 16, 16});
  graph::TensorId y = builder.conv(x, {.output_channels = 3, .kernel = 3, .pad = 1});
  y = builder.unary(y, UnaryFunction::kTanh);
  builder.output(y);
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

// y = tanh(conv(x + h)), h' = conv(x + h): a state of the size of the input.
Network recurrent() {
  GraphBuilder builder(5);
  const graph::TensorId x = builder.input({1, 3, 8, 8}), h = builder.input({1, 3, 8, 8});
  const graph::TensorId sum = builder.binary(x, h, BinaryFunction::kAdd);
  const graph::TensorId next = builder.conv(sum, {.output_channels = 3, .kernel = 3, .pad = 1});
  builder.output(builder.unary(next, UnaryFunction::kTanh));
  builder.output(next);
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

constexpr std::int64_t kBytes = 1536;

std::vector<Network> four_networks() {
  std::vector<Network> networks;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) networks.push_back(link_of_chain(seed));
  return networks;
}

Tensor some_tensor(const TensorDescription& what, unsigned seed) {
  Tensor tensor = Tensor::zeros(what.format, what.dims);
  unsigned state = seed * 2654435761U + 1;
  for (std::uint16_t& bits : tensor.as<std::uint16_t>()) {
    state = state * 1664525U + 1013904223U;
    bits = static_cast<std::uint16_t>((state >> 16 & 0x83FFU) | (((state >> 8) % 5 + 12) << 10));
  }
  return tensor;
}

std::vector<Tensor> reference(const Network& network, const std::vector<Tensor>& inputs) {
  return Session::open(network, {.device = DeviceKind::kRef})->run(inputs)->outputs;
}

Tensor chained_reference(const std::vector<Network>& networks, Tensor x) {
  for (const Network& network : networks) x = reference(network, {x})[0];
  return x;
}

Runtime open(const std::vector<DeviceOptions>& devices) {
  auto runtime = Runtime::open({.devices = devices});
  EXPECT_TRUE(runtime.ok()) << runtime.error().to_string();
  return std::move(runtime).value();
}

struct Moved {
  std::int64_t in = 0, out = 0, copied = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Moved& m) {
    return out << m.in << " in, " << m.out << " out, " << m.copied << " copied";
  }
};
// Without weights.
Moved moved(const Runtime& runtime, std::size_t device = 0) {
  const DeviceStatus status = runtime.devices()[device];
  return {status.bytes_in - status.weight_bytes, status.bytes_out, status.bytes_copied};
}

TaskResult result_of(Job& job) {
  TaskOutcome outcome = job.wait();
  EXPECT_TRUE(outcome.ok()) << outcome.error().error.to_string();
  return outcome.ok() ? std::move(outcome.result()) : TaskResult{};
}

const std::vector<DeviceKind> kKinds = {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef};

// Each device's bytes: those with memory of their own move, the others neither move nor copy; ref,
// which computes on tensors of its own, copies what it reads and writes.
Moved ideal(DeviceKind kind, std::int64_t in, std::int64_t out, std::int64_t read_and_written) {
  return kind == DeviceKind::kSim    ? Moved{in, out, 0}
         : kind == DeviceKind::kHost ? Moved{}
                                     : Moved{0, 0, read_and_written};
}

TEST(Blocks, FourNetworksInARowMoveTheFirstInputAndTheLastOutput) {
  const std::vector<Network> networks = four_networks();
  const Tensor input = some_tensor(networks[0].inputs()[0], 1);
  const Tensor expected = chained_reference(networks, input);
  for (const DeviceKind kind : kKinds) {
    Runtime runtime = open({{.kind = kind, .kernels = 2, .threads = 2}});
    Memory memory = *runtime.open_memory(runtime.devices()[0].name);
    std::vector<Pipeline> pipelines;
    for (const Network& network : networks) {
      pipelines.push_back(*runtime.open_pipeline(*runtime.load(network)));
    }
    std::vector<Block> between;
    for (int i = 0; i < 3; ++i) between.push_back(*memory.allocate(networks[0].outputs()[0]));
    // All at once: each enters when the one before is done.
    std::vector<Stream> streams;
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < 4; ++i) {
      streams.push_back(pipelines[i].open_stream());
      NetworkTask task;
      if (i == 0) task.inputs.emplace_back(input);
      if (i > 0) task.inputs.emplace_back(between[i - 1]);
      if (i < 3) task.outputs = {{.block = between[i]}};
      jobs.push_back(*streams[i].submit_network(std::move(task)));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const TaskResult result = result_of(jobs[i]);
      EXPECT_TRUE(result.blocks.at(0).has_value());
      EXPECT_EQ(result.outputs().at(0).bytes.size(), 0U);
      EXPECT_EQ(result.outputs().at(0).dims, networks[0].outputs()[0].dims);
    }
    EXPECT_EQ(result_of(jobs[3]).outputs().at(0), expected);
    EXPECT_EQ(moved(runtime), ideal(kind, kBytes, kBytes, 8 * kBytes));
    // What lies between is there to be looked at.
    ASSERT_TRUE(between[0].fetch().ok());
    EXPECT_TRUE(std::ranges::equal(between[0].bytes(), reference(networks[0], {input})[0].bytes));
  }
}

TEST(Blocks, FourNetworksOfOnePipelineMoveTheFirstInputAndTheLastOutput) {
  const std::vector<Network> networks = four_networks();
  const Tensor input = some_tensor(networks[0].inputs()[0], 2);
  const Tensor expected = chained_reference(networks, input);
  for (const DeviceKind kind : kKinds) {
    // One kernel: a run that is taken back from a late one would go over once more.
    Runtime runtime = open({{.kind = kind, .kernels = 1, .threads = 2}});
    PipelineOptions options;
    for (const Network& network : networks) {
      const Model model = *runtime.load(network);
      for (StageOptions& stage : default_stages(model)) {
        stage.name = std::to_string(options.stages.size());
        options.stages.push_back(std::move(stage));
      }
    }
    Pipeline pipeline = *runtime.open_pipeline(std::move(options));
    Stream stream = pipeline.open_stream();
    std::vector<Job> jobs;
    for (int i = 0; i < 10; ++i) jobs.push_back(*stream.submit({input}));
    for (Job& job : jobs) EXPECT_EQ(result_of(job).outputs().at(0), expected);
    EXPECT_EQ(moved(runtime), ideal(kind, 10 * kBytes, 10 * kBytes, 80 * kBytes));
    // float32 in and out: narrowed once and widened once, not between the networks.
    Tensor wide = Tensor::zeros(Format::kF32, input.dims);
    TaskOutcome outcome = stream.submit({wide})->wait();
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome.result().outputs()[0].format, Format::kF32);
    EXPECT_EQ(moved(runtime), ideal(kind, 11 * kBytes, 11 * kBytes, 88 * kBytes));
  }
}

// A function of the application between two networks sees ordinary tensors.
TEST(Blocks, AStageOfTheApplicationFetchesWhatItLooksAt) {
  const std::vector<Network> networks = four_networks();
  const Tensor input = some_tensor(networks[0].inputs()[0], 3);
  Runtime runtime = open({{.kind = DeviceKind::kSim}});
  Memory memory = *runtime.open_memory("sim0");
  const Model first = *runtime.load(networks[0]), second = *runtime.load(networks[1]);
  std::vector<Tensor> seen;
  PipelineOptions options;
  options.stages = {{.name = "look",
                     .function = [&](Task& task) -> Status {
                       seen.push_back(task.runs.at(0).at(0));
                       return {};
                     }},
                    {.kind = StageKind::kExecute, .name = "first", .model = first},
                    {.name = "look again",
                     .function = [&](Task& task) -> Status {
                       seen.push_back(task.runs.at(0).at(0));
                       return {};
                     }},
                    {.kind = StageKind::kExecute, .name = "second", .model = second}};
  Pipeline pipeline = *runtime.open_pipeline(std::move(options));
  Stream stream = pipeline.open_stream();
  const Block block = *memory.upload(input);
  Job job = *stream.submit_network({.inputs = {block}});
  const Tensor middle = reference(networks[0], {input})[0];
  EXPECT_EQ(result_of(job).outputs().at(0), reference(networks[1], {middle})[0]);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], input);
  EXPECT_EQ(seen[1], middle);
  EXPECT_EQ(moved(runtime), (Moved{2 * kBytes, 2 * kBytes, 0}));
}

TEST(Blocks, APictureThatSeveralModelsReadGoesOverOnce) {
  const std::vector<Network> networks = four_networks();
  const Tensor picture = some_tensor(networks[0].inputs()[0], 4);
  Runtime runtime = open({{.kind = DeviceKind::kSim, .kernels = 2}});
  Memory memory = *runtime.open_memory("sim0");
  Pipeline one = *runtime.open_pipeline(*runtime.load(networks[0]));
  Pipeline two = *runtime.open_pipeline(*runtime.load(networks[1]));
  Stream a = one.open_stream(), b = two.open_stream();
  Block block = *memory.upload(picture);
  std::vector<Job> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(*a.submit_network({.inputs = {block}}));
    jobs.push_back(*b.submit_network({.inputs = {block}}));
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(result_of(jobs[i]).outputs().at(0), reference(networks[i % 2], {picture})[0]);
  }
  EXPECT_EQ(moved(runtime), (Moved{kBytes, 6 * kBytes, 0}));
  // Changed, it is sent again; and once.
  block.bytes()[1] ^= std::byte{1};
  ASSERT_TRUE(block.wrote().ok());
  for (int i = 0; i < 2; ++i) {
    Job job = *a.submit_network({.inputs = {block}});
    result_of(job);
  }
  EXPECT_EQ(moved(runtime), (Moved{2 * kBytes, 8 * kBytes, 0}));
}

TEST(Blocks, AStateStaysOnTheDevice) {
  const Network network = recurrent();
  constexpr std::int64_t kChunk = 3 * 8 * 8 * 2;
  constexpr int kSteps = 12;
  Tensor state = Tensor::zeros(Format::kF16, {1, 3, 8, 8});
  std::vector<Tensor> chunks, expected;
  for (unsigned i = 0; i < kSteps; ++i) {
    chunks.push_back(some_tensor(network.inputs()[0], i));
    std::vector<Tensor> outputs = reference(network, {chunks.back(), state});
    expected.push_back(outputs[0]);
    state = outputs[1];
  }
  for (const DeviceKind kind : kKinds) {
    Runtime runtime = open({{.kind = kind, .kernels = 2, .threads = 2}});
    Memory memory = *runtime.open_memory(runtime.devices()[0].name);
    Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
    Stream stream = pipeline.open_stream();
    for (int round = 1; round <= 2; ++round) {
      ASSERT_TRUE(stream.bind_states(memory, {{.output = 1, .input = 1}}).ok());
      std::vector<Job> jobs;
      for (const Tensor& chunk : chunks) {
        jobs.push_back(*stream.submit_network({.inputs = {chunk}}));
      }
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        const TaskResult result = result_of(jobs[i]);
        EXPECT_EQ(result.outputs().at(0), expected[i]);
        EXPECT_EQ(result.outputs().at(1).bytes.size(), 0U);
      }
      // A chunk in and a result out for each step; the state is sent once, with its zeros.
      EXPECT_EQ(moved(runtime), ideal(kind, round * (kSteps + 1) * kChunk, round * kSteps * kChunk,
                                      round * kSteps * 4 * kChunk));
    }
  }
}

TEST(Blocks, ASessionsStateStaysOnTheDevice) {
  const Network network = recurrent();
  constexpr std::int64_t kChunk = 3 * 8 * 8 * 2;
  Tensor initial = some_tensor(network.inputs()[1], 77);
  for (const DeviceKind kind : kKinds) {
    Session session = Session::open(network, {.device = kind, .threads = 1}).value();
    ASSERT_TRUE(session.bind_states({{.output = 1, .input = 1, .initial = initial}}).ok());
    Tensor state = initial;
    for (unsigned i = 0; i < 5; ++i) {
      const Tensor chunk = some_tensor(network.inputs()[0], i);
      const std::vector<Tensor> expected = reference(network, {chunk, state});
      EXPECT_EQ(session.run({chunk})->outputs, std::vector<Tensor>{expected[0]});
      state = expected[1];
    }
    const SessionTraffic traffic = session.traffic();
    EXPECT_EQ((Moved{traffic.bytes_in, traffic.bytes_out, traffic.bytes_copied}),
              ideal(kind, 6 * kChunk, 5 * kChunk, 20 * kChunk));
    EXPECT_EQ(session.state(0).value(), state);
    EXPECT_EQ(session.state(1).error().message, "state 1: the session has 1, counted from 0");
    ASSERT_TRUE(session.bind_states({}).ok());
    const Tensor chunk = some_tensor(network.inputs()[0], 9);
    EXPECT_EQ(session.run({chunk, state})->outputs, reference(network, {chunk, state}));
    EXPECT_EQ(session.bind_states({{.output = 2, .input = 1}}).error().to_string(),
              "a state from output 2 to input 1; the model has 2 outputs and 2 inputs   "
              "[invalid argument]");
  }
}

TEST(Blocks, ASessionFillsMemoryOfTheApplication) {
  const Network network = link_of_chain(1);
  const Tensor input = some_tensor(network.inputs()[0], 6);
  const Tensor expected = reference(network, {input})[0];
  for (const DeviceKind kind : kKinds) {
    Session session = Session::open(network, {.device = kind, .threads = 1}).value();
    std::vector<std::byte> memory(kBytes);
    const std::vector<std::span<const std::byte>> from = {input.bytes};
    const std::vector<std::span<std::byte>> to = {memory};
    ASSERT_TRUE(session.run_into(from, to).ok());
    EXPECT_EQ(memory, expected.bytes);
    const SessionTraffic traffic = session.traffic();
    EXPECT_EQ((Moved{traffic.bytes_in, traffic.bytes_out, traffic.bytes_copied}),
              ideal(kind, kBytes, kBytes, 2 * kBytes));
    const std::vector<std::span<std::byte>> small = {std::span(memory).first(8)};
    EXPECT_EQ(session.run_into(from, small).error().to_string(),
              "output '" + network.outputs()[0].name +
                  "': given 8 bytes, it has 1536   [invalid argument]");
    EXPECT_EQ(session.run_into({}, to).error().to_string(),
              "0 inputs given, the run takes 1   [invalid argument]");
  }
}

TEST(Blocks, MemoryOfTheApplicationIsReadAndFilledWithoutACopyWhereItIsShared) {
  const Network network = link_of_chain(2);
  const Tensor input = some_tensor(network.inputs()[0], 7);
  const Tensor expected = reference(network, {input})[0];
  for (const DeviceKind kind : kKinds) {
    Runtime runtime = open({{.kind = kind, .threads = 1}});
    Memory memory = *runtime.open_memory(runtime.devices()[0].name);
    Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
    Stream stream = pipeline.open_stream();
    const auto from = std::make_shared<std::vector<std::byte>>(input.bytes);
    const auto to = std::make_shared<std::vector<std::byte>>(input.bytes.size());
    const auto as = [&](std::vector<std::byte>& bytes, std::shared_ptr<void> owner) {
      return TensorView{input.format, input.dims, bytes, std::move(owner)};
    };
    Job job =
        *stream.submit_network({.inputs = {as(*from, from)}, .outputs = {{.view = as(*to, to)}}});
    EXPECT_EQ(result_of(job).outputs().at(0).bytes.size(), 0U);
    EXPECT_EQ(*to, expected.bytes);
    EXPECT_EQ(moved(runtime), ideal(kind, kBytes, kBytes, 2 * kBytes));
    pipeline.wait_until_done();
    EXPECT_EQ(from.use_count(), 1);
    EXPECT_EQ(to.use_count(), 1);
    // The same as blocks.
    {
      *to = std::vector<std::byte>(to->size());
      const Block a = *memory.wrap(*from, network.inputs()[0], from);
      Block b = *memory.wrap(*to, network.outputs()[0], to);
      Job again = *stream.submit_network({.inputs = {a}, .outputs = {{.block = b, .fetch = true}}});
      result_of(again);
      EXPECT_EQ(*to, expected.bytes);
      EXPECT_EQ(b.bytes().data(), to->data());
      EXPECT_EQ(memory.wrap(*to, network.outputs()[0], to).error().code,
                ErrorCode::kInvalidArgument);
    }
    pipeline.wait_until_done();
    EXPECT_EQ(moved(runtime), ideal(kind, 2 * kBytes, 2 * kBytes, 4 * kBytes));
    EXPECT_EQ(from.use_count(), 1);
    EXPECT_EQ(to.use_count(), 1);
  }
}

TEST(Blocks, AnOutputIsKeptWhereItWasMade) {
  const Network network = link_of_chain(3);
  const Tensor input = some_tensor(network.inputs()[0], 8);
  Runtime runtime = open({{.kind = DeviceKind::kSim}, {.kind = DeviceKind::kHost}});
  const Model model = *runtime.load(network);
  for (std::size_t device = 0; device < 2; ++device) {
    PipelineOptions options;
    options.stages = {
        {.kind = StageKind::kExecute, .model = model, .devices = {runtime.devices()[device].name}}};
    Pipeline pipeline = *runtime.open_pipeline(options);
    Stream stream = pipeline.open_stream();
    Job job = *stream.submit_network({.inputs = {input}, .outputs = {{.keep = true}}});
    Block kept = result_of(job).blocks.at(0).value();
    EXPECT_EQ(kept.device(), runtime.devices()[device].name);
    EXPECT_EQ(kept.dims(), network.outputs()[0].dims);
    EXPECT_EQ(moved(runtime, device), (Moved{device == 0 ? kBytes : 0, 0, 0}));
    ASSERT_TRUE(kept.fetch().ok());
    EXPECT_TRUE(std::ranges::equal(kept.bytes(), reference(network, {input})[0].bytes));
  }
}

// The stage has both devices: a run goes to the one that has its block, and where it has not, the
// block is moved, and counted.
TEST(Blocks, ARunGoesToTheDeviceThatHoldsItsBlocks) {
  const Network network = link_of_chain(3);
  const Tensor input = some_tensor(network.inputs()[0], 9);
  Runtime runtime = open({{.kind = DeviceKind::kSim}, {.kind = DeviceKind::kSim}});
  const Model model = *runtime.load(network);
  Pipeline both = *runtime.open_pipeline(model);
  Stream stream = both.open_stream();
  for (std::size_t device = 0; device < 2; ++device) {
    Memory memory = *runtime.open_memory(runtime.devices()[device].name);
    const Block block = *memory.upload(input);
    for (int i = 0; i < 4; ++i) {
      Job job = *stream.submit_network({.inputs = {block}});
      EXPECT_EQ(result_of(job).device, memory.device());
    }
  }
  EXPECT_EQ(moved(runtime, 0), (Moved{kBytes, 4 * kBytes, 0}));
  EXPECT_EQ(moved(runtime, 1), (Moved{kBytes, 4 * kBytes, 0}));

  Memory first = *runtime.open_memory("sim0");
  PipelineOptions options;
  options.stages = {{.kind = StageKind::kExecute, .model = model, .devices = {"sim1"}}};
  Pipeline second = *runtime.open_pipeline(options);
  Stream other = second.open_stream();
  const Block here = *first.allocate(network.outputs()[0]);
  Job made = *stream.submit_network({.inputs = {input}, .outputs = {{.block = here}}});
  Job there = *other.submit_network({.inputs = {here}});
  result_of(made);
  const Tensor middle = reference(network, {input})[0];
  EXPECT_EQ(result_of(there).outputs().at(0), reference(network, {middle})[0]);
  EXPECT_EQ(moved(runtime, 0), (Moved{2 * kBytes, 5 * kBytes, 0}));
  EXPECT_EQ(moved(runtime, 1), (Moved{2 * kBytes, 5 * kBytes, 0}));
  // An output for a block elsewhere is brought to the host, where the block's bytes are.
  Block home = *first.allocate(network.outputs()[0]);
  Job far = *other.submit_network({.inputs = {input}, .outputs = {{.block = home}}});
  result_of(far);
  ASSERT_TRUE(home.fetch().ok());
  EXPECT_TRUE(std::ranges::equal(home.bytes(), middle.bytes));
  EXPECT_EQ(moved(runtime, 0), (Moved{2 * kBytes, 5 * kBytes, 0}));
  EXPECT_EQ(moved(runtime, 1), (Moved{3 * kBytes, 6 * kBytes, 0}));
}

TEST(Blocks, TasksUseABlockInTheOrderTheyWereSubmitted) {
  const Network network = link_of_chain(4);
  const Tensor input = some_tensor(network.inputs()[0], 10);
  Runtime runtime = open({{.kind = DeviceKind::kHost, .kernels = 4, .threads = 4}});
  Memory memory = *runtime.open_memory("host0");
  const Model model = *runtime.load(network);
  // Of several pipelines whose first stage is slow for the writers.
  std::atomic<bool> gate{false};
  PipelineOptions slow;
  slow.stages = {{.name = "wait",
                  .function = [&](Task&) -> Status {
                    gate.wait(false);
                    return {};
                  }},
                 {.kind = StageKind::kExecute, .model = model}};
  Pipeline writers = *runtime.open_pipeline(std::move(slow));
  Pipeline readers = *runtime.open_pipeline(model);
  Stream write = writers.open_stream(), read = readers.open_stream();
  Block block = *memory.upload(input), middle = *memory.allocate(network.outputs()[0]);
  Job made = *write.submit_network({.inputs = {input}, .outputs = {{.block = middle}}});
  std::vector<Job> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(*read.submit_network({.inputs = {middle}}));
  // One that writes what they read comes behind them.
  Job over = *read.submit_network({.inputs = {input}, .outputs = {{.block = middle}}});
  Job last = *read.submit_network({.inputs = {middle}});
  EXPECT_FALSE(over.wait_for(std::chrono::milliseconds(5)).has_value());
  EXPECT_EQ(middle.wrote().error().to_string(),
            "a task that was submitted uses the block; wait for it before the host writes   "
            "[unavailable]");
  gate = true;
  gate.notify_all();
  const Tensor first = reference(network, {input})[0], second = reference(network, {first})[0];
  for (Job& job : jobs) EXPECT_EQ(result_of(job).outputs().at(0), second);
  EXPECT_EQ(result_of(last).outputs().at(0), second);
  ASSERT_TRUE(middle.fetch().ok());
  EXPECT_TRUE(std::ranges::equal(middle.bytes(), first.bytes));
  result_of(made);
  result_of(over);
}

TEST(Blocks, WhoReadsABlockWhoseTaskFailedIsToldSo) {
  const Network network = link_of_chain(4);
  const Tensor input = some_tensor(network.inputs()[0], 11);
  Runtime runtime = open({{.kind = DeviceKind::kHost}});
  Memory memory = *runtime.open_memory("host0");
  const Model model = *runtime.load(network);
  PipelineOptions options;
  options.stages = {
      {.name = "refuse",
       .function = [](Task&) -> Status { return Error{ErrorCode::kInvalidArgument, "not today"}; }},
      {.kind = StageKind::kExecute, .model = model}};
  Pipeline failing = *runtime.open_pipeline(std::move(options));
  Pipeline pipeline = *runtime.open_pipeline(model);
  Stream bad = failing.open_stream(), good = pipeline.open_stream();
  Block middle = *memory.allocate(network.outputs()[0]);
  Job writer = *bad.submit_network({.inputs = {input}, .outputs = {{.block = middle}}});
  Job reader = *good.submit_network({.inputs = {middle}});
  const std::string task = std::to_string(writer.id());
  EXPECT_FALSE(writer.wait().ok());
  TaskOutcome outcome = reader.wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().error.to_string(),
            "input '" + network.inputs()[0].name + "': its block holds nothing: task " + task +
                ", which was to write it, failed: not today   [invalid argument]");
  EXPECT_EQ(middle.fetch().error().to_string(),
            "task " + task + ", which was to write it, failed: not today   [invalid argument]");
  // Written again, it is good again.
  Job again = *good.submit_network({.inputs = {input}, .outputs = {{.block = middle}}});
  Job then = *good.submit_network({.inputs = {middle}});
  result_of(again);
  result_of(then);
}

TEST(Blocks, WhatDoesNotFitIsRefused) {
  const Network network = link_of_chain(4);
  const Tensor input = some_tensor(network.inputs()[0], 12);
  Runtime runtime = open({{.kind = DeviceKind::kHost}}),
          other = open({{.kind = DeviceKind::kHost}});
  Memory memory = *runtime.open_memory("host0");
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  Stream stream = pipeline.open_stream();
  const std::string in = network.inputs()[0].name, out = network.outputs()[0].name;
  const auto refused = [&](NetworkTask task) {
    auto job = stream.submit_network(std::move(task));
    if (!job.ok()) return job.error().to_string();
    TaskOutcome outcome = job->wait();
    return outcome.ok() ? std::string("accepted") : outcome.error().error.to_string();
  };
  const Block small = *memory.allocate(12), block = *memory.upload(input);
  const Block flat = *memory.allocate(TensorDescription{"", Format::kF16, {768}});
  EXPECT_EQ(refused({.inputs = {small}}),
            "input '" + in +
                "': found a block of 12 bytes, the model takes f16 [1x3x16x16]   "
                "[invalid argument]");
  EXPECT_EQ(refused({.inputs = {flat}}),
            "input '" + in +
                "': found a block of f16 [768], the model takes f16 [1x3x16x16]   "
                "[invalid argument]");
  EXPECT_EQ(refused({.inputs = {input}, .outputs = {{.block = flat}}}),
            "output '" + out +
                "': given a block of f16 [768], the model makes f16 [1x3x16x16]   "
                "[invalid argument]");
  EXPECT_EQ(refused({.inputs = {block}, .outputs = {{.block = block}}}),
            "output '" + out +
                "': its block is also an input of the task; use another one   "
                "[invalid argument]");
  EXPECT_EQ(refused({.inputs = {input}, .outputs = {{.block = block, .keep = true}}}),
            "output '" + out +
                "': a block, keep and a view exclude each other   "
                "[invalid argument]");
  EXPECT_EQ(refused({.inputs = {input}, .outputs = {{}, {}}}),
            "places for 2 outputs, the model has 1   [invalid argument]");
  Memory foreign = *other.open_memory("host0");
  EXPECT_EQ(refused({.inputs = {*foreign.upload(input)}}),
            "a block of another runtime's memory; move it as a tensor   [invalid argument]");
  std::vector<std::byte> bytes(10);
  EXPECT_EQ(refused({.inputs = {TensorView{Format::kF16, {6}, bytes}}}),
            "input 0: 10 bytes for f16 [6]   [invalid argument]");
  EXPECT_EQ(memory.wrap(bytes, {"", Format::kF16, {6}}, nullptr).error().to_string(),
            "10 bytes to wrap as f16 [6], which has 12; allowed 1 and more   [invalid argument]");
  EXPECT_EQ(stream.bind_states(memory, {{.output = 0, .input = 3}}).error().to_string(),
            "a state from output 0 to input 3; the pipeline's models have 1 outputs and 1 inputs   "
            "[invalid argument]");
  EXPECT_EQ(refused({.inputs = {block}}), "accepted");
}

// Debugging compares on the host; blocks are read, and the outputs arrive in theirs.
TEST(Blocks, DebuggingReadsAndFillsBlocks) {
  const Network network = link_of_chain(4);
  const Tensor input = some_tensor(network.inputs()[0], 13);
  const Tensor expected = reference(network, {input})[0];
  Runtime runtime = open({{.kind = DeviceKind::kSim}});
  Memory memory = *runtime.open_memory("sim0");
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  Stream stream = pipeline.open_stream();
  const Block block = *memory.upload(input);
  for (const DebugMode mode : {DebugMode::kHost, DebugMode::kBoth}) {
    pipeline.set_debug({.mode = mode});
    Block result = *memory.allocate(network.outputs()[0]);
    Job job = *stream.submit_network({.inputs = {block}, .outputs = {{.block = result}}});
    result_of(job);
    ASSERT_TRUE(result.fetch().ok());
    EXPECT_TRUE(std::ranges::equal(result.bytes(), expected.bytes));
  }
  EXPECT_EQ(pipeline.status().mismatches, 0);
}

}  // namespace
}  // namespace tessera

// Single layers and operations as tasks, on memory that host and device hold together.
#include <gtest/gtest.h>

#include <cstring>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "network/network.h"
#include "tessera/runtime.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;

// Four layers in a chain.
Network chain() {
  GraphBuilder builder(3);
  const graph::TensorId x = builder.input({1, 5, 12, 12});
  graph::TensorId y = builder.conv(x, {.output_channels = 12, .kernel = 3, .pad = 1});
  y = builder.pool(y, PoolFunction::kMaximum, 2, 2, 0);
  y = builder.conv(y, {.output_channels = 7, .kernel = 3, .stride = 2, .pad = 1});
  y = builder.unary(y, UnaryFunction::kTanh);
  builder.output(y);
  return network::network_from_graph(builder.take(), *load_chip_config("tessera128"), {}).value();
}

std::int64_t bytes_of(const TensorDescription& tensor) {
  return element_count(tensor.dims) * format_bytes(tensor.format);
}

void fill(std::span<std::byte> bytes, unsigned seed) {
  unsigned state = seed;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    state = state * 1664525U + 1013904223U;
    const auto bits =
        static_cast<std::uint16_t>((state >> 16 & 0x83FFU) | (((state >> 8) % 5 + 12) << 10));
    std::memcpy(&bytes[i], &bits, 2);
  }
}

// Runs the layers one after the other, each as a task of its own.
void run_chain(Stream& stream, const Layers& layers, const std::vector<Block>& blocks) {
  for (std::size_t i = 0; i < layers.list().size(); ++i) {
    auto job = stream.submit_layer(layers,
                                   {.layer = i, .inputs = {blocks[i]}, .outputs = {blocks[i + 1]}});
    ASSERT_TRUE(job.ok()) << job.error().message;
    const TaskOutcome outcome = job->wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
  }
}

TEST(Operations, ChainOfFourLayersMovesItsFirstInputAndLastOutputAndNoWeightTwice) {
  const Network network = chain();
  Runtime runtime = *Runtime::open({.devices = {{.kind = DeviceKind::kSim}}});
  Memory memory = *runtime.open_memory("sim0");
  const Layers layers = *runtime.load_layers(network, memory);
  ASSERT_EQ(layers.list().size(), 4U);
  EXPECT_EQ(layers.list()[0].weight_offset, 0);
  EXPECT_GE(layers.list()[2].weight_offset, layers.list()[0].weight_bytes);
  std::vector<Block> blocks = {*memory.allocate(bytes_of(layers.list()[0].inputs[0]))};
  for (const Layer& layer : layers.list()) {
    blocks.push_back(*memory.allocate(bytes_of(layer.outputs[0])));
  }
  Pipeline pipeline = *runtime.open_operations();
  Stream stream = pipeline.open_stream();
  const DeviceStatus before = runtime.devices()[0];
  for (unsigned round = 0; round < 3; ++round) {
    fill(blocks[0].bytes(), round);
    ASSERT_TRUE(blocks[0].wrote().ok());
    run_chain(stream, layers, blocks);
    ASSERT_TRUE(blocks[4].fetch().ok());
    ASSERT_TRUE(blocks[4].fetch().ok());  // it is current: nothing more is moved
    const DeviceStatus after = runtime.devices()[0];
    EXPECT_EQ(after.bytes_in - before.bytes_in, (round + 1) * bytes_of(layers.list()[0].inputs[0]));
    EXPECT_EQ(after.bytes_out - before.bytes_out,
              (round + 1) * bytes_of(layers.list()[3].outputs[0]));
    // The bits of the whole network.
    Session session = Session::open(network, {.device = DeviceKind::kRef}).value();
    Tensor input = Tensor::zeros(network.inputs()[0].format, network.inputs()[0].dims);
    std::memcpy(input.bytes.data(), blocks[0].bytes().data(), input.bytes.size());
    const Tensor expected = session.run({input})->outputs[0];
    EXPECT_TRUE(std::ranges::equal(blocks[4].bytes(), expected.bytes));
  }
}

// Flags remember that it is there: for other layers, other pipelines and later rounds.
TEST(Operations, ImageThatSeveralLayersOfSeveralPipelinesReadGoesOverOnce) {
  const Network first = chain(), second = chain();
  Runtime runtime = *Runtime::open({.devices = {{.kind = DeviceKind::kSim, .kernels = 2}}});
  Memory memory = *runtime.open_memory("sim0");
  const Layers some = *runtime.load_layers(first, memory),
               others = *runtime.load_layers(second, memory);
  Block image = *memory.allocate(bytes_of(some.list()[0].inputs[0]));
  std::vector<Block> results;
  for (int i = 0; i < 2; ++i) {
    results.push_back(*memory.allocate(bytes_of(some.list()[0].outputs[0])));
  }
  fill(image.bytes(), 9);
  ASSERT_TRUE(image.wrote().ok());
  const std::int64_t before = runtime.devices()[0].bytes_in;
  for (int round = 0; round < 3; ++round) {
    Pipeline one = *runtime.open_operations(), two = *runtime.open_operations();
    ASSERT_TRUE(one.set_threads("pre", 3).ok());
    Stream a = one.open_stream(), b = two.open_stream();
    std::vector<Job> jobs;
    jobs.push_back(*a.submit_layer(some, {.layer = 0, .inputs = {image}, .outputs = {results[0]}}));
    jobs.push_back(
        *b.submit_layer(others, {.layer = 0, .inputs = {image}, .outputs = {results[1]}}));
    for (Job& job : jobs) EXPECT_TRUE(job.wait().ok());
  }
  EXPECT_EQ(runtime.devices()[0].bytes_in - before, std::ssize(image.bytes()));
  for (Block& result : results) ASSERT_TRUE(result.fetch().ok());
  EXPECT_TRUE(std::ranges::equal(results[0].bytes(), results[1].bytes()));
}

TEST(Operations, WhereMemoryIsSharedNothingIsMoved) {
  const Network network = chain();
  Runtime runtime = *Runtime::open();
  Memory memory = *runtime.open_memory("host0");
  const Layers layers = *runtime.load_layers(network, memory);
  std::vector<Block> blocks = {*memory.allocate(bytes_of(layers.list()[0].inputs[0]))};
  for (const Layer& layer : layers.list()) {
    blocks.push_back(*memory.allocate(bytes_of(layer.outputs[0])));
  }
  Pipeline pipeline = *runtime.open_operations();
  Stream stream = pipeline.open_stream();
  fill(blocks[0].bytes(), 1);
  ASSERT_TRUE(blocks[0].wrote().ok());
  run_chain(stream, layers, blocks);
  EXPECT_EQ(runtime.devices()[0].bytes_in, 0);
  EXPECT_EQ(runtime.devices()[0].bytes_out, 0);
}

TEST(Operations, SingleOperationsGiveTheSameBitsOnEveryDevice) {
  const operations::Im2col im2col{{9, 8, 20}, {3, 2, 1}};
  const operations::MatrixProduct product{5 * 4, 9 * 20, 24};
  std::vector<std::byte> first;
  for (const DeviceKind kind : {DeviceKind::kSim, DeviceKind::kHost}) {
    Runtime runtime = *Runtime::open({.devices = {{.kind = kind, .name = "card"}}});
    Memory memory = *runtime.open_memory("card");
    Block image = *memory.allocate(9 * 8 * 20 * 2), columns = *memory.allocate(20 * 180 * 2),
          weights = *memory.allocate(128 + 180 * 24 * 2), sums = *memory.allocate(20 * 24 * 2),
          result = *memory.allocate(20 * 24 * 2);
    fill(image.bytes(), 5);
    fill(weights.bytes(), 6);
    ASSERT_TRUE(image.wrote().ok());
    ASSERT_TRUE(weights.wrote().ok());
    Pipeline pipeline = *runtime.open_operations();
    Stream stream = pipeline.open_stream();
    const auto run = [&](const OperationTask& task) {
      const TaskOutcome outcome = stream.submit_operation(task)->wait();
      EXPECT_TRUE(outcome.ok()) << outcome.error().error.message;
    };
    run({.operation = im2col, .input = image, .output = columns});
    run({.operation = product,
         .input = columns,
         .output = sums,
         .weights = weights,
         .weight_offset = 128});
    run({.operation = operations::Relu{20, 24}, .input = sums, .output = result, .fetch = true});
    const std::vector<std::byte> bytes(result.bytes().begin(), result.bytes().end());
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
  }
  EXPECT_TRUE(std::ranges::any_of(first, [](std::byte b) { return b != std::byte{0}; }));
}

TEST(Operations, AThousandTasksMakeNoBlockAfterTheFirst) {
  Runtime runtime = *Runtime::open({.devices = {{.kind = DeviceKind::kHost}}});
  Memory memory = *runtime.open_memory("host0");
  Pipeline pipeline = *runtime.open_operations();
  Stream stream = pipeline.open_stream();
  std::set<std::byte*> places;
  for (int i = 0; i < 1000; ++i) {
    Block x = *memory.allocate(64 * 2), y = *memory.allocate(64 * 2);
    ASSERT_TRUE(x.wrote().ok());
    const OperationTask task{.operation = operations::Relu{8, 8}, .input = x, .output = y};
    ASSERT_TRUE(stream.submit_operation(task)->wait().ok());
    places.insert(x.bytes().data());
    places.insert(y.bytes().data());
  }
  // A task may still be on its way back to the pool when the next one takes its blocks.
  EXPECT_LE(places.size(), 6U);
}

TEST(OperationsErrors, WrongTasksAreRefused) {
  const Network network = chain();
  Runtime runtime = *Runtime::open();
  Memory memory = *runtime.open_memory("host0");
  const Layers layers = *runtime.load_layers(network, memory);
  Pipeline pipeline = *runtime.open_operations();
  Stream stream = pipeline.open_stream();
  Block small = *memory.allocate(8), input = *memory.allocate(1440);
  const auto message = [](const Result<Job>& job) { return job.error().message; };
  EXPECT_EQ(message(stream.submit_layer(layers, {.layer = 4})), "layer 4 of a network of 4");
  EXPECT_NE(message(stream.submit_layer(layers, {.layer = 0})).find("has 1 inputs, 0 blocks"),
            std::string::npos);
  EXPECT_NE(
      message(stream.submit_layer(layers, {.layer = 0, .inputs = {small}, .outputs = {small}}))
          .find("has 1440 bytes, its block 8"),
      std::string::npos);
  EXPECT_EQ(message(stream.submit({})),
            "this pipeline runs single layers and operations; open one for a model to run "
            "networks");
  Pipeline of_model = *runtime.open_pipeline(*runtime.load(network));
  Stream other = of_model.open_stream();
  EXPECT_EQ(message(other.submit_layer(layers, {})),
            "this pipeline runs networks; open one for operations to run single layers and "
            "operations");
  const OperationTask no_weights{
      .operation = operations::MatrixProduct{2, 2, 2}, .input = small, .output = small};
  EXPECT_EQ(message(stream.submit_operation(no_weights)),
            "operation 'matrix product': a matrix product has weights, the others have none");
  for (const std::int64_t offset : {-1, 8}) {
    const OperationTask outside{.operation = operations::MatrixProduct{1, 2, 2},
                                .input = small,
                                .output = small,
                                .weights = small,
                                .weight_offset = offset};
    EXPECT_EQ(message(stream.submit_operation(outside)),
              "operation 'matrix product': a weight offset of " + std::to_string(offset) +
                  "; its weights have 8 bytes");
  }
  EXPECT_EQ(memory.allocate(0).error().message, "a block of 0 bytes; allowed 1 and more");
  EXPECT_EQ(runtime.open_memory("card").error().message,
            "there is no device 'card'; there are host0");
}

}  // namespace
}  // namespace tessera

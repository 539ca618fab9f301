// Processors at whose edges matrices lie in blocks: their conversion and transfers.
#include <gtest/gtest.h>

#include <fstream>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "network/network.h"
#include "tessera/runtime.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;

// tessera128 with blocks of 32 x 64 at its edges, or of another size.
std::string blocked_arch(int rows = 32, int columns = 64) {
  const std::string path =
      testing::TempDir() + "blocks_" + std::to_string(rows) + "x" + std::to_string(columns);
  std::ofstream(path + ".toml") << "[dram]\nedge_block_rows = " << rows
                                << "\nedge_block_columns = " << columns << "\n";
  return path + ".toml";
}

const std::vector<DeviceKind> kKinds = {DeviceKind::kSim, DeviceKind::kHost, DeviceKind::kRef};

using GraphReference = std::shared_ptr<const graph::Graph>;

Network compiled(const GraphReference& graph, const std::string& arch) {
  return network::network_from_graph(graph, *load_chip_config(arch), {}).value();
}

// f32 in and out, f16 within. In: 60 x 70, which are 2 x 2 blocks; out: 108 x 70, 4 x 2.
GraphReference model() {
  GraphBuilder builder(12);
  const graph::TensorId x = builder.input({1, 5, 12, 70}, Format::kF32);
  graph::TensorId y = builder.unary(x, UnaryFunction::kIdentity);
  y = builder.conv(y, {.output_channels = 9, .kernel = 3, .pad = 1});
  builder.output(builder.unary(y, UnaryFunction::kIdentity, Format::kF32));
  return builder.take();
}
constexpr std::int64_t kBlock = 32 * 64;

// f16 in and out, of one shape: networks that follow each other. 60 x 70, 2 x 2 blocks.
GraphReference link_of_chain(std::uint64_t seed, const Shape& dims = {1, 3, 20, 70}) {
  GraphBuilder builder(seed);
  graph::TensorId y =
      builder.conv(builder.input(dims), {.output_channels = dims[1], .kernel = 3, .pad = 1});
  builder.output(builder.unary(y, UnaryFunction::kTanh));
  return builder.take();
}
constexpr std::int64_t kLinkBytes = 4 * kBlock * 2;

// Inputs and outputs of many kinds: a vector, integers, a single element, an input that is handed
// on, an output that is wanted twice.
GraphReference many_edges() {
  GraphBuilder builder(3);
  const graph::TensorId v = builder.input({70});
  const graph::TensorId m = builder.input({33, 70});
  const graph::TensorId one = builder.input({1, 1});
  const graph::TensorId bytes = builder.input({2, 3, 5, 7}, Format::kU8);
  const graph::TensorId wide = builder.input({40, 65}, Format::kI64);
  const graph::TensorId sum = builder.binary(m, v, BinaryFunction::kAdd);
  builder.output(builder.binary(sum, one, BinaryFunction::kMultiply));
  builder.output(sum);
  builder.output(sum);
  builder.output(builder.unary(v, UnaryFunction::kTanh));
  builder.output(builder.transpose(bytes, {0, 2, 3, 1}));
  builder.output(builder.transpose(wide, {1, 0}));
  builder.output(m);
  return builder.take();
}

Tensor some_tensor(const TensorDescription& what, unsigned seed) {
  Tensor tensor = Tensor::zeros(what.format, what.dims);
  unsigned state = seed * 2654435761U + 1;
  const auto next = [&] { return state = state * 1664525U + 1013904223U; };
  if (what.format == Format::kF32) {
    for (float& value : tensor.as<float>()) value = static_cast<float>(next() >> 16) / 32768 - 1;
  } else if (what.format == Format::kF16) {
    for (std::uint16_t& bits : tensor.as<std::uint16_t>()) {
      const unsigned value = next();
      bits = static_cast<std::uint16_t>((value >> 16 & 0x83FFU) | (((value >> 8) % 5 + 12) << 10));
    }
  } else {
    for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(next() >> 24);
  }
  return tensor;
}

std::vector<Tensor> some_inputs(const Network& network, unsigned seed = 1) {
  std::vector<Tensor> inputs;
  for (const TensorDescription& input : network.inputs()) {
    inputs.push_back(some_tensor(input, seed++));
  }
  return inputs;
}

// As a processor gives them whose edges are dense.
std::vector<Tensor> dense_outputs(const GraphReference& graph, const std::vector<Tensor>& inputs) {
  return Session::open(compiled(graph, "tessera128"), {.device = DeviceKind::kRef})
      ->run(inputs)
      ->outputs;
}

struct Moved {
  std::int64_t in = 0, out = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Moved& m) {
    return out << m.in << " in, " << m.out << " out";
  }
};
// Without weights.
Moved moved(const Runtime& runtime) {
  const DeviceStatus status = runtime.devices()[0];
  return {status.bytes_in - status.weight_bytes, status.bytes_out};
}

Runtime open(DeviceKind kind, const std::string& arch) {
  auto runtime = Runtime::open({.devices = {{.kind = kind, .arch = arch}}});
  EXPECT_TRUE(runtime.ok()) << runtime.error().to_string();
  return std::move(runtime).value();
}

TaskResult result_of(Job job) {
  TaskOutcome outcome = job.wait();
  EXPECT_TRUE(outcome.ok()) << outcome.error().error.to_string();
  return outcome.ok() ? std::move(outcome.result()) : TaskResult{};
}

TEST(EdgeBlocks, ASessionGivesTheBitsOfDenseEdgesOnEveryDevice) {
  for (const auto& graph : {model(), link_of_chain(4), many_edges()}) {
    for (const auto& [rows, columns] : {std::pair(32, 64), std::pair(1, 16), std::pair(7, 5)}) {
      const Network network = compiled(graph, blocked_arch(rows, columns));
      const std::vector<Tensor> inputs = some_inputs(network);
      const std::vector<Tensor> expected = dense_outputs(graph, inputs);
      for (const DeviceKind kind : kKinds) {
        Session session =
            Session::open(network, {.device = kind, .threads = 1, .check_hazards = true}).value();
        const auto result = session.run(inputs);
        ASSERT_TRUE(result.ok()) << result.error().to_string();
        EXPECT_EQ(result->outputs, expected) << device_kind_name(kind) << rows << "x" << columns;
      }
    }
  }
}

TEST(EdgeBlocks, TheApplicationSeesTheShapesOfItsModel) {
  const Network network = compiled(model(), blocked_arch());
  EXPECT_EQ(network.inputs()[0].dims, (Shape{1, 5, 12, 70}));
  EXPECT_EQ(network.outputs()[0].dims, (Shape{1, 9, 12, 70}));
  Runtime runtime = open(DeviceKind::kHost, "tessera128");
  const Model loaded = *runtime.load(network);
  EXPECT_EQ(loaded.device_inputs()[0].dims, (Shape{2, 2, 32, 64}));
  EXPECT_EQ(loaded.device_inputs()[0].dense_dims, (Shape{1, 5, 12, 70}));
  EXPECT_EQ(loaded.device_outputs()[0].dims, (Shape{4, 2, 32, 64}));
}

TEST(EdgeBlocks, ASessionMovesWholeBlocksAndFillsMemoryWithTheMatrix) {
  const Network network = compiled(model(), blocked_arch());
  const Tensor input = some_inputs(network)[0];
  const Tensor expected = dense_outputs(model(), {input})[0];
  for (const DeviceKind kind : kKinds) {
    Session session = Session::open(network, {.device = kind, .threads = 1}).value();
    std::vector<std::byte> memory(expected.bytes.size());
    const std::vector<std::span<const std::byte>> from = {input.bytes};
    const std::vector<std::span<std::byte>> to = {memory};
    ASSERT_TRUE(session.run_into(from, to).ok());
    EXPECT_EQ(memory, expected.bytes);
    if (kind != DeviceKind::kSim) continue;
    EXPECT_EQ(session.traffic().bytes_in, 4 * kBlock * 4);
    EXPECT_EQ(session.traffic().bytes_out, 8 * kBlock * 4);
  }
}

// The processor's own work on blocks takes time, and its DRAM sees the bytes of whole blocks.
TEST(EdgeBlocks, TheProcessorPaysForItsBlocks) {
  const auto run = [](const std::string& arch) {
    const Network network = compiled(link_of_chain(2), arch);
    return *Session::open(network, {.device = DeviceKind::kSim})->run(some_inputs(network));
  };
  const RunResult dense = run("tessera128"), blocked = run(blocked_arch());
  const auto written = [](const RunResult& result) {
    std::int64_t bytes = 0;
    for (const EngineUse& engine : result.engines) {
      if (engine.name != "dram") bytes += engine.dram_bytes_written;
    }
    return bytes;
  };
  EXPECT_GT(blocked.cycles, dense.cycles);
  EXPECT_GE(written(blocked), kLinkBytes);
  EXPECT_LT(written(dense), kLinkBytes);
}

TEST(EdgeBlocks, PreMakesThemAndPostUndoesThem) {
  const Network network = compiled(model(), blocked_arch());
  const Tensor input = some_inputs(network)[0];
  const std::vector<Tensor> expected = dense_outputs(model(), {input});
  for (const DeviceKind kind : kKinds) {
    for (const bool device_form : {false, true}) {
      Runtime runtime = open(kind, blocked_arch());
      const Model loaded =
          device_form ? *runtime.load_in_device_form(network) : *runtime.load(network);
      Pipeline pipeline = *runtime.open_pipeline(loaded);
      if (kind == DeviceKind::kSim) pipeline.set_debug({.mode = DebugMode::kBoth});
      EXPECT_EQ(result_of(*pipeline.open_stream().submit({input})).outputs(), expected);
      if (kind != DeviceKind::kSim) continue;
      const std::int64_t element = device_form ? 2 : 4;
      EXPECT_EQ(moved(runtime), (Moved{4 * kBlock * element, 8 * kBlock * element}));
    }
  }
}

TEST(EdgeBlocks, WithoutPreTheTaskBringsBlocksItself) {
  const Network network = compiled(model(), blocked_arch());
  Runtime runtime = open(DeviceKind::kSim, blocked_arch());
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  SubmitOptions options;
  options.skipped_stages = {"pre"};
  Stream stream = pipeline.open_stream();
  EXPECT_EQ(stream.submit(some_inputs(network), options).error().to_string(),
            "input 't0': found f32 [1x5x12x70], the model takes f32 [1x5x12x70] in blocks of "
            "32x64; the stage pre makes the blocks of a matrix   [invalid argument]");
  Tensor blocks = Tensor::zeros(Format::kF32, {2, 2, 32, 64});
  const Tensor zeros = Tensor::zeros(Format::kF32, {1, 5, 12, 70});
  EXPECT_EQ(result_of(*stream.submit({blocks}, options)).outputs(),
            dense_outputs(model(), {zeros}));
}

// ------------------------------------------------------------------- from network to network

TEST(EdgeBlocks, WhatOneNetworkKeepsTheNextTakesWhereItIs) {
  const std::string arch = blocked_arch();
  const Network first = compiled(link_of_chain(1), arch), second = compiled(link_of_chain(2), arch);
  const Tensor input = some_inputs(first)[0];
  const Tensor middle = dense_outputs(link_of_chain(1), {input})[0];
  const Tensor expected = dense_outputs(link_of_chain(2), {middle})[0];
  for (const DeviceKind kind : kKinds) {
    Runtime runtime = open(kind, arch);
    Memory memory = *runtime.open_memory(runtime.devices()[0].name);
    const Model one = *runtime.load(first), two = *runtime.load(second);
    Pipeline a = *runtime.open_pipeline(one), b = *runtime.open_pipeline(two);
    Stream to = a.open_stream(), from = b.open_stream();
    // In a block of the device's form, and kept.
    const Block own = *memory.allocate(one.device_outputs()[0]);
    result_of(*to.submit_network({.inputs = {input}, .outputs = {{.block = own}}}));
    const TaskResult kept =
        result_of(*to.submit_network({.inputs = {input}, .outputs = {{.keep = true}}}));
    for (const Block& block : {own, *kept.blocks.at(0)}) {
      EXPECT_EQ(block.dims(), (Shape{2, 2, 32, 64}));
      EXPECT_EQ(block.dense_dims(), (Shape{1, 3, 20, 70}));
      EXPECT_EQ(result_of(*from.submit_network({.inputs = {block}})).outputs().at(0), expected);
    }
    if (kind == DeviceKind::kSim) {
      EXPECT_EQ(moved(runtime), (Moved{2 * kLinkBytes, 2 * kLinkBytes}));
    }
    // In the application's form it goes through the host, both ways.
    const Block dense = *memory.allocate(first.outputs()[0]);
    result_of(*to.submit_network({.inputs = {input}, .outputs = {{.block = dense}}}));
    EXPECT_EQ(result_of(*from.submit_network({.inputs = {dense}})).outputs().at(0), expected);
    Block looked_at = dense;
    ASSERT_TRUE(looked_at.fetch().ok());
    EXPECT_TRUE(std::ranges::equal(looked_at.bytes(), middle.bytes));
    if (kind == DeviceKind::kSim) {
      EXPECT_EQ(moved(runtime), (Moved{4 * kLinkBytes, 4 * kLinkBytes}));
    }
  }
}

TEST(EdgeBlocks, BlocksOfAnotherSizeAreTurnedAndThoseOfAnotherMatrixRefused) {
  // One device of many architectures' networks.
  Runtime runtime = open(DeviceKind::kHost, "tessera128");
  Memory memory = *runtime.open_memory("host0");
  const Network first = compiled(link_of_chain(1), blocked_arch(16, 32));
  const Network second = compiled(link_of_chain(2), blocked_arch());
  const Network third = compiled(link_of_chain(3), "tessera128");
  const Network other = compiled(link_of_chain(4, {1, 3, 21, 65}), blocked_arch());
  const Tensor input = some_inputs(first)[0];
  const auto kept_of = [&](const Network& network) {
    Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
    const TaskResult result = result_of(*pipeline.open_stream().submit_network(
        {.inputs = {some_inputs(network)[0]}, .outputs = {{.keep = true}}}));
    return *result.blocks.at(0);
  };
  const Block block = kept_of(first);
  EXPECT_EQ(block.dims(), (Shape{4, 3, 16, 32}));
  const Tensor middle = dense_outputs(link_of_chain(1), {input})[0];
  Pipeline to_second = *runtime.open_pipeline(*runtime.load(second));
  Pipeline to_third = *runtime.open_pipeline(*runtime.load(third));
  EXPECT_EQ(result_of(*to_second.open_stream().submit_network({.inputs = {block}})).outputs()[0],
            dense_outputs(link_of_chain(2), {middle})[0]);
  EXPECT_EQ(result_of(*to_third.open_stream().submit_network({.inputs = {block}})).outputs()[0],
            dense_outputs(link_of_chain(3), {middle})[0]);
  // As many blocks of the same size, of another matrix.
  const Block alike = kept_of(other);
  EXPECT_EQ(alike.dims(), (Shape{2, 2, 32, 64}));
  const TaskOutcome refused = to_second.open_stream().submit_network({.inputs = {alike}})->wait();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().error.message,
            "input 't0': found a block of f16 [1x3x21x65] in blocks of 32x64, the model takes "
            "f16 [1x3x20x70] in blocks of 32x64");
  const auto written =
      to_second.open_stream().submit_network({.inputs = {input}, .outputs = {{.block = block}}});
  EXPECT_EQ(written.error().message,
            "output 't4': given a block of f16 [1x3x20x70] in blocks of 16x32, the model makes "
            "f16 [1x3x20x70]");
}

// A block given by bytes has no form: it holds the matrix, never blocks.
TEST(EdgeBlocks, ABlockWithoutAShapeIsDense) {
  const Shape dims = {1, 2, 32, 128};  // 2 x 2 whole blocks: as many bytes, in another order
  const Network network = compiled(link_of_chain(6, dims), blocked_arch());
  const Tensor input = some_inputs(network)[0];
  Runtime runtime = open(DeviceKind::kSim, blocked_arch());
  Memory memory = *runtime.open_memory("sim0");
  Block from = *memory.allocate(std::ssize(input.bytes));
  Block to = *memory.allocate(std::ssize(input.bytes));
  std::ranges::copy(input.bytes, from.bytes().begin());
  ASSERT_TRUE(from.wrote().ok());
  Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
  result_of(*pipeline.open_stream().submit_network(
      {.inputs = {from}, .outputs = {{.block = to, .fetch = true}}}));
  EXPECT_TRUE(
      std::ranges::equal(to.bytes(), dense_outputs(link_of_chain(6, dims), {input})[0].bytes));
}

TEST(EdgeBlocks, BetweenNetworksOfOnePipelineTheyStayOnTheDevice) {
  const std::string arch = blocked_arch();
  const Network first = compiled(link_of_chain(1), arch), second = compiled(link_of_chain(2), arch);
  const Tensor input = some_inputs(first)[0];
  const Tensor middle = dense_outputs(link_of_chain(1), {input})[0];
  for (const DeviceKind kind : kKinds) {
    Runtime runtime = open(kind, arch);
    PipelineOptions options;
    for (const Network& network : {first, second}) {
      for (StageOptions& stage : default_stages(*runtime.load(network))) {
        stage.name = std::to_string(options.stages.size());
        options.stages.push_back(std::move(stage));
      }
    }
    Pipeline pipeline = *runtime.open_pipeline(std::move(options));
    EXPECT_EQ(result_of(*pipeline.open_stream().submit({input})).outputs(),
              dense_outputs(link_of_chain(2), {middle}));
    if (kind == DeviceKind::kSim) {
      EXPECT_EQ(moved(runtime), (Moved{kLinkBytes, kLinkBytes}));
    }
    // float32 in and out, which pre and post convert as well.
    const Tensor wide = Tensor::zeros(Format::kF32, input.dims);
    const TaskResult result = result_of(*pipeline.open_stream().submit({wide}));
    EXPECT_EQ(result.outputs().at(0).format, Format::kF32);
    EXPECT_EQ(result.outputs().at(0).dims, input.dims);
    if (kind == DeviceKind::kSim) {
      EXPECT_EQ(moved(runtime), (Moved{2 * kLinkBytes, 2 * kLinkBytes}));
    }
  }
}

TEST(EdgeBlocks, StatesStayInBlocksAndBeginWithAMatrix) {
  const std::string arch = blocked_arch();
  const Network network = compiled(link_of_chain(1), arch);
  const Tensor initial = some_inputs(network, 5)[0];
  Tensor expected = initial;
  for (int i = 0; i < 3; ++i) expected = dense_outputs(link_of_chain(1), {expected})[0];
  for (const DeviceKind kind : kKinds) {
    Session session = Session::open(network, {.device = kind, .threads = 1}).value();
    ASSERT_TRUE(session.bind_states({{.output = 0, .input = 0, .initial = initial}}).ok());
    EXPECT_EQ(session.state(0).value(), initial);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.run({}).ok());
    EXPECT_EQ(session.state(0).value(), expected);
    if (kind == DeviceKind::kSim) {
      EXPECT_EQ(session.traffic().bytes_in, kLinkBytes);
    }

    Runtime runtime = open(kind, arch);
    Memory memory = *runtime.open_memory(runtime.devices()[0].name);
    Pipeline pipeline = *runtime.open_pipeline(*runtime.load(network));
    Stream stream = pipeline.open_stream();
    ASSERT_TRUE(stream.bind_states(memory, {{.output = 0, .input = 0, .initial = initial}}).ok());
    Block last = *memory.allocate(8);
    for (int i = 0; i < 3; ++i) {
      const TaskResult result = result_of(*stream.submit_network({.inputs = {}}));
      last = *result.blocks.at(0);
    }
    if (kind == DeviceKind::kSim) {
      EXPECT_EQ(moved(runtime), (Moved{kLinkBytes, 0}));
    }
    // The next network reads the state, as a block that it is.
    Pipeline reader = *runtime.open_pipeline(*runtime.load(compiled(link_of_chain(2), arch)));
    ASSERT_TRUE(stream.bind_states(memory, {}).ok());
    EXPECT_EQ(result_of(*reader.open_stream().submit_network({.inputs = {last}})).outputs(),
              dense_outputs(link_of_chain(2), {expected}));
  }
}

TEST(EdgeBlocks, SingleLayersReadAndWriteMatrices) {
  const std::string arch = blocked_arch();
  const Network network = compiled(link_of_chain(1), arch);
  for (const DeviceKind kind : kKinds) {
    Runtime runtime = open(kind, arch);
    Memory memory = *runtime.open_memory(runtime.devices()[0].name);
    const Layers layers = *runtime.load_layers(network, memory);
    ASSERT_EQ(layers.list().size(), 2U);
    EXPECT_EQ(layers.list()[0].inputs[0].dims, network.inputs()[0].dims);
    EXPECT_EQ(layers.list()[1].outputs[0].dims, network.outputs()[0].dims);
    const Tensor input = some_inputs(network)[0];
    Pipeline pipeline = *runtime.open_operations();
    Stream stream = pipeline.open_stream();
    const Block x = *memory.upload(input);
    const Block y = *memory.allocate(layers.list()[0].outputs[0]);
    Block z = *memory.allocate(layers.list()[1].outputs[0]);
    (void)*stream.submit_layer(layers, {.layer = 0, .inputs = {x}, .outputs = {y}});
    result_of(
        *stream.submit_layer(layers, {.layer = 1, .inputs = {y}, .outputs = {z}, .fetch = true}));
    EXPECT_TRUE(std::ranges::equal(z.bytes(), dense_outputs(link_of_chain(1), {input})[0].bytes));
  }
}

TEST(EdgeBlocks, ABlockThatSaysWhatItCannotBeIsRefused) {
  Runtime runtime = open(DeviceKind::kHost, "tessera128");
  Memory memory = *runtime.open_memory("host0");
  EXPECT_EQ(memory.allocate({"", Format::kF16, {2, 2, 32, 64}, {60, 170}}).error().to_string(),
            "a block: [2, 2, 32, 64] are not the blocks of a matrix [60, 170]   "
            "[invalid argument]");
}

}  // namespace
}  // namespace tessera

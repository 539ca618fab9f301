// A graph compiled, linked and lifted again computes what it computed, bit for bit.
#include "concord/lift/lift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "arch/architecture_file.h"
#include "compile/compile.h"
#include "compile/testing/random_graph.h"
#include "graph/edge_blocks.h"
#include "graph/graph_text.h"
#include "host/executor.h"
#include "link/link.h"

namespace tessera::concord {
namespace {

using compile::testing::GraphBuilder;
using graph::Graph;
using graph::NodeKind;
using graph::TensorId;

using GraphPointer = std::shared_ptr<const Graph>;

std::vector<Tensor> random_inputs(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Tensor> tensors;
  for (const TensorId id : graph.inputs) {
    const graph::TensorInfo& info = graph.tensor(id);
    Tensor tensor = Tensor::zeros(info.format, info.dims);
    for (std::size_t at = 0; at + 4 <= tensor.bytes.size(); at += 4) {
      const float value = static_cast<float>(random() % 2001) / 500.0f - 2.0f;
      std::memcpy(tensor.bytes.data() + at, &value, 4);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<Tensor> run(const GraphPointer& graph, const std::vector<Tensor>& inputs) {
  auto executor = host::make_host_executor(graph, {.threads = 1});
  EXPECT_TRUE(executor.ok()) << executor.error().to_string();
  if (!executor.ok()) return {};
  auto outputs = (*executor)->run(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
  return outputs.ok() ? std::move(*outputs) : std::vector<Tensor>{};
}

isa::Program link_package(const package::Package& package, const ChipConfig& chip) {
  auto program = link::link(package, chip);
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  return program.ok() ? std::move(*program) : isa::Program{};
}

// Nodes that compute something which an output needs.
std::int64_t layers(const Graph& graph) {
  std::set<TensorId> needed(graph.outputs.begin(), graph.outputs.end());
  std::int64_t count = 0;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool used = std::any_of(node->outputs.begin(), node->outputs.end(),
                                  [&](TensorId id) { return needed.contains(id); });
    if (!used) continue;
    needed.insert(node->inputs.begin(), node->inputs.end());
    count += node->kind() == NodeKind::kMove ? 0 : 1;
  }
  return count;
}

// Lifts `program` and holds it against `graph`; the lifted graph, or null.
GraphPointer check(const GraphPointer& graph, const isa::Program& program, const ChipConfig& chip,
                   const LiftOptions& options = {}) {
  const auto lifted = lift(program, chip, options);
  EXPECT_TRUE(lifted.ok()) << lifted.error().to_string();
  if (!lifted.ok()) return nullptr;
  const std::vector<Tensor> inputs = random_inputs(*graph, 7);
  const std::vector<Tensor> expected = run(graph, inputs);
  const std::vector<Tensor> found = run(*lifted, inputs);
  EXPECT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
    EXPECT_TRUE(expected[i] == found[i]) << "output " << i << "\n" << graph::dump(**lifted);
  }
  return *lifted;
}

ChipConfig chip_of(const char* name) { return *load_chip_config(name); }

class LiftRandom : public ::testing::TestWithParam<const char*> {};

TEST_P(LiftRandom, GraphsComeBackWithTheSameBits) {
  const ChipConfig chip = chip_of(GetParam());
  int equal = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const GraphPointer graph = compile::testing::random_graph(seed);
    const auto package = compile::compile(graph, chip);
    ASSERT_TRUE(package.ok()) << package.error().to_string();
    const GraphPointer lifted = check(graph, link_package(*package, chip), chip);
    if (lifted != nullptr) {
      EXPECT_LE(layers(*lifted), layers(*graph));
      equal += layers(*lifted) == layers(*graph) ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(equal, 23);  // fewer where all that is read of a layer's output is another's part
}

// Little room: layers come in pieces, through rings and by way of DRAM.
TEST_P(LiftRandom, PiecesAndRingsAreLayersAgain) {
  ChipConfig chip = chip_of(GetParam());
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const GraphPointer graph = compile::testing::random_graph(seed);
    for (std::int32_t bytes = 4096; bytes <= 65536; bytes *= 4) {
      chip.state_buffer.bytes_per_partition = bytes;
      const auto package = compile::compile(graph, chip, {});
      if (!package.ok()) continue;
      const GraphPointer lifted = check(graph, link_package(*package, chip), chip);
      if (lifted != nullptr) {
        EXPECT_LE(layers(*lifted), layers(*graph));
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, LiftRandom,
                         ::testing::Values("tessera128", "cloud16", "edge", "pe128x64",
                                           "brainwave"));

TEST(Lift, WithoutHintsEachTaskIsALayer) {
  ChipConfig chip = chip_of("edge");
  chip.state_buffer.bytes_per_partition = 8192;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const GraphPointer graph = compile::testing::random_graph(seed);
    const auto package = compile::compile(graph, chip, {});
    if (!package.ok()) continue;
    isa::Program program = link_package(*package, chip);
    const GraphPointer apart = check(graph, program, chip, {.use_hints = false});
    program.pieces.clear();
    program.hints.clear();
    const GraphPointer bare = check(graph, program, chip);
    if (apart != nullptr && bare != nullptr) {
      EXPECT_EQ(apart->nodes.size(), bare->nodes.size());
    }
  }
}

// Hints that lie change how the graph looks, never what it computes.
TEST(Lift, WrongHintsChangeNoBit) {
  ChipConfig chip = chip_of("edge");
  chip.state_buffer.bytes_per_partition = 16384;
  std::mt19937 random(3);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const GraphPointer graph = compile::testing::random_graph(seed);
    const auto package = compile::compile(graph, chip, {});
    if (!package.ok()) continue;
    isa::Program program = link_package(*package, chip);
    for (isa::PieceHint& piece : program.pieces) {
      if (random() % 3 != 0) continue;
      std::uint32_t* const fields[] = {&piece.image, &piece.channel, &piece.row, &piece.column,
                                       &piece.input_channel};
      *fields[random() % 5] += 1 + random() % 40;
    }
    for (isa::TaskDescriptor& task : program.tasks) {
      if (random() % 4 == 0) task.layer = random() % static_cast<unsigned>(program.hints.size());
    }
    check(graph, program, chip);
    if (HasFailure()) return;
  }
}

// A convolution in several slices and bands, with two readers of its output.
GraphPointer small_network() {
  GraphBuilder builder(5);
  const TensorId x =
      builder.unary(builder.input({1, 40, 20, 18}, Format::kF32), UnaryFunction::kIdentity);
  const TensorId a = builder.conv(x, {300, 3, 1, 1});
  const TensorId b = builder.pool(a, PoolFunction::kMaximum, 3, 2, 1);
  const TensorId c = builder.conv(b, {24, 1});
  const TensorId d = builder.reduce(a, {2, 3}, ReduceFunction::kMean);
  builder.output(builder.unary(c, UnaryFunction::kIdentity, Format::kF32));
  builder.output(builder.unary(d, UnaryFunction::kIdentity, Format::kF32));
  return builder.take();
}

TEST(Lift, LayersComeBackAsTheyWere) {
  ChipConfig chip = chip_of("edge");
  const GraphPointer graph = small_network();
  for (const std::int32_t bytes : {6144, 16384, 262144}) {
    SCOPED_TRACE(bytes);
    chip.state_buffer.bytes_per_partition = bytes;
    const auto package = compile::compile(graph, chip);
    ASSERT_TRUE(package.ok()) << package.error().to_string();
    const isa::Program program = link_package(*package, chip);
    const GraphPointer lifted = check(graph, program, chip);
    ASSERT_NE(lifted, nullptr);
    EXPECT_EQ(layers(*lifted), 7);
    const auto conv =
        std::find_if(lifted->nodes.begin(), lifted->nodes.end(),
                     [](const graph::Node& node) { return node.kind() == NodeKind::kConv; });
    ASSERT_NE(conv, lifted->nodes.end());
    const auto& attributes = conv->as<graph::ConvAttributes>();
    EXPECT_EQ(attributes.pad_top, 1);
    EXPECT_EQ(attributes.pad_bottom, 1);
    EXPECT_EQ(attributes.groups, 1);
    EXPECT_EQ(lifted->tensor(conv->outputs[0]).dims, (Shape{1, 300, 20, 18}));
    // The weights are those of the graph, slices joined.
    const auto original =
        std::find_if(graph->nodes.begin(), graph->nodes.end(),
                     [](const graph::Node& node) { return node.kind() == NodeKind::kConv; });
    EXPECT_EQ(*lifted->tensor(conv->inputs[1]).constant,
              *graph->tensor(original->inputs[1]).constant);
    EXPECT_GT(program.tasks.size(), 10u);
  }
}

// A sum whose operands all repeat: the operands have fewer elements than the result.
TEST(Lift, OperandsThatAllRepeatGiveTheWholeResult) {
  GraphBuilder builder(5);
  const TensorId x =
      builder.unary(builder.input({1, 24, 1, 1}, Format::kF32), UnaryFunction::kRelu);
  const TensorId y = builder.unary(x, UnaryFunction::kAbs);
  Graph& graph = builder.graph();
  const auto repeated = [&](TensorId from) {
    const TensorId to{static_cast<std::int32_t>(graph.tensors.size())};
    graph.tensors.push_back(
        {"repeated" + std::to_string(to.value), Format::kF16, {1, 24, 2, 2}, nullptr});
    graph::MoveAttributes move;
    move.copies = {{.input = 0,
                    .input_offset = 0,
                    .output_offset = 0,
                    .extents = {24, 4},
                    .input_strides = {1, 0},
                    .output_strides = {4, 1}}};
    graph.nodes.push_back({"repeat" + std::to_string(to.value), {}, {from}, {to}, move});
    return to;
  };
  const TensorId a = repeated(x), b = repeated(y);
  const TensorId sum{static_cast<std::int32_t>(graph.tensors.size())};
  graph.tensors.push_back({"sum", Format::kF16, {1, 24, 2, 2}, nullptr});
  graph::ElementwiseAttributes add;
  add.binary = true;
  graph.nodes.push_back({"add", {}, {a, b}, {sum}, add});
  builder.output(builder.conv(sum, {6, 3, 1, 1}));
  const GraphPointer whole = builder.take();
  const ChipConfig chip = chip_of("tessera128");
  const auto package = compile::compile(whole, chip);
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  ASSERT_NE(check(whole, link_package(*package, chip), chip), nullptr);
}

// Between two segments the host adds up along an axis, which a constant names.
TEST(Lift, HostStepsStandBetweenTheLayers) {
  GraphBuilder builder(5);
  const TensorId x = builder.unary(builder.input({1, 4, 6, 5}, Format::kF32), UnaryFunction::kRelu);
  const TensorId before = builder.unary(x, UnaryFunction::kIdentity, Format::kF32);
  const TensorId axis = builder.constant({1}, Format::kI64);
  Graph& graph = builder.graph();
  auto constant = std::make_shared<Tensor>(Tensor::zeros(Format::kI64, {1}));
  constant->bytes[0] = std::byte{2};
  graph.tensor(axis).constant = constant;
  const TensorId after{static_cast<std::int32_t>(graph.tensors.size())};
  graph.tensors.push_back({"sums", Format::kF32, {1, 4, 6, 5}, nullptr});
  graph::HostStepAttributes step;
  step.node.op_type = "CumSum";
  step.node.inputs = {"x", "axis"};
  step.node.outputs = {"sums"};
  step.opset = 14;
  step.reason = "a test";
  graph.nodes.push_back({"host", {}, {before, axis}, {after}, step});
  builder.output(builder.unary(after, UnaryFunction::kIdentity));
  const GraphPointer whole = builder.take();
  const ChipConfig chip = chip_of("tessera128");
  const auto package = compile::compile(whole, chip);
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  const GraphPointer lifted = check(whole, link_package(*package, chip), chip);
  ASSERT_NE(lifted, nullptr);
  EXPECT_EQ(layers(*lifted), 4);
}

TEST(LiftErrors, AComputedKernelIsRefusedByName) {
  const ChipConfig chip = chip_of("edge");
  GraphBuilder builder(5);
  const TensorId x = builder.input({1, 64, 32, 32}, Format::kF32);
  builder.output(builder.conv(builder.unary(x, UnaryFunction::kIdentity), {8, 1}));
  const GraphPointer graph = builder.take();
  const auto package = compile::compile(graph, chip, {.compress_weights = false});
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  isa::Program program = link_package(*package, chip);
  for (isa::TaskDescriptor& task : program.tasks) {
    auto* const kernel = std::get_if<isa::KernelTask>(&task.config);
    if (kernel != nullptr) kernel->source = {isa::BaseIndex::kInput, 0};
  }
  const auto lifted = lift(program, chip);
  ASSERT_FALSE(lifted.ok());
  EXPECT_NE(lifted.error().message.find("loads a kernel from another region than the weights"),
            std::string::npos)
      << lifted.error().message;
}

// A program that is no good is refused before it is walked.
TEST(LiftErrors, ARaceIsRefused) {
  const ChipConfig chip = chip_of("edge");
  const GraphPointer graph = small_network();
  const auto package = compile::compile(graph, chip);
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  isa::Program program = link_package(*package, chip);
  for (isa::TaskDescriptor& task : program.tasks) task.dependencies.clear();
  const auto lifted = lift(program, chip);
  ASSERT_FALSE(lifted.ok());
  EXPECT_EQ(lifted.error().code, ErrorCode::kInvalidModel) << lifted.error().message;
}

// Nobody's memory is taken for what a few words of a program name.
TEST(LiftErrors, ARegionBeyondTheLimitIsRefused) {
  const ChipConfig chip = chip_of("edge");
  const auto package = compile::compile(small_network(), chip);
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  isa::Program program = link_package(*package, chip);
  program.workspace_bytes = 1 << 20;
  EXPECT_TRUE(lift(program, chip, {.region_bytes_max = 1 << 20}).ok());
  program.workspace_bytes += 1;
  const auto lifted = lift(program, chip, {.region_bytes_max = 1 << 20});
  ASSERT_FALSE(lifted.ok());
  EXPECT_EQ(lifted.error().code, ErrorCode::kDoesNotFit);
  EXPECT_EQ(lifted.error().message,
            "the program's workspace has 1048577 bytes; layers can be read back out of a program "
            "with at most 1048576");
}

// The program's edges are the processor's; in the application's form they are dense again.
TEST(Lift, MatricesInBlocksAtTheEdges) {
  GraphBuilder builder(8);
  const TensorId x = builder.input({1, 3, 10, 20});
  const TensorId y = builder.conv(x, {.output_channels = 5, .kernel = 3, .pad = 1});
  builder.output(builder.unary(y, UnaryFunction::kTanh));
  const GraphPointer dense = builder.take();
  const auto blocked = std::make_shared<const Graph>(graph::block_edges(*dense, {8, 16}));
  const ChipConfig chip = load_chip_config("tessera128").value();
  const auto package = compile::compile(blocked, chip);
  ASSERT_TRUE(package.ok()) << package.error().to_string();
  const auto lifted = lift(link_package(*package, chip), chip);
  ASSERT_TRUE(lifted.ok()) << lifted.error().to_string();
  for (const auto& [found, wanted] : {std::pair((*lifted)->inputs[0], blocked->inputs[0]),
                                      std::pair((*lifted)->outputs[0], blocked->outputs[0])}) {
    EXPECT_EQ((*lifted)->tensor(found).dims, blocked->tensor(wanted).dims);
    EXPECT_EQ((*lifted)->tensor(found).dense_dims, blocked->tensor(wanted).dense_dims);
  }
  const auto outside = std::make_shared<const Graph>(graph::dense_edges(**lifted));
  const std::vector<Tensor> inputs = random_inputs(*dense, 1);
  EXPECT_EQ(run(outside, inputs), run(dense, inputs));
  EXPECT_EQ(outside->tensor(outside->outputs[0]).name, dense->tensor(dense->outputs[0]).name);
}

}  // namespace
}  // namespace tessera::concord

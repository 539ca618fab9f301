// The application's form of tensors and the device's.
#include "device/device_form.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "host/executor.h"

namespace tessera::device {
namespace {

using compile::testing::GraphBuilder;
using graph::BlockLayout;
using graph::EdgeConversion;
using graph::MatrixSize;
using graph::TensorId;

using ByteList = std::vector<std::byte>;

// Any bits at all: subnormals, infinities and NaN among them.
ByteList random_bytes(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  ByteList bytes(static_cast<std::size_t>(count));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

const std::vector<EdgeConversion>& conversions() {
  static const std::vector<EdgeConversion> all = {
      {Format::kF32, Format::kF16, {}},
      {Format::kF16, Format::kF32, {}},
      {Format::kF32, Format::kBf16, {}},
      {Format::kF32, Format::kI8, {true, 0.05f, 3}},
      {Format::kF32, Format::kU8, {true, 1.7f, 128}},
      {Format::kU8, Format::kF16, {true, 0.02f, 100}},
      {Format::kU8, Format::kF16, {}},
      {Format::kF16, Format::kF16, {}},
  };
  return all;
}

TEST(DeviceForm, FastConversionsGiveTheBitsOfThePlainLoop) {
  for (const EdgeConversion& conversion : conversions()) {
    SCOPED_TRACE(std::string(format_name(conversion.from)) + " to " +
                 std::string(format_name(conversion.to)));
    const std::int64_t count = 5003;
    const ByteList from = random_bytes(count * format_bytes(conversion.from), 1);
    ByteList fast(static_cast<std::size_t>(count * format_bytes(conversion.to)));
    ByteList slow = fast;
    convert(conversion, from, fast);
    plain::convert(conversion, from, slow);
    EXPECT_EQ(fast, slow);
  }
}

TEST(DeviceForm, BlocksHoldTheMatrixAndZerosAndGiveItBack) {
  const BlockLayout layout{32, 64};
  const std::vector<MatrixSize> sizes = {{1, 1}, {32, 64}, {50, 164}, {33, 65}, {96, 128}, {7, 3}};
  for (EdgeConversion conversion : conversions()) {
    for (const MatrixSize& size : sizes) {
      conversion.layout = layout;
      conversion.matrix = size;
      SCOPED_TRACE(fmt::format("{} x {}, {} to {}", size.rows, size.columns,
                               format_name(conversion.from), format_name(conversion.to)));
      const std::int64_t elements = size.rows * size.columns;
      const ByteList dense = random_bytes(elements * format_bytes(conversion.from), 2);
      // What was in the memory before must not be seen.
      ByteList fast =
          random_bytes(blocked_bytes(size, layout, format_bytes(conversion.to)).value, 3);
      ByteList slow = random_bytes(std::ssize(fast), 4);
      to_blocks(conversion, dense, fast);
      plain::to_blocks(conversion, dense, slow);
      ASSERT_EQ(fast, slow);

      const EdgeConversion same{conversion.to, conversion.to, {}, layout, size};
      ByteList back(static_cast<std::size_t>(elements * format_bytes(conversion.to)));
      ByteList converted = back;
      from_blocks(same, fast, back);
      convert(conversion, dense, converted);
      EXPECT_EQ(back, converted);
      plain::from_blocks(same, fast, back);
      EXPECT_EQ(back, converted);
    }
  }
}

TEST(DeviceForm, ElementLiesInItsBlockRowByRow) {
  const MatrixSize size{33, 65};
  ByteList dense(static_cast<std::size_t>(size.rows * size.columns), std::byte{0});
  dense[static_cast<std::size_t>(32 * 65 + 64)] = std::byte{9};  // the last one
  ByteList blocks(4 * 32 * 64);
  to_blocks({Format::kU8, Format::kU8, {}, {32, 64}, size}, dense, blocks);
  EXPECT_EQ(blocks[3 * 32 * 64], std::byte{9});  // first of the fourth block
  EXPECT_EQ(std::count(blocks.begin(), blocks.end(), std::byte{0}), std::ssize(blocks) - 1);
}

// f32 in and out, f16 between, as a model has it.
std::shared_ptr<const NetworkState> model_network(const ChipConfig& chip) {
  GraphBuilder builder(9);
  const TensorId x = builder.input({1, 6, 10, 10}, Format::kF32);
  TensorId y = builder.unary(x, UnaryFunction::kIdentity);
  y = builder.conv(y, {.output_channels = 9, .kernel = 3, .pad = 1});
  y = builder.unary(y, UnaryFunction::kIdentity, Format::kF32);
  builder.output(y);
  return network::network_from_graph(builder.take(), chip, {})->share();
}

ByteList run(const graph::Graph& graph, ByteList input) {
  const auto executor =
      host::make_reference_executor(std::make_shared<const graph::Graph>(graph)).value();
  const graph::TensorInfo& in = graph.tensor(graph.inputs[0]);
  const Tensor tensor{in.format, in.dims, std::move(input)};
  return (*executor->run({&tensor, 1}))[0].bytes;
}

TEST(DeviceForm, NetworkWithoutItsEdgeConversionsGivesTheSameBits) {
  const ChipConfig chip = *load_chip_config("tessera128");
  const auto network = model_network(chip);
  const auto converted = in_device_form(*network);
  ASSERT_TRUE(converted.ok()) << converted.error().message;
  const graph::Graph& graph = converted->network.state().graph();
  EXPECT_EQ(network->graph().nodes.size(), 3u);
  EXPECT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(converted->network.inputs()[0].name, network->inputs[0].name);
  EXPECT_EQ(converted->network.inputs()[0].format, Format::kF16);
  EXPECT_EQ(converted->network.outputs()[0].name, network->outputs[0].name);
  EXPECT_EQ(converted->network.outputs()[0].format, Format::kF16);

  const ByteList image = random_bytes(6 * 100 * 4, 5);
  const ByteList whole = run(network->graph(), image);
  ByteList inside(6 * 100 * 2), outside(whole.size());
  convert(converted->inputs[0], image, inside);
  convert(converted->outputs[0], run(graph, inside), outside);
  EXPECT_EQ(outside, whole);
}

TEST(DeviceForm, InputThatIsReadTwiceKeepsItsConversion) {
  GraphBuilder builder(9);
  const TensorId x = builder.input({1, 4}, Format::kF32);
  const TensorId a = builder.unary(x, UnaryFunction::kIdentity);
  const TensorId b = builder.unary(x, UnaryFunction::kRelu);
  builder.output(builder.binary(a, b, BinaryFunction::kAdd));
  const auto converted = graph::take_edge_conversions(*builder.take());
  EXPECT_EQ(converted.graph.nodes.size(), 3u);
  EXPECT_EQ(converted.inputs[0].from, converted.inputs[0].to);
}

TEST(DeviceForm, GraphThatOnlyConvertsIsLeftAsItIs) {
  GraphBuilder builder(9);
  builder.output(builder.unary(builder.input({1, 4}, Format::kF32), UnaryFunction::kIdentity));
  const auto converted = graph::take_edge_conversions(*builder.take());
  EXPECT_EQ(converted.graph.nodes.size(), 1u);
}

}  // namespace
}  // namespace tessera::device

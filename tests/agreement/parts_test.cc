// Layers whose rows, planes or windows do not fit come in columns and parts, with the same bits.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::testing::GraphBuilder;
using graph::TensorId;

constexpr ReduceFunction kReductions[] = {
    ReduceFunction::kSum,       ReduceFunction::kMean,         ReduceFunction::kMaximum,
    ReduceFunction::kMinimum,   ReduceFunction::kProduct,      ReduceFunction::kSumAbsolute,
    ReduceFunction::kSumSquare, ReduceFunction::kRootSumSquare};

// How many tasks of the program are parts of something.
int parts_of(const isa::Program& program) {
  int parts = 0;
  for (const isa::TaskDescriptor& task : program.tasks) {
    const auto* planar = std::get_if<isa::PlanarTask>(&task.config);
    if (planar != nullptr && planar->in_parts()) ++parts;
  }
  return parts;
}

// On the small array with `bytes` a partition: the reference's bits; the number of parts.
int check(const std::shared_ptr<const graph::Graph>& graph, std::int32_t bytes) {
  ChipConfig chip = *load_chip_config("edge");
  chip.state_buffer.bytes_per_partition = bytes;
  const std::vector<Tensor> inputs = random_inputs(*graph, 7);
  const auto expected = run_reference(graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.error().to_string();
  const auto program = build_program(graph, chip, {});
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  if (!expected.ok() || !program.ok()) return 0;
  const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
  EXPECT_TRUE(found.ok()) << found.error().to_string();
  if (!found.ok()) return 0;
  EXPECT_EQ(expected->size(), found->size());
  for (std::size_t i = 0; i < expected->size(); ++i) {
    EXPECT_TRUE((*expected)[i] == (*found)[i]) << "output " << i;
  }
  return parts_of(*program);
}

std::shared_ptr<const graph::Graph> reduction(const Shape& dims, std::vector<std::int64_t> axes,
                                              ReduceFunction function, Format format) {
  GraphBuilder builder(3);
  auto x = builder.input(dims, Format::kF32);
  if (format != Format::kF32) x = builder.unary(x, UnaryFunction::kTanh, format);
  const auto y = builder.reduce(x, std::move(axes), function);
  builder.graph().tensor(y).format = format;
  builder.output(builder.unary(y, UnaryFunction::kIdentity, Format::kF32));
  return builder.take();
}

TEST(Parts, SlicesOfAKernelMayMeetWithinAChannelBlock) {
  // Kernel memory holds two slices of 41 of 128 columns; the next layer reads all channels.
  ChipConfig chip = *load_chip_config("tessera128");
  chip.neural.kernel_bytes_per_partition = 1312;
  GraphBuilder builder(3);
  const auto x = builder.input({3, 1024});
  const auto y = builder.matmul(x, builder.constant({1024, 300}));
  builder.output(builder.unary(builder.matmul(y, builder.constant({300, 40})),
                               UnaryFunction::kIdentity, Format::kF32));
  const auto graph = builder.take();
  const std::vector<Tensor> inputs = random_inputs(*graph, 7);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const auto program = build_program(graph, chip, {});
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  int crossing = 0;  // slices with channels of two blocks
  for (const isa::TaskDescriptor& task : program->tasks) {
    const auto* product = std::get_if<isa::NeuralTask>(&task.config);
    if (product == nullptr) continue;
    crossing += product->output_channel_first % 128 + product->product.image.output_channels > 128;
  }
  EXPECT_GT(crossing, 0);
  const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_TRUE(*found == *expected);
}

TEST(Parts, PlanesLargerThanTheBufferAreReducedInParts) {
  for (const ReduceFunction function : kReductions) {
    for (const Format format : {Format::kF16, Format::kBf16, Format::kF32}) {
      SCOPED_TRACE(::testing::Message()
                   << reduce_function_name(function) << " of " << format_name(format));
      EXPECT_GT(check(reduction({2, 20, 40, 31}, {2, 3}, function, format), 2048), 4);
    }
  }
}

TEST(Parts, RowsLargerThanTheBufferAreReducedInParts) {
  for (const Format format : {Format::kF16, Format::kF32}) {
    SCOPED_TRACE(format_name(format));
    const auto mean = reduction({1, 3, 2, 3001}, {3}, ReduceFunction::kMean, format);
    EXPECT_GT(check(mean, 2048), 4);
    const auto all = reduction({1, 2, 2, 3001}, {2, 3}, ReduceFunction::kRootSumSquare, format);
    EXPECT_GT(check(all, 2048), 4);
  }
}

struct PoolCase {
  PoolFunction function = PoolFunction::kAverage;
  std::int64_t window = 20, stride = 1, pad = 0, dilation = 1;
  bool include_padding = false;
  Format format = Format::kF16;
};

std::shared_ptr<const graph::Graph> pooling(const PoolCase& c) {
  GraphBuilder builder(5);
  auto x = builder.input({1, 18, 44, 45}, Format::kF32);
  const bool affine = c.format == Format::kU8;
  x = builder.unary(x, UnaryFunction::kSigmoid, c.format);
  if (affine) {
    builder.graph().nodes.back().as<graph::ElementwiseAttributes>().output = {true, 1.0f / 64, 3};
  }
  const auto y = builder.pool(x, c.function, c.window, c.stride, c.pad);
  graph::Graph& graph = builder.graph();
  auto& pool = graph.nodes.back().as<graph::PoolAttributes>();
  pool.dilation_h = pool.dilation_w = c.dilation;
  pool.include_padding = c.include_padding;
  const std::int64_t lost = (c.window - 1) * (c.dilation - 1) / c.stride;
  graph.tensor(y).dims[2] -= lost;
  graph.tensor(y).dims[3] -= lost;
  graph.tensor(y).format = c.format;
  if (affine) {
    pool.input = {true, 1.0f / 64, 3};
    pool.output = {true, 1.0f / 32, 5};
  }
  builder.output(y);
  return builder.take();
}

TEST(Parts, WindowsLargerThanTheLineBufferComeInParts) {
  const PoolCase cases[] = {
      {},
      {.stride = 3, .pad = 4, .include_padding = true},
      {.stride = 2, .pad = 9},
      {.window = 36, .stride = 5, .pad = 3, .format = Format::kF32},
      {.window = 12, .dilation = 3, .format = Format::kBf16},
      {.function = PoolFunction::kMaximum, .window = 33, .stride = 2, .pad = 16},
      {.function = PoolFunction::kMinimum, .window = 9, .dilation = 2, .format = Format::kF32},
      {.stride = 2, .pad = 5, .include_padding = true, .format = Format::kU8},
      {.function = PoolFunction::kMaximum, .stride = 2, .pad = 5, .format = Format::kU8},
  };
  for (const PoolCase& c : cases) {
    SCOPED_TRACE(::testing::Message() << pool_function_name(c.function) << " window " << c.window
                                      << " stride " << c.stride << " pad " << c.pad << " dilation "
                                      << c.dilation << " of " << format_name(c.format));
    for (const std::int32_t bytes : {1536, 32768}) EXPECT_GT(check(pooling(c), bytes), 1);
  }
}

TEST(Parts, RowsLargerThanTheBufferAreCutByColumns) {
  const auto with = [](const GraphBuilder::ConvShape& shape) {
    GraphBuilder builder(11);
    auto x = builder.unary(builder.input({1, 20, 3, 700}, Format::kF32), UnaryFunction::kTanh);
    x = builder.conv(x, shape);
    const auto y = builder.pool(x, PoolFunction::kMaximum, 3, 2, 1);
    const auto bias = builder.constant({1, builder.dims(y)[1], 1, builder.dims(y)[3]});
    builder.output(builder.binary(y, bias, BinaryFunction::kAdd));
    return builder.take();
  };
  const GraphBuilder::ConvShape shapes[] = {
      {.output_channels = 24, .kernel = 3, .pad = 1},
      {.output_channels = 24, .kernel = 3, .stride = 2, .pad = 1},
      {.output_channels = 20, .kernel = 3, .pad = 1, .groups = 20, .channel_wise = true},
      {.output_channels = 24, .kernel = 3, .pad = 2, .dilation = 2},
      {.output_channels = 16, .kernel = 3, .pad = 1, .input_dilation = 2}};
  for (const GraphBuilder::ConvShape& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << "stride " << shape.stride << " dilation " << shape.dilation
                                      << ", " << shape.input_dilation);
    check(with(shape), 1024);
    check(with(shape), 4096);
  }
}

}  // namespace
}  // namespace tessera::agreement

// Products whose sums do not fit kernel memory, or the state buffer, come in parts that stay in PSUM, with
// the bits of the reference, on one core and on several, and are one layer again when they are read out of
// the tasks.
#include <gtest/gtest.h>

#include <limits>

#include "arch/architecture_file.h"
#include "card/card.h"
#include "compile/compile_shares.h"
#include "compile/testing/random_graph.h"
#include "concord/lift/lift.h"
#include "host/executor.h"
#include "isa/verify.h"
#include "link/one_list.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::Split;
using compile::testing::GraphBuilder;
using graph::ConvAttributes;
using graph::MatMulAttributes;
using graph::NodeKind;
using graph::TensorId;
using GraphPointer = std::shared_ptr<const graph::Graph>;

int parts_of(const std::vector<isa::TaskDescriptor>& tasks) {
  int parts = 0;
  for (const isa::TaskDescriptor& task : tasks) {
    const auto* product = std::get_if<isa::NeuralTask>(&task.config);
    if (product != nullptr && product->psum.in_parts()) ++parts;
  }
  return parts;
}

void expect_same(const std::vector<Tensor>& expected, const Result<std::vector<Tensor>>& found,
                 const char* what) {
  ASSERT_TRUE(found.ok()) << what << ": " << found.error().to_string();
  ASSERT_EQ(expected.size(), found->size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(expected[i] == (*found)[i]) << what << ", output " << i;
  }
}

// The program's layers as the host computes them.
Result<std::vector<Tensor>> run_lifted(const isa::Program& program, const ChipConfig& chip,
                                       const std::vector<Tensor>& inputs) {
  TESSERA_TRY(const GraphPointer lifted, concord::lift(program, chip));
  TESSERA_TRY(const auto host, host::make_host_executor(lifted, {.threads = 1}));
  return host->run(inputs);
}

Result<std::vector<Tensor>> run_card(const isa::CardProgram& program, const ChipConfig& chip,
                                     const std::vector<Tensor>& inputs) {
  TESSERA_TRY(const CardPlacement placement,
              spread_cores(chip, 1, static_cast<int>(program.cores.size())));
  TESSERA_TRY(const auto card, card::Card::create(chip, placement));
  TESSERA_RETURN_IF_ERROR(card->load(program));
  const isa::Program& first = program.cores[0];
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(card->write(first.inputs[i].address, inputs[i].bytes));
  }
  TESSERA_TRY(const auto statistics, card->run_segment(0, {.check_hazards = true}));
  std::vector<Tensor> outputs;
  for (const isa::TensorSlot& slot : first.outputs) {
    outputs.push_back(Tensor::zeros(slot.format, slot.dims));
    TESSERA_RETURN_IF_ERROR(card->read(slot.address, outputs.back().bytes));
  }
  return outputs;
}

// On one core; the number of parts.
int check(const GraphPointer& graph, const ChipConfig& chip) {
  SCOPED_TRACE(chip.name);
  const std::vector<Tensor> inputs = random_inputs(*graph, 7);
  const auto expected = run_reference(graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.error().to_string();
  const auto program = build_program(graph, chip, {});
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  if (!expected.ok() || !program.ok()) return 0;
  expect_same(*expected, run_program(*program, chip, inputs, {.check_hazards = true}), "sim");
  expect_same(*expected, run_lifted(*program, chip, inputs), "lifted");
  return parts_of(program->tasks);
}

// On several cores, by their clock and task by task.
void check_cores(const GraphPointer& graph, ChipConfig chip, bool shares_in_parts = true) {
  chip.card.groups = 1;
  chip.card.cores_per_group = 4;
  const std::vector<Tensor> inputs = random_inputs(*graph, 7);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  for (const int cores : {1, 2, 4}) {
    for (const Split split : {Split::kRows, Split::kChannels}) {
      SCOPED_TRACE(::testing::Message() << cores << " cores, split " << static_cast<int>(split));
      const auto shared = compile::compile_shares(graph, chip, {},
                                                  {.cores = cores, .split = split, .of_nodes = {}});
      ASSERT_TRUE(shared.ok()) << shared.error().to_string();
      if (cores == 1 || split == Split::kRows || shares_in_parts) {
        EXPECT_GT(parts_of(shared->card.cores[0].tasks), 1);
      }
      const Status proof = isa::verify_card_program(shared->card, chip);
      ASSERT_TRUE(proof.ok()) << proof.error().to_string();
      expect_same(*expected, run_card(shared->card, chip, inputs), "card");
      for (const link::ListOrder order :
           {link::ListOrder::kFirstCore, link::ListOrder::kLastCore, link::ListOrder::kLayers}) {
        const auto list = link::in_one_list(shared->card, chip, order);
        ASSERT_TRUE(list.ok()) << list.error().to_string();
        expect_same(*expected, run_program(list->program, list->chip, inputs, {}), "one list");
        expect_same(*expected, run_lifted(list->program, list->chip, inputs), "lifted");
      }
    }
  }
}

// A profile whose kernel memory has so many bytes a partition, and whose memory is never what it waits
// for: arithmetic decides how kernels are cut.
ChipConfig with_kernels_of(const char* profile, std::int32_t bytes) {
  ChipConfig chip = *load_chip_config(profile);
  chip.neural.kernel_bytes_per_partition = bytes;
  chip.dram.device = DramKind::kFlat;
  chip.dram.flat_megabytes_per_second = 1'000'000;
  return chip;
}

// Two products, so that the second reads all channels of the first.
GraphPointer matrices(std::int64_t rows, std::int64_t depth) {
  GraphBuilder builder(3);
  auto x = builder.matmul(builder.input({rows, depth}), builder.constant({depth, 300}));
  x = builder.matmul(x, builder.constant({300, 40}));
  builder.output(builder.unary(x, UnaryFunction::kIdentity, Format::kF32));
  return builder.take();
}

GraphPointer convolution(const GraphBuilder::ConvShape& shape, std::int64_t channels,
                         std::int64_t images = 1, std::int64_t side = 7) {
  GraphBuilder builder(4);
  const auto x = builder.conv(builder.input({images, channels, side, side}), shape);
  builder.output(builder.unary(x, UnaryFunction::kIdentity, Format::kF32));
  return builder.take();
}

TEST(SumParts, MatrixProducts) {
  for (const std::int64_t rows : {1, 5}) {
    EXPECT_GT(check(matrices(rows, 1500), with_kernels_of("tessera128", 2048)), 4);
    EXPECT_GT(check(matrices(rows, 1500), with_kernels_of("cloud16", 4096)), 4);
    EXPECT_GT(check(matrices(rows, 1500), with_kernels_of("edge", 4096)), 4);
  }
}

TEST(SumParts, SumsOfWhichKernelMemoryHoldsNoOutputChannel) {
  // A channel takes 188 bytes.
  EXPECT_GT(check(matrices(3, 1500), with_kernels_of("cloud16", 160)), 4);
}

TEST(SumParts, Convolutions) {
  // More than half of the columns: fewer would hold taps, which products in parts do not.
  const GraphPointer graph = convolution({.output_channels = 72, .kernel = 3, .pad = 1}, 300);
  EXPECT_GT(check(graph, with_kernels_of("tessera128", 2048)), 1);
  EXPECT_GT(check(graph, with_kernels_of("cloud16", 4096)), 1);
  // Eight engines share blocks of channels, which a few pixels leave no other way.
  const GraphPointer small = convolution({.output_channels = 64, .kernel = 3, .pad = 1}, 300, 1, 3);
  EXPECT_GT(check(small, with_kernels_of("edge", 32768)), 1);
  const GraphPointer strided = convolution(
      {.output_channels = 40, .kernel = 3, .stride = 2, .pad = 1, .dilation = 2}, 512, 3);
  EXPECT_GT(check(strided, with_kernels_of("cloud16", 4096)), 1);
}

TEST(SumParts, GroupedConvolutions) {
  const GraphPointer graph =
      convolution({.output_channels = 48, .kernel = 3, .pad = 1, .groups = 3}, 3 * 256);
  EXPECT_GT(check(graph, with_kernels_of("cloud16", 4096)), 1);
  EXPECT_GT(check(graph, with_kernels_of("edge", 4096)), 1);
}

TEST(SumParts, NoMoreResultsAtATimeThanPsumHasEntries) {
  ChipConfig chip = with_kernels_of("cloud16", 4096);
  chip.neural.psum_banks = 2;
  for (const std::int32_t columns : {32, 5, 2}) {  // rows, a row, and parts of a row of 7
    chip.neural.psum_bank_columns = columns;
    EXPECT_GT(check(convolution({.output_channels = 24, .kernel = 3, .pad = 1}, 300, 2), chip), 1);
  }
}

TEST(SumParts, ComputedOperandsThatTheStateBufferDoesNotHold) {
  GraphBuilder builder(5);
  const auto y = builder.unary(builder.input({700, 40}), UnaryFunction::kTanh);
  builder.output(builder.matmul(builder.input({38, 700}), y));
  ChipConfig chip = *load_chip_config("cloud16");
  chip.state_buffer.bytes_per_partition = 2048;  // 44 blocks of 80 bytes
  EXPECT_GT(check(builder.take(), chip), 1);
}

// Every kind of operand that the array takes.
TEST(SumParts, AllFormats) {
  for (const char* format : {"bfp:7", "bfp:15:q34.40", "mxint8", "mxfp8e4m3", "f16"}) {
    SCOPED_TRACE(format);
    const ChipConfig chip = with_kernels_of((std::string("cloud16+") + format).c_str(), 2048);
    graph::Graph graph = *matrices(3, 1500);
    for (graph::Node& node : graph.nodes) {
      if (node.kind() != NodeKind::kMatMul) continue;
      node.as<MatMulAttributes>().matrix = chip.formats.matrix;
    }
    EXPECT_GT(check(std::make_shared<const graph::Graph>(std::move(graph)), chip), 4);
  }
}

// Sums of f32 are rounded term by term: a kernel of one tap comes in parts, one of several does not.
TEST(SumParts, PlainFloatsKeepTheOrderOfTheirSum) {
  const ChipConfig chip = with_kernels_of("f32", 2048);
  const auto of_kernel = [&](std::int64_t kernel) {
    graph::Graph graph = *convolution({.output_channels = 40, .kernel = kernel}, 3000, 1, 3);
    for (graph::Node& node : graph.nodes) {
      if (node.kind() == NodeKind::kConv)
        node.as<ConvAttributes>().matrix.kind = MatrixKind::kFloat;
    }
    return check(std::make_shared<const graph::Graph>(std::move(graph)), chip);
  };
  EXPECT_GT(of_kernel(1), 1);
  EXPECT_EQ(of_kernel(3), 0);
}

// int8 with zero points on both sides, a bias, and multipliers for each output channel.
TEST(SumParts, QuantisedProducts) {
  GraphBuilder builder(6);
  const auto x = builder.input({4, 900}, Format::kU8);
  const auto y = builder.matmul(x, builder.constant({900, 50}, Format::kI8));
  graph::Graph& graph = builder.graph();
  auto& product = graph.nodes.back().as<MatMulAttributes>();
  product.matrix.kind = MatrixKind::kInteger;
  product.integer.moving_zero_point = 128;
  product.post.requantise = true;
  product.post.output_zero_point = 3;
  std::vector<std::int32_t>& points = product.integer.stationary_zero_points;
  points.clear();
  for (int i = 0; i < 50; ++i) {
    points.push_back(i % 5 - 2);
    product.post.multipliers.push_back(0.0001f * static_cast<float>(i + 1));
  }
  graph.nodes.back().inputs.push_back(builder.constant({50}, Format::kI32));
  graph.tensor(y).format = Format::kU8;
  product.post.clamp_low = 0;
  product.post.clamp_high = 255;
  builder.output(y);
  const GraphPointer whole = builder.take();
  EXPECT_GT(check(whole, with_kernels_of("cloud16", 1024)), 4);
  EXPECT_GT(check(whole, with_kernels_of("edge", 1024)), 4);
  EXPECT_GT(check(whole, with_kernels_of("tessera128", 512)), 1);
}

TEST(SumParts, SeveralCores) {
  check_cores(matrices(5, 1500), with_kernels_of("cloud16", 4096));
  check_cores(convolution({.output_channels = 64, .kernel = 3, .pad = 1}, 300),
              with_kernels_of("cloud16", 4096));
  check_cores(convolution({.output_channels = 64, .kernel = 3, .pad = 1}, 300, 1, 3),
              with_kernels_of("edge", 32768), false);  // a share of the channels fits
}

TEST(SumParts, SeveralCoresWithComputedOperands) {
  GraphBuilder builder(5);
  const auto y = builder.unary(builder.input({700, 40}), UnaryFunction::kTanh);
  builder.output(builder.matmul(builder.input({38, 700}), y));
  ChipConfig chip = *load_chip_config("cloud16");
  chip.state_buffer.bytes_per_partition = 2048;
  check_cores(builder.take(), chip, false);  // a share of the channels fits
}

}  // namespace
}  // namespace tessera::agreement

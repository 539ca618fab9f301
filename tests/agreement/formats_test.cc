// Number formats at the array's inputs: the processor, the host and the reference give equal bits
// on random graphs for every format, and different formats do not.
#include <gtest/gtest.h>

#include <set>

#include "arch/architecture_file.h"
#include "arith/block_float.h"
#include "arith/rounding.h"
#include "base/test_volume.h"
#include "compile/testing/random_graph.h"
#include "graph/passes/passes.h"
#include "graph/verify.h"
#include "host/executor.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using graph::NodeKind;

// The graph with all its float products in the format of `chip`.
std::shared_ptr<const graph::Graph> in_format(const graph::Graph& graph, const ChipConfig& chip) {
  auto result = std::make_shared<graph::Graph>(graph);
  for (graph::Node& node : result->nodes) {
    MatrixFormat* matrix = nullptr;
    if (node.kind() == NodeKind::kConv) matrix = &node.as<graph::ConvAttributes>().matrix;
    if (node.kind() == NodeKind::kMatMul) matrix = &node.as<graph::MatMulAttributes>().matrix;
    if (matrix != nullptr && matrix->kind != MatrixKind::kInteger) *matrix = chip.formats.matrix;
  }
  if (chip.formats.vector_inputs == VectorInputs::kQuantised) {
    graph::quantise_vector_inputs(*result, chip.formats.matrix);
    EXPECT_TRUE(graph::verify(*result).ok()) << graph::verify(*result).error().to_string();
  }
  return result;
}

// What the reference gives, once all three agree on it.
std::vector<Tensor> agreed(const ChipConfig& chip, std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << chip.name << ", seed " << seed);
  const auto graph = in_format(*compile::testing::random_graph(seed), chip);
  const std::vector<Tensor> inputs = random_inputs(*graph, seed);
  const auto expected = run_reference(graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.error().to_string();
  const auto host = host::make_host_executor(graph, {.threads = 1});
  EXPECT_TRUE(host.ok()) << host.error().to_string();
  const auto program = build_program(graph, chip, {});
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  if (!expected.ok() || !host.ok() || !program.ok()) return {};
  const auto by_host = (*host)->run(inputs);
  EXPECT_TRUE(by_host.ok() && *by_host == *expected) << "host";
  const auto by_sim = run_program(*program, chip, inputs, {.check_hazards = true});
  EXPECT_TRUE(by_sim.ok()) << by_sim.error().to_string();
  EXPECT_TRUE(by_sim.ok() && *by_sim == *expected) << "sim";
  return *expected;
}

std::vector<Tensor> agreed(const std::string& architecture, std::uint64_t seed) {
  const auto chip = load_chip_config(architecture);
  EXPECT_TRUE(chip.ok()) << chip.error().to_string();
  return chip.ok() ? agreed(*chip, seed) : std::vector<Tensor>{};
}

std::uint64_t step() { return static_cast<std::uint64_t>(visit_one_in(2, 3)); }

void check_format(const std::string& format) {
  for (std::uint64_t seed = 4000; seed < 4003; seed += step()) {
    const auto wide = agreed("tessera128+" + format, seed);
    // Passes of 16 rows, eight engines: the same native blocks, the same bits.
    const auto narrow = agreed("edge+" + format, seed);
    EXPECT_TRUE(wide == narrow) << format << ", seed " << seed;
  }
}

TEST(Formats, MicroscalingAgreesOnEveryDevice) {
  for (const char* format : {"mxint8", "mxfp8e4m3", "mxfp8e5m2", "mxfp6e3m2", "mxfp6e2m3",
                             "mxfp4e2m1", "mxfp8e5m2:mxfp4e2m1:even", "mxfp8e4m3:ceil"}) {
    check_format(format);
  }
}

TEST(Formats, BlockFloatOfEveryWidthAgreesOnEveryDevice) {
  for (const char* format : {"bfp:2", "bfp:7", "bfp:12:9", "bfp:15", "bfp:15:q34.40", "bfp:q34.40"})
    check_format(format);
}

TEST(Formats, PlainF16AgreesOnEveryDevice) { check_format("f16"); }

TEST(Formats, BrainwaveAgreesOnEveryDevice) {
  for (std::uint64_t seed = 4100; seed < 4110; seed += step()) {
    const auto found = agreed("brainwave", seed);
    EXPECT_TRUE(found == agreed("tessera128+bfp:15:q34.40", seed)) << seed;
  }
}

TEST(Formats, QuantisedVectorInputsAgreeOnEveryDevice) {
  for (const char* format : {"bfp:4", "mxfp4e2m1"}) {
    ChipConfig chip = *load_chip_config(std::string("tessera128+") + format);
    ChipConfig small = *load_chip_config(std::string("edge+") + format);
    int changed = 0;
    for (std::uint64_t seed = 4200; seed < 4202; ++seed) {
      chip.formats.vector_inputs = small.formats.vector_inputs = VectorInputs::kPlain;
      const auto plain = agreed(chip, seed);
      chip.formats.vector_inputs = small.formats.vector_inputs = VectorInputs::kQuantised;
      const auto quantised = agreed(chip, seed);
      EXPECT_TRUE(quantised == agreed(small, seed)) << format << ", seed " << seed;
      changed += quantised == plain ? 0 : 1;
    }
    EXPECT_GT(changed, 0) << format;
  }
}

// Native vectors of 128 along the channels of an image, along the last axis of anything else.
TEST(Formats, AVectorInputIsWhatTheQuantiserMakesOfItsNativeVectors) {
  for (const Shape& dims : {Shape{2, 300, 3, 2}, Shape{1, 256, 2, 2}, Shape{3, 300}, Shape{5, 40},
                            Shape{300}, Shape{2, 3, 130}}) {
    compile::testing::GraphBuilder builder(7);
    const auto x = builder.input(dims);
    builder.output(builder.unary(x, UnaryFunction::kRelu));
    graph::Graph graph = builder.graph();
    const MatrixFormat matrix{.mantissa_bits_moving = 5, .mantissa_bits_stationary = 2};
    graph::quantise_vector_inputs(graph, matrix);
    ASSERT_TRUE(graph::verify(graph).ok()) << graph::verify(graph).error().to_string();
    const auto inputs = random_inputs(graph, 3);
    const auto found = run_reference(std::make_shared<const graph::Graph>(graph), inputs);
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    const std::int64_t stride = dims.size() == 4 ? dims[2] * dims[3] : 1;
    const std::int64_t count = dims.size() == 4 ? dims[1] : dims.back();
    for (std::int64_t run = 0; run < element_count(dims) / count; ++run) {
      const std::int64_t begin = run / stride * count * stride + run % stride;
      for (std::int64_t first = 0; first < count; first += 128) {
        arith::StickyFlags flags;
        const auto block = arith::ref::quantise_block(
            {Format::kF16, inputs[0].bytes.data() + 2 * (begin + first * stride),
             std::min<std::int64_t>(128, count - first), stride},
            5, flags);
        for (std::size_t k = 0; k < block.mantissas.size(); ++k) {
          const double value =
              std::max(0.0, arith::ref::block_value(block.mantissas[k], block.exponent, 15, 5));
          const std::int64_t at = begin + (first + static_cast<std::int64_t>(k)) * stride;
          ASSERT_EQ(arith::read_element(Format::kF16, (*found)[0].bytes.data() + 2 * at), value);
        }
      }
    }
  }
}

// Some graphs have no product, or saturate.
TEST(Formats, EachFormatHasBitsOfItsOwn) {
  const std::vector<const char*> formats = {"bfp:3",     "bfp:7",     "bfp:11",
                                            "mxint8",    "mxfp8e4m3", "mxfp8e5m2",
                                            "mxfp6e3m2", "mxfp6e2m3", "mxfp4e2m1"};
  std::size_t most = 0;
  for (std::uint64_t seed = 4000; seed < 4004; ++seed) {
    std::set<std::vector<std::byte>> results;
    for (const char* format : formats) {
      std::vector<std::byte> bytes;
      for (const Tensor& tensor : agreed(std::string("tessera128+") + format, seed)) {
        bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
      }
      results.insert(std::move(bytes));
    }
    most = std::max(most, results.size());
  }
  EXPECT_EQ(most, formats.size());
}

}  // namespace
}  // namespace tessera::agreement

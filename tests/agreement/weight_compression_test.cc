// Compressed weights change no bit: sim with and without compression against the reference, on
// random graphs as they are and with 70 % of their weights zero.
#include <gtest/gtest.h>

#include <random>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "package/weight_use.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

// The graph with 7 of 10 weights of its products 0.
std::shared_ptr<const graph::Graph> sparse(const graph::Graph& dense, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto result = std::make_shared<graph::Graph>(dense);
  for (const graph::Node& node : result->nodes) {
    if (node.kind() != graph::NodeKind::kConv && node.kind() != graph::NodeKind::kMatMul) continue;
    graph::TensorInfo& info = result->tensor(node.inputs[1]);
    if (info.constant == nullptr) continue;
    auto weights = std::make_shared<Tensor>(*info.constant);
    const auto element = static_cast<std::size_t>(format_bytes(weights->format));
    for (std::size_t at = 0; at < weights->bytes.size(); at += element) {
      if (random() % 10 >= 7) continue;
      std::fill_n(weights->bytes.begin() + static_cast<std::ptrdiff_t>(at), element, std::byte{0});
    }
    info.constant = std::move(weights);
  }
  return result;
}

void check_graph(std::shared_ptr<const graph::Graph> graph, const ChipConfig& chip,
                 std::uint64_t seed, package::WeightUse& sum) {
  SCOPED_TRACE(::testing::Message() << chip.name << ", seed " << seed);
  const std::vector<Tensor> inputs = random_inputs(*graph, seed);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  for (const bool compress : {false, true}) {
    const auto package = compile::compile(graph, chip, {.compress_weights = compress});
    ASSERT_TRUE(package.ok()) << package.error().to_string();
    const package::WeightUse use = package::weight_use(*package);
    if (compress) {
      sum.add(use);
    } else {
      EXPECT_EQ(use.saved_bytes(), 0);
    }
    const auto program = build_program(graph, chip, {.compress_weights = compress});
    ASSERT_TRUE(program.ok()) << program.error().to_string();
    const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    EXPECT_TRUE(*expected == *found) << "compress " << compress;
  }
}

TEST(WeightCompression, ChangesNoBitOnAnyProfile) {
  for (const char* profile : {"tessera128", "f32", "pe128x64", "edge"}) {
    const ChipConfig chip = *load_chip_config(profile);
    package::WeightUse sum;
    for (std::uint64_t seed = 3000; seed < 3006; ++seed) {
      check_graph(compile::testing::random_graph(seed), chip, seed, sum);
      check_graph(sparse(*compile::testing::random_graph(seed), seed), chip, seed, sum);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(sum.compressed_loads(), 6) << profile;
    EXPECT_GT(sum.saved_bytes(), sum.expanded_bytes / 4) << profile;
  }
}

}  // namespace
}  // namespace tessera::agreement

// Outputs leave while what stands before them in the graph is still worked on.
#include "compile/early_outputs.h"

#include <gtest/gtest.h>

#include "arch/testing/flat_memory.h"
#include "compile/testing/compiled_program.h"
#include "compile/testing/random_graph.h"

namespace tessera::compile {
namespace {

using isa::BaseIndex;
using isa::EngineKind;
using isa::Program;
using testing::build;
using testing::GraphBuilder;

// Rows of a convolution that the state buffer does not hold, an output for each quarter of them; of the last quarter by way of
// another product with `follows`.
Program quarters(bool follows) {
  GraphBuilder builder(1);
  const auto y = builder.conv(builder.input({1, 64, 256, 128}), {16, 7, 1, 3});
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto part = builder.unary(builder.slice(y, 2, i * 64, 64), UnaryFunction::kSigmoid,
                                    follows ? Format::kF16 : Format::kF32);
    builder.output(follows ? builder.conv(part, {16, 1}) : part);
  }
  ChipConfig chip;
  chip.state_buffer.bytes_per_partition = 48 << 10;
  tessera::testing::set_flat_memory(chip, 512, 1);
  return build(builder.take(), chip);
}

// Tasks that compute the first layer, and stand behind the first store of an output.
std::size_t products_behind_first_output(const Program& program) {
  std::size_t behind = 0;
  bool stored = false;
  for (const isa::TaskDescriptor& task : program.tasks) {
    if (task.engine == EngineKind::kStore) {
      const auto* const transfer = std::get_if<isa::TransferTask>(&task.config);
      stored = stored || (transfer != nullptr && transfer->dram.address.base == BaseIndex::kOutput);
    }
    if (stored && task.engine == EngineKind::kNeural && task.layer == 0) ++behind;
  }
  return behind;
}

TEST(EarlyOutputs, AnOutputIsStoredBeforeAllOfTheLayerBeforeItIsDone) {
  EXPECT_GT(products_behind_first_output(quarters(false)), 0u);
}

TEST(EarlyOutputs, WhatAProductReadsKeepsItsPlace) {
  EXPECT_EQ(products_behind_first_output(quarters(true)), 0u);
}

}  // namespace
}  // namespace tessera::compile

// Programs written by hand, lifted: the graphs give the virtual processor's bits on host and ref.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "concord/lift/lift.h"
#include "example.h"
#include "host/executor.h"

namespace tessera::firmware {
namespace {

class Lifted : public ::testing::TestWithParam<const char*> {};

std::vector<Tensor> run(Result<std::unique_ptr<host::Executor>> executor,
                        const std::vector<Tensor>& inputs) {
  EXPECT_TRUE(executor.ok()) << executor.error().to_string();
  if (!executor.ok()) return {};
  auto outputs = (*executor)->run(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().to_string();
  return outputs.ok() ? std::move(*outputs) : std::vector<Tensor>{};
}

TEST_P(Lifted, ExamplesGiveTheProcessorsBits) {
  for (const char* arch : {"tessera128", "brainwave", "cloud16", "edge", "pe128x64"}) {
    SCOPED_TRACE(arch);
    // Its matrices do not fit the small one's matrix register file.
    if (std::string(arch) == "edge" && std::string(GetParam()) == "perceptron") continue;
    const auto chip = load_chip_config(arch);
    ASSERT_TRUE(chip.ok());
    const isa::Program program = assemble_example(GetParam(), *chip);
    std::vector<Tensor> inputs;
    for (const isa::TensorSlot& slot : program.inputs) {
      ASSERT_EQ(slot.format, Format::kF16);
      const auto count = static_cast<std::size_t>(element_count(slot.dims));
      inputs.push_back(f16_tensor(slot.dims, random_values(40 + inputs.size(), 1, count)));
    }
    const RunResult expected = run_program(program, *chip, inputs);
    const auto graph = concord::lift(program, *chip);
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    ASSERT_FALSE(expected.outputs.empty());
    EXPECT_EQ(run(host::make_host_executor(*graph), inputs), expected.outputs);
    EXPECT_EQ(run(host::make_reference_executor(*graph), inputs), expected.outputs);
    RecordProperty(std::string(arch) + "_nodes", static_cast<int>((*graph)->nodes.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, Lifted,
                         ::testing::Values("perceptron", "lstm", "gru", "conv1x1", "conv3x3",
                                           "conv3x3_taps", "attention"));

}  // namespace
}  // namespace tessera::firmware

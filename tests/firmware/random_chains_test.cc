// Chains at random: the virtual processor, the lifted graph on host and ref, and processors of
// other sizes give the same bits.
#include "firmware/testing/random_chains.h"

#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "concord/lift/lift.h"
#include "example.h"
#include "firmware/disassembler.h"
#include "host/executor.h"
#include "package/container.h"

namespace tessera::firmware {
namespace {

constexpr std::uint64_t kSeeds = 60;
constexpr std::uint64_t kLiftedSeeds = 300;

ChipConfig chip_named(const char* name) {
  auto chip = load_chip_config(name);
  EXPECT_TRUE(chip.ok()) << chip.error().message;
  return *chip;
}

isa::Program assembled(std::uint64_t seed, const ChipConfig& chip) {
  AssembleOptions options;
  options.chip = &chip;
  const std::string text = testing::random_chains(seed);
  auto program = assemble(text, "seed " + std::to_string(seed), options);
  EXPECT_TRUE(program.ok()) << program.error().message << "\n" << text;
  return program.ok() ? std::move(program).value() : isa::Program{};
}

Tensor input_of(const isa::Program& program, std::uint64_t seed) {
  const isa::TensorSlot& slot = program.inputs.at(0);
  return f16_tensor(slot.dims,
                    random_values(seed, 2, static_cast<std::size_t>(element_count(slot.dims))));
}

TEST(RandomChains, LiftedGraphsGiveTheProcessorsBits) {
  const ChipConfig chip = chip_named("tessera128");
  std::int64_t values = 0;
  for (std::uint64_t seed = 1; seed <= kLiftedSeeds; ++seed) {
    const isa::Program program = assembled(seed, chip);
    ASSERT_FALSE(HasFailure());
    const Tensor input = input_of(program, seed);
    const RunResult run = run_program(program, chip, {input});
    ASSERT_EQ(run.outputs.size(), 1u) << "seed " << seed;
    const auto graph = concord::lift(program, chip);
    ASSERT_TRUE(graph.ok()) << "seed " << seed << ": " << graph.error().message << "\n"
                            << testing::random_chains(seed);
    auto reference = host::make_reference_executor(*graph);
    ASSERT_TRUE(reference.ok()) << reference.error().message;
    const auto outputs = reference.value()->run(std::vector<Tensor>{input});
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    EXPECT_EQ(outputs->at(0).bytes, run.outputs[0].bytes) << "seed " << seed << "\n"
                                                          << testing::random_chains(seed);
    auto fast = host::make_host_executor(*graph);
    ASSERT_TRUE(fast.ok()) << fast.error().message;
    const auto again = fast.value()->run(std::vector<Tensor>{input});
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->at(0).bytes, run.outputs[0].bytes) << "seed " << seed;
    values += element_count(run.outputs[0].dims);
  }
  EXPECT_GT(values, 100'000);
}

TEST(RandomChains, TilingAndSizeChangeNoBit) {
  const ChipConfig first = chip_named("tessera128");
  ChipConfig small = chip_named("edge");
  small.formats = first.formats;
  small.neural.kernel_bytes_per_partition = 1 << 20;  // room for matrices of any seed
  small.state_buffer.bytes_per_partition = 1 << 20;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const isa::Program program = assembled(seed, first);
    ASSERT_FALSE(HasFailure());
    const Tensor input = input_of(program, seed);
    const RunResult here = run_program(program, first, {input});
    const RunResult there = run_program(assembled(seed, small), small, {input});
    ASSERT_EQ(here.outputs.size() + there.outputs.size(), 2u) << "seed " << seed;
    EXPECT_EQ(here.outputs[0].bytes, there.outputs[0].bytes) << "seed " << seed << "\n"
                                                             << testing::random_chains(seed);
  }
}

TEST(RandomChains, TextComesBackByteForByte) {
  const ChipConfig chip = chip_named("tessera128");
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const isa::Program program = assembled(seed, chip);
    const auto back = assemble(disassemble(program, {}), "again", {});
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_TRUE(package::serialise(*back) == package::serialise(program)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera::firmware

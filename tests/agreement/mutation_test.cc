// The verifier against broken programs: a dependency is removed or moved by some steps. What the
// verifier lets pass must do no harm: no hazard while running, and the same bits.
#include <gtest/gtest.h>

#include <random>

#include "compile/testing/random_graph.h"
#include "program/encoding.h"
#include "program/verify.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using program::Program;

// Writes the stream anew from the tasks.
void encode_again(Program& program) {
  program.stream.clear();
  program.stream_offsets.clear();
  for (const program::TaskDescriptor& task : program.tasks) {
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    const auto bytes = program::encode(task);
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
  }
}

// Removes a dependency, or asks for some steps less.
void mutate(Program& program, std::mt19937_64& random) {
  for (;;) {
    auto& list = program.tasks[random() % program.tasks.size()].dependencies;
    if (list.empty()) continue;
    const auto at = static_cast<std::ptrdiff_t>(random() % list.size());
    if (random() % 2 == 0) {
      list.erase(list.begin() + at);
    } else {
      program::Dependency& d = list[static_cast<std::size_t>(at)];
      d.offset -= d.denominator * static_cast<std::int64_t>(1 + random() % 3);
    }
    encode_again(program);
    return;
  }
}

TEST(Mutation, WhatTheVerifierLetsPassDoesNoHarm) {
  constexpr std::uint64_t kSeed = 5;
  std::mt19937_64 random(kSeed);
  ChipConfig chip = *load_chip_config("tessera128");
  chip.state_buffer.bytes_per_partition = 16384;
  int caught = 0;
  int passed = 0;
  for (std::uint64_t seed = 2000; seed < 2012; ++seed) {
    const auto graph = compile::testing::random_graph(seed);
    const std::vector<Tensor> inputs = random_inputs(*graph, seed);
    const auto good = build_program(graph, chip, {});
    ASSERT_TRUE(good.ok()) << good.error().to_string();
    const auto expected = run_program(*good, chip, inputs, {.check_hazards = true});
    ASSERT_TRUE(expected.ok()) << expected.error().to_string();
    for (int round = 0; round < 20; ++round) {
      SCOPED_TRACE(::testing::Message() << "graph " << seed << ", round " << round);
      Program broken = *good;
      mutate(broken, random);
      if (!program::verify_program(broken, chip).ok()) {
        ++caught;
        continue;
      }
      ++passed;
      const auto found = run_program(broken, chip, inputs, {.check_hazards = true});
      ASSERT_TRUE(found.ok()) << found.error().to_string();
      EXPECT_TRUE(*expected == *found);
    }
  }
  EXPECT_GT(caught, 3 * passed);
}

}  // namespace
}  // namespace tessera::agreement

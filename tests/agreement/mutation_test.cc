// The verifier against broken programs: dependencies are deleted and shifted at random.
//
//   good program ──mutate──► verifier ──rejects──► the hazard check must see the race as well
//                                │
//                              passes
//                                ▼
//           engines of other speeds (random delays), hazard check on: the same bits, no hazard
//
// "Harmful" is judged by the bits alone: the mutant's outputs differ, or it stops, with some speeds
// of the engines and no check on. Every harmful one must be among those that the verifier rejects.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "compile/testing/random_graph.h"
#include "isa/dependencies.h"
#include "isa/encoding.h"
#include "isa/verify.h"
#include "network/network.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using isa::Program;

enum class Mutation : std::uint8_t { kDelete, kEarlier, kLater, kSlope, kOtherTask };
constexpr int kMutationCount = 5;
constexpr const char* kMutationNames[kMutationCount] = {"delete", "earlier", "later", "slope",
                                                        "other task"};

struct Count {
  int rejected = 0, passed = 0, harmful = 0, hazards = 0;
};
struct Tally {
  Count counts[kMutationCount];
  Count total() const {
    Count sum;
    for (const Count& count : counts) {
      sum.rejected += count.rejected;
      sum.passed += count.passed;
      sum.harmful += count.harmful;
      sum.hazards += count.hazards;
    }
    return sum;
  }
  void print() const {
    fmt::print("{:<12} {:>9} {:>8} {:>8} {:>16}\n", "mutation", "rejected", "passed", "harmful",
               "hazard reported");
    for (int i = 0; i < kMutationCount; ++i) {
      const Count& c = counts[i];
      fmt::print("{:<12} {:>9} {:>8} {:>8} {:>16}\n", kMutationNames[i], c.rejected, c.passed,
                 c.harmful, c.hazards);
    }
  }
};

// Writes the stream anew from the tasks.
void encode_again(Program& program) {
  program.stream.clear();
  program.stream_offsets.clear();
  for (const isa::TaskDescriptor& task : program.tasks) {
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    const auto bytes = isa::encode(task);
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
  }
}

// Gives most tasks of neural and planar engines a random set of them, and derives the dependencies
// anew. The bits stay.
void spread(Program& program, const ChipConfig& chip, std::mt19937_64& random) {
  std::vector<std::uint32_t> segments;
  for (std::size_t s = 0; s < program.segments.size(); ++s) {
    segments.resize(program.segments[s].task_last, static_cast<std::uint32_t>(s));
  }
  for (isa::TaskDescriptor& task : program.tasks) {
    const bool neural = task.engine == isa::EngineKind::kNeural;
    if (!neural && task.engine != isa::EngineKind::kPlanar) continue;
    task.header.sharing = static_cast<isa::Sharing>(random() % 3);
    const auto engines = static_cast<std::uint64_t>(neural ? chip.neural.count : chip.planar.count);
    const std::uint64_t first = random() % engines;
    task.header.engines = {};
    if (random() % 4 != 0) {
      task.header.engines = {static_cast<std::uint8_t>(first),
                             static_cast<std::uint8_t>(1 + random() % (engines - first))};
    }
  }
  isa::derive_dependencies(chip, segments, program.tasks);
  encode_again(program);
}

// Changes one dependency.
void mutate(Program& program, Mutation mutation, std::mt19937_64& random) {
  for (;;) {
    const std::size_t id = random() % program.tasks.size();
    auto& list = program.tasks[id].dependencies;
    if (list.empty()) continue;
    const auto at = static_cast<std::ptrdiff_t>(random() % list.size());
    isa::Dependency& d = list[static_cast<std::size_t>(at)];
    const auto amount = static_cast<std::int64_t>(1 + random() % 3);
    switch (mutation) {
      case Mutation::kDelete:
        list.erase(list.begin() + at);
        break;
      case Mutation::kEarlier:
        d.offset -= d.denominator * amount;
        break;
      case Mutation::kLater:
        d.offset += d.denominator * amount;
        break;
      case Mutation::kSlope:
        d.numerator += d.numerator > 0 && random() % 2 == 0 ? -1 : 1;
        break;
      case Mutation::kOtherTask: {
        const std::int64_t count = static_cast<std::int64_t>(program.tasks.size());
        const std::int64_t other = std::int64_t{d.task} + (random() % 2 == 0 ? amount : -amount);
        if (other < 0 || other >= count || other == static_cast<std::int64_t>(id)) continue;
        d.task = static_cast<isa::TaskId>(other);
        break;
      }
    }
    encode_again(program);
    return;
  }
}

bool is_race(const Status& status) {
  const std::string& message = status.error().message;
  return message.starts_with("race:") || message.find("before anything wrote") != std::string::npos;
}

struct Subject {
  const Program& program;
  const ChipConfig& chip;
  const std::vector<Tensor>& inputs;
  const std::vector<Tensor>& expected;
};

void check_mutant(const Subject& subject, Mutation mutation, std::mt19937_64& random,
                  Tally& tally) {
  Program mutant = subject.program;
  mutate(mutant, mutation, random);
  Count& count = tally.counts[static_cast<std::size_t>(mutation)];
  const Status verdict = isa::verify_program(mutant, subject.chip);
  ++(verdict.ok() ? count.passed : count.rejected);
  bool harmful = false;
  for (int speed = 0; speed < 2; ++speed) {
    const std::uint64_t delays = 1 + random();
    const auto checked = run_program(mutant, subject.chip, subject.inputs,
                                     {.check_hazards = true, .delay_seed = delays});
    if (verdict.ok()) {
      ASSERT_TRUE(checked.ok()) << checked.error().to_string();
      ASSERT_TRUE(*checked == subject.expected) << "passed, and the bits differ";
      continue;
    }
    if (is_race(verdict)) {
      ASSERT_FALSE(checked.ok()) << "the hazard check does not see: " << verdict.error().message;
    }
    if (speed == 0 && !checked.ok() && checked.error().message.starts_with("hazard")) {
      ++count.hazards;
    }
    const auto blind = run_program(mutant, subject.chip, subject.inputs, {.delay_seed = delays});
    harmful = harmful || !blind.ok() || *blind != subject.expected;
  }
  if (harmful) ++count.harmful;
}

void check_graph(std::shared_ptr<const graph::Graph> graph, const ChipConfig& chip,
                 std::uint64_t seed, int rounds, Tally& tally) {
  std::mt19937_64 random(seed);
  const std::vector<Tensor> inputs = random_inputs(*graph, seed);
  auto program = build_program(graph, chip, {});
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  if (program->dependency_count() == 0) return;
  const auto expected = run_program(*program, chip, inputs, {.check_hazards = true});
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  if (chip.planar.count > 1) {
    spread(*program, chip, random);
    const Status verdict = isa::verify_program(*program, chip);
    ASSERT_TRUE(verdict.ok()) << verdict.error().message;
    const auto same =
        run_program(*program, chip, inputs, {.check_hazards = true, .delay_seed = seed});
    ASSERT_TRUE(same.ok()) << same.error().to_string();
    ASSERT_TRUE(*same == *expected) << "other engines, other bits";
  }
  const Subject subject{*program, chip, inputs, *expected};
  for (int round = 0; round < rounds; ++round) {
    for (int mutation = 0; mutation < kMutationCount; ++mutation) {
      SCOPED_TRACE(::testing::Message() << chip.name << ", seed " << seed << ", round " << round
                                        << ", mutation " << kMutationNames[mutation]);
      check_mutant(subject, static_cast<Mutation>(mutation), random, tally);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// A profile with a state buffer so small that tensors are cut into pieces and places used again.
ChipConfig crowded(const char* profile, std::int32_t bytes_per_partition) {
  ChipConfig chip = *load_chip_config(profile);
  chip.state_buffer.bytes_per_partition = bytes_per_partition;
  return chip;
}

// The same with several engines of each kind.
ChipConfig with_engines(ChipConfig chip) {
  chip.neural.count = 4;
  chip.planar.count = 3;
  return chip;
}

TEST(Mutation, HarmfulMutantsOfRandomGraphsAreRejectedOnEveryProfile) {
  const ChipConfig chips[] = {crowded("tessera128", 16384), crowded("f32", 32768),
                              crowded("pe128x64", 16384), crowded("edge", 65536),
                              with_engines(crowded("tessera128", 16384))};
  Tally tally;
  for (const ChipConfig& chip : chips) {
    const std::uint64_t last = 2000 + 9 / visit_one_in(3, 9);
    for (std::uint64_t seed = 2000; seed < last; ++seed) {
      check_graph(compile::testing::random_graph(seed), chip, seed, 2, tally);
      if (HasFatalFailure()) return;
    }
  }
  tally.print();
  const Count total = tally.total();
  EXPECT_GT(total.rejected, total.passed / 2);
  EXPECT_GT(total.harmful, 60 / visit_one_in(3, 9));
  EXPECT_GT(total.hazards, total.harmful / 2);
}

// Stored models; where they are absent the test says so.
TEST(Mutation, HarmfulMutantsOfRealModelsAreRejected) {
  const std::filesystem::path folder = std::filesystem::path(TESSERA_TEST_DATA) / "models";
  Tally tally;
  int tried = 0;
  for (const char* model : {"mnist_cntk", "mlperf_tiny_resnet8_int8_qdq", "cifar10_resnet_4b"}) {
    SCOPED_TRACE(model);
    const std::filesystem::path path = folder / (std::string(model) + ".onnx");
    if (!std::filesystem::exists(path)) continue;
    ++tried;
    for (const ChipConfig& chip : {crowded("tessera128", 4096), crowded("edge", 16384),
                                   with_engines(crowded("tessera128", 4096))}) {
      const auto graph = network::load_graph(path, chip, {});
      ASSERT_TRUE(graph.ok()) << graph.error().to_string();
      check_graph(*graph, chip, 31, 4, tally);
      if (HasFatalFailure()) return;
    }
  }
  if (tried == 0) GTEST_SKIP() << "none of the stored models is under " << folder;
  tally.print();
  EXPECT_GT(tally.total().harmful, 10);
}

}  // namespace
}  // namespace tessera::agreement

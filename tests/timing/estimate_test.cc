// What the compiler expects of a task and what the virtual processor takes for it: for every kind of
// task and random shapes on all profiles, on memories flat and made of devices, with ports of the state buffer
// counted or not.
#include "compile/estimate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/architecture_file.h"
#include "base/test_volume.h"
#include "card/core.h"
#include "random_tasks.h"

namespace tessera::timing {
namespace {

constexpr double kLeast = 0.8, kMost = 1.25;
constexpr int kShapes = 2000;  // of a kind, all profiles together

std::vector<ChipConfig> chips() {
  std::vector<ChipConfig> result;
  for (const char* name : {"tessera128", "cloud16", "edge", "brainwave", "f32", "pe128x64",
                           "neuron2", "gemmini8", "systolic"}) {
    result.push_back(*load_chip_config(name));
  }
  for (const DramKind device : {DramKind::kLpddr5_6400, DramKind::kDdr4_2400}) {
    ChipConfig chip = *load_chip_config("tessera128");
    chip.dram.device = device;
    if (device == DramKind::kDdr4_2400) {
      chip.dram.channels = chip.dram.gang = 1;
      chip.dram.mapping = DramInterleave::kRow;
    }
    result.push_back(chip);
  }
  for (const auto& [name, port_bytes] : {std::pair{"tessera128", 16}, {"edge", 1}}) {
    ChipConfig chip = *load_chip_config(name);
    chip.state_buffer.banks = 8;
    chip.state_buffer.port_bytes = port_bytes;
    result.push_back(chip);
  }
  // Two regions and the stream lie side by side.
  for (ChipConfig& chip : result) chip.dram.bytes = std::int64_t{1} << 30;
  return result;
}

struct Case {
  double ratio = 1;
  std::string text;
};

class EstimateTest : public ::testing::TestWithParam<int> {};

TEST_P(EstimateTest, IsWithinAFifthOfWhatIsSimulated) {
  const auto kind = static_cast<TaskKind>(GetParam());
  std::vector<ChipConfig> all = chips();
  for (ChipConfig& chip : all) {
    if (!is_message_kind(kind)) break;
    chip.message.ports = 1;
    chip.message.buffer_bytes = 0;  // an estimate takes nothing to have come before
  }
  const int shapes =
      std::max<int>(1, kShapes / visit_one_in(40, 200) / static_cast<int>(all.size()));
  std::vector<Case> cases;
  for (std::size_t c = 0; c < all.size(); ++c) {
    auto core = card::Core::create(all[c]);
    ASSERT_TRUE(core.ok());
    for (int i = 0; i < shapes; ++i) {
      const auto seed = static_cast<std::uint32_t>(i * 64 + static_cast<int>(c));
      RandomTasks random(all[c], seed);
      const RandomTask task = random.make(kind);
      ASSERT_TRUE((*core)->load(task.program).ok()) << task.shape;
      const auto run = (*core)->run_segment(0, {.timing_only = true});
      ASSERT_TRUE(run.ok()) << all[c].name << ", " << task.shape << ": " << run.error().to_string();
      const Cycles simulated = run->tasks[0].end - run->tasks[0].dispatched;
      const Cycles estimate = compile::estimate_task(task.program.tasks[0], all[c]);
      cases.push_back({static_cast<double>(estimate) / static_cast<double>(simulated),
                       fmt::format("{} ({}): {}: estimate {}, simulated {}", all[c].name, c,
                                   task.shape, estimate, simulated)});
    }
  }
  int outside = 0;
  for (const Case& one : cases) outside += one.ratio < kLeast || one.ratio > kMost ? 1 : 0;
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.ratio < b.ratio; });
  std::printf("%s: %zu shapes, ratio %.3f to %.3f\n", std::string(task_kind_name(kind)).c_str(),
              cases.size(), cases.front().ratio, cases.back().ratio);
  // Long transfers are sampled; of one in some hundred of random shapes the sample tells too little.
  // So one is let pass where there are fewer.
  const std::int64_t outside_max = std::max<std::int64_t>(1, std::ssize(cases) / 100);
  EXPECT_LE(outside, outside_max) << outside << " of " << cases.size();
  EXPECT_GE(cases.front().ratio, kLeast / 2) << cases.front().text;
  EXPECT_LE(cases.back().ratio, kMost * 2) << cases.back().text;
  if (outside <= outside_max) return;
  constexpr std::size_t kPrinted = 10;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const bool shown = i < kPrinted || i + kPrinted >= cases.size();
    const double ratio = cases[i].ratio;
    if (shown && (ratio < kLeast || ratio > kMost)) {
      ADD_FAILURE() << fmt::format("{:.3f} {}", ratio, cases[i].text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryKind, EstimateTest, ::testing::Range(0, kTaskKindCount), [](const auto& kind) {
      std::string name(task_kind_name(static_cast<TaskKind>(kind.param)));
      std::replace_if(name.begin(), name.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
      return name;
    });

}  // namespace
}  // namespace tessera::timing

#include "report/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "link/link.h"
#include "tessera/session.h"
#include "zoo/zoo.h"

namespace tessera::report {
namespace {

using isa::Dependency;
using isa::EngineKind;
using isa::Program;
using isa::TaskDescriptor;

// A program of one-step tasks, and a run of it.
class Timeline {
 public:
  Timeline& task(EngineKind engine, std::uint32_t layer, std::int64_t begin, std::int64_t end,
                 std::vector<isa::TaskId> after = {}, std::int64_t blocked_ports = 0) {
    TaskDescriptor task;
    task.id = static_cast<isa::TaskId>(program_.tasks.size());
    task.engine = engine;
    task.layer = layer;
    for (const isa::TaskId id : after) {
      task.dependencies.push_back({.task = id, .numerator = 0, .denominator = 1, .offset = 1});
    }
    run_.timeline.push_back({.engine = isa::engine_kind_name(engine),
                             .layer = "",
                             .task = task.id,
                             .step = 0,
                             .begin = begin,
                             .end = end,
                             .blocked_ports = blocked_ports});
    program_.tasks.push_back(std::move(task));
    run_.layers.resize(std::max<std::size_t>(run_.layers.size(), layer + 1));
    run_.cycles = std::max(run_.cycles, end);
    return *this;
  }
  std::vector<LayerTime> times() const { return layer_times(program_, run_); }

 private:
  Program program_;
  RunResult run_;
};

TEST(LayerTimes, AWaitForWeightsIsTheLayersWhoseWeightsTheyAre) {
  const auto times = Timeline()
                         .task(EngineKind::kNeural, 0, 10, 100)
                         .task(EngineKind::kKernel, 1, 40, 160)
                         .task(EngineKind::kNeural, 1, 165, 200, {1})
                         .times();
  EXPECT_EQ(times[0][Cause::kStartUp], 10);
  EXPECT_EQ(times[0][Cause::kArray], 90);
  EXPECT_EQ(times[1][Cause::kWeights], 60);
  EXPECT_EQ(times[1][Cause::kStartUp], 5);
  EXPECT_EQ(times[1][Cause::kArray], 35);
  EXPECT_EQ(times[1].idle_cause(), Cause::kWeights);
}

TEST(LayerTimes, AChainOfWaitsIsWalkedBackThroughItsEngines) {
  const auto times = Timeline()
                         .task(EngineKind::kNeural, 0, 0, 100)
                         .task(EngineKind::kPlanar, 1, 100, 130, {0})
                         .task(EngineKind::kStore, 1, 131, 150, {1})
                         .task(EngineKind::kLoad, 2, 150, 190, {2})
                         .task(EngineKind::kNeural, 2, 190, 200, {3})
                         .times();
  EXPECT_EQ(times[1][Cause::kPlanar], 30);
  EXPECT_EQ(times[1][Cause::kTransfers], 19);
  EXPECT_EQ(times[1][Cause::kStartUp], 1);
  EXPECT_EQ(times[2][Cause::kTransfers], 40);
  EXPECT_EQ(times[1].bound(), Cause::kPlanar);
  EXPECT_EQ(times[2].idle(), 40);
}

TEST(LayerTimes, WhatOverlapsTheArrayIsTheArrays) {
  const auto times =
      Timeline().task(EngineKind::kNeural, 0, 0, 100).task(EngineKind::kPlanar, 1, 20, 90).times();
  EXPECT_EQ(times[0].total(), 100);
  EXPECT_EQ(times[1].total(), 0);
}

TEST(LayerTimes, TheEndOfTheRunIsChargedToWhatEndsIt) {
  const auto times = Timeline()
                         .task(EngineKind::kNeural, 0, 0, 100)
                         .task(EngineKind::kStore, 0, 102, 140, {0})
                         .times();
  EXPECT_EQ(times[0][Cause::kTransfers], 38);
  EXPECT_EQ(times[0][Cause::kStartUp], 2);
}

TEST(LayerTimes, TheFirstCyclesOfAStepAreThePortsThatHeldItUp) {
  const auto times = Timeline()
                         .task(EngineKind::kNeural, 0, 0, 100, {}, 30)
                         .task(EngineKind::kNeural, 1, 90, 190, {}, 20)
                         .times();
  // The second step begins at 90, while the first one's results drain until 100.
  EXPECT_EQ(times[0][Cause::kPorts], 30);
  EXPECT_EQ(times[0][Cause::kArray], 60);
  EXPECT_EQ(times[1][Cause::kPorts], 20);
  EXPECT_EQ(times[1][Cause::kArray], 80);
}

TEST(DistanceFromTheRoofline, PaysForTheArrayBeforeTheWaits) {
  LayerTime time;
  time.cycles = std::array<std::int64_t, kCauseCount>{60, 10, 50, 0, 0, 5};
  const Distance lost = distance(time, {.array_cycles = 20, .dram_cycles = 80});
  EXPECT_EQ(lost[Cause::kArray], 0);
  EXPECT_EQ(lost[Cause::kWeights], 30);  // 20 of 50 are paid for
  EXPECT_EQ(lost[Cause::kPlanar], 10);
  EXPECT_EQ(lost[Cause::kStartUp], 5);
  EXPECT_EQ(lost.overlap, 0);
  EXPECT_EQ(distance({}, {.array_cycles = 7}).overlap, 7);
}

// A whole network: nothing is lost and nothing counted twice.
TEST(Roofline, CyclesAndBytesOfTheLayersAddUpToTheRun) {
  const std::string path = std::filesystem::path(::testing::TempDir()) / "roofline_test.onnx";
  ASSERT_TRUE(zoo::write_network(zoo::find_network("mobilenet_v1").value(), 0, path).ok());
  auto network = Network::load(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(network.ok()) << network.error().to_string();
  const NetworkState& state = network->state();
  const Program program = link::link(state.package, state.chip).value();
  auto session = Session::open(*network, {.timing_only = true, .trace = true});
  const RunResult run =
      session.value().run({Tensor::zeros(Format::kF32, {1, 3, 224, 224})}).value();
  const RooflineReport report = roofline_report(*network, program, run);

  EXPECT_EQ(report.total.total(), run.cycles);
  EXPECT_EQ(report.total_bound.macs, 568'740'352);
  double losses = 0;
  for (const double loss : report.distance.losses) losses += loss;
  EXPECT_NEAR(report.roofline_cycles + losses - report.distance.overlap,
              static_cast<double>(run.cycles), 1e-6 * static_cast<double>(run.cycles));
  // Weights and biases in f16, the picture and the probabilities in f32.
  EXPECT_GE(report.total_bound.bytes, 2 * 4'221'032 + 4 * (3 * 224 * 224 + 1000));
  EXPECT_LE(report.total_bound.bytes, report.total.dram_bytes);
  std::int64_t moved = 0;
  for (const EngineUse& engine : run.engines) {
    if (engine.name == "task_manager" || engine.name == "dram") continue;
    moved += engine.dram_bytes_read + engine.dram_bytes_written;
  }
  EXPECT_NEAR(static_cast<double>(report.total.dram_bytes), static_cast<double>(moved),
              0.01 * static_cast<double>(moved));  // bursts that are not full
}

}  // namespace
}  // namespace tessera::report

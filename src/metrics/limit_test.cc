#include "metrics/limit.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tessera::metrics {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// A run of three stages on one device in which nothing is full.
Use quiet() {
  return {.devices = {{.name = "sim0", .kernels_busy = 0.3}},
          .stages = {{.name = "pre", .busy = 0.1},
                     {.name = "execute", .executes = true, .threads = 2, .busy = 0.35},
                     {.name = "post", .busy = 0.05}},
          .in_flight = 3,
          .in_flight_max = 64};
}

struct Cause {
  LimitCause cause;
  const char* place;
  const char* text;
  std::function<void(Use&)> change;
};

const Cause kCauses[] = {
    {LimitCause::kDevice, "sim0", "device 'sim0' has failed: 4 runs in a row failed",
     [](Use& use) {
       use.devices[0].healthy = false;
       use.devices[0].fault = "4 runs in a row failed";
     }},
    {LimitCause::kDevice, "sim0",
     "device 'sim0' may hang: a run has lasted 12.3 s, the longest before it 0.0400 s",
     [](Use& use) {
       use.devices[0].stuck_seconds = 12.3;
       use.devices[0].longest_seconds = 0.04;
     }},
    {LimitCause::kIdle, "", "nothing is in flight: no task was submitted that is left",
     [](Use& use) { use.in_flight = 0; }},
    {LimitCause::kKernels, "sim0",
     "the kernels are the limit (99.0 % busy): more kernels or devices make it faster, threads do "
     "not",
     [](Use& use) { use.devices[0].kernels_busy = 0.99; }},
    {LimitCause::kMemory, "sim0",
     "the memory of device 'sim0' is the limit: runs wait for room in it while the kernels are "
     "30.0 % busy; fewer threads hold less of it",
     [](Use& use) { use.devices[0].runs_wait_for_memory = true; }},
    {LimitCause::kTransfers, "sim0",
     "transfers are the limit: the link to device 'sim0' is 91.0 % busy while the kernels are "
     "30.0 %; the device form moves half the bytes",
     [](Use& use) { use.devices[0].link_busy = 0.91; }},
    {LimitCause::kTransfers, "execute",
     "transfers are the limit: the threads of stage 'execute' are 98.0 % busy while the kernels "
     "are 30.0 %; give it more threads or larger batches",
     [](Use& use) { use.stages[1].busy = 0.98; }},
    {LimitCause::kStage, "pre",
     "stage 'pre' is the limit (97.0 % busy, the kernels 30.0 %): give it more threads",
     [](Use& use) { use.stages[0].busy = 0.97; }},
    {LimitCause::kRoom, "",
     "all 64 tasks that may be in flight are, and nothing is full (the busiest, 'execute', is "
     "35.0 % busy; kernels 30.0 %): more in flight make it faster",
     [](Use& use) { use.in_flight = 64; }},
    {LimitCause::kSource, "",
     "the source is the limit: nothing is full (the busiest, 'execute', is 35.0 % busy; kernels "
     "30.0 %); submit more tasks, or from more threads",
     [](Use&) {}},
};

TEST(Limit, EachCauseIsToldInItsWords) {
  for (const Cause& cause : kCauses) {
    Use use = quiet();
    cause.change(use);
    const Limit limit = limit_of(use);
    EXPECT_STREQ(name_of(limit.cause), name_of(cause.cause));
    EXPECT_EQ(limit.place, cause.place);
    EXPECT_EQ(limit.text, cause.text);
  }
}

// What is full behind full kernels is full because of them; what failed comes first.
TEST(Limit, OfSeveralCausesTheFirstOfTheListCounts) {
  Use use = quiet();
  for (auto cause = std::rbegin(kCauses); cause != std::rend(kCauses); ++cause) {
    if (cause->cause == LimitCause::kIdle || cause->cause == LimitCause::kDevice) continue;
    cause->change(use);
    EXPECT_STREQ(name_of(limit_of(use).cause), name_of(cause->cause));
  }
  use.devices[0].healthy = false;
  EXPECT_EQ(limit_of(use).cause, LimitCause::kDevice);
}

TEST(Limit, WithoutStagesAndDevicesItStillAnswers) {
  EXPECT_EQ(limit_of({}).cause, LimitCause::kIdle);
  EXPECT_EQ(limit_of({.in_flight = 1}).text,
            "the source is the limit: nothing is full (kernels 0.0 %); submit more tasks, or from "
            "more threads");
}

SourceSnapshot source(SourceKind kind, const std::string& name, double utilisation) {
  SourceSnapshot made;
  made.description = {
      .kind = kind, .name = name, .device = kind == SourceKind::kStage ? "" : "sim0"};
  made.utilisation = utilisation;
  return made;
}

TEST(Limit, ASnapshotGivesKernelsLinkAndStages) {
  Snapshot snapshot;
  snapshot.at_ns = 20'000 * kMs;
  snapshot.tasks.submitted = 9;
  snapshot.tasks.ok = 4;
  snapshot.sources = {
      source(SourceKind::kStage, "execute", 0.4), source(SourceKind::kKernel, "kernel 0", 1),
      source(SourceKind::kKernel, "kernel 1", 0.5), source(SourceKind::kDevice, "sim0", 0)};
  snapshot.sources[1].in_share = 0.25;
  snapshot.sources[2].out_share = 0.5;
  const Use use = use_of(snapshot, {.devices = {{.name = "sim0", .runs_wait_for_memory = true}},
                                    .execute_stages = {"execute"},
                                    .in_flight_max = 8});
  ASSERT_EQ(use.devices.size(), 1U);
  EXPECT_DOUBLE_EQ(use.devices[0].kernels_busy, 0.75);
  EXPECT_DOUBLE_EQ(use.devices[0].link_busy, 0.5);
  EXPECT_TRUE(use.devices[0].runs_wait_for_memory);
  EXPECT_TRUE(use.stages[0].executes);
  EXPECT_EQ(use.in_flight, 5);
  EXPECT_EQ(use.in_flight_max, 8);
}

TEST(Limit, ARunThatLastsFarLongerThanAnyBeforeMayHang) {
  Snapshot snapshot;
  snapshot.at_ns = 20'000 * kMs;
  snapshot.tasks.submitted = 1;
  snapshot.sources = {source(SourceKind::kKernel, "kernel 0", 1)};
  SourceSnapshot& kernel = snapshot.sources[0];
  kernel.running_since_ns = 18'000 * kMs;
  EXPECT_EQ(limit_of(use_of(snapshot, {})).cause, LimitCause::kKernels)
      << "nothing to compare with";
  kernel.run = {.count = 5, .max = 500 * kMs};
  EXPECT_EQ(limit_of(use_of(snapshot, {})).cause, LimitCause::kKernels) << "four times as long";
  kernel.run.max = 90 * kMs;
  EXPECT_EQ(limit_of(use_of(snapshot, {})).text,
            "device 'sim0' may hang: a run has lasted 2.0 s, the longest before it 0.0900 s");
  kernel.running_since_ns = Recorder::kNotRunning;
  EXPECT_EQ(limit_of(use_of(snapshot, {})).cause, LimitCause::kKernels);
}

}  // namespace
}  // namespace tessera::metrics

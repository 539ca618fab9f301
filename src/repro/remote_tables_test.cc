// Tables of remote access from given figures: what is added, what is left for waking up, what is said of the whole.
#include "repro/remote_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::repro {
namespace {

Result<std::vector<RemoteRun>> given_runs(std::span<const RemoteCase> cases) {
  std::vector<RemoteRun> runs;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    RemoteRun run;
    run.cycles = 200'000;
    run.clock_hertz = 200'000'000;
    run.local = {.latency_us = 1000, .per_second = 900, .of_local = 1, .round_trips = 0};
    run.ours = {
        .latency_us = 1250, .per_second = 891, .of_local = i == 0 ? 0.99 : 0.995, .round_trips = 1};
    run.forwarded = {.latency_us = 2000, .per_second = 500, .of_local = 0.55, .round_trips = 9};
    run.forwarded_layers = {
        .latency_us = 9000, .per_second = 100, .of_local = 0.11, .round_trips = 65};
    run.bytes_there = 600;
    run.bytes_back = 40;
    run.serialise_us = 50;
    run.wire_us = 80;
    runs.push_back(run);
  }
  return runs;
}

TEST(RemoteTables, SayWhatEachWayAddsAndWhereOursGoes) {
  const auto result = remote_tables({"a", "b"}, 7, [](std::span<const RemoteCase> cases) {
    EXPECT_EQ(cases[0].runs, 7);
    return given_runs(cases);
  });
  ASSERT_TRUE(result.ok());
  const FigureTable& rows = result->figure_tables[0];
  ASSERT_EQ(rows.rows.size(), 8u);
  EXPECT_EQ(rows.rows[1], (std::vector<FigureCell>{"a", "ours", 1000.0, 1250.0, 250.0, 25.0,
                                                   std::int64_t{1}, 891.0, 0.99}));
  EXPECT_EQ(result->figure_tables[1].rows[0],
            (std::vector<FigureCell>{"a", std::int64_t{600}, std::int64_t{40}, 250.0, 50.0, 80.0,
                                     120.0}));
  EXPECT_EQ(result->figures[0].second, FigureCell(0.99));
  EXPECT_THAT(result->documents[0].second,
              ::testing::HasSubstr("| a | ours, remote | 1.25 | 0.25 | 1 | 891 | 0.990 |"));
}

TEST(RemoteTables, AreOfThePublishedTasksAndGiveTheRunnersError) {
  EXPECT_EQ(remote_networks().size(), 4u);
  const auto result =
      remote_tables({"a"}, 0, [](std::span<const RemoteCase>) -> Result<std::vector<RemoteRun>> {
        return Error{ErrorCode::kUnavailable, "no etcd"};
      });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "no etcd");
}

}  // namespace
}  // namespace tessera::repro

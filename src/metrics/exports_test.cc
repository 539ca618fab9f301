#include "metrics/exports.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "metrics/json_quoted.h"

namespace tessera::metrics {
namespace {

using nlohmann::json;

constexpr std::int64_t kMs = 1'000'000;

// A small run: two kernels, a stage of two threads, a queue, names that need escaping.
class ExportsTest : public testing::Test {
 protected:
  ExportsTest() : collector_(recorder_, {.period = std::chrono::milliseconds(0)}) {
    const SourceId kernel =
        add({.kind = SourceKind::kKernel, .name = "kernel A", .device = "sim0"});
    const SourceId pre =
        add({.kind = SourceKind::kStage, .name = "pre \"fast\"\\\n", .threads = 2});
    const SourceId queue = add({.kind = SourceKind::kQueue, .name = "queue", .capacity = 8});
    const SourceId tasks = add({.kind = SourceKind::kTasks, .name = "tasks"});
    record(EventKind::kTaskSubmitted, tasks, 0, 0, 0);
    record(EventKind::kStageRun, pre, 0, 10 * kMs, 5);
    record(EventKind::kStageRun, pre, 5 * kMs, 15 * kMs, 5);
    record(EventKind::kStageRun, pre, 12 * kMs, 20 * kMs, 5);
    record(EventKind::kQueueDepth, queue, 10 * kMs, 10 * kMs, 3);
    record(EventKind::kTransferIn, kernel, 20 * kMs, 22 * kMs, 4096);
    record(EventKind::kKernelRun, kernel, 22 * kMs, 30 * kMs + 1, 1234);
    record(EventKind::kTransferOut, kernel, 31 * kMs, 32 * kMs, 128);
    record(EventKind::kControlChange, pre, 40 * kMs, 40 * kMs, 3);
    record(EventKind::kFault, kernel, 41 * kMs, 41 * kMs, 7);
    record(EventKind::kTaskCompleted, tasks, 0, 50 * kMs, 0);
  }
  SourceId add(const SourceDescription& description) {
    return recorder_.add_source(description).value();
  }
  void record(EventKind kind, SourceId source, std::int64_t begin, std::int64_t end,
              std::int64_t value) {
    recorder_.record({.kind = kind,
                      .source = source,
                      .stream = 2,
                      .begin_ns = begin,
                      .end_ns = end,
                      .packet = 9,
                      .value = value});
  }
  std::string trace() {
    collector_.drain();
    return perfetto_text(collector_.recent_events(), recorder_.sources());
  }

  Recorder recorder_;
  Collector collector_;
};

TEST_F(ExportsTest, TraceHasATrackForEachKindOfWork) {
  const json document = json::parse(trace());
  std::map<int, std::string> tracks;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name") {
      tracks[event["tid"]] = event["args"]["name"];
    }
  }
  std::set<std::string> names;
  for (const auto& [tid, name] : tracks) names.insert(name);
  const std::set<std::string> expected = {"pre \"fast\"\\\n", "pre \"fast\"\\\n 2",
                                          "sim0 kernel A: DDR writes", "sim0 kernel A",
                                          "sim0 kernel A: DDR reads"};
  EXPECT_EQ(names, expected);
}

TEST_F(ExportsTest, SlicesOfATrackNeverOverlap) {
  const json document = json::parse(trace());
  std::map<int, double> free_from;
  int slices = 0;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++slices;
    EXPECT_GE(event["ts"].get<double>(), free_from[event["tid"]]);
    free_from[event["tid"]] = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(slices, 6);
}

TEST_F(ExportsTest, TraceTimesAreMicrosecondsWithAllNanoseconds) {
  const std::string text = trace();
  EXPECT_NE(text.find("\"ts\":22000.000,\"dur\":8000.001,"), std::string::npos) << text;
  EXPECT_NE(text.find("\"cycles\":1234"), std::string::npos);
}

TEST_F(ExportsTest, TraceTimesBeforeTheStartAreNumbersToo) {
  const SourceId early = add({.kind = SourceKind::kStage, .name = "early"});
  record(EventKind::kStageRun, early, -2, 1, 0);
  const std::string text = trace();
  EXPECT_NE(text.find("\"ts\":-0.002,\"dur\":0.003,"), std::string::npos) << text;
  EXPECT_TRUE(json::accept(text));
}

TEST_F(ExportsTest, EventsThatAllOverlapHaveALaneEach) {
  std::vector<Event> events(2000, {.kind = EventKind::kKernelRun, .source = {0}});
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].begin_ns = static_cast<std::int64_t>(i);
    events[i].end_ns = 1'000'000;
  }
  events.push_back({.kind = EventKind::kKernelRun, .begin_ns = 1'000'000, .end_ns = 1'000'001});
  const json found = json::parse(perfetto_text(events, recorder_.sources()));
  EXPECT_EQ(found["traceEvents"].back()["tid"], 1) << "the first lane is free again";
  EXPECT_EQ(found["traceEvents"][found["traceEvents"].size() - 2]["tid"], 2000);
}

TEST_F(ExportsTest, AnEmptyTraceIsAValidDocument) {
  EXPECT_TRUE(json::parse(perfetto_text({}, {}))["traceEvents"].empty());
}

TEST_F(ExportsTest, JsonLinesParseOneByOne) {
  collector_.drain();
  std::istringstream lines(json_lines_text(collector_.recent_events(), recorder_.sources()));
  std::string line;
  int count = 0;
  bool completed = false;
  while (std::getline(lines, line)) {
    const json event = json::parse(line);
    EXPECT_EQ(event["stream"], 2);
    EXPECT_EQ(event["packet"], 9);
    completed |= event["kind"] == "task completed" && event["outcome"] == "ok";
    ++count;
  }
  EXPECT_EQ(count, 11);
  EXPECT_TRUE(completed);
}

TEST_F(ExportsTest, SnapshotAsJsonHoldsTheFiguresOfTheSnapshot) {
  const Snapshot snapshot = collector_.snapshot_at(1000 * kMs);
  const json document = json::parse(snapshot_json_text(snapshot));
  EXPECT_EQ(document["tasks"]["ok"], 1);
  EXPECT_EQ(document["tasks"]["latency"]["max"], 50 * kMs);
  EXPECT_EQ(document["sources"].size(), 4U);
  EXPECT_EQ(document["sources"][0]["name"], "kernel A");
  EXPECT_EQ(document["sources"][0]["bytes_in"], 4096);
  EXPECT_EQ(document["sources"][0]["utilisation"], snapshot.sources[0].utilisation);
  EXPECT_EQ(document["sources"][2]["capacity"], 8);
  EXPECT_EQ(document["dropped"], 0);
}

// The text format line by line: a HELP and a TYPE in front of each metric's samples, valid names,
// quoted label values, a number.
TEST_F(ExportsTest, PrometheusTextFollowsTheFormat) {
  const std::string text = prometheus_text(collector_.snapshot_at(1000 * kMs));
  const std::regex comment("# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) .+");
  const std::regex sample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\})? [0-9.e+-]+)re");
  std::map<std::string, std::string> types;
  std::istringstream lines(text);
  std::string line, current;
  while (std::getline(lines, line)) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      if (match[1] == "TYPE") types[match[2]] = line.substr(line.rfind(' ') + 1);
      current = match[2];
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_EQ(match.str(1).rfind(current, 0), 0U) << line << " stands under " << current;
  }
  for (const auto& [name, type] : types) {
    EXPECT_EQ(type == "counter", name.size() > 6 && name.substr(name.size() - 6) == "_total")
        << name;
  }
  EXPECT_EQ(types.size(), 22U);
}

TEST_F(ExportsTest, PrometheusTextHasTheFigures) {
  const std::string text = prometheus_text(collector_.snapshot_at(1000 * kMs));
  for (const char* expected :
       {"tessera_kernel_runs_total{kernel=\"kernel A\",device=\"sim0\"} 1\n",
        "tessera_transfer_in_bytes_total{kernel=\"kernel A\",device=\"sim0\"} 4096\n",
        "tessera_stage_threads{stage=\"pre \\\"fast\\\"\\\\\\n\"} 2\n",
        "tessera_queue_depth{queue=\"queue\"} 3\n", "tessera_queue_capacity{queue=\"queue\"} 8\n",
        "tessera_tasks_completed_total{outcome=\"ok\"} 1\n",
        "tessera_task_latency_seconds_count 1\n", "tessera_faults_total{kernel=\"kernel A\"",
        "tessera_metrics_dropped_events_total 0\n"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
  }
}

TEST_F(ExportsTest, PrometheusTextIsUtf8WhateverTheNames) {
  add({.kind = SourceKind::kQueue, .name = "q\xff"});
  const std::string text = prometheus_text(collector_.snapshot_at(1000 * kMs));
  EXPECT_NE(text.find("tessera_queue_depth{queue=\"q\xEF\xBF\xBD\"} 0\n"), std::string::npos)
      << text;
}

TEST(JsonQuoted, BytesThatAreNotTextDoNotBreakTheDocument) {
  EXPECT_EQ(json_quoted("a\"b\n"), "\"a\\\"b\\n\"");
  EXPECT_EQ(json_quoted("\xff"), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace tessera::metrics

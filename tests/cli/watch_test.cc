// A model behind the live page, and the verb that looks at it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "command.h"
#include "dashboard/http_client.h"
#include "dashboard/page.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/top_text.h"

namespace tessera::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// `tessera watch` in the background; its address is read, its end waited for.
class Watch {
 public:
  explicit Watch(const std::string& options) {
    prepare();
    const std::string command =
        std::string(TESSERA_PROGRAM) + " watch small.onnx --http 0 --json " + options;
    pipe_ = popen(command.c_str(), "r");
    const json first = json::parse(read_line(pipe_), nullptr, false);
    if (first.is_object()) url = first.value("url", "");
  }
  // What it says at its end; null where it did not end well.
  json finish() {
    const std::string last = read_line(pipe_);
    const int status = pclose(pipe_);
    pipe_ = nullptr;
    return status == 0 ? json::parse(last, nullptr, false) : json();
  }
  ~Watch() {
    if (pipe_ != nullptr) pclose(pipe_);
  }

  std::string url;

 private:
  FILE* pipe_ = nullptr;
};

class WatchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (dashboard::page_files().empty()) GTEST_SKIP() << "the page was not built: there is no npm";
  }
};

TEST_F(WatchTest, RunsTheModelAgainAndAgainUntilItsTimeIsOver) {
  Watch watch("--device host --seconds 1.5");
  ASSERT_NE(watch.url, "");
  dashboard::HttpClient client = dashboard::HttpClient::at(watch.url).value();
  const json state = json::parse(client.get("/state").value().body);
  EXPECT_EQ(state["title"], "small.onnx on host");
  EXPECT_EQ(state["stages"].size(), 3U);
  const json changed =
      json::parse(client.post_json("/control", R"({"stage":"pre","threads":3})").value().body);
  EXPECT_EQ(changed["stages"][0]["name"], "pre");
  EXPECT_EQ(changed["stages"][0]["threads"], 3);
  EXPECT_EQ(client.post_json("/control", R"({"choice":"balance threads","position":"on"})")
                .value()
                .status,
            200);
  EXPECT_THAT(client.post_json("/control", R"({"stage":"fetch","threads":3})").value().body,
              HasSubstr("there is no stage 'fetch'; there are pre, execute, post"));
  const json summary = watch.finish();
  EXPECT_GT(summary["tasks"], 10);
  EXPECT_GE(summary["seconds"], 1.5);
}

TEST_F(WatchTest, TopShowsItForPeopleAndScripts) {
  Watch watch("--device sim --seconds 2");
  const CommandResult script = tessera({"top", watch.url, "--once", "--json"});
  EXPECT_EQ(script.status, 0) << script.err;
  EXPECT_EQ(script.json()["title"], "small.onnx on sim");
  const CommandResult people = tessera({"top", watch.url, "--interval", "0.2"});
  // It ends when the pipeline does.
  EXPECT_EQ(people.status, 1);
  EXPECT_THAT(people.err, HasSubstr("does not answer"));
  EXPECT_THAT(people.out, HasSubstr("small.onnx on sim   pid "));
  EXPECT_THAT(people.out, HasSubstr("sim0 kernel 0"));
  EXPECT_THAT(people.out, ::testing::Not(HasSubstr("\x1b"))) << "escapes are for terminals";
  int pictures = 0;
  std::istringstream lines(people.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    pictures += line.rfind("tasks ", 0) == 0 ? 1 : 0;
  }
  EXPECT_GE(pictures, 3);
  EXPECT_FALSE(watch.finish().is_null());
}

TEST_F(WatchTest, RecordsAllEventsInAFileThatBecomesATrace) {
  Watch watch("--device host --seconds 0.3 --record events.jsonl");
  ASSERT_NE(watch.url, "");
  const json summary = watch.finish();
  const json& recorded = summary["recorded"];
  // On a busy machine events may be lost, and are counted then.
  const bool all = recorded["lost"] == 0;
  const std::int64_t count =
      recorded["events"].get<std::int64_t>() + recorded["lost"].get<std::int64_t>();
  // Of each task: submitted, three stages, a kernel's run, completed.
  EXPECT_GE(count, 6 * summary["tasks"].get<std::int64_t>());
  const CommandResult made = tessera({"trace", "events.jsonl", "-o", "trace.json", "--json"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.json()["events"], recorded["events"]);
  EXPECT_EQ(made.json()["complete"], all);
  const json trace = json::parse(read_text("trace.json"));
  std::int64_t runs = 0;
  for (const json& event : trace["traceEvents"]) runs += event.value("cat", "") == "kernel run";
  const std::int64_t tasks = summary["tasks"];
  EXPECT_LE(runs, tasks);
  if (all) {
    EXPECT_EQ(runs, tasks);
  }
  const CommandResult piece =
      tessera({"trace", "events.jsonl", "--from", "0.1", "--to", "0.12", "--json"});
  ASSERT_EQ(piece.status, 0) << piece.err;
  EXPECT_EQ(piece.json()["file"], "events.jsonl.trace.json");
  EXPECT_LT(piece.json()["events"], recorded["events"]);
}

TEST_F(WatchTest, AFullDiskIsToldAndDoesNotStopTheRun) {
  prepare();
  const CommandResult full = tessera({"watch", "small.onnx", "--http", "0", "--device", "host",
                                      "--seconds", "0.5", "--record", "/dev/full"});
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.out, HasSubstr("0 events in /dev/full, 0.0 MB; "));
  EXPECT_EQ(full.err,
            "tessera watch: writing '/dev/full': No space left on device; 0 events were written; "
            "make room and record again   [unavailable]\n");
}

TEST_F(WatchTest, OptionsOfAnotherDeviceAreRefused) {
  prepare();
  const CommandResult paced =
      tessera({"watch", "small.onnx", "--http", "0", "--device", "host", "--pace", "1"});
  EXPECT_EQ(paced.status, 1);
  EXPECT_EQ(paced.err,
            "tessera watch: --pace belongs to the device sim; the device is host   "
            "[invalid argument]\n");
}

TEST(Trace, ALineThatIsNoEventIsNamed) {
  prepare();
  write_text("odd.jsonl", "{\"kind\":\"end of events\",\"events\":0,\"lost\":0}\n{}\n");
  const CommandResult odd = tessera({"trace", "odd.jsonl"});
  EXPECT_EQ(odd.status, 1);
  EXPECT_EQ(odd.err,
            "tessera trace: 'odd.jsonl', line 2: it stands behind the last line   [invalid "
            "argument]\n");
  EXPECT_EQ(tessera({"trace", "odd.jsonl", "--from", "1", "--to", "0.5"}).err,
            "tessera trace: --from 1 is behind --to 0.5   [invalid argument]\n");
  EXPECT_EQ(tessera({"trace", "absent.jsonl"}).err,
            "tessera trace: 'absent.jsonl': No such file or directory   [invalid argument]\n");
}

TEST(Trace, IsCompleteWhereTheEndIsThereAndNothingWasLost) {
  prepare();
  const auto trace = [](const std::string& lines) {
    write_text("some.jsonl", lines);
    const CommandResult made = tessera({"trace", "some.jsonl", "--json"});
    EXPECT_EQ(made.status, 0) << made.err;
    return made.json();
  };
  const json whole = trace("{\"kind\":\"end of events\",\"events\":0,\"lost\":0}\n");
  EXPECT_EQ(whole["complete"], true);
  EXPECT_EQ(whole["lost"], 0);
  const json lossy = trace("{\"kind\":\"end of events\",\"events\":0,\"lost\":7}\n");
  EXPECT_EQ(lossy["complete"], false);
  EXPECT_EQ(lossy["lost"], 7);
  const json killed = trace("");
  EXPECT_EQ(killed["complete"], false);
  EXPECT_FALSE(killed.contains("lost"));
}

TEST(Top, NobodyThereIsAnError) {
  const CommandResult nobody = tessera({"top", "--http", "1", "--once"});
  EXPECT_EQ(nobody.status, 1);
  EXPECT_THAT(nobody.err,
              HasSubstr("http://127.0.0.1:1 does not answer (Connection refused); is `tessera "
                        "watch` or a program with --http running there?"));
}

TEST(Top, AnAnswerOfSomethingElseIsAnError) {
  EXPECT_THAT(tools::top_text(json::parse(R"({"snapshot": 3})")).error().to_string(),
              HasSubstr("the server there is no pipeline of this version: "));
  EXPECT_FALSE(tools::top_text(json()).ok());
  const json far = json::parse(
      R"({"title": "t", "pid": 1e300, "limit": {"text": "none"}, "snapshot": {"sources": [], "at_ns": 0,
      "recording": true, "dropped": 1e300, "tasks": {"per_second": 0, "ok": -1e300, "failed": 0,
      "cancelled": 0, "in_flight": 0,
      "latency_late": {"median": 0, "p90": 0, "p99": 0, "max": 1e300}}}})");
  EXPECT_THAT(tools::top_text(far).value(), HasSubstr("9000000000000000000 events lost"));
}

TEST(Top, NamesOfAForeignServerAreShownAndNotObeyed) {
  json state = json::parse(R"({"pid": 1, "limit": {}, "snapshot": {"at_ns": 0,
      "recording": true, "dropped": 0, "sources": [], "tasks": {"per_second": 0, "ok": 0,
      "failed": 0, "cancelled": 0, "in_flight": 0,
      "latency_late": {"median": 0, "p90": 0, "p99": 0, "max": 0}}}})");
  const std::string evil = "\x1b]0;evil\x07\x1b[2J\u202e\u009b\x7f\nforged line\t\r\xff";
  state["title"] = state["limit"]["text"] = evil;
  const json run = {{"median", 0}};
  for (const char* kind : {"kernel", "device", "stage", "queue"}) {
    state["snapshot"]["sources"].push_back({{"kind", kind},
                                            {"name", "name" + evil},
                                            {"device", "device" + evil},
                                            {"utilisation", 0},
                                            {"runs_per_second", 0},
                                            {"run", run},
                                            {"waited", run},
                                            {"bytes_in_per_second", 0},
                                            {"faults", 0},
                                            {"threads", 0},
                                            {"bytes_out_per_second", 0},
                                            {"depth", 0},
                                            {"depth_max", 0},
                                            {"capacity", 0}});
  }
  const auto text = tools::top_text(state);
  ASSERT_TRUE(text.ok()) << text.error().to_string();
  EXPECT_THAT(*text, HasSubstr("\\x1b]0;evil\\x07\\x1b[2J\\u{202e}\\u{9b}\\x7f"));
  EXPECT_THAT(*text, ::testing::Not(HasSubstr("\nforged line")));
  for (const char c : *text) {
    EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << int{static_cast<unsigned char>(c)};
  }
  const std::string screen = tools::fitted("a" + evil + "\nb", evil, {.columns = 200, .rows = 10});
  EXPECT_EQ(screen,
            "a\\x1b]0;evil\\x07\\x1b[2J\\u{202e}\\u{9b}\\x7f\nforged line\\t\\x0d\\xff\nb\n"
            "\\x1b]0;evil\\x07\\x1b[2J\\u{202e}\\u{9b}\\x7f\\nforged line\\t\\x0d\\xff");
}

}  // namespace
}  // namespace tessera::cli

#include "dashboard/server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <latch>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dashboard/http_client.h"
#include "dashboard/page.h"
#include "http/testing/no_threads.h"
#include "http/testing/raw_socket.h"
#include "metrics/collector.h"

namespace tessera::dashboard {
namespace {

using nlohmann::json;

// A stage that takes any number of threads up to eight, and one whose change takes its time.
class NotedControls : public Controls {
 public:
  std::vector<StageControl> stages() override {
    const std::lock_guard lock(mutex_);
    return {{"pre", threads_, 8}};
  }
  Status set_threads(const std::string& stage, int threads) override {
    if (stage == "slow") {
      slow_begins_.count_down();
      slow_ends_.wait();
      return {};
    }
    if (stage != "pre" || threads > 8) {
      return Error{ErrorCode::kInvalidArgument,
                   "stage '" + stage + "' cannot; allowed pre, 1 to 8"};
    }
    const std::lock_guard lock(mutex_);
    threads_ = threads;
    return {};
  }
  void wait_for_slow() { slow_begins_.wait(); }
  void end_slow() { slow_ends_.count_down(); }

 private:
  std::mutex mutex_;
  int threads_ = 1;
  std::latch slow_begins_{1}, slow_ends_{1};
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() : collector_(recorder_, {.period = std::chrono::milliseconds(0)}) {
    kernel_ =
        recorder_.add_source({.kind = metrics::SourceKind::kKernel, .name = "kernel A"}).value();
    Result<std::unique_ptr<Server>> server =
        Server::start(collector_, &controls_, {.title = "a run"});
    EXPECT_TRUE(server.ok());
    server_ = std::move(server).value();
  }
  void run_kernel(std::int64_t begin, std::int64_t end) {
    recorder_.record({.kind = metrics::EventKind::kKernelRun,
                      .source = kernel_,
                      .begin_ns = begin,
                      .end_ns = end,
                      .packet = 77});
  }
  Answer get(const std::string& path) {
    return HttpClient::at(server_->url()).value().get(path).value();
  }
  Answer post(const std::string& body) {
    return HttpClient::at(server_->url()).value().post_json("/control", body).value();
  }
  // Sends a request as it stands and reads until the answer has `until`, or ends.
  std::string raw(const std::string& request, const std::string& until) {
    const http::RawSocket socket(server_->port());
    EXPECT_TRUE(socket.send(request));
    return socket.read_until(until);
  }

  metrics::Recorder recorder_;
  metrics::Collector collector_;
  NotedControls controls_;
  metrics::SourceId kernel_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, StateHasTheSnapshotAndTheControls) {
  run_kernel(1000, 2000);
  const Answer answer = get("/state");
  EXPECT_EQ(answer.status, 200);
  const json state = json::parse(answer.body);
  EXPECT_EQ(state["title"], "a run");
  EXPECT_EQ(state["pid"], getpid());
  EXPECT_EQ(state["snapshot"]["sources"][0]["runs"], 1);
  EXPECT_EQ(state["stages"][0]["threads_max"], 8);
}

TEST_F(ServerTest, ThreadsChangeByPost) {
  const Answer answer = post(R"({"stage": "pre", "threads": 5})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body)["stages"][0]["threads"], 5);
  EXPECT_EQ(controls_.stages()[0].threads, 5);
}

TEST_F(ServerTest, WhatTheControlsRefuseIsABadRequestWithTheirMessage) {
  const Answer answer = post(R"({"stage": "pre", "threads": 9})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(json::parse(answer.body)["error"],
            "stage 'pre' cannot; allowed pre, 1 to 8   [invalid argument]");
  EXPECT_EQ(post("no json").status, 400);
  EXPECT_EQ(json::parse(post(R"({"choice": "tune", "position": "auto"})").body)["error"],
            "there is nothing to choose as 'tune'   [invalid argument]");
}

TEST_F(ServerTest, RecordingIsSwitchedByPost) {
  EXPECT_EQ(post(R"({"recording": false})").status, 200);
  EXPECT_FALSE(recorder_.recording());
  EXPECT_EQ(json::parse(get("/state").body)["snapshot"]["recording"], false);
  post(R"({"recording": true})");
  EXPECT_TRUE(recorder_.recording());
}

TEST_F(ServerTest, HistoryGivesEventsAndBins) {
  run_kernel(0, 15'000'000);
  const json answer = json::parse(get("/history?from=0&to=20000000").body);
  EXPECT_EQ(answer["has_events"], true);
  EXPECT_EQ(answer["events"], json::parse("[[3,0,0,15000000,77,0,0,0]]"));
  EXPECT_EQ(answer["bins"][0]["busy"], json::parse("[10000000,5000000]"));
  EXPECT_EQ(answer["bin_ns"], 10'000'000);
}

TEST_F(ServerTest, WrongQuestionsAreBadRequests) {
  EXPECT_EQ(get("/history").status, 400);
  EXPECT_EQ(get("/history?from=9&to=1").status, 400);
  EXPECT_EQ(get("/events?interval=x").status, 400);
  const Answer missing = get("/nowhere");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(
      json::parse(missing.body)["error"],
      "GET /nowhere: status 404; there are /, /state, /events, /history, /metrics, /trace and "
      "POST /control   [invalid argument]");
}

TEST_F(ServerTest, MetricsAndTraceAreServed) {
  run_kernel(1000, 2000);
  EXPECT_NE(get("/metrics").body.find("tessera_kernel_runs_total{kernel=\"kernel A\"} 1\n"),
            std::string::npos);
  EXPECT_FALSE(json::parse(get("/trace").body)["traceEvents"].empty());
}

TEST_F(ServerTest, ThePageIsServedWhereItWasBuilt) {
  const Answer answer = get("/");
  if (page_files().empty()) {
    EXPECT_EQ(answer.status, 503);
    EXPECT_NE(answer.body.find("without npm"), std::string::npos);
    return;
  }
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("<title>Tessera</title>"), std::string::npos);
  EXPECT_EQ(get("/page.js").status, 200);
  EXPECT_EQ(get("/page.css").status, 200);
}

TEST_F(ServerTest, FollowersGetTheStateAndNewEvents) {
  run_kernel(1000, 2000);
  const std::string text = raw("GET /events?from=0&interval=20 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                               "\"events\":[[3,0,1000,2000,77,0,0,0]]");
  EXPECT_NE(text.find("text/event-stream"), std::string::npos);
  EXPECT_NE(text.find("event: state\ndata: {\"title\":\"a run\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"events\":[[3,0,1000,2000,77,0,0,0]]"), std::string::npos) << text;
}

TEST_F(ServerTest, PagesOfOtherOriginsAreRefused) {
  const std::string body = R"({"recording":false})";
  const std::string head = "POST /control HTTP/1.1\r\nConnection: close\r\nContent-Length: " +
                           std::to_string(body.size()) + "\r\n";
  const std::string json_type = "Content-Type: application/json\r\n";
  const auto status = [&](const std::string& headers) {
    return raw(head + headers + "\r\n" + body, "\r\n").substr(9, 3);
  };
  EXPECT_EQ(status("Host: localhost\r\nOrigin: http://evil.example\r\n" + json_type), "403");
  EXPECT_EQ(status("Host: evil.example\r\nOrigin: http://evil.example\r\n" + json_type), "403");
  EXPECT_EQ(status("Host: localhost\r\nContent-Type: text/plain\r\n"), "415");
  EXPECT_TRUE(recorder_.recording());
  EXPECT_EQ(status("Host: localhost\r\nOrigin: http://localhost\r\n" + json_type), "200");
  EXPECT_FALSE(recorder_.recording());
}

// A change of the program's may take its time, or never come back.
TEST_F(ServerTest, WhoLooksDoesNotWaitForChanges) {
  const http::RawSocket changing(server_->port());
  const std::string body = R"({"stage": "slow", "threads": 1})";
  changing.send(
      "POST /control HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  controls_.wait_for_slow();
  EXPECT_EQ(get("/state").status, 200);
  controls_.end_slow();
  EXPECT_EQ(changing.read_until("\r\n\r\n").substr(0, 12), "HTTP/1.1 200");
}

TEST_F(ServerTest, EveryAnswerTellsBrowsersWhatOtherPagesMayNotDo) {
  for (const char* path : {"/state", "/nowhere", "/trace"}) {
    const std::string head =
        raw(std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n\r\n");
    EXPECT_NE(head.find("frame-ancestors 'none'"), std::string::npos) << path;
    EXPECT_NE(head.find("X-Frame-Options: DENY\r\n"), std::string::npos) << path;
  }
}

TEST_F(ServerTest, ALongBodyIsRefused) { EXPECT_EQ(post(std::string(70'000, ' ')).status, 413); }

TEST_F(ServerTest, APortThatIsTakenIsAnError) {
  const auto second = Server::start(collector_, nullptr, {.listen = {.port = server_->port()}});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().to_string(),
            "cannot listen at 127.0.0.1:" + std::to_string(server_->port()) +
                ": the port is taken; port 0 takes any that is free   [unavailable]");
}

#ifndef TESSERA_SANITIZED
TEST_F(ServerTest, AThreadThatIsNotThereIsAnError) {
  http::threads_left = 0;
  const auto none = Server::start(collector_, nullptr, {});
  http::threads_left = 1;
  const auto one = Server::start(collector_, nullptr, {});
  http::threads_left = -1;
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(
      none.error().to_string(),
      "the system has no thread for a server (Resource temporarily unavailable); end some, or "
      "allow more (ulimit -u)   [unavailable]");
  EXPECT_FALSE(one.ok());
}
#endif

TEST_F(ServerTest, StopsWhileSomeoneFollows) {
  const http::RawSocket follower(server_->port());
  follower.send("GET /events?interval=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(follower.read_until("event: timeline"), "");
  server_.reset();
  EXPECT_TRUE(follower.read_all().size() < 1000) << "it ends";
}

TEST(HttpClients, NobodyThereIsAnErrorWithTheWayOut) {
  HttpClient client = HttpClient::at("127.0.0.1:1").value();
  EXPECT_EQ(client.get("/state").error().to_string(),
            "http://127.0.0.1:1 does not answer (Connection refused); is `tessera watch` or a "
            "program with "
            "--http running there?   [unavailable]");
  EXPECT_EQ(HttpClient::at("nonsense").error().to_string(),
            "'nonsense' is no address of a running pipeline; allowed http://ADDRESS:PORT, "
            "ADDRESS:PORT or PORT   [invalid argument]");
}

}  // namespace
}  // namespace tessera::dashboard

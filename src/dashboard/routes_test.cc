#include "dashboard/routes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <variant>

namespace tessera::dashboard {
namespace {

using http::Request;
using http::Response;

class RoutesTest : public testing::Test {
 protected:
  RoutesTest() : collector_(recorder_, {.period = std::chrono::milliseconds(0)}) {}

  Response ask(std::string_view method, std::string_view path,
               std::vector<http::Field> fields = {}) {
    return routes_.answer({.method = std::string(method),
                           .path = std::string(path),
                           .host = "localhost:80",
                           .fields = std::move(fields)});
  }
  static std::string field(const Response& response, std::string_view name) {
    for (const http::Field& each : response.fields) {
      if (each.name == name) return each.value;
    }
    return {};
  }

  metrics::Recorder recorder_;
  metrics::Collector collector_;
  Routes routes_{collector_, nullptr, "127.0.0.1", "a run"};
};

TEST_F(RoutesTest, MethodsThatAPathDoesNotHaveAreTold) {
  const Response post = ask("POST", "/trace");
  EXPECT_EQ(post.status, 405);
  EXPECT_EQ(field(post, "Allow"), "GET, HEAD");
  EXPECT_EQ(
      std::get<std::string>(post.body),
      "{\"error\":\"POST /trace: status 405; there are /, /state, /events, /history, /metrics, "
      "/trace and POST /control   [invalid argument]\"}\n");
  const Response get = ask("GET", "/control");
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(field(get, "Allow"), "POST");
  EXPECT_EQ(ask("BREW", "/state").status, 405);
  EXPECT_EQ(ask("BREW", "/pot").status, 404);
  EXPECT_EQ(ask("HEAD", "/state").status, 200);
  EXPECT_EQ(ask("HEAD", "/trace").status, 200);
}

// A run with one virtual card.
class CardControls : public Controls {
 public:
  std::vector<StageControl> stages() override { return {}; }
  Status set_threads(const std::string& /*stage*/, int /*threads*/) override { return {}; }
  std::vector<CardStatus> cards() override {
    CardStatus card;
    card.arch = "cloud16";
    card.clock_hertz = 200'000'000;
    card.cards = 2;
    card.groups = 4;
    card.cores_per_group = 4;
    ProcessorStatus one;
    one.name = "a \"tenant\"";
    one.cores = {0, 1};
    one.reserved = {2};
    one.networks = {"small.onnx"};
    one.last_run_cycles = 1'000'000;
    card.processors = {one};
    card.parts = {{"core", 3, 0, 70, 80}, {"network_out", 1, 1, 5, 640}};
    return {card};
  }
};

TEST_F(RoutesTest, TheStateHasTheCardsWithWhoHasWhichCores) {
  CardControls controls;
  Routes routes{collector_, &controls, "127.0.0.1", "a run"};
  const Response response =
      routes.answer({.method = "GET", .path = "/state", .host = "localhost:80"});
  const auto state = nlohmann::json::parse(std::get<std::string>(response.body));
  const auto& card = state.at("cards").at(0);
  EXPECT_EQ(card.at("arch"), "cloud16");
  EXPECT_EQ(card.at("cores_per_group"), 4);
  const auto& one = card.at("processors").at(0);
  EXPECT_EQ(one.at("name"), "a \"tenant\"");
  EXPECT_EQ(one.at("cores"), nlohmann::json({0, 1}));
  EXPECT_EQ(one.at("reserved"), nlohmann::json({2}));
  EXPECT_EQ(one.at("networks").at(0), "small.onnx");
  EXPECT_EQ(one.at("images_per_second"), 200);
  EXPECT_EQ(card.at("cards"), 2);
  EXPECT_EQ(card.at("parts")[0],
            nlohmann::json(
                {{"kind", "core"}, {"index", 3}, {"card", 0}, {"busy_cycles", 70}, {"bytes", 80}}));
  EXPECT_EQ(card.at("parts")[1].at("card"), 1);
  const Response none = ask("GET", "/state");
  EXPECT_TRUE(nlohmann::json::parse(std::get<std::string>(none.body)).at("cards").empty());
}

TEST_F(RoutesTest, OneTraceAtATime) {
  const Response first = ask("GET", "/trace", {{"Range", "bytes=0-,0-,0-"}});
  EXPECT_EQ(first.status, 200) << "ranges are not served";
  {
    const Response second = ask("GET", "/trace");
    EXPECT_EQ(second.status, 503);
    EXPECT_EQ(field(second, "Retry-After"), "1");
    EXPECT_EQ(
        std::get<std::string>(second.body),
        "{\"error\":\"another client takes a trace, and one is served at a time; ask again\"}\n");
  }
  const auto take_all = [](const Response& response) {
    std::string text;
    const auto& pieces = std::get<http::Pieces>(response.body);
    for (bool more = true; more;) {
      const http::Piece piece = pieces.next();
      text += piece.bytes;
      more = !piece.is_last;
    }
    return text;
  };
  EXPECT_TRUE(nlohmann::json::parse(take_all(first)).contains("traceEvents"));
  {
    const Response still = ask("GET", "/trace");
    EXPECT_EQ(still.status, 503) << "it is still being sent";
  }
}

TEST_F(RoutesTest, ATraceMayBeTakenAfterTheOneBefore) {
  {
    const Response first = ask("GET", "/trace");
  }
  EXPECT_EQ(ask("GET", "/trace").status, 200);
}

// Slow controls.
class SlowControls : public Controls {
 public:
  std::vector<StageControl> stages() override {
    ++asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return {};
  }
  Status set_threads(const std::string&, int) override { return {}; }
  int asked = 0;
};

TEST_F(RoutesTest, AStateThatTakesLongIsMadeOnceForManyUntilAChange) {
  SlowControls controls;
  Routes routes(collector_, &controls, "127.0.0.1", "a run");
  const Request look = {.method = "GET", .path = "/state", .host = "localhost"};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(routes.answer(look).status, 200);
  EXPECT_LT(controls.asked, 20);
  EXPECT_EQ(routes
                .answer({.method = "POST",
                         .path = "/control",
                         .host = "localhost",
                         .fields = {{"Content-Type", "application/json"}},
                         .body = R"({"recording": false})"})
                .status,
            200);
  const int before = controls.asked;
  const Response after = routes.answer(look);
  EXPECT_EQ(controls.asked, before + 1);
  EXPECT_NE(std::get<std::string>(after.body).find("\"recording\":false"), std::string::npos);
}

TEST_F(RoutesTest, AHistoryOfManySourcesHasWiderBins) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(recorder_.add_source({.name = "stage " + std::to_string(i)}).ok());
  }
  const Response response = routes_.answer({.method = "GET",
                                            .path = "/history",
                                            .query = "from=0&to=20000000000&bins=4000",
                                            .host = "localhost"});
  EXPECT_EQ(response.status, 200);
  EXPECT_LT(std::get<http::Pieces>(response.body).held_bytes, 10'000'000U);
}

TEST_F(RoutesTest, OtherSitesAreRefusedAlsoWithoutOrigin) {
  EXPECT_EQ(ask("GET", "/trace", {{"Sec-Fetch-Site", "cross-site"}}).status, 403);
  EXPECT_EQ(ask("GET", "/", {{"Sec-Fetch-Site", "same-site"}}).status, 403) << "another port";
  EXPECT_EQ(ask("GET", "/state", {{"Referer", "http://evil.example/"}}).status, 403);
  EXPECT_EQ(ask("GET", "/state", {{"Referer", "http://localhost:80.evil.example/"}}).status, 403);
  EXPECT_EQ(ask("GET", "/state", {{"Origin", "null"}}).status, 403);
  EXPECT_EQ(ask("GET", "/state",
                {{"Sec-Fetch-Site", "same-origin"},
                 {"Referer", "http://localhost:80/"},
                 {"Origin", "http://localhost:80"}})
                .status,
            200);
  EXPECT_EQ(ask("GET", "/state", {{"Sec-Fetch-Site", "none"}}).status, 200) << "typed in";
}

TEST_F(RoutesTest, BrowsersAreToldToFrameNothing) {
  std::string all;
  for (const http::Field& each : Routes::fields()) all += each.name + ": " + each.value + "\n";
  EXPECT_NE(all.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_NE(all.find("X-Frame-Options: DENY\n"), std::string::npos);
  EXPECT_NE(all.find("X-Content-Type-Options: nosniff\n"), std::string::npos);
  EXPECT_NE(all.find("Referrer-Policy: no-referrer\n"), std::string::npos);
}

}  // namespace
}  // namespace tessera::dashboard

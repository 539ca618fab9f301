// The service behind a server of its own, asked over HTTP.
#include "serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "http/client.h"
#include "http/server.h"
#include "http/testing/raw_socket.h"
#include "model/testing/model_builder.h"
#include "serve/http_front.h"
#include "tessera/session.h"

namespace tessera::serve {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using model::testing::ModelBuilder;

// y = max(x * scale, 0)
std::string scaled(float scale) {
  Tensor factor = Tensor::zeros(Format::kF32, {1});
  factor.as<float>()[0] = scale;
  return ModelBuilder(13)
      .input("x", Format::kF32, {1, 4})
      .initializer("f", factor)
      .node("Mul", {"x", "f"}, {"m"})
      .node("Relu", {"m"}, {"y"})
      .output("y")
      .proto()
      .SerializeAsString();
}

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "service_test";
    fs::remove_all(folder_);
    write("scale/1/model.onnx", scaled(2));
    write("scale/2/model.onnx", scaled(3));
    write("on_sim/1/model.onnx", scaled(2));
    write("on_sim/config.json", R"({"device": "sim"})");
    write("broken/1/model.onnx", "no model");
    service_ = Service::open({.repository = folder_}).value();
    front_ = std::make_unique<HttpFront>(*service_);
    server_ = http::Server::start({.handler = [this](http::Request request, http::Reply reply) {
                front_->handle(std::move(request), std::move(reply));
              }}).value();
    while (!service_->loaded().done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void TearDown() override {
    server_.reset();
    service_.reset();
    fs::remove_all(folder_);
  }
  void write(const std::string& path, const std::string& bytes) const {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path, std::ios::binary) << bytes;
  }
  http::Answer ask(const std::string& target, const char* method = "GET",
                   const std::string& body = {}) const {
    http::Client client({.port = server_->port(), .answer_time = std::chrono::seconds(60)});
    auto answer =
        client.ask({.method = method, .target = target, .type = "application/json", .body = body});
    EXPECT_TRUE(answer.ok()) << answer.error().to_string();
    return answer.ok() ? std::move(*answer) : http::Answer{};
  }
  static std::string request(const Json& data = {1, -2, 3, 4},
                             const Json& parameters = Json::object()) {
    return Json({{"inputs",
                  {{{"name", "x"}, {"shape", {1, 4}}, {"datatype", "FP32"}, {"data", data}}}},
                 {"parameters", parameters}})
        .dump();
  }
  Json outputs(const std::string& path, const Json& data = {1, -2, 3, 4}) const {
    const http::Answer answer = ask(path, "POST", request(data));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body).at("outputs")[0].at("data");
  }

  std::string folder_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpFront> front_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(ServiceTest, AnswersWithTheBitsOfASession) {
  const Network network = Network::load(folder_ + "/scale/1/model.onnx").value();
  Session session = Session::open(network).value();
  Tensor x = Tensor::zeros(Format::kF32, {1, 4});
  for (int i = 0; i < 4; ++i)
    x.as<float>()[static_cast<std::size_t>(i)] = 0.1F * static_cast<float>(i);
  const std::vector<Tensor> expected = session.run({x}).value().outputs;
  Json data = Json::array();
  for (const float value : x.as<float>()) data.push_back(value);
  for (const char* const model : {"scale/versions/1", "on_sim"}) {
    const Json found = outputs(std::string("/v2/models/") + model + "/infer", data);
    ASSERT_EQ(found.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(found[i].get<float>(), expected[0].as<float>()[i]) << model;
    }
  }
}

TEST_F(ServiceTest, TakesTheNewestVersionUnlessOneIsNamed) {
  EXPECT_EQ(outputs("/v2/models/scale/infer"), Json({3, 0, 9, 12}));
  EXPECT_EQ(outputs("/v2/models/scale/versions/1/infer"), Json({2, 0, 6, 8}));
  const Json metadata = Json::parse(ask("/v2/models/scale").body);
  EXPECT_EQ(metadata.at("versions"), Json({"1", "2"}));
  EXPECT_EQ(metadata.at("inputs")[0],
            Json({{"name", "x"}, {"datatype", "FP32"}, {"shape", {1, 4}}}));
}

TEST_F(ServiceTest, TellsWhatIsThereAndWhatIsNot) {
  EXPECT_EQ(ask("/v2/health/live").status, 200);
  EXPECT_EQ(ask("/v2/health/ready").status, 200);
  EXPECT_EQ(ask("/healthz").status, 200);
  EXPECT_EQ(Json::parse(ask("/v2").body).at("name"), "tessera");
  EXPECT_EQ(ask("/v2/models/scale/ready").status, 200);
  EXPECT_EQ(ask("/v2/models/broken/ready").status, 503);
  EXPECT_EQ(ask("/v2/models/none").status, 404);
  EXPECT_EQ(ask("/v2/models/scale/versions/9").status, 404);
  EXPECT_EQ(ask("/v2/models/scale/infer").status, 405);
  EXPECT_EQ(ask("/v2/models/scale", "POST").status, 405);
  EXPECT_EQ(ask("/elsewhere").status, 404);
  const Json index = Json::parse(ask("/v2/repository/index", "POST").body);
  ASSERT_EQ(index.size(), 4u);
  EXPECT_EQ(index[0].at("name"), "broken");
  EXPECT_EQ(index[0].at("state"), "UNAVAILABLE");
  EXPECT_NE(index[0].at("reason"), "");
  EXPECT_EQ(Json::parse(ask("/v2/repository/index", "POST", R"({"ready": true})").body).size(), 3u);
  EXPECT_EQ(service_->loaded().failed, 1);
}

TEST_F(ServiceTest, RefusesRequestsWithTheirReason) {
  const http::Answer wrong = ask("/v2/models/scale/infer", "POST", request({1, 2}));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("input 'x' has 2 elements; its shape has 4"));
  EXPECT_EQ(ask("/v2/models/none/infer", "POST", request()).status, 404);
  const http::Answer late =
      ask("/v2/models/on_sim/infer", "POST", request({1, 2, 3, 4}, {{"timeout", 1}}));
  EXPECT_EQ(late.status, 503);
  EXPECT_THAT(late.body, HasSubstr("time was over"));
}

TEST_F(ServiceTest, CountsRequestsAndTheirTimes) {
  outputs("/v2/models/scale/versions/1/infer");
  outputs("/v2/models/scale/versions/1/infer");
  ask("/v2/models/scale/versions/1/infer", "POST", "{}");
  const Json stats =
      Json::parse(ask("/v2/models/scale/versions/1/stats").body).at("model_stats")[0];
  EXPECT_EQ(stats.at("inference_count"), 2);
  EXPECT_EQ(stats.at("inference_stats").at("success").at("count"), 2);
  EXPECT_EQ(stats.at("inference_stats").at("fail").at("count"), 1);
  EXPECT_GT(stats.at("inference_stats").at("compute_infer").at("ns"), 0);
  EXPECT_EQ(Json::parse(ask("/v2/models/stats").body).at("model_stats").size(), 3u);
  const std::string metrics = ask("/metrics").body;
  EXPECT_THAT(metrics,
              HasSubstr("tessera_serve_requests_total{model=\"scale\",version=\"1\"} 2\n"));
  EXPECT_THAT(
      metrics,
      HasSubstr(
          "tessera_serve_failures_total{model=\"scale\",version=\"1\",reason=\"input\"} 1\n"));
  EXPECT_THAT(
      metrics,
      HasSubstr(
          "tessera_serve_request_seconds_bucket{model=\"scale\",version=\"1\",le=\"+Inf\"} 2\n"));
}

double metric(const std::string& metrics, const std::string& name) {
  const std::size_t at = metrics.find("\n" + name + " ");
  EXPECT_NE(at, std::string::npos) << name;
  return at == std::string::npos ? -1 : std::stod(metrics.substr(at + name.size() + 2));
}

// By core how busy it was, in cycles, which are those of a run by itself.
TEST_F(ServiceTest, CountsBusyCyclesByCore) {
  write("cores/1/model.onnx", scaled(2));
  write("cores/config.json", R"({"device": "sim", "arch": "cloud16", "cores": 2})");
  EXPECT_EQ(ask("/v2/repository/models/cores/load", "POST").status, 200);
  for (int i = 0; i < 3; ++i) outputs("/v2/models/cores/infer");
  outputs("/v2/models/on_sim/infer");
  const std::string metrics = ask("/metrics").body;
  const Network network =
      Network::load(folder_ + "/cores/1/model.onnx", {.arch = "cloud16"}).value();
  Session session = Session::open(network, {.device = DeviceKind::kSim, .cores = 2}).value();
  const RunResult run = session.run({Tensor::zeros(Format::kF32, {1, 4})}).value();
  EXPECT_EQ(metric(metrics, R"(tessera_serve_cycles_total{model="cores",version="1"})"),
            static_cast<double>(3 * run.cycles));
  for (const EngineUse& engine : run.engines) {
    if (engine.kind != "neural") continue;
    EXPECT_EQ(metric(metrics,
                     "tessera_serve_core_busy_cycles_total{model=\"cores\",version=\"1\","
                     "core=\"" +
                         std::to_string(engine.core) + "\"}"),
              static_cast<double>(3 * engine.busy));
  }
  EXPECT_GE(metric(metrics,
                   R"(tessera_serve_core_busy_cycles_total{model="on_sim",version="1",core="0"})"),
            0);
  EXPECT_THAT(metrics, testing::Not(HasSubstr("core_busy_cycles_total{model=\"scale\"")));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("tenant")));  // there is no token file
}

TEST_F(ServiceTest, LoadsAndUnloadsWhileItServes) {
  EXPECT_EQ(ask("/v2/repository/models/scale/unload", "POST").status, 200);
  EXPECT_EQ(ask("/v2/models/scale/infer", "POST", request()).status, 404);
  write("scale/5/model.onnx", scaled(5));
  EXPECT_EQ(ask("/v2/repository/models/scale/load", "POST").status, 200);
  EXPECT_EQ(outputs("/v2/models/scale/infer"), Json({5, 0, 15, 20}));
  write("broken/1/model.onnx", scaled(7));
  EXPECT_EQ(ask("/v2/repository/models/broken/load", "POST").status, 200);
  EXPECT_EQ(outputs("/v2/models/broken/infer"), Json({7, 0, 21, 28}));
  // A version that cannot be read leaves those that serve.
  write("scale/6/model.onnx", "no model");
  EXPECT_EQ(ask("/v2/repository/models/scale/load", "POST").status, 400);
  EXPECT_EQ(outputs("/v2/models/scale/infer"), Json({5, 0, 15, 20}));
  // Longer than a file's name may be.
  const std::string name(300, 'a');
  const http::Answer too_long = ask("/v2/repository/models/" + name + "/load", "POST");
  EXPECT_EQ(too_long.status, 400);
  EXPECT_THAT(too_long.body, HasSubstr("File name too long"));
  EXPECT_THAT(too_long.body, Not(HasSubstr(folder_)));
  // Names that are not there leave no trace.
  const http::Answer none = ask("/v2/repository/models/none/load", "POST");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(none.body, R"({"error":"there is no model 'none'"})");
  EXPECT_EQ(ask("/v2/repository/models/none/unload", "POST").status, 404);
  EXPECT_THAT(ask("/v2/repository/index", "POST").body, Not(HasSubstr("none")));
}

// One whose folder has gone keeps what was loaded of it.
TEST_F(ServiceTest, SaysThatAModelsFolderHasGone) {
  fs::remove_all(folder_ + "/scale");
  const http::Answer gone = ask("/v2/repository/models/scale/load", "POST");
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.body,
            R"({"error":"model 'scale': its folder is not in the repository any more"})");
  EXPECT_EQ(outputs("/v2/models/scale/infer"), Json({3, 0, 9, 12}));
}

TEST_F(ServiceTest, SaysWhyAModelIsNotThere) {
  const std::string reason = Json::parse(ask("/v2/repository/index", "POST").body)[0].at("reason");
  ASSERT_NE(reason, "");
  const auto error = [](const http::Answer& answer) {
    return Json::parse(answer.body).at("error").get<std::string>();
  };
  const std::string expected = "model 'broken' is not loaded: version 1: " + reason;
  EXPECT_EQ(error(ask("/v2/models/broken/ready")), expected);
  EXPECT_EQ(error(ask("/v2/models/broken/infer", "POST", request())), expected);
  write("scale/6/model.onnx", "no model");
  EXPECT_EQ(ask("/v2/repository/models/scale/load", "POST").status, 400);
  EXPECT_THAT(error(ask("/v2/models/scale/versions/6/ready")),
              testing::StartsWith("version 6 of model 'scale' is not loaded: "));
  EXPECT_EQ(error(ask("/v2/models/scale/versions/7/ready")), "model 'scale' has no version '7'");
  ask("/v2/repository/models/scale/unload", "POST");
  EXPECT_EQ(error(ask("/v2/models/scale/ready")), "model 'scale' is not loaded: unloaded");
}

TEST_F(ServiceTest, NamesFoldersThatItLeavesOut) {
  write("scale/007/model.onnx", scaled(2));
  write(".cache/1/model.onnx", scaled(2));
  write("stats/1/model.onnx", scaled(2));
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto service = Service::open({.repository = folder_,
                                      .log =
                                          [&](const std::string& line) {
                                            const std::lock_guard lock(mutex);
                                            lines.push_back(line);
                                          }})
                           .value();
  const auto is_told = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    return std::ranges::find(lines, line) != lines.end();
  };
  const std::string stats =
      "stats: 'stats' is no name of a model, since /v2/models/stats has the statistics of all "
      "models; give the folder another name";
  // The last of them.
  while (!is_told(stats)) std::this_thread::yield();
  EXPECT_TRUE(
      is_told("scale: ready, 2 versions; folder '007' is left out: a version is a number from 1 to "
              "9223372036854775807 without zeros before it"));
  for (const IndexEntry& entry : service->index({}, false)) EXPECT_NE(entry.name, ".cache");
}

TEST_F(ServiceTest, RefusesALoadWithAConfigurationAndBodiesThatAreNoJson) {
  const std::string load = "/v2/repository/models/scale/load";
  EXPECT_EQ(ask(load, "POST", "{}").status, 200);
  EXPECT_EQ(ask(load, "POST", R"({"parameters": {}})").status, 200);
  const http::Answer with_config = ask(load, "POST", R"({"parameters": {"config": "{}"}})");
  EXPECT_EQ(with_config.status, 400);
  EXPECT_EQ(Json::parse(with_config.body).at("error"),
            "model 'scale': a load has the parameter 'config', and takes none; put config.json and "
            "the versions' files in the model's folder, and load it without");
  // There is nothing that an unload would take along.
  EXPECT_EQ(ask("/v2/repository/models/scale/unload", "POST",
                R"({"parameters": {"unload_dependents": true}})")
                .status,
            200);
  EXPECT_THAT(ask(load, "POST", R"({"parameters": 7})").body, HasSubstr("is no object"));
  for (const std::string& target : {load, std::string("/v2/repository/index")}) {
    for (const char* const body : {"no JSON", "[]", "{"}) {
      const http::Answer refused = ask(target, "POST", body);
      EXPECT_EQ(refused.status, 400);
      EXPECT_EQ(Json::parse(refused.body).at("error"),
                target + ": the body is no JSON object; leave it out or send one such as {}");
    }
  }
  EXPECT_THAT(ask("/v2/repository/index", "POST", R"({"ready": 1})").body,
              HasSubstr("'ready' is 1; it is to be true or false"));
}

TEST_F(ServiceTest, TakesBodiesOnlyAsTheyAre) {
  const auto answer = [&](const std::string& encoding) {
    const http::RawSocket socket(server_->port());
    const std::string body = request();
    socket.send("POST /v2/models/scale/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                encoding + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return socket.read_all();
  };
  EXPECT_THAT(answer(""), testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer("content-encoding: Identity\r\n"), testing::StartsWith("HTTP/1.1 200 "));
  for (const char* const encoding : {"gzip", "deflate", "br", "identity, gzip"}) {
    const std::string refused = answer(std::string("Content-Encoding: ") + encoding + "\r\n");
    EXPECT_THAT(refused, testing::StartsWith("HTTP/1.1 415 "));
    EXPECT_THAT(refused, HasSubstr("Accept-Encoding: identity\r\n"));
    EXPECT_THAT(refused,
                HasSubstr(std::string("/v2/models/scale/infer: the body's Content-Encoding is '") +
                          encoding + "'; allowed is 'identity': send the body as it is"));
  }
}

// No request is lost or wrong while its model is loaded again and again.
TEST_F(ServiceTest, LosesNoRequestToALoad) {
  std::atomic<bool> over = false;
  std::atomic<int> answered = 0, wrong = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      while (!over) {
        const http::Answer answer = ask("/v2/models/scale/versions/1/infer", "POST", request());
        const bool right =
            answer.status == 200 &&
            Json::parse(answer.body).at("outputs")[0].at("data") == Json({2, 0, 6, 8});
        ++(right ? answered : wrong);
      }
    });
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ask("/v2/repository/models/scale/load", "POST").status, 200);
  }
  while (answered < 20 && wrong == 0) std::this_thread::yield();
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ServiceTest, RefusesNewRequestsOnceItShutsDown) {
  service_->begin_shutdown();
  EXPECT_EQ(ask("/v2/health/live").status, 200);
  EXPECT_EQ(ask("/v2/health/ready").status, 503);
  EXPECT_EQ(ask("/v2/models/scale/infer", "POST", request()).status, 503);
  EXPECT_EQ(ask("/v2/repository/models/scale/load", "POST").status, 503);
  EXPECT_TRUE(service_->is_idle());
  EXPECT_TRUE(server_->finish(std::chrono::seconds(10)));
  http::Client late({.port = server_->port(), .attempts = 1});
  EXPECT_FALSE(late.ask({.target = "/v2"}).ok());
}

// What a load throws is its failure, and nothing else's.
TEST_F(ServiceTest, OutlivesWhatALoadThrows) {
  const auto service =
      Service::open(
          {.repository = folder_,
           .log = [](const std::string&) { throw std::runtime_error("the log is full"); }})
          .value();
  while (!service->loaded().done) std::this_thread::yield();
  std::promise<std::optional<Failure>> changed;
  service->change({}, {.model = "scale"},
                  [&](std::optional<Failure> failure) { changed.set_value(std::move(failure)); });
  const std::optional<Failure> failure = changed.get_future().get();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->problem, Problem::kRun);
  EXPECT_THAT(failure->message, HasSubstr("the log is full"));
  EXPECT_TRUE(service->served({}, {"scale", ""}).ok());
}

TEST_F(ServiceTest, CountsARequestWhoseReadingThrows) {
  const auto access = Access::parse(R"({"tenants": [
      {"name": "one", "token": "0123456789abcdef", "requests_at_once": 1}]})")
                          .value();
  const Client client = access->client_of("Bearer 0123456789abcdef", "infer").value();
  for (int i = 0; i < 2; ++i) {
    std::promise<std::optional<Failure>> answered;
    service_->infer(
        client, {"scale", ""},
        [](const ModelForm&, const RegionsOfClient&) -> Result<InferRequest> {
          throw std::bad_alloc();
        },
        [&](InferOutcome outcome) -> Send {
          answered.set_value(std::move(outcome.failure));
          return [] {};
        });
    const std::optional<Failure> failure = answered.get_future().get();
    ASSERT_TRUE(failure);
    EXPECT_THAT(failure->message, HasSubstr("reading the request"));
    EXPECT_TRUE(service_->is_idle());
  }
}

TEST(Service, RefusesARepositoryThatIsNotThere) {
  const auto service = Service::open({.repository = "/nowhere/at/all"});
  ASSERT_FALSE(service.ok());
  EXPECT_THAT(service.error().message, HasSubstr("cannot read the folder"));
}

}  // namespace
}  // namespace tessera::serve

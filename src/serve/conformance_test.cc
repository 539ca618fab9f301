// The protocol over HTTP as a whole: every datatype in both forms, requests that are no requests, sizes at and over
// the limits, a thousand clients that send half of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "http/client.h"
#include "http/server.h"
#include "http/testing/raw_socket.h"
#include "serve/datatype.h"
#include "serve/http_front.h"
#include "serve/testing/model_folder.h"

namespace tessera::serve {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using model::testing::ModelBuilder;

// The first element.
void set_one(std::string& data, Format format) {
  const auto put = [&](auto value) { std::memcpy(data.data(), &value, sizeof(value)); };
  if (format == Format::kF32) return put(1.0F);
  if (format == Format::kF64) return put(1.0);
  if (format == Format::kF16) return put(std::uint16_t{0x3C00});
  if (format == Format::kBf16) return put(std::uint16_t{0x3F80});
  data[0] = 1;
}

class Conformance : public ::testing::Test {
 protected:
  Conformance() : folder_("conformance_test") {}
  void start(http::Limits limits = {}) {
    service_ = folder_.serve();
    front_ = std::make_unique<HttpFront>(*service_);
    server_ = http::Server::start({.limits = limits,
                                   .handler =
                                       [this](http::Request request, http::Reply reply) {
                                         front_->handle(std::move(request), std::move(reply));
                                       }})
                  .value();
  }
  http::Answer ask(const std::string& target, const std::string& body) const {
    http::Client client({.port = server_->port(), .answer_time = std::chrono::seconds(60)});
    auto answer = client.ask({.method = "POST", .target = target, .body = body});
    EXPECT_TRUE(answer.ok()) << answer.error().to_string();
    return answer.ok() ? std::move(*answer) : http::Answer{};
  }
  // What comes back for these bytes and the end of the connection.
  std::string raw(const std::string& bytes) const {
    const http::RawSocket socket(server_->port());
    socket.send(bytes);
    return socket.read_until("\r\n");
  }

  testing::ModelFolder folder_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpFront> front_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(Conformance, TakesAndGivesEveryDatatypeInBothForms) {
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    folder_.write(std::string(datatype_of(format)) + "/1/model.onnx",
                  ModelBuilder(13)
                      .input("x", format, {2})
                      .node("Identity", {"x"}, {"y"})
                      .output("y")
                      .proto()
                      .SerializeAsString());
  }
  start();
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    const std::string datatype(datatype_of(format));
    const auto bytes = static_cast<std::size_t>(format_bytes(format));
    std::string data(2 * bytes, '\0');
    set_one(data, format);
    Json input = {{"name", "x"}, {"shape", {2}}, {"datatype", datatype}};
    input["parameters"] = {{"binary_data_size", data.size()}};
    const Json head = {{"inputs", {input}}, {"parameters", {{"binary_data_output", true}}}};
    const std::string text = head.dump();
    std::string request = "POST /v2/models/" + datatype +
                          "/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                          "Inference-Header-Content-Length: " +
                          std::to_string(text.size()) +
                          "\r\nContent-Length: " + std::to_string(text.size() + data.size());
    request.append("\r\n\r\n").append(text).append(data);
    const http::RawSocket socket(server_->port());
    ASSERT_TRUE(socket.send(request));
    const std::string answer = socket.read_until("no such text: until the end");
    EXPECT_THAT(answer, ::testing::StartsWith("HTTP/1.1 200")) << datatype;
    EXPECT_EQ(answer.substr(answer.size() - data.size()), data) << datatype;
    if (format == Format::kF16 || format == Format::kBf16) continue;
    input.erase("parameters");
    input["data"] = format == Format::kBool ? Json{true, false} : Json{1, 0};
    const http::Answer json =
        ask("/v2/models/" + datatype + "/infer", Json({{"inputs", {input}}}).dump());
    ASSERT_EQ(json.status, 200) << datatype << json.body;
    EXPECT_EQ(Json::parse(json.body).at("outputs")[0].at("data"), input["data"]) << datatype;
  }
}

TEST_F(Conformance, AnswersWhatIsNoRequestWithAStatus) {
  folder_.write("a b/1/model.onnx", testing::scaled(2));
  start();
  EXPECT_THAT(raw("nonsense\r\n\r\n"), HasSubstr("400"));
  EXPECT_THAT(raw("GET /v2 HTTP/3.0\r\nHost: a\r\n\r\n"), HasSubstr("505"));
  EXPECT_THAT(raw("POST /v2/models/x/infer HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"),
              HasSubstr("400"));
  EXPECT_THAT(raw("GET /v2/models/a%20b HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr("200"));
  EXPECT_THAT(raw("GET /v2/models/a%2 HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr("404"));
  EXPECT_THAT(raw("GET /v2/models/%2e%2e%2f HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr("404"));
  EXPECT_EQ(ask("/v2/repository/models/..%2f../load", "").status, 400);
  for (const char* const body :
       {"", "[]", "{}", "{\"inputs\": 1}", "\xff\xfe", "{\"inputs\": [{}]}"}) {
    EXPECT_EQ(ask("/v2/models/a%20b/infer", body).status, 400) << body;
  }
  EXPECT_EQ(ask("/v2/systemsharedmemory/region/r/register", "{\"key\": 1}").status, 400);
  EXPECT_EQ(ask("/v2/systemsharedmemory/region/r/unregister", "").status, 400);
}

TEST_F(Conformance, TakesABodyOfTheLimitAndRefusesALongerOne) {
  folder_.write("m/1/model.onnx", testing::scaled(2));
  http::Limits limits;
  limits.body_bytes = 1 << 20;
  start(limits);
  const std::string request =
      R"({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]})";
  const std::string space(limits.body_bytes - request.size(), ' ');
  EXPECT_EQ(ask("/v2/models/m/infer", request + space).status, 200);
  EXPECT_EQ(ask("/v2/models/m/infer", request + space + " ").status, 413);
}

// Half a request each, and one that is whole in between: it is answered, and so are those that come next.
TEST_F(Conformance, AnswersBesideAThousandClientsThatSendHalfARequest) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  constexpr rlim_t kClients = 1000, kFiles = 2 * kClients + 200;
  if (files.rlim_cur < kFiles) {
    files.rlim_cur = std::min(files.rlim_max, kFiles);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur < kFiles) GTEST_SKIP() << "the system allows too few files for 1,000 clients";
  folder_.write("m/1/model.onnx", testing::scaled(2));
  http::Limits limits;
  limits.connections = 1024;
  start(limits);
  const std::string body =
      R"({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]})";
  const std::string whole = "POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body;
  std::vector<http::RawSocket> slow;
  for (rlim_t i = 0; i < kClients; ++i) {
    slow.emplace_back(server_->port());
    ASSERT_TRUE(slow.back().send(std::string_view(whole).substr(0, i % whole.size())));
  }
  EXPECT_EQ(ask("/v2/models/m/infer", body).status, 200);
  // Each goes on where it stopped.
  for (rlim_t i = 0; i < kClients; i += 100) {
    ASSERT_TRUE(slow[i].send(std::string_view(whole).substr(i % whole.size())));
    EXPECT_THAT(slow[i].read_until("\r\n"), HasSubstr("200 OK"));
  }
}

// Every path of the protocol, with the method that it takes and the status that it answers with there.
TEST_F(Conformance, AnswersAtEveryEndpointAndToNoOtherMethod) {
  folder_.write("m/1/model.onnx", testing::scaled(2));
  start();
  const std::string infer =
      R"({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]})";
  struct Endpoint {
    const char *method, *target;
    std::string body;
    int status;
  };
  const std::vector<Endpoint> endpoints = {
      {"GET", "/v2/health/live", "", 200},
      {"GET", "/healthz", "", 200},
      {"GET", "/v2/health/ready", "", 200},
      {"GET", "/v2", "", 200},
      {"GET", "/metrics", "", 200},
      {"GET", "/v2/models/m", "", 200},
      {"GET", "/v2/models/m/versions/1", "", 200},
      {"GET", "/v2/models/m/versions/2", "", 404},
      {"GET", "/v2/models/m/ready", "", 200},
      {"GET", "/v2/models/m/versions/1/ready", "", 200},
      {"GET", "/v2/models/m/versions/x/ready", "", 503},
      {"GET", "/v2/models/m/stats", "", 200},
      {"GET", "/v2/models/m/versions/1/stats", "", 200},
      {"GET", "/v2/models/stats", "", 200},
      {"POST", "/v2/models/m/infer", infer, 200},
      {"POST", "/v2/models/m/versions/1/infer", infer, 200},
      {"POST", "/v2/models/m/versions/2/infer", infer, 404},
      {"POST", "/v2/models/none/infer", infer, 404},
      {"POST", "/v2/repository/index", "", 200},
      {"POST", "/v2/repository/models/m/load", "", 200},
      {"POST", "/v2/repository/models/none/load", "", 404},
      {"POST", "/v2/repository/models/none/unload", "", 404},
      {"GET", "/v2/systemsharedmemory/status", "", 200},
      {"GET", "/v2/systemsharedmemory/region/r/status", "", 404},
      {"POST", "/v2/systemsharedmemory/region/r/register", "{}", 400},
      {"POST", "/v2/systemsharedmemory/region/r/unregister", "", 400},
      {"POST", "/v2/systemsharedmemory/unregister", "", 200},
      {"POST", "/v2/repository/models/m/unload", "", 200},
      {"GET", "/v2/models/m/ready", "", 503},
      {"GET", "/v2/models", "", 404},
      {"GET", "/v2/models/m/versions", "", 404},
      {"GET", "/", "", 404},
  };
  http::Client client({.port = server_->port(), .answer_time = std::chrono::seconds(60)});
  for (const Endpoint& each : endpoints) {
    const auto answer =
        client.ask({.method = each.method, .target = each.target, .body = each.body});
    ASSERT_TRUE(answer.ok()) << each.target;
    EXPECT_EQ(answer->status, each.status) << each.method << " " << each.target << answer->body;
    if (each.status >= 400) {
      EXPECT_TRUE(Json::parse(answer->body).contains("error")) << each.target;
    }
    if (each.status == 404) continue;
    for (const char* const method : {"GET", "POST", "PUT", "DELETE"}) {
      if (std::string_view(method) == each.method) continue;
      const auto refused = client.ask({.method = method, .target = each.target, .body = ""});
      ASSERT_TRUE(refused.ok()) << each.target;
      EXPECT_EQ(refused->status, 405) << method << " " << each.target;
    }
  }
}

TEST_F(Conformance, TakesAddressesAndHeadsOfTheLimitAndRefusesLongerOnes) {
  folder_.write("m/1/model.onnx", testing::scaled(2));
  http::Limits limits;
  limits.target_bytes = 200;
  limits.header_bytes = 1000;
  start(limits);
  const auto get = [&](const std::string& target, std::size_t head_bytes) {
    std::string text = "GET " + target + " HTTP/1.1\r\nHost: a\r\n";
    if (head_bytes > 0) text += "A: " + std::string(head_bytes - text.size() - 7, 'a') + "\r\n";
    return raw(text + "\r\n");
  };
  const std::string path = "/v2/models/m";
  EXPECT_THAT(get(path + "?" + std::string(limits.target_bytes - path.size() - 1, 'q'), 0),
              HasSubstr("200"));
  EXPECT_THAT(get(path + "?" + std::string(limits.target_bytes - path.size(), 'q'), 0),
              HasSubstr("414"));
  EXPECT_THAT(get(path, limits.header_bytes), HasSubstr("200"));
  // The empty line at its end may count or not.
  EXPECT_THAT(get(path, limits.header_bytes + 5), HasSubstr("431"));
}

TEST_F(Conformance, TakesBinaryDataOfTheStatedLengthAlone) {
  folder_.write("m/1/model.onnx", testing::scaled(2));
  start();
  const auto status = [&](std::size_t header_bytes, int stated, std::size_t sent) {
    const Json input = {{"name", "x"},
                        {"shape", {1, 4}},
                        {"datatype", "FP32"},
                        {"parameters", {{"binary_data_size", stated}}}};
    const std::string text = Json({{"inputs", {input}}}).dump();
    const std::string body = text + std::string(sent, '\0');
    return raw("POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: " +
               std::to_string(header_bytes == 0 ? text.size() : header_bytes) +
               "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  EXPECT_THAT(status(0, 16, 16), HasSubstr("200"));
  EXPECT_THAT(status(0, 16, 15), HasSubstr("400"));
  EXPECT_THAT(status(0, 16, 17), HasSubstr("400"));
  EXPECT_THAT(status(0, 12, 12), HasSubstr("400"));
  EXPECT_THAT(status(0, 20, 20), HasSubstr("400"));
  EXPECT_THAT(status(5, 16, 16), HasSubstr("400"));
  EXPECT_THAT(status(100'000, 16, 16), HasSubstr("400"));
}

// A request whose second half never comes, after the connection's first one was answered.
TEST_F(Conformance, EndsAConnectionWhoseRequestIsNotFinishedInTime) {
  folder_.write("m/1/model.onnx", testing::scaled(2));
  http::Limits limits;
  limits.request_time = std::chrono::milliseconds(200);
  start(limits);
  const http::RawSocket socket(server_->port());
  ASSERT_TRUE(socket.send("GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_THAT(socket.read_until("}"), HasSubstr("200 OK"));
  ASSERT_TRUE(
      socket.send("POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"));
  EXPECT_THAT(socket.read_all(), HasSubstr("408"));
}

}  // namespace
}  // namespace tessera::serve

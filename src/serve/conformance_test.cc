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
    const std::string request = "POST /v2/models/" + datatype +
                                "/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                "Inference-Header-Content-Length: " +
                                std::to_string(text.size()) +
                                "\r\nContent-Length: " + std::to_string(text.size() + data.size()) +
                                "\r\n\r\n" + text + data;
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

}  // namespace
}  // namespace tessera::serve

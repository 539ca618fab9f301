// `tessera serve` as a program: what it says, what it answers, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "http/client.h"

namespace tessera::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// A program in the background that says events in lines.
class Serve {
 public:
  explicit Serve(const std::string& options, const std::string& shell_does_before = "") {
    prepare();
    std::filesystem::create_directories("served/relu/1");
    std::filesystem::copy_file("relu.onnx", "served/relu/1/model.onnx",
                               std::filesystem::copy_options::overwrite_existing);
    // The shell says its number and becomes the program.
    const std::string command =
        "echo $$; " + shell_does_before +
        "exec " TESSERA_PROGRAM " serve --model-repository served --http-port 0 --json " + options;
    pipe_ = popen(command.c_str(), "r");
    process_ = std::stoi(read_line(pipe_));
    while (port_ == 0 || !ready_) {
      const json event = json::parse(read_line(pipe_), nullptr, false);
      if (!event.is_object()) break;
      if (event.at("event") == "start") {
        const std::string url = event.at("url");
        port_ = std::stoi(url.substr(url.rfind(':') + 1));
        start_ = event;
      }
      ready_ = ready_ || event.value("text", "") == "relu: ready, 1 version";
    }
  }
  ~Serve() {
    if (pipe_ == nullptr) return;
    kill(process_, SIGKILL);
    pclose(pipe_);
  }
  http::Answer ask(const std::string& target, const char* method = "GET",
                   const std::string& body = {}) const {
    http::Client client({.port = port_});
    auto answer = client.ask({.method = method, .target = target, .body = body});
    EXPECT_TRUE(answer.ok());
    return answer.ok() ? std::move(*answer) : http::Answer{};
  }
  // The last event, and its status 0.
  json end(int signal = SIGTERM) {
    tell(signal);
    json last;
    for (std::string text = read_line(pipe_); !text.empty(); text = read_line(pipe_))
      last = json::parse(text);
    EXPECT_EQ(pclose(std::exchange(pipe_, nullptr)), 0);
    return last;
  }
  void tell(int signal) const { kill(process_, signal); }
  bool is_ready() const { return ready_; }
  int port() const { return port_; }
  const json& start() const { return start_; }  // the event

 private:
  FILE* pipe_ = nullptr;
  int process_ = 0, port_ = 0;
  bool ready_ = false;
  json start_;
};

// What a command writes.
std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}

bool has_program(const char* name) {
  return std::system((std::string("command -v ") + name + " > /dev/null").c_str()) == 0;
}

TEST(ServeCommand, AnswersUntilASignalAndEndsWell) {
  Serve serve("--device sim");
  ASSERT_TRUE(serve.is_ready());
  json data = json::array();
  for (int i = 0; i < 16; ++i) data.push_back(i - 8);
  const json request = {
      {"inputs", {{{"name", "x"}, {"shape", {2, 8}}, {"datatype", "FP32"}, {"data", data}}}}};
  const http::Answer answer = serve.ask("/v2/models/relu/infer", "POST", request.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json found = json::parse(answer.body).at("outputs")[0].at("data");
  for (int i = 0; i < 16; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)], std::max(0, i - 8));
  EXPECT_EQ(serve.ask("/v2/health/ready").status, 200);
  EXPECT_EQ(serve.end(), json({{"event", "end"}, {"all_answered", true}}));
}

TEST(ServeCommand, EndsWellWithItsTerminal) {
  Serve serve("");
  ASSERT_TRUE(serve.is_ready());
  EXPECT_EQ(serve.end(SIGHUP), json({{"event", "end"}, {"all_answered", true}}));
}

TEST(ServeCommand, StaysWithoutItsTerminalWhereHangUpsAreIgnoredAsByNohup) {
  Serve serve("", "trap '' HUP; ");
  ASSERT_TRUE(serve.is_ready());
  serve.tell(SIGHUP);
  EXPECT_EQ(serve.ask("/v2/health/ready").status, 200);
  EXPECT_EQ(serve.end(), json({{"event", "end"}, {"all_answered", true}}));
}

TEST(ServeCommand, ListensForGrpcAndFiguresAndWritesATrace) {
  Serve serve("--grpc-port 0 --metrics-port 0 --trace-file requests.json");
  ASSERT_TRUE(serve.is_ready());
  EXPECT_THAT(serve.start().at("grpc").get<std::string>(), HasSubstr("127.0.0.1:"));
  const std::string metrics = serve.start().at("metrics");
  const int port = std::stoi(metrics.substr(std::string("http://127.0.0.1:").size()));
  http::Client client({.port = port});
  EXPECT_THAT(client.ask({.target = "/metrics"}).value().body, HasSubstr("tessera_serve_pending"));
  EXPECT_EQ(client.ask({.target = "/v2/models/relu"}).value().status, 404);
  const json request = {{"id", "traced"},
                        {"inputs",
                         {{{"name", "x"},
                           {"shape", {2, 8}},
                           {"datatype", "FP32"},
                           {"data", std::vector<int>(16, 1)}}}}};
  EXPECT_EQ(serve.ask("/v2/models/relu/infer", "POST", request.dump()).status, 200);
  EXPECT_EQ(serve.end(), json({{"event", "end"}, {"all_answered", true}}));
  std::ifstream file("requests.json");
  const json trace = json::parse(file);
  ASSERT_EQ(trace.at("traceEvents").size(), 10u);  // five parts, begin and end
  EXPECT_EQ(trace.at("traceEvents")[0].at("args").at("id"), "traced");
  EXPECT_EQ(trace.at("traceEvents")[6].at("name"), "compute");
}

TEST(ServeCommand, SharesMemoryWithThisMachineAlone) {
  const std::string target = "/v2/systemsharedmemory/region/r/register";
  const std::string region = R"({"key": "/tessera_serve_test_nothing", "byte_size": 1})";
  Serve here("");
  ASSERT_TRUE(here.is_ready());
  EXPECT_THAT(here.ask("/v2").body, HasSubstr("system_shared_memory"));
  EXPECT_EQ(here.ask(target, "POST", region).status, 400);
  Serve everywhere("--http-address 0.0.0.0 --without-tls");
  ASSERT_TRUE(everywhere.is_ready());
  EXPECT_THAT(everywhere.ask("/v2").body, ::testing::Not(HasSubstr("system_shared_memory")));
  const http::Answer refused = everywhere.ask(target, "POST", region);
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("give it --token-file"));
}

TEST(ServeCommand, SpeaksTlsAndAsksForTokens) {
  if (!has_program("openssl") || !has_program("curl")) GTEST_SKIP() << "no openssl or curl here";
  prepare();
  ASSERT_EQ(std::system("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                        "-days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost "
                        "-keyout key.pem -out certificate.pem 2> /dev/null"),
            0);
  std::ofstream("tenants.json")
      << R"({"tenants": [{"name": "one", "token": "0123456789abcdef", "models": ["relu"]}]})";
  std::filesystem::permissions("tenants.json", std::filesystem::perms::owner_read);
  Serve serve(
      "--tls-certificate certificate.pem --tls-key key.pem --token-file tenants.json "
      "2> audit.txt");
  ASSERT_TRUE(serve.is_ready());
  const std::string curl =
      "curl -s --cacert certificate.pem -w ' %{http_code}' https://localhost:" +
      std::to_string(serve.port());
  const std::string token = " -H 'Authorization: Bearer 0123456789abcdef'";
  EXPECT_EQ(output_of(curl + "/v2/health/live"), " 200");
  EXPECT_THAT(output_of(curl + "/v2/models/relu"), HasSubstr(" 401"));
  EXPECT_THAT(output_of(curl + "/v2/models/relu" + token), HasSubstr(" 200"));
  // A body of many reads.
  EXPECT_THAT(output_of("head -c 3000000 /dev/zero | " + curl + "/v2/models/relu/infer" + token +
                        " --data-binary @-"),
              HasSubstr("the request is no JSON"));
  const std::string metrics = output_of(curl + "/metrics" + token);
  EXPECT_THAT(metrics, HasSubstr("\ntessera_serve_tenant_failures_total{tenant=\"one\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ntessera_serve_tenant_pending{tenant=\"one\"} 0\n"));
  EXPECT_EQ(output_of("curl -s http://localhost:" + std::to_string(serve.port()) + "/v2"), "");
  EXPECT_EQ(serve.end(), json({{"event", "end"}, {"all_answered", true}}));
  std::ifstream audit("audit.txt");
  std::string line;
  std::getline(audit, line);
  EXPECT_EQ(json::parse(line).at("refused"), "/v2/models/relu");
}

// What loads it is of others: what is not there is named.
TEST(ServeCommand, BenchNamesTheProgramsThatAreNotThere) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const CommandResult result = tessera({"bench", "--suite", "serve", "--json"});
  setenv("PATH", path.c_str(), 1);
  if (result.err.find("no program 'serve_bench'") != std::string::npos) {
    GTEST_SKIP() << "bench/ is not built";
  }
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("left_out"), (json{"wrk", "hey", "h2load", "node, npm"}));
  EXPECT_TRUE(result.json().at("figures").empty());
}

TEST(ServeCommand, SaysWhatIsWrong) {
  prepare();
  const CommandResult nowhere = tessera({"serve", "--model-repository", "nowhere"});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot read the folder 'nowhere'"));
  std::filesystem::create_directories("served");
  const CommandResult open =
      tessera({"serve", "--model-repository", "served", "--http-address", "0.0.0.0"});
  EXPECT_EQ(open.status, 1);
  EXPECT_THAT(open.err, HasSubstr("there is no TLS"));
  const CommandResult device =
      tessera({"serve", "--model-repository", "served", "--device", "gpu"});
  EXPECT_EQ(device.status, 1);
  EXPECT_THAT(device.err, HasSubstr("gpu"));
  const auto with_cluster = [](const std::string& cluster) {
    return tessera({"serve", "--model-repository", "served", "--cluster", cluster}).err;
  };
  EXPECT_EQ(with_cluster("h:1?cores=2"),
            "tessera serve: --cluster 'cluster:h:1?cores=2': cores= is what each model gets; give "
            "--cores, or 'cores' in its config.json   [invalid argument]\n");
  EXPECT_THAT(with_cluster("h"), HasSubstr("--cluster: 'cluster:h': 'h' is no HOST:PORT"));
  const CommandResult half = tessera({"serve", "--model-repository", "served", "--tls-certificate",
                                      "relu.onnx", "--http-port", "0"});
  EXPECT_THAT(half.err, HasSubstr("--tls-certificate and --tls-key belong together"));
  write_text("no.key", "no key");
  const auto with_key = [] {
    return tessera({"serve", "--model-repository", "served", "--tls-certificate", "relu.onnx",
                    "--tls-key", "no.key", "--http-port", "0"});
  };
  std::filesystem::permissions("no.key", std::filesystem::perms(0644));
  EXPECT_THAT(with_key().err, HasSubstr("'no.key' has secrets and others may read or change it"));
  std::filesystem::permissions("no.key", std::filesystem::perms(0600));
  const CommandResult none = with_key();
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("the certificate is none that TLS can use"));
  EXPECT_NE(tessera({"serve"}).status, 0);
}

}  // namespace
}  // namespace tessera::cli

// `tessera serve` as a program: what it says, what it answers, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>
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
  explicit Serve(const std::string& options) {
    prepare();
    std::filesystem::create_directories("served/relu/1");
    std::filesystem::copy_file("relu.onnx", "served/relu/1/model.onnx",
                               std::filesystem::copy_options::overwrite_existing);
    // The shell says its number and becomes the program.
    const std::string command = "echo $$; exec " + std::string(TESSERA_PROGRAM) +
                                " serve --model-repository served --http-port 0 --json " + options;
    pipe_ = popen(command.c_str(), "r");
    process_ = std::stoi(read_line(pipe_));
    while (port_ == 0 || !ready_) {
      const json event = json::parse(read_line(pipe_), nullptr, false);
      if (!event.is_object()) break;
      if (event.at("event") == "start") {
        const std::string url = event.at("url");
        port_ = std::stoi(url.substr(url.rfind(':') + 1));
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
  json end() {
    kill(process_, SIGTERM);
    json last;
    for (std::string text = read_line(pipe_); !text.empty(); text = read_line(pipe_))
      last = json::parse(text);
    EXPECT_EQ(pclose(std::exchange(pipe_, nullptr)), 0);
    return last;
  }
  bool is_ready() const { return ready_; }

 private:
  FILE* pipe_ = nullptr;
  int process_ = 0, port_ = 0;
  bool ready_ = false;
};

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
  EXPECT_NE(tessera({"serve"}).status, 0);
}

}  // namespace
}  // namespace tessera::cli

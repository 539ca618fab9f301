// Names of files, models, firmware and peers that a terminal would obey.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "command.h"

namespace tessera::cli {
namespace {

using model::testing::ModelBuilder;
using ::testing::HasSubstr;

// What a model may hold: a title, a cleared screen, a turned direction, CSI in one character, a
// line, a tab.
const std::string kEvilName = "\x1b]0;evil\x07\x1b[2J\u202e\u009b\u2066\x7f\nforged line\t\r";
// And bytes that are not UTF-8, one of them CSI.
const std::string kEvil = kEvilName + "\x9b\xff";

// Nothing below 0x20 but line feeds, no other control character, no mark, no line of a name's own.
void expect_visible(const std::string& text, const std::string& what) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    EXPECT_TRUE(byte == '\n' || (byte >= 0x20 && byte != 0x7F))
        << what << ": byte " << int{byte} << " in " << text;
  }
  for (const char* mark : {"\u202e", "\u009b", "\u2066", "\xff"}) {
    EXPECT_EQ(text.find(mark), std::string::npos) << what << ": " << text;
  }
  EXPECT_EQ(text.find("\nforged line"), std::string::npos) << what << ": " << text;
}

// Runs it twice, as it is and with --json, and gives the first back.
CommandResult expect_visible(std::vector<std::string> arguments, int status = 0) {
  const std::string what = arguments[0];
  const CommandResult people = tessera(arguments);
  EXPECT_EQ(people.status, status) << what << ": " << people.err;
  expect_visible(people.out, what);
  expect_visible(people.err, what);
  arguments.emplace_back("--json");
  const CommandResult script = tessera(arguments);
  EXPECT_EQ(script.status, status) << what << ": " << script.err;
  expect_visible(script.out, what + " --json");
  expect_visible(script.err, what + " --json");
  EXPECT_TRUE(status != 0 || script.json().is_object()) << what << ": " << script.out;
  return people;
}

// small_model() with a step of the host, every name of it followed by kEvilName.
std::string evil_model() {
  ModelBuilder builder = small_model(false);
  builder.node("Det", {"y"}, {"z"}, {}, "best").output("z", Format::kF32, {1, 4});
  onnx::GraphProto& graph = builder.graph();
  graph.set_name("graph" + kEvilName);
  for (onnx::ValueInfoProto& value : *graph.mutable_input())
    value.set_name(value.name() + kEvilName);
  for (onnx::ValueInfoProto& value : *graph.mutable_output())
    value.set_name(value.name() + kEvilName);
  for (onnx::TensorProto& value : *graph.mutable_initializer()) {
    value.set_name(value.name() + kEvilName);
  }
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    node.set_name(node.name() + kEvilName);
    for (std::string& name : *node.mutable_input()) name += kEvilName;
    for (std::string& name : *node.mutable_output()) name += kEvilName;
  }
  return builder.bytes();
}

// Files have names, too.
const std::string kEvilFile = "\x1b]0;evil\x07\x1b[2J\u202e\xff\nforged line";

TEST(Names, OfAModelAreShownAndNotObeyed) {
  prepare();
  const std::string model = "evil" + kEvilFile + ".onnx", package = "evil" + kEvilFile + ".tpkg";
  write_text(model, evil_model());
  const CommandResult inspected = expect_visible({"inspect", model});
  EXPECT_THAT(inspected.out, HasSubstr("input      x\\x1b]0;evil\\x07\\x1b[2J\\u{202e}"));
  expect_visible({"inspect", model, "--graph"});
  expect_visible({"compile", model, "-o", package});
  expect_visible({"inspect", package});
  expect_visible({"inspect", package, "--graph"});
  const CommandResult run = expect_visible({"run", model, "--output", "out" + kEvilFile});
  EXPECT_THAT(run.out, HasSubstr("\\nforged line"));
  expect_visible({"report", model});
  expect_visible({"report", model, "--min-buffer"});
  expect_visible({"compare", model, "--a", "host", "--b", "ref", "--all"});
  expect_visible({"conform", "."}, 1);
  expect_visible({"run", model, "--input", kEvil + "=random"}, 1);
  expect_visible({"run", model, "--input", "x" + kEvil + "=" + kEvilFile + ".npy"}, 1);
}

TEST(Names, OfAProgramAreShownAndReadBackFromItsText) {
  prepare();
  ModelBuilder builder(13);
  builder.input("x" + kEvilName, Format::kF32, {2, 8})
      .node("Relu", {"x" + kEvilName}, {"y" + kEvilName}, {}, "r" + kEvilName)
      .output("y" + kEvilName);
  write_text("relu_evil.onnx", builder.bytes());
  expect_visible({"compile", "relu_evil.onnx", "-o", "e.tpkg"});
  expect_visible({"link", "e.tpkg", "-o", "e.tprog"});
  expect_visible({"inspect", "e.tprog"});
  expect_visible({"run", "e.tprog"});
  const CommandResult text = expect_visible({"disasm", "e.tprog"});
  write_text("e.tasm", text.out);
  expect_visible({"asm", "e.tasm", "-o", "again.tprog"});
  EXPECT_EQ(read_text("again.tprog"), read_text("e.tprog"));
  expect_visible({"derive", "e.tprog", "--to", "onnx", "-o", "derived" + kEvilFile + ".onnx",
                  "--verify", "1"});
}

TEST(Names, InErrorsAreShownAndNotObeyed) {
  prepare();
  ModelBuilder strange(13);
  strange.input("x", Format::kF32, {1, 3})
      .node("Wobble" + kEvil, {"x"}, {"y"}, {}, "odd" + kEvil)
      .output("y");
  write_text("strange_evil.onnx", strange.bytes());
  for (const std::string verb : {"run", "compile", "report", "compare", "derive"}) {
    std::vector<std::string> arguments = {verb, "strange_evil.onnx"};
    if (verb == "compile") arguments.insert(arguments.end(), {"-o", "s.tpkg"});
    if (verb == "derive") arguments.insert(arguments.end(), {"-o", "s.onnx"});
    expect_visible(arguments, 1);
  }
  write_text("evil.toml", "name = \"x\"\n[neural]\n\"" + kEvilFile + "\" = 3\n");
  expect_visible({"run", "small.onnx", "--arch", "./evil.toml"}, 1);
  expect_visible({"run", "small.onnx", "--arch", kEvil}, 1);
  expect_visible({"run", "none" + kEvil + ".onnx"}, 1);
  write_text("evil.tasm", "firmware 1\narch \"" + kEvil + "\"\n" + kEvil);
  expect_visible({"asm", "evil.tasm", "-o", "s.tprog"}, 1);
  write_text("evil.jsonl", kEvil + "\n{}\n");
  expect_visible({"trace", "evil.jsonl"}, 1);
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{kEvil},
                                                {"run", "small.onnx", "--" + kEvil},
                                                {"run", kEvil, kEvil}}) {
    const CommandResult result = tessera(wrong);
    EXPECT_NE(result.status, 0);
    for (const char* obeyed : {"\x1b", "\x07", "\u202e", "\xff", "\r"}) {
      EXPECT_EQ(result.err.find(obeyed), std::string::npos) << result.err;
    }
  }
}

TEST(Names, PrintedByAProgramThatFailsKeepItsLinesAndAreNotObeyed) {
  prepare();
  write_text("fake/python3", "#!/bin/sh\nprintf 'first\\n  \\033[2Jsecond\\nthird\\n'\nexit 7\n");
  std::filesystem::permissions("fake/python3", std::filesystem::perms::owner_all);
  EXPECT_EQ(tessera({"compile", "relu.onnx", "-o", "plain.tpkg"}).status, 0);
  EXPECT_EQ(tessera({"link", "plain.tpkg", "-o", "plain.tprog"}).status, 0);
  const CommandResult result = tessera({"derive", "plain.tprog", "--to", "pytorch", "-o",
                                        "plain.py", "--verify", "1", "--with", "python"},
                                       {"PATH=" + work_folder() + "/fake"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("PyTorch ended with status 7:\n  first\n    \\x1b[2Jsecond\n"
                                    "  third   [internal]\n"));
}

TEST(Names, OfEventsAreShownAndNotObeyed) {
  prepare();
  const std::string name = "recorded" + kEvilFile + ".jsonl";
  write_text(name, "{\"kind\":\"end of events\",\"events\":0,\"lost\":0}\n");
  EXPECT_THAT(
      expect_visible({"trace", name}).out,
      HasSubstr("wrote recorded\\x1b]0;evil\\x07\\x1b[2J\\u{202e}\\xff\\nforged line.jsonl"));
}

// Answers whatever is asked with `body`, `times` times.
class Peer {
 public:
  Peer(std::string body, int times) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this, body = std::move(body), times] {
      for (int i = 0; i < times; ++i) answer(body);
    });
  }
  ~Peer() {
    thread_.join();
    ::close(socket_);
  }

  std::string url;

 private:
  void answer(const std::string& body) const {
    const int peer = ::accept(socket_, nullptr, nullptr);
    char request[4096];
    (void)!::read(peer, request, sizeof request);
    const std::string answer =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: "
        "close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    (void)!::write(peer, answer.data(), answer.size());
    ::close(peer);
  }
  const int socket_;
  std::thread thread_;
};

TEST(Names, OfAForeignServerAreShownAndNotObeyed) {
  Peer peer("{\"title\":\"" + std::string("\u202e\u009b\x7f[2J") + "\",\r\n\t\"pid\":1}", 2);
  const CommandResult script = tessera({"top", peer.url, "--once", "--json"});
  EXPECT_EQ(script.status, 0) << script.err;
  expect_visible(script.out, "top --json");
  EXPECT_EQ(script.json()["title"], "\u202e\u009b\x7f[2J");
  EXPECT_EQ(script.out.find('\n'), script.out.size() - 1) << "an object a line";
  const CommandResult people = tessera({"top", peer.url, "--once"});
  EXPECT_EQ(people.status, 1);
  expect_visible(people.err, "top");
}

}  // namespace
}  // namespace tessera::cli

// Firmware on the command line: text to program and back, runs, and vectors that stream through.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "command.h"
#include "tools/files/tensor_file.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kLstm = TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm";
const std::vector<std::string> kArch = {"--arch", "tessera128"};

std::vector<std::string> with_arch(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kArch.begin(), kArch.end());
  return arguments;
}

// Five vectors of 64 elements, as bytes: the LSTM's input random:3.
std::string lstm_vectors() {
  const Tensor tensor = tools::random_tensor({"x", Format::kF16, {5, 64}}, 3, 0);
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

// What the unrolled program gives for them.
std::string lstm_results() {
  const CommandResult run = tessera(
      with_arch({"run", kLstm, "--input", "x=random:3", "--output", "lstm", "--check-hazards"}));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("output y f16 5x128:"));
  const auto tensor = tools::read_npy("lstm/y.npy");
  EXPECT_TRUE(tensor.ok());
  return {reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size()};
}

TEST(Firmware, TextBecomesAProgramAndComesBackByteForByte) {
  const CommandResult assembled = tessera(with_arch({"asm", kLstm, "-o", "lstm.tprog"}));
  EXPECT_EQ(assembled.status, 0) << assembled.err;
  EXPECT_THAT(assembled.out, StartsWith("wrote lstm.tprog: "));
  EXPECT_EQ(tessera({"disasm", "lstm.tprog", "-o", "again.tasm"}).status, 0);
  EXPECT_EQ(tessera({"asm", "again.tasm", "-o", "again.tprog"}).status, 0);
  EXPECT_TRUE(read_text("again.tprog") == read_text("lstm.tprog"));
  EXPECT_EQ(tessera({"disasm", "lstm.tprog", "--inline", "-o", "inline.tasm"}).status, 0);
  EXPECT_EQ(tessera({"asm", "inline.tasm", "-o", "inline.tprog"}).status, 0);
  EXPECT_TRUE(read_text("inline.tprog") == read_text("lstm.tprog"));
}

TEST(Firmware, HostAndRefRunAProgramWithTheSameBits) {
  const std::string expected = lstm_results();
  for (const char* device : {"host", "ref"}) {
    const CommandResult run = tessera(
        with_arch({"run", kLstm, "--input", "x=random:3", "--output", device, "--device", device}));
    EXPECT_EQ(run.status, 0) << run.err;
    const auto tensor = tools::read_npy(std::string(device) + "/y.npy");
    ASSERT_TRUE(tensor.ok());
    const auto* const bytes = reinterpret_cast<const char*>(tensor->bytes.data());
    EXPECT_TRUE(std::string(bytes, tensor->bytes.size()) == expected) << device;
  }
  const CommandResult stream =
      tessera(with_arch({"run", kLstm, "--device", "host", "--stream", "none", "--out", "none2"}));
  EXPECT_NE(stream.status, 0);
}

TEST(Firmware, ACompiledProgramRunsAsItsModelDoes) {
  ASSERT_EQ(tessera({"compile", "small.onnx", "-o", "p.tpkg"}).status, 0);
  ASSERT_EQ(tessera({"link", "p.tpkg", "-o", "p.tprog"}).status, 0);
  const CommandResult model = tessera({"run", "small.onnx", "--input", "random:7", "--json"});
  const CommandResult program =
      tessera({"run", "p.tprog", "--input", "random:7", "--json", "--output", "p"});
  ASSERT_EQ(program.status, 0) << program.err;
  EXPECT_EQ(model.json()["cycles"], program.json()["cycles"]);
  ASSERT_EQ(tessera({"run", "small.onnx", "--input", "random:7", "--output", "m"}).status, 0);
  EXPECT_TRUE(read_text("p/y.npy") == read_text("m/y.npy"));
}

TEST(Firmware, APipelineRunsIt) {
  ASSERT_EQ(tessera({"asm", kLstm, "-o", "lstm.tprog"}).status, 0);
  for (const std::string& program : {kLstm, std::string("lstm.tprog")}) {
    for (const char* device : {"sim", "host"}) {
      const CommandResult ran = tessera({"bench", program, "--device", device, "--seconds", "0.1"});
      EXPECT_EQ(ran.status, 0) << ran.err;
      EXPECT_THAT(ran.out, HasSubstr("tasks/s"));
    }
  }
}

TEST(Firmware, VectorsOfAFileStreamThrough) {
  prepare();
  write_text("x.f16", lstm_vectors());
  const CommandResult run =
      tessera(with_arch({"run", kLstm, "--stream", "x.f16", "--out", "y.f16", "--json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.json()["vectors"], 5);
  EXPECT_TRUE(read_text("y.f16") == lstm_results());
}

// The other end of a two-way stream: accepts one caller and lets a vector go when the result of the
// one before has come.
class Speaker {
 public:
  explicit Speaker(int listener)
      : listener_(listener), vectors_(lstm_vectors()), thread_([this] { speak(); }) {}

  // After the caller has ended; `came`: whether it ever called.
  std::string results(bool came) {
    if (!came) ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
    return results_;
  }

 private:
  void speak() {
    const int peer = ::accept(listener_, nullptr, nullptr);
    for (std::size_t t = 0; t < 5; ++t) {
      if (::write(peer, vectors_.data() + t * 128, 128) != 128) break;
      char result[256];
      if (::recv(peer, result, sizeof(result), MSG_WAITALL) != sizeof(result)) break;
      results_.append(result, sizeof(result));
    }
    ::close(peer);
  }

  int listener_;
  std::string vectors_, results_;
  std::thread thread_;
};

void expect_streams_through(const std::string& address, int listener) {
  Speaker speaker(listener);
  const CommandResult run =
      tessera(with_arch({"run", kLstm, "--stream", address, "--out", address}));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("5 vectors in "));
  EXPECT_TRUE(speaker.results(run.status == 0) == lstm_results());
}

TEST(Firmware, VectorsOfALocalSocketStreamThroughOneByOne) {
  const std::string path = work_folder() + "/lstm.socket";
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  expect_streams_through("unix:" + path, listener);
}

TEST(Firmware, VectorsOfANetworkSocketStreamThroughOneByOne) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};  // any free port of this machine
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  expect_streams_through("tcp:127.0.0.1:" + std::to_string(ntohs(address.sin_port)), listener);
}

TEST(Firmware, VectorsOfNamedPipesStreamThroughOneByOne) {
  const std::string in = work_folder() + "/in.pipe", out = work_folder() + "/out.pipe";
  ::unlink(in.c_str());
  ::unlink(out.c_str());
  ASSERT_EQ(::mkfifo(in.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(out.c_str(), 0600), 0);
  const std::string expected = lstm_results();
  std::string results;
  // Both ends of each pipe are held, so that neither side can wait for the other for ever.
  const int hold_in = ::open(in.c_str(), O_RDWR | O_CLOEXEC),
            hold_out = ::open(out.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_TRUE(hold_in >= 0 && hold_out >= 0);
  std::thread speaker([&] {
    const std::string vectors = lstm_vectors();
    for (std::size_t t = 0; t < 5; ++t) {
      if (::write(hold_in, vectors.data() + t * 128, 128) != 128) break;
      char result[256];
      std::size_t have = 0;
      while (have < sizeof(result)) {
        pollfd ready = {hold_out, POLLIN, 0};
        if (::poll(&ready, 1, 60000) != 1) break;
        const ssize_t got = ::read(hold_out, result + have, sizeof(result) - have);
        if (got <= 0) break;
        have += static_cast<std::size_t>(got);
      }
      if (have < sizeof(result)) break;
      results.append(result, sizeof(result));
    }
    ::close(hold_in);  // the last writer: the stream ends
  });
  const CommandResult run = tessera(with_arch({"run", kLstm, "--stream", in, "--out", out}));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("5 vectors in "));
  speaker.join();
  ::close(hold_out);
  EXPECT_TRUE(results == expected);
}

TEST(FirmwareErrors, StreamsThatCannotBeHadAreNamed) {
  const auto error_of = [](const std::string& address) {
    const CommandResult result =
        tessera(with_arch({"run", kLstm, "--stream", address, "--out", address}));
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_EQ(error_of("tcp:localhost"),
            "tessera run: tcp:localhost: expected tcp:HOST:PORT   [invalid argument]\n");
  EXPECT_THAT(error_of("unix:nobody.socket"),
              StartsWith("tessera run: unix:nobody.socket: No such file or directory"));
  // A port without a listener: one that was just released.
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string closed = "tcp:127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(error_of(closed),
            "tessera run: " + closed + ": Connection refused   [invalid argument]\n");
  ::close(listener);
}

TEST(FirmwareErrors, EachSaysWhatGoesTogether) {
  const auto error_of = [](const std::vector<std::string>& arguments) {
    const CommandResult result = tessera(arguments);
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_EQ(error_of({"run", kLstm, "--stream", "x"}),
            "tessera run: --stream and --out belong together: where vectors come from, where they "
            "go   [invalid argument]\n");
  EXPECT_EQ(error_of({"run", "small.onnx", "--stream", "x", "--out", "y"}),
            "tessera run: --stream runs a program (.tprog) or firmware text (.tasm), 'small.onnx' "
            "is neither   [invalid argument]\n");
  EXPECT_EQ(error_of({"bench", kLstm, "--shape", "x=1x1"}),
            "tessera bench: '" + kLstm +
                "' is a program, which is compiled already; --shape is for models   [invalid "
                "argument]\n");
  EXPECT_EQ(error_of({"run", kLstm, "--tile-budget", "5"}),
            "tessera run: '" + kLstm +
                "' is a program, which is compiled already; --tile-budget is for models   [invalid "
                "argument]\n");
  prepare();
  write_text("short.f16", std::string(130, 'x'));
  EXPECT_EQ(error_of(with_arch({"run", kLstm, "--stream", "short.f16", "--out", "y.f16"})),
            "tessera run: reading 'short.f16': it ends after 2 of the 128 bytes of a vector   "
            "[invalid argument]\n");
  ASSERT_EQ(tessera(with_arch({"asm", kLstm, "-o", "lstm.tprog"})).status, 0);
  EXPECT_THAT(error_of({"run", "lstm.tprog", "--arch", "edge"}),
              HasSubstr("choose that one (--arch, LoadOptions::arch)"));
}

}  // namespace
}  // namespace tessera::cli

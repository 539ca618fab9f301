// Firmware on the command line: text to program and back, runs, and vectors that stream through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "command.h"
#include "tools/tensor_file.h"

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

TEST(Firmware, VectorsOfAFileStreamThrough) {
  prepare();
  write_text("x.f16", lstm_vectors());
  const CommandResult run =
      tessera(with_arch({"run", kLstm, "--stream", "x.f16", "--out", "y.f16", "--json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.json()["vectors"], 5);
  EXPECT_TRUE(read_text("y.f16") == lstm_results());
}

TEST(Firmware, VectorsOfASocketStreamThroughOneByOne) {
  const std::string path = work_folder() + "/lstm.socket";
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  std::string results;
  std::thread speaker([&] {
    const std::string vectors = lstm_vectors();
    const int peer = ::accept(listener, nullptr, nullptr);
    // The next vector leaves when the last one's result has come.
    for (std::size_t t = 0; t < 5; ++t) {
      if (::write(peer, vectors.data() + t * 128, 128) != 128) break;
      char result[256];
      if (::recv(peer, result, sizeof(result), MSG_WAITALL) != sizeof(result)) break;
      results.append(result, sizeof(result));
    }
    ::close(peer);
  });
  const CommandResult run =
      tessera(with_arch({"run", kLstm, "--stream", "unix:" + path, "--out", "unix:" + path}));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("5 vectors in "));
  if (run.status != 0) ::shutdown(listener, SHUT_RDWR);  // nobody came
  speaker.join();
  ::close(listener);
  EXPECT_TRUE(results == lstm_results());
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
              HasSubstr("give the right one with --arch"));
}

}  // namespace
}  // namespace tessera::cli

// Streams of a program on the command line: a side that listens, messages with headers, callers one
// after the other, and what is read ahead.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "command.h"
#include "tools/files/tensor_file.h"
#include "tools/stream/connection.h"
#include "tools/stream/message.h"
#include "tools/stream/step_source.h"

namespace tessera::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tools::MessageControl;
using tools::MessageHeader;
using tools::MessageKind;

const std::string kLstm = TESSERA_FIRMWARE_EXAMPLES "/lstm.tasm";
constexpr std::size_t kIn = 128;  // bytes of a vector of the LSTM
constexpr std::size_t kSteps = 5;

std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

std::string lstm_vectors() {
  return bytes_of(tools::random_tensor({"x", Format::kF16, {5, 64}}, 3, 0));
}

// What the unrolled program gives for them.
std::string lstm_results() {
  EXPECT_EQ(tessera({"run", kLstm, "--arch", "tessera128", "--input", "x=random:3", "--output",
                     "streamed_lstm"})
                .status,
            0);
  const auto tensor = tools::read_npy("streamed_lstm/y.npy");
  EXPECT_TRUE(tensor.ok());
  return bytes_of(*tensor);
}

std::string message(const MessageHeader& header, const std::string& payload = {}) {
  const auto head = tools::encode_message_header(header);
  return std::string(reinterpret_cast<const char*>(head.data()), head.size()) + payload;
}

// The LSTM's vectors as messages, scalar 100 + step.
std::string lstm_messages() {
  const std::string vectors = lstm_vectors();
  std::string text;
  for (std::size_t t = 0; t < kSteps; ++t) {
    text += message({.payload_bytes = kIn, .scalar = 100 + static_cast<std::int32_t>(t)},
                    vectors.substr(t * kIn, kIn));
  }
  return text;
}

struct Messages {
  std::vector<std::int32_t> scalars;
  std::string payloads;
  bool ended = false;
};

Messages messages_of(const std::string& text) {
  Messages messages;
  for (std::size_t at = 0; at < text.size();) {
    const auto bytes = std::as_bytes(std::span(text)).subspan(at).first<MessageHeader::kBytes>();
    const auto header = tools::decode_message_header(bytes);
    EXPECT_TRUE(header.ok());
    if (!header.ok()) break;
    at += MessageHeader::kBytes;
    if (header->kind == MessageKind::kControl) {
      messages.ended = header->control == MessageControl::kEnd;
      continue;
    }
    messages.scalars.push_back(header->scalar);
    messages.payloads += text.substr(at, header->payload_bytes);
    at += header->payload_bytes;
  }
  return messages;
}

// Calls as soon as somebody listens.
int call(const std::string& address) {
  for (int tries = 0; tries < 6000; ++tries) {
    const auto descriptor = tools::connect_to(address);
    if (descriptor.ok()) return *descriptor;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "nobody listens at " << address;
  return -1;
}

// Sends everything, then takes what comes until the other side ends.
std::string exchange(const std::string& address, const std::string& sent) {
  const int peer = call(address);
  std::string received;
  EXPECT_EQ(::send(peer, sent.data(), sent.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(sent.size()));
  ::shutdown(peer, SHUT_WR);
  char part[4096];
  for (ssize_t got; (got = ::recv(peer, part, sizeof(part), 0)) > 0;) {
    received.append(part, static_cast<std::size_t>(got));
  }
  ::close(peer);
  return received;
}

CommandResult stream(const std::string& in, const std::string& out,
                     std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"run",      kLstm, "--arch", "tessera128",
                                        "--stream", in,    "--out",  out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return tessera(arguments);
}

TEST(Listening, ACallerOfALocalSocketIsServed) {
  prepare();
  const std::string expected = lstm_results();
  const std::string path = work_folder() + "/listen.socket";
  std::string received;
  std::thread caller([&] { received = exchange("unix:" + path, lstm_vectors()); });
  const CommandResult run = stream("listen:unix:" + path, "listen:unix:" + path);
  caller.join();
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("listening at unix:" + path + "\n"));
  EXPECT_TRUE(received == expected);
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the socket is still there";
}

TEST(Listening, CallersComeOneAfterTheOtherAndEachBeginsAnew) {
  prepare();
  const std::string expected = lstm_results();
  const std::string path = work_folder() + "/peers.socket";
  std::vector<std::string> received(3);
  std::thread caller([&] {
    received[0] = exchange("unix:" + path, lstm_vectors());
    // One that sends half a vector is told nothing, and ends nothing.
    received[1] = exchange("unix:" + path, std::string(kIn / 2, 'x'));
    received[2] = exchange("unix:" + path, lstm_vectors());
  });
  const CommandResult run =
      stream("listen:unix:" + path, "listen:unix:" + path, {"--peers", "3", "--json"});
  caller.join();
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(received[0] == expected);
  EXPECT_EQ(received[1], "");
  EXPECT_TRUE(received[2] == expected);
  EXPECT_EQ(run.json()["vectors"], 10);
  EXPECT_EQ(run.json()["peers"], 3);
  EXPECT_THAT(run.err, HasSubstr("caller 2: "));
  EXPECT_THAT(run.err, HasSubstr("it ends after 64 of the 128 bytes of a vector"));
}

TEST(Listening, APathThatIsInUseIsRefusedAndAnOldSocketIsNot) {
  prepare();
  const std::string path = work_folder() + "/used.socket";
  {
    const auto listener = tools::Listener::open("unix:" + path);
    ASSERT_TRUE(listener.ok());
    const CommandResult run = stream("listen:unix:" + path, "y");
    EXPECT_EQ(run.status, 1);
    EXPECT_THAT(run.err, HasSubstr("listen:unix:" + path + ": somebody listens there"));
  }
  write_text("a_file", "kept");
  const CommandResult file = stream("listen:unix:a_file", "y");
  EXPECT_EQ(file.status, 1);
  EXPECT_THAT(file.err, HasSubstr("listen:unix:a_file: something else has this name"));
  EXPECT_EQ(read_text("a_file"), "kept");
  // What a killed listener leaves behind: its socket's name.
  const int old = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(old, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(old);
  const auto again = tools::Listener::open("unix:" + path);
  EXPECT_TRUE(again.ok());
}

TEST(Listening, AnyFreePortIsTakenAndNamed) {
  const auto listener = tools::Listener::open("tcp:127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.error().to_string();
  EXPECT_FALSE((*listener)->address().ends_with(":0"));
  const int caller = call((*listener)->address());
  const auto accepted = (*listener)->accept();
  ASSERT_TRUE(accepted.ok());
  ::close(*accepted);
  ::close(caller);
  EXPECT_FALSE(tools::Listener::open("tcp:127.0.0.1").ok());
  EXPECT_FALSE(tools::Listener::open("udp:127.0.0.1:0").ok());
}

TEST(Listening, WhatDoesNotGoTogetherIsSaid) {
  prepare();
  EXPECT_THAT(stream("x.f16", "y", {"--peers", "2"}).err,
              HasSubstr("--peers goes with a stream that listens"));
  EXPECT_THAT(stream("listen:unix:a.socket", "y", {"--peers", "2"}).err,
              HasSubstr("let --out listen, or be -"));
  EXPECT_THAT(tessera({"run", kLstm, "--arch", "tessera128", "--framing", "messages"}).err,
              HasSubstr("--framing goes with --stream"));
  EXPECT_THAT(stream("listen:ftp:x", "y").err,
              HasSubstr("expected listen:unix:PATH or listen:tcp:HOST:PORT"));
}

TEST(Messages, VectorsComeAndGoBehindHeadersWithTheirScalars) {
  prepare();
  const std::string expected = lstm_results();
  write_text("x.messages", lstm_messages());
  const CommandResult run = stream("x.messages", "y.messages", {"--framing", "messages"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Messages results = messages_of(read_text("y.messages"));
  EXPECT_THAT(results.scalars, ElementsAre(100, 101, 102, 103, 104));
  EXPECT_TRUE(results.payloads == expected);
  EXPECT_TRUE(results.ended);
}

TEST(Messages, ABeginningStartsTheStateAnewAndAnEndEndsTheStream) {
  prepare();
  const std::string expected = lstm_results();
  const std::string begin =
      message({.kind = MessageKind::kControl, .control = MessageControl::kBegin});
  const std::string end = message({.kind = MessageKind::kControl, .control = MessageControl::kEnd});
  write_text("x.messages",
             begin + lstm_messages() + begin + begin + lstm_messages() + end + "not read");
  const CommandResult run = stream("x.messages", "y.messages", {"--framing", "messages"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(messages_of(read_text("y.messages")).payloads == expected + expected);
}

// The LSTM with a time loop that counts by the scalar of a sequence's first message.
std::string counted_lstm() {
  std::string text = read_text(kLstm);
  const std::string loop = "steps t 5";
  const std::size_t at = text.find(loop);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, loop.size(), "scalar n = message x\nsteps t n");
}

TEST(Messages, AScalarSaysHowManyStepsASequenceHas) {
  prepare();
  const std::string expected = lstm_results();
  write_text("counted.tasm", counted_lstm());
  const std::string vectors = lstm_vectors();
  const auto sequence = [&](std::size_t steps) {
    std::string text;
    for (std::size_t t = 0; t < steps; ++t) {
      const auto count = static_cast<std::int32_t>(t == 0 ? steps : 0);
      text += message({.payload_bytes = kIn, .scalar = count}, vectors.substr(t * kIn, kIn));
    }
    return text;
  };
  const auto run = [](const std::string& text, const std::string& framing) {
    write_text("x.messages", text);
    return tessera({"run", "counted.tasm", "--arch", "tessera128", "--stream", "x.messages",
                    "--out", "y.messages", "--framing", framing});
  };
  const CommandResult both = run(sequence(kSteps) + sequence(3), "messages");
  ASSERT_EQ(both.status, 0) << both.err;
  const std::size_t result = expected.size() / kSteps;
  EXPECT_TRUE(messages_of(read_text("y.messages")).payloads ==
              expected + expected.substr(0, 3 * result));
  EXPECT_THAT(run(sequence(kSteps).substr(0, 4 * (kIn + 16)), "messages").err,
              HasSubstr("the stream ends 1 steps before its sequence does"));
  EXPECT_THAT(
      run(sequence(2) + message({.payload_bytes = kIn}, vectors.substr(0, kIn)), "messages").err,
      HasSubstr("step 2: a message says that its sequence has 0 steps"));
  EXPECT_THAT(run(vectors, "raw").err, HasSubstr("give --framing messages"));
  EXPECT_THAT(tessera({"run", "counted.tasm", "--arch", "tessera128"}).err,
              HasSubstr("'n' is known when the message comes; run the text with --stream"));
}

TEST(Messages, EachDefectIsNamedWithItsMessage) {
  prepare();
  const auto error_of = [](const std::string& text) {
    write_text("x.messages", text);
    const CommandResult run = stream("x.messages", "y.messages", {"--framing", "messages"});
    EXPECT_EQ(run.status, 1);
    return run.err;
  };
  EXPECT_THAT(error_of(lstm_vectors()), HasSubstr("message 0: byte 0 of a message's header"));
  EXPECT_THAT(error_of(lstm_messages().substr(0, 40)),
              HasSubstr("it ends after 24 of the 128 bytes of a vector"));
  EXPECT_THAT(error_of(lstm_messages() + "TM"),
              HasSubstr("it ends after 2 of the 16 bytes of a message's header"));
  EXPECT_THAT(error_of(message({.queue = 1, .payload_bytes = kIn}, std::string(kIn, 'x'))),
              HasSubstr("message 0: queue 1, the program has 1 that take vectors"));
  EXPECT_THAT(error_of(message({.payload_bytes = 2}, "xx")),
              HasSubstr("a vector of 2 bytes, those of queue 'x' have 128"));
  EXPECT_THAT(error_of(message({.payload_bytes = kIn})),
              HasSubstr("message 0: the stream ends behind the header"));
}

TEST(Messages, HeadersOfEveryKindComeBackAndOthersAreRefused) {
  const std::vector<MessageHeader> headers = {
      {.queue = 65535, .payload_bytes = 0xFFFFFFFF, .scalar = -2147483647 - 1},
      {.kind = MessageKind::kControl, .control = MessageControl::kBegin, .scalar = 7},
      {.kind = MessageKind::kControl, .control = MessageControl::kEnd},
      {.kind = MessageKind::kControl, .control = MessageControl::kFlush}};
  for (const MessageHeader& header : headers) {
    const auto again = tools::decode_message_header(tools::encode_message_header(header));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, header);
  }
  // Every bit of the bytes that have few values.
  const auto good = tools::encode_message_header({.payload_bytes = 4});
  for (const std::size_t at : {0, 1, 2, 6, 7}) {
    for (int bit = 0; bit < 8; ++bit) {
      auto bytes = good;
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      const auto header = tools::decode_message_header(bytes);
      ASSERT_FALSE(header.ok());
      EXPECT_THAT(header.error().message, HasSubstr("of a message's header"));
    }
  }
}

// A pipe as a stream, and its writing end.
struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    write_end = ends[1];
    auto opened =
        tools::VectorStream::open("/proc/self/fd/" + std::to_string(ends[0]), "/dev/null");
    EXPECT_TRUE(opened.ok());
    stream = opened->in;
    ::close(ends[0]);
  }
  ~Pipe() { close(); }
  void close() {
    if (write_end >= 0) ::close(std::exchange(write_end, -1));
  }
  void send(const std::string& text) const {
    EXPECT_EQ(::write(write_end, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  int write_end = -1;
  std::shared_ptr<tools::VectorStream> stream;
};

const std::vector<TensorDescription> kTwoQueues = {{"a", Format::kI8, {2}},
                                                   {"b", Format::kI8, {1}}};

TEST(ReadingAhead, StepsAreReadWhileNobodyTakesThemUpToTheLimit) {
  Pipe pipe;
  pipe.send("aabAABccd");
  tools::StepSource source(pipe.stream, kTwoQueues, tools::Framing::kRaw, 2);
  while (source.most_ahead() < 2) std::this_thread::yield();  // without a call of next()
  for (const char* expected : {"aab", "AAB", "ccd"}) {
    const auto step = source.next();
    ASSERT_TRUE(step.ok() && *step);
    EXPECT_EQ(bytes_of((*step)->tensors[0]) + bytes_of((*step)->tensors[1]), expected);
  }
  EXPECT_EQ(source.most_ahead(), 2U);
  pipe.close();
  const auto end = source.next();
  EXPECT_TRUE(end.ok() && !*end);
}

TEST(ReadingAhead, ASourceThatWaitsForBytesCanBeGivenUp) {
  const Pipe pipe;
  pipe.send("a");
  const tools::StepSource source(pipe.stream, kTwoQueues, tools::Framing::kRaw, 2);
}

TEST(ReadingAhead, VectorsOfSeveralQueuesComeInAnyOrder) {
  Pipe pipe;
  const auto vector = [](std::uint16_t queue, std::int32_t scalar, const std::string& payload) {
    return message({.queue = queue,
                    .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                    .scalar = scalar},
                   payload);
  };
  pipe.send(vector(1, 7, "b") + vector(1, 8, "B") + vector(0, 9, "aa") + vector(0, 10, "AA"));
  tools::StepSource source(pipe.stream, kTwoQueues, tools::Framing::kMessages, 2);
  for (const auto& [expected, scalar] : {std::pair{"aab", 7}, {"AAB", 8}}) {
    const auto step = source.next();
    ASSERT_TRUE(step.ok() && *step);
    EXPECT_EQ(bytes_of((*step)->tensors[0]) + bytes_of((*step)->tensors[1]), expected);
    EXPECT_EQ((*step)->scalar, scalar);
  }
  // More of one queue than may wait.
  pipe.send(vector(1, 0, "x") + vector(1, 0, "y") + vector(1, 0, "z"));
  const auto full = source.next();
  ASSERT_FALSE(full.ok());
  EXPECT_THAT(full.error().message,
              HasSubstr("message 6: 2 vectors of queue 'b' wait for those of other queues"));
}

TEST(ReadingAhead, AFlushDropsTheVectorsOfAnIncompleteStep) {
  Pipe pipe;
  const std::string a = message({.payload_bytes = 2}, "aa");
  const auto b = [](const char* payload) {
    return message({.queue = 1, .payload_bytes = 1}, payload);
  };
  const std::string flush =
      message({.kind = MessageKind::kControl, .control = MessageControl::kFlush});
  pipe.send(b("x") + b("y") + flush + a + b("b"));
  pipe.close();
  tools::StepSource source(pipe.stream, kTwoQueues, tools::Framing::kMessages, 2);
  const auto step = source.next();
  ASSERT_TRUE(step.ok() && *step);
  EXPECT_EQ(bytes_of((*step)->tensors[0]) + bytes_of((*step)->tensors[1]), "aab");
  const auto end = source.next();
  EXPECT_TRUE(end.ok() && !*end);
}

TEST(ReadingAhead, AnEndInsideAStepIsAnError) {
  Pipe pipe;
  pipe.send(message({.queue = 1, .payload_bytes = 1}, "b"));
  pipe.close();
  tools::StepSource source(pipe.stream, kTwoQueues, tools::Framing::kMessages, 2);
  const auto end = source.next();
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.error().message, HasSubstr("the end behind 1 vectors of queue 'b'"));
}

}  // namespace
}  // namespace tessera::cli

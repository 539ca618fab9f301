// What every medium does, over real sockets and shared memory, and with real processes that are killed.
#include "transport/transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "base/deadline.h"
#include "transport/frame.h"
#include "transport/tcp.h"
#include "transport/testing/certificates.h"

namespace tessera::transport {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds kLimit = 60s;

std::vector<std::byte> bytes(const std::string& text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return {view.begin(), view.end()};
}
std::string text(ConstBytes from) {
  return {reinterpret_cast<const char*>(from.data()), from.size()};
}
// A random block again and again, each with its number: quick to make under a sanitizer, too.
std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> made(size);
  std::minstd_rand random(seed + 1);
  std::array<std::byte, 4093> block{};
  for (std::byte& each : block) each = static_cast<std::byte>(random());
  for (std::size_t at = 0, number = 0; at < size; at += block.size(), ++number) {
    std::memcpy(block.data(), &number, sizeof number);
    std::memcpy(&made[at], block.data(), std::min(block.size(), size - at));
  }
  return made;
}
bool equal(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// What happened to one side, for a test to wait for.
class Inbox {
 public:
  void put(IncomingMessage message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.notify_all();
  }
  void end(const Error& error) {
    const std::lock_guard lock(mutex_);
    end_ = error;
    changed_.notify_all();
  }
  void open(std::shared_ptr<Connection> connection) {
    const std::lock_guard lock(mutex_);
    connection_ = std::move(connection);
    changed_.notify_all();
  }
  IncomingMessage take() {
    std::unique_lock lock(mutex_);
    const bool is_there =
        changed_.wait_for(lock, kLimit, [this] { return !messages_.empty() || end_; });
    if (!is_there || messages_.empty()) {
      ADD_FAILURE() << "no message: " << (end_ ? end_->message : "too late");
      return {};
    }
    IncomingMessage message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return messages_.size();
  }
  Error wait_for_end() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLimit, [this] { return end_.has_value(); }));
    return end_.value_or(Error{});
  }
  std::shared_ptr<Connection> wait_for_connection() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLimit, [this] { return connection_ != nullptr; }));
    return connection_;
  }
  Handlers handlers() {
    return {.on_head = {},
            .on_message = [this](Connection&, IncomingMessage m) { put(std::move(m)); },
            .on_end = [this](Connection&, const Error& e) { end(e); }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<IncomingMessage> messages_;
  std::optional<Error> end_;
  std::shared_ptr<Connection> connection_;
};

// Sends back what comes, from its own memory.
Handlers echo() {
  return {.on_head = {},
          .on_message =
              [](Connection& from, IncomingMessage message) {
                OutgoingMessage answer{
                    .header = std::move(message.header), .buffers = {}, .done = {}};
                for (const MutableBytes each : message.buffers) answer.buffers.push_back(each);
                answer.done = [kept = std::move(message.memory)](const Status&) {};
                (void)from.send(std::move(answer), 0ms);
              },
          .on_end = {}};
}

struct Tcp {
  static constexpr const char* kName = "Tcp";
  static TransportOptions options(const std::string&) { return {}; }
  static Address address(const std::string&) { return {Medium::kTcp, "127.0.0.1", 0}; }
};
struct Tls {
  static constexpr const char* kName = "Tls";
  static TransportOptions options(const std::string& folder) {
    static testing::Authority authority(folder + "/tls");
    static const TlsFiles files = authority.sign("node");
    return {.tls = files};
  }
  static Address address(const std::string&) { return {Medium::kTcp, "127.0.0.1", 0}; }
};
struct SharedMemory {
  static constexpr const char* kName = "SharedMemory";
  static TransportOptions options(const std::string&) { return {}; }
  static Address address(const std::string& folder) {
    return {Medium::kSharedMemory, folder + "/socket"};
  }
};

struct Ucx {
  static constexpr const char* kName = "Ucx";
  static TransportOptions options(const std::string&) { return {}; }
  static Address address(const std::string&) { return {Medium::kUcx, "127.0.0.1", 0}; }
};

// What the process does at each signal: 0 by default, 1 nothing, else its own.
std::vector<std::uintptr_t> what_signals_do() {
  std::vector<std::uintptr_t> all;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    ::sigaction(signal, nullptr, &action);
    all.push_back(reinterpret_cast<std::uintptr_t>(action.sa_handler));
  }
  return all;
}

// The first one here: what comes behind it has UCX loaded.
TEST(Transport, UcxTakesNoSignalsOfTheProgram) {
  if (!Transport::has_medium(Medium::kUcx)) GTEST_SKIP() << "this build has no UCX";
  const std::vector<std::uintptr_t> before = what_signals_do();
  const auto transport = Transport::create({}).value();
  ASSERT_TRUE(transport->listen({Medium::kUcx, "127.0.0.1", 0}, {}).ok());
  EXPECT_EQ(what_signals_do(), before);
  EXPECT_EQ(before[SIGHUP - 1], reinterpret_cast<std::uintptr_t>(SIG_DFL));
}

template <typename Medium>
class AnyMedium : public ::testing::Test {
 protected:
  AnyMedium() {
    folder_ = ::testing::TempDir() + "tessera_transport_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  ~AnyMedium() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    connection_ = nullptr;
    listener_ = nullptr;
    client_ = nullptr;
    server_ = nullptr;
  }

  void SetUp() override {
    if (!Transport::has_medium(Medium::address(folder_).medium)) {
      GTEST_SKIP() << "this build has no UCX: it is not tested";
    }
  }

  TransportOptions options(const Limits& limits) const {
    TransportOptions made = Medium::options(folder_);
    made.limits = limits;
    return made;
  }
  void serve(Transport::OnConnection on_connection, const Limits& limits = {}) {
    server_ = Transport::create(options(limits)).value();
    auto listening = server_->listen(Medium::address(folder_), std::move(on_connection));
    ASSERT_TRUE(listening.ok()) << listening.error().to_string();
    listener_ = std::move(listening).value();
    address_ = listener_->address();
  }
  void serve_echo() {
    serve([](const auto&) { return echo(); });
  }
  void serve_inbox(const Limits& limits = {}) {
    serve(
        [this](const auto& connection) {
          there_.open(connection);
          return there_.handlers();
        },
        limits);
  }
  Connection& connect(const Limits& limits = {}, std::optional<Handlers> handlers = {}) {
    if (!client_) client_ = Transport::create(options(limits)).value();
    auto made = client_->connect(address_, handlers ? *handlers : here_.handlers(), kLimit);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().to_string());
    connection_ = std::move(made).value();
    return *connection_;
  }

  // A process of its own that serves until it is killed. No transport may be there yet.
  pid_t serve_in_child(const std::function<Handlers()>& handlers) {
    int pipes[2];
    EXPECT_EQ(::pipe(pipes), 0);
    (void)options({});  // certificates, for both
    const pid_t child = ::fork();
    if (child == 0) {
      auto transport = Transport::create(options({})).value();
      auto listener =
          transport->listen(Medium::address(folder_), [&](const auto&) { return handlers(); })
              .value();
      const int port = listener->address().port;
      (void)!::write(pipes[1], &port, sizeof port);
      for (;;) ::pause();
    }
    children_.push_back(child);
    int port = 0;
    EXPECT_EQ(::read(pipes[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    ::close(pipes[0]);
    ::close(pipes[1]);
    address_ = Medium::address(folder_);
    address_.port = port;
    return child;
  }

  // Bytes to send: they stay until the connections have ended.
  const std::vector<std::byte>& keep(std::size_t size, unsigned seed) {
    return kept_.emplace_back(pattern(size, seed));
  }

  std::string folder_;
  std::deque<std::vector<std::byte>> kept_;
  Address address_;
  Inbox here_, there_;
  std::unique_ptr<Transport> server_, client_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Connection> connection_;
  std::vector<pid_t> children_;
};

using Media = ::testing::Types<Tcp, Tls, SharedMemory, Ucx>;
struct MediumName {
  template <typename Medium>
  static std::string GetName(int) {
    return Medium::kName;
  }
};
TYPED_TEST_SUITE(AnyMedium, Media, MediumName);

TYPED_TEST(AnyMedium, MessagesOfAllSizesComeBackAsTheyWere) {
  this->serve_echo();
  Connection& connection = this->connect();
  for (const std::size_t size :
       {0UL, 1UL, 63UL, 64UL, 65UL, 4095UL, 65'536UL, 1'000'003UL, 64UL << 20}) {
    const std::vector<std::byte>& sent = this->keep(size, 7);
    std::promise<Status> done;
    ASSERT_TRUE(connection
                    .send({.header = bytes("n" + std::to_string(size)),
                           .buffers = {sent},
                           .done = [&](const Status& status) { done.set_value(status); }},
                          kLimit)
                    .ok());
    const IncomingMessage back = this->here_.take();
    EXPECT_TRUE(done.get_future().get().ok());
    EXPECT_EQ(text(back.header), "n" + std::to_string(size));
    ASSERT_EQ(back.buffers.size(), 1U);
    EXPECT_TRUE(equal(back.buffers[0], sent)) << size;
  }
}

TYPED_TEST(AnyMedium, SeveralBuffersStayApart) {
  this->serve_echo();
  Connection& connection = this->connect();
  auto& sent = this->kept_;
  OutgoingMessage message{.header = {}, .buffers = {}, .done = {}};
  for (unsigned i = 0; i < 200; ++i) sent.push_back(pattern(i * 37 % 5000, i));
  for (const auto& each : sent) message.buffers.push_back(each);
  ASSERT_TRUE(connection.send(std::move(message), kLimit).ok());
  const IncomingMessage back = this->here_.take();
  ASSERT_EQ(back.buffers.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(equal(back.buffers[i], sent[i])) << i;
}

TYPED_TEST(AnyMedium, BuffersAreReceivedWhereTheReceiverSays) {
  this->serve_echo();
  std::vector<std::byte> first(100'000), second(10);
  Handlers handlers = this->here_.handlers();
  handlers.on_head = [&](Connection&, const IncomingHead& head) -> Result<Placement> {
    EXPECT_EQ(text(head.header), "here");
    EXPECT_EQ(head.buffer_bytes.size(), 2U);
    return Placement{first, second};
  };
  Connection& connection = this->connect({}, handlers);
  const auto &a = this->keep(first.size(), 1), &b = this->keep(second.size(), 2);
  ASSERT_TRUE(
      connection.send({.header = bytes("here"), .buffers = {a, b}, .done = {}}, kLimit).ok());
  const IncomingMessage back = this->here_.take();
  EXPECT_EQ(back.buffers[0].data(), first.data());
  EXPECT_TRUE(equal(first, a));
  EXPECT_TRUE(equal(second, b));
}

TYPED_TEST(AnyMedium, AReceiverThatRefusesAMessageEndsTheConnectionWithItsReason) {
  this->serve_echo();
  Handlers handlers = this->here_.handlers();
  handlers.on_head = [](Connection&, const IncomingHead&) -> Result<Placement> {
    return Error{ErrorCode::kInvalidArgument, "an answer that nobody asked for"};
  };
  Connection& connection = this->connect({}, handlers);
  ASSERT_TRUE(connection.send({.header = bytes("x"), .buffers = {}, .done = {}}, kLimit).ok());
  EXPECT_NE(this->here_.wait_for_end().message.find("an answer that nobody asked for"),
            std::string::npos);
}

TYPED_TEST(AnyMedium, ThousandsOfSmallMessagesBothWaysKeepTheirOrder) {
  this->serve_inbox();
  Connection& here = this->connect();
  const auto there = this->there_.wait_for_connection();
  constexpr int kMessages = 20'000;
  const auto send = [](Connection& connection, char mark) {
    for (int i = 0; i < kMessages; ++i) {
      const std::string header = mark + std::to_string(i);
      ASSERT_TRUE(
          connection.send({.header = bytes(header), .buffers = {}, .done = {}}, kLimit).ok());
    }
  };
  std::thread sends_here([&] { send(here, 'h'); }), sends_there([&] { send(*there, 't'); });
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(text(this->here_.take().header), 't' + std::to_string(i));
    ASSERT_EQ(text(this->there_.take().header), 'h' + std::to_string(i));
  }
  sends_here.join();
  sends_there.join();
}

TYPED_TEST(AnyMedium, SeveralThreadsMaySendOnOneConnection) {
  this->serve_inbox();
  Connection& connection = this->connect();
  constexpr unsigned kThreads = 4, kMessages = 200;
  const std::vector<std::byte>& buffer = this->keep(3000, 3);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < kMessages; ++i) {
        ASSERT_TRUE(
            connection
                .send({.header = {std::byte(t), std::byte(i)}, .buffers = {buffer}, .done = {}},
                      kLimit)
                .ok());
      }
    });
  }
  std::vector<unsigned> next(kThreads, 0);
  for (unsigned i = 0; i < kThreads * kMessages; ++i) {
    const IncomingMessage message = this->there_.take();
    ASSERT_EQ(message.header.size(), 2U);
    EXPECT_EQ(std::to_integer<unsigned>(message.header[1]),
              next[std::to_integer<unsigned>(message.header[0])]++);
    EXPECT_TRUE(equal(message.buffers[0], buffer));
  }
  for (std::thread& thread : threads) thread.join();
}

TYPED_TEST(AnyMedium, APeerThatIsKilledWithRequestsInFlightIsReportedAndEveryDoneIsCalled) {
  const pid_t child = this->serve_in_child([] { return Handlers{}; });
  Connection& connection = this->connect();
  const std::vector<std::byte>& buffer = this->keep(4 << 20, 1);
  std::atomic<int> done = 0;
  constexpr int kMessages = 20;
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(connection
                    .send({.header = bytes("request"),
                           .buffers = {buffer},
                           .done = [&](const Status&) { ++done; }},
                          kLimit)
                    .ok());
  }
  ::kill(child, SIGKILL);
  const Error error = this->here_.wait_for_end();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.message.find("peer " + connection.peer().address.to_string() + ": "),
            std::string::npos)
      << error.message;
  EXPECT_EQ(done, kMessages);
  EXPECT_TRUE(connection.has_ended());
  const Status late = connection.send({.header = bytes("late"), .buffers = {}, .done = {}}, kLimit);
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
}

TYPED_TEST(AnyMedium, APeerThatIsStoppedIsFoundSilent) {
  const pid_t child = this->serve_in_child([] { return echo(); });
  this->connect({.silence_time = 300ms});
  ::kill(child, SIGSTOP);
  EXPECT_NE(this->here_.wait_for_end().message.find("silent for "), std::string::npos);
}

TYPED_TEST(AnyMedium, AnIdleConnectionLives) {
  const Limits limits{.silence_time = 150ms};
  this->serve([](const auto&) { return echo(); }, limits);
  Connection& connection = this->connect(limits);
  // Ten times as long as it takes to be found silent.
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, 1500ms);
  lock.unlock();
  ASSERT_TRUE(
      connection.send({.header = bytes("still here"), .buffers = {}, .done = {}}, kLimit).ok());
  EXPECT_EQ(text(this->here_.take().header), "still here");
}

TYPED_TEST(AnyMedium, AReceiverThatHoldsItsMessagesMakesTheSenderWaitAndNothingIsLost) {
  const Limits limits{.send_bytes = 1 << 20, .held_bytes = 1 << 20};
  this->serve_inbox(limits);
  Connection& connection = this->connect(limits);
  const std::vector<std::byte>& buffer = this->keep(100'000, 5);
  int sent = 0;
  Status last;
  // Until nothing more fits: what the receiver holds, what is under way, what waits to be sent.
  while (sent < 10'000) {
    last = connection.send({.header = bytes(std::to_string(sent)), .buffers = {buffer}, .done = {}},
                           200ms);
    if (!last.ok()) break;
    ++sent;
  }
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(last.error().message.find("no room for a message within 200 ms: "), std::string::npos)
      << last.error().message;
  EXPECT_LE(connection.queue().bytes, limits.send_bytes);
  EXPECT_LE(this->there_.count(), 10U);  // of 100,000 bytes in 1 MiB
  for (int i = 0; i < sent; ++i) EXPECT_EQ(text(this->there_.take().header), std::to_string(i));
  ASSERT_TRUE(
      connection.send({.header = bytes("again"), .buffers = {buffer}, .done = {}}, kLimit).ok());
  EXPECT_EQ(text(this->there_.take().header), "again");
}

TYPED_TEST(AnyMedium, AMessageWithoutBuffersThatWaitedForRoomComesThoughNothingFollows) {
  // Nothing else is sent before the test would end: no signs of life.
  const Limits limits{.held_messages = 1, .silence_time = 10 * kLimit};
  this->serve_inbox(limits);
  Connection& connection = this->connect(limits);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(
        connection.send({.header = bytes(std::to_string(i)), .buffers = {}, .done = {}}, kLimit)
            .ok());
  }
  for (int i = 0; i < 50; ++i) ASSERT_EQ(text(this->there_.take().header), std::to_string(i));
}

TYPED_TEST(AnyMedium, AReceiverThatTakesNothingForTooLongIsNamedAndDropped) {
  this->serve_inbox({.held_bytes = 1});
  Connection& connection = this->connect({.progress_time = 300ms});
  const std::vector<std::byte>& buffer = this->keep(32 << 20, 5);
  // The receiver holds the first message, and so reads no second one.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(connection.send({.header = {}, .buffers = {buffer}, .done = {}}, kLimit).ok());
  }
  const Error error = this->here_.wait_for_end();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.message.find("took nothing for "), std::string::npos) << error.message;
}

TYPED_TEST(AnyMedium, AMessageBeyondTheSendersLimitsIsRefusedAndOneBeyondTheReceiversEndsIt) {
  this->serve_inbox({.header_bytes = 10, .message_bytes = 1000});
  Connection& connection = this->connect({.buffers = 1});
  EXPECT_EQ(
      connection.send({.header = {}, .buffers = {ConstBytes{}, ConstBytes{}}, .done = {}}, kLimit)
          .error()
          .to_string(),
      "a message with 2 buffers, allowed are 1   [does not fit]");
  const std::vector<std::byte>& buffer = this->keep(1001, 1);
  ASSERT_TRUE(connection.send({.header = {}, .buffers = {buffer}, .done = {}}, kLimit).ok());
  const Error error = this->there_.wait_for_end();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("a message with 1001 bytes, allowed are 1000"), std::string::npos);
  EXPECT_EQ(this->here_.wait_for_end().code, ErrorCode::kUnavailable);
}

TYPED_TEST(AnyMedium, WhatWaitsIsSentBeforeACloseThatSaysSo) {
  this->serve_inbox();
  Connection& connection = this->connect();
  const std::vector<std::byte>& buffer = this->keep(16 << 20, 9);
  ASSERT_TRUE(
      connection.send({.header = bytes("last"), .buffers = {buffer}, .done = {}}, kLimit).ok());
  connection.close_when_sent();
  EXPECT_TRUE(equal(this->there_.take().buffers[0], buffer));
  EXPECT_NE(this->there_.wait_for_end().message.find("closed the connection"), std::string::npos);
  EXPECT_NE(this->here_.wait_for_end().message.find("this side closed the connection"),
            std::string::npos);
}

TYPED_TEST(AnyMedium, CloseEndsBothSidesAndCallsWhatWaits) {
  this->serve_inbox({.held_bytes = 1});
  Connection& connection = this->connect();
  const std::vector<std::byte>& buffer = this->keep(16 << 20, 9);
  std::atomic<int> failed = 0, done = 0;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(connection
                    .send({.header = {},
                           .buffers = {buffer},
                           .done =
                               [&](const Status& status) {
                                 ++done;
                                 if (!status.ok()) ++failed;
                               }},
                          kLimit)
                    .ok());
  }
  (void)this->there_.take();
  connection.close();
  EXPECT_EQ(this->here_.wait_for_end().code, ErrorCode::kUnavailable);
  EXPECT_EQ(this->there_.wait_for_end().code, ErrorCode::kUnavailable);
  EXPECT_EQ(done, 4);
  EXPECT_GT(failed, 0);
}

TYPED_TEST(AnyMedium, TheEndOfATransportEndsItsConnections) {
  this->serve_inbox();
  this->connect();
  (void)this->there_.wait_for_connection();
  this->server_ = nullptr;
  EXPECT_EQ(this->here_.wait_for_end().code, ErrorCode::kUnavailable);
  EXPECT_NE(this->there_.wait_for_end().message.find("this side's transport has ended"),
            std::string::npos);
}

TYPED_TEST(AnyMedium, AMessageThatIsHeldOutlivesItsConnectionAndTransport) {
  this->serve_inbox();
  Connection& connection = this->connect();
  const std::vector<std::byte>& buffer = this->keep(1 << 20, 9);
  ASSERT_TRUE(connection.send({.header = {}, .buffers = {buffer}, .done = {}}, kLimit).ok());
  const IncomingMessage message = this->there_.take();
  this->connection_ = nullptr;
  this->server_ = nullptr;
  this->client_ = nullptr;
  EXPECT_TRUE(equal(message.buffers[0], buffer));
}

TYPED_TEST(AnyMedium, WhereNobodyListensConnectingIsUnavailable) {
  this->serve_echo();
  this->listener_ = nullptr;
  this->server_ = nullptr;
  this->client_ = Transport::create(this->options({})).value();
  const auto made = this->client_->connect(this->address_, {}, kLimit);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kUnavailable) << made.error().to_string();
}

TYPED_TEST(AnyMedium, AnAddressIsListenedAtOnceOnly) {
  this->serve_echo();
  const auto second = this->server_->listen(this->address_, [](const auto&) { return Handlers{}; });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find(this->address_.to_string()), std::string::npos);
}

TYPED_TEST(AnyMedium, ConnectionsBeyondTheLimitAreClosed) {
  this->serve_inbox({.connections = 1});
  this->connect();
  const auto second = this->client_->connect(this->address_, {}, kLimit);
  EXPECT_FALSE(second.ok());
  this->connection_ = nullptr;
  EXPECT_EQ(this->there_.wait_for_end().code, ErrorCode::kUnavailable);
}

// A plain socket that speaks to a listener of TCP.
class RawPeer : public ::testing::Test {
 protected:
  void serve(const Limits& limits) {
    transport_ = Transport::create({.limits = limits}).value();
    listener_ = transport_
                    ->listen({Medium::kTcp, "127.0.0.1", 0},
                             [this](const auto& connection) {
                               there_.open(connection);
                               return there_.handlers();
                             })
                    .value();
    socket_ = connect_tcp(listener_->address(), deadline_after(kLimit)).value().descriptor;
  }
  void send(const std::vector<std::byte>& all) {
    ASSERT_EQ(::send(socket_.get(), all.data(), all.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(all.size()));
  }
  // Until the other side closes.
  bool is_closed() {
    std::byte buffer[1000];
    const auto deadline = deadline_after(kLimit);
    while (std::chrono::steady_clock::now() < deadline) {
      const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
      if (count < 0) std::this_thread::yield();
    }
    return false;
  }

  Inbox there_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
  Descriptor socket_;
};

TEST_F(RawPeer, HalfAFrameIsNamedWhenNothingFollows) {
  serve({.progress_time = 200ms});
  send(encode_signal(FrameKind::kGreeting));
  std::vector<std::byte> message = encode_message(bytes("header"), std::vector<ConstBytes>{});
  message.resize(27);
  send(message);
  const Error error = there_.wait_for_end();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.message.find("sent 27 of 30 bytes of a message in "), std::string::npos)
      << error.message;
  EXPECT_TRUE(is_closed());
}

TEST_F(RawPeer, APeerThatGoesInTheMiddleOfAFrameIsNamed) {
  serve({});
  send(encode_signal(FrameKind::kGreeting));
  std::vector<std::byte> message = encode_message(bytes("header"), std::vector<ConstBytes>{});
  message.resize(27);
  send(message);
  (void)there_.wait_for_connection();
  socket_ = Descriptor();
  EXPECT_NE(there_.wait_for_end().message.find(", in the middle of a message: 27 of 30 bytes came"),
            std::string::npos);
}

TEST_F(RawPeer, AMessageThatDripsForTooLongIsNamed) {
  serve({.message_time = 300ms});
  send(encode_signal(FrameKind::kGreeting));
  const std::vector<std::byte> message = encode_message(std::vector<std::byte>(60'000), {});
  std::size_t at = 0;
  const auto deadline = deadline_after(kLimit);
  while (std::chrono::steady_clock::now() < deadline && at < message.size()) {
    if (::send(socket_.get(), &message[at++], 1, MSG_NOSIGNAL) != 1) break;
    std::this_thread::sleep_for(1ms);  // the slowness is what is tested
  }
  const Error error = there_.wait_for_end();
  EXPECT_NE(error.message.find(" of 60024 bytes of a message in "), std::string::npos)
      << error.message;
}

TEST_F(RawPeer, WhoNeverGreetsIsClosed) {
  serve({.handshake_time = 200ms});
  EXPECT_TRUE(is_closed());
}

TEST_F(RawPeer, GarbageIsClosedAtOnce) {
  serve({});
  send(bytes("GET / HTTP/1.1\r\nHost: tessera\r\n\r\n"));
  EXPECT_TRUE(is_closed());
}

TEST_F(RawPeer, WhoBeginsWithAMessageIsClosed) {
  serve({});
  send(encode_message(bytes("header"), std::vector<ConstBytes>{}));
  EXPECT_TRUE(is_closed());
}

TEST_F(RawPeer, AThousandPeersThatSayNothingLeaveTheOthersAlone) {
  serve({});
  std::vector<Descriptor> silent;
  for (int i = 0; i < 1000; ++i) {
    auto made = connect_tcp(listener_->address(), deadline_after(kLimit));
    if (!made.ok()) break;  // no more descriptors
    silent.push_back(std::move(made->descriptor));
  }
  EXPECT_GT(silent.size(), 100U);
  auto client = Transport::create({}).value();
  const auto connection = client->connect(listener_->address(), {}, kLimit).value();
  ASSERT_TRUE(connection->send({.header = bytes("x"), .buffers = {}, .done = {}}, kLimit).ok());
  EXPECT_EQ(text(there_.take().header), "x");
}

class TlsPeers : public ::testing::Test {
 protected:
  std::string folder_ = ::testing::TempDir() + "tessera_tls_" + std::to_string(::getpid());
  testing::Authority authority_{folder_ + "/a"}, other_{folder_ + "/b"};
  Inbox there_;
  std::unique_ptr<Transport> server_, client_;
  std::unique_ptr<Listener> listener_;

  Result<std::shared_ptr<Connection>> meet(const std::optional<TlsFiles>& server,
                                           const std::optional<TlsFiles>& client,
                                           const std::string& server_name = "") {
    const Limits limits{.handshake_time = 2s};
    server_ = Transport::create({.limits = limits, .tls = server}).value();
    listener_ = server_
                    ->listen({Medium::kTcp, "127.0.0.1", 0},
                             [this](const auto& connection) {
                               there_.open(connection);
                               return there_.handlers();
                             })
                    .value();
    client_ =
        Transport::create({.limits = limits, .tls = client, .server_name = server_name}).value();
    return client_->connect(listener_->address(), {}, kLimit);
  }
};

TEST_F(TlsPeers, EachKnowsTheNameInTheOthersCertificate) {
  const auto made = meet(authority_.sign("node 7"), authority_.sign("client 3"));
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ((*made)->peer().certificate_name, "node 7");
  EXPECT_EQ(there_.wait_for_connection()->peer().certificate_name, "client 3");
}

TEST_F(TlsPeers, ACertificateOfAnotherAuthorityIsRefused) {
  const auto made = meet(other_.sign("node"), authority_.sign("client"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(made.error().message.find("the peer's certificate: "), std::string::npos)
      << made.error().message;
}

TEST_F(TlsPeers, ACertificateForAnotherHostIsRefused) {
  const auto made = meet(authority_.sign("node", "elsewhere.example"), authority_.sign("client"));
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("IP address mismatch"), std::string::npos)
      << made.error().message;
}

TEST_F(TlsPeers, ACertificateForTheNameThatWasAskedForIsTaken) {
  EXPECT_TRUE(meet(authority_.sign("node", "node-7"), authority_.sign("client"), "node-7").ok());
}

TEST_F(TlsPeers, AClientOfAnotherAuthorityNeverComesThrough) {
  TlsFiles files = other_.sign("client");
  files.authority = authority_.sign("node").authority;  // it believes the server
  const auto made = meet(authority_.sign("node"), files);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(made.error().message.find("refuses this side's certificate: TLS: "), std::string::npos)
      << made.error().message;
}

TEST_F(TlsPeers, AClientWithoutACertificateIsToldSo) {
  TlsFiles files = authority_.sign("client");
  files.certificate = files.key = "";
  const auto made = meet(authority_.sign("node"), files);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(made.error().message.find("certificate required"), std::string::npos)
      << made.error().message;
  // Nor does anybody listen without one.
  const auto transport = Transport::create({.tls = files}).value();
  EXPECT_EQ(transport->listen({Medium::kTcp, "127.0.0.1", 0}, {}).error().message,
            "tcp:127.0.0.1:0: who listens with TLS needs a certificate and its key");
}

TEST_F(TlsPeers, PlainAndTlsDoNotMeet) {
  EXPECT_FALSE(meet(authority_.sign("node"), std::nullopt).ok());
  EXPECT_FALSE(meet(std::nullopt, authority_.sign("client")).ok());
}

TEST_F(TlsPeers, FilesThatDoNotFitAreNamed) {
  const TlsFiles a = authority_.sign("a"), b = authority_.sign("b");
  const auto error = [](const TlsFiles& files) {
    return Transport::create({.tls = files}).error().to_string();
  };
  EXPECT_EQ(error({a.authority, a.certificate, b.key}),
            "TLS: the key in '" + b.key + "': key values mismatch   [invalid argument]");
  const std::string why = "'/nowhere': No such file or directory   [invalid argument]";
  EXPECT_EQ(error({"/nowhere", a.certificate, a.key}), "TLS: the authority in " + why);
  EXPECT_EQ(error({a.authority, "/nowhere", a.key}), "TLS: the certificate in " + why);
  EXPECT_EQ(error({a.authority, a.certificate, "/nowhere"}), "TLS: the key in " + why);
}

TEST_F(TlsPeers, AKeyThatOthersMayReadIsRefused) {
  const TlsFiles files = authority_.sign("a");
  std::filesystem::permissions(files.key, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_NE(Transport::create({.tls = files})
                .error()
                .to_string()
                .find("'" + files.key + "' has secrets and others may read or change it"),
            std::string::npos);
}

TEST(Transport, APlainNetworkBeyondLoopbackIsRefusedUntilItIsAllowed) {
  const auto transport = Transport::create({}).value();
  const auto listener = transport->listen({Medium::kTcp, "0.0.0.0", 0}, {});
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.error().to_string(),
            "tcp:0.0.0.0:0: not loopback, and without TLS; give certificates, or allow the plain "
            "network by name   [invalid argument]");
  EXPECT_EQ(transport->connect({Medium::kTcp, "192.0.2.1", 7}, {}, 10ms).error().code,
            ErrorCode::kInvalidArgument);
  const auto allowed = Transport::create({.allow_plain_network = true}).value();
  EXPECT_TRUE(allowed->listen({Medium::kTcp, "0.0.0.0", 0}, {}).ok());
}

TEST(Transport, UcxThatThisBuildDoesNotHaveIsRefusedByName) {
  if (Transport::has_medium(Medium::kUcx)) GTEST_SKIP() << "this build has UCX";
  const auto transport = Transport::create({}).value();
  EXPECT_EQ(
      transport->connect({Medium::kUcx, "127.0.0.1", 7}, {}, 10ms).error().to_string(),
      "ucx:127.0.0.1:7: this build has no UCX; build it where libucx-dev is installed, or use "
      "tcp or shm   [unsupported]");
}

TEST(Transport, TheSocketOfSharedMemoryBelongsToItsUserAlone) {
  const std::string path = ::testing::TempDir() + "tessera_own_" + std::to_string(::getpid());
  const auto transport = Transport::create({}).value();
  {
    const auto listener = transport->listen({Medium::kSharedMemory, path}, {}).value();
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tessera::transport

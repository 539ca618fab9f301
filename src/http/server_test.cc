// The server behind raw sockets, with limits that are small enough to be reached.
#include "http/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/client.h"
#include "http/testing/no_threads.h"
#include "http/testing/raw_socket.h"

namespace tessera::http {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSoon{150}, kNever{60'000};

Limits patient() {
  return {.request_time = kNever,
          .idle_time = kNever,
          .handler_time = kNever,
          .progress_time = kNever,
          .response_time = kNever,
          .linger_time = kSoon};
}

constexpr const char* kHello = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

// Answers /hello at once, /echo with the body, /later on request, /stream without an end, /long
// with pieces, /throw not at all.
class HttpServer : public testing::Test {
 protected:
  void start(const Limits& limits) {
    Result<std::unique_ptr<Server>> server =
        Server::start({.limits = limits,
                       .fields = {{"X-All", "1"}},
                       .handler = [this](Request request, Reply reply) {
                         handle(std::move(request), std::move(reply));
                       }});
    ASSERT_TRUE(server.ok()) << server.error().to_string();
    server_ = std::move(server).value();
  }
  ~HttpServer() override {
    later_.clear();
    server_.reset();
  }

  void handle(Request request, Reply reply) {
    if (request.path == "/later") {
      const std::lock_guard lock(mutex_);
      later_.push_back(std::move(reply));
    } else if (request.path == "/stream") {
      reply.send({.type = "text/plain",
                  .body = Pieces{.next = [] { return Piece{"tick\n", milliseconds(20), false}; },
                                 .is_endless = true}});
    } else if (request.path == "/long") {
      reply.send({.body = Pieces{.next =
                                     [count = 0]() mutable {
                                       return Piece{std::string(100'000, 'x'), milliseconds(0),
                                                    ++count == 100};
                                     },
                                 .held_bytes = 100'000}});
    } else if (request.path == "/big") {
      reply.send({.body = std::string(8'000'000, 'y')});
    } else if (request.path == "/throw") {
      throw std::bad_alloc();
    } else if (request.path == "/broken") {
      reply.send({.body = Pieces{.next = []() -> Piece { throw std::bad_alloc(); }}});
    } else {
      reply.send({.type = "text/plain",
                  .body = request.path == "/echo" ? request.body : std::string("hello")});
    }
  }
  bool wait_for_later(std::size_t count) {
    for (int i = 0; i < 2000; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (later_.size() >= count) return true;
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }

  RawSocket open(int receive_bytes = 0) const { return RawSocket(server_->port(), receive_bytes); }
  std::string ask(std::string_view request, std::string_view until) const {
    const RawSocket socket = open();
    socket.send(request);
    return socket.read_until(until);
  }
  // The client that `tessera top` uses gets its answer.
  bool serves_others() const {
    Client client({.port = server_->port(), .answer_time = milliseconds(20'000)});
    const Result<Answer> answer = client.ask({.target = "/hello"});
    return answer.ok() && answer->body == "hello";
  }

  std::unique_ptr<Server> server_;
  std::mutex mutex_;
  std::vector<Reply> later_;
};

TEST_F(HttpServer, AnswersWithLengthAndTheFieldsOfAll) {
  start(patient());
  EXPECT_EQ(ask(kHello, "hello"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
            "Connection: keep-alive\r\nX-All: 1\r\n\r\nhello");
}

TEST_F(HttpServer, HeadHasTheSameFieldsAndNoBody) {
  start(patient());
  const RawSocket socket = open();
  socket.send(
      "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\nHEAD /long HTTP/1.1\r\nHost: x\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_EQ(socket.read_all(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
            "Connection: keep-alive\r\nX-All: 1\r\n\r\n"
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
            "X-All: 1\r\n\r\n");
}

TEST_F(HttpServer, RequestsBehindEachOtherAreAnsweredInTheirOrder) {
  start(patient());
  std::string text;
  for (int i = 0; i < 500; ++i) {
    text += "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n" +
            std::to_string(i % 900 + 100);
  }
  text += "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const RawSocket socket = open();
  std::thread sender([&] { socket.send(text); });
  const std::string answers = socket.read_all();
  sender.join();
  std::size_t at = 0;
  for (int i = 0; i < 500; ++i) {
    at = answers.find("\r\n\r\n" + std::to_string(i % 900 + 100) + "HTTP", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_EQ(answers.substr(answers.size() - 5), "hello");
}

TEST_F(HttpServer, PiecesAreChunksOrEndWithTheConnection) {
  start(patient());
  const std::string text = ask("GET /long HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n0\r\n\r\n");
  EXPECT_NE(text.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), 'x'), 10'000'000);
  EXPECT_EQ(text.find("186a0\r\nxxx"), text.find("\r\n\r\n") + 4);
  const RawSocket old = open();
  old.send("GET /long HTTP/1.0\r\n\r\n");
  const std::string plain = old.read_all();
  EXPECT_EQ(plain.size() - plain.find("\r\n\r\n") - 4, 10'000'000U);
}

TEST_F(HttpServer, TellsToContinueBeforeABody) {
  start(patient());
  const RawSocket socket = open();
  socket.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(socket.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  socket.send("ab");
  EXPECT_NE(socket.read_until("\r\n\r\nab").find("200 OK"), std::string::npos);
}

TEST_F(HttpServer, AnsweredFromAnotherThread) {
  start(patient());
  const RawSocket socket = open();
  socket.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(wait_for_later(1));
  later_[0].send({.body = std::string("late")});
  EXPECT_NE(socket.read_until("late").find("200 OK"), std::string::npos);
  EXPECT_TRUE(serves_others());
}

TEST_F(HttpServer, AHandlerThatThrowsOrDropsItsReplyIsAnError) {
  start(patient());
  const std::string expected = "{\"error\":\"the program failed to answer\"}\n";
  EXPECT_NE(ask("GET /throw HTTP/1.1\r\nHost: x\r\n\r\n", expected).find("500 Internal"),
            std::string::npos);
  const RawSocket socket = open();
  socket.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(wait_for_later(1));
  later_.clear();
  EXPECT_NE(socket.read_until(expected).find("500 Internal"), std::string::npos);
  const RawSocket broken = open();
  broken.send("GET /broken HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(broken.is_closed());
  EXPECT_TRUE(serves_others());
}

TEST_F(HttpServer, WhatIsTooLongIsRefusedAndTheConnectionEnds) {
  Limits limits = patient();
  limits.target_bytes = 100;
  limits.header_bytes = 1000;
  limits.body_bytes = 1000;
  start(limits);
  const struct {
    std::string begin, forever, status;
  } cases[] = {
      {"GET /", "a", "414"},
      {"GET / HTTP/1.1\r\nHost: x\r\n", "A: b\r\n", "431"},
      {"GET / HTTP/1.1\r\nHost: x\r\nA: ", "a", "431"},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000000\r\n\r\n", "a", "413"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "8\r\n01234567\r\n",
       "413"},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;", "e", "431"},
  };
  for (const auto& each : cases) {
    const RawSocket socket = open();
    socket.send(each.begin);
    std::string piece;
    for (int i = 0; i < 1000; ++i) piece += each.forever;
    std::thread sender([&] {
      for (int i = 0; i < 100'000 && socket.send(piece); ++i) {
      }
    });
    const std::string answer = socket.read_until("\r\n\r\n");
    sender.join();  // because the server closes
    EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 " + each.status) << each.begin;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  }
  EXPECT_TRUE(serves_others());
}

TEST_F(HttpServer, ARequestThatDripsInEndsAtItsTime) {
  Limits limits = patient();
  limits.request_time = milliseconds(400);
  start(limits);
  const RawSocket silent = open(), dripping = open();
  std::thread drip([&] {
    for (const char byte : std::string(2000, 'a')) {
      if (!dripping.send({&byte, 1})) break;
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  const std::string answer = dripping.read_until("in time");
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 408");
  EXPECT_NE(answer.find("the request did not arrive in time"), std::string::npos);
  EXPECT_TRUE(silent.is_closed());
  drip.join();
}

TEST_F(HttpServer, AnIdleConnectionIsClosed) {
  Limits limits = patient();
  limits.idle_time = kSoon;
  start(limits);
  const RawSocket socket = open();
  socket.send(kHello);
  socket.read_until("hello");
  EXPECT_TRUE(socket.is_closed());
}

TEST_F(HttpServer, AProgramThatDoesNotAnswerIsAnError) {
  Limits limits = patient();
  limits.handler_time = kSoon;
  start(limits);
  const RawSocket socket = open();
  socket.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(socket.read_all().find("the program did not answer in time"), std::string::npos);
  ASSERT_TRUE(wait_for_later(1));
  later_[0].send({.body = std::string("too late")});
  EXPECT_TRUE(serves_others());
}

TEST_F(HttpServer, AReaderWhoTakesNothingIsLetGo) {
  Limits limits = patient();
  limits.progress_time = milliseconds(2000);
  limits.response_bytes = 9'000'000;
  start(limits);
  const RawSocket stalled = open(4096);
  stalled.send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(stalled.is_readable(20'000));
  EXPECT_NE(ask("GET /big HTTP/1.1\r\nHost: x\r\n\r\n", "}\n")
                .find("the responses on their way hold 8000000 bytes, and this one needs 8000000; "
                      "allowed 9000000; ask again"),
            std::string::npos);
  EXPECT_TRUE(serves_others());
  // Until it is released, no other client has the room.
  std::size_t served = 0;
  for (int i = 0; i < 400 && served < 8'000'000; ++i) {
    const RawSocket next = open();
    next.send("GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    served = next.read_all().size();
    if (served < 8'000'000) std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_GT(served, 8'000'000U);
  EXPECT_LT(stalled.read_all().size(), 8'000'000U) << "it was closed";
}

TEST_F(HttpServer, AReaderWhoTakesABitNowAndThenHasTheTimeOfAResponse) {
  Limits limits = patient();
  limits.response_time = milliseconds(400);
  start(limits);
  const RawSocket slow = open(4096);
  slow.send("GET /long HTTP/1.1\r\nHost: x\r\n\r\n");
  std::size_t taken = 0;
  while (taken < 9'000'000) {
    const std::string some = slow.read_until("x");
    if (some.empty()) break;
    taken += some.size();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_LT(taken, 9'000'000U);
}

TEST_F(HttpServer, StreamsAreCountedAndGoWithTheirClients) {
  Limits limits = patient();
  limits.streams = 2;
  start(limits);
  constexpr const char* kStream = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n";
  auto first = std::make_unique<RawSocket>(server_->port());
  const RawSocket second = open();
  first->send(kStream);
  second.send(kStream);
  EXPECT_NE(first->read_until("tick\n\r\n5\r\ntick"), "");
  EXPECT_NE(second.read_until("tick\n\r\n5\r\ntick"), "");
  const std::string refused = ask(kStream, "}\n");
  EXPECT_EQ(refused.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(refused.find("Retry-After: 1\r\n"), std::string::npos);
  EXPECT_NE(refused.find("2 streams are open, no more are served; close one"), std::string::npos);
  first.reset();
  std::string text;
  for (int i = 0; i < 200 && text.find("tick") == std::string::npos; ++i) {
    text = ask(kStream, "\n");
    std::this_thread::sleep_for(milliseconds(20));
    if (text.substr(0, 12) == "HTTP/1.1 200") break;
  }
  EXPECT_EQ(text.substr(0, 12), "HTTP/1.1 200");
}

TEST_F(HttpServer, AStreamWithAPieceThatIsTooLargeEnds) {
  Limits limits = patient();
  limits.piece_bytes = 4;  // a tick has five
  start(limits);
  const RawSocket stream = open();
  stream.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(stream.read_all().find("tick"), std::string::npos);
  EXPECT_TRUE(serves_others());
}

TEST_F(HttpServer, ConnectionsAtWorkAreNotEndedAndOneMoreIsRefused) {
  Limits limits = patient();
  limits.connections = 2;
  start(limits);
  const RawSocket first = open(), second = open();
  first.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  second.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(wait_for_later(2));
  const RawSocket third = open();
  const std::string refused = third.read_until("}\n");
  EXPECT_EQ(refused.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(refused.find("2 connections are open and at work, no more are served; close one"),
            std::string::npos);
  later_.clear();
  EXPECT_NE(first.read_until("}\n"), "");
  EXPECT_TRUE(serves_others());
}

TEST_F(HttpServer, WhoSendsNothingOrHalfMakesRoom) {
  Limits limits = patient();
  limits.connections = 4;
  start(limits);
  std::vector<RawSocket> sockets;
  for (int i = 0; i < 200; ++i) {
    sockets.push_back(open());
    if (i % 2 == 1) sockets.back().send("GET / HT");
    if (i % 20 == 0) {
      EXPECT_TRUE(serves_others()) << i;
    }
  }
  EXPECT_TRUE(serves_others());
  EXPECT_TRUE(sockets.front().is_closed());
}

TEST_F(HttpServer, WhoTakesHisAnswerBitByBitMakesRoom) {
  Limits limits = patient();
  limits.connections = 4;
  start(limits);
  std::vector<RawSocket> sockets;
  for (int i = 0; i < 4; ++i) {
    sockets.push_back(open(4096));
    sockets.back().send("GET /long HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  std::atomic<bool> stopping = false;
  std::thread drip([&] {
    char some[512];
    while (!stopping) {
      for (const RawSocket& socket : sockets) socket.take(some, sizeof(some));
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_TRUE(serves_others());
  stopping = true;
  drip.join();
}

TEST_F(HttpServer, StopsWhateverGoesOn) {
  start(patient());
  const RawSocket streaming = open(), half = open(), waiting = open(), idle = open();
  streaming.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  streaming.read_until("tick");
  half.send("GET");
  waiting.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(wait_for_later(1));
  server_.reset();
  later_[0].send({.body = std::string("nobody")});
  EXPECT_TRUE(half.is_closed());
  EXPECT_TRUE(idle.is_closed());
}

TEST_F(HttpServer, APortThatIsTakenAndAnAddressOfOthersAreErrors) {
  start(patient());
  const std::string port = std::to_string(server_->port());
  EXPECT_EQ(Server::start({.port = server_->port(), .handler = {}}).error().to_string(),
            "cannot listen at 127.0.0.1:" + port +
                ": the port is taken; port 0 takes any that is free   [unavailable]");
  EXPECT_EQ(Server::start({.address = "192.0.2.1", .handler = {}}).error().to_string(),
            "cannot listen at 192.0.2.1:0: the address is not of this machine, or not allowed "
            "(Cannot assign requested address); port 0 takes any that is free   [unavailable]");
}

// In a process of its own, whose bounds are lowered.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void hello(Request, Reply reply) { reply.send({.body = std::string("hello")}); }

TEST(HttpServerWithout, FileDescriptorsGoOnWhenThereAreSomeAgain) {
  EXPECT_EQ(in_child([] {
              Limits limits = patient();
              auto server = Server::start({.limits = limits, .handler = hello}).value();
              const int used = dup(0);
              close(used);
              const rlimit few = {static_cast<rlim_t>(used) + 20, static_cast<rlim_t>(used) + 20};
              setrlimit(RLIMIT_NOFILE, &few);
              // Twenty sockets of ours and theirs: the tenth has no other end.
              std::vector<RawSocket> sockets;
              for (int i = 0; i < 18; ++i) sockets.emplace_back(server->port());
              rusage before{}, after{};
              getrusage(RUSAGE_SELF, &before);
              std::this_thread::sleep_for(milliseconds(300));
              getrusage(RUSAGE_SELF, &after);
              if (after.ru_utime.tv_sec - before.ru_utime.tv_sec > 1) return 2;
              sockets.clear();
              Client client({.port = server->port(), .answer_time = milliseconds(20'000)});
              return client.ask({.target = "/"}).ok() ? 0 : 3;
            }),
            0);
}

TEST(HttpServerWithout, FileDescriptorsOrThreadsIsAnErrorOfStart) {
  EXPECT_EQ(in_child([] {
              const int used = dup(0);
              close(used);
              const rlimit none = {static_cast<rlim_t>(used), static_cast<rlim_t>(used)};
              setrlimit(RLIMIT_NOFILE, &none);
              const auto server = Server::start({.handler = hello});
              if (server.ok()) return 2;
              const std::string text = server.error().to_string();
              return text.find(
                         "the system has no thread, memory or file descriptor for a server "
                         "(") == 0
                         ? 0
                         : 3;
            }),
            0);
}

#ifndef TESSERA_SANITIZED
TEST(HttpServerWithout, AThreadIsAnErrorOfStart) {
  threads_left = 0;
  const auto server = Server::start({.handler = hello});
  threads_left = -1;
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(
      server.error().to_string(),
      "the system has no thread, memory or file descriptor for a server (Resource temporarily "
      "unavailable); close files, or allow more (ulimit -n, -u)   [unavailable]");
}
#endif

TEST(HttpServerIn, AForkedChildEndsWithoutWaitingForTheParentsThread) {
  auto server = Server::start({.handler = hello}).value();
  EXPECT_EQ(in_child([&server] {
              alarm(20);
              server.reset();
              return 0;
            }),
            0);
  Client client({.port = server->port()});
  EXPECT_TRUE(client.ask({.target = "/"}).ok());
}

TEST(HttpClients, AskAgainWhereAnIdleConnectionWasClosed) {
  Limits limits = patient();
  limits.idle_time = milliseconds(50);
  auto server = Server::start({.limits = limits, .handler = hello}).value();
  Client client({.port = server->port()});
  ASSERT_TRUE(client.ask({.target = "/"}).ok());
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_TRUE(client.ask({.target = "/"}).ok());
}

TEST(HttpClients, WaitNoLongerThanTheyAreTold) {
  std::mutex mutex;
  std::vector<Reply> kept;
  auto server = Server::start({.handler = [&](const Request&, Reply reply) {
                  const std::lock_guard lock(mutex);
                  kept.push_back(std::move(reply));
                }}).value();
  Client client({.port = server->port(), .answer_time = milliseconds(100)});
  EXPECT_EQ(client.ask({.target = "/"}).error().message, "it took too long");
}

}  // namespace
}  // namespace tessera::http

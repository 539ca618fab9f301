// The server where memory ends: each allocation of its thread fails once, in turn, and the next
// client is served as if nothing had been.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "http/client.h"
#include "http/server.h"
#include "http/testing/raw_socket.h"

namespace {

// Allocations of other threads than this one until one fails; below zero: none fails.
std::atomic<int> allocations_left = -1;
std::thread::id test_thread;

struct OwnAllocations {
  static bool fails() {
    return allocations_left.load() > 0 && std::this_thread::get_id() != test_thread &&
           allocations_left.fetch_sub(1) == 1;
  }
  static void made(void* /*block*/) {}
  static void gone(void* /*block*/) {}
};

}  // namespace

#include "base/testing/own_allocations.h"

namespace tessera::http {
namespace {

void answer(const Request& request, Reply reply) {
  if (request.path == "/pieces") {
    return reply.send({.body = Pieces{.next = [count = 0]() mutable {
                         return Piece{std::string(1000, 'x'), std::chrono::milliseconds(0),
                                      ++count == 3};
                       }}});
  }
  reply.send({.type = "text/plain", .body = request.path + request.body});
}

TEST(HttpServerMemory, EachAllocationMayFailAndTheNextClientIsServed) {
  test_thread = std::this_thread::get_id();
  auto server =
      Server::start({.fields = {{"X-All", std::string(100, 'a')}}, .handler = answer}).value();
  const std::string request = "POST /" + std::string(100, 'e') +
                              " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                              "A-Field-Of-Some-Length: and its value, of some length too\r\n\r\n"
                              "40\r\n" +
                              std::string(64, 'b') + "\r\n0\r\n\r\n" +
                              "GET /pieces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  int failed = 0;
  for (int n = 1; n < 1000; ++n) {
    allocations_left = n;
    {
      const RawSocket socket(server->port());
      socket.send(request);
      (void)socket.read_all();
    }
    // Closing that connection was the last that could need memory.
    const bool reached = allocations_left.exchange(-1) <= 0;
    failed += reached ? 1 : 0;
    Client client({.port = server->port(), .answer_time = std::chrono::milliseconds(20'000)});
    const Result<Answer> next = client.ask({.target = "/next"});
    ASSERT_TRUE(next.ok()) << next.error().to_string() << " after allocation " << n;
    ASSERT_EQ(next->body, "/next");
    if (!reached) break;
  }
  EXPECT_GT(failed, 20) << "each time something failed";
  EXPECT_LT(failed, 900);
}

}  // namespace
}  // namespace tessera::http

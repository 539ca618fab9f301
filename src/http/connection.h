// One connection of the server: reads a request, has it answered, writes the response, again.
//
//   idle ─► reading ─► handling ─► writing ─┬─► idle
//                                  ▲   │    └─► closing ─► closed
//                                  └ pausing   (streams, between two pieces)
//
// Everything here happens on the server's thread.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http/limits.h"
#include "http/message.h"
#include "http/parser.h"

namespace tessera::http {

using Clock = std::chrono::steady_clock;
using Tcp = boost::asio::ip::tcp;
using SystemError = boost::system::error_code;

// What connections share. Kept by ServerCore, which outlives them.
struct Shared {
  const Limits limits;
  const std::vector<Field> fields;
  std::function<void(Request, std::uint64_t connection, std::uint64_t request)> handle;
  std::function<void(std::uint64_t connection)> forget;
  const std::unique_ptr<boost::asio::ssl::context> tls = {};  // null: plain
  std::size_t streams = 0;
  std::size_t response_bytes = 0;  // of responses that are not taken yet
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shared& shared, Tcp::socket socket, std::uint64_t id);
  ~Connection();

  void start();
  // The answer to request number `request`; one to an earlier request goes nowhere.
  void send(Response response, std::uint64_t request) noexcept;
  void check_deadline(Clock::time_point now) noexcept;
  void close() noexcept;

  // Which of two connections is ended first to make room: the smaller rank, then the older moment.
  // Nothing below kNever is doing anything for its client just now.
  static constexpr int kNever = 4;
  int rank(Clock::time_point now) const;
  Clock::time_point waiting_since() const {
    return state_ == State::kWriting ? writing_since_ : last_progress_;
  }

 private:
  enum class State { kIdle, kReading, kHandling, kWriting, kPausing, kClosing, kClosed };

  // Runs `step`; where it throws, the connection ends. Nothing passes to the event loop.
  template <typename Step>
  void guarded(Step step) noexcept;
  void enter(State state, std::chrono::milliseconds time);

  void shake_hands();
  // From the socket, or through TLS.
  template <typename Buffers, typename Handler>
  void read_some(const Buffers& buffers, Handler handler);
  template <typename Buffers, typename Handler>
  void write_some(const Buffers& buffers, Handler handler);
  void read();
  void on_read(SystemError error, std::size_t bytes);
  void parse(std::string_view bytes);
  void go_on(ParseState state);
  void tell_to_continue();
  void handle();
  void respond(Response response);
  Response within_limits(Response response);
  void hold(std::size_t bytes);
  void release() noexcept;
  void next_piece();
  void pause(std::chrono::milliseconds time);
  void watch_for_end();
  void write();
  void on_written(SystemError error, std::size_t bytes);
  void on_sent();
  void linger();

  Shared& shared_;
  using Tls = boost::asio::ssl::stream<Tcp::socket&>;
  Tcp::socket socket_;
  std::unique_ptr<Tls> tls_;  // over the socket; null: plain
  boost::asio::steady_timer pause_;
  const std::uint64_t id_;
  std::uint64_t request_ = 0;  // number of the one that is answered
  State state_ = State::kIdle;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point response_deadline_ = Clock::time_point::max();
  Clock::time_point last_progress_ = Clock::now();
  Clock::time_point writing_since_{};

  RequestParser parser_;
  std::array<char, 8192> input_;
  bool is_reading_ = false;   // a read is under way
  bool is_in_place_ = false;  // it goes to the body's own place
  std::size_t lingered_ = 0;
  bool was_told_to_continue_ = false;

  // Of the request that is answered.
  int version_ = 11;
  bool is_head_ = false, keep_alive_ = true;
  // What is on its way: head, body and tail behind each other, of which `written_` bytes are gone.
  Response response_;
  std::string head_, piece_, tail_;
  std::size_t written_ = 0;
  std::size_t held_ = 0;  // of Shared::response_bytes
  bool is_stream_ = false, is_last_piece_ = true;
};

}  // namespace tessera::http

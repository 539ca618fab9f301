#include "http/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <span>
#include <utility>

// What fails here ends the connection, as the comments say, and nothing else follows from it.
// NOLINTBEGIN(bugprone-empty-catch,bugprone-unused-return-value)

namespace tessera::http {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

// A stream waits so long for others where all memory for responses is taken.
constexpr milliseconds kNoRoomPause{100};
// A client that takes longer for a response, or a piece of a stream, is closed.
constexpr milliseconds kSlow{1000};

std::string_view text_of(const Body& body) {
  if (const auto* text = std::get_if<std::string>(&body)) return *text;
  const auto* view = std::get_if<std::string_view>(&body);
  return view == nullptr ? std::string_view() : *view;
}

}  // namespace

Connection::Connection(Shared& shared, Tcp::socket socket, std::uint64_t id)
    : shared_(shared),
      socket_(std::move(socket)),
      pause_(socket_.get_executor()),
      id_(id),
      parser_(shared.limits) {
  if (shared.tls != nullptr) tls_ = std::make_unique<Tls>(socket_, *shared.tls);
}

Connection::~Connection() = default;

template <typename Step>
void Connection::guarded(Step step) noexcept {
  try {
    step();
  } catch (...) {
    // Out of memory, as a rule: nothing can be said to the client.
    close();
  }
}

void Connection::enter(State state, milliseconds time) {
  state_ = state;
  last_progress_ = Clock::now();
  deadline_ = last_progress_ + time;
}

void Connection::start() {
  guarded([this] {
    enter(State::kIdle, shared_.limits.request_time);
    tls_ == nullptr ? read() : shake_hands();
  });
}

void Connection::shake_hands() {
  tls_->async_handshake(Tls::server, [self = shared_from_this()](SystemError error) {
    self->guarded([&] {
      if (self->state_ != State::kIdle) return;
      error ? self->close() : self->read();
    });
  });
}

template <typename Buffers, typename Handler>
void Connection::read_some(const Buffers& buffers, Handler handler) {
  if (tls_ == nullptr) return socket_.async_read_some(buffers, std::move(handler));
  tls_->async_read_some(buffers, std::move(handler));
}

template <typename Buffers, typename Handler>
void Connection::write_some(const Buffers& buffers, Handler handler) {
  if (tls_ == nullptr) return socket_.async_write_some(buffers, std::move(handler));
  tls_->async_write_some(buffers, std::move(handler));
}

void Connection::close() noexcept {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  release();
  SystemError ignored;
  socket_.close(ignored);
  try {
    pause_.cancel();
  } catch (...) {
    // Then it ends by itself, and finds the connection closed.
  }
  shared_.forget(id_);
}

int Connection::rank(Clock::time_point now) const {
  switch (state_) {
    case State::kClosed:
    case State::kClosing:
      return 0;
    case State::kIdle:
      return 1;
    case State::kReading:
      return 2;
    case State::kWriting:
      return now - writing_since_ > kSlow ? 3 : kNever;
    case State::kHandling:
    case State::kPausing:
      break;
  }
  return kNever;
}

void Connection::check_deadline(Clock::time_point now) noexcept {
  if (now < deadline_) return;
  guarded([this] {
    if (state_ != State::kReading && state_ != State::kHandling) return close();
    Response late = state_ == State::kReading
                        ? error_response(408, "the request did not arrive in time")
                        : busy_response("the program did not answer in time");
    late.closes = true;
    ++request_;  // what the handler says now is too late
    respond(std::move(late));
  });
}

// ---- The request

void Connection::read() {
  is_reading_ = true;
  const std::span<char> room = state_ == State::kReading ? parser_.body_room() : std::span<char>();
  is_in_place_ = !room.empty();
  read_some(is_in_place_ ? asio::buffer(room.data(), room.size()) : asio::buffer(input_),
            [self = shared_from_this()](SystemError error, std::size_t bytes) {
              self->guarded([&] { self->on_read(error, bytes); });
            });
}

void Connection::on_read(SystemError error, std::size_t bytes) {
  is_reading_ = false;
  if (state_ == State::kClosing && !error && lingered_ < shared_.limits.linger_bytes) {
    lingered_ += bytes;  // and thrown away
    return read();
  }
  if (state_ == State::kWriting) return;  // too late for this request
  if (error) return close();
  if (state_ == State::kIdle) enter(State::kReading, shared_.limits.request_time);
  if (!is_in_place_) return parse({input_.data(), bytes});
  go_on(parser_.body_filled(bytes));
}

void Connection::parse(std::string_view bytes) { go_on(parser_.feed(bytes)); }

void Connection::go_on(ParseState state) {
  switch (state) {
    case ParseState::kComplete:
      return handle();
    case ParseState::kRefused:
      version_ = 11;
      is_head_ = false;
      return respond(parser_.refusal());
    case ParseState::kMore:
      if (parser_.wants_continue() && !was_told_to_continue_) return tell_to_continue();
      return read();
  }
}

void Connection::tell_to_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  was_told_to_continue_ = true;
  // So little finds room at once, or the client has not taken the answers before.
  write_some(asio::buffer(kContinue),
             [self = shared_from_this()](SystemError error, std::size_t bytes) {
               self->guarded([&] {
                 if (error || bytes != kContinue.size()) return self->close();
                 if (self->state_ == State::kReading) self->read();
               });
             });
}

void Connection::handle() {
  Request request = parser_.take();
  was_told_to_continue_ = false;
  version_ = request.version;
  is_head_ = request.method == "HEAD";
  keep_alive_ = request.keep_alive;
  enter(State::kHandling, shared_.limits.handler_time);
  shared_.handle(std::move(request), id_, ++request_);
}

// ---- The response

void Connection::send(Response response, std::uint64_t request) noexcept {
  if (state_ != State::kHandling || request != request_) return;
  guarded([&] { respond(std::move(response)); });
}

Response Connection::within_limits(Response response) {
  const auto* pieces = std::get_if<Pieces>(&response.body);
  if (pieces != nullptr && pieces->is_endless && shared_.streams >= shared_.limits.streams) {
    return busy_response(
        fmt::format("{} streams are open, no more are served; close one", shared_.limits.streams));
  }
  const auto* text = std::get_if<std::string>(&response.body);
  const std::size_t bytes = pieces != nullptr ? pieces->held_bytes
                            : text != nullptr ? text->size()
                                              : 0;
  if (bytes > 0 && shared_.response_bytes + bytes > shared_.limits.response_bytes) {
    return busy_response(fmt::format(
        "the responses on their way hold {} bytes, and this one needs {}; allowed {}; ask again",
        shared_.response_bytes, bytes, shared_.limits.response_bytes));
  }
  return response;
}

void Connection::hold(std::size_t bytes) {
  held_ += bytes;
  shared_.response_bytes += bytes;
}

void Connection::release() noexcept {
  shared_.response_bytes -= held_;
  held_ = 0;
  if (is_stream_) --shared_.streams;
  is_stream_ = false;
  // What the response holds may go before the next one comes, which may be long.
  response_ = Response();
  piece_ = std::string();
}

void Connection::respond(Response response) {
  response_ = within_limits(std::move(response));
  const auto* pieces = std::get_if<Pieces>(&response_.body);
  keep_alive_ = keep_alive_ && !response_.closes && (pieces == nullptr || version_ >= 11);
  head_ = head_text(response_, {version_, keep_alive_, &shared_.fields});
  tail_.clear();
  written_ = 0;
  is_last_piece_ = true;
  enter(State::kWriting, shared_.limits.progress_time);
  writing_since_ = last_progress_;
  response_deadline_ = last_progress_ + shared_.limits.response_time;
  if (is_head_) return write();
  if (pieces == nullptr) {
    if (const auto* text = std::get_if<std::string>(&response_.body)) hold(text->size());
    return write();
  }
  hold(pieces->held_bytes);
  is_stream_ = pieces->is_endless;
  if (is_stream_) {
    ++shared_.streams;
    watch_for_end();
  }
  next_piece();
}

void Connection::next_piece() {
  auto& pieces = std::get<Pieces>(response_.body);
  if (is_stream_ && shared_.response_bytes > shared_.limits.response_bytes) {
    return pause(kNoRoomPause);
  }
  Piece piece = pieces.next();
  if (piece.bytes.size() > shared_.limits.piece_bytes) return close();
  is_last_piece_ = piece.is_last;
  if (is_stream_) {
    writing_since_ = Clock::now();
    response_deadline_ = writing_since_ + shared_.limits.response_time;
    shared_.response_bytes -= held_ - pieces.held_bytes;
    held_ = pieces.held_bytes;
    hold(piece.bytes.size());
  }
  piece_ = std::move(piece.bytes);
  pause_.expires_after(piece.pause);
  if (version_ >= 11) {
    if (!piece_.empty()) head_ += fmt::format("{:x}\r\n", piece_.size());
    tail_ = piece_.empty() ? "" : "\r\n";
    if (is_last_piece_) tail_ += "0\r\n\r\n";
  }
  enter(State::kWriting, shared_.limits.progress_time);
  write();
}

void Connection::pause(milliseconds time) {
  pause_.expires_after(time);
  state_ = State::kPausing;
  deadline_ = Clock::time_point::max();
  pause_.async_wait([self = shared_from_this()](SystemError error) {
    self->guarded([&] {
      if (!error && self->state_ == State::kPausing) self->next_piece();
    });
  });
}

// A stream writes now and then; without this it would learn only then that its client has gone.
void Connection::watch_for_end() {
  if (is_reading_) return;
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](SystemError error) {
    self->guarded([&] {
      char byte = 0;
      const bool at_end =
          error || recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
      if (at_end && self->is_stream_) self->close();
    });
  });
}

void Connection::write() {
  const std::string_view body = std::holds_alternative<Pieces>(response_.body)
                                    ? std::string_view(piece_)
                                : is_head_ ? std::string_view()
                                           : text_of(response_.body);
  std::array<asio::const_buffer, 3> buffers = {asio::buffer(head_), asio::buffer(body),
                                               asio::buffer(tail_)};
  std::size_t gone = written_;
  for (asio::const_buffer& buffer : buffers) {
    const std::size_t skipped = std::min(gone, buffer.size());
    buffer += skipped;
    gone -= skipped;
  }
  if (asio::buffer_size(buffers) == 0) return on_sent();
  write_some(buffers, [self = shared_from_this()](SystemError error, std::size_t bytes) {
    self->guarded([&] { self->on_written(error, bytes); });
  });
}

void Connection::on_written(SystemError error, std::size_t bytes) {
  if (state_ != State::kWriting) return;
  if (error) return close();
  written_ += bytes;
  enter(State::kWriting, shared_.limits.progress_time);
  deadline_ = std::min(deadline_, response_deadline_);
  write();
}

void Connection::on_sent() {
  head_.clear();
  written_ = 0;
  if (!is_last_piece_ && !is_head_) {
    const auto left = pause_.expiry() - Clock::now();
    // Also where there is no pause, others have their turn in between.
    return pause(std::max(std::chrono::duration_cast<milliseconds>(left), milliseconds(0)));
  }
  release();
  if (!keep_alive_) return linger();
  enter(State::kIdle, shared_.limits.idle_time);
  if (parser_.has_begun()) enter(State::kReading, shared_.limits.request_time);
  parse({});
}

// Closing a socket with unread input would throw away what the client has not read of the answer.
void Connection::linger() {
  enter(State::kClosing, shared_.limits.linger_time);
  SystemError ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  if (!is_reading_) read();
}

}  // namespace tessera::http

// NOLINTEND(bugprone-empty-catch,bugprone-unused-return-value)

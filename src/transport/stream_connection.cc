#include "transport/stream_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "base/deadline.h"
#include "transport/tls_files.h"

namespace tessera::transport {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{64} << 10;
constexpr std::size_t kDirectBytes = std::size_t{16} << 10;  // from here on into the buffer itself
constexpr std::size_t kReadBudget = std::size_t{4} << 20;    // then others have their turn
constexpr const char* kClosedHere = "this side closed the connection";
constexpr std::size_t kPartsMax = 64;  // of one system call

// Buffers begin at lines of the cache.
constexpr std::size_t round_up_to_line(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Of a plain connection: whether the peer begins with a record of TLS, a handshake or an alert.
bool is_tls_record(ConstBytes first) {
  constexpr std::byte kAlert{21}, kHandshake{22}, kMajor{3};
  return first.size() >= 2 && (first[0] == kAlert || first[0] == kHandshake) && first[1] == kMajor;
}

std::int64_t elapsed_ms(Clock::time_point since, Clock::time_point now) {
  return std::chrono::duration_cast<Milliseconds>(now - since).count();
}

}  // namespace

// What the application holds of this connection's messages. Outlives the connection.
struct StreamConnection::Account {
  std::mutex mutex;
  std::size_t bytes = 0, messages = 0;
  bool is_waiting = false;  // the connection reads on when there is room
  std::function<void()> on_room;

  bool has_room(const Limits& limits, std::size_t more) const {
    return messages == 0 ||
           (bytes + more <= limits.held_bytes && messages + 1 <= limits.held_messages);
  }
  // Or asks to be told.
  bool take(const Limits& limits, std::size_t more) {
    const std::lock_guard lock(mutex);
    is_waiting = !has_room(limits, more);
    if (is_waiting) return false;
    bytes += more;
    ++messages;
    return true;
  }
  void give_back(std::size_t less) {
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex);
      bytes -= less;
      --messages;
      if (std::exchange(is_waiting, false)) call = on_room;
    }
    if (call) call();
  }
};

StreamConnection::StreamConnection(Parts parts)
    : loop_(std::move(parts.loop)),
      pool_(std::move(parts.pool)),
      limits_(parts.limits),
      stream_(std::move(parts.stream)),
      on_open_(std::move(parts.on_open)),
      on_closed_(std::move(parts.on_closed)),
      on_refused_(std::move(parts.on_refused)),
      peer_(stream_->peer()),
      name_(peer_.address.to_string()),
      parser_(limits_),
      staging_(kStagingBytes),
      account_(std::make_shared<Account>()) {}

Error StreamConnection::named(ErrorCode code, const std::string& what) const {
  return {code, fmt::format("peer {}: {}", name_, what)};
}

void StreamConnection::start() {
  account_->on_room = [weak = weak_from_this(), loop = std::weak_ptr<Loop>(loop_)] {
    const auto kept = loop.lock();
    if (!kept) return;
    kept->post([weak] {
      if (const auto self = weak.lock()) self->resume_reading();
    });
  };
  id_ = loop_->add(shared_from_this(), stream_->descriptors());
}

void StreamConnection::resume_reading() {
  if (!std::exchange(is_paused_, false)) return;
  is_resuming_ = true;
  heard_ = message_began_ = Clock::now();
  loop_->call_soon(id_);
}

bool StreamConnection::on_ready() {
  if (has_ended()) return false;
  if (state_ == State::kHandshake) {
    const IoResult result = stream_->handshake();
    if (result.state == IoState::kAgain) return false;
    if (result.state != IoState::kDone) {
      const bool is_gone = result.state == IoState::kEnd;
      const Error error =
          named(is_gone ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument, result.why);
      if (is_gone) {
        end(error);
      } else {
        refuse(error);
      }
      return false;
    }
    peer_ = stream_->peer();
    name_ = peer_.address.to_string();
    const std::lock_guard lock(mutex_);
    state_ = State::kGreeting;
    push({.head = encode_signal(FrameKind::kGreeting)});
  }
  flush();
  return !has_ended() && read_some();
}

void StreamConnection::refuse(const Error& error) {
  if (on_refused_) on_refused_(stream_->peer(), error);
  end(error);
}

bool StreamConnection::read_some() {
  std::size_t budget = kReadBudget;
  while (!is_paused_ && budget > 0) {
    // The message that waited may be complete, with nothing staged behind it.
    if (std::exchange(is_resuming_, false) || !staged_.empty()) {
      if (!consume(std::exchange(staged_, {}))) return false;
      continue;
    }
    const MutableBytes open = parser_.open_buffer();
    const bool is_direct = open.size() >= kDirectBytes;
    const IoResult result = stream_->read(is_direct ? open : MutableBytes(staging_));
    if (result.state == IoState::kAgain) return false;
    if (result.state == IoState::kFailed && state_ == State::kGreeting &&
        result.why.starts_with("TLS")) {
      // Its part of the handshake came after ours.
      end(named(ErrorCode::kInvalidArgument,
                fmt::format("refuses this side's certificate: {}", result.why)));
      return false;
    }
    if (result.state != IoState::kDone) {
      on_stream_end(result.why.empty() ? "is gone" : "is gone: " + result.why);
      return false;
    }
    if (state_ == State::kGreeting && !parser_.is_inside() &&
        is_tls_record(ConstBytes(staging_).first(is_direct ? 0 : result.bytes))) {
      refuse(named(ErrorCode::kInvalidArgument, kPeerHasTls));
      return false;
    }
    heard_ = Clock::now();
    budget -= std::min(budget, result.bytes);
    if (is_direct) {
      parser_.advance(result.bytes);
      if (!consume({})) return false;
    } else if (!consume(ConstBytes(staging_).first(result.bytes))) {
      return false;
    }
  }
  return !is_paused_;
}

// False: the connection has ended. What is left while it pauses waits in staged_.
bool StreamConnection::consume(ConstBytes bytes) {
  for (;;) {
    const bool was_inside = parser_.is_inside();
    const FrameEvent event = parser_.feed(bytes);
    if (!was_inside && parser_.is_inside()) message_began_ = heard_;
    if (event == FrameEvent::kMore) return true;
    if (is_closed_ || !on_event(event)) return false;
    if (is_paused_) {
      staged_ = bytes;
      return true;
    }
  }
}

bool StreamConnection::on_event(FrameEvent event) {
  switch (event) {
    case FrameEvent::kMore:
      return true;
    case FrameEvent::kSignal:
      return on_signal(parser_.take_signal());
    case FrameEvent::kHead:
      return on_head();
    case FrameEvent::kMessage:
      return on_message();
    case FrameEvent::kRefused:
      end(named(ErrorCode::kInvalidArgument, parser_.error().message));
      return false;
  }
  return true;
}

bool StreamConnection::on_signal(FrameKind kind) {
  if (state_ == State::kGreeting) {
    if (kind != FrameKind::kGreeting) {
      end(named(ErrorCode::kInvalidArgument, "it began without a greeting"));
      return false;
    }
    handlers_ = on_open_(shared_from_this());
    const std::lock_guard lock(mutex_);
    if (state_ != State::kGreeting) return false;
    state_ = State::kOpen;
    changed_.notify_all();
    return true;
  }
  if (kind == FrameKind::kGreeting) {
    end(named(ErrorCode::kInvalidArgument, "a second greeting"));
    return false;
  }
  if (kind == FrameKind::kFarewell) {
    end(named(ErrorCode::kUnavailable, "closed the connection"));
    return false;
  }
  return true;
}

bool StreamConnection::on_head() {
  if (state_ == State::kGreeting) {
    end(named(ErrorCode::kInvalidArgument, "it began without a greeting"));
    return false;
  }
  if (!is_placed_ && handlers_.on_head) {
    Result<Placement> given = handlers_.on_head(*this, parser_.head());
    if (!given.ok()) {
      end(std::move(given).error().with_context("peer " + name_));
      return false;
    }
    placement_ = std::move(given).value();
  }
  is_placed_ = true;
  return place_message();
}

// Pauses where the application holds too much.
bool StreamConnection::place_message() {
  const IncomingHead head = parser_.head();
  const bool is_own = placement_.empty();
  std::size_t own_bytes = 0;
  for (const std::uint64_t size : head.buffer_bytes) {
    if (is_own) own_bytes += round_up_to_line(size);
  }
  const std::size_t held = own_bytes + head.header.size();
  if (!account_->take(limits_, held)) {
    is_paused_ = true;
    return true;
  }
  try {
    memory_ = std::make_shared<HeldMemory>(
        pool_, own_bytes, [account = account_, held] { account->give_back(held); });
  } catch (const std::bad_alloc&) {
    account_->give_back(held);
    end(named(ErrorCode::kDoesNotFit, fmt::format("no memory for a message of {} bytes", held)));
    return false;
  }
  std::byte* next = memory_->data();
  for (const std::uint64_t size : head.buffer_bytes) {
    if (!is_own) break;
    placement_.emplace_back(next, size);
    next += round_up_to_line(size);
  }
  parser_.place(std::exchange(placement_, {}));
  is_placed_ = false;
  return true;
}

bool StreamConnection::on_message() {
  IncomingMessage message = parser_.take_message();
  message.memory = std::move(memory_);
  memory_ = nullptr;
  if (handlers_.on_message) handlers_.on_message(*this, std::move(message));
  return !has_ended();
}

void StreamConnection::on_stream_end(const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closing_ && queue_.empty()) is_closed_ = true;
  }
  if (is_closed_) {
    end(named(ErrorCode::kUnavailable, kClosedHere));
    return;
  }
  if (parser_.is_inside()) {
    end(named(ErrorCode::kUnavailable,
              fmt::format("{}, in the middle of a message: {} of {} bytes came", what,
                          parser_.taken_bytes(),
                          parser_.frame_bytes() == 0 ? "an unknown number of"
                                                     : std::to_string(parser_.frame_bytes()))));
    return;
  }
  end(named(ErrorCode::kUnavailable, what));
}

void StreamConnection::on_tick(Clock::time_point now) {
  if (!has_ended()) check_times(now);
}

void StreamConnection::check_times(Clock::time_point now) {
  State state;
  std::size_t waiting = 0;
  bool is_leaving = false;
  Clock::time_point taken, sent;
  {
    const std::lock_guard lock(mutex_);
    state = state_;
    waiting = queue_.empty() ? 0 : std::max<std::size_t>(queue_bytes_, 1);
    is_leaving = is_closing_ && queue_.empty();
    taken = taken_;
    sent = sent_;
  }
  if (state != State::kOpen) {
    if (now - began_ > limits_.handshake_time) {
      end(named(ErrorCode::kUnavailable,
                fmt::format("no greeting within {} ms", limits_.handshake_time.count())));
    }
    return;
  }
  if (is_leaving && now - taken > limits_.progress_time) {
    end(named(ErrorCode::kUnavailable, kClosedHere));
    return;
  }
  if (waiting > 0 && now - taken > limits_.progress_time) {
    end(named(ErrorCode::kUnavailable, fmt::format("took nothing for {} ms while {} bytes waited",
                                                   elapsed_ms(taken, now), waiting)));
    return;
  }
  if (!is_paused_ && parser_.is_inside()) {
    const bool is_stuck = now - heard_ > limits_.progress_time;
    if (is_stuck || now - message_began_ > limits_.message_time) {
      end(named(ErrorCode::kUnavailable,
                fmt::format("sent {} of {} bytes of a message in {} ms{}", parser_.taken_bytes(),
                            parser_.frame_bytes(), elapsed_ms(message_began_, now),
                            is_stuck ? ", and then nothing" : "")));
      return;
    }
  }
  if (!is_paused_ && now - heard_ > limits_.silence_time) {
    end(named(ErrorCode::kUnavailable, fmt::format("silent for {} ms", elapsed_ms(heard_, now))));
    return;
  }
  if (waiting == 0 && now - sent > limits_.silence_time / 3) {
    {
      const std::lock_guard lock(mutex_);
      push({.head = encode_signal(FrameKind::kAlive)});
    }
    flush();
  }
}

void StreamConnection::on_loop_end() {
  end(named(ErrorCode::kUnavailable, "this side's transport has ended"));
}

// Once, on the loop's thread.
void StreamConnection::end(const Error& error) {
  Done done;
  std::deque<Pending> queue;  // until the stream, which may still read what it took, has let go
  bool was_open = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    was_open = state_ == State::kOpen;
    state_ = State::kEnded;
    ended_because_ = error;
    for (Pending& pending : queue_) {
      if (pending.done) done.push_back(std::move(pending.done));
    }
    queue.swap(queue_);
    queue_bytes_ = queue_messages_ = 0;
    changed_.notify_all();
  }
  const auto kept = shared_from_this();
  loop_->remove(id_);
  stream_->shut();
  queue.clear();
  for (const auto& each : done) each(Status(error));
  memory_ = nullptr;
  if (was_open && handlers_.on_end) handlers_.on_end(*this, error);
  if (on_closed_) on_closed_();
  // What they hold may hold this connection.
  handlers_ = {};
  on_open_ = nullptr;
  on_closed_ = nullptr;
  const std::lock_guard lock(mutex_);
  has_returned_ = true;
  changed_.notify_all();
}

Status StreamConnection::wait_until_open(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const bool is_decided = changed_.wait_until(
      lock, deadline, [this] { return state_ == State::kOpen || state_ == State::kEnded; });
  if (!is_decided) return named(ErrorCode::kUnavailable, "no greeting in time");
  if (ended_because_) return *ended_because_;
  return {};
}

void StreamConnection::wait_until_ended() {
  if (loop_->is_own_thread()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_returned_; });
}

bool StreamConnection::has_ended() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kEnded;
}

Connection::Queue StreamConnection::queue() const {
  const std::lock_guard lock(mutex_);
  return {.bytes = queue_bytes_, .messages = queue_messages_};
}

void StreamConnection::push(Pending pending) {
  pending.bytes = pending.head.size();
  for (const ConstBytes buffer : pending.buffers) pending.bytes += buffer.size();
  if (queue_.empty()) taken_ = Clock::now();
  queue_bytes_ += pending.bytes;
  ++queue_messages_;
  queue_.push_back(std::move(pending));
}

bool StreamConnection::has_room(std::size_t bytes) const {
  return queue_.empty() || (queue_bytes_ + bytes <= limits_.send_bytes &&
                            queue_messages_ + 1 <= limits_.send_messages);
}

Error StreamConnection::no_room(Milliseconds timeout) const {
  return named(
      ErrorCode::kUnavailable,
      fmt::format("no room for a message within {} ms: {} messages with {} bytes wait, and "
                  "it took nothing for {} ms",
                  timeout.count(), queue_messages_, queue_bytes_,
                  elapsed_ms(taken_, Clock::now())));
}

Status StreamConnection::send(OutgoingMessage message, Milliseconds timeout) {
  std::uint64_t bytes = 0;
  for (const ConstBytes buffer : message.buffers) bytes += buffer.size();
  TESSERA_RETURN_IF_ERROR(
      check_message(limits_, message.header.size(), message.buffers.size(), bytes));
  Pending pending{.head = encode_message(message.header, message.buffers),
                  .buffers = std::move(message.buffers),
                  .done = std::move(message.done)};
  std::erase_if(pending.buffers, [](ConstBytes buffer) { return buffer.empty(); });
  const std::size_t whole = pending.head.size() + bytes;
  const Milliseconds wait = loop_->is_own_thread() ? Milliseconds(0) : timeout;
  Done done;
  {
    std::unique_lock lock(mutex_);
    const bool is_decided = changed_.wait_until(lock, deadline_after(wait), [&] {
      return state_ == State::kEnded || is_closing_ || has_room(whole);
    });
    if (state_ == State::kEnded) return ended_because_->with_context("send");
    if (is_closing_) return named(ErrorCode::kUnavailable, "send: this side closes the connection");
    if (!is_decided) return no_room(wait);
    push(std::move(pending));
    write_locked(done);
  }
  for (const auto& each : done) each({});
  return {};
}

void StreamConnection::flush() {
  Done done;
  {
    const std::lock_guard lock(mutex_);
    write_locked(done);
  }
  for (const auto& each : done) each({});
}

std::size_t StreamConnection::gather(std::vector<iovec>& parts) const {
  std::size_t bytes = 0;
  const auto add = [&](ConstBytes part, std::size_t& skip) {
    const std::size_t skipped = std::min(skip, part.size());
    skip -= skipped;
    part = part.subspan(skipped);
    if (part.empty() || parts.size() == kPartsMax) return;
    parts.push_back({const_cast<std::byte*>(part.data()), part.size()});
    bytes += part.size();
  };
  for (const Pending& pending : queue_) {
    if (parts.size() == kPartsMax) break;
    std::size_t skip = pending.written;
    add(pending.head, skip);
    for (const ConstBytes buffer : pending.buffers) add(buffer, skip);
  }
  return bytes;
}

void StreamConnection::take_written(std::size_t bytes, Done& done) {
  taken_ = sent_ = Clock::now();
  queue_bytes_ -= bytes;
  while (bytes > 0) {
    Pending& first = queue_.front();
    const std::size_t count = std::min(bytes, first.bytes - first.written);
    first.written += count;
    bytes -= count;
    if (first.written < first.bytes) break;
    if (first.done) done.push_back(std::move(first.done));
    queue_.pop_front();
    --queue_messages_;
  }
  changed_.notify_all();
}

// An error shows where it is read, with its reason.
void StreamConnection::write_locked(Done& done) {
  if (state_ == State::kHandshake || state_ == State::kEnded) return;
  std::vector<iovec> parts;
  while (!queue_.empty()) {
    parts.clear();
    gather(parts);
    const IoResult result = stream_->write(parts);
    if (result.state != IoState::kDone) return;
    take_written(result.bytes, done);
  }
}

void StreamConnection::close() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    is_closing_ = is_closed_ = true;
    const bool is_between = queue_.empty() || queue_.front().written == 0;
    if (state_ == State::kOpen && is_between) {
      static const std::vector<std::byte> farewell = encode_signal(FrameKind::kFarewell);
      const iovec part{const_cast<std::byte*>(farewell.data()), farewell.size()};
      (void)stream_->write(std::span(&part, 1));  // as far as it goes
    }
  }
  loop_->post([self = shared_from_this()] {
    self->end(self->named(ErrorCode::kUnavailable, kClosedHere));
  });
}

void StreamConnection::close_when_sent() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded || is_closing_) return;
    is_closing_ = true;
    push({.head = encode_signal(FrameKind::kFarewell)});
    changed_.notify_all();
  }
  flush();
}

}  // namespace tessera::transport

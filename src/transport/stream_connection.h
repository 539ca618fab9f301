// A connection over a stream of bytes, whatever the medium.
//
//   handshake ─► greeting ─► open ─► ended
//
// Reading and all callbacks happen on the loop's thread. Writing happens on the thread that sends, and
// on the loop's when the peer takes more.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/connection.h"
#include "transport/frame.h"
#include "transport/loop.h"
#include "transport/memory_pool.h"
#include "transport/stream.h"

namespace tessera::transport {

class StreamConnection : public Connection,
                         public Pollable,
                         public std::enable_shared_from_this<StreamConnection> {
 public:
  // Called on the loop's thread when the peer has greeted, before any other callback.
  using OnOpen = std::function<Handlers(const std::shared_ptr<StreamConnection>&)>;
  struct Parts {
    std::shared_ptr<Loop> loop;  // shared by the transport and all its connections
    std::shared_ptr<MemoryPool> pool;
    Limits limits;
    std::unique_ptr<ByteStream> stream;
    OnOpen on_open;
    std::function<void()> on_closed;  // at the end, whether it was open or not; may be empty
    std::function<void(const Peer&, const Error&)>
        on_refused{};  // by its handshake, or as one of two has TLS
  };
  explicit StreamConnection(Parts parts);

  // On the loop's thread.
  void start();
  bool on_ready() override;
  void on_tick(Clock::time_point now) override;
  void on_loop_end() override;

  // Waits until it is open: nothing, or why it is not.
  Status wait_until_open(Clock::time_point deadline);
  // Waits until on_end has returned; on the loop's thread it does not wait.
  void wait_until_ended();

  Status send(OutgoingMessage message, Milliseconds timeout) override;
  Queue queue() const override;
  const Peer& peer() const override { return peer_; }
  void close() override;
  void close_when_sent() override;
  bool has_ended() const override;

 private:
  enum class State { kHandshake, kGreeting, kOpen, kEnded };
  struct Pending {
    std::vector<std::byte> head{};  // frame head, sizes, header
    std::vector<ConstBytes> buffers{};
    std::function<void(const Status&)> done{};
    std::size_t bytes = 0;    // of head and buffers
    std::size_t written = 0;  // of `bytes`
  };
  using Done = std::vector<std::function<void(const Status&)>>;

  // Reading, on the loop's thread. False: it waits for an edge, or has ended.
  bool read_some();
  bool consume(ConstBytes bytes);
  bool on_event(FrameEvent event);
  bool on_signal(FrameKind kind);
  bool on_head();
  bool on_message();
  bool place_message();
  void on_stream_end(const std::string& what);
  void resume_reading();
  struct Account;

  // Writing, with mutex_.
  void push(Pending pending);
  void write_locked(Done& done);
  std::size_t gather(std::vector<iovec>& parts) const;
  void take_written(std::size_t bytes, Done& done);
  bool has_room(std::size_t bytes) const;
  void flush();
  Error no_room(Milliseconds timeout) const;

  void end(const Error& error);
  void refuse(const Error& error);  // who came in is told of; then likewise
  Error named(ErrorCode code, const std::string& what) const;
  void check_times(Clock::time_point now);

  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<MemoryPool> pool_;
  const Limits limits_;
  const std::unique_ptr<ByteStream> stream_;
  OnOpen on_open_;
  std::function<void()> on_closed_;
  const std::function<void(const Peer&, const Error&)> on_refused_;
  Peer peer_;
  std::string name_;

  // Of the loop's thread.
  Loop::Id id_ = 0;
  Handlers handlers_;
  FrameParser parser_;
  std::vector<std::byte> staging_;
  ConstBytes staged_;  // read and not yet consumed
  bool is_paused_ = false;
  bool is_resuming_ = false;          // what was left while it paused comes first
  std::shared_ptr<Account> account_;  // shared with the messages that are held
  // Of the message that is coming: on_head was asked, and what it said.
  bool is_placed_ = false;
  Placement placement_;
  std::shared_ptr<HeldMemory> memory_;  // shared with nobody; the message takes it along
  const Clock::time_point began_ = Clock::now();
  Clock::time_point heard_ = began_, message_began_ = began_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kHandshake;
  bool has_returned_ = false;            // on_end has
  std::atomic<bool> is_closed_ = false;  // close(): nothing more is read
  bool is_closing_ = false;              // close_when_sent()
  std::optional<Error> ended_because_;
  std::deque<Pending> queue_;
  std::size_t queue_bytes_ = 0, queue_messages_ = 0;
  Clock::time_point taken_ = began_, sent_ = began_;
};

}  // namespace tessera::transport

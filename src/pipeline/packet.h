// What travels through a pipeline: a packet holds all that every stage needs for one task.
//
//   pool ─► take() ─► [stage 0] ─► [stage 1] ─► ... ─► sink ─► back to the pool
//
// A packet is moved from owner to owner and never shared, and none depends on another. What a task
// needs beyond the header is declared by the packet type of its kind of accelerator, in one place
// (runtime/network_packet.h, runtime/operation_packet.h). The one thing a packet looks at outside
// itself is the flag by which its job is ended.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"

namespace tessera::pipeline {

// Of std::chrono::steady_clock.
using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kNoDeadline = INT64_MAX;
Nanoseconds now();

inline constexpr std::size_t kStagesMax = 16;
// Of two packets that wait before a stage the one of the higher priority goes first.
inline constexpr int kPriorityMin = -7, kPriorityMax = 7;

struct PacketHeader {
  std::uint64_t id = 0;              // of the task, unique in a process
  std::uint32_t stream = 0;          // whose tasks come out in the order they went in
  std::uint64_t sequence = 0;        // within its stream, from 0
  std::uint32_t skipped_stages = 0;  // bit s: stage s is passed by
  int priority = 0;                  // kPriorityMin..kPriorityMax
  Nanoseconds submitted = 0;
  Nanoseconds deadline = kNoDeadline;
  // Its job was cancelled, or is late, and has its outcome. Outlives the packet's way; may be null.
  const std::atomic<bool>* ended = nullptr;
};

// Why a task has no result.
enum class Failure : std::uint8_t {
  kNone,
  kError,      // its own: a bad input, an operator that failed
  kCancelled,  // by the caller
  kDeadline,   // passed first
  kDevice,     // the device failed, hung or lost it
  kMismatch,   // two devices gave different bits
};

// Time a packet spent before and in a stage.
struct StageTime {
  Nanoseconds queued = 0, busy = 0;
};

class Packet {
 public:
  virtual ~Packet() = default;

  PacketHeader header;
  Failure failure = Failure::kNone;
  std::uint8_t failed_stage = 0;  // where, if it failed
  Error error;                    // if it failed; its text is made where it failed
  std::array<StageTime, kStagesMax> times{};
  Nanoseconds queued_since = 0;  // in the queue it is in now
  bool from_outside = false;     // into that queue; else from the stage before
  int open_work = -1;            // the observer's own, while a keeper has it

  // It needs no more work and no notice: it is late or cancelled, and whatever found that
  // ended its job.
  bool unwanted() const {
    return header.ended != nullptr && header.ended->load(std::memory_order_acquire);
  }
  void fail(Failure why, Error what) {
    failure = why;
    error = std::move(what);
  }
  // With the exception that is being handled: memory that ended, mostly.
  void fail_with_exception() noexcept;
  // Ready for another task. A packet type gives up what the task held; room it made may stay.
  virtual void clear();

 protected:
  Packet() = default;
};

// Hands out packets and takes them back, so that a pipeline in motion allocates none. Thread-safe;
// outlives its packets.
class PacketPool {
 public:
  using Factory = std::function<std::unique_ptr<Packet>()>;
  explicit PacketPool(Factory factory) : factory_(std::move(factory)) {}

  struct GiveBack {
    PacketPool* pool = nullptr;
    void operator()(Packet* packet) const { pool->give_back(packet); }
  };
  using Pointer = std::unique_ptr<Packet, GiveBack>;

  Pointer take();
  std::size_t made() const;  // packets that exist

 private:
  void give_back(Packet* packet);

  const Factory factory_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Packet>> all_;
  std::vector<Packet*> free_;
};

using PacketPtr = PacketPool::Pointer;

}  // namespace tessera::pipeline

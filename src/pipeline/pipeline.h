// Packets through stages: while one packet executes, the next is prepared and the one before is
// finished, so that the processor never waits.
//
//   enter() ─► [queue | stage 0] ─► [queue | stage 1] ─► ... ─► sink
//                 own threads          own threads
//
// A packet passes stages by that its header names, and all that are left once it failed, was
// cancelled or is late; those of a higher priority go first wherever they wait. Hand-over is
// bounded: handing to a full stage waits, and since packets only go forward there is no deadlock.
//
//   free flow   a packet goes on as soon as its stage is done with it and the next has room
//   lock step   time is cut into slots as long as the longest stage takes; all packets move on
//               together when the last is done. The form of the source document, to compare with
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "pipeline/packet.h"
#include "pipeline/stage.h"

namespace tessera::pipeline {

enum class FlowKind : std::uint8_t { kFreeFlow, kLockStep };

// Where packets go when they are done. Called by threads of stages, several at once; throws
// nothing.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void finished(PacketPtr packet) = 0;
};

// The events of a running pipeline; called by the threads of the stages, throws nothing. For
// metrics.
class StageObserver {
 public:
  virtual ~StageObserver() = default;
  // Before the function works on a batch; ran() follows on the same thread.
  virtual void begins(std::size_t /*stage*/, Nanoseconds /*begin*/) {}
  // Packets came into the queue of a stage or went out of it; `depth` was read after `at`, so the
  // latest call has the current depth.
  virtual void queue_changed(std::size_t /*stage*/, Nanoseconds /*at*/, std::size_t /*depth*/) {}
  virtual void ran(std::size_t stage, Nanoseconds begin, Nanoseconds end,
                   std::span<const PacketPtr> batch) = 0;
  // The same for one packet of a keeper; by any threads.
  virtual void keeps(std::size_t /*stage*/, Packet& /*packet*/) {}
  virtual void kept(std::size_t /*stage*/, Nanoseconds /*begin*/, Nanoseconds /*end*/,
                    Packet& /*packet*/) {}
};

struct PipelineConfig {
  std::vector<StageConfig> stages = {};  // 1..kStagesMax
  FlowKind handover = FlowKind::kFreeFlow;
  Sink* sink = nullptr;               // outlives the pipeline
  StageObserver* observer = nullptr;  // outlives the pipeline; may be null
};

// The stages in a row, and what lies behind the last. What both ways of handing over share.
class Line {
 public:
  explicit Line(PipelineConfig config);

  std::size_t size() const { return stages_.size(); }
  Stage& stage(std::size_t index) { return *stages_[index]; }
  // Where the packet goes from `stage`; size(): to the sink. For one that enters, `first_stage`.
  std::size_t next_stage(const Packet& packet, std::size_t stage) const;
  std::size_t first_stage(const Packet& packet) const;
  // Runs the stage on the batch, less those that were cancelled or are late.
  void run(std::size_t stage, std::span<PacketPtr> batch);
  void finish(PacketPtr packet);
  // Those that are not null fail with the exception that is being handled.
  void finish_failed(std::span<PacketPtr> packets);
  // To be called when packets have come into the stage's queue.
  void queue_changed(std::size_t stage);
  // The same for a keeper's packets, one by one: begin() notes the failure of one that was
  // cancelled or is late, which the caller finishes without end().
  void begin(std::size_t stage, Packet& packet);
  void end(std::size_t stage, const PacketPtr& packet);
  // The packet was cancelled or is late before the stage.
  void leave(std::size_t stage, PacketPtr packet);
  // Takes out of the stage's queue those that were cancelled or are late, and finishes them. In a
  // long queue some may be left, which are not worked on.
  void sweep(std::size_t stage);
  // Packets before the stages in front of this one, if its own queue has no room for them.
  std::size_t held_up(std::size_t stage);

  void entered(std::size_t count) { inside_.fetch_add(count, std::memory_order_relaxed); }
  void left();  // taken back: it did not come in
  std::size_t inside() const { return inside_.load(std::memory_order_acquire); }
  // Waits until all that entered has reached the sink.
  void wait_until_empty();

 private:
  std::size_t next_from(const Packet& packet, std::size_t stage) const;

  std::vector<std::unique_ptr<Stage>> stages_;
  Sink& sink_;
  StageObserver* const observer_;
  std::atomic<std::size_t> inside_{0};
};

// One of the two ways of handing over. Where memory ends, enter() and enter_now() throw and the
// packet stays with the caller.
class Flow {
 public:
  virtual ~Flow() = default;
  virtual void enter(std::size_t stage, std::span<PacketPtr> packets) = 0;
  virtual bool try_enter(std::size_t stage, PacketPtr& packet) = 0;
  virtual void enter_now(std::size_t stage, PacketPtr& packet) = 0;
  // Into a keeper's stage, where the caller does its work next. False: it cannot; the packet stays.
  virtual bool enter_quietly(std::size_t /*stage*/, PacketPtr& /*packet*/) { return false; }
  virtual void work(std::size_t stage, const std::atomic<bool>& leave) = 0;
  virtual StagePort& port(std::size_t stage) = 0;  // of a keeper
  virtual void wake(std::size_t stage) = 0;
  virtual void close() = 0;  // all loops end; the line is empty
};
std::unique_ptr<Flow> make_free_flow(Line& line);
std::unique_ptr<Flow> make_lock_step(Line& line);

// Thread-safe.
class PacketPipeline {
 public:
  static Result<std::unique_ptr<PacketPipeline>> create(PipelineConfig config);
  ~PacketPipeline();  // waits for what is inside; entering is over

  // Waits for room in the packet's first stage.
  void enter(PacketPtr packet);
  // False: there is no room, the packet stays with the caller.
  bool try_enter(PacketPtr& packet);
  // Never waits; the caller bounds how many packets are inside. `time` is now. `in_place`: a packet
  // that is alone and short (Keeper::is_short) is worked on here, up to the sink.
  void enter_now(PacketPtr packet, Nanoseconds time = now(), bool in_place = false);
  void wait_until_empty() { line_.wait_until_empty(); }
  // Jobs were cancelled, or their deadlines passed: their packets leave at once, but for those that
  // a stage's function has in its hands.
  void sweep();

  std::size_t stages() const { return line_.size(); }
  const StageConfig& config(std::size_t stage) { return line_.stage(stage).config(); }
  StageCounters counters(std::size_t stage) { return line_.stage(stage).counters(); }
  std::size_t queued(std::size_t stage) { return line_.stage(stage).queue().size(); }
  std::size_t inside() const { return line_.inside(); }
  // 1..kThreadsMax, while packets flow; none is lost. The threads are OwnThread(this).
  Status set_threads(std::size_t stage, int threads);

 private:
  PacketPipeline(FlowKind handover, PipelineConfig config);
  Status start();
  bool work_in_place(std::size_t stage, PacketPtr& packet);

  Line line_;
  std::unique_ptr<Flow> flow_;
};

}  // namespace tessera::pipeline

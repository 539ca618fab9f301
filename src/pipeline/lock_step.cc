// Lock step: time is cut into slots. At its begin every stage is given what it will do in the slot,
// at most one batch per thread; at its end, when the last stage is done, all packets move on
// together.
//
//   slot      1        2        3        4
//   stage 0   A        B        C        D
//   stage 1            A        B        C       a slot lasts as long as its longest stage
//   stage 2                     A        B
//
// The thread that finishes a slot begins the next one, so there is no thread for the clock. While
// nothing is inside no slot runs; the packet that enters then begins one. A keeper is given as many
// packets in a slot as its threads would be, and the slot ends when it has given them all back.
// Where memory ends, a slot waits until there is some again.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include "pipeline/pipeline.h"

namespace tessera::pipeline {
namespace {

using Batch = std::vector<PacketPtr>;

// step(), again and again until there is the memory that it takes.
template <typename Step>
void when_there_is_memory(const Step& step) {
  for (;;) {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

class LockStep : public Flow {
 public:
  explicit LockStep(Line& line) : line_(line), lanes_(line.size()) {
    ports_.reserve(line.size());
    for (std::size_t stage = 0; stage < line.size(); ++stage) ports_.emplace_back(*this, stage);
  }

  void enter(std::size_t stage, std::span<PacketPtr> packets) override {
    line_.stage(stage).queue().push(packets);
    begin_if_still();
  }
  bool try_enter(std::size_t stage, PacketPtr& packet) override {
    if (!line_.stage(stage).queue().try_push(packet)) return false;
    begin_if_still();
    return true;
  }
  void enter_now(std::size_t stage, PacketPtr& packet) override {
    line_.stage(stage).queue().enter(std::move(packet));
    line_.queue_changed(stage);
    begin_if_still();
  }
  void wake(std::size_t stage) override {
    const std::lock_guard lock(mutex_);
    lanes_[stage].work.notify_all();
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (Lane& lane : lanes_) lane.work.notify_all();
  }
  StagePort& port(std::size_t stage) override { return ports_[stage]; }

  void work(std::size_t stage, const std::atomic<bool>& leave) override {
    Lane& lane = lanes_[stage];
    if (const auto& keeper = line_.stage(stage).config().keeper) {
      while (wait_for_poke(lane, leave)) keeper->work();
      return;
    }
    std::unique_lock lock(mutex_);
    while (true) {
      lane.work.wait(lock, [&] { return leave || closed_ || !lane.given.empty(); });
      // A leaving thread passes its wake-up on; the last one takes what is left in the slot.
      if (closed_) return;
      if (leave) return lane.work.notify_one();
      Batch batch = std::move(lane.given.front());
      lane.given.pop_front();
      lock.unlock();
      line_.run(stage, batch);
      lock.lock();
      done(lane, batch, 1, lock);
    }
  }

 private:
  struct Lane {
    std::deque<Batch> given;  // for this slot, not taken yet
    Batch kept;               // the same, for a keeper; the first in front
    Batch done;               // in this slot; or in earlier ones, while the next stage is full
    bool poked = false;
    std::condition_variable work;
  };

  class Port : public StagePort {
   public:
    Port(LockStep& flow, std::size_t stage) : flow_(flow), stage_(stage) {}
    PacketPtr take(End end) override { return flow_.take(stage_, end); }
    PacketPtr take_handed() override { return nullptr; }  // what a slot has is given at once
    void drop(PacketPtr packet) override { flow_.give_back(stage_, std::move(packet)); }
    std::size_t waiting() const override {
      const std::lock_guard lock(flow_.mutex_);
      return flow_.lanes_[stage_].kept.size();
    }
    int highest_priority() const override {
      const std::lock_guard lock(flow_.mutex_);
      const Batch& kept = flow_.lanes_[stage_].kept;
      return kept.empty() ? 0 : kept.front()->header.priority;
    }
    std::size_t held_up() const override { return 0; }
    void done(PacketPtr packet) override {
      flow_.line_.end(stage_, packet);
      flow_.give_back(stage_, std::move(packet));
    }
    std::size_t held_back() const override { return 0; }  // a slot is given no more than has room
    void poke() override {
      const std::lock_guard lock(flow_.mutex_);
      LockStep::poke(flow_.lanes_[stage_]);
    }

   private:
    LockStep& flow_;
    std::size_t stage_;
  };

  bool wait_for_poke(Lane& lane, const std::atomic<bool>& leave) {
    std::unique_lock lock(mutex_);
    lane.work.wait(lock, [&] { return leave || closed_ || lane.poked; });
    if (leave) lane.work.notify_one();
    if (closed_ || leave) return false;
    lane.poked = false;
    return true;
  }
  static void poke(Lane& lane) {
    lane.poked = true;
    lane.work.notify_one();
  }

  PacketPtr take(std::size_t stage, StagePort::End end) {
    PacketPtr packet;
    {
      const std::lock_guard lock(mutex_);
      Batch& kept = lanes_[stage].kept;
      if (kept.empty()) return nullptr;
      const auto place = end == StagePort::End::kFirst ? kept.begin() : std::prev(kept.end());
      packet = std::move(*place);
      kept.erase(place);
    }
    line_.begin(stage, *packet);
    return packet;
  }
  void give_back(std::size_t stage, PacketPtr packet) {
    std::unique_lock lock(mutex_);
    done(lanes_[stage], {&packet, 1}, 1, lock);
  }

  // `parts` of what is outstanding are done with these packets; ends the slot with the last. With
  // the lock held, but not while packets leave.
  void done(Lane& lane, std::span<PacketPtr> packets, std::size_t parts,
            std::unique_lock<std::mutex>& lock) {
    when_there_is_memory([&] { lane.done.reserve(lane.done.size() + packets.size()); });
    for (PacketPtr& packet : packets) lane.done.push_back(std::move(packet));
    outstanding_ -= parts;
    if (outstanding_ > 0) return;
    Batch finished;
    when_there_is_memory([&] { finished.reserve(done_in_all()); });
    // Where memory ended and no other slot begins, there would be no new try.
    while (true) {
      const bool moved = end_slot(finished);
      begin_slot();
      if (moved || outstanding_ > 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    lock.unlock();
    for (PacketPtr& packet : finished) line_.finish(std::move(packet));
    lock.lock();
  }

  void begin_if_still() {
    const std::lock_guard lock(mutex_);
    if (outstanding_ == 0) begin_slot();
  }

  std::size_t done_in_all() const {
    std::size_t count = 0;
    for (const Lane& lane : lanes_) count += lane.done.size();
    return count;
  }

  // Moves on what is done; what leaves the pipeline goes to `finished`, which has room for all.
  // False: for some there was no memory.
  bool end_slot(Batch& finished) {
    bool moved = true;
    for (std::size_t stage = line_.size(); stage-- > 0;) {
      Batch& done = lanes_[stage].done;
      for (PacketPtr& packet : done) {
        const std::size_t next = line_.next_stage(*packet, stage);
        if (next == line_.size()) {
          finished.push_back(std::move(packet));
        } else {
          try {
            line_.stage(next).queue().try_push(packet);  // or it stays, and is tried again
          } catch (const std::bad_alloc&) {              // likewise
            moved = false;
          }
          if (packet == nullptr) line_.queue_changed(next);
        }
      }
      std::erase(done, nullptr);
    }
    return moved;
  }

  void begin_slot() {
    when_there_is_memory([this] {
      try {
        give_work();
      } catch (const std::bad_alloc&) {
        if (outstanding_ == 0) throw;  // else those that have work do it first
      }
    });
  }

  // Gives every stage its work of the slot, the last one first: what it takes is room for the one
  // before it.
  void give_work() {
    for (std::size_t stage = line_.size(); stage-- > 0;) {
      std::size_t room = SIZE_MAX;
      if (stage + 1 < line_.size()) {
        room = line_.stage(stage + 1).queue().room();
        room -= std::min(room, lanes_[stage].done.size());
      }
      if (line_.stage(stage).config().keeper != nullptr) {
        give_kept(stage, room);
      } else {
        give_batches(stage, room);
      }
    }
  }

  void give_batches(std::size_t stage, std::size_t room) {
    Stage& at = line_.stage(stage);
    std::deque<Batch>& given = lanes_[stage].given;
    for (int thread = 0; thread < at.threads() && room > 0; ++thread) {
      given.emplace_back(std::min(at.batch(), room));
      Batch& batch = given.back();
      batch.resize(at.queue().try_pop(batch));
      if (batch.empty()) return given.pop_back();
      room -= batch.size();
      ++outstanding_;
      lanes_[stage].work.notify_one();
    }
  }

  void give_kept(std::size_t stage, std::size_t room) {
    Stage& at = line_.stage(stage);
    Lane& lane = lanes_[stage];
    const std::size_t before = lane.kept.size();  // 0, but where memory ended
    const std::size_t most = static_cast<std::size_t>(at.threads()) * at.batch();
    lane.kept.resize(before + std::min({most, room, at.queue().size()}));
    const std::size_t taken = at.queue().try_pop(std::span(lane.kept).subspan(before));
    lane.kept.resize(before + taken);
    outstanding_ += taken;
    if (taken == 0) return;
    line_.queue_changed(stage);
    poke(lane);
  }

  Line& line_;
  mutable std::mutex mutex_;
  std::vector<Lane> lanes_;
  // Batches of the slot, and packets of keepers, that are not done.
  std::size_t outstanding_ = 0;
  bool closed_ = false;
  std::vector<Port> ports_;
};

}  // namespace

std::unique_ptr<Flow> make_lock_step(Line& line) { return std::make_unique<LockStep>(line); }

}  // namespace tessera::pipeline

// Free flow: a packet goes on as soon as its stage is done with it and the next one has room.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>

#include "pipeline/pipeline.h"

namespace tessera::pipeline {
namespace {

// Brings packets of `stage` to where they go next. Neighbours with the same way go together.
void hand_on(Line& line, std::size_t stage, std::span<PacketPtr> batch) {
  for (std::size_t first = 0; first < batch.size();) {
    const std::size_t next = line.next_stage(*batch[first], stage);
    std::size_t last = first + 1;
    while (last < batch.size() && line.next_stage(*batch[last], stage) == next) ++last;
    if (next < line.size()) {
      line.stage(next).queue().push(batch.subspan(first, last - first));
      line.queue_changed(next);
    } else {
      for (std::size_t i = first; i < last; ++i) line.finish(std::move(batch[i]));
    }
    first = last;
  }
}

class Port : public StagePort {
 public:
  Port(Line& line, std::size_t stage)
      : line_(line), stage_(stage), queue_(line.stage(stage).queue()) {}

  PacketPtr take(End end) override { return begin(queue_.take(end)); }
  PacketPtr take_handed() override { return begin(queue_.take_handed()); }
  void drop(PacketPtr packet) override { line_.finish(std::move(packet)); }
  std::size_t waiting() const override { return queue_.size(); }
  int highest_priority() const override { return queue_.highest_priority(); }
  std::size_t held_up() const override { return line_.held_up(stage_); }
  void done(PacketPtr packet) override {
    line_.end(stage_, packet);
    const std::size_t next = line_.next_stage(*packet, stage_);
    if (next == line_.size()) return line_.finish(std::move(packet));
    try {
      if (push(packet, next)) return line_.queue_changed(next);
    } catch (...) {
      return line_.finish_failed({&packet, 1});
    }
    poke();  // there may have been room meanwhile
  }
  std::size_t held_back() const override { return count_.load(std::memory_order_acquire); }
  void poke() override { queue_.poke(); }

  // Those that were held back go on, as far as there is room: by a thread of the stage that was
  // poked, before it works.
  void hand_on_held_back() {
    while (held_back() > 0) {
      PacketPtr packet;  // leaves the pipeline
      std::size_t next = 0;
      try {
        if (!take_held_back(packet, next)) return;
      } catch (...) {
        line_.finish_failed({&packet, 1});
        continue;
      }
      if (packet != nullptr) {
        line_.leave(next, std::move(packet));
      } else {
        line_.queue_changed(next);
      }
    }
  }

 private:
  PacketPtr begin(PacketPtr packet) {
    if (packet == nullptr) return nullptr;
    line_.queue_changed(stage_);
    line_.begin(stage_, *packet);
    return packet;
  }
  // False: it is held back.
  bool push(PacketPtr& packet, std::size_t next) {
    const std::lock_guard lock(mutex_);
    const bool behind = std::any_of(
        held_back_.begin(), held_back_.end(),
        [&](const PacketPtr& other) { return line_.next_stage(*other, stage_) == next; });
    if (!behind && line_.stage(next).queue().try_push(packet, stage_)) return true;
    hold_back(packet);
    return false;
  }
  // The first of the highest priority in front.
  void hold_back(PacketPtr& packet) {
    held_back_.reserve(held_back_.size() + 1);
    const auto place = std::find_if(held_back_.begin(), held_back_.end(), [&](const auto& other) {
      return other->header.priority < packet->header.priority;
    });
    held_back_.insert(place, std::move(packet));
    count_.store(held_back_.size(), std::memory_order_release);
  }
  // One went to `next`, or is to leave before it; false: there was none. Where there is no memory
  // for one it throws with the packet in `leaves`.
  bool take_held_back(PacketPtr& leaves, std::size_t& next) {
    const std::lock_guard lock(mutex_);
    for (auto place = held_back_.begin(); place != held_back_.end(); ++place) {
      next = line_.next_stage(**place, stage_);
      PacketPtr packet = std::move(*place);
      const bool unwanted = packet->unwanted();
      bool gone = unwanted;
      try {
        gone = gone || line_.stage(next).queue().try_push(packet, stage_);
      } catch (...) {
        leaves = std::move(packet);
        remove(place);
        throw;
      }
      if (unwanted) leaves = std::move(packet);
      if (gone) {
        remove(place);
        return true;
      }
      *place = std::move(packet);
    }
    return false;
  }
  void remove(std::vector<PacketPtr>::iterator place) {
    held_back_.erase(place);
    count_.store(held_back_.size(), std::memory_order_release);
  }

  Line& line_;
  const std::size_t stage_;
  StageQueue& queue_;
  std::mutex mutex_;  // of what follows; before a queue's
  std::vector<PacketPtr> held_back_;
  std::atomic<std::size_t> count_{0};
};

class FreeFlow : public Flow, private StageQueue::RoomListener {
 public:
  explicit FreeFlow(Line& line) : line_(line) {
    for (std::size_t stage = 0; stage < line.size(); ++stage) {
      ports_.emplace_back(line, stage);
      line.stage(stage).queue().set_listener(*this);
    }
  }

  void enter(std::size_t stage, std::span<PacketPtr> packets) override {
    line_.stage(stage).queue().push(packets);
  }
  bool try_enter(std::size_t stage, PacketPtr& packet) override {
    return line_.stage(stage).queue().try_push(packet);
  }
  void enter_now(std::size_t stage, PacketPtr& packet) override {
    line_.stage(stage).queue().enter(std::move(packet));
    line_.queue_changed(stage);
  }
  bool enter_quietly(std::size_t stage, PacketPtr& packet) override {
    line_.stage(stage).queue().enter(std::move(packet), true);
    line_.queue_changed(stage);
    return true;
  }
  void wake(std::size_t stage) override { line_.stage(stage).queue().wake(); }
  void close() override {
    for (std::size_t stage = 0; stage < line_.size(); ++stage) line_.stage(stage).queue().close();
  }
  StagePort& port(std::size_t stage) override { return ports_[stage]; }

  void work(std::size_t stage, const std::atomic<bool>& leave) override {
    Stage& at = line_.stage(stage);
    if (const auto& keeper = at.config().keeper) {
      while (at.queue().wait_for_poke(leave)) {
        ports_[stage].hand_on_held_back();
        keeper->work();
      }
      return;
    }
    std::array<PacketPtr, kBatchMax> room;
    const std::span<PacketPtr> places(room);
    while (const std::size_t count = at.queue().pop(places.first(at.batch()), leave)) {
      const std::span<PacketPtr> batch = places.first(count);
      line_.run(stage, batch);
      try {
        hand_on(line_, stage, batch);
      } catch (...) {
        line_.finish_failed(batch);
      }
    }
  }

 private:
  // A queue's lock is held, and those of earlier stages' are taken within.
  void room(std::uint32_t stages) override {
    for (std::size_t stage = 0; stage < ports_.size(); ++stage) {
      if ((stages >> stage & 1U) != 0) ports_[stage].poke();
    }
  }

  Line& line_;
  std::deque<Port> ports_;
};

}  // namespace

std::unique_ptr<Flow> make_free_flow(Line& line) { return std::make_unique<FreeFlow>(line); }

}  // namespace tessera::pipeline

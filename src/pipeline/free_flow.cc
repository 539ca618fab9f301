// Free flow: a packet goes on as soon as its stage is done with it and the next one has room.
#include <array>

#include "pipeline/pipeline.h"

namespace tessera::pipeline {
namespace {

// Brings packets of `stage` to where they go next. Neighbours with the
// same way go together.
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

  PacketPtr take(End end) override {
    PacketPtr packet = queue_.take(end);
    if (packet == nullptr) return nullptr;
    line_.queue_changed(stage_);
    line_.begin(stage_, *packet);
    return packet;
  }
  void drop(PacketPtr packet) override { line_.finish(std::move(packet)); }
  std::size_t waiting() const override { return queue_.size(); }
  int highest_priority() const override { return queue_.highest_priority(); }
  std::size_t held_up() const override { return line_.held_up(stage_); }
  void done(PacketPtr packet) override {
    line_.end(stage_, packet);
    try {
      hand_on(line_, stage_, {&packet, 1});
    } catch (...) {
      line_.finish_failed({&packet, 1});
    }
  }
  void poke() override { queue_.poke(); }

 private:
  Line& line_;
  const std::size_t stage_;
  StageQueue& queue_;
};

class FreeFlow : public Flow {
 public:
  explicit FreeFlow(Line& line) : line_(line) {
    ports_.reserve(line.size());
    for (std::size_t stage = 0; stage < line.size(); ++stage) ports_.emplace_back(line, stage);
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
  void wake(std::size_t stage) override { line_.stage(stage).queue().wake(); }
  void close() override {
    for (std::size_t stage = 0; stage < line_.size(); ++stage) line_.stage(stage).queue().close();
  }
  StagePort& port(std::size_t stage) override { return ports_[stage]; }

  void work(std::size_t stage, const std::atomic<bool>& leave) override {
    Stage& at = line_.stage(stage);
    if (const auto& keeper = at.config().keeper) {
      while (at.queue().wait_for_poke(leave)) keeper->work();
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
  Line& line_;
  std::vector<Port> ports_;
};

}  // namespace

std::unique_ptr<Flow> make_free_flow(Line& line) { return std::make_unique<FreeFlow>(line); }

}  // namespace tessera::pipeline

// Free flow: a packet goes on as soon as its stage is done with it and the next one has room.
#include <array>

#include "pipeline/pipeline.h"

namespace tessera::pipeline {
namespace {

class FreeFlow : public Flow {
 public:
  explicit FreeFlow(Line& line) : line_(line) {}

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

  void work(std::size_t stage, const std::atomic<bool>& leave) override {
    std::array<PacketPtr, kBatchMax> room;
    const std::span<PacketPtr> places(room);
    Stage& at = line_.stage(stage);
    while (const std::size_t count = at.queue().pop(places.first(at.batch()), leave)) {
      const std::span<PacketPtr> batch = places.first(count);
      line_.run(stage, batch);
      try {
        hand_on(stage, batch);
      } catch (...) {
        line_.finish_failed(batch);
      }
    }
  }

 private:
  // Neighbours with the same way go together.
  void hand_on(std::size_t stage, std::span<PacketPtr> batch) {
    for (std::size_t first = 0; first < batch.size();) {
      const std::size_t next = line_.next_stage(*batch[first], stage);
      std::size_t last = first + 1;
      while (last < batch.size() && line_.next_stage(*batch[last], stage) == next) ++last;
      if (next < line_.size()) {
        line_.stage(next).queue().push(batch.subspan(first, last - first));
        line_.queue_changed(next);
      } else {
        for (std::size_t i = first; i < last; ++i) line_.finish(std::move(batch[i]));
      }
      first = last;
    }
  }

  Line& line_;
};

}  // namespace

std::unique_ptr<Flow> make_free_flow(Line& line) { return std::make_unique<FreeFlow>(line); }

}  // namespace tessera::pipeline

#include "pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/guarded.h"
#include "pipeline/own_thread.h"

namespace tessera::pipeline {
namespace {

Status check(const PipelineConfig& config) {
  if (config.stages.empty() || config.stages.size() > kStagesMax) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("a pipeline of {} stages; allowed 1 to {}", config.stages.size(), kStagesMax)};
  }
  for (const StageConfig& stage : config.stages) {
    const auto wrong = [&](const char* what, auto found, std::size_t most) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("stage '{}': {} {}; allowed 1 to {}",
                                                            stage.name, found, what, most)};
    };
    if (stage.threads < 1 || stage.threads > kThreadsMax)
      return wrong("threads", stage.threads, kThreadsMax);
    if (stage.capacity < 1 || stage.capacity > (1U << 20U))
      return wrong("waiting packets", stage.capacity, 1 << 20);
    if (stage.batch < 1 || stage.batch > kBatchMax)
      return wrong("packets a batch", stage.batch, kBatchMax);
  }
  return {};
}

// What became of a packet since it was looked at last.
void check_packet(Packet& packet, std::size_t stage, const std::string& name, Nanoseconds time) {
  const PacketHeader& header = packet.header;
  if (time >= header.deadline) {
    packet.fail(Failure::kDeadline,
                {ErrorCode::kUnavailable,
                 fmt::format("task {}: its deadline passed {} us before stage '{}'", header.id,
                             (time - header.deadline) / 1000, name)});
  } else if (packet.unwanted()) {
    packet.fail(Failure::kCancelled,
                {ErrorCode::kUnavailable,
                 fmt::format("task {} was cancelled before stage '{}'", header.id, name)});
  } else {
    return;
  }
  packet.failed_stage = static_cast<std::uint8_t>(stage);
}

}  // namespace

Line::Line(PipelineConfig config) : sink_(*config.sink), observer_(config.observer) {
  for (StageConfig& stage : config.stages) {
    stages_.push_back(std::make_unique<Stage>(std::move(stage)));
  }
}

std::size_t Line::next_from(const Packet& packet, std::size_t stage) const {
  if (packet.failure != Failure::kNone) return stages_.size();
  while (stage < stages_.size() && (packet.header.skipped_stages >> stage & 1U) != 0) ++stage;
  return stage;
}

std::size_t Line::next_stage(const Packet& packet, std::size_t stage) const {
  return next_from(packet, stage + 1);
}

std::size_t Line::first_stage(const Packet& packet) const { return next_from(packet, 0); }

void Line::run(std::size_t stage, std::span<PacketPtr> batch) {
  const std::string& name = stages_[stage]->config().name;
  const Nanoseconds begin = now();
  for (const PacketPtr& packet : batch) {
    packet->times[stage].queued = begin - packet->queued_since;
    try {
      check_packet(*packet, stage, name, begin);
    } catch (...) {
      packet->fail_with_exception();
    }
  }
  // Those that go on first; the order within a stage is not promised.
  const auto rest = std::stable_partition(batch.begin(), batch.end(), [](const PacketPtr& packet) {
    return packet->failure == Failure::kNone;
  });
  const std::span<const PacketPtr> live(batch.begin(), rest);
  queue_changed(stage);
  if (live.empty()) return;
  if (observer_ != nullptr) observer_->begins(stage, begin);
  const Nanoseconds end = stages_[stage]->run(live, begin);
  for (const PacketPtr& packet : live) {
    packet->times[stage].busy = end - begin;
    packet->queued_since = end;
    if (packet->failure != Failure::kNone) packet->failed_stage = static_cast<std::uint8_t>(stage);
  }
  if (observer_ != nullptr) observer_->ran(stage, begin, end, live);
}

void Line::finish_failed(std::span<PacketPtr> packets) {
  for (PacketPtr& packet : packets) {
    if (packet == nullptr) continue;
    packet->fail_with_exception();
    finish(std::move(packet));
  }
}

void Line::queue_changed(std::size_t stage) {
  if (observer_ == nullptr) return;
  const Nanoseconds at = now();
  observer_->queue_changed(stage, at, stages_[stage]->queue().size());
}

void Line::begin(std::size_t stage, Packet& packet) {
  const Nanoseconds time = now();
  packet.times[stage].queued = time - packet.queued_since;
  try {
    check_packet(packet, stage, stages_[stage]->config().name, time);
  } catch (...) {
    packet.fail_with_exception();
  }
  if (packet.failure != Failure::kNone) return;
  packet.queued_since = time;
  stages_[stage]->keep();
  if (observer_ != nullptr) observer_->keeps(stage, packet);
}

void Line::end(std::size_t stage, const PacketPtr& packet) {
  const Nanoseconds begin = packet->queued_since, end = now();
  packet->times[stage].busy = end - begin;
  packet->queued_since = end;
  if (packet->failure != Failure::kNone) packet->failed_stage = static_cast<std::uint8_t>(stage);
  stages_[stage]->let_go();
  if (observer_ != nullptr) observer_->kept(stage, begin, end, *packet);
}

void Line::sweep(std::size_t stage) {
  StageQueue& queue = stages_[stage]->queue();
  if (!stages_[stage]->worth_sweeping()) return;
  std::vector<PacketPtr> out;
  queue.take_if([](const Packet& packet) { return packet.unwanted(); }, out);
  if (!out.empty()) queue_changed(stage);
  for (PacketPtr& packet : out) leave(stage, std::move(packet));
}

void Line::leave(std::size_t stage, PacketPtr packet) {
  const Nanoseconds time = now();
  packet->times[stage].queued = time - packet->queued_since;
  try {
    check_packet(*packet, stage, stages_[stage]->config().name, time);
  } catch (...) {
    packet->fail_with_exception();
  }
  finish(std::move(packet));
}

std::size_t Line::held_up(std::size_t stage) {
  if (stages_[stage]->queue().room() > 0) return 0;
  std::size_t count = 0;
  for (std::size_t before = 0; before < stage; ++before) count += stages_[before]->queue().size();
  return count;
}

void Line::left() {
  if (inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) inside_.notify_all();
}

void Line::finish(PacketPtr packet) {
  sink_.finished(std::move(packet));
  left();
}

void Line::wait_until_empty() {
  for (std::size_t count = inside(); count != 0; count = inside()) inside_.wait(count);
}

Result<std::unique_ptr<PacketPipeline>> PacketPipeline::create(PipelineConfig config) {
  TESSERA_CHECK(config.sink != nullptr, "a pipeline without a sink");
  TESSERA_RETURN_IF_ERROR(check(config));
  const FlowKind handover = config.handover;
  std::unique_ptr<PacketPipeline> pipeline(new PacketPipeline(handover, std::move(config)));
  TESSERA_RETURN_IF_ERROR(pipeline->start());
  return pipeline;
}

PacketPipeline::PacketPipeline(FlowKind handover, PipelineConfig config)
    : line_(std::move(config)) {
  flow_ = handover == FlowKind::kFreeFlow ? make_free_flow(line_) : make_lock_step(line_);
}

Status PacketPipeline::start() {
  for (std::size_t stage = 0; stage < line_.size(); ++stage) {
    const auto& keeper = line_.stage(stage).config().keeper;
    if (keeper != nullptr) keeper->attach(flow_->port(stage));
  }
  for (std::size_t stage = 0; stage < line_.size(); ++stage) {
    TESSERA_RETURN_IF_ERROR(line_.stage(stage).start(
        [this, stage](const std::atomic<bool>& leave) {
          const OwnThread mark(this);
          flow_->work(stage, leave);
        },
        [this, stage] { flow_->wake(stage); }));
  }
  return {};
}

PacketPipeline::~PacketPipeline() {
  wait_until_empty();
  flow_->close();
  for (std::size_t stage = 0; stage < line_.size(); ++stage) {
    line_.stage(stage).join();
    if (const auto& keeper = line_.stage(stage).config().keeper) keeper->detach();
  }
}

void PacketPipeline::sweep() {
  const OwnThread mark(this);  // what a packet carries may go here
  for (std::size_t stage = 0; stage < line_.size(); ++stage) {
    // Without memory its packets leave where they are met next.
    (void)guarded("", [&]() -> Status {
      line_.sweep(stage);
      return {};
    });
    if (const auto& keeper = line_.stage(stage).config().keeper) keeper->sweep();
  }
}

void PacketPipeline::enter(PacketPtr packet) {
  line_.entered(1);
  packet->queued_since = now();
  const std::size_t stage = line_.first_stage(*packet);
  if (stage == line_.size()) return line_.finish(std::move(packet));
  try {
    flow_->enter(stage, {&packet, 1});
  } catch (...) {
    line_.finish_failed({&packet, 1});
  }
}

bool PacketPipeline::try_enter(PacketPtr& packet) {
  line_.entered(1);
  packet->queued_since = now();
  const std::size_t stage = line_.first_stage(*packet);
  if (stage == line_.size()) {
    line_.finish(std::move(packet));
    return true;
  }
  if (flow_->try_enter(stage, packet)) return true;
  line_.left();
  return false;
}

void PacketPipeline::enter_now(PacketPtr packet, Nanoseconds time, bool in_place) {
  line_.entered(1);
  packet->queued_since = time;
  const std::size_t stage = line_.first_stage(*packet);
  if (stage == line_.size()) return line_.finish(std::move(packet));
  try {
    if (in_place && work_in_place(stage, packet)) return;
    flow_->enter_now(stage, packet);
  } catch (...) {
    line_.finish_failed({&packet, 1});
  }
}

// False: the packet did not go in. Throws before it does.
bool PacketPipeline::work_in_place(std::size_t stage, PacketPtr& packet) {
  Keeper* const keeper = line_.stage(stage).config().keeper.get();
  if (keeper == nullptr || line_.inside() != 1 || !keeper->is_short()) return false;
  const OwnThread mark(this);
  // This thread counts as a packet: the pipeline does not end around it.
  line_.entered(1);
  bool is_in = false;
  try {
    is_in = flow_->enter_quietly(stage, packet);
  } catch (...) {
    line_.left();
    throw;
  }
  if (is_in && keeper->work_briefly()) flow_->port(stage).poke();
  line_.left();
  return is_in;
}

Status PacketPipeline::set_threads(std::size_t stage, int threads) {
  if (stage >= line_.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("stage {} of a pipeline of {}", stage, line_.size())};
  }
  if (threads < 1 || threads > kThreadsMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("stage '{}': {} threads; allowed 1 to {}",
                             line_.stage(stage).config().name, threads, kThreadsMax)};
  }
  return line_.stage(stage).set_threads(threads);
}

}  // namespace tessera::pipeline

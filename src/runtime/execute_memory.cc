// Where a device's memory is short: of the stage of execute_stage.h.
//
//   a run finds none ─► its place waits ─► notified (run_memory.h) ─► tries again, in its turn
//   only outputs that stayed on the device could make room
//     ─► those of all packets that hold some are brought to the host
#include <algorithm>
#include <utility>

#include "base/guarded.h"
#include "runtime/execute_stage.h"

namespace tessera::runtime {

// A device may notify it of memory from now on.
void ExecuteStage::attach(pipeline::StagePort& port) {
  port_ = &port;
  if (!rules_.chained && !rules_.reads_chained) return;
  for (const auto& device : model_->runtime->devices()) device->run_memory().join(*this);
}

void ExecuteStage::detach() {
  for (const auto& device : model_->runtime->devices()) {
    device->run_memory().part(*this);
    device->run_memory().leave(*this);
  }
  if (host_.device != nullptr) host_.device->run_memory().leave(*this);
}

// ---- notifications: with the locks of their senders held ----

void ExecuteStage::memory_given() {
  memory_gives_.fetch_add(1);
  port_->poke();
}

void ExecuteStage::memory_short() {
  memory_short_.store(true);
  port_->poke();
}

// ---- turns; with the lock held ----

void ExecuteStage::look_for_memory() {
  const std::uint64_t gives = memory_gives_.load();
  if (gives == memory_gives_seen_) return;
  memory_gives_seen_ = gives;
  for (Place& place : places_) {
    if (std::exchange(place.short_of_memory, false)) place.in_turn = true;
  }
  if (std::exchange(host_.short_of_memory, false)) host_.in_turn = true;
}

// A place that was notified of memory and needs none now passes it on. The places of a device wait
// in one turn, the stage's: it is kept while one of them waits, or may be about to.
void ExecuteStage::give_up_memory_turns() {
  const bool nothing_waits = (to_start_.empty() && port_->waiting() == 0) || port_->held_back() > 0;
  const auto needs = [](const Place& place) { return place.short_of_memory || place.coming > 0; };
  const auto give_up = [&](Place& place) {
    if (nothing_waits && std::exchange(place.short_of_memory, false)) place.in_turn = true;
    if (!place.in_turn) return;
    const auto keeps = [&](const Place& other) {
      return other.device == place.device && needs(other);
    };
    if (keeps(host_) || std::any_of(places_.begin(), places_.end(), keeps)) return;
    place.in_turn = false;
    place.device->run_memory().leave(*this);
  };
  for (Place& place : places_) give_up(place);
  give_up(host_);
}

// ---- outputs that stayed on a device ----

bool ExecuteStage::is_memory_short() const {
  const auto& devices = model_->runtime->devices();
  return std::any_of(devices.begin(), devices.end(),
                     [](const auto& device) { return device->run_memory().is_short(); });
}

// Of all packets here and of all that come, also those that no kernel has room for: behind them
// others may be stopped.
bool ExecuteStage::bring_to_host_some() {
  if ((!rules_.chained && !rules_.reads_chained) || !is_memory_short()) return false;
  bool changed = memory_short_.exchange(false);
  std::vector<Stayed> stayed;
  Leaving leaving;
  {
    const std::lock_guard lock(mutex_);
    try {
      while (rules_.reads_chained && adopt_handed(leaving)) changed = true;
      for (std::size_t i = 0; changed && i < held_.size(); ++i) note_stayed(*held_[i], stayed);
    } catch (...) {  // no memory of the host's for the others; they are looked at again
    }
  }
  hand_over(leaving);
  for (Stayed& one : stayed) bring_to_host(one);
  return !stayed.empty();
}

// Those of runs that are open belong to the thread that works on them.
void ExecuteStage::note_stayed(Held& held, std::vector<Stayed>& stayed) const {
  NetworkPacket& packet = held.task();
  for (std::size_t run = 0; run < packet.values.size(); ++run) {
    if (is_open(held, run)) continue;
    const RunValues& values = packet.values[run];
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].block == nullptr || !values[i].block->stays) continue;
      stayed.push_back({&held, packet.header.id, run, i, values[i].block});
    }
  }
}

bool ExecuteStage::is_open(const Held& held, std::size_t index) const {
  return std::any_of(all_runs_.begin(), all_runs_.end(),
                     [&](const auto& run) { return run->held == &held && run->index == index; });
}

// The bytes come without the lock: a link may be slow. Where that fails the block stays, and the
// run has the error if it lasts.
void ExecuteStage::bring_to_host(Stayed& stayed) {
  Tensor tensor;
  RunValue value;
  value.block = std::move(stayed.block);
  const std::shared_ptr<BlockState> block = value.block;
  if (!guarded("", [&] { return gather(tensor, value); }).ok()) return;
  const std::lock_guard lock(mutex_);
  if (std::find(held_.begin(), held_.end(), stayed.held) == held_.end()) return;
  Held& held = *stayed.held;
  NetworkPacket& packet = held.task();
  // It may have gone on meanwhile.
  if (packet.header.id != stayed.packet || is_open(held, stayed.run)) return;
  if (stayed.run >= packet.values.size() || stayed.run >= packet.task.runs.size()) return;
  RunValues& values = packet.values[stayed.run];
  if (stayed.input >= values.size() || values[stayed.input].block != block) return;
  packet.task.runs[stayed.run][stayed.input].bytes = std::move(tensor.bytes);
  values[stayed.input].clear();
}

}  // namespace tessera::runtime

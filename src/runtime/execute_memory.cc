// Where a device's memory is short: of the stage of execute_stage.h.
//
//   a run finds none ─► its place waits ─► told (run_memory.h) ─► tries again, in its turn
//   only outputs that stayed on the device could make room ─► those of all packets here, and of all
//   that come, are brought to the host
#include <utility>

#include "base/guarded.h"
#include "runtime/execute_stage.h"

namespace tessera::runtime {

// A device may tell it of memory from now on.
void ExecuteStage::attach(pipeline::StagePort& port) {
  port_ = &port;
  for (const auto& device : model_->runtime->devices()) device->run_memory().join(*this);
}

void ExecuteStage::detach() {
  for (const auto& device : model_->runtime->devices()) {
    device->run_memory().part(*this);
    device->run_memory().leave(*this);
  }
  if (host_.device != nullptr) host_.device->run_memory().leave(*this);
}

// ---- what others tell: with their locks held ----

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

// Who was told of memory and needs none now lets the next one have it. The places of a device wait
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

// Also of packets that no kernel has room for: behind them others may be stopped.
bool ExecuteStage::bring_to_host_some() {
  if (!memory_short_.exchange(false)) return false;
  if (!is_memory_short()) return false;
  memory_short_.store(true);
  bool any = false;
  Leaving leaving;
  {
    const std::lock_guard lock(mutex_);
    try {
      while (port_->waiting() > 0) {
        any = true;
        (void)adopt(pipeline::StagePort::End::kFirst, leaving);
      }
    } catch (...) {  // no memory of the host's; what was taken goes on
    }
    for (Held* const held : to_start_) any = bring_to_host(*held) || any;
  }
  hand_over(leaving);
  return any;
}

// Inputs of runs that were not begun.
bool ExecuteStage::bring_to_host(Held& held) {
  NetworkPacket& packet = held.task();
  bool any = false;
  const auto bring = [&](std::size_t run) {
    if (run >= packet.values.size()) return;
    RunValues& values = packet.values[run];
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].block == nullptr || !values[i].block->stays) continue;
      // Where it fails the block stays, and the run has the error if it lasts.
      any = guarded("", [&] { return gather(packet.task.runs[run][i], values[i]); }).ok() || any;
    }
  };
  for (const std::size_t run : held.again) bring(run);
  for (std::size_t run = held.next; run < packet.task.runs.size(); ++run) bring(run);
  return any;
}

}  // namespace tessera::runtime

// Which run is next, and which kernel it goes to: of the stage of execute_stage.h, with its lock
// held.
#include <fmt/format.h>

#include <algorithm>

#include "base/guarded.h"
#include "runtime/execute_stage.h"

namespace tessera::runtime {
namespace {

using pipeline::Failure;
using pipeline::Nanoseconds;
using TakeFrom = pipeline::StagePort::End;

// Work for a kernel that is enough until the stage's threads come round to it again: runs that are
// shorter are given to it in advance.
constexpr Nanoseconds kInAdvance = 300'000;
constexpr Nanoseconds kShortRun = 2'000'000;
constexpr Nanoseconds kLostAfter = 1'000'000;
// Packets that wait for the devices that hold their blocks, and that others overtake.
constexpr std::size_t kPassedOverMax = 64;

// Whether nothing of the run is a block, or memory of the application's.
bool is_plain(const NetworkPacket& packet, std::size_t run) {
  if (!packet.outputs.empty()) return false;
  if (run >= packet.values.size()) return true;
  return std::none_of(packet.values[run].begin(), packet.values[run].end(),
                      [](const RunValue& value) { return value.present(); });
}

}  // namespace

// Those held whose runs wait, the highest priority and the longest here first.
void ExecuteStage::note_to_start(Held& held) {
  if (std::find(to_start_.begin(), to_start_.end(), &held) != to_start_.end()) return;
  const auto place = std::find_if(to_start_.begin(), to_start_.end(), [&](const Held* other) {
    const auto &a = held.packet->header, &b = other->packet->header;
    return a.priority != b.priority ? a.priority > b.priority : a.id < b.id;
  });
  to_start_.insert(place, &held);
}

ExecuteStage::Held* ExecuteStage::next_held(std::size_t passed_over) const {
  if (passed_over >= to_start_.size()) return nullptr;
  Held* const first = to_start_[passed_over];
  const bool overtaken =
      port_->waiting() > 0 && port_->highest_priority() > first->packet->header.priority;
  return overtaken ? nullptr : first;
}

double ExecuteStage::backlog() const {
  double runs = runs_a_packet_ * static_cast<double>(port_->waiting() + port_->held_up());
  for (const Held* const held : to_start_) runs += static_cast<double>(held->waiting());
  return runs;
}

ExecuteStage::Run* ExecuteStage::next_run(Leaving& leaving) {
  look_for_memory();
  std::size_t passed_over = 0;  // of to_start_: they wait for the device that holds their blocks
  while (true) {
    Held* held = next_held(passed_over);
    if (held == nullptr && port_->waiting() == 0) return nullptr;
    const int priority =
        held != nullptr ? held->packet->header.priority : port_->highest_priority();
    const bool for_host = held != nullptr && held->phase == Phase::kHost;
    const DeviceEntry* const home =
        held != nullptr ? home_of(held->task(), held->next_index(), rules_) : nullptr;
    Chosen chosen;
    if (for_host) {
      if (host_.device == nullptr) {
        host_wanted_ = true;
        return nullptr;
      }
      if (!load_of(host_, priority, pipeline::now()).room) return nullptr;
      chosen.place = &host_;
    } else {
      chosen = choose(priority, home);
      if (chosen.place == nullptr && !chosen.none_usable) {
        if (home == nullptr || passed_over == kPassedOverMax) return nullptr;
        ++passed_over;  // others need not wait with it
        continue;
      }
    }
    if (held == nullptr) {
      // What would wait longest goes to a kernel that is not the quickest.
      held = adopt(chosen.best ? TakeFrom::kFirst : TakeFrom::kLast, leaving);
      // It left, goes to the host, or to the device that holds its blocks: look again.
      const bool anywhere = held != nullptr && !held->ending && held->phase == Phase::kDevices &&
                            home_of(held->task(), held->next_index(), rules_) == nullptr;
      if (!anywhere) {
        const auto mine = std::find(to_start_.begin(), to_start_.end(), held);
        passed_over = std::min<std::size_t>(passed_over, mine - to_start_.begin());
        continue;
      }
    }
    if (chosen.place != nullptr) return begin_run(*held, *chosen.place, home);
    fail_for_want_of_devices(*held, leaving);
  }
}

// The lists have room for all that there are, so that nothing else takes memory.
ExecuteStage::Held& ExecuteStage::take_held() {
  if (free_held_.empty()) {
    const std::size_t count = all_held_.size() + 1;
    for (auto* const list : {&free_held_, &held_, &to_start_}) {
      if (list->capacity() < count) list->reserve(2 * count);
    }
    all_held_.push_back(std::make_unique<Held>());
    free_held_.push_back(all_held_.back().get());
  }
  return *free_held_.back();
}

ExecuteStage::Run& ExecuteStage::take_run() {
  if (free_runs_.empty()) {
    const std::size_t count = all_runs_.size() + 1;
    if (free_runs_.capacity() < count) free_runs_.reserve(2 * count);
    all_runs_.push_back(std::make_unique<Run>());
    free_runs_.push_back(all_runs_.back().get());
  }
  return *free_runs_.back();
}

// Several threads may end runs of one packet at once: its list of values does not grow any more.
void ExecuteStage::prepare_values(NetworkPacket& packet, DebugMode mode, std::size_t runs) {
  // The host computes on tensors.
  packet.tensors_only = mode != DebugMode::kDevice;
  if (packet.tensors_only) {
    const Status gathered = packet.gather_runs();
    if (!gathered.ok()) return packet.fail(Failure::kError, gathered.error());
  }
  const bool any = !packet.values.empty() || !packet.outputs.empty() || rules_.chained;
  if (any && packet.values.size() < runs) packet.values.resize(runs);
}

// The next packet that waits before the stage; null if it leaves at once, or there is none.
ExecuteStage::Held* ExecuteStage::adopt(TakeFrom end, Leaving& leaving) {
  Held& held = take_held();
  held.packet = port_->take(end);
  return held.packet == nullptr ? nullptr : take_in(held, leaving);
}

bool ExecuteStage::adopt_handed(Leaving& leaving) {
  Held& held = take_held();
  held.packet = port_->take_handed();
  if (held.packet == nullptr) return false;
  (void)take_in(held, leaving);
  return true;
}

ExecuteStage::Held* ExecuteStage::take_in(Held& held, Leaving& leaving) {
  free_held_.pop_back();
  NetworkPacket& packet = held.task();
  const std::size_t runs = packet.task.runs.size();
  const DebugMode mode = debugging_.mode_of(packet.header.sequence);
  held.dropped = packet.failure != Failure::kNone;
  held.ending = false;
  held.next = 0;
  held.phase = mode == DebugMode::kHost ? Phase::kHost : Phase::kDevices;
  held.compare = mode == DebugMode::kBoth && runs > 0;
  if (!held.dropped) {
    try {
      held.again.clear();
      held.again.reserve(runs);
      held.given_up.assign(runs, 0);
      prepare_values(packet, mode, runs);
      if (held.compare) held.inputs = packet.task.runs;
    } catch (...) {
      packet.fail_with_exception();
    }
  }
  if (packet.failure != Failure::kNone || runs == 0) {
    held.compare = false;
    leaving.add(held);
    return nullptr;
  }
  runs_a_packet_ += (static_cast<double>(runs) - runs_a_packet_) / 16;
  held_.push_back(&held);
  note_to_start(held);
  return &held;
}

ExecuteStage::Run* ExecuteStage::begin_run(Held& held, Place& place, const DeviceEntry* home) {
  const std::size_t given = place.given.size() + static_cast<std::size_t>(place.coming) + 1;
  if (place.given.capacity() < given) place.given.reserve(2 * given);
  Run& run = take_run();
  free_runs_.pop_back();
  run.held = &held;
  run.place = &place;
  run.in = 0;
  run.over = false;
  if (held.again.empty()) {
    run.index = held.next++;
  } else {
    run.index = held.again.back();
    held.again.pop_back();
  }
  run.plain = is_plain(held.task(), run.index);
  run.home = home;
  if (held.waiting() == 0) std::erase(to_start_, &held);
  if (held.phase == Phase::kDevices || !held.compare) held.task().device = &place.device->name();
  ++held.open;
  ++place.coming;
  return &run;
}

bool ExecuteStage::has_room(const Place& place, const PlaceLoad& load, int priority) const {
  if (place.short_of_memory) return false;
  // How fast it is has to be found out first.
  if (!load.known) return place.coming == 0 && place.given.empty();
  const auto& waiting = kernel_work_.waiting;
  if (std::ssize(waiting) + place.coming >= place.device->device().properties().queue_depth) {
    return false;
  }
  // Those that it has not begun, and those without a completion.
  const auto overtaken = std::count_if(waiting.begin(), waiting.end(), [&](const auto& other) {
    return other.loaded == place.loaded && other.priority < priority;
  });
  const bool runs_own = kernel_work_.running && kernel_work_.loaded == place.loaded;
  const auto own = place.coming + std::ssize(place.given) - (runs_own ? 1 : 0) - overtaken;
  if (own <= 0) return true;
  if (own >= waiting_max_) return false;
  if (own == 1 && (load.run < kShortRun || load.around > load.run)) return true;
  return (own + 1) * load.run <= kInAdvance;
}

PlaceLoad ExecuteStage::load_of(const Place& place, int priority, Nanoseconds now) {
  DeviceEntry& device = *place.device;
  const DeviceEntry::Usable usable = device.usable();
  if (usable == DeviceEntry::Usable::kNo) return {};
  const RunTimes::Expected own = device.times().of(place.loaded, place.kernel, now);
  const auto run_of = [&](device::LoadedId loaded) {
    return loaded == place.loaded ? own.run : device.times().of(loaded, place.kernel, now).run;
  };
  device.device().look_at(place.kernel, kernel_work_);
  PlaceLoad load{.usable = true,
                 .on_trial = usable == DeviceEntry::Usable::kOnTrial,
                 .known = own.known,
                 .run = std::max({own.run, own.in, own.out}),
                 .around = own.in + own.out};
  load.room = has_room(place, load, priority);
  if (kernel_work_.running) {
    const Nanoseconds since = kernel_work_.since.time_since_epoch().count();
    load.ready = expected_rest(now - since, run_of(kernel_work_.loaded));
  }
  for (const auto& waiting : kernel_work_.waiting) {
    if (waiting.priority >= priority) load.ready += run_of(waiting.loaded);
  }
  load.ready += place.coming * own.run;
  if (!kernel_work_.running && !place.given.empty()) {
    // It has nothing to do, and yet has not completed its oldest run.
    const Nanoseconds untold = now - place.given.front()->submitted;
    if (untold > 2 * own.run + kLostAfter) load.ready += untold;
  }
  return load;
}

ExecuteStage::Chosen ExecuteStage::choose(int priority, const DeviceEntry* home) {
  if (home != nullptr) {
    const Chosen chosen = choose_on(priority, home);
    if (!chosen.none_usable) return chosen;
  }
  return choose_on(priority, nullptr);
}

ExecuteStage::Chosen ExecuteStage::choose_on(int priority, const DeviceEntry* only) {
  const std::span<Place> places = used_places();
  const Nanoseconds now = pipeline::now();
  Chosen chosen{.none_usable = true};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool counts = only == nullptr || places[i].device == only;
    loads_[i] = counts ? load_of(places[i], priority, now) : PlaceLoad();
    if (loads_[i].usable) chosen.none_usable = false;
  }
  const auto choice = choose_place({loads_.data(), places.size()}, backlog(), turn_++);
  if (choice.has_value()) {
    chosen.place = &places[choice->place];
    chosen.best = choice->best;
  }
  return chosen;
}

void ExecuteStage::fail_for_want_of_devices(Held& held, Leaving& leaving) {
  const Place& first = places_.front();
  fail(held, first, Failure::kDevice, error_or_no_memory([&] {
         return Error{ErrorCode::kUnavailable,
                      fmt::format("no device of this stage is in order; '{}': {}",
                                  first.device->name(), first.device->device().health().reason)};
       }));
  end_runs(held, false);
  leave_if_over(held, leaving);
}

}  // namespace tessera::runtime

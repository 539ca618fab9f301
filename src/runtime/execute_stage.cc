#include "runtime/execute_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <thread>

#include "base/guarded.h"
#include "device/value_notes.h"
#include "runtime/check_inputs.h"

namespace tessera::runtime {
namespace {

using pipeline::Failure;
using pipeline::Nanoseconds;

constexpr std::size_t kTogether = 8;  // runs that a thread takes at once
// A transfer that is longer is made before the next run is chosen.
constexpr Nanoseconds kShortTransfer = 20'000;
// To wake a thread and to be woken by it takes about as long.
constexpr Nanoseconds kShortAltogether = 50'000;
constexpr int kRoundsBriefly = 4;  // bring and run; finish; look around; nothing
// A run is taken back for no less than this: a kernel's thread may just wait for a processor.
constexpr Nanoseconds kGainLeast = 2'000'000;
constexpr Nanoseconds kAlarmFirst = 2'000'000, kAlarmLast = 100'000'000;
constexpr Nanoseconds kAlarmWatching = 10'000'000;  // where nothing waits

// The stage whose run the calling thread makes; it looks for the run's end next.
thread_local const void* runs_here_for = nullptr;

device::TransferTag tag_of(int kernel, const pipeline::Packet& packet) {
  return {kernel, packet.header.id};
}

}  // namespace

Result<std::shared_ptr<ExecuteStage>> ExecuteStage::create(std::shared_ptr<ModelState> model,
                                                           const Options& options,
                                                           Debugging& debugging,
                                                           DeadlineClock& clock) {
  const std::vector<std::string>& devices = options.devices;
  std::vector<Place> places;
  for (const std::string& name : devices) {
    const auto same = [&](const auto& place) { return place.device->name() == name; };
    if (std::none_of(model->places.begin(), model->places.end(), same)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("device '{}' does not hold the model; load it there first", name)};
    }
  }
  for (const auto& [entry, loaded] : model->places) {
    if (!devices.empty() &&
        std::find(devices.begin(), devices.end(), entry->name()) == devices.end()) {
      continue;
    }
    for (int kernel = 0; kernel < entry->device().properties().kernels; ++kernel) {
      places.push_back({.device = entry, .loaded = loaded, .kernel = kernel});
    }
  }
  return std::shared_ptr<ExecuteStage>(
      new ExecuteStage(std::move(model), std::move(places), options, debugging, clock));
}

ExecuteStage::ExecuteStage(std::shared_ptr<ModelState> model, std::vector<Place> places,
                           const Options& options, Debugging& debugging, DeadlineClock& clock)
    : model_(std::move(model)),
      places_(std::move(places)),
      rules_(options.rules),
      waiting_max_(options.waiting_max),
      debugging_(debugging),
      clock_(clock),
      kernels_(kernels_max()),
      loads_(places_.size()) {}

void ExecuteStage::set_kernels(int kernels) {
  kernels_.store(kernels, std::memory_order_relaxed);
  port_->poke();
}

std::span<ExecuteStage::Place> ExecuteStage::used_places() {
  return {places_.data(), static_cast<std::size_t>(kernels())};
}

// ---- notifications: with the locks of their senders held ----

void ExecuteStage::run_over(void* context, End&& end) {
  Run* const run = static_cast<Run*>(context);
  run->end = std::move(end);
  // Within the lock: the thread that takes the run may end the last packet, and then the port goes.
  const std::lock_guard lock(events_mutex_);
  run->behind = nullptr;
  run->over = true;
  (over_first_ == nullptr ? over_first_ : over_last_->behind) = run;
  over_last_ = run;
  if (runs_here_for != this) port_->poke();
}

void ExecuteStage::ring() {
  rang_.store(true);
  memory_gives_.fetch_add(1);  // the end of a run that was given up is not notified
  port_->poke();
}

// ---- a thread's work ----

void ExecuteStage::work() {
  for (;;) {
    try {
      while (work_once()) {
      }
      return;
    } catch (...) {  // no memory, or no thread: nothing was begun for which there was none
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

bool ExecuteStage::work_briefly() {
  try {
    for (int round = 0; round < kRoundsBriefly; ++round) {
      if (!work_once()) return false;
    }
    return true;
  } catch (...) {  // as above; a thread of the stage may wait
    return true;
  }
}

bool ExecuteStage::is_short(const Place& place) const {
  const auto expected = place.device->times().of(place.loaded, place.kernel, pipeline::now());
  return expected.measured && expected.in + expected.run + expected.out <= kShortAltogether;
}

bool ExecuteStage::is_short() {
  const std::lock_guard lock(mutex_);
  const std::span<Place> places = used_places();
  return held_.empty() && std::all_of(places.begin(), places.end(),
                                      [&](const Place& place) { return is_short(place); });
}

// With the lock held: nobody waits for this thread, nor for the kernel.
bool ExecuteStage::is_alone(const Run& run) const {
  return held_.size() == 1 && port_->waiting() == 0 && run.held->open == 1 &&
         run.held->waiting() == 0 && run.place->given.empty() && run.place->coming == 0;
}

// False: there was nothing to do.
bool ExecuteStage::work_once() {
  const bool finished = finish_some();
  const bool brought = bring_to_host_some();
  const bool placed = place_some();
  if (finished || brought || placed) return true;
  Leaving leaving;
  const bool changed = look_around(leaving);
  hand_over(leaving);
  return changed;
}

bool ExecuteStage::look_around(Leaving& leaving) {
  const std::lock_guard lock(mutex_);
  give_up_memory_turns();
  const bool rang = rang_.exchange(false);
  if (rang && make_again_late(leaving)) return true;
  if (take_back_early(rang)) return true;
  set_alarm(pipeline::now());
  return false;
}

ExecuteStage::Run* ExecuteStage::take_over() {
  const std::lock_guard lock(events_mutex_);
  Run* const first = over_first_;
  if (first != nullptr) over_first_ = first->behind;
  return first;
}

bool ExecuteStage::finish_some() {
  Leaving leaving;
  std::size_t count = 0;
  for (; count < kTogether; ++count) {
    Run* const run = take_over();
    if (run == nullptr) break;
    finish(*run, leaving);
  }
  hand_over(leaving);
  return count > 0;
}

void ExecuteStage::finish(Run& run, Leaving& leaving) {
  DeviceEntry& device = *run.place->device;
  NetworkPacket& packet = run.held->task();
  device::Completion& completion = run.end.completion;
  // A run that ended without a completion may still be in its kernel.
  const bool over = run.end.status.ok() || !run.end.begun;
  Status status = std::move(run.end.status.ok() ? completion.status : run.end.status);
  Failure failure = Failure::kNone;
  Nanoseconds out = 0;
  if (status.ok()) {
    device.note_good();
    const Nanoseconds begin = pipeline::now();
    status = guarded(
        "", [&] { return take_back(run_of(run), run.tensors, tag_of(run.place->kernel, packet)); });
    out = pipeline::now() - begin;
    device.times().moved(run.place->loaded, false, out);
    if (!status.ok()) failure = Failure::kError;
  } else if (run.end.begun) {
    failure = device.judge(status.error(), packet.header.deadline);
  } else {
    device.note_refusal(status.error());
  }
  const std::lock_guard lock(mutex_);
  Held& held = *run.held;
  std::erase(run.place->given, &run);
  if (!run.end.begun && !held.ending) return wait_again(run);
  if (status.ok()) {
    const Nanoseconds kernel = (completion.end - completion.begin).count();
    packet.kernel += kernel;
    packet.transfer_out += out;
    packet.add_cycles(completion);
    note_values(packet, completion);
    kernel_time_.fetch_add(kernel, std::memory_order_relaxed);
  } else if (failure != Failure::kNone) {
    fail(held, *run.place, failure, error_or_no_memory([&] { return status.error(); }));
    end_runs(held, false);
  }
  put_aside(run, over);
  leave_if_over(held, leaving);
}

// Layers that runs of one task have in common are noted once.
void ExecuteStage::note_values(NetworkPacket& packet, const device::Completion& completion) const {
  const auto notes = device::value_notes(model_->on_devices.state(), completion,
                                         [](std::size_t) { return ValueExtent::kNormal; });
  for (const ValueNote& note : notes) {
    if (std::find(packet.value_notes.begin(), packet.value_notes.end(), note) ==
        packet.value_notes.end()) {
      packet.value_notes.push_back(note);
    }
  }
}

RunOf ExecuteStage::run_of(const Run& run) const {
  return {*model_, *run.place->device, rules_, run.held->task(), run.index};
}

bool ExecuteStage::place_some() {
  if (port_->held_back() > 0) return false;
  std::array<Run*, kTogether> runs;
  std::size_t count = 0;
  Leaving leaving;
  bool host_wanted = false;
  {
    const std::lock_guard lock(mutex_);
    while (count < runs.size()) {
      Run* run = nullptr;
      try {
        run = next_run(leaving);
      } catch (...) {  // no memory for one more; those before it were begun
        if (count == 0 && leaving.first == nullptr) throw;
      }
      if (run == nullptr) break;
      runs[count++] = run;
      const auto expected =
          run->place->device->times().of(run->place->loaded, run->place->kernel, 0);
      if (!expected.known || expected.in > kShortTransfer) break;
    }
    host_wanted = host_wanted_;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Place& place = *runs[i]->place;
    if (!bring(*runs[i], leaving)) continue;
    runs_here_for = this;
    place.device->device().run_queued(place.kernel);
    runs_here_for = nullptr;
  }
  const bool left = leaving.first != nullptr;
  hand_over(leaving);
  if (host_wanted) prepare_host();
  return count > 0 || left || host_wanted;
}

// The inputs of a run that was chosen for its place.
bool ExecuteStage::bring(Run& run, Leaving& leaving) {
  DeviceEntry& device = *run.place->device;
  NetworkPacket& packet = run.held->task();
  const RunOf of = run_of(run);
  const std::vector<TensorDescription>& wanted = model_->device_inputs();
  const std::uint64_t gives = memory_gives_.load();
  bool taken = false;
  const Status status = guarded("", [&]() -> Status {
    // The stage `pre` may not be there, or was skipped, or another one came after it.
    static const RunValues kNone;
    TESSERA_RETURN_IF_ERROR(
        check_inputs({wanted, wanted}, of.tensors(),
                     run.index < packet.values.size() ? packet.values[run.index] : kNone));
    TESSERA_TRY(taken, take_blocks(of, *this, run.tensors));
    if (!taken) return {};
    const Nanoseconds begin = pipeline::now();
    TESSERA_RETURN_IF_ERROR(bring_over(of, run.tensors, tag_of(run.place->kernel, packet)));
    run.in = pipeline::now() - begin;
    device.times().moved(run.place->loaded, true, run.in);
    return {};
  });
  const std::lock_guard lock(mutex_);
  --run.place->coming;
  Held& held = *run.held;
  packet.transfer_in += run.in;
  if (!status.ok()) {
    fail(held, *run.place, Failure::kError, error_or_no_memory([&] { return status.error(); }));
    end_runs(held, false);
  }
  const bool short_of_memory = status.ok() && !taken;
  if (short_of_memory) {  // the stage waits for some now, whether or not this packet goes on
    const bool told = memory_gives_.load() != gives;
    (told ? run.place->in_turn : run.place->short_of_memory) = true;
  }
  if (held.ending) {
    put_aside(run, true);
    leave_if_over(held, leaving);
    return false;
  }
  if (!short_of_memory) return submit(run, leaving);
  wait_again(run);
  return false;
}

// With the lock held from here on: what ends the run waits for it before it looks at the run.
bool ExecuteStage::submit(Run& run, Leaving& leaving) {
  Held& held = *run.held;
  DeviceEntry& device = *run.place->device;
  const bool runs_here = is_alone(run) && is_short(*run.place);
  const auto sequence = guarded("", [&] {
    return device.device().submit({.loaded = run.place->loaded,
                                   .kernel = run.place->kernel,
                                   .inputs = run.tensors.inputs,
                                   .outputs = run.tensors.outputs,
                                   .tag = held.packet->header.id,
                                   .priority = held.packet->header.priority,
                                   .listener = this,
                                   .context = &run,
                                   .keeps = held.task().turn,
                                   .caller_runs = runs_here},
                                  std::chrono::steady_clock::now());
  });
  if (sequence.ok()) {
    run.sequence = *sequence;
    run.submitted = pipeline::now();
    run.place->given.push_back(&run);
    return runs_here;
  }
  if (sequence.error().code == ErrorCode::kUnavailable) {
    // It failed meanwhile, or others filled its queue.
    if (device.may_have_failed()) device.note_refusal(sequence.error());
    wait_again(run);
    return false;
  }
  fail(held, *run.place, Failure::kError, error_or_no_memory([&] { return sequence.error(); }));
  end_runs(held, false);
  put_aside(run, true);
  leave_if_over(held, leaving);
  return false;
}

void ExecuteStage::Leaving::add(Held& held) {
  held.behind = nullptr;
  (first == nullptr ? first : last->behind) = &held;
  last = &held;
}

void ExecuteStage::hand_over(Leaving& leaving) {
  while (leaving.first != nullptr) {
    Held& held = *leaving.first;
    leaving.first = held.behind;
    const bool compares = held.compare && held.phase == Phase::kHost && !held.dropped;
    if (compares && held.packet->failure == Failure::kNone) compare(held);
    held.inputs.clear();
    held.results.clear();
    const bool dropped = held.dropped;
    pipeline::PacketPtr packet = std::move(held.packet);
    {
      const std::lock_guard lock(mutex_);
      free_held_.push_back(&held);
    }
    if (dropped) {
      port_->drop(std::move(packet));
    } else {
      port_->done(std::move(packet));
    }
  }
}

// ---- runs that are not wanted where they are; with the lock held ----

bool ExecuteStage::take_back_early(bool rang) {
  const std::span<Place> places = used_places();
  if (places.size() < 2) return false;
  const auto waits = [](const Place& place) { return place.given.size() > 1; };
  const auto idle = [](const Place& place) { return place.given.empty() && place.coming == 0; };
  if (std::none_of(places.begin(), places.end(), waits)) return false;
  if (!rang && std::none_of(places.begin(), places.end(), idle)) return false;
  const Nanoseconds now = pipeline::now();
  for (std::size_t i = 0; i < places.size(); ++i) {
    loads_[i] = load_of(places[i], pipeline::kPriorityMin, now);
  }
  bool taken = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (waits(places[i])) taken = take_back_from(i) || taken;
  }
  return taken;
}

// The last run that waits there, if another place would have it over well before.
bool ExecuteStage::take_back_from(std::size_t from) {
  Place& place = places_[from];
  PlaceLoad* better = nullptr;
  for (std::size_t i = 0; i < used_places().size(); ++i) {
    PlaceLoad& other = loads_[i];
    if (i == from || !other.usable || other.on_trial || !other.known || !other.room) continue;
    if (better == nullptr || other.finish() < better->finish()) better = &other;
  }
  if (better == nullptr) return false;
  const Nanoseconds gain = loads_[from].ready - better->finish();
  if (gain < kGainLeast || 4 * gain < loads_[from].ready) return false;
  Run& run = *place.given.back();
  // Where its blocks are it would go again.
  if (run.home == run.place->device) return false;
  if (run.place->device->device().withdraw(run.sequence, false) != device::Withdrawn::kNotBegun) {
    return false;
  }
  place.given.pop_back();
  wait_again(run);
  better->room = false;
  return true;
}

// What the run held is released; it waits before the stage again.
void ExecuteStage::wait_again(Run& run) {
  Held& held = *run.held;
  held.again.push_back(run.index);
  put_aside(run, true);
  note_to_start(held);
}

void ExecuteStage::put_aside(Run& run, bool over) {
  PacketTurn* const turn = run.held->task().turn.get();
  if (!over && turn != nullptr) turn->retained = true;
  give_blocks(run_of(run), run.tensors, over);
  --run.held->open;
  run.held = nullptr;
  free_runs_.push_back(&run);
}

// False: it goes on, or it is over and its end is still to be looked at.
bool ExecuteStage::withdraw(Run& run, bool give_up) {
  DeviceEntry& device = *run.place->device;
  const device::Withdrawn withdrawn = device.device().withdraw(run.sequence, give_up);
  if (withdrawn == device::Withdrawn::kOver) return false;
  if (withdrawn == device::Withdrawn::kBegun) {
    if (!give_up) return false;
    device.note_given_up();
  }
  put_aside(run, withdrawn != device::Withdrawn::kBegun);
  return true;
}

void ExecuteStage::end_runs(Held& held, bool give_up) {
  held.ending = true;
  held.again.clear();
  std::erase(to_start_, &held);
  const auto end_on = [&](Place& place) {
    std::erase_if(place.given,
                  [&](Run* run) { return run->held == &held && withdraw(*run, give_up); });
  };
  for (Place& place : places_) end_on(place);
  end_on(host_);
}

// The first error of a packet's runs counts.
void ExecuteStage::fail(Held& held, const Place& place, Failure why, Error error) {
  NetworkPacket& packet = held.task();
  if (packet.failure != Failure::kNone) return;
  packet.device = &place.device->name();
  packet.fail(why, std::move(error));
}

void ExecuteStage::leave_if_over(Held& held, Leaving& leaving) {
  if (held.open > 0 || (!held.ending && held.waiting() > 0)) return;
  const bool failed = held.packet->failure != Failure::kNone;
  if (!failed && held.compare && held.phase == Phase::kDevices) {
    begin_comparison(held);
    if (!held.ending) return;
  }
  std::erase(held_, &held);
  std::erase(to_start_, &held);
  leaving.add(held);
}

void ExecuteStage::sweep() {
  const Nanoseconds now = pipeline::now();
  Leaving leaving;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = held_.size(); i-- > 0;) {
      Held& held = *held_[i];
      pipeline::Packet& packet = *held.packet;
      if (!packet.unwanted()) continue;
      const bool late = now >= packet.header.deadline;
      if (packet.failure == Failure::kNone) {
        packet.fail(late ? Failure::kDeadline : Failure::kCancelled, error_or_no_memory([&] {
                      return Error{ErrorCode::kUnavailable,
                                   fmt::format("task {} {} while it was run", packet.header.id,
                                               late ? "passed its deadline" : "was cancelled")};
                    }));
      }
      end_runs(held, true);
      leave_if_over(held, leaving);
    }
  }
  hand_over(leaving);
  port_->poke();  // there may be room now
}

// ---- time; with the lock held ----

// What is expected of runs that last changes without anything happening.
void ExecuteStage::set_alarm(Nanoseconds now) {
  const std::span<Place> places = used_places();
  const auto waits = [](const Place& place) { return place.given.size() > 1; };
  const bool waiting = !to_start_.empty() || port_->waiting() > 0 ||
                       (places.size() > 1 && std::any_of(places.begin(), places.end(), waits));
  if (now < alarm_at_ && (alarm_for_waiting_ || !waiting)) return;
  if (!waiting && !watches_runs()) return;
  Nanoseconds period = kAlarmLast;
  for (const Place& place : places) {
    if (places.size() < 2) break;
    const auto own = place.device->times().of(place.loaded, place.kernel, now);
    if (own.known) period = std::min(period, own.run);
  }
  const Nanoseconds time = now + std::max(period, waiting ? kAlarmFirst : kAlarmWatching);
  const auto set = clock_.set_alarm(*this, time);
  if (!set) throw std::bad_alloc();  // the caller looks again by itself
  // One that is late to ring rings for this time, too: the next is set when it has.
  alarm_at_ = *set;
  alarm_for_waiting_ = waiting && period < kAlarmLast;  // else it may be wanted earlier
}

}  // namespace tessera::runtime

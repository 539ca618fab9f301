// Runs that last far longer than expected: of the stage of execute_stage.h, with its lock held.
//
//   kernel A   ├─ expected ─┤ . . . . . . . . ┆ given up: what it still writes is the device's own
//   kernel B                                   ┆ └─► made again ─► the task goes on
//
// A run that takes four times as long as its kernel's runs took lately, and 20 ms longer, is given
// up and made again where it is over well before the first can be expected; so a kernel that hangs
// does not hold back what comes behind its task in an ordered stream. Each time a run has been
// given up it gets four times as long, so that on a busy machine, where all are late, little is
// done more than once. Only runs are made again whose inputs are the task's tensors and whose
// outputs become tensors: what is given up may go on reading and writing, so nothing of it may be
// the application's, or a block that other tasks use.
#include <algorithm>

#include "runtime/execute_stage.h"

namespace tessera::runtime {
namespace {

using pipeline::Nanoseconds;

constexpr Nanoseconds kLateFactor = 4;
constexpr Nanoseconds kLateLeast = 20'000'000;
constexpr int kGivenUpMost = 6;  // the last time after 20 s, or 4,096 times what is expected

// Of a run that was abandoned `given_up` times.
Nanoseconds late_after(Nanoseconds expected, int given_up) {
  const Nanoseconds patience = Nanoseconds{1} << (2 * given_up);
  return std::max(patience * kLateFactor * expected, expected + patience * kLateLeast);
}

}  // namespace

bool ExecuteStage::may_be_made_again(const Run& run) {
  return run.plain && run.held->given_up[run.index] < kGivenUpMost;
}

bool ExecuteStage::may_be_given_up(const Run& run) {
  return run.held->ending || may_be_made_again(run);
}

// How much later than expected the first run of the place is; 0: not far, or unknown.
Nanoseconds ExecuteStage::far_too_late(Place& place, Nanoseconds now) {
  if (place.given.empty()) return 0;
  const Run& run = *place.given.front();
  const RunTimes::Expected own = place.device->times().of(place.loaded, place.kernel, now);
  if (!own.measured || !may_be_given_up(run)) return 0;
  place.device->device().look_at(place.kernel, kernel_work_);
  Nanoseconds begun = run.submitted;
  if (kernel_work_.running) {
    begun = std::max<Nanoseconds>(begun, kernel_work_.since.time_since_epoch().count());
  }
  const Nanoseconds lasted = now - begun;
  return lasted < late_after(own.run, run.held->given_up[run.index]) ? 0 : lasted - own.run;
}

bool ExecuteStage::make_again_late(Leaving& leaving) {
  const std::span<Place> places = used_places();
  if (places.size() < 2) return false;
  const Nanoseconds now = pipeline::now();
  bool any = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Nanoseconds late = far_too_late(places[i], now);
    if (late == 0) continue;
    Run& run = *places[i].given.front();
    const int priority = run.held->packet->header.priority;
    bool better = false;
    for (std::size_t k = 0; k < places.size() && !better; ++k) {
      if (k == i) continue;
      const PlaceLoad other = load_of(places[k], priority, now);
      // It is expected to take as long again as it is late.
      better = other.usable && !other.on_trial && other.known && 2 * other.finish() < late;
    }
    if (better && make_again(run, leaving)) any = true;
  }
  return any;
}

// A copy; nothing where the run is over: its outputs may be taking the place of its inputs.
std::optional<std::vector<Tensor>> ExecuteStage::inputs_of(Run& run) {
  const std::lock_guard lock(events_mutex_);
  if (run.over) return std::nullopt;
  return run.held->task().task.runs[run.index];
}

// False: it is over, and its end is still to be looked at; or there is no memory.
bool ExecuteStage::make_again(Run& run, Leaving& leaving) {
  Held& held = *run.held;
  Place& place = *run.place;
  if (held.ending) {  // another run of the task failed, and this one is not waited for
    if (!withdraw(run, true)) return false;
    std::erase(place.given, &run);
    leave_if_over(held, leaving);
    take_back_behind(place);
    return true;
  }
  std::optional<std::vector<Tensor>> inputs;
  // What it reads and writes in place stays with it.
  const bool in_place = run.tensors.kept != nullptr;
  if (in_place) {
    inputs = inputs_of(run);
    if (!inputs) return false;
  }
  const device::Withdrawn withdrawn = place.device->device().withdraw(run.sequence, true);
  if (withdrawn == device::Withdrawn::kOver) return false;
  std::erase(place.given, &run);
  if (withdrawn == device::Withdrawn::kNotBegun) {  // others are at the kernel
    wait_again(run);
    return true;
  }
  place.device->note_made_again();
  const std::size_t index = run.index;
  put_aside(run, false);
  if (in_place) held.task().task.runs[index] = std::move(*inputs);
  ++held.given_up[index];
  held.again.push_back(index);
  note_to_start(held);
  take_back_behind(place);
  return true;
}

// What waits on a kernel that may hang, but for what has its blocks there.
void ExecuteStage::take_back_behind(Place& place) {
  for (std::size_t i = place.given.size(); i-- > 0;) {
    Run& run = *place.given[i];
    if (run.home == place.device) continue;
    if (place.device->device().withdraw(run.sequence, false) != device::Withdrawn::kNotBegun) {
      continue;
    }
    place.given.erase(place.given.begin() + static_cast<std::ptrdiff_t>(i));
    wait_again(run);
  }
}

// Runs without others behind them are checked, too.
bool ExecuteStage::watches_runs() {
  const std::span<Place> places = used_places();
  return places.size() > 1 && std::any_of(places.begin(), places.end(), [&](const Place& place) {
           return !place.given.empty() && may_be_given_up(*place.given.front()) &&
                  place.device->times().of(place.loaded, place.kernel, pipeline::now()).measured;
         });
}

}  // namespace tessera::runtime

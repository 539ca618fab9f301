#include "runtime/place_choice.h"

#include <algorithm>
#include <cmath>

namespace tessera::runtime {
namespace {

using pipeline::Nanoseconds;

constexpr Nanoseconds kShortest = 1'000;  // of a run, with what lies around it

// What is over earlier by less than such a part of a run is not over earlier.
constexpr Nanoseconds kAlike = 4;

// Runs that the place would have over before `time`, by what is known of it.
double over_before(const PlaceLoad& place, Nanoseconds time) {
  const Nanoseconds first = place.ready + place.around;
  if (!place.known || time <= first) return 0;
  const double count =
      static_cast<double>(time - first) / static_cast<double>(std::max(place.run, kShortest));
  return std::max(0.0, std::ceil(count) - 1);
}

}  // namespace

std::optional<PlaceChoice> choose_place(std::span<const PlaceLoad> places, double backlog,
                                        std::size_t first) {
  const bool any = std::any_of(places.begin(), places.end(), [](const PlaceLoad& place) {
    return place.usable && !place.on_trial;
  });
  const auto counts = [any](const PlaceLoad& place) {
    return place.usable && (!any || !place.on_trial);
  };
  std::optional<PlaceChoice> chosen;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t index = (first + i) % places.size();
    const PlaceLoad& place = places[index];
    if (!counts(place) || !place.room) continue;
    if (!chosen || place.finish() < places[chosen->place].finish()) chosen = PlaceChoice{index};
  }
  if (!chosen) return std::nullopt;
  const Nanoseconds finish = places[chosen->place].finish();
  double others = 0;  // runs that they have over before
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i != chosen->place && counts(places[i])) others += over_before(places[i], finish);
  }
  if (others >= backlog) return std::nullopt;
  // A little earlier is no earlier: of equal kernels each is the best.
  const Nanoseconds well_before = finish - places[chosen->place].run / kAlike;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool earlier = i != chosen->place && counts(places[i]);
    if (earlier && over_before(places[i], well_before) >= 1) chosen->best = false;
  }
  return chosen;
}

}  // namespace tessera::runtime

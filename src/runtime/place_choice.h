// Which kernel the next run goes to: a function of what each has to do and how fast it is.
//
//   kernel   has to do              a run takes   the next would be over
//   fast     ██▌                    █             after 3.5: the best, and it may have room or not
//   slow     ▌                      ██████████    after 10.5: taken if fast and the others have not
//                                                 done all that waits by then; else it stays free
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pipeline/packet.h"

namespace tessera::runtime {

struct PlaceLoad {
  bool usable = false;
  bool on_trial = false;             // taken only where no other is usable
  bool room = false;                 // it takes another run now
  bool known = false;                // how long a run takes; else it is found out with one
  pipeline::Nanoseconds ready = 0;   // until what it has is done
  pipeline::Nanoseconds run = 0;     // it is occupied by each further one
  pipeline::Nanoseconds around = 0;  // transfers before and after

  pipeline::Nanoseconds finish() const { return ready + run + around; }
};

struct PlaceChoice {
  std::size_t place = 0;
  bool best = true;  // false: others would have the next run over earlier, but not all that wait
};

// `backlog`: runs that wait, the next among them. `first`: of equals the one from there on.
// Nothing: the run waits, for room where it is over earlier, or because no place is usable.
std::optional<PlaceChoice> choose_place(std::span<const PlaceLoad> places, double backlog,
                                        std::size_t first);

}  // namespace tessera::runtime

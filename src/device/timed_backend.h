// A processor that takes the time which the virtual one would take, without computing: for measurements of what lies
// around it at its true speed, which this machine cannot simulate in real time.
#pragma once

#include <memory>

#include "device/backend.h"

namespace tessera::device {

// The first run of what is loaded is simulated, for its cycles (the backend behind it leaves values out); each later one
// lasts cycles / clock on the wall clock, from the end of the one before it or from when it was submitted, whichever is
// later: a card with a queue of commands leaves no gap between those that wait. Outputs are left as they are. For a
// processor that nobody else uses meanwhile; runs come one after the other.
std::unique_ptr<Backend> make_timed_backend(std::unique_ptr<Backend> behind);

}  // namespace tessera::device

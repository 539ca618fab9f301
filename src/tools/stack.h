// A stack that the verbs can work on, whatever the limit it was started with.
#pragma once

#include "base/result.h"

namespace tessera::tools {

// Raises a low soft limit of the stack, for this thread and those to come, as far as the hard limit
// allows; an error where that is too low. To be called before other threads are there.
Status make_room_on_the_stack();

}  // namespace tessera::tools

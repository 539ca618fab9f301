// Layers that a program repeats, written once.
//
//   a program of a recurrent network is unrolled: the layers of a time step, again and again
//       share    constants and moves that are equal become one
//       find     consecutive stretches of layers with the same operations
//       write    one Repeat: what passes from turn to turn is carried, rows are given and kept
//
// The same operators see the same numbers in the same order: no bit changes.
#pragma once

#include "concord/software.h"

namespace tessera::concord {

// The layers are looked at in an order of their own (depth_first.h), in which loops that a program does in turns
// stand one behind the other, and in the program's where that has few.
//
// The software as it is written to a file. Layers have the names of the first turn. One with values
// that are to be trained stays as it is.
Software folded(const Software& software);

}  // namespace tessera::concord

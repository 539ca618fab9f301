// The models of sound: recordings run frame by frame, with the state carried from step to step.
#pragma once

#include "tasks.h"

namespace tessera::cases {

// silero_vad   every chunk of the recording that CASES.tsv names: its probabilities
// gtcrn_simple the noisy recording, enhanced: correlation with the stored enhanced one
// dtln_2       the same recording through dtln_1 and dtln_2, blocks overlapped and added
// ten_vad      the cases one after the other, the state of one step fed into the next
// swift_f0     median pitch where there is a voice; basic_pitch: notes and how sure it is of them
Result<std::vector<Finding>> sound_tasks(const TaskContext& context);

}  // namespace tessera::cases

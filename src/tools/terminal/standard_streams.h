// Standard input, output and error of the command.
#pragma once

#include "base/result.h"

namespace tessera::tools {

// First thing in main(). A descriptor of the three that is closed is taken, so that no file that is
// opened becomes standard output; a write to a pipe without a reader, and one beyond the limit of a
// file's size, is an error of the write and no signal.
void prepare_standard_streams();
// For a program that takes this one's place or is started by it: those signals as they were.
void restore_signals();

Error standard_output_failed(int error);  // errno, or 0
// Whether everything printed so far has arrived. Long outputs check it now and then.
Status check_standard_output();
// The last thing before the exit status: some file systems report a full disk when a file is
// closed.
Status finish_standard_output();

}  // namespace tessera::tools

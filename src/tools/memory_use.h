// How much memory the command has at once.
#pragma once

namespace tessera::tools {

// For a verb that is to take little: large blocks go back to the system when they are freed, and the code and constants
// that the start took, of the command and its libraries, are not counted as in use any more. The kernel keeps them, and
// gives them again where they are used. Before other threads are there.
void use_little_memory();

}  // namespace tessera::tools

// Software as one C++17 source file without dependencies: a function, and a main() that reads and
// writes raw files. The operators are in write/begin/tensors.cpp and write/begin/runtime.cpp; this writes
// the tables and the calls.
#pragma once

#include <string>

#include "base/result.h"
#include "concord/software.h"

namespace tessera::concord {

// The text of the file. An error names a host node, which has no C++ form.
Result<std::string> write_cpp(const Software& software);

}  // namespace tessera::concord

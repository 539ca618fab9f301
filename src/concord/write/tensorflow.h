// Software as a Python file of TensorFlow's raw operations, its weights beside it.
#pragma once

#include <string>

#include "base/result.h"
#include "concord/software.h"
#include "concord/write/python.h"

namespace tessera::concord {

// `weights_name`: the name under which the weights will lie beside the Python file. An error names
// a host node or a format that has no form there.
Result<PythonModule> write_tensorflow(const Software& software, const std::string& weights_name);

}  // namespace tessera::concord

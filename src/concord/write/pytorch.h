// Software as a PyTorch module: the program's bits on a CPU, and a straight-through gradient, so
// that it can be the forward pass of training.
//
// The gradient follows the operations as they are (adding a large number and taking it off again is
// the identity there, too), but for
//
//   Round, Floor, Ceil    count as the identity, unless they only find a place in a table
//   ReduceMax of a block  counts as a constant (the block's step)
//   a table               has the slope it has around the element
#pragma once

#include <string>

#include "base/result.h"
#include "concord/software.h"
#include "concord/write/python.h"

namespace tessera::concord {

// `weights_name`: the name under which the weights will lie beside the Python file. An error names
// a host node or a format that PyTorch has not.
Result<PythonModule> write_pytorch(const Software& software, const std::string& weights_name);

}  // namespace tessera::concord

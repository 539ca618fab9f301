// Operators of com.microsoft, which converters and quantisers of ONNX Runtime write, and of ai.onnx.ml become functions of the model
// that say the same with operators of the standard; import_function.h then writes them out.
//
//   y = com.microsoft.BiasGelu(x, b)   ─►   t = Add(x, b)   e = Erf(t / sqrt(2))   y = t / 2 (1 + e)
//
// What each is: docs/supported_ops.md. An operator that is not known stays, and is an error that names it where it is used; a call
// with something that is not known (an attribute, a layout) is an error.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::model {

// `opset` is the model's of the standard. kUnsupported: "node 'a' (Attention): operator of com.microsoft with the
// attribute do_rotary = 1". Labels that are text, which no tensor holds, become their places in the list of labels; `notes`
// gets a line that says so.
Status expand_contrib_operators(onnx::ModelProto& model, std::int64_t opset,
                                std::vector<std::string>& notes);

}  // namespace tessera::model

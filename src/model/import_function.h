// Functions that are local to a model are written out where they are called, before anything else
// is read: what follows sees operators only.
//
//   y = Block(a, b) {alpha: 3}                         'block/t' = Mul(a, b)
//   Block(x, w) {alpha}:  t = Mul(x, w)         ─►     y = Elu('block/t') {alpha: 3}
//                         r = Elu(t) {alpha: @alpha}
//
// Values and nodes of a body get the call's name in front, and a number behind where that is taken;
// calls in bodies, and bodies in the graphs of If, Loop and Scan, are written out likewise.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "model/import_limits.h"

namespace tessera::model {

// Leaves `model` without functions and calls of them. A function's own opsets must mean what the
// model's mean for every operator it has; a domain that only functions import is added to `opsets`.
Status inline_functions(onnx::ModelProto& model, std::map<std::string, std::int64_t>& opsets,
                        const ImportLimits& limits);

}  // namespace tessera::model

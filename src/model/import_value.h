// ValueInfoProto -> ValueInfo: the declared format and shape of a graph's inputs and outputs.
#pragma once

#include <onnx/onnx_pb.h>

#include "base/result.h"
#include "model/import_limits.h"
#include "model/model.h"

namespace tessera::model {

// Sequences, maps, optionals and element types we do not have are refused by name. A dimension of
// -1 counts as open, because exporters write it so. Messages do not repeat the value's name.
Result<ValueInfo> import_value_info(const onnx::ValueInfoProto& proto, const ImportLimits& limits);

}  // namespace tessera::model

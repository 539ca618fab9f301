// AttributeProto -> AttributeValue, for everything but graphs, which import_graph.cc does.
#pragma once

#include <onnx/onnx_pb.h>

#include "base/result.h"
#include "model/import_tensor.h"
#include "model/model.h"

namespace tessera::model {

// What the attribute is, from its `type` field or, where a very old file has none, from the one
// field that holds something. An error if `type` and contents disagree, if the value is missing, or
// if the type is one we do not have. As protobuf allows a writer to leave out a zero or an empty
// text, INT, FLOAT and STRING without a value are 0 and "".
Result<onnx::AttributeProto::AttributeType> attribute_type(const onnx::AttributeProto& proto);

// `type` is attribute_type(proto) and not GRAPH. Messages do not repeat the attribute's name.
Result<AttributeValue> import_attribute(onnx::AttributeProto& proto,
                                        onnx::AttributeProto::AttributeType type,
                                        TensorImport& context);

}  // namespace tessera::model

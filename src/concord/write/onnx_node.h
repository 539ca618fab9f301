// An operation as an ONNX node of opset 17, or of the one that host nodes need: the one translation, used by the ONNX writer and by the
// interpreter, so that what is checked is what is written.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "concord/software.h"

namespace tessera::concord {

inline constexpr std::int64_t kOnnxOpset = 17;

// Shapes, axes and other values that ONNX takes as operands: i64 vectors, named by what they hold.
struct OnnxNode {
  model::Node node;
  std::vector<std::pair<std::string, Tensor>> vectors;
  std::int64_t opset = kOnnxOpset;  // whose definition of the operator is meant
};

// kOnnxOpset, or a newer one where a host node's operator is of a newer definition.
std::int64_t onnx_opset(const Software& software);
OnnxNode onnx_node(const Software& software, const Operation& operation, std::int64_t opset);

// The number of ONNX's TensorProto.DataType.
std::int64_t onnx_data_type(Format format);

}  // namespace tessera::concord

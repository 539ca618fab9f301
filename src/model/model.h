// A validated ONNX model: what the importer hands to the graph. Names instead of protobuf.
//
// Everything here has been checked: names are unique, nodes are in topological order, every input
// name is defined before it is used, constants have exactly the bytes their shape says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "arith/tensor.h"

namespace tessera::model {

struct Subgraph;

using AttributeValue =
    std::variant<std::int64_t, float, std::string, Tensor, std::vector<std::int64_t>,
                 std::vector<float>, std::vector<std::string>, std::shared_ptr<const Subgraph>>;
using Attributes = std::map<std::string, AttributeValue>;

struct Node {
  std::string name;                  // never empty: unnamed nodes get "OpType_index"
  std::string op_type;               // "Conv"
  std::string domain;                // "" is ai.onnx
  std::vector<std::string> inputs;   // "" = absent optional input
  std::vector<std::string> outputs;  // "" = unused optional output
  Attributes attributes;
};

// One dimension of a declared shape: a number, or open with an optional name.
struct Dimension {
  std::int64_t value = -1;  // -1 = open
  std::string name;         // "batch", may be empty
};

enum class ValueKind { kTensor, kSequence, kOptional, kOptionalSequence };
const char* value_kind_name(ValueKind kind);  // "a tensor", "a sequence", ...

struct ValueInfo {
  std::string name;
  Format format = Format::kF32;
  bool has_shape = false;
  std::vector<Dimension> dims;
  // False where the file does not say (outputs, and inputs of subgraphs); the inputs of a model
  // always say.
  bool has_format = true;
  // Format and shape of a sequence or an optional are those of its tensors.
  ValueKind kind = ValueKind::kTensor;
};

struct Subgraph {
  std::string name;
  std::vector<Node> nodes;  // topological
  std::map<std::string, Tensor> initializers;
  std::vector<ValueInfo> inputs;  // without those that are initializers
  // Inputs that are initializers: their value is that, unless they are given (give_inputs()).
  std::vector<ValueInfo> defaulted_inputs = {};
  std::vector<ValueInfo> outputs;
};

struct Model {
  std::string path;  // for messages
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets;  // domain -> version; "" is ai.onnx
  Subgraph graph;
  std::vector<std::string> external_files;  // that its tensors were read from
  // To be printed: what import made of something that no tensor holds.
  std::vector<std::string> notes;
};

// Format and constant shape of a value. `constant` is there when the value is known at compile
// time (weights, folded shape arithmetic).
struct TypedValue {
  Format format = Format::kF32;
  Shape dims;
  std::shared_ptr<const Tensor> constant;
};

}  // namespace tessera::model

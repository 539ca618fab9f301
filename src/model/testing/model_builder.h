// Small ONNX models for tests, in a few lines:
//
//   const auto model = ModelBuilder(13)
//                          .input("x", Format::kF32, {1, 3, 8, 8})
//                          .initializer("w", Tensor::zeros(Format::kF32, {4, 3, 3, 3}))
//                          .node("Conv", {"x", "w"}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}})
//                          .output("y")
//                          .model();
//
// Nothing is checked here, so that wrong models can be built too; what the calls cannot say is
// written straight into proto().
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "arith/tensor.h"
#include "base/result.h"
#include "model/import.h"
#include "model/model.h"

namespace tessera::model::testing {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Strings = std::vector<std::string>;

class ModelBuilder {
 public:
  explicit ModelBuilder(std::int64_t opset = 17);

  // -1 is an open dimension.
  ModelBuilder& input(const std::string& name, Format format, const Shape& dims);
  // Dimensions by name ("batch") or number ("3").
  ModelBuilder& open_input(const std::string& name, Format format, const Strings& dims);
  ModelBuilder& output(const std::string& name);
  ModelBuilder& output(const std::string& name, Format format, const Shape& dims);
  // As raw_data.
  ModelBuilder& initializer(const std::string& name, const Tensor& tensor);
  // `attributes` may hold every kind but graphs; those follow with subgraph().
  ModelBuilder& node(const std::string& op_type, const Strings& inputs, const Strings& outputs,
                     const Attributes& attributes = {}, const std::string& name = "");
  // Gives the last node an attribute that is the graph of `body`.
  ModelBuilder& subgraph(const std::string& attribute, const ModelBuilder& body);
  // The last node's operator is one of `domain`, which the model imports at `version`.
  ModelBuilder& domain(const std::string& domain, std::int64_t version = 1);
  // The last node's attribute is what the call of the function gives as `to`.
  ModelBuilder& refer(const std::string& attribute, const std::string& to);
  // A function "acme.NAME", local to the model: the nodes of `body`, at its opsets. The model
  // imports "acme" at version 1.
  ModelBuilder& function(const std::string& name, const Strings& inputs, const Strings& outputs,
                         const ModelBuilder& body, const Strings& attributes = {});
  // Gives the last function an attribute with a default.
  ModelBuilder& default_attribute(const std::string& name, const AttributeValue& value);

  onnx::ModelProto& proto() { return proto_; }
  onnx::GraphProto& graph() { return *proto_.mutable_graph(); }
  onnx::NodeProto& last_node() { return *graph().mutable_node(graph().node_size() - 1); }

  std::string bytes() const { return proto_.SerializeAsString(); }
  // Imported under the name "test.onnx".
  Result<Model> model(const ImportLimits& limits = {}) const;

 private:
  onnx::ModelProto proto_;
};

// The element type number of `format` in an ONNX file.
std::int32_t onnx_type(Format format);

// The tensor as ONNX writes it, with raw_data.
onnx::TensorProto tensor_proto(const std::string& name, const Tensor& tensor);

}  // namespace tessera::model::testing

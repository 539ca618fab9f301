// Small models for this folder's tests, put together by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/build.h"
#include "graph/constants.h"
#include "model/model.h"

namespace tessera::graph::testing {

// A model of one opset, f32 input "x" and output "y" unless more are added.
class TestModel {
 public:
  explicit TestModel(std::int64_t opset = 13) {
    model_.path = "test";
    model_.ir_version = 8;
    model_.opsets[""] = opset;
    model_.graph.name = "test";
  }
  TestModel& input(const std::string& name, const Shape& dims, Format format = Format::kF32) {
    model_.graph.inputs.push_back(info(name, dims, format));
    return *this;
  }
  TestModel& output(const std::string& name, const Shape& dims, Format format = Format::kF32) {
    model_.graph.outputs.push_back(info(name, dims, format));
    return *this;
  }
  // Of the shape and format that are inferred.
  TestModel& output(const std::string& name) {
    model_.graph.outputs.push_back({.name = name, .dims = {}, .has_format = false});
    return *this;
  }
  TestModel& constant(const std::string& name, const Shape& dims, std::vector<double> values,
                      Format format = Format::kF32) {
    values.resize(static_cast<std::size_t>(element_count(dims)), values.back());
    model_.graph.initializers[name] = *constant_from_reals(format, dims, values);
    return *this;
  }
  TestModel& node(const std::string& type, std::vector<std::string> inputs,
                  std::vector<std::string> outputs, model::Attributes attributes = {}) {
    model_.graph.nodes.push_back({type + "_" + outputs[0], type, "", std::move(inputs),
                                  std::move(outputs), std::move(attributes)});
    return *this;
  }
  const model::Model& model() const { return model_; }

 private:
  static model::ValueInfo info(const std::string& name, const Shape& dims, Format format) {
    model::ValueInfo value{name, format, true, {}};
    for (const std::int64_t dim : dims) value.dims.push_back({dim, ""});
    return value;
  }
  model::Model model_;
};

// The graph of a model in the f16 profile.
inline Result<Graph> build_f16(const TestModel& model) { return build(model.model(), {}); }

// The kinds of the nodes in order, as "conv elementwise move".
inline std::string kinds(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    text += (text.empty() ? "" : " ") + std::string(node_kind_name(node.kind()));
  }
  return text;
}

}  // namespace tessera::graph::testing

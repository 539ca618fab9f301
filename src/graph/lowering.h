// The state of lowering a model: ONNX values by name on one side, the graph's tensors on the other.
//
//   ONNX value "x" (f32) ──value("x")──► tensor in the vector format, ready for a processor node
//                        ──onnx_value("x")──► tensor in the ONNX format, ready for a host step
//
// Inside the graph a float value (f32, f16, bf16) is a vector in the graph's vector format; every
// other value keeps its ONNX format. Conversions are inserted where a side asks for the other
// form, once per tensor. Constants keep their ONNX format until the pass `number_formats`. A value
// without elements is a constant, whatever produces it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/build_options.h"
#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/graph.h"
#include "model/infer.h"
#include "model/model.h"

namespace tessera::graph {

class Lowering;

// One ONNX node with what is needed to lower it.
struct Op {
  Lowering& at;
  const model::Node& node;
  std::int64_t opset;

  std::size_t input_count() const { return node.inputs.size(); }
  bool has_input(std::size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  // An output that is there and that a node or the graph reads.
  bool has_output(std::size_t i) const;
  const std::string& input(std::size_t i) const { return node.inputs[i]; }
  const std::string& output(std::size_t i) const { return node.outputs[i]; }

  // Shape and ONNX format of an input or output that is there.
  const model::TypedValue& input_type(std::size_t i) const;
  const model::TypedValue& output_type(std::size_t i) const;
  const Shape& input_dims(std::size_t i) const { return input_type(i).dims; }
  const Shape& output_dims(std::size_t i) const { return output_type(i).dims; }
  // The value if it is known at compile time, else null. Null also if the input is absent.
  Constant constant(std::size_t i) const;

  bool has_attribute(const std::string& name) const { return node.attributes.count(name) != 0; }
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  float real(const std::string& name, float otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::vector<std::int64_t> integer_list(const std::string& name,
                                         const std::vector<std::int64_t>& otherwise = {}) const;
  std::vector<float> real_list(const std::string& name) const;
};

// What a lowering function did: emitted processor nodes for every output, or left the node to the
// host for a stated reason (then it has emitted nothing that an output needs).
struct Lowered {
  std::string host_reason;  // empty: done
  static Lowered done() { return {}; }
  static Lowered host(std::string reason) { return {std::move(reason)}; }
};
using LowerFunction = Lowered (*)(Op& op);

class Lowering {
 public:
  // The three outlive the lowering.
  Lowering(const model::Model& model, const model::InferredModel& inferred,
           const BuildOptions& options);

  const model::TypedValue& type(const std::string& value) const;
  // The value if it is known at compile time, else null.
  Constant known(const std::string& value) const;
  Format vector_format() const { return graph_.vector_format; }
  const MatrixFormat& matrix_format() const { return options_.matrix; }
  // Of integers that products of quantised models take.
  std::int32_t quantised_bytes() const { return options_.quantised_bytes; }
  std::int64_t opset(const std::string& domain) const;

  // The format a value of ONNX format `format` has inside the graph.
  Format inner_format(Format format) const;

  // The ONNX node that produces a value, or null; the nodes that read it, one entry per use.
  const model::Node* producer(const std::string& value) const;
  const std::vector<const model::Node*>& consumers(const std::string& value) const;
  bool is_graph_output(const std::string& value) const;
  // Nodes that a neighbour has lowered together with itself.
  void claim(const model::Node& node) { claimed_.insert(&node); }
  bool is_claimed(const model::Node& node) const { return claimed_.count(&node) != 0; }

  // Tensors for an ONNX value.
  TensorId value(const std::string& name);
  TensorId onnx_value(const std::string& name);
  // A tensor in another format, by an element-wise identity.
  TensorId in_format(TensorId id, Format format, const std::string& origin);

  TensorId constant(const std::string& name, Constant value);
  // The same for nodes that make the same value of one of the model's: those that name it alike share it.
  TensorId shared_constant(const std::string& name, Constant value);
  TensorId scalar(const std::string& name, double value, Format format = Format::kF32);

  // A node with one new tensor as output. `op` gives names: node and tensor are "NODE.suffix".
  TensorId emit(const Op& op, const std::string& suffix, std::vector<TensorId> inputs,
                NodeAttributes attributes, Format format, const Shape& dims);
  // A node that produces output `index` of the operator, in its inner format.
  void emit_output(const Op& op, std::size_t index, std::vector<TensorId> inputs,
                   NodeAttributes attributes);
  // A node that produces the ONNX value `value` (used where several nodes are lowered together).
  void emit_value(const Op& op, const std::string& value, std::vector<TensorId> inputs,
                  NodeAttributes attributes);
  // `id` under other dims (as many elements); nothing is emitted if they are equal.
  TensorId emit_reshape(const Op& op, const std::string& suffix, TensorId id, const Shape& dims);
  // Output `index` has the elements of `id` in the same order.
  void emit_output_reshape(const Op& op, std::size_t index, TensorId id);
  // More ONNX nodes that the node emitted last stands for.
  void add_last_origins(const std::vector<std::string>& names) {
    add_origins(graph_.nodes.back().origins, names);
  }
  void emit_host_step(const Op& op, const std::string& reason);

  const TensorInfo& tensor(TensorId id) const { return graph_.tensor(id); }

  void add_input(const std::string& name);
  // Makes the graph's outputs: conversion to the caller's format, the caller's names.
  void finish_outputs(const std::vector<std::string>& names);
  Graph take() { return std::move(graph_); }

 private:
  TensorId finished_output(const std::string& name);

  const model::Model& model_;
  const model::InferredModel& inferred_;
  const BuildOptions& options_;
  Graph graph_;
  Editor editor_;
  std::map<std::string, TensorId> shared_constants_;
  std::map<std::string, TensorId> values_;          // inner form
  std::map<std::string, TensorId> onnx_constants_;  // constants for host steps
  std::map<std::pair<TensorId, Format>, TensorId> conversions_;
  std::map<std::string, const model::Node*> producers_;
  std::map<std::string, std::vector<const model::Node*>> consumers_;
  std::set<std::string> output_names_;
  std::set<const model::Node*> claimed_;
};

// axis counted from the end if negative, as 0 .. rank-1.
std::int64_t positive_axis(std::int64_t axis, std::size_t rank);

}  // namespace tessera::graph

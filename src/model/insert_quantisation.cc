#include "model/insert_quantisation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace tessera::model {
namespace {

std::int64_t integer_attribute(const Node& node, const std::string& name, std::int64_t otherwise) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return otherwise;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  return value != nullptr ? *value : otherwise;
}

class Inserter {
 public:
  explicit Inserter(const Model& model) : model_(model) {
    for (const auto& [name, tensor] : model.graph.initializers) {
      constants_[name] = &tensor;
      names_.insert(name);
    }
    for (const Node& node : model.graph.nodes) {
      names_.insert(node.name);
      names_.insert(node.outputs.begin(), node.outputs.end());
      if (node.op_type != "Constant" || !node.domain.empty()) continue;
      const auto value = node.attributes.find("value");
      if (value == node.attributes.end()) continue;
      if (const auto* tensor = std::get_if<Tensor>(&value->second)) {
        constants_[node.outputs[0]] = tensor;
      }
    }
    for (const ValueInfo& input : model.graph.inputs) names_.insert(input.name);
  }

  // Whether the node is a product of floats whose weights are known; then the axis of its output
  // channels in them.
  bool is_product(const Node& node, std::int64_t& axis) const {
    if (!node.domain.empty() || node.inputs.size() < 2) return false;
    const auto weights = constants_.find(node.inputs[1]);
    if (weights == constants_.end() || weights->second->format != Format::kF32) return false;
    if (constants_.contains(node.inputs[0])) return false;
    const std::size_t rank = weights->second->dims.size();
    if (node.op_type == "Conv") {
      axis = 0;
      return rank == 3 || rank == 4;
    }
    axis = 1;
    if (node.op_type == "MatMul") return rank == 2;
    if (node.op_type != "Gemm" || integer_attribute(node, "transA", 0) != 0) return false;
    if (integer_attribute(node, "transB", 0) != 0) axis = 0;
    return rank == 2;
  }

  Model run(const std::map<std::string, ValueRange>& ranges) {
    Model result = model_;
    result.graph.nodes.clear();
    for (const Node& node : model_.graph.nodes) {
      Node product = node;
      std::int64_t axis = 0;
      if (is_product(node, axis)) {
        const auto range = ranges.find(node.inputs[0]);
        if (range != ranges.end()) {
          product.inputs[0] = quantised_input(node.inputs[0], range->second, result.graph);
          product.inputs[1] = quantised_weights(node.inputs[1], axis, result.graph);
        }
      }
      result.graph.nodes.push_back(std::move(product));
    }
    if (!done_.empty()) raise_opset(result);
    return result;
  }

 private:
  // QuantizeLinear is from opset 10 on, in which the meaning of three operators changed: a Slice
  // has its bounds as inputs.
  void raise_opset(Model& model) {
    std::int64_t& opset = model.opsets[""];
    auto& nodes = model.graph.nodes;
    const bool other = std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
      return node.op_type == "TopK" || node.op_type == "Upsample";
    });
    if (opset >= 10 || other) return;
    opset = 10;
    for (Node& node : nodes) {
      if (node.op_type != "Slice") continue;
      for (const char* name : {"starts", "ends", "axes"}) {
        const auto found = node.attributes.find(name);
        if (found == node.attributes.end()) continue;
        const auto* list = std::get_if<std::vector<std::int64_t>>(&found->second);
        if (list == nullptr) continue;
        const std::vector<std::int64_t> values = *list;
        node.inputs.push_back(
            add_constant<std::int64_t>(model.graph, unique(node.name + "." + name), Format::kI64,
                                       {static_cast<std::int64_t>(values.size())}, values));
        node.attributes.erase(found);
      }
    }
  }

  std::string unique(const std::string& name) {
    std::string result = name;
    for (int i = 2; !names_.insert(result).second; ++i) result = name + "_" + std::to_string(i);
    return result;
  }

  template <typename T>
  static std::string add_constant(Subgraph& graph, const std::string& name, Format format,
                                  const Shape& dims, const std::vector<T>& values) {
    Tensor tensor = Tensor::zeros(format, dims);
    std::copy(values.begin(), values.end(), tensor.as<T>().begin());
    graph.initializers[name] = std::move(tensor);
    return name;
  }

  void add_node(Subgraph& graph, const std::string& type, std::vector<std::string> inputs,
                const std::string& output, std::int64_t axis) {
    Node node{.name = unique(output + "." + type),
              .op_type = type,
              .domain = "",
              .inputs = std::move(inputs),
              .outputs = {output},
              .attributes = {}};
    if (axis >= 0) node.attributes["axis"] = axis;
    graph.nodes.push_back(std::move(node));
  }

  // The same for every product that reads it.
  std::string quantised_input(const std::string& x, const ValueRange& range, Subgraph& graph) {
    const auto found = done_.find(x);
    if (found != done_.end()) return found->second;
    const float lowest = std::min(range.lowest, 0.0f);
    const float highest = std::max(range.highest, 0.0f);
    const float scale = highest > lowest ? (highest - lowest) / 255.0f : 1.0f;
    const auto zero =
        static_cast<std::uint8_t>(std::clamp(std::nearbyint(-lowest / scale), 0.0f, 255.0f));
    const std::string scale_name =
        add_constant<float>(graph, unique(x + ".scale"), Format::kF32, {}, {scale});
    const std::string zero_name =
        add_constant<std::uint8_t>(graph, unique(x + ".zero_point"), Format::kU8, {}, {zero});
    const std::string integers = unique(x + ".quantised");
    const std::string reals = unique(x + ".dequantised");
    add_node(graph, "QuantizeLinear", {x, scale_name, zero_name}, integers, -1);
    add_node(graph, "DequantizeLinear", {integers, scale_name, zero_name}, reals, -1);
    return done_[x] = reals;
  }

  std::string quantised_weights(const std::string& w, std::int64_t axis, Subgraph& graph) {
    const std::string key = w + "#" + std::to_string(axis);
    const auto found = done_.find(key);
    if (found != done_.end()) return found->second;
    const Tensor& weights = *constants_.at(w);
    const auto values = weights.as<float>();
    const std::int64_t channels = weights.dims[static_cast<std::size_t>(axis)];
    std::int64_t inner = 1;
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < weights.dims.size(); ++i) {
      inner *= weights.dims[i];
    }
    const auto channel_of = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % channels);
    };
    std::vector<float> scales(static_cast<std::size_t>(channels), 0.0f);
    for (std::size_t i = 0; i < values.size(); ++i) {
      scales[channel_of(i)] = std::max(scales[channel_of(i)], std::abs(values[i]));
    }
    for (float& scale : scales) scale = scale > 0 ? scale / 127.0f : 1.0f;
    std::vector<std::int8_t> integers;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float q = std::nearbyint(values[i] / scales[channel_of(i)]);
      integers.push_back(static_cast<std::int8_t>(std::clamp(q, -127.0f, 127.0f)));
    }
    const std::string data = add_constant<std::int8_t>(graph, unique(w + ".quantised"), Format::kI8,
                                                       weights.dims, integers);
    const std::string scale =
        add_constant<float>(graph, unique(w + ".scale"), Format::kF32, {channels}, scales);
    const std::string zeros =
        add_constant<std::int8_t>(graph, unique(w + ".zero_point"), Format::kI8, {channels},
                                  std::vector<std::int8_t>(static_cast<std::size_t>(channels), 0));
    const std::string reals = unique(w + ".dequantised");
    add_node(graph, "DequantizeLinear", {data, scale, zeros}, reals, axis);
    return done_[key] = reals;
  }

  const Model& model_;
  std::map<std::string, const Tensor*> constants_;
  std::set<std::string> names_;
  std::map<std::string, std::string> done_;  // what stands for a value now
};

}  // namespace

std::vector<std::string> quantisable_inputs(const Model& model) {
  const Inserter inserter(model);
  std::vector<std::string> inputs;
  for (const Node& node : model.graph.nodes) {
    std::int64_t axis = 0;
    if (!inserter.is_product(node, axis)) continue;
    if (std::find(inputs.begin(), inputs.end(), node.inputs[0]) == inputs.end()) {
      inputs.push_back(node.inputs[0]);
    }
  }
  return inputs;
}

Model insert_quantisation(const Model& model, const std::map<std::string, ValueRange>& ranges) {
  return Inserter(model).run(ranges);
}

}  // namespace tessera::model

#include "model/contrib/expand_contrib.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <string_view>

#include "model/contrib/contrib_names.h"
#include "model/contrib/operators.h"
#include "model/import_message.h"

namespace tessera::model {
namespace {

using contrib::Body;
using contrib::Operators;

constexpr std::string_view kDomain = "com.microsoft";
// Of the functions, which no file has.
constexpr const char* kWritten = "com.microsoft.written";

const Operators& operators() {
  static const Operators all = [] {
    Operators result = contrib::quantised_operators();
    result.merge(contrib::fused_operators());
    result.merge(contrib::attention_operators());
    return result;
  }();
  return all;
}

constexpr std::string_view kMachineLearning = "ai.onnx.ml";

const Operators& learned_operators() {
  static const Operators all = contrib::machine_learning_operators();
  return all;
}

// The standard has them in the same words.
constexpr std::array<std::string_view, 2> kSameInStandard = {"QuantizeLinear", "DequantizeLinear"};

class Expansion {
 public:
  Expansion(onnx::ModelProto& model, std::int64_t opset) : model_(model), opset_(opset) {
    for (const onnx::FunctionProto& function : model.functions()) {
      local_.emplace(function.domain(), function.name());
    }
  }

  Status run() {
    const int functions = model_.functions_size();
    TESSERA_RETURN_IF_ERROR(visit_all(*model_.mutable_graph()->mutable_node()));
    for (int i = 0; i < functions; ++i) {
      TESSERA_RETURN_IF_ERROR(visit_all(*model_.mutable_functions(i)->mutable_node()));
      if (written_ > 0) import(*model_.mutable_functions(i)->mutable_opset_import());
    }
    if (written_ > 0) import(*model_.mutable_opset_import());
    return {};
  }

 private:
  Status visit_all(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    for (onnx::NodeProto& node : nodes) TESSERA_RETURN_IF_ERROR(visit(node));
    return {};
  }

  Status visit(onnx::NodeProto& node) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (!attribute.has_g()) continue;
      TESSERA_RETURN_IF_ERROR(visit_all(*attribute.mutable_g()->mutable_node()));
    }
    if (!is_meant(node)) return {};
    for (const std::string_view same : kSameInStandard) {
      if (node.op_type() == same) {
        node.set_domain("");
        return {};
      }
    }
    const std::string_view domain = node.domain() == kMachineLearning ? kMachineLearning : kDomain;
    const Operators& known = domain == kMachineLearning ? learned_operators() : operators();
    const auto found = known.find(node.op_type());
    if (found == known.end()) return {};
    if (domain == kMachineLearning && node.op_type() == "ZipMap") make_tensors_of_maps(node);
    Body body(node, opset_);
    for (const int input : found->second.inputs) {
      if (body.has(input)) continue;
      return invalid_model("{}: operator of {} without its input {}",
                           node_label(node.name(), node.op_type()), domain, input);
    }
    if (const contrib::Refusal refusal = found->second.write(body); !refusal.empty()) {
      return unsupported("{}: operator of {} with {}", node_label(node.name(), node.op_type()),
                         domain, refusal);
    }
    const std::string name = fmt::format("{}_{}", node.op_type(), written_++);
    *model_.add_functions() = body.function(kWritten, name);
    node.set_domain(kWritten);
    node.set_op_type(name);
    node.clear_attribute();
    return {};
  }

  // Maps from a class to its score, one for each row, are the tensor that they are made of.
  void make_tensors_of_maps(const onnx::NodeProto& node) {
    for (onnx::ValueInfoProto& output : *model_.mutable_graph()->mutable_output()) {
      if (node.output_size() == 0 || output.name() != node.output(0)) continue;
      output.clear_type();
      output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    }
    auto& described = *model_.mutable_graph()->mutable_value_info();
    for (int i = described.size(); i-- > 0;) {
      if (node.output_size() > 0 && described[i].name() == node.output(0)) {
        described.DeleteSubrange(i, 1);
      }
    }
  }

  // Some tools write two of them into the domain of the standard, the one before the standard had it.
  bool is_meant(const onnx::NodeProto& node) const {
    if (local_.contains({node.domain(), node.op_type()})) return false;
    if (node.domain() == kDomain || node.domain() == kMachineLearning) return true;
    if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
    constexpr std::int64_t kSinceLayerNormalization = 17;
    return node.op_type() == "SimplifiedLayerNormalization" ||
           node.op_type() == "SkipSimplifiedLayerNormalization" ||
           node.op_type() == "SkipLayerNormalization" ||
           (node.op_type() == "LayerNormalization" && opset_ < kSinceLayerNormalization);
  }

  static void import(google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
    onnx::OperatorSetIdProto& added = *imports.Add();
    added.set_domain(kWritten);
    added.set_version(1);
  }

  onnx::ModelProto& model_;
  const std::int64_t opset_;
  std::set<std::pair<std::string, std::string>> local_;  // functions of the file
  int written_ = 0;
};

}  // namespace

Status expand_contrib_operators(onnx::ModelProto& model, std::int64_t opset) {
  return Expansion(model, opset).run();
}

std::vector<std::string> machine_learning_operators() {
  std::vector<std::string> names;
  for (const auto& [name, write] : learned_operators()) names.push_back(name);
  return names;
}

std::vector<std::string> contrib_operators() {
  std::vector<std::string> names;
  for (const auto& [name, write] : operators()) names.push_back(name);
  return names;
}

}  // namespace tessera::model

#include "model/contrib/expand_contrib.h"

#include <fmt/format.h>

#include <algorithm>
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
    result.merge(contrib::grouped_query_operators());
    result.merge(contrib::layout_operators());
    result.merge(contrib::packed_operators());
    result.merge(contrib::spectral_operators());
    return result;
  }();
  return all;
}

constexpr std::string_view kMachineLearning = "ai.onnx.ml";

const Operators& learned_operators() {
  static const Operators all = contrib::machine_learning_operators();
  return all;
}

const Operators& former() {
  static const Operators all = contrib::removed_operators();
  return all;
}

// The standard has them in the same words.
constexpr std::array<std::string_view, 2> kSameInStandard = {"QuantizeLinear", "DequantizeLinear"};

// Of an operator, the attribute with texts that it gives, and that with whole numbers in their place.
struct TextLabels {
  std::string_view op_type, texts, numbers;
};
constexpr std::array<TextLabels, 4> kTextLabels = {{
    {"LabelEncoder", "values_strings", "values_int64s"},
    {"LinearClassifier", "classlabels_strings", "classlabels_ints"},
    {"SVMClassifier", "classlabels_strings", "classlabels_ints"},
    {"TreeEnsembleClassifier", "classlabels_strings", "classlabels_int64s"},
}};

class Expansion {
 public:
  Expansion(onnx::ModelProto& model, std::int64_t opset, std::vector<std::string>& notes)
      : model_(model), opset_(opset), notes_(notes) {
    for (const onnx::FunctionProto& function : model.functions()) {
      local_.emplace(function.domain(), function.name());
    }
  }

  Status run() {
    const int functions = model_.functions_size();
    for (const onnx::TensorProto& tensor : model_.graph().initializer()) {
      add_constant(tensor.name(), tensor);
    }
    for (const onnx::NodeProto& node : model_.graph().node()) {
      const bool is_one = node.op_type() == "Constant" && node.output_size() == 1;
      if (!is_one || node.attribute_size() != 1 || !node.attribute(0).has_t()) continue;
      add_constant(node.output(0), node.attribute(0).t());
    }
    for (const auto& input : model_.graph().input()) facts_.inputs.insert(input.name());
    settle();
    declare(model_.graph().input());
    declare(model_.graph().value_info());
    declare(model_.graph().output());
    TESSERA_RETURN_IF_ERROR(visit_all(*model_.mutable_graph()->mutable_node()));
    facts_ = {};  // names of a function are its own
    for (int i = 0; i < functions; ++i) {
      TESSERA_RETURN_IF_ERROR(visit_all(*model_.mutable_functions(i)->mutable_node()));
      if (written_ > 0) import(*model_.mutable_functions(i)->mutable_opset_import());
    }
    if (written_ > 0) import(*model_.mutable_opset_import());
    return {};
  }

 private:
  void add_constant(const std::string& name, const onnx::TensorProto& tensor) {
    facts_.constants.emplace(name, &tensor);
    std::vector<std::string>& lengths = facts_.declared[name];
    for (const std::int64_t length : tensor.dims()) lengths.push_back(std::to_string(length));
  }
  void declare(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values) {
    for (const onnx::ValueInfoProto& value : values) {
      std::vector<std::string> lengths;
      for (const auto& length : value.type().tensor_type().shape().dim()) {
        lengths.push_back(length.has_dim_value() ? std::to_string(length.dim_value())
                                                 : length.dim_param());
      }
      if (!lengths.empty()) facts_.declared.emplace(value.name(), std::move(lengths));
    }
  }

  // What follows from constants and from shapes alone.
  void settle() {
    for (const auto& [name, tensor] : facts_.constants) facts_.settled.insert(name);
    for (const onnx::NodeProto& node : model_.graph().node()) {
      const auto is_settled = [&](const std::string& name) {
        return name.empty() || facts_.settled.contains(name);
      };
      const bool of_shape = node.op_type() == "Shape" || node.op_type() == "Size";
      if (!of_shape && (node.input_size() == 0 || !std::ranges::all_of(node.input(), is_settled))) {
        continue;
      }
      facts_.settled.insert(node.output().begin(), node.output().end());
    }
  }

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
    const Operators& known = domain == kMachineLearning ? learned_operators()
                             : is_removed(node)         ? former()
                                                        : operators();
    const auto found = known.find(node.op_type());
    if (found == known.end()) return {};
    if (domain == kMachineLearning && node.op_type() == "ZipMap") {
      redeclare(node, onnx::TensorProto::FLOAT);  // maps from a class to its score
    }
    if (domain == kMachineLearning) count_labels(node);
    Body body(node, opset_, facts_);
    for (const int input : found->second.inputs) {
      if (body.has(input)) continue;
      return invalid_model("{}: operator of {} without its input {}",
                           node_label(node.name(), node.op_type()), domain, input);
    }
    if (const contrib::Refusal refusal = found->second.write(body); !refusal.empty()) {
      return unsupported("{}: operator of {} with {}", node_label(node.name(), node.op_type()),
                         domain, refusal);
    }
    if (node.op_type().ends_with("EmbedLayerNormalization") && node.output_size() > 1) {
      facts_.declared.emplace(node.output(1), std::vector<std::string>{""});  // a length a sequence
    }
    const std::string name = fmt::format("{}_{}", node.op_type(), written_++);
    *model_.add_functions() = body.function(kWritten, name);
    node.set_domain(kWritten);
    node.set_op_type(name);
    node.clear_attribute();
    return {};
  }

  // Output 0 is a tensor of that type whatever the model says.
  void redeclare(const onnx::NodeProto& node, onnx::TensorProto::DataType type) {
    if (node.output_size() == 0) return;
    for (onnx::ValueInfoProto& output : *model_.mutable_graph()->mutable_output()) {
      if (output.name() != node.output(0)) continue;
      output.clear_type();
      output.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    }
    auto& described = *model_.mutable_graph()->mutable_value_info();
    for (int i = described.size(); i-- > 0;) {
      if (described[i].name() == node.output(0)) described.DeleteSubrange(i, 1);
    }
  }

  // A list of texts that the node gives one of becomes 0, 1, 2, ...
  void count_labels(onnx::NodeProto& node) {
    const auto of = std::ranges::find(kTextLabels, node.op_type(), &TextLabels::op_type);
    if (of == kTextLabels.end()) return;
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() != of->texts || attribute.strings_size() == 0) continue;
      notes_.push_back(fmt::format("{}: labels that are text come as their places in the list {}",
                                   node_label(node.name(), node.op_type()), listed(attribute)));
      for (int i = 0; i < attribute.strings_size(); ++i) attribute.add_ints(i);
      attribute.clear_strings();
      attribute.set_name(std::string(of->numbers));
      attribute.set_type(onnx::AttributeProto::INTS);
      redeclare(node, onnx::TensorProto::INT64);
    }
  }
  static std::string listed(const onnx::AttributeProto& texts) {
    constexpr int kShown = 8;
    std::string list;
    for (int i = 0; i < std::min(kShown, texts.strings_size()); ++i) {
      list += fmt::format("{}'{}'", i == 0 ? "" : ", ", texts.strings(i));
    }
    const int rest = texts.strings_size() - kShown;
    return rest > 0 ? fmt::format("{} and {} more", list, rest) : list;
  }

  // Some tools write two of them into the domain of the standard, the one before the standard had it.
  bool is_meant(const onnx::NodeProto& node) const {
    if (local_.contains({node.domain(), node.op_type()})) return false;
    if (node.domain() == kDomain || node.domain() == kMachineLearning) return true;
    if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
    if (is_removed(node)) return true;
    constexpr std::int64_t kSinceLayerNormalization = 17;
    return node.op_type() == "SimplifiedLayerNormalization" ||
           node.op_type() == "SkipSimplifiedLayerNormalization" ||
           node.op_type() == "SkipLayerNormalization" ||
           (node.op_type() == "LayerNormalization" && opset_ < kSinceLayerNormalization);
  }

  static bool is_removed(const onnx::NodeProto& node) {
    return (node.domain().empty() || node.domain() == "ai.onnx") &&
           former().contains(node.op_type());
  }

  static void import(google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
    onnx::OperatorSetIdProto& added = *imports.Add();
    added.set_domain(kWritten);
    added.set_version(1);
  }

  onnx::ModelProto& model_;
  const std::int64_t opset_;
  std::vector<std::string>& notes_;
  contrib::Facts facts_;
  std::set<std::pair<std::string, std::string>> local_;  // functions of the file
  int written_ = 0;
};

std::vector<std::string> names_of(const Operators& all) {
  std::vector<std::string> names;
  for (const auto& [name, write] : all) names.push_back(name);
  return names;
}

}  // namespace

Status expand_contrib_operators(onnx::ModelProto& model, std::int64_t opset,
                                std::vector<std::string>& notes) {
  return Expansion(model, opset, notes).run();
}

std::vector<std::string> machine_learning_operators() { return names_of(learned_operators()); }
std::vector<std::string> contrib_operators() { return names_of(operators()); }
std::vector<std::string> former_operators() { return names_of(former()); }

}  // namespace tessera::model

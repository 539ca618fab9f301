// One call of a function that is local to a model, written out: see import_function.h.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"

namespace tessera::model {

using FunctionKey = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

struct Function {
  const onnx::FunctionProto* proto = nullptr;  // outlives this
  FunctionKey key;
  std::set<std::string> attributes;                      // those without a default
  std::map<std::string, onnx::AttributeProto> defaults;  // of the others
  std::map<std::string, std::int64_t> opsets;            // domain -> version
  std::int64_t nodes = 0;                                // with those of its graphs
};

Result<Function> read_function(const onnx::FunctionProto& proto);
// Which function a node calls, if there is one of that key.
FunctionKey function_key(const onnx::NodeProto& node);

// Names that no value and no node of the model has.
class FunctionNames {
 public:
  explicit FunctionNames(const onnx::GraphProto& graph);
  // `wanted`, with "_2", "_3", ... behind it where that is taken.
  std::string fresh(const std::string& wanted);

 private:
  void take_down(const onnx::GraphProto& graph);
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> copies_;
};

// An operator of a function's body means the same in the model's opset, or it is refused.
class OpsetCheck {
 public:
  // `model` gets the domains that only functions import.
  explicit OpsetCheck(std::map<std::string, std::int64_t>& model) : model_(model) {}
  Status check(const Function& function, const onnx::NodeProto& node);
  // The model takes an Identity, which is the same from opset 1 on.
  void need_identity() { model_.emplace("", 13); }

 private:
  std::map<std::string, std::int64_t>& model_;
};

// Names of a body, or of a graph in it, and what they are called in the model.
class FunctionScope {
 public:
  explicit FunctionScope(const FunctionScope* outer) : outer_(outer) {}
  bool define(const std::string& name, const std::string& in_model) {
    return names_.emplace(name, in_model).second;
  }
  const std::string* here(const std::string& name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : &found->second;
  }
  const std::string* find(const std::string& name) const {
    const std::string* found = here(name);
    return found != nullptr || outer_ == nullptr ? found : outer_->find(name);
  }

 private:
  const FunctionScope* outer_;
  std::unordered_map<std::string, std::string> names_;
};

class FunctionBody {
 public:
  // All outlive the object.
  FunctionBody(const Function& function, const onnx::NodeProto& call, FunctionNames& names,
               OpsetCheck& opsets)
      : function_(function), call_(call), names_(names), opsets_(opsets), scope_(nullptr) {}

  // The body's nodes with the model's names, of `bytes_max` bytes at most.
  Result<std::vector<onnx::NodeProto>> write(const std::map<FunctionKey, Function>& functions,
                                             std::int64_t bytes_max);

 private:
  Status check_call() const;
  Status define_inputs();
  Status define_outputs();
  Status define_values();
  void add_copies(std::vector<onnx::NodeProto>& nodes) const;
  Status spend(const google::protobuf::Message& message);
  Status rewrite(onnx::NodeProto& node, const FunctionScope& scope, std::size_t index);
  Status rewrite_values(onnx::NodeProto& node, const FunctionScope& scope) const;
  Status rewrite_attributes(onnx::NodeProto& node, const FunctionScope& scope);
  Status rewrite_graph(onnx::GraphProto& graph, const FunctionScope& outer);
  Result<const onnx::AttributeProto*> referred(const onnx::AttributeProto& attribute) const;
  std::string in_call(std::string_view name) const;

  const Function& function_;
  const onnx::NodeProto& call_;
  FunctionNames& names_;
  OpsetCheck& opsets_;
  const std::map<FunctionKey, Function>* functions_ = nullptr;
  FunctionScope scope_;
  std::int64_t bytes_left_ = 0;
  std::map<std::string, std::string> results_;  // output of the function -> value of the model
  // (value, its copy): results that the body does not make just once.
  std::vector<std::pair<std::string, std::string>> copies_;
};

}  // namespace tessera::model

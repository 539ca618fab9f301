// The body of one call of an operator of com.microsoft, written with operators of the standard: a function of the
// model, which is then written out like any other (import_function.h).
//
//   Body body(call, opset);
//   const std::string sum = body.node("Add", {body.in(0), body.in(1)});
//   body.output(0, body.node("Erf", {sum}));
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tessera::model::contrib {

using Value = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>;
inline constexpr std::int64_t kFloat = onnx::TensorProto::FLOAT;
// What is known of the model's values, by their names.
struct Facts {
  std::map<std::string, const onnx::TensorProto*> constants;
  // The lengths that the model states: "16", the name of an open one, "" for none.
  std::map<std::string, std::vector<std::string>> declared;
  std::set<std::string> settled;  // that constants and the shapes of values decide
  std::set<std::string> inputs;   // of the model
};
using Settings = std::vector<std::pair<std::string, Value>>;

class Body {
 public:
  // `call` and `facts` outlive the body; `opset` is the model's of the standard.
  Body(const onnx::NodeProto& call, std::int64_t opset, const Facts& facts);

  std::int64_t opset() const { return opset_; }
  // Whether input `i` is given, and its name here, "" if it is not.
  bool has(int i) const;
  std::string in(int i) const;
  int inputs() const { return call_.input_size(); }
  // Input `i` if it is a constant of the model, perhaps without its bytes; else null.
  const onnx::TensorProto* stored(int i) const;
  // Whether input `i` is known once the shapes of the model's inputs are.
  bool is_settled(int i) const;
  bool is_input(int i) const;  // of the model
  // Whether somebody takes output `i`.
  bool wants(int i) const;
  // What the model states of the lengths of input or output `i`, axis by axis; empty: nothing.
  std::vector<std::string> stated_input(int i) const;
  std::vector<std::string> stated_output(int i) const;
  // Attributes of the call.
  bool says(const std::string& attribute) const;
  std::int64_t integer(const std::string& attribute, std::int64_t otherwise) const;
  float real(const std::string& attribute, float otherwise) const;
  std::string text(const std::string& attribute, const std::string& otherwise) const;
  std::vector<std::int64_t> integers(const std::string& attribute) const;
  std::vector<float> reals(const std::string& attribute) const;
  std::vector<std::string> texts(const std::string& attribute) const;

  // Adds a node, and gives its output.
  std::string node(const std::string& op_type, const std::vector<std::string>& inputs,
                   const Settings& settings = {});
  std::vector<std::string> nodes(const std::string& op_type, const std::vector<std::string>& inputs,
                                 int outputs, const Settings& settings = {});
  // The same with attributes of the call, those of `names` that it has.
  std::string node_like_call(const std::string& op_type, const std::vector<std::string>& inputs,
                             std::initializer_list<const char*> names);
  std::vector<std::string> nodes_like_call(const std::string& op_type,
                                           const std::vector<std::string>& inputs, int outputs,
                                           std::initializer_list<const char*> names);
  // What one of the two gives, which write nodes here and give an output; nothing else may read what they write.
  std::string either(const std::string& condition, const std::function<std::string()>& then,
                     const std::function<std::string()>& otherwise);
  std::string constant(onnx::TensorProto tensor);
  // Constants: a list of whole numbers, a scalar one, and a float in the format of `like`.
  std::string list(const std::vector<std::int64_t>& values);
  std::string whole(std::int64_t value);
  std::string number(float value, const std::string& like);

  // What the standard writes differently from version to version.
  std::string mean(const std::string& x);  // over the last axis, which stays with one element
  std::string total(const std::string& x, std::int64_t axis);  // which goes
  std::vector<std::string> split(const std::string& x, std::int64_t axis,
                                 const std::vector<std::int64_t>& sizes);
  std::vector<std::string> halves(const std::string& x);  // along the last axis
  std::string cast(const std::string& x, std::int64_t data_type);
  std::string reshaped(const std::string& x, const std::vector<std::int64_t>& dims);
  std::string transposed(const std::string& x, const std::vector<std::int64_t>& permutation);
  std::string length(const std::string& x, std::int64_t axis);  // int64, one element

  // Output `i` is `value`.
  void output(int i, const std::string& value);

  // Moves what was written to a function of this name.
  onnx::FunctionProto function(const std::string& domain, const std::string& name);

 private:
  const onnx::AttributeProto* find(const std::string& attribute) const;
  onnx::AttributeProto branch(const char* name, const std::function<std::string()>& write);
  onnx::NodeProto& add(const std::string& op_type, const std::vector<std::string>& inputs);

  const onnx::NodeProto& call_;
  const std::int64_t opset_;
  const Facts& facts_;
  onnx::FunctionProto function_;
  // Where nodes go: the function, or a branch.
  google::protobuf::RepeatedPtrField<onnx::NodeProto>* written_ = function_.mutable_node();
  int values_ = 0;
};

}  // namespace tessera::model::contrib

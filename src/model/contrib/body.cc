#include "model/contrib/body.h"

#include <algorithm>
#include <utility>

namespace tessera::model::contrib {
namespace {

std::string input_name(int i) { return "in" + std::to_string(i); }
std::string output_name(int i) { return "out" + std::to_string(i); }

void set(const Value& value, onnx::AttributeProto& attribute) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&value)) {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(*text);
  } else {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t one : std::get<std::vector<std::int64_t>>(value)) {
      attribute.add_ints(one);
    }
  }
}

}  // namespace

Body::Body(const onnx::NodeProto& call, std::int64_t opset, const Facts& facts)
    : call_(call), opset_(opset), facts_(facts) {}

bool Body::has(int i) const { return i < call_.input_size() && !call_.input(i).empty(); }
std::string Body::in(int i) const { return has(i) ? input_name(i) : ""; }
const onnx::TensorProto* Body::stored(int i) const {
  const auto found = has(i) ? facts_.constants.find(call_.input(i)) : facts_.constants.end();
  return found == facts_.constants.end() ? nullptr : found->second;
}
bool Body::is_settled(int i) const { return has(i) && facts_.settled.contains(call_.input(i)); }
bool Body::is_input(int i) const { return has(i) && facts_.inputs.contains(call_.input(i)); }
bool Body::wants(int i) const { return i < call_.output_size() && !call_.output(i).empty(); }
std::vector<std::string> Body::stated_input(int i) const {
  const auto found = has(i) ? facts_.declared.find(call_.input(i)) : facts_.declared.end();
  return found == facts_.declared.end() ? std::vector<std::string>{} : found->second;
}
std::vector<std::string> Body::stated_output(int i) const {
  const auto found = wants(i) ? facts_.declared.find(call_.output(i)) : facts_.declared.end();
  return found == facts_.declared.end() ? std::vector<std::string>{} : found->second;
}

const onnx::AttributeProto* Body::find(const std::string& attribute) const {
  const auto found = std::ranges::find(call_.attribute(), attribute, &onnx::AttributeProto::name);
  return found == call_.attribute().end() ? nullptr : &*found;
}
bool Body::says(const std::string& attribute) const { return find(attribute) != nullptr; }
std::int64_t Body::integer(const std::string& attribute, std::int64_t otherwise) const {
  const onnx::AttributeProto* found = find(attribute);
  return found == nullptr ? otherwise : found->i();
}
float Body::real(const std::string& attribute, float otherwise) const {
  const onnx::AttributeProto* found = find(attribute);
  return found == nullptr ? otherwise : found->f();
}
std::string Body::text(const std::string& attribute, const std::string& otherwise) const {
  const onnx::AttributeProto* found = find(attribute);
  return found == nullptr ? otherwise : found->s();
}
std::vector<std::int64_t> Body::integers(const std::string& attribute) const {
  const onnx::AttributeProto* found = find(attribute);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}
std::vector<float> Body::reals(const std::string& attribute) const {
  const onnx::AttributeProto* found = find(attribute);
  if (found == nullptr) return {};
  return {found->floats().begin(), found->floats().end()};
}

std::vector<std::string> Body::texts(const std::string& attribute) const {
  const onnx::AttributeProto* found = find(attribute);
  if (found == nullptr) return {};
  return {found->strings().begin(), found->strings().end()};
}

onnx::NodeProto& Body::add(const std::string& op_type, const std::vector<std::string>& inputs) {
  onnx::NodeProto& node = *written_->Add();
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  while (node.input_size() > 0 && node.input(node.input_size() - 1).empty()) {
    node.mutable_input()->RemoveLast();
  }
  return node;
}

std::vector<std::string> Body::nodes(const std::string& op_type,
                                     const std::vector<std::string>& inputs, int outputs,
                                     const Settings& settings) {
  onnx::NodeProto& node = add(op_type, inputs);
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) {
    names.push_back("v" + std::to_string(values_++));
    node.add_output(names.back());
  }
  for (const auto& [name, value] : settings) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    set(value, attribute);
  }
  return names;
}

std::string Body::node(const std::string& op_type, const std::vector<std::string>& inputs,
                       const Settings& settings) {
  return nodes(op_type, inputs, 1, settings)[0];
}

std::string Body::node_like_call(const std::string& op_type, const std::vector<std::string>& inputs,
                                 std::initializer_list<const char*> names) {
  return nodes_like_call(op_type, inputs, 1, names)[0];
}

std::vector<std::string> Body::nodes_like_call(const std::string& op_type,
                                               const std::vector<std::string>& inputs, int outputs,
                                               std::initializer_list<const char*> names) {
  std::vector<std::string> results = nodes(op_type, inputs, outputs);
  onnx::NodeProto& added = *written_->Mutable(written_->size() - 1);
  for (const char* const name : names) {
    if (const auto* attribute = find(name)) *added.add_attribute() = *attribute;
  }
  return results;
}

onnx::AttributeProto Body::branch(const char* name, const std::function<std::string()>& write) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  attribute.mutable_g()->set_name(name);
  auto* const around = std::exchange(written_, attribute.mutable_g()->mutable_node());
  attribute.mutable_g()->add_output()->set_name(write());
  written_ = around;
  return attribute;
}

std::string Body::either(const std::string& condition, const std::function<std::string()>& then,
                         const std::function<std::string()>& otherwise) {
  onnx::AttributeProto branches[] = {branch("then_branch", then), branch("else_branch", otherwise)};
  std::string output = node("If", {condition});
  for (onnx::AttributeProto& attribute : branches) {
    *written_->Mutable(written_->size() - 1)->add_attribute() = std::move(attribute);
  }
  return output;
}

std::string Body::constant(onnx::TensorProto tensor) {
  std::string output = node("Constant", {});
  onnx::AttributeProto& attribute = *written_->Mutable(written_->size() - 1)->add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  *attribute.mutable_t() = std::move(tensor);
  return output;
}

std::string Body::list(const std::vector<std::int64_t>& values) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  return constant(std::move(tensor));
}

std::string Body::whole(std::int64_t value) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_int64_data(value);
  return constant(std::move(tensor));
}

std::string Body::number(float value, const std::string& like) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_float_data(value);
  const std::string made = constant(std::move(tensor));
  constexpr std::int64_t kSinceCastLike = 15;
  return opset_ < kSinceCastLike ? made : node("CastLike", {made, like});
}

std::string Body::mean(const std::string& x) {
  constexpr std::int64_t kSinceAxesAreAnInput = 18;
  if (opset_ < kSinceAxesAreAnInput) {
    return node("ReduceMean", {x}, {{"axes", std::vector<std::int64_t>{-1}}});
  }
  return node("ReduceMean", {x, list({-1})});
}

std::string Body::total(const std::string& x, std::int64_t axis) {
  constexpr std::int64_t kSinceAxesAreAnInput = 13;
  const std::int64_t keeps = 0;
  if (opset_ < kSinceAxesAreAnInput) {
    return node("ReduceSum", {x}, {{"axes", std::vector<std::int64_t>{axis}}, {"keepdims", keeps}});
  }
  return node("ReduceSum", {x, list({axis})}, {{"keepdims", keeps}});
}

std::vector<std::string> Body::split(const std::string& x, std::int64_t axis,
                                     const std::vector<std::int64_t>& sizes) {
  constexpr std::int64_t kSinceSizesAreAnInput = 13;
  const auto count = static_cast<int>(sizes.size());
  if (opset_ < kSinceSizesAreAnInput) {
    return nodes("Split", {x}, count, {{"axis", axis}, {"split", sizes}});
  }
  return nodes("Split", {x, list(sizes)}, count, {{"axis", axis}});
}

std::vector<std::string> Body::halves(const std::string& x) {
  constexpr std::int64_t kSinceTheirNumberIsSaid = 18;
  Settings settings = {{"axis", std::int64_t{-1}}};
  if (opset_ >= kSinceTheirNumberIsSaid) settings.emplace_back("num_outputs", std::int64_t{2});
  return nodes("Split", {x}, 2, settings);
}

std::string Body::cast(const std::string& x, std::int64_t data_type) {
  return node("Cast", {x}, {{"to", data_type}});
}
std::string Body::reshaped(const std::string& x, const std::vector<std::int64_t>& dims) {
  return node("Reshape", {x, list(dims)});
}
std::string Body::transposed(const std::string& x, const std::vector<std::int64_t>& permutation) {
  return node("Transpose", {x}, {{"perm", permutation}});
}
std::string Body::length(const std::string& x, std::int64_t axis) {
  return node("Gather", {node("Shape", {x}), list({axis})});
}

void Body::output(int i, const std::string& value) {
  add("Identity", {value}).add_output(output_name(i));
}

onnx::FunctionProto Body::function(const std::string& domain, const std::string& name) {
  function_.set_domain(domain);
  function_.set_name(name);
  for (int i = 0; i < call_.input_size(); ++i) function_.add_input(input_name(i));
  for (int i = 0; i < call_.output_size(); ++i) function_.add_output(output_name(i));
  onnx::OperatorSetIdProto& standard = *function_.add_opset_import();
  standard.set_domain("");
  standard.set_version(opset_);
  return std::move(function_);
}

}  // namespace tessera::model::contrib

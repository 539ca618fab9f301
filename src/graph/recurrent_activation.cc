#include "graph/recurrent_activation.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>

#include "arith/unary_functions.h"

namespace tessera::graph {

namespace {

bool is_named(const std::string& name, std::string_view lower) {
  return std::equal(name.begin(), name.end(), lower.begin(), lower.end(),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

// The activation of this name with the parameters that it has of its own; nothing if there is none.
struct NamedActivation {
  Activation activation;
  bool takes_alpha = false, takes_beta = false;
  enum class Form { kFunction, kAffine, kScaledTanh } form = Form::kFunction;
};

std::optional<NamedActivation> find_activation(const std::string& name) {
  using Form = NamedActivation::Form;
  if (is_named(name, "affine")) {  // alpha x + beta
    return NamedActivation{{UnaryFunction::kIdentity, 1.0f, 0.0f}, true, true, Form::kAffine};
  }
  if (is_named(name, "scaledtanh")) {  // alpha tanh(beta x)
    return NamedActivation{{UnaryFunction::kTanh, 1.0f, 1.0f}, true, true, Form::kScaledTanh};
  }
  const UnaryRow* const row = find_recurrent_function(name);
  if (row == nullptr) return std::nullopt;
  const UnaryOperator& onnx = row->onnx;
  return NamedActivation{{row->function, onnx.alpha.value, onnx.beta.value},
                         !onnx.alpha.attribute.empty(),
                         !onnx.beta.attribute.empty()};
}

RecurrentActivation with_parameters(const NamedActivation& named, float alpha, float beta) {
  RecurrentActivation result;
  switch (named.form) {
    case NamedActivation::Form::kAffine:
      result.factor = alpha;
      result.offset = beta;
      break;
    case NamedActivation::Form::kScaledTanh:
      result.activation.function = named.activation.function;
      result.factor = alpha;
      result.inner = beta;
      break;
    case NamedActivation::Form::kFunction:
      result.activation = {named.activation.function, alpha, beta};
  }
  return result;
}

std::vector<std::string> activation_names(const Op& op, std::int64_t directions) {
  const auto found = op.node.attributes.find("activations");
  if (found != op.node.attributes.end()) {
    if (const auto* names = std::get_if<std::vector<std::string>>(&found->second)) return *names;
  }
  std::vector<std::string> names;
  for (std::int64_t d = 0; d < directions; ++d) {
    if (op.node.op_type != "RNN") names.emplace_back("Sigmoid");
    names.emplace_back("Tanh");
    if (op.node.op_type == "LSTM") names.emplace_back("Tanh");
  }
  return names;
}

}  // namespace

std::optional<std::vector<RecurrentActivation>> recurrent_activations(const Op& op,
                                                                      std::int64_t directions) {
  const std::vector<float> alphas = op.real_list("activation_alpha");
  const std::vector<float> betas = op.real_list("activation_beta");
  std::size_t next_alpha = 0;
  std::size_t next_beta = 0;
  std::vector<RecurrentActivation> result;
  for (const std::string& name : activation_names(op, directions)) {
    const auto named = find_activation(name);
    if (!named.has_value()) return std::nullopt;
    float alpha = named->activation.alpha;
    float beta = named->activation.beta;
    // Parameters are listed in order, for those activations that have them.
    if (named->takes_alpha && next_alpha < alphas.size()) alpha = alphas[next_alpha++];
    if (named->takes_beta && next_beta < betas.size()) beta = betas[next_beta++];
    result.push_back(with_parameters(*named, alpha, beta));
  }
  const std::size_t each = op.node.op_type == "LSTM" ? 3 : (op.node.op_type == "GRU" ? 2 : 1);
  if (result.size() != each * static_cast<std::size_t>(directions)) return std::nullopt;
  return result;
}

TensorId apply(Composer& make, const RecurrentActivation& activation, TensorId x, Format format) {
  const bool scaled = activation.factor != 1.0f || activation.offset != 0.0f;
  if (activation.inner != 1.0f) {
    x = make.binary(BinaryFunction::kMultiply, x, make.scalar(activation.inner), Format::kF32);
  }
  x = make.unary(activation.activation, x, scaled ? Format::kF32 : format);
  if (!scaled) return x;
  const bool shifted = activation.offset != 0.0f;
  x = make.binary(BinaryFunction::kMultiply, x, make.scalar(activation.factor),
                  shifted ? Format::kF32 : format);
  if (!shifted) return x;
  return make.binary(BinaryFunction::kAdd, x, make.scalar(activation.offset), format);
}

}  // namespace tessera::graph

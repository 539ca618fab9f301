#include "graph/recurrent_activation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

namespace tessera::graph {

namespace {

enum class Parameters { kNone, kAlpha, kAlphaBeta };

struct Row {
  std::string_view name;  // lower case: names are compared so
  Activation activation;
  Parameters parameters = Parameters::kNone;
};

constexpr auto kRows = std::to_array<Row>({
    {"relu", {UnaryFunction::kRelu, 0, 0}},
    {"tanh", {UnaryFunction::kTanh, 0, 0}},
    {"sigmoid", {UnaryFunction::kSigmoid, 0, 0}},
    {"softsign", {UnaryFunction::kSoftsign, 0, 0}},
    {"softplus", {UnaryFunction::kSoftplus, 0, 0}},
    {"leakyrelu", {UnaryFunction::kLeakyRelu, 0.01f, 0}, Parameters::kAlpha},
    {"thresholdedrelu", {UnaryFunction::kThresholdedRelu, 1.0f, 0}, Parameters::kAlpha},
    {"elu", {UnaryFunction::kElu, 1.0f, 0}, Parameters::kAlpha},
    {"hardsigmoid", {UnaryFunction::kHardSigmoid, 0.2f, 0.5f}, Parameters::kAlphaBeta},
    // alpha x + beta and alpha tanh(beta x)
    {"affine", {UnaryFunction::kIdentity, 1.0f, 0.0f}, Parameters::kAlphaBeta},
    {"scaledtanh", {UnaryFunction::kTanh, 1.0f, 1.0f}, Parameters::kAlphaBeta},
});

const Row* find_row(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* found =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.name == name; });
  return found == kRows.end() ? nullptr : found;
}

RecurrentActivation from_row(const Row& row, float alpha, float beta) {
  RecurrentActivation result;
  if (row.name == "affine") {
    result.factor = alpha;
    result.offset = beta;
  } else if (row.name == "scaledtanh") {
    result.activation.function = row.activation.function;
    result.factor = alpha;
    result.inner = beta;
  } else {
    result.activation = {row.activation.function, alpha, beta};
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
    const Row* row = find_row(name);
    if (row == nullptr) return std::nullopt;
    float alpha = row->activation.alpha;
    float beta = row->activation.beta;
    // Parameters are listed in order, for those activations that have them.
    if (row->parameters != Parameters::kNone && next_alpha < alphas.size()) {
      alpha = alphas[next_alpha++];
    }
    if (row->parameters == Parameters::kAlphaBeta && next_beta < betas.size()) {
      beta = betas[next_beta++];
    }
    result.push_back(from_row(*row, alpha, beta));
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

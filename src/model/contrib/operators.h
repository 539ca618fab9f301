// The operators of com.microsoft and ai.onnx.ml that are known, each with what writes its body.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/contrib/body.h"

namespace tessera::model::contrib {

// Empty: the body is written. Else why this call has none, as "the attribute channels_last = 1".
using Refusal = std::string;
using Write = Refusal (*)(Body&);
struct Operator {
  Write write = nullptr;
  std::vector<int> inputs;  // that must be given
};
using Operators = std::map<std::string, Operator>;

// Of ai.onnx.ml, on numbers: scaling, encoding, linear models, ensembles of trees.
Operators machine_learning_operators();
// 8-bit networks: scales and zero points beside the values.
Operators quantised_operators();
// Activations, normalisations, products and what is fused with them.
Operators fused_operators();
// Attention and what is around it.
Operators attention_operators();
Operators grouped_query_operators();
// Channels that come last, groups, and what the standard has taken over.
Operators layout_operators();
// Tables and weights of few bits, mixtures of experts.
Operators packed_operators();
// Fourier transforms, inverse matrices.
Operators spectral_operators();
// Of ai.onnx before it was stable.
Operators removed_operators();

// The last two axes exchanged, whatever is before them.
std::string exchanged(Body& body, const std::string& x);
Refusal write_crop_and_resize(Body& body);
// Images [N, H, W, C] as [N, C, H, W], and back.
std::string channels_first(Body& body, const std::string& x);
std::string channels_last(Body& body, const std::string& x);

}  // namespace tessera::model::contrib
